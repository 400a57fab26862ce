"""The record of a run of the user's code, in order: operations, values read by Python, tapes and their derivatives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import CodeType
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import execute, record
from tensorflow.python.ops import custom_gradient as tf_custom_gradient

from gradcheck.autodiff.reverse import shaped
from gradcheck.autodiff.sources import variable_of
from gradcheck.result import Cause, OrderResult, Place
from gradcheck.tracing.blame_time import ENDLESS, BlameTime
from gradcheck.tracing.kernels import READING, UPDATES
from gradcheck.tracing.library_functions import LibraryCall
from gradcheck.tracing.operation import CannotRunError, Operation
from gradcheck.tracing.state import UNCHANGED, ChangedState, advances_random_state, draws_at_random, is_random
from gradcheck.tracing.user_code import Line, Stack, at, place_of, quoted


def key(tensor: Any) -> int:
    """Return what identifies a tensor, or a variable by its handle, within a record."""
    return id(handle) if (handle := getattr(tensor, "handle", None)) is not None else id(tensor)


@dataclass(frozen=True)
class RecordedOperation:
    """One operation: its name, tensors and attributes, the line that ran it, and the tapes that recorded it.

    `number` counts the operations of a record. `Const` stands for a value that entered TensorFlow. `backward` is the
    gradient of an operation that brings its own, `custom_gradient` the call under tf.custom_gradient that made it, if
    any, and `began` the number of events before that call; `variables` are those whose values come last among its
    inputs. `derivative` is the number of the derivative that was being taken. `library` is the line of Keras that ran
    it for the line of the user's code, `layer` the name of the layer whose call did, `kind` its public class of Keras,
    `entry` the function of an installed package that this line calls, if that ran it. `inside` names the node of a
    graph, where a function has no other code. `call` is the innermost call of a public function that known defects are
    about. `stack` is the user's code that was running, `codes` the library code inside its innermost line, both
    innermost first.
    """

    number: int
    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    attrs: Any = ()
    line: Line | None = None
    tapes: frozenset[int] = frozenset()
    derivative: int | None = None
    backward: Callable[..., Any] | None = None
    custom_gradient: partial[Any] | None = None
    began: int = 0
    library: Line | None = None
    layer: str | None = None
    kind: str = ""
    entry: str = ""
    variables: tuple[Any, ...] = ()
    inside: str = ""
    call: LibraryCall | None = None
    stack: Stack = ()
    codes: tuple[CodeType, ...] = ()

    @property
    def operation(self) -> Operation:
        """The operation by itself, without tensors."""
        return Operation(self.name, len(self.outputs), self.attrs)

    @property
    def argument_names(self) -> list[str]:
        """Names for its inputs: TensorFlow's own, those of a custom gradient's parameters, else numbers."""
        count = len(self.inputs)
        if self.custom_gradient is None:
            names = [one.name for one in self.operation.arguments]
        else:
            code, own = self.custom_gradient.func.__code__, [one.name.split(":")[0] for one in self.variables]
            names = [*code.co_varnames[: code.co_argcount][: count - len(own)], *own]
        return [*names, *(f"inputs[{i}]" for i in range(len(names), count))][:count]

    @property
    def calls(self) -> Iterator[LibraryCall]:
        """The calls of public functions in which it runs, the innermost first."""
        call = self.call
        while call is not None:
            yield call
            call = call.outer

    @property
    def place(self) -> Place | None:
        """The line that ran it."""
        return place_of(self.line, self.name)

    @property
    def within(self) -> str:
        """The layer, the line of a library and the node of a graph that it runs in, as far as known."""
        layer = self.entry if self.layer is None else f"layer {self.layer}"
        return ",".join(part for part in (layer, at(self.library), self.inside) if part).strip()

    @property
    def quoted(self) -> str:
        """The code that runs it, as part of a sentence."""
        return f"{self.inside}," if self.inside else quoted(self.line)

    @property
    def states_written(self) -> list[Any]:
        """The resources whose state it may change."""
        if self.name in READING or len(self.inputs) < 2:
            return []
        return [tensor for tensor in self.inputs if tensor.dtype == tf.resource]

    @property
    def variables_written(self) -> list[Any]:
        """The handles of the variables that it gives another value."""
        return self.states_written if self.name.startswith(UPDATES) else []

    @property
    def by_keyword(self) -> dict[str, Any]:
        """The tensors and variables that a function under tf.custom_gradient got by keyword, without a gradient.

        Its tapes see the positional arguments alone: without a tensor among these, they record the function itself.
        """
        given = {} if self.custom_gradient is None else self.custom_gradient.keywords
        return {name: one for name, one in given.items() if any(map(_is_value, tf.nest.flatten(one)))}

    @property
    def recomputed(self) -> Callable[..., Any] | None:
        """The function that tf.recompute_grad wraps, if this is its call or that of its gradient."""
        call = self.custom_gradient
        if call is None or not call.func.__qualname__.startswith("recompute_grad."):
            return None
        wrapped: Callable[..., Any] | None = inspect.getclosurevars(call.func).nonlocals.get("f")
        return wrapped

    def alone(self, *watched: Any) -> tf.GradientTape:
        """Return a persistent tape that recorded only this operation, and watches these of its inputs."""
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(watched)
            if self.backward is not None:
                record.record_operation(self.name, list(self.outputs), list(self.inputs), self.backward)
            else:
                execute.record_gradient(self.name, self.inputs, self.attrs, list(self.outputs))
        return tape

    def movable(self, order: int) -> frozenset[int]:
        """The positions of the inputs that `rerun` can replace by other tensors, for derivatives of this order."""
        call = self.custom_gradient
        if call is None:
            return frozenset(range(len(self.inputs)) if self.backward is None else ())
        flat = tf.nest.flatten(call.args)
        values = {position for position, one in enumerate(flat) if _is_value(one)}
        # A second derivative goes through the variable, which is no tensor that could be watched.
        return frozenset(values.union(range(len(flat), len(self.inputs)) if self.variables and order == 1 else ()))

    def rerun(self, inputs: Sequence[Any], *, wide: bool = False) -> list[Any]:
        """Return the outputs for other inputs, `wide` ones in float64, recorded by the open tapes.

        Raises CannotRunError, or what the operation raises.
        """
        # Only eager kernels repeat what ran.
        if tf.inside_function() or (self.backward is not None and self.custom_gradient is None):
            raise CannotRunError(self.name)
        if self.custom_gradient is not None:
            return self._called(self.custom_gradient, inputs)
        return (self.operation.in_float64 if wide else self.operation).run(list(inputs))

    def rerun_if_it_can(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return the outputs for other inputs; None if it cannot run by itself, or raises."""
        try:
            return self.rerun(inputs)
        except Exception:  # from TensorFlow, or a custom gradient's function, which runs once more
            return None

    def _called(self, call: partial[Any], inputs: Sequence[Any]) -> list[Any]:
        """Call the function under tf.custom_gradient with other tensors as its arguments, and in its variables."""
        # TensorFlow converts the positional arguments to tensors, which come first among the inputs; variables follow.
        flat = tf.nest.flatten(call.args)
        given, values = inputs[: len(flat)], inputs[len(flat) :]
        args = tf.nest.pack_sequence_as(
            call.args, [new if _is_value(old) else old for old, new in zip(flat, inputs, strict=False)]
        )
        run = partial(tf_custom_gradient._eager_mode_decorator, call.func, args, call.keywords)
        if not self.variables:
            return list(tf.nest.flatten(run()))
        # The variables are assigned the values, which tapes see as inputs.
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)
        inside = [one for one in given if _is_value(one)]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*inside, *self.variables])
            outputs = list(tf.nest.flatten(run()))

        def backward(*cotangents: Any) -> Any:
            return tape.gradient(outputs, [*inside, *self.variables], output_gradients=list(cotangents))

        with record.stop_recording():
            outside = [tf.identity(output) for output in outputs]
        record.record_operation(self.name, outside, [*inside, *values], backward)
        return outside

    def passes(self, output: Any, tensor: Any) -> bool:
        """Whether a gradient of an output, taken alone, reaches an input; True where that raises."""
        pair = key(output), key(tensor)
        if pair not in self._passed:
            try:
                self._passed[pair] = self.alone(tensor).gradient(output, tensor) is not None
            except Exception:  # an error of the gradient when taken alone says nothing about the path
                self._passed[pair] = True
        return self._passed[pair]

    @cached_property
    def _passed(self) -> dict[tuple[int, int], bool]:
        return {}


