"""The origin of a source of a derivative, and what has to be done to move it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradcheck.autodiff.sources import variable_of
from gradcheck.tracing.record import (
    CallSource,
    CodeRecord,
    DerivativeCall,
    HostRead,
    RecordedEvent,
    RecordedOperation,
    TapeChange,
    WatchEvent,
    key,
)


def call_source(record: CodeRecord, call: DerivativeCall, tensor: Any, name: str = "") -> CallSource:
    """Return the CallSource of a source of a derivative: a variable, a Keras variable or a tensor."""
    of_kind = _variable_source if hasattr(tensor, "handle") else _tensor_source
    source = of_kind(record, call, tensor, name)
    return replace(source, kept=_kept(source))


def _tensor_source(record: CodeRecord, call: DerivativeCall, tensor: Any, name: str) -> CallSource:
    source = CallSource(record, call, tensor, name, tensor.numpy())
    for position, leaf in enumerate(record.leaves):
        if leaf is tensor:
            return replace(source, input=position)
    for operation in record.operations:
        for index, output in enumerate(operation.outputs):
            if output is tensor and operation.backward is None:
                return replace(source, output=(operation.number, index))
    return source


def _variable_source(record: CodeRecord, call: DerivativeCall, source: Any, name: str) -> CallSource:
    """Return a variable as a source; the derivative is at the value last assigned before the tape was opened."""
    events, count = record.before(call), len(_before_opening(record, call))
    before = [one.number for one in _uses(events[:count], source) if one.variables_written]
    inside = [one.number for one in _uses(events[count:], source) if one.name == "AssignVariableOp"]
    reads = [one.outputs[0] for one in _uses(events, source) if one.name == "ReadVariableOp"]
    variable = record.variables.get(key(source), variable_of(source))
    value = (reads[-1] if reads else variable.read_value()).numpy()
    sets = (*before[-1:], *inside)
    return CallSource(record, call, source, name, value, variable=variable, moved_at_start=not before, sets=sets)


def _before_opening(record: CodeRecord, call: DerivativeCall) -> Sequence[RecordedEvent]:
    """The events before the tape of a derivative was first opened."""
    events = record.before(call)
    changes = (at for at, event in enumerate(events) if isinstance(event, TapeChange) and event.tape == call.tape)
    return events[: next(changes, 0)]


def _uses(events: Sequence[RecordedEvent], variable: Any) -> list[RecordedOperation]:
    """The operations on a variable."""
    operations = (event for event in events if isinstance(event, RecordedOperation) and event.inputs)
    return [one for one in operations if key(one.inputs[0]) == key(variable)]


def _kept(source: CallSource) -> frozenset[int]:
    """The numbers of updates of other variables, before the tape is opened, by values that depend on the source.

    Where the tape watches the source, or such a value comes from another derivative, the dependence is no part of the
    derivative of the tape, as in the alternating steps of a GAN. Otherwise it may be why the tape does not see the
    source.
    """
    moved, watched = key(source.tensor), _watched(source)
    events = _before_opening(source.record, source.call)
    begin = max((e.number for e in events if isinstance(e, RecordedOperation) and e.number in source.sets), default=-1)
    dependent = {moved: False}  # whether the path goes through a derivative
    returning: list[bool] = []  # the same for values that Python read, and may feed back
    kept = set()
    for event in events:
        if isinstance(event, HostRead) and key(event.tensor) in dependent:
            returning.append(dependent[key(event.tensor)])
        if not isinstance(event, RecordedOperation):
            continue
        reached = [dependent[key(one)] for one in event.inputs if key(one) in dependent]
        reached += returning if event.name == "Const" else []
        through = any(reached) or event.derivative is not None
        states = [handle for handle in event.states_written if key(handle) != moved]
        if not reached or event.number <= begin:
            continue
        if states and event.variables_written and (watched or through):
            kept.add(event.number)
        else:
            dependent |= dict.fromkeys(map(key, (*event.outputs, *states)), through)
    return frozenset(kept)


def _watched(source: CallSource) -> bool:
    """Whether the tape watched the source when the derivative was taken."""
    watches = (event for event in source.record.before(source.call) if isinstance(event, WatchEvent))
    return any(one.tape == source.call.tape and key(one.tensor) == key(source.tensor) for one in watches)
