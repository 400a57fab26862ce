"""The way from a source to the targets of a derivative, through operations, variables' states and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager import execute, record
from tensorflow.python.framework import ops

from gradcheck.explanation.interception import DERIVATIVES
from gradcheck.explanation.record import Event, Exit, RecordedOperation, TapeChange, WatchEvent, key

FLAT = {"ArgMax", "ArgMin", "Ceil", "Floor", "Rint", "Round", "TruncateDiv", "FloorDiv"}
"""Operations whose registered gradient is None."""


def registered(name: str) -> bool | None:
    """Whether an operation's type has a gradient; None where nobody registered anything for it."""
    try:
        return ops.gradient_registry.lookup(name) is not None
    except LookupError:
        return None


def passes(operation: RecordedOperation, tensor: Any, numbers: set[int]) -> bool:
    """Whether a gradient comes from outputs of the operation (by their `numbers`) back to one of its inputs."""
    outputs = [operation.outputs[n] for n in numbers if differentiable(operation.outputs[n])]
    if not outputs or not (differentiable(tensor) or tensor.dtype == tf.resource):
        return False
    if operation.name in DERIVATIVES:
        return True
    if operation.backward is None and not registered(operation.name):
        return False
    if not all(hasattr(part, "_numpy") for part in (*operation.inputs, *operation.outputs)):
        return operation.name not in FLAT
    return _answers(operation, tensor, outputs)


def differentiable(tensor: Any) -> bool:
    """Whether a tensor of this dtype can carry a gradient."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype == tf.variant)


def _answers(operation: RecordedOperation, tensor: Any, outputs: list[Any]) -> bool:
    """The operation recorded once more, alone, and its gradient taken."""
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(tensor)
        if operation.backward is not None:
            record.record_operation(operation.name, list(operation.outputs), list(operation.inputs), operation.backward)
        else:
            execute.record_gradient(operation.name, operation.inputs, operation.attrs, list(operation.outputs))
    try:
        return any(tape.gradient(output, tensor) is not None for output in outputs)
    except Exception:  # whatever a gradient raises when it stands alone says nothing about the path
        return True


READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}
"""Operations that take a variable's handle beside other inputs, or alone, and leave its value alone."""


class Oracle(Protocol):
    """Tells whether an output of an operation depends on the source, if it can."""

    def changed(self, number: int, output: int) -> bool | None: ...


class RecordStructure:
    """An oracle that knows nothing, for graphs that cannot be run twice."""

    def changed(self, number: int, output: int) -> bool | None:
        """Nobody knows."""
        return None


@dataclass(frozen=True)
class Paths:
    """The tensors (by key) that depend on the source, and the operations (by number) between it and the targets.

    `hops` gives, for a constant on the way, the exit by which its value left TensorFlow, where that was seen.
    """

    source: int
    dependent: frozenset[int]
    operations: tuple[int, ...]
    hops: dict[int, Exit | None]


def paths(events: Sequence[Event], targets: Sequence[Any], source: Any, oracle: Oracle) -> Paths:
    """Follow the source forward, then the targets back."""
    numbered = _numbered(events)
    dependent = _forward(numbered, key(source), oracle)
    operations, hops = _backward(numbered, {key(target) for target in targets}, key(source), dependent, oracle)
    return Paths(key(source), frozenset(dependent), operations, hops)


def written(operation: RecordedOperation) -> list[Any]:
    """The resources whose state the operation may change."""
    if operation.name in READS or len(operation.inputs) < 2:
        return []
    return [tensor for tensor in operation.inputs if tensor.dtype == tf.resource]


def _numbered(events: Sequence[Event]) -> list[tuple[int, Event]]:
    found, number = [], -1
    for event in events:
        number += isinstance(event, RecordedOperation)
        found.append((number, event))
    return found


def _forward(numbered: Sequence[tuple[int, Event]], source: int, oracle: Oracle) -> set[int]:
    dependent = {source}
    for number, event in numbered:
        if not isinstance(event, RecordedOperation):
            continue
        touched = any(key(tensor) in dependent for tensor in event.inputs)
        for output, tensor in enumerate(event.outputs):
            changed = oracle.changed(number, output)
            if changed or (touched and changed is None):
                dependent.add(key(tensor))
            elif key(tensor) != source:
                dependent.discard(key(tensor))
        for handle in written(event):
            moved = any(key(tensor) in dependent for tensor in event.inputs if tensor is not handle)
            if moved:
                dependent.add(key(handle))
            elif event.name == "AssignVariableOp" and key(handle) != source:
                dependent.discard(key(handle))
    return dependent


