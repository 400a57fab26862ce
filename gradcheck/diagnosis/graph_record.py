"""A TF1-style graph as a record: its operations in the order in which they were made, with the lines that made them."""

from __future__ import annotations

from typing import Any

from gradcheck.diagnosis.lines import Line, kind_of
from gradcheck.diagnosis.record import Operation, Record


def graph_record(graph: Any) -> Record:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    return Record(events=tuple(_operation(op) for op in graph.get_operations()), tapes=())


def making_line(op: Any) -> Line | None:
    """The innermost line outside of libraries that made a graph's operation."""
    for frame in reversed(op.traceback):
        if kind_of(frame.filename) == "user":
            return frame.filename, frame.lineno
    return None


def _operation(op: Any) -> Operation:
    return Operation(
        name=op.type,
        inputs=tuple(op.inputs),
        outputs=tuple(op.outputs),
        line=making_line(op),
        tapes=frozenset((0,)),
    )
