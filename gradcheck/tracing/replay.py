"""Rerun the user's code with moved sources, up to one of its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates
from gradcheck.autodiff.errors import sentence_of
from gradcheck.tracing.library_functions import LibraryCall
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall, HostRead, RecordedOperation, key
from gradcheck.tracing.recorder import CodeRecorder
from gradcheck.tracing.state import drawn_again, hidden_state, state_restored
from gradcheck.tracing.user_code import call_user_code
from gradcheck.typing import Array

Moves = Sequence[tuple[CallSource, Any]]
"""Sources, and the displacement (a tensor) of each."""


class CallReached(BaseException):
    """The derivative was reached; not an Exception, so that the user's code does not catch it."""


def replayed(
    record: CodeRecord,
    call: DerivativeCall,
    moves: Moves,
    *,
    with_operations: bool = False,
    with_results: bool = False,
) -> Replay:
    """Run the code with moved sources until the call; the Replay's `target` is None if the call is not reached.

    The code may be traced, unless moving a source needs its operations to be observed.

    `with_operations` records all operations up to the call; `with_results` also takes the derivative.
    """
    kept = frozenset().union(*(source.kept for source, _ in moves))
    unused = {} if with_operations else unused_derivatives(record, call, kept)
    replay = Replay(moves, call.number, unused, with_results)
    leaves = list(record.leaves)
    for source, delta in moves:
        if source.input is not None:
            leaves[source.input] = leaves[source.input] + delta
    inputs = tf.nest.pack_sequence_as(record.inputs, leaves)
    # A graph would draw other numbers than the code does.
    with state_restored(), drawn_again(record.drawn) if tf.inside_function() else nullcontext():
        record.accessed.put_back()  # a traced replay leaves its final state
        for source, delta in moves:
            if source.moved_at_start:
                source.variable.assign_add(delta)
        with replay.observing(operations=with_operations or any(source.moved_by_operations for source, _ in moves)):
            try:
                call_user_code(record.f, inputs)
            except CallReached:
                pass
            except Exception as error:  # whatever it is, the code has no value at this point
                replay.error = error
    return replay


def unused_derivatives(
    record: CodeRecord, call: DerivativeCall, kept: Set[int] = frozenset()
) -> dict[int, DerivativeCall]:
    """The earlier calls, by number, whose results the targets of this one cannot depend on.

    Every value that Python reads or that is written to a variable could matter, except in the operations `kept`, which
    write what they wrote before.
    """
    needed = {key(target) for target in call.targets}
    used: set[int] = set()
    for event in reversed(record.before(call)):
        if isinstance(event, HostRead):
            needed.add(key(event.tensor))
        elif isinstance(event, RecordedOperation) and event.number in kept:
            continue
        elif isinstance(event, RecordedOperation) and (
            event.states_written or any(key(one) in needed for one in event.outputs)
        ):
            needed |= {key(tensor) for tensor in event.inputs}
            used |= set() if event.derivative is None else {event.derivative}
        elif isinstance(event, DerivativeCall) and any(key(part) in needed for part in event.results or ()):
            used.add(event.number)
    earlier = record.derivatives[: call.number]
    return {one.number: one for one in earlier if one.error is None and one.number not in used}