def _backward(
    numbered: Sequence[tuple[int, Event]], targets: set[int], source: int, dependent: set[int], oracle: Oracle
) -> tuple[tuple[int, ...], dict[int, Exit | None]]:
    needed, found = {target for target in targets if target in dependent}, []
    hops: dict[int, Exit | None] = {}
    for position in range(len(numbered) - 1, -1, -1):
        number, event = numbered[position]
        if not isinstance(event, RecordedOperation):
            continue
        made = {key(tensor) for tensor in event.outputs} & needed - {source}
        states = {key(handle) for handle in written(event)} & needed
        if not made and not states:
            continue
        inputs = {key(tensor) for tensor in event.inputs} & dependent
        if states and not made and not inputs - states:
            continue
        if not inputs and not any(oracle.changed(number, output) for output in range(len(event.outputs))):
            continue
        found.append(number)
        if not inputs:
            hops[number] = left = _left(numbered[:position], dependent)
            inputs = set() if left is None else {key(left.tensor)}
        elif event.backward is not None:
            needed -= made
        if event.name == "AssignVariableOp":
            needed -= states - {source}
        needed |= inputs
    return tuple(reversed(found)), hops


def _left(numbered: Sequence[tuple[int, Event]], dependent: set[int]) -> Exit | None:
    """The last exit of a value that depends on the source."""
    for _, event in reversed(numbered):
        if isinstance(event, Exit) and key(event.tensor) in dependent:
            return event
    return None


@dataclass(frozen=True)
class Cut:
    """An operation on the path that no gradient comes through.

    `unseen`: the tape did not follow the source when the operation used it. `recorded`: the tape recorded the
    operation.
    """

    number: int
    operation: RecordedOperation
    recorded: bool
    unseen: bool = False


def cuts(events: Sequence[Event], path: Paths, tape: int | None) -> list[Cut]:
    """The cuts for a tape, in order; for None those for a tape that records and watches everything."""
    operations = [event for event in events if isinstance(event, RecordedOperation)]
    return [_spoken(cut, operations, path) for cut in _Follower(path, tape).run(events)]


def _spoken(cut: Cut, operations: Sequence[RecordedOperation], path: Paths) -> Cut:
    """Reading a variable is nothing that a person wrote: the operation that uses what was read."""
    if cut.operation.name != "ReadVariableOp":
        return cut
    (value,) = cut.operation.outputs
    for number in path.operations:
        user = operations[number]
        if number > cut.number and user.tapes == cut.operation.tapes and any(value is one for one in user.inputs):
            return replace(cut, number=number, operation=user)
    return cut


class _Follower:
    """Does what a tape does: keeps the tensors that it follows at all, and those that it can follow to the source."""

    def __init__(self, path: Paths, tape: int | None) -> None:
        self.path, self.tape = path, tape
        self.tracked: set[int] = set()
        self.alive: set[int] = {path.source} if tape is None else set()
        self.on_path = set(path.operations)
        self.makers: dict[int, tuple[int, RecordedOperation]] = {}
        self.forgotten: set[int] = set()
        self.found: list[Cut] = []

    def run(self, events: Sequence[Event]) -> list[Cut]:
        number = -1
        for event in events:
            if isinstance(event, RecordedOperation):
                number += 1
                self._operation(number, event)
            elif isinstance(event, WatchEvent) and event.tape == self.tape:
                self.tracked.add(key(event.tensor))
                self.alive |= {key(event.tensor)} & {self.path.source}
            elif isinstance(event, TapeChange) and event.tape == self.tape and event.change == "reset":
                self.forgotten |= self.alive - {self.path.source}
                self.tracked.clear()
                self.alive.clear()
        return self.found

    def _operation(self, number: int, event: RecordedOperation) -> None:
        recorded = self.tape is None or self.tape in event.tapes
        made = {key(tensor) for tensor in event.outputs}
        if recorded and any(key(tensor) in self.tracked for tensor in event.inputs):
            self.tracked |= made
            self.alive |= made & {self.path.source}
        if number not in self.on_path:
            return
        moving = {key(tensor): tensor for tensor in event.inputs if key(tensor) in self.path.dependent}
        passed = False
        for name, tensor in moving.items():
            if name in self.alive and recorded and self._through(event, tensor):
                passed = True
            elif name in self.alive or name == self.path.source:
                self.found.append(Cut(number, event, recorded, unseen=name not in self.alive))
            elif name in self.forgotten:
                self.found.append(Cut(*self.makers[name], recorded=True))
        if number in self.path.hops:
            self.found.append(Cut(number, event, recorded))
        if passed:
            self.alive |= made & self.path.dependent
            self.makers.update(dict.fromkeys(made, (number, event)))
        elif event.backward is not None:
            self.alive -= made

    def _through(self, event: RecordedOperation, tensor: Any) -> bool:
        numbers = {n for n, output in enumerate(event.outputs) if key(output) in self.path.dependent}
        if not numbers and any(key(handle) in self.path.dependent for handle in written(event)):
            return False
        return passes(event, tensor, numbers)
