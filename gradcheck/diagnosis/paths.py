"""The path from a source to the targets of a derivative, through operations, state and Python, and its breaks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from gradcheck.tracing.hooks import DERIVATIVES
from gradcheck.tracing.kernels import GRADIENT_NONE, OF_SHAPES
from gradcheck.tracing.record import (
    CodeRecord,
    DerivativeCall,
    HostRead,
    RecordedEvent,
    RecordedOperation,
    TapeChange,
    WatchEvent,
    key,
)
from gradcheck.tracing.user_code import Line, function_around, header, names_on, only_shown, statements_on

Changed = Callable[[int, int], bool | None]
"""Whether an output of an operation (both by number) depends on the source; None where it is not known."""

NUMBERS = "biufc"
"""The kinds of NumPy's dtypes that are numbers."""
HOST_NAMES = {"np", "numpy", "math", "float", "int", "bool", "complex", "round"}
"""Names of functions that compute with NumPy or Python numbers."""
STATIC = {"shape", "dtype", "ndim", "size"}
"""Attributes of a tensor that do not depend on its value."""


def has_gradient(name: str) -> bool | None:
    """Whether an operation's type has a gradient; None where nothing is registered for it."""
    try:
        return ops.gradient_registry.lookup(name) is not None
    except LookupError:
        return None


