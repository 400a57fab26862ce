"""The way from a source to the targets of a derivative, through operations, variables' states and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf

from gradcheck.diagnosis.record import Event, Exit, Operation, key

READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}
"""Operations that take a variable's handle beside other inputs, or alone, and leave its value alone."""


class Oracle(Protocol):
    """Tells whether an output of an operation depends on the source, if it can."""

    def changed(self, number: int, output: int) -> bool | None: ...


class Structure:
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


def written(operation: Operation) -> list[Any]:
    """The resources whose state the operation may change."""
    if operation.name in READS or len(operation.inputs) < 2:
        return []
    return [tensor for tensor in operation.inputs if tensor.dtype == tf.resource]


def _numbered(events: Sequence[Event]) -> list[tuple[int, Event]]:
    found, number = [], -1
    for event in events:
        number += isinstance(event, Operation)
        found.append((number, event))
    return found


def _forward(numbered: Sequence[tuple[int, Event]], source: int, oracle: Oracle) -> set[int]:
    dependent = {source}
    for number, event in numbered:
        if not isinstance(event, Operation):
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
        if not isinstance(event, Operation):
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
