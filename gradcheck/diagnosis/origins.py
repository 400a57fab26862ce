"""Where the source of a derivative comes from, which decides how it can be moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradcheck.diagnosis.record import Derivative, Operation, Record, Turn, key


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


def origin_of(record: Record, call: Derivative, source: Any) -> Origin:
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


def _variable(record: Record, call: Derivative, source: Any) -> Origin:
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


def _numbered(record: Record, call: Derivative) -> list[tuple[int, Operation]]:
    """The operations before the call, each with its place among the events."""
    events = record.events[: call.position]
    return [(position, event) for position, event in enumerate(events) if isinstance(event, Operation)]


def _opened(record: Record, call: Derivative) -> int:
    """Where among the events the call's tape was first opened."""
    for position, event in enumerate(record.events):
        if isinstance(event, Turn) and event.tape == call.tape and event.change == "opened":
            return position
    return 0
