"""TF1-style graphs: their operations as a record, with the lines that made them, and where a path in them is cut."""

from __future__ import annotations

from typing import Any

from gradcheck.explanation.case import Case, Loss
from gradcheck.explanation.paths import RecordStructure, cuts, paths
from gradcheck.explanation.places import Line, kind_of
from gradcheck.explanation.record import CodeRecord, DerivativeCall, Origin, RecordedOperation
from gradcheck.explanation.rules import path_breaks
from gradcheck.result import Diagnosis


def graph_record(graph: Any) -> CodeRecord:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    return CodeRecord(events=tuple(_operation(op) for op in graph.get_operations()), tapes=())


def graph_diagnosis(target: Any, source: Any, name: str, loss: Loss) -> Diagnosis | None:
    """Why tf.gradients(target, source) lost a part; None where the graph has no path, or no cut on it.

    `target` is a symbolic tensor, `source` one or a variable of its graph. Nothing is run and nothing is added to the
    graph: its structure tells which operations lie on the path.
    """
    record = graph_record(target.graph)
    tensor = source_tensor(source)
    path = paths(record.events, [target], tensor, RecordStructure())
    found = cuts(record.events, path, None)
    if not found:
        return None
    call = DerivativeCall(0, len(record.events), 0, "gradients", (target,), (tensor,))
    case = Case(record, call, name, Origin(tensor, None), loss, path, found, restored=False)
    return next((answer for rule in path_breaks.RULES if (answer := rule(case)) is not None), None)


def source_tensor(source: Any) -> Any:
    """The tensor that stands for a source in its graph: a variable's handle, or the output that holds its value."""
    if hasattr(source, "handle"):
        return source.handle
    return source.op.outputs[0] if hasattr(source, "initializer") else source


def making_line(op: Any) -> Line | None:
    """The innermost line outside of libraries that made a graph's operation."""
    for frame in reversed(op.traceback):
        if kind_of(frame.filename) == "user":
            return frame.filename, frame.lineno
    return None


def _operation(op: Any) -> RecordedOperation:
    return RecordedOperation(
        name=op.type,
        inputs=tuple(op.inputs),
        outputs=tuple(op.outputs),
        line=making_line(op),
        tapes=frozenset((0,)),
    )