def differentiable(tensor: Any) -> bool:
    """Whether a tensor of this dtype can carry a gradient."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype == tf.variant)


def gradient_passes(operation: RecordedOperation, tensor: Any, dependent: Set[int]) -> bool:
    """Whether a gradient comes back to one of its inputs from those outputs that depend on the source."""
    outputs = [output for output in operation.outputs if key(output) in dependent and differentiable(output)]
    if not outputs or not (differentiable(tensor) or tensor.dtype == tf.resource):
        return False
    if operation.name in DERIVATIVES:
        return True
    if operation.backward is None and not has_gradient(operation.name):
        return False
    if not all(hasattr(part, "_numpy") for part in (*operation.inputs, *operation.outputs)):
        return operation.name not in GRADIENT_NONE
    return any(operation.passes(output, tensor) for output in outputs)


@dataclass(frozen=True)
class DependencyPath:
    """The tensors (by key) that depend on the source, and the operations (by number) between it and the targets.

    `round_trips` gives, for a constant on the path, the host reads through which its value may have left TensorFlow,
    the last one first, if any was seen; `captured`, for a custom gradient, the dependent tensors that its function uses
    although they are not among its inputs.
    """

    source: int
    dependent: frozenset[int]
    operations: tuple[int, ...]
    round_trips: dict[int, tuple[HostRead, ...]]
    captured: dict[int, frozenset[int]] = field(default_factory=dict)


def _dependent(events: Sequence[RecordedEvent], source: int, changed: Changed) -> set[int]:
    """The tensors and states that depend on the source."""
    dependent = {source}
    for event in events:
        if not isinstance(event, RecordedOperation):
            continue
        reached = bool({*map(key, event.inputs), *_by_keyword(event)} & dependent)
        for output, tensor in enumerate(event.outputs):
            change = changed(event.number, output)
            if change or (reached and change is None):
                dependent.add(key(tensor))
            elif key(tensor) != source:
                dependent.discard(key(tensor))
        for handle in event.states_written:
            if any(key(tensor) in dependent for tensor in event.inputs if tensor is not handle):
                dependent.add(key(handle))
            elif event.name == "AssignVariableOp" and key(handle) != source:
                dependent.discard(key(handle))
    return dependent


def dependency_path(
    events: Sequence[RecordedEvent], targets: Sequence[Any], tensor: Any, changed: Changed
) -> DependencyPath:
    """Follow the source forward, then the targets back."""
    source = key(tensor)
    dependent = _dependent(events, source, changed)
    needed = {key(target) for target in targets} & dependent
    found: list[int] = []
    round_trips: dict[int, tuple[HostRead, ...]] = {}
    captured: dict[int, frozenset[int]] = {}
    for position, event in reversed(list(enumerate(events))):
        if not isinstance(event, RecordedOperation):
            continue
        made = {key(tensor) for tensor in event.outputs} & needed - {source}
        states = {key(handle) for handle in event.states_written} & needed
        inputs = {key(tensor) for tensor in event.inputs} & dependent
        if made and _by_keyword(event) & dependent and _passed_over(event, events[:position]):
            continue
        if made and event.custom_gradient is not None:
            captured[event.number] = _captured(event, events[event.began : position]) & dependent
            inputs |= captured[event.number]
        if not (made or states) or (states and not made and not inputs - states):
            continue
        if not inputs and not any(changed(event.number, output) for output in range(len(event.outputs))):
            continue
        found.append(event.number)
        if not inputs and event.custom_gradient is None:
            reads = [one for one in reversed(events[:position]) if isinstance(one, HostRead)]
            round_trips[event.number] = cuts = _cuts([one for one in reads if key(one.tensor) in dependent], event)
            inputs = {key(cut.tensor) for cut in cuts[:1]}
        elif inputs and event.backward is not None:
            needed -= made
        if event.name == "AssignVariableOp":
            needed -= states - {source}
        needed |= inputs
    return DependencyPath(source, frozenset(dependent), tuple(reversed(found)), round_trips, captured)


def path_of_values(record: CodeRecord, call: DerivativeCall, tensor: Any) -> DependencyPath:
    """The path by the structure of the code alone: values pass all operations but those that read only shapes."""

    def changed(number: int, output: int) -> bool | None:
        return False if record.operations[number].name in OF_SHAPES else None

    return dependency_path(record.before(call), call.targets, tensor, changed)


def _passed_over(custom: RecordedOperation, before: Sequence[RecordedEvent]) -> bool:
    """Whether tapes differentiate the function under a tf.custom_gradient itself: they track no positional argument.

    They do not see into what tf.recompute_grad wraps.
    """
    tracked: set[int] = set()
    for event in before:
        if isinstance(event, WatchEvent):
            tracked.add(key(event.tensor))
        elif isinstance(event, RecordedOperation) and not tracked.isdisjoint(map(key, event.inputs)):
            tracked |= {key(output) for output in event.outputs if differentiable(output)}
    return custom.recomputed is None and tracked.isdisjoint(map(key, custom.inputs))


def _by_keyword(custom: RecordedOperation) -> set[int]:
    return {key(tensor) for one in custom.by_keyword.values() for tensor in tf.nest.flatten(one)}


def _captured(custom: RecordedOperation, inside: Sequence[RecordedEvent]) -> frozenset[int]:
    """The captured tensors of a function under tf.custom_gradient."""
    operations = [event for event in inside if isinstance(event, RecordedOperation)]
    given = {key(tensor) for tensor in custom.inputs}
    # A variable that the function uses is read once more for the tape.
    given |= {key(one.inputs[0]) for one in operations if one.name == "ReadVariableOp" and key(one.outputs[0]) in given}
    used, made = {key(tensor) for tensor in custom.outputs}, set(map(key, custom.outputs))
    for operation in reversed(operations):
        outputs = {key(tensor) for tensor in operation.outputs}
        made |= outputs
        if outputs & used:
            used |= {key(tensor) for tensor in operation.inputs} - given
    return frozenset(used - made)


def _cuts(reads: Sequence[HostRead], constant: RecordedOperation) -> tuple[HostRead, ...]:
    """The reads through which the value of a constant most likely left TensorFlow; only the first on each line.

    Likely reads are on a line that assigns a name which the constant's line uses; returned the value unchanged; are not
    only printed or branched on.
    """

    def likely(read: HostRead) -> tuple[bool, bool, bool]:
        named = names_on(read.line, ast.Store) & names_on(constant.line, ast.Load)
        return bool(named), _came_back(read.tensor, constant), not only_shown(read.line)

    ranks = [likely(read) for read in reads]
    best = [read for read, rank in zip(reads, ranks, strict=True) if rank == max(ranks)]
    return tuple({read.line: read for read in reversed(best)}.values())[::-1]


def _came_back(tensor: Any, constant: RecordedOperation) -> bool:
    """Whether the elements of a tensor are among those of a constant."""
    if not all(hasattr(one, "_numpy") for one in (tensor, *constant.outputs)):
        return False
    read, back = (np.asarray(one._numpy()) for one in (tensor, constant.outputs[0]))
    return (
        read.dtype.kind in NUMBERS and back.dtype.kind in NUMBERS and bool(np.isin(read.astype(back.dtype), back).all())
    )


@dataclass(frozen=True)
class PathBreak:
    """An operation on the path that passes no gradient.

    `unwatched`: the tape did not follow the source when the operation used it. `recorded`: the tape recorded the
    operation.
    """

    operation: RecordedOperation
    recorded: bool
    unwatched: bool = False


def path_breaks(events: Sequence[RecordedEvent], path: DependencyPath, tape: int | None) -> list[PathBreak]:
    """The breaks for a tape, in order; for None those for a tape that records and watches everything."""
    operations = [event for event in events if isinstance(event, RecordedOperation)]
    return [_at_first_use(found, operations, path) for found in _TapeModel(path, tape).run(events)]


def _at_first_use(found: PathBreak, operations: Sequence[RecordedOperation], path: DependencyPath) -> PathBreak:
    """Move a break from the read of a variable, which has no line of its own, to the operation that uses the value."""
    read = found.operation
    if read.name != "ReadVariableOp":
        return found
    users = (operations[number] for number in path.operations if number > read.number)
    for user in users:
        if user.tapes == read.tapes and any(read.outputs[0] is one for one in user.inputs):
            return replace(found, operation=user)
    return found


class _TapeModel:
    """Models a tape: the tensors that it tracks, and those that it can follow to the source."""

    def __init__(self, path: DependencyPath, tape: int | None) -> None:
        self.path, self.tape = path, tape
        self.tracked: set[int] = set()
        self.connected: set[int] = {path.source} if tape is None else set()
        self.forgotten: set[int] = set()
        self.on_path = set(path.operations)
        self.makers: dict[int, RecordedOperation] = {}
        self.breaks: list[PathBreak] = []

    def run(self, events: Sequence[RecordedEvent]) -> list[PathBreak]:
        for event in events:
            if isinstance(event, RecordedOperation):
                self._operation(event)
            elif isinstance(event, WatchEvent) and event.tape == self.tape:
                self.tracked.add(key(event.tensor))
                self.connected |= {key(event.tensor)} & {self.path.source}
            elif isinstance(event, TapeChange) and event.tape == self.tape and event.change == "reset":
                self.forgotten |= self.connected - {self.path.source}
                self.tracked.clear()
                self.connected.clear()
        return self.breaks

    def _operation(self, event: RecordedOperation) -> None:
        recorded = self.tape is None or self.tape in event.tapes
        made = {key(tensor) for tensor in event.outputs}
        if recorded and any(key(tensor) in self.tracked for tensor in event.inputs):
            self.tracked |= made
            self.connected |= made & {self.path.source}
        if event.number not in self.on_path:
            return
        passed = False
        for name, tensor in {key(one): one for one in event.inputs if key(one) in self.path.dependent}.items():
            if name in self.connected and recorded and gradient_passes(event, tensor, self.path.dependent):
                passed = True
            elif name in self.connected or name == self.path.source:
                self.breaks.append(PathBreak(event, recorded, unwatched=name not in self.connected))
            elif name in self.forgotten:
                self.breaks.append(PathBreak(self.makers[name], recorded=True))
        for name in self.path.captured.get(event.number, ()):
            if name in self.connected or name == self.path.source:
                self.breaks.append(PathBreak(event, recorded, unwatched=name not in self.connected))
        if event.number in self.path.round_trips:
            self.breaks.append(PathBreak(event, recorded))
        if passed:
            self.connected |= made & self.path.dependent
            self.makers.update(dict.fromkeys(made, event))
        elif event.backward is not None:
            self.connected -= made


def host_line(back: RecordedOperation, dependent: Iterable[RecordedOperation], source: str) -> Line | None:
    """Return the line that most likely computed a constant from a value that depends on the source.

    Searches the function that used the constant, then its callers; falls back to the line that used it.
    """
    numbers: dict[str, set[int]] = {}
    for code, number in {at for operation in dependent for at in operation.stack}:
        numbers.setdefault(code.co_filename, set()).add(number)
    for code, number in back.stack:
        file = code.co_filename
        found = _line_that_takes((file, number), numbers.get(file, set()), source)
        if found is not None:
            return file, found
    return back.line


def _line_that_takes(back: Line, dependent: Set[int], source: str) -> int | None:
    """The number of that line, among those of a function up to one of them."""
    function = function_around(back)
    returning = statements_on(back)
    body = [node for node in ast.walk(function) if isinstance(node, ast.stmt)] if function is not None else []
    made = {source}.union(*(names_on((back[0], one.lineno), ast.Store) for one in body if dependent & _lines(one)))
    if any(_takes(statement, made) for statement in returning):
        return back[1]
    needed, on_the_way = names_on(back, ast.Load), []
    before = [one for one in body if one is not function and one.lineno < min(map(_first, returning), default=back[1])]
    for statement in sorted(before, key=_first, reverse=True):
        if _given(statement) & needed:
            needed |= _names(statement)
            on_the_way.append(statement)
    takes = [statement for statement in on_the_way if _takes(statement, made)]
    mention = [statement for statement in on_the_way if _names(statement) & HOST_NAMES]
    return next(map(_first, (*takes, *mention)), None)


def _first(statement: ast.stmt) -> int:
    return statement.lineno


def _lines(statement: ast.stmt) -> Set[int]:
    """The lines of a statement without those of the statements inside it."""
    ends = [getattr(part, "end_lineno", None) or statement.lineno for part in header(statement)]
    return set(range(statement.lineno, max(ends, default=statement.lineno) + 1))


def _names(statement: ast.stmt) -> set[str]:
    return {node.id for part in header(statement) for node in ast.walk(part) if isinstance(node, ast.Name)}


def _given(statement: ast.stmt) -> set[str]:
    """The names that a statement assigns to or calls: `z = …`, `kept[0] = …`, `kept.append(…)`."""
    parts = [node for part in header(statement) for node in ast.walk(part)]
    stored: list[ast.AST] = [node for node in parts if isinstance(getattr(node, "ctx", None), ast.Store)]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        stored.append(statement.value.func)
    return {node.id for part in stored for node in ast.walk(part) if isinstance(node, ast.Name)}


def _takes(statement: ast.stmt, made: Set[str]) -> bool:
    """Whether a function of NumPy or Python takes one of these names."""
    return any(made & {node.id for node in _arguments(call)} for part in header(statement) for call in _calls(part))


def _calls(part: ast.AST) -> Iterator[ast.Call]:
    """The calls of NumPy's and Python's functions in a piece of code."""
    for node in ast.walk(part):
        root: ast.AST = node.func if isinstance(node, ast.Call) else node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(node, ast.Call) and isinstance(root, ast.Name) and root.id in HOST_NAMES:
            yield node


def _arguments(call: ast.Call) -> Iterator[ast.Name]:
    """The names whose values a call takes, not only their shapes or types."""
    nodes = [node for argument in (*call.args, *call.keywords) for node in ast.walk(argument)]
    static = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in STATIC]
    apart = {id(node) for part in static for node in ast.walk(part)}
    yield from (node for node in nodes if isinstance(node, ast.Name) and id(node) not in apart)
