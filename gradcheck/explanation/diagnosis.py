"""Why a source lost its gradient: the record, the replays and the rules brought together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import from_coordinates, to_coordinates
from gradcheck.comparison.lines import sample_values
from gradcheck.comparison.probes import SMALL
from gradcheck.comparison.summary import element_of, estimate_text
from gradcheck.explanation import rules
from gradcheck.explanation.call_problem import CallProblem
from gradcheck.explanation.paths import dependency_path, path_breaks
from gradcheck.explanation.record import CodeRecord, DerivativeCall, RecordedOperation, SourceOrigin
from gradcheck.explanation.replay import Code, Influence, influence
from gradcheck.explanation.user_code import Line, file_owner
from gradcheck.explanation.wrong_gradient import LostPart, WrongGradient
from gradcheck.numerics.difference import first_difference
from gradcheck.result import Diagnosis, Finding, Kind

Array = np.ndarray[Any, Any]

CLOSE = 1e-3
"""How near, relatively, a covering tape has to come to the finite-difference estimate to count as the remedy."""


def diagnose(
    code: Code, call: DerivativeCall, name: str, origin: SourceOrigin, moved: Influence, lost: LostPart
) -> Diagnosis | None:
    """The diagnosis of the first rule that applies to a source of this name; None where none does.

    `lost` is about the worst element of its gradient.
    """
    if _covered(lost):
        # A tape around everything gives what the estimate is, more exactly.
        lost = replace(lost, expected=lost.covering)
    events = code.record.before(call)
    path = dependency_path(events, call.targets, origin.tensor, moved.changed)
    of_tape, of_any = path_breaks(events, path, call.tape), path_breaks(events, path, None)
    wider_tape_helps = bool(of_tape) and (_restored(lost) or not of_any)
    breaks = of_tape if wider_tape_helps else of_any
    wrong = WrongGradient(code.record, call, name, origin, lost, path, breaks, wider_tape_helps)
    return first_diagnosis(wrong)


def diagnose_finding(
    code: Code, call: DerivativeCall, name: str, origin: SourceOrigin, finding: Finding, place: tuple[int, int] | None
) -> Diagnosis | None:
    """The diagnosis of a finding about a source; `place` is its row and coordinate where a covering tape knows them."""
    covering = None if place is None else covering_gradient(code, call, origin, *place)
    lost = LostPart(finding.autodiff, finding.difference, covering, element=finding.element if finding.index else "")
    return diagnose(code, call, name, origin, influence(code, call, origin), lost)


def first_diagnosis(wrong: WrongGradient) -> Diagnosis | None:
    """That of the first rule that applies."""
    if not wrong.breaks:
        return rules.wrong_formula(wrong)
    applicable = rules.TAPE_RULES if wrong.wider_tape_helps else rules.PATH_RULES
    return next((found for rule in applicable if (found := rule(wrong)) is not None), None)


def diagnose_error(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Why taking a derivative raised an exception; None where its message says it all."""
    message = str(call.error)
    if "non-persistent GradientTape" in message:
        return rules.used_tape(record, call)
    found = re.search(r"gradient registry has no entry for: (\w+)", message)
    return rules.unregistered(record, call, found.group(1)) if found else None


def diagnosed(finding: Finding, diagnosis: Diagnosis | None) -> Finding:
    """The finding with its cause; a value that lacks what the tape did not cover is partial, not wrong."""
    partial = finding.kind is Kind.WRONG_VALUE and diagnosis is not None and diagnosis.cause in rules.CAUSES
    return replace(finding, diagnosis=diagnosis, kind=Kind.PARTIAL if partial else finding.kind)


def covering_gradient(
    code: Code, call: DerivativeCall, origin: SourceOrigin, row: int, coordinate: int
) -> float | None:
    """One element of the derivative under the tape that covered everything; None where it has none, either."""
    weights = _weights(call, row)
    try:
        result = code.record.covering.gradient(list(call.targets), origin.tensor, output_gradients=weights)
    except Exception:  # no second derivative, no registered gradient: then it gives nothing
        return None
    if result is None:
        return None
    return float(to_coordinates(np.asarray(tf.convert_to_tensor(result).numpy()))[coordinate])


def _weights(call: DerivativeCall, row: int) -> Any:
    """The cotangent of one row: all targets together for a gradient, one element for a Jacobian."""
    if call.method == "gradient":
        return None if call.weights is None else list(call.weights)
    (target,) = call.targets
    count = to_coordinates(target.numpy()).size
    return [tf.constant(from_coordinates(np.eye(count)[row], target.shape, target.dtype.as_numpy_dtype))]


def _covered(lost: LostPart) -> bool:
    """Whether a tape around everything gives what the finite-difference estimate is."""
    if lost.covering is None or lost.expected is None:
        return False
    return abs(lost.expected - lost.covering) <= CLOSE * abs(lost.expected)