def _is_value(argument: Any) -> bool:
    """Whether it is a tensor or a variable."""
    return hasattr(argument, "_numpy") or variable_of(argument) is not None


@dataclass(frozen=True)
class RecordedPullback:
    """One call of a gradient function: its vector-Jacobian product, `parts`, for `cotangents` of the outputs.

    Those `inputs` and `outputs` that the gradient does not read are None. `derivative` is the number of the derivative
    that was being taken. There are no parts where it raised an `error`.
    """

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    cotangents: tuple[Any, ...]
    parts: tuple[Any, ...]
    derivative: int | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class HostRead:
    """Python read the value of a tensor by `method`, such as numpy or __float__."""

    tensor: Any
    method: str
    line: Line | None = None


@dataclass(frozen=True)
class WatchEvent:
    """A tape's `watch` was called with a tensor or variable, or the tape began to watch one that was read."""

    tape: int
    tensor: Any
    line: Line | None = None


@dataclass(frozen=True)
class TapeChange:
    """A tape started or stopped recording, after this many `operations`: `change` is "opened", "closed" or "reset"."""

    tape: int
    change: str
    operations: int
    line: Line | None = None
    stack: Stack = ()


@dataclass(frozen=True)
class DerivativeCall:
    """A call of a tape's gradient, jacobian or batch_jacobian.

    `number` counts these calls, `position` is the number of events before it, `operations` the number of operations
    that taking the derivative ran. `targets` and `sources` are flat, and so are the `results` (one per source) in
    `result`; None where the call raised `error`. `weights` are the output_gradients; `zeros`: zeros were requested
    instead of None. `expressions` are the sources as written in the code, where that can be read.
    """

    number: int
    position: int
    tape: int
    method: str
    targets: tuple[Any, ...]
    sources: tuple[Any, ...]
    weights: tuple[Any, ...] | None = None
    zeros: bool = False
    result: Any = None
    results: tuple[Any, ...] | None = None
    error: Exception | None = None
    line: Line | None = None
    operations: int = 0
    expressions: tuple[str, ...] = ()


