"""Why a source lost its gradient: the record, the replays and the rules brought together."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count, from_coordinates, to_coordinates
from gradcheck.comparison.lines import sample_values
from gradcheck.comparison.probes import SMALL
from gradcheck.comparison.summary import broken, element_of, estimate_text
from gradcheck.explanation import rules
from gradcheck.explanation.call_problem import CallProblem
from gradcheck.explanation.paths import dependency_path, differentiable, path_breaks
from gradcheck.explanation.record import CallSource, CodeRecord, DerivativeCall, RecordedOperation
from gradcheck.explanation.replay import Influence, influence
from gradcheck.explanation.user_code import file_owner
from gradcheck.explanation.wrong_gradient import LostPart, WrongGradient
from gradcheck.numerics.difference import first_difference
from gradcheck.result import Diagnosis, Finding, Kind

Array = np.ndarray[Any, Any]

CLOSE = 1e-3
"""How near, relatively, a covering tape has to come to the finite-difference estimate to count as the remedy."""
STEP = 2.0**-10
"""The relative step by which the element with the largest derivative is found."""
STEPWISE = "small moves of it do not move the target, larger ones do"


def diagnose(
    source: CallSource, finding: Finding, place: tuple[int, int] | None = None, moved: Influence | None = None
) -> Diagnosis | None:
    """The diagnosis of a finding about a source by the first rule that applies; None where none does.

    `place` is the finding's row and coordinate, where a covering tape knows them; `moved` what the source influences,
    where that was found already.
    """
    moved = moved or influence(source)
    given, expected = finding.autodiff, finding.difference
    covering, restored = None if place is None else covering_gradient(source, *place), False
    if covering is not None and expected is not None:
        off = abs(expected - covering)
        if off <= CLOSE * abs(expected):
            # A tape around everything gives what the estimate is, more exactly.
            expected, off = covering, 0.0
        restored = abs(covering - (given or 0.0)) > off
    element = finding.element if finding.index else ""
    lost = LostPart(given, expected, covering, stepwise=expected is None, element=element)
    events = source.record.before(source.call)
    path = dependency_path(events, source.call.targets, source.tensor, moved.changed)
    of_tape, of_any = path_breaks(events, path, source.call.tape), path_breaks(events, path, None)
    wider_tape_helps = bool(of_tape) and (restored or not of_any)
    breaks = of_tape if wider_tape_helps else of_any
    return rules.first_diagnosis(WrongGradient(source, lost, path, breaks, wider_tape_helps))


def diagnose_error(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Why taking a derivative raised an exception; None where its message says it all."""
    message = str(call.error)
    if "non-persistent GradientTape" in message:
        return rules.used_tape(record, call)
    found = re.search(r"gradient registry has no entry for: (\w+)", message)
    return rules.unregistered(record, call, found.group(1)) if found else None


def diagnosed(finding: Finding, diagnosis: Diagnosis | None) -> Finding:
    """The finding with its cause; a value that lacks what the tape did not cover is partial, not wrong."""
    partial = finding.kind is Kind.WRONG_VALUE and diagnosis is not None and diagnosis.cause in rules.TAPE_RULES
    return replace(finding, diagnosis=diagnosis, kind=Kind.PARTIAL if partial else finding.kind)


def covering_gradient(source: CallSource, row: int, coordinate: int) -> float | None:
    """One element of the derivative under the tape that covered everything; None where it has none, either."""
    call = source.call
    weights = None if call.weights is None else list(call.weights)
    if call.method != "gradient":  # one element of the only target
        (target,) = call.targets
        unit = np.eye(1, coordinate_count(target.shape, target.dtype.as_numpy_dtype), row)[0]
        weights = [tf.constant(from_coordinates(unit, target.shape, target.dtype.as_numpy_dtype))]
    try:
        result = source.record.covering.gradient(list(call.targets), source.tensor, output_gradients=weights)
    except Exception:  # no second derivative, no registered gradient: then it gives nothing
        return None
    return None if result is None else float(to_coordinates(tf.convert_to_tensor(result).numpy())[coordinate])


