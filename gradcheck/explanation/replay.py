"""Somebody's code once more, with its sources moved, up to the derivative that is in question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.state import state_restored
from gradcheck.explanation.interception import (
    functions_run_eagerly,
    host_reads_observed,
    operations_observed,
    tapes_observed,
)
from gradcheck.explanation.paths import written
from gradcheck.explanation.places import Line, called
from gradcheck.explanation.record import CodeRecord, DerivativeCall, Event, Exit, Origin, RecordedOperation, key
from gradcheck.explanation.recorder import CodeRecorder


def idle(record: CodeRecord, call: DerivativeCall) -> dict[int, DerivativeCall]:
    """The calls before this one, by number, whose answers go into nothing that its targets could see.

    Whatever leaves TensorFlow, or goes into a variable, could be seen.
    """
    needed = {key(target) for target in call.targets}
    used: set[int] = set()
    for event in reversed(record.events[: call.position]):
        if isinstance(event, Exit):
            needed.add(key(event.tensor))
        elif isinstance(event, RecordedOperation) and (
            written(event) or any(key(one) in needed for one in event.outputs)
        ):
            needed |= {key(tensor) for tensor in event.inputs}
            used |= set() if event.call is None else {event.call}
        elif isinstance(event, DerivativeCall) and any(key(part) in needed for part in event.results or ()):
            used.add(event.number)
    earlier = record.derivatives[: call.number]
    return {one.number: one for one in earlier if one.error is None and one.number not in used}


class Reached(BaseException):
    """The derivative in question was asked for; not an Exception, so that somebody's code does not catch it."""


@dataclass(frozen=True)
class Code:
    """Somebody's code, its inputs, and the record of its first run."""

    f: Callable[..., Any]
    inputs: tuple[Any, ...]
    record: CodeRecord


@dataclass(frozen=True)
class SourceMove:
    """A source that is moved by `delta` (None: it stays where it is)."""

    origin: Origin
    delta: Any


def replayed(
    code: Code, call: DerivativeCall, moves: Sequence[SourceMove], *, events: bool = False, answer: bool = False
) -> Any:
    """Run the code with moved sources until the call; returns the Replay, whose `target` is None if it never came.

    `events` records all operations on the way, `answer` lets the derivative be computed first.
    """
    moves = [move for move in moves if move.delta is not None]
    replay = Replay(moves, call.number, answer, {} if events else idle(code.record, call))
    whole = events or any(move.origin.within for move in moves)
    leaves = list(code.record.inputs)
    for move in moves:
        if move.origin.input is not None:
            leaves[move.origin.input] = leaves[move.origin.input] + move.delta
    inputs = tf.nest.pack_sequence_as(code.inputs, leaves)
    with state_restored():
        for move in moves:
            if move.origin.at_start:
                move.origin.variable.assign_add(move.delta)
        with replay.watching(whole):
            try:
                called(code.f, inputs)
            except Reached:
                pass
            except Exception as error:  # whatever it is, the code has no value at this point
                replay.error = error
    return replay


class Replay(CodeRecorder):
    """Watches a run in which sources are moved."""

    def __init__(
        self, moves: Sequence[SourceMove], number: int, answer: bool, idle: Mapping[int, DerivativeCall]
    ) -> None:
        super().__init__()
        self.stop, self.answer, self.idle = number, answer, idle
        self.target: Any = None
        self.results: tuple[Any, ...] | None = None
        self.error: Exception | None = None
        self.count = 0
        self.outputs = {m.origin.output: m.delta for m in moves if m.origin.output is not None}
        self.captured = {id(m.origin.tensor): m.origin.tensor + m.delta for m in moves if m.origin.captured}
        self.sets = {number: (value, m.delta) for m in moves for number, value in m.origin.sets.items()}

    @contextmanager
    def watching(self, whole: bool) -> Iterator[None]:
        """Watch the block: the tapes, and if `whole` the operations."""
        with ExitStack() as stack:
            if whole:
                stack.enter_context(operations_observed(self))
                stack.enter_context(host_reads_observed(self))
            else:
                stack.enter_context(functions_run_eagerly())
            stack.enter_context(tapes_observed(self))
            stack.enter_context(self.discreet())
            yield

    def before_operation(self, name: str, inputs: list[Any]) -> list[Any]:
        inputs = super().before_operation(name, inputs)
        return [self.captured.get(id(tensor), tensor) for tensor in inputs] if self.captured else inputs

    def after_operation(self, name: str, inputs: Sequence[Any], outputs: list[Any], attrs: Any) -> list[Any]:
        if not self._elsewhere():
            for position, tensor in enumerate(outputs):
                delta = self.outputs.get((self.count, position))
                if delta is not None:
                    with self._apart():
                        outputs[position] = tensor + delta
            self._shift(inputs)
        return super().after_operation(name, inputs, outputs, attrs)

    def host_read(self, tensor: Any, method: str) -> Any:
        return self.captured.get(id(super().host_read(tensor, method)), tensor)

    def derivative_requested(
        self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]
    ) -> Any:
        if self._elsewhere() or self.call is not None:
            return compute()
        if self.calls != self.stop:
            return self._passed(tape, method, arguments, compute)
        self.target = tuple(tf.nest.flatten(arguments["target"]))
        if self.answer:
            super().derivative_requested(tape, method, arguments, compute)
            (self.results,) = [event.results for event in self.events if isinstance(event, DerivativeCall)][-1:]
        raise Reached

    def _passed(self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[..., Any]) -> Any:
        """A derivative before the one in question; where that does not depend on it, the answer from before will do."""
        known = self.idle.get(self.calls)
        if known is None:
            return super().derivative_requested(tape, method, arguments, compute)
        self.calls += 1
        self.count += known.operations
        if not tape._persistent:
            if tape._recording:
                tape._pop_tape()
            tape._tape = None
        return known.result

    def _shift(self, inputs: Sequence[Any]) -> None:
        value, delta = self.sets.get(self.count, (None, None))
        if delta is not None and np.array_equal(inputs[1]._numpy(), value):
            with self._apart():
                tf.raw_ops.AssignAddVariableOp(resource=inputs[0], value=delta)

    def note(self, event: Event) -> None:
        super().note(event)
        self.count += isinstance(event, RecordedOperation)

    def _line(self) -> Line | None:
        return None

    def _cover(self, tensors: Sequence[Any]) -> None:
        pass