def _restored(lost: LostPart) -> bool:
    """Whether a tape around everything gives more of what is lost than it still misses."""
    if lost.covering is None or lost.expected is None:
        return False
    gained = abs(lost.covering - (lost.given or 0.0))
    return gained > abs(lost.expected - lost.covering) or (_covered(lost) and gained > 0)


INDEPENDENT = "the target does not depend on it"
BRANCH = "it only decides which way the code goes"
ZEROS = "zeros that stand for None: "
STEP = 2.0**-10


def diagnose_unconnected(problem: CallProblem, name: str) -> tuple[str, Finding | None]:
    """A note on why None is right for the problem's only source, or a finding with its diagnosis."""
    (origin,) = problem.origins
    call, moved = problem.call, influence(problem.code, problem.call, origin)
    zeros = ZEROS if call.zeros else ""
    if not moved.large:
        return zeros + INDEPENDENT, None
    worst = _largest_derivative(problem) if moved.small else None
    finding = _missing(problem, worst)
    lost = LostPart(None, None, stepwise=True)
    if worst is not None:
        covering = covering_gradient(problem.code, call, origin, worst.row, worst.coordinate)
        lost = LostPart(None, worst.value, covering, element=finding.element if finding.index else "")
    diagnosis = diagnose(problem.code, call, name, origin, moved, lost)
    if diagnosis is None and (zeros or not moved.small):
        return ("" if moved.small else zeros + BRANCH), None
    return "", replace(finding, diagnosis=diagnosis)


@dataclass(frozen=True)
class _Largest:
    """The element with the largest derivative: its coordinate, the target's row, the estimate with its error bound."""

    coordinate: int
    row: int
    value: float
    bound: float


def _largest_derivative(problem: CallProblem) -> _Largest | None:
    """One step along each of the first coordinates finds the element; finite differences estimate its derivative."""
    count = min(problem.point.size, SMALL)
    lines = np.eye(count, problem.point.size)
    steps = STEP * np.maximum(np.abs(problem.point[:count, None]), 0.5)
    changes = np.abs(problem.values(problem.point + steps * lines) - problem.values(problem.point[None, :])) / steps
    changes = np.where(np.isfinite(changes), changes, 0.0)
    line, row = map(int, np.unravel_index(np.argmax(changes), changes.shape))
    estimate = first_difference(sample_values(problem, lines[[line]], np.eye(1, problem.outputs, row)))
    if not estimate.conclusive[0, 0]:
        return None
    return _Largest(line, row, float(estimate.value[0, 0]), float(estimate.bound[0, 0]))


def _missing(problem: CallProblem, worst: _Largest | None) -> Finding:
    given = "zeros for None" if problem.call.zeros else "None"
    if worst is None:
        reason = f"autodiff gives {given}, small moves of it do not move the target, larger ones do"
        return Finding(Kind.MISSING, 1, problem.sources[0].name, None, None, None, None, None, None, reason)
    name, index, _ = element_of(problem.sources, worst.coordinate)
    row = None if problem.call.method == "gradient" else worst.row
    reason = f"autodiff gives {given}, {estimate_text(worst.value, worst.bound)}"
    return Finding(Kind.MISSING, 1, name, index, row, None, worst.value, worst.bound, None, reason)


def graph_diagnosis(target: Any, source: Any, name: str, lost: LostPart) -> Diagnosis | None:
    """Why tf.gradients(target, source) lost a part; None where the graph has no path, or no break on it.

    `target` is a symbolic tensor, `source` one or a variable of its graph. Nothing is run and nothing is added to the
    graph: its structure tells which operations lie on the path.
    """
    record = graph_record(target.graph)
    tensor = source_tensor(source)
    path = dependency_path(record.events, [target], tensor, lambda number, output: None)
    breaks = path_breaks(record.events, path, None)
    if not breaks:
        return None
    call = DerivativeCall(0, len(record.events), 0, "gradients", (target,), (tensor,))
    origin = SourceOrigin(tensor, None)
    return first_diagnosis(WrongGradient(record, call, name, origin, lost, path, breaks, wider_tape_helps=False))


def graph_record(graph: Any) -> CodeRecord:
    """The record of a tf.Graph, as if one tape (number 0) had recorded everything: symbolic gradients see all of it."""
    return CodeRecord(
        [
            RecordedOperation(
                number, op.type, tuple(op.inputs), tuple(op.outputs), line=_line_of(op), tapes=frozenset((0,))
            )
            for number, op in enumerate(graph.get_operations())
        ]
    )


def source_tensor(source: Any) -> Any:
    """The tensor that stands for a source in its graph: a variable's handle, or the output that holds its value."""
    if hasattr(source, "handle"):
        return source.handle
    return source.op.outputs[0] if hasattr(source, "initializer") else source


def _line_of(op: Any) -> Line | None:
    """The innermost line outside of libraries that made a graph's operation."""
    frames: Sequence[Any] = list(op.traceback)[::-1]
    return next(((frame.filename, frame.lineno) for frame in frames if file_owner(frame.filename) == "user"), None)