def diagnose_unconnected(source: CallSource) -> tuple[str, Finding | None]:
    """A note on why None is right for a source, or a finding with its diagnosis."""
    if not differentiable(source):
        diagnosis = rules.integer_source(source)
        finding = broken(1, Kind.MISSING, source.name, f"autodiff gives None, {diagnosis.evidence}").findings[0]
        return "", replace(finding, diagnosis=diagnosis)
    moved = influence(source)
    zeros = "zeros that stand for None: " if source.call.zeros else ""
    if not moved.large:
        return f"{zeros}the target does not depend on it", None
    reason = f"autodiff gives {'zeros for None' if zeros else 'None'}, "
    found = _largest_derivative(CallProblem([source]), reason) if moved.small else None
    finding, place = found or (broken(1, Kind.MISSING, source.name, reason + STEPWISE).findings[0], None)
    cause = diagnose(source, finding, place, moved)
    if cause is None and (zeros or not moved.small):
        return "" if moved.small else f"{zeros}it only decides which way the code goes", None
    return "", replace(finding, diagnosis=cause)


def _largest_derivative(problem: CallProblem, reason: str) -> tuple[Finding, tuple[int, int]] | None:
    """The finding at the element with the largest derivative, and its place; None where differences are inconclusive.

    One step along each of the first coordinates finds the element.
    """
    count = min(problem.point.size, SMALL)
    lines = np.eye(count, problem.point.size)
    steps = STEP * np.maximum(np.abs(problem.point[:count, None]), 0.5)
    changes = np.abs(problem.values(problem.point + steps * lines) - problem.values(problem.point[None, :])) / steps
    changes = np.where(np.isfinite(changes), changes, 0.0)
    line, row = map(int, np.unravel_index(np.argmax(changes), changes.shape))
    estimate = first_difference(sample_values(problem, lines[[line]], lambda points: problem.values(points)[:, [row]]))
    if not estimate.conclusive[0, 0]:
        return None
    value, bound = float(estimate.value[0, 0]), float(estimate.bound[0, 0])
    name, index, _ = element_of(problem.sources, line)
    output = None if problem.call.method == "gradient" else row
    reason += estimate_text(value, bound)
    return Finding(Kind.MISSING, 1, name, index, output, None, value, bound, None, reason), (row, line)


def graph_diagnosis(target: Any, source: Any, name: str, lost: LostPart) -> Diagnosis | None:
    """Why tf.gradients(target, source) lost a part; None where the graph has no path, or no break on it.

    `target` is a symbolic tensor, `source` one or a variable of its graph. Nothing is run and nothing is added to the
    graph: its structure tells which operations lie on the path.
    """
    record = graph_record(target.graph)
    if hasattr(source, "handle"):
        tensor = source.handle
    else:  # a reference variable's value is the output of its operation
        tensor = source.op.outputs[0] if hasattr(source, "initializer") else source
    path = dependency_path(record.events, [target], tensor, lambda number, output: None)
    breaks = path_breaks(record.events, path, None)
    if not breaks:
        return None
    call = DerivativeCall(0, len(record.events), 0, "gradients", (target,), (tensor,))
    return rules.first_diagnosis(WrongGradient(CallSource(record, call, tensor, name, None), lost, path, breaks, False))


def graph_record(graph: Any) -> CodeRecord:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    events = []
    for number, op in enumerate(graph.get_operations()):
        frames = [one for one in op.traceback if file_owner(one.filename) == "user"]
        line = (frames[-1].filename, frames[-1].lineno) if frames else None
        inputs, outputs = tuple(op.inputs), tuple(op.outputs)
        events.append(RecordedOperation(number, op.type, inputs, outputs, line=line, tapes=frozenset((0,))))
    return CodeRecord(events)