RecordedEvent = RecordedOperation | RecordedPullback | HostRead | WatchEvent | TapeChange | DerivativeCall


@dataclass(frozen=True)
class CodeRecord:
    """The events of a run of `f(*inputs)` in order, and what it returned, or raised.

    `covering` is a persistent tape that recorded and watched everything. `calls_functions`: a tf.function was called;
    `variables` are those that were accessed, by the keys of their handles. `replicas` gives the number of replicas, and
    their strategy, that ran unseen in threads of their own, if any. `accessed` is the state that was read or used, as
    it was before, and `changed` the part that the run modified. `expressions` are the code's names of tensors from
    before the run, and of variables, by their keys; `given_at_first` the derivatives and positions of sources that had
    a gradient in the first run, and have none now. `compared`, `wrong`, `causes` and `cotangents` cache results about
    its operations; `time` limits the search.
    """

    events: Sequence[RecordedEvent]
    f: Any = None
    inputs: Sequence[Any] = ()
    result: Any = None
    error: BaseException | None = None
    covering: Any = None
    calls_functions: bool = False
    variables: dict[int, Any] = field(default_factory=dict)
    replicas: str = ""
    accessed: ChangedState = UNCHANGED
    changed: ChangedState = UNCHANGED
    expressions: dict[int, str] = field(default_factory=dict)
    given_at_first: frozenset[tuple[int, int]] = frozenset()
    compared: dict[Any, OrderResult] = field(default_factory=dict, compare=False, repr=False)
    wrong: set[tuple[int, int]] = field(default_factory=set, compare=False, repr=False)
    causes: set[tuple[Cause, Place | None]] = field(default_factory=set, compare=False, repr=False)
    cotangents: dict[Any, dict[int, Any]] = field(default_factory=dict, compare=False, repr=False)
    time: BlameTime = field(default_factory=partial(BlameTime, ENDLESS), compare=False, repr=False)

    @cached_property
    def leaves(self) -> tuple[Any, ...]:
        """The inputs, flat."""
        return tuple(tf.nest.flatten(self.inputs))

    @cached_property
    def derivatives(self) -> list[DerivativeCall]:
        """The derivatives that were taken."""
        return [event for event in self.events if isinstance(event, DerivativeCall)]

    @cached_property
    def drawn(self) -> list[tuple[str, Any]]:
        """The outputs of the operations that draw random numbers, with the names of these."""
        drawing = (one for one in self.operations if advances_random_state(one.name))
        return [(one.name, output) for one in drawing for output in one.outputs if output.dtype != tf.resource]

    @cached_property
    def operations(self) -> list[RecordedOperation]:
        """The operations alone, indexed by number."""
        return [event for event in self.events if isinstance(event, RecordedOperation)]

    @property
    def with_gradients(self) -> frozenset[tuple[int, int]]:
        """The (derivative, source position) pairs that have a gradient."""
        return frozenset(
            (call.number, position)
            for call in self.derivatives
            for position, result in enumerate(call.results or ())
            if result is not None
        )

    @cached_property
    def draws(self) -> list[str]:
        """The names of the operations that drew random numbers from a state of their own."""
        return sorted({operation.name for operation in self.operations if draws_at_random(operation.name)})

    @property
    def held(self) -> ChangedState:
        """The state, other than sources, that random code changed before the last derivative; replays put it back."""
        if not (self.changed.generators or any(is_random(operation.name) for operation in self.operations)):
            return UNCHANGED
        last = self.derivatives[-1] if self.derivatives else None
        events = self.events if last is None else self.before(last)
        written = {key(one) for e in events if isinstance(e, RecordedOperation) for one in e.states_written}
        sources = {key(source) for call in self.derivatives for source in call.sources}
        return replace(
            self.changed, variables=tuple(pair for pair in self.changed.variables if id(pair[0]) in written - sources)
        )

    def ancestors(self, tensor: Any) -> list[RecordedOperation]:
        """The operations that computed a tensor, in order."""
        needed, found = {key(tensor)}, []
        for operation in reversed(self.operations):
            if any(key(output) in needed for output in operation.outputs):
                needed |= {key(one) for one in operation.inputs}
                found.append(operation)
        return found[::-1]

    def before(self, call: DerivativeCall) -> Sequence[RecordedEvent]:
        """The events before a derivative was taken."""
        return self.events[: call.position]


