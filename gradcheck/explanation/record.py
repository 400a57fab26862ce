"""What somebody's code did, in order: operations, values that left TensorFlow, tapes and what they were asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck.explanation.places import Line


def key(tensor: Any) -> int:
    """What tells a tensor, or a variable by its handle, from all others of a record."""
    return id(handle) if (handle := getattr(tensor, "handle", None)) is not None else id(tensor)


@dataclass(frozen=True)
class RecordedOperation:
    """One operation: its name, tensors and attributes, the line that ran it, and the tapes that recorded it.

    `Const` stands for a value that entered TensorFlow. `backward` is the gradient of an operation that brings its own
    (tf.custom_gradient of `function`, a loaded function). `call` is the derivative that was being taken meanwhile.
    """

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    attrs: Any = ()
    line: Line | None = None
    tapes: frozenset[int] = frozenset()
    call: int | None = None
    backward: Callable[..., Any] | None = None
    function: CustomCall | None = None


@dataclass(frozen=True)
class CustomCall:
    """A call of a function under tf.custom_gradient."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Exit:
    """A tensor whose value left TensorFlow through `method`, such as numpy or __float__."""

    tensor: Any
    method: str
    line: Line | None = None


@dataclass(frozen=True)
class WatchEvent:
    """A tensor or variable that a tape was told to watch, or began to watch by itself when it was read."""

    tape: int
    tensor: Any
    line: Line | None = None


@dataclass(frozen=True)
class TapeChange:
    """A tape begins or ends to record: `change` is "opened", "closed" or "reset"."""

    tape: int
    change: str
    line: Line | None = None


@dataclass(frozen=True)
class DerivativeCall:
    """A tape was asked for a derivative; `number` counts these calls, `position` the events before it.

    `targets` and `sources` are flat, and so are the `results` (one a source) of what came as `result`; None where the
    call raised `error`. `weights` are the output_gradients; so many
    `operations` took the derivative.
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


@dataclass(frozen=True)
class RecordedTape:
    """A GradientTape, and whether it watches the trainable variables that are read while it records."""

    tape: Any
    watches_accessed: bool


Event = RecordedOperation | Exit | WatchEvent | TapeChange | DerivativeCall


@dataclass(frozen=True)
class CodeRecord:
    """The events in order, the tapes by number, and what the code returned or raised.

    `covering` is a persistent tape that recorded everything and watched everything. `functions` says whether a
    tf.function was called, `variables` gives those that were touched, by the keys of their handles.
    """

    events: Sequence[Event]
    tapes: Sequence[RecordedTape]
    inputs: tuple[Any, ...] = ()
    result: Any = None
    error: BaseException | None = None
    covering: Any = None
    functions: bool = False
    variables: dict[int, Any] = field(default_factory=dict)

    @property
    def derivatives(self) -> list[DerivativeCall]:
        """What the tapes were asked for."""
        return [event for event in self.events if isinstance(event, DerivativeCall)]

    @property
    def operations(self) -> list[RecordedOperation]:
        """The operations alone; replays count them in this order."""
        return [event for event in self.events if isinstance(event, RecordedOperation)]


@dataclass(frozen=True)
class Origin:
    """A source: an input by number, a variable, the output (operation, position) of a record, or a tensor made before.

    A variable is moved at the start, unless the code sets it before the tape is opened (`late`); and again after each
    of the assignments `sets` (operation: value) that set it to the same value although it was moved.
    """

    tensor: Any
    value: Any
    input: int | None = None
    variable: Any = None
    output: tuple[int, int] | None = None
    late: bool = False
    sets: Mapping[int, Any] = field(default_factory=dict)

    @property
    def captured(self) -> bool:
        """Whether it is a tensor that was made before the code ran and did not come in as an input."""
        return self.input is None and self.variable is None and self.output is None

    @property
    def at_start(self) -> bool:
        """Whether moving it means to assign a variable before the code runs."""
        return self.variable is not None and not self.late

    @property
    def within(self) -> bool:
        """Whether moving it needs every operation to be watched."""
        return self.captured or self.output is not None or bool(self.sets)


def origin_of(record: CodeRecord, call: DerivativeCall, source: Any) -> Origin:
    """The origin of a source, which may be a variable, a Keras variable or a tensor."""
    if hasattr(source, "handle"):
        return _variable(record, call, source)
    for position, leaf in enumerate(record.inputs):
        if leaf is source:
            return Origin(source, source.numpy(), input=position)
    for position, operation in enumerate(record.operations):
        for index, output in enumerate(operation.outputs):
            if output is source and operation.backward is None:
                return Origin(source, source.numpy(), output=(position, index))
    return Origin(source, source.numpy())


def _variable(record: CodeRecord, call: DerivativeCall, source: Any) -> Origin:
    """A derivative is that at the value which the code gave the variable last, before the tape was opened."""
    own = [
        (number, position, operation)
        for number, (position, operation) in enumerate(_numbered(record, call))
        if operation.inputs and key(operation.inputs[0]) == key(source)
    ]
    opened = _opened(record, call)
    assigned = {number: operation.inputs[1] for number, _, operation in own if operation.name.startswith("Assign")}
    before = [number for number, position, _ in own if number in assigned and position < opened]
    plain = [n for n, position, operation in own if position > opened and operation.name == "AssignVariableOp"]
    reads = [operation.outputs[0] for _, _, operation in own if operation.name == "ReadVariableOp"]
    variable = record.variables.get(key(source), source)
    return Origin(
        source,
        (reads[-1] if reads else variable.read_value()).numpy(),
        variable=variable,
        late=bool(before),
        sets={number: assigned[number].numpy() for number in (*before[-1:], *plain)},
    )


def _numbered(record: CodeRecord, call: DerivativeCall) -> list[tuple[int, RecordedOperation]]:
    """The operations before the call, each with its place among the events."""
    events = record.events[: call.position]
    return [(position, event) for position, event in enumerate(events) if isinstance(event, RecordedOperation)]


def _opened(record: CodeRecord, call: DerivativeCall) -> int:
    """Where among the events the call's tape was first opened."""
    for position, event in enumerate(record.events):
        if isinstance(event, TapeChange) and event.tape == call.tape and event.change == "opened":
            return position
    return 0