class Replay(CodeRecorder):
    """A run with moved sources up to derivative number `stop`: its `target`, and its `results` if requested.

    The `unused` derivatives before it are not taken again.
    """

    def __init__(self, moves: Moves, stop: int, unused: Mapping[int, DerivativeCall], with_results: bool) -> None:
        super().__init__()
        self.target: tuple[Any, ...] | None = None
        self.results: tuple[Any, ...] | None = None
        self.error: Exception | None = None
        self._stop, self._unused, self._with_results = stop, unused, with_results
        self._outputs = {source.output: delta for source, delta in moves if source.output is not None}
        self._captured = {id(source.tensor): source.tensor + delta for source, delta in moves if source.captured}
        self._sets = {number: (source, delta) for source, delta in moves for number in source.sets}
        self._kept = {number: source.record.operations[number] for source, _ in moves for number in source.kept}

    def given(self, name: str, inputs: list[Any]) -> list[Any]:
        kept = None if self.ignores() else self._kept.get(self.operations)
        if kept is not None and kept.name == name and _alike(kept.inputs, inputs):
            return [new if new.dtype == tf.resource else old for old, new in zip(kept.inputs, inputs, strict=True)]
        return [self._captured.get(id(tensor), tensor) for tensor in inputs]

    def made(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        if not self.ignores():
            with self.paused():
                for position, tensor in enumerate(outputs):
                    delta = self._outputs.get((self.operations, position))
                    outputs[position] = tensor if delta is None else tensor + delta
                source, delta = self._sets.get(self.operations, (None, None))
                if source is not None and _same_update(source.record.operations[self.operations], name, inputs):
                    tf.raw_ops.AssignAddVariableOp(resource=inputs[0], value=delta)
        return super().made(name, inputs, outputs, attrs)

    def read(self, tensor: Any, method: str) -> Any:
        return self._captured.get(id(super().read(tensor, method)), tensor)

    def take_derivative(self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
        if self.ignores() or self.derivative is not None:
            return compute()
        if self.target is not None:  # a bare except caught it the first time
            raise CallReached
        if self.derivatives in self._unused:
            return self._passed_over(tape, self._unused[self.derivatives])
        if self.derivatives != self._stop:
            return super().take_derivative(tape, method, arguments, compute)
        self.target = tuple(tf.nest.flatten(arguments["target"]))
        if self._with_results:
            self.results = tuple(tf.nest.flatten(super().take_derivative(tape, method, arguments, compute)))
        raise CallReached

    def _passed_over(self, tape: Any, known: DerivativeCall) -> Any:
        """Return the recorded result of a derivative that the one in question does not depend on."""
        self.derivatives += 1
        self.operations += known.operations
        if not tape._persistent:
            if tape._recording:
                tape._pop_tape()
            tape._tape = None
        return known.result

    def frame(self) -> FrameType | None:
        return None  # the lines of a replay are not needed, and finding them is slow

    def call(self) -> LibraryCall | None:
        return None  # not needed either


def _alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether the tensors have the same dtypes and shapes, so that one operation could take either."""
    return [(one.dtype, one.shape) for one in first] == [(one.dtype, one.shape) for one in second]


def _same_update(recorded: RecordedOperation, name: str, inputs: Sequence[Any]) -> bool:
    """Whether an operation writes the same value to a variable as a recorded one."""
    if recorded.name != name or not _alike(recorded.inputs, inputs):
        return False
    pairs = [(old, new) for old, new in zip(recorded.inputs, inputs, strict=True) if new.dtype != tf.resource]
    return all(np.array_equal(old._numpy(), new._numpy()) for old, new in pairs)


def target_value(targets: Sequence[Any], call: DerivativeCall) -> Array:
    """The elements of the targets, (m,), or for a gradient their sum, weighted by its output_gradients, (1,).

    Complex elements count by their real parts, which are all that `jacobian` and `batch_jacobian` differentiate.
    """
    values = [np.asarray(tf.convert_to_tensor(target).numpy()) for target in targets]
    if call.method != "gradient":
        return np.concatenate([to_coordinates(np.real(value)) for value in values])
    total = 0.0
    for position, value in enumerate(values):
        weight = None if call.weights is None else call.weights[position]
        weights = np.ones_like(value) if weight is None else np.asarray(tf.convert_to_tensor(weight).numpy())
        if weights.shape != value.shape:  # the replay chose other elements, which have no weights
            return np.full(1, np.nan)
        total += float(to_coordinates(weights.astype(value.dtype)) @ to_coordinates(value))
    return np.array([total])


def nondeterminism(record: CodeRecord, call: DerivativeCall) -> str | None:
    """Describe the difference between two runs of the same code; None where they agree."""
    replay = replayed(record, call, [])
    if replay.target is None:
        why = (
            "it came to no such call"
            if replay.error is None
            else f"{type(replay.error).__name__}: {sentence_of(replay.error)}"
        )
        return f"a second run did not get here: {why}"
    if nearly_equal(target_value(call.targets, call), target_value(replay.target, call), call.targets[0].dtype.name):
        return None
    return f"two runs differ: {hidden_state(lambda: replayed(record, call, []))}"


def nearly_equal(first: Array, second: Array, dtype: str) -> bool:
    """Whether two arrays are equal up to rounding in this dtype."""
    largest = float(np.max(np.abs(first), where=np.isfinite(first), initial=1.0))
    slack = 1e3 * ROUNDOFF.get(dtype, 0.0) * largest
    return first.shape == second.shape and np.allclose(first, second, rtol=0.0, atol=slack, equal_nan=True)


@dataclass(frozen=True)
class Move:
    """The relative displacement of all elements of a source: in one direction, or with alternating signs."""

    size: float
    both_ways: bool = False


SMALL_MOVES = (Move(2.0**-7), Move(-(2.0**-6)))
"""Show smooth dependence on a source."""
LARGE_MOVES = tuple(map(Move, (0.3, -0.3, 1.2, -1.2, 4.0, -4.0)))
"""Show dependence in steps."""
MOVES = (*SMALL_MOVES, *LARGE_MOVES)
FAR_MOVES = (*(Move(size, both_ways=True) for size in (1.2, -1.2, 4.0, -4.0, 32.0, -32.0)), Move(32.0), Move(-32.0))
"""Show dependence in steps that are far away, or where some elements grow relative to others, as in an argmax."""


@dataclass(frozen=True)
class Influence:
    """The effect of moving a source: `small`: small moves changed the targets; `large`: any move did.

    `base` are the operations of the first run, `moved` those of replays.
    """

    small: bool
    large: bool
    base: Sequence[RecordedOperation]
    moved: Sequence[Sequence[RecordedOperation]]

    def changed(self, number: int, output: int) -> bool | None:
        """Whether an output of an operation changed; None where that is not known, e.g. behind another branch."""
        before = self.base[number].outputs[output]
        runs = [run[number].outputs[output] for run in self.moved if number < len(run)]
        if not runs or before.dtype in (tf.resource, tf.variant) or not hasattr(before, "_numpy"):
            return None
        first = np.asarray(before._numpy())
        nan = first.dtype.kind in "fc"
        return any(not np.array_equal(first, np.asarray(after._numpy()), equal_nan=nan) for after in runs)


def influence(source: CallSource, moves: Sequence[Move] = MOVES) -> Influence:
    """Move the source, by one move after the other, until the targets of the call change."""
    record, call = source.record, source.call
    base, before = record.operations, target_value(call.targets, call)
    runs: list[Sequence[RecordedOperation]] = []
    for move in moves:
        replay = replayed(record, call, [(source, _delta(source.value, move))], with_operations=True)
        if replay.target is None:
            continue
        moved = (event for event in replay.events if isinstance(event, RecordedOperation))
        alike = takewhile(lambda pair: _shape(pair[0]) == _shape(pair[1]), zip(base, moved, strict=False))
        runs.append([operation for _, operation in alike])
        after, small = target_value(replay.target, call), move in SMALL_MOVES
        overflowed = not small and not np.isfinite(after).all()  # 0 * infinity is no influence
        if not overflowed and not np.array_equal(after, before, equal_nan=True):
            return Influence(small, True, base, runs if small else runs[-1:])
    return Influence(False, False, base, runs[:1])


def _shape(operation: RecordedOperation) -> tuple[str, int]:
    return operation.name, len(operation.outputs)


def _delta(value: Any, move: Move) -> Any:
    array = np.asarray(value)
    return tf.constant(displacement(array, move).astype(array.dtype))


def displacement(array: Array, move: Move) -> Array:
    """The displacement of each element of an array."""
    # Different for each element, or differences of two of them would not change.
    pattern = 1.0 + np.cos(1.0 + np.arange(array.size)).reshape(array.shape) / 4
    if move.both_ways:
        pattern *= np.where(np.cos(2.0 * np.arange(array.size)) < 0, -1.0, 1.0).reshape(array.shape)
    return np.asarray(move.size * pattern * np.maximum(np.abs(array), 0.5))
