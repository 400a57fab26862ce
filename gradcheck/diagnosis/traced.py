"""Gradients that only traced code loses, in operations that eager code does not run, such as a loop over a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gradcheck.diagnosis.paths import dependency_path, differentiable, path_breaks
from gradcheck.diagnosis.rules import PATH_RULES, without_gradient
from gradcheck.diagnosis.wrong_gradient import LostPart, WrongGradient
from gradcheck.result import Cause, Diagnosis
from gradcheck.tracing.graph_interpreter import graphs_with_lines
from gradcheck.tracing.hooks import GRAPH_CALL, patched
from gradcheck.tracing.kernels import CALLING
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall, RecordedOperation
from gradcheck.tracing.state import state_restored
from gradcheck.tracing.user_code import call_user_code, file_owner


def lost_in_a_graph(source: CallSource, lost: LostPart) -> Diagnosis | None:
    """Diagnose a gradient that is lost in the graph of one of the code's functions; None where no operation loses it.

    The graphs' inputs that the source is among, else all that may depend on it, are followed to their outputs.
    """
    handle = getattr(source.tensor, "handle", None)
    for graph, given in _called(source.record):
        pairs = list(zip(graph.inputs, given, strict=False))
        own = [inner for inner, outer in pairs if outer is source.tensor or (handle is not None and outer is handle)]
        record = graph_record(graph)
        for inner in own or [one for one in graph.inputs if differentiable(one)]:
            path = dependency_path(record.events, graph.outputs, inner, lambda number, output: None)
            call = DerivativeCall(0, len(record.events), 0, "gradient", tuple(graph.outputs), (inner,))
            for found in path_breaks(record.events, path, None):
                wrong = WrongGradient(CallSource(record, call, inner, source.name, None), lost, path, [found], False)
                step = found.operation
                if step.name in CALLING or not without_gradient(step):
                    continue
                if (words := PATH_RULES[Cause.NO_GRADIENT](wrong, step)) is not None:
                    evidence, remedy, _ = words
                    return Diagnosis(Cause.NO_GRADIENT, evidence, remedy, step.place, lost.size)
    return None


def _called(record: CodeRecord) -> Iterator[tuple[Any, list[Any]]]:
    """The graphs that the code calls when its functions are traced, and those inside of them, with their inputs."""
    calls: list[tuple[Any, list[Any]]] = []

    def noted(original: Any, function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        given = [getattr(one, "handle", one) for one in (*tensor_inputs, *captured_inputs)]
        calls.append((function.graph, given))
        return original(function, tensor_inputs, captured_inputs)

    with state_restored(), patched((*GRAPH_CALL, noted)), suppress(Exception):  # from the code: those until then count
        call_user_code(record.f, record.inputs)
    while calls:
        graph, given = calls.pop(0)
        yield graph, given
        calls += [(inner, []) for op in graph.get_operations() for inner in graphs_with_lines(op)]


def graph_record(graph: Any) -> CodeRecord:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    events = []
    for number, op in enumerate(graph.get_operations()):
        frames = [one for one in op.traceback if file_owner(one.filename) == "user"] if op.traceback else []
        line = (frames[-1].filename, frames[-1].lineno) if frames else None
        inputs, outputs = tuple(op.inputs), tuple(op.outputs)
        events.append(RecordedOperation(number, op.type, inputs, outputs, line=line, tapes=frozenset((0,))))
    return CodeRecord(events)