@dataclass(frozen=True, eq=False)
class CallSource:
    """A source of a derivative, with its name and origin.

    The origin is an input, by its position, a variable, an operation's `output` (operation, position), or from before
    the run. `value` is its value, or, for a variable of which only rows were read since its update, an earlier one: it
    sets the size of the moves.

    A variable is moved at the start, unless the code sets it before the tape is opened, and again after each operation
    in `sets` (by number) that sets it to the same value although it was moved. The operations `kept` update other
    variables, before the tape is opened, by a value that depends on the source: they write what they wrote in the
    record, although the source was moved.
    """

    record: CodeRecord
    call: DerivativeCall
    tensor: Any
    name: str
    value: Any
    input: int | None = None
    variable: Any = None
    output: tuple[int, int] | None = None
    moved_at_start: bool = False
    sets: tuple[int, ...] = ()
    kept: frozenset[int] = frozenset()

    @property
    def captured(self) -> bool:
        """Whether it is a tensor from before the run that is not an input."""
        return self.input is None and self.variable is None and self.output is None

    @property
    def moved_by_operations(self) -> bool:
        """Whether moving it requires every operation to be observed."""
        return self.captured or self.output is not None or bool(self.sets) or bool(self.kept)

    @cached_property
    def position(self) -> int:
        """Its place among the sources of the call."""
        return [key(one) for one in self.call.sources].index(key(self.tensor))

    @property
    def given(self) -> Any:
        """The gradient that the call returned."""
        return None if self.call.results is None else shaped(self.call.results[self.position], self.tensor)

    @property
    def dtype(self) -> tf.DType:
        """The dtype of its tensor."""
        return tf.as_dtype(self.tensor.dtype)
