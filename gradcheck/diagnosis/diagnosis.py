"""Diagnose why a source lost its gradient, from the record, the replays and the rules."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.errors import tape_used_up, unregistered_operation
from gradcheck.autodiff.reverse import dense
from gradcheck.diagnosis import rules
from gradcheck.diagnosis.blame import (
    NOTHING,
    Blame,
    blame,
    blame_diagnosis,
    composed,
    ended,
    recognised_cut,
    with_right,
)
from gradcheck.diagnosis.branches import special_branch
from gradcheck.diagnosis.chain import NoChainError
from gradcheck.diagnosis.custom_gradients import not_used
from gradcheck.diagnosis.known_defect import known_to_raise
from gradcheck.diagnosis.not_finite import not_finite_diagnosis
from gradcheck.diagnosis.paths import dependency_path, path_breaks
from gradcheck.diagnosis.surrogates import as_surrogate, surrogate, surrogate_among
from gradcheck.diagnosis.traced import graph_record, lost_in_a_graph
from gradcheck.diagnosis.wrong_gradient import LostPart, WrongGradient
from gradcheck.result import Cause, Diagnosis, Finding, Kind
from gradcheck.tracing.record import (
    CallSource,
    CodeRecord,
    DerivativeCall,
    HostRead,
)
from gradcheck.tracing.replay import Influence, influence
from gradcheck.tracing.user_code import at, place_of

CLOSE = 1e-3
"""Relative distance to the finite-difference estimate within which a covering tape counts as the remedy."""
AROUND = (*rules.STEPWISE, Cause.STOP_GRADIENT)
"""Causes of breaks that a surrogate may go around."""
AS_BEFORE = "; as for another input, where no other operation is wrong by itself"
NUMBERS = (int, float, complex, np.generic, np.ndarray)
"""Types that Python and NumPy compute, where a tensor is needed."""


def diagnose(
    source: CallSource, finding: Finding, place: tuple[int, int] | None = None, moved: Influence | None = None
) -> Diagnosis | None:
    """Diagnose a finding about a source: the operation whose derivative is wrong, or else the break of its path.

    None where neither is found. `place` is the finding's row and coordinate, where a covering tape knows them; `moved`
    is the influence of the source, if it is known already.
    """
    row = None if place is None else place[0]
    if finding.autodiff is not None and not np.isfinite(finding.autodiff):
        origin = diagnose_not_finite(source, row)
        if origin is not None:
            return origin
    lost, restored = _lost_part(source, finding, place)

    @cache
    def wrong() -> WrongGradient:
        return _wrong_gradient(source, lost, restored, moved or influence(source))

    causes = source.record.causes
    cause = rules.first_diagnosis(wrong()) if causes else None
    if cause is not None and (cause.cause, cause.place) in causes:
        known = recognised_cut(cause, wrong())
        return replace(known, evidence=known.evidence + AS_BEFORE)
    found = NOTHING if restored else blamed(source, row)
    if found.culprit is not None:
        return _blamed_diagnosis(source, found, lost.size)
    cause = rules.first_diagnosis(wrong())
    if cause is None and restored:
        found = blamed(source, row)
        cause = _blamed_diagnosis(source, found, lost.size)
    if wrong().wider_tape_helps:
        return cause
    if place is not None and (cause is None or cause.cause in rules.STEPWISE):
        branch = special_branch(source, finding, place[1], lost.size)
        if branch is not None:
            return with_right(branch, found)
    if finding.kind is Kind.WRONG_VALUE and (cause is None or (place is not None and cause.cause in AROUND)):
        stopped = surrogate(source, finding, place, lost.size)
        if stopped is not None and (cause is None or cause.place != stopped.place or not lost.of_the_whole):
            return with_right(stopped, found)
    if cause is not None and found.looked_at and not found.left:
        causes.add((cause.cause, cause.place))
    if cause is None and source.record.calls_functions and found.culprit is None:
        cause = lost_in_a_graph(source, lost)
    if cause is None and finding.kind is Kind.WRONG_VALUE:
        cause = surrogate_among(source.record, (*found.unclear, *found.left), lost.size)
    return composed(found, cause, wrong(), finding.kind)


def diagnose_operations(source: CallSource, finding: Finding) -> Diagnosis | None:
    """Diagnose a wrong, or not finite, derivative of an operation, without other evidence; or a search out of time."""
    origin = None if finding.autodiff is None or np.isfinite(finding.autodiff) else diagnose_not_finite(source)
    if origin is not None:
        return origin
    found = blamed(source)
    return ended(found) if found.left else _blamed_diagnosis(source, found)


def _blamed_diagnosis(source: CallSource, found: Blame, lost: float | None = None) -> Diagnosis | None:
    """Diagnose the operation that is wrong by itself; None where there is none."""
    diagnosis = blame_diagnosis(found, lost)
    if diagnosis is None or found.culprit is None:
        return None
    operation = found.culprit.operation
    if found.finding is not None and found.culprit.order == 1:
        diagnosis = as_surrogate(source.record, operation, found.finding, diagnosis)
    return not_used(source.record, operation, diagnosis)


def diagnose_not_finite(source: CallSource, row: int | None = None) -> Diagnosis | None:
    """Find the origin of NaN or infinity in a gradient; `row` is that of a Jacobian."""
    with suppress(NoChainError):
        return not_finite_diagnosis(source.record, source.call, source.tensor, _weights(source.call, row))
    return None


def blamed(source: CallSource, row: int | None = None) -> Blame:
    """Find the operation whose own derivative is wrong; `row` is that of a Jacobian."""
    with suppress(NoChainError):
        return blame(source.record, source.call, source.tensor, _weights(source.call, row))
    return NOTHING


def _lost_part(source: CallSource, finding: Finding, place: tuple[int, int] | None) -> tuple[LostPart, bool]:
    """The lost part, and whether a tape around everything comes nearer to the estimate."""
    given, expected = finding.autodiff, finding.difference
    covering, restored = None if place is None else covering_gradient(source, *place), False
    if covering is not None and expected is not None:
        off = abs(expected - covering)
        if off <= CLOSE * abs(expected):
            # A tape around everything gives the estimate's value, more exactly.
            expected, off = covering, 0.0
        restored = abs(covering - (given or 0.0)) > off
    element = finding.element if finding.index else ""
    return LostPart(given, expected, covering, stepwise=expected is None, element=element), restored


def _wrong_gradient(source: CallSource, lost: LostPart, restored: bool, moved: Influence) -> WrongGradient:
    """The source with its path and the breaks of that."""
    events = source.record.before(source.call)
    path = dependency_path(events, source.call.targets, source.tensor, moved.changed)
    of_tape, of_any = path_breaks(events, path, source.call.tape), path_breaks(events, path, None)
    wider_tape_helps = bool(of_tape) and (restored or not of_any)
    return WrongGradient(source, lost, path, of_tape if wider_tape_helps else of_any, wider_tape_helps)


def diagnose_error(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Diagnose a derivative that raised an exception; None where its message is sufficient."""
    number = _number_given(record, call)
    if number is not None:
        return number
    if any(type(source).__name__ == "RefVariable" for source in call.sources):
        return rules.reference_variable(call)
    if tape_used_up(call.error):
        return rules.used_tape(record, call)
    if (operation := unregistered_operation(call.error)) is not None:
        return rules.unregistered(record, call, operation)
    return known_to_raise(record) or rules.raising(record, call)


def _number_given(record: CodeRecord, call: DerivativeCall) -> Diagnosis | None:
    """Diagnose a target or a source that is a number, or a NumPy array; None where there is none."""
    for what, given in (("target", call.targets), ("source", call.sources)):
        number = next((one for one in given if isinstance(one, NUMBERS)), None)
        if number is None:
            continue
        reads = (event for event in reversed(record.before(call)) if isinstance(event, HostRead))
        read = next((one for one in reads if np.array_equal(one.tensor._numpy(), number)), None)
        how = "" if read is None else f", which {read.method.strip('_')}{at(read.line)} took out of TensorFlow"
        remedies = {
            "target": "leave float() and .numpy() out of what computes it, so that the target stays a tensor",
            "source": "make it a tf.Variable, or a tensor that the tape watches, and compute the target with that",
        }
        line = call.line if read is None else read.line
        evidence = f"the {what} is of type {type(number).__name__}{how}; only tensors and variables have gradients"
        return Diagnosis(Cause.NUMPY, evidence, remedies[what], place_of(line, call.method))
    return None


def diagnosed(finding: Finding, diagnosis: Diagnosis | None) -> Finding:
    """Return the finding with its cause; a value that lacks a part outside of the tape is partial, not wrong."""
    partial = finding.kind is Kind.WRONG_VALUE and diagnosis is not None and diagnosis.cause in rules.TAPE_RULES
    return replace(finding, diagnosis=diagnosis, kind=Kind.PARTIAL if partial else finding.kind)


def covering_gradient(source: CallSource, row: int, coordinate: int) -> float | None:
    """One element of the derivative under the tape that covered everything; None where that has none, either."""
    call = source.call
    weights = _weights(call, row)
    try:
        given = source.record.covering.gradient(list(call.targets), source.tensor, output_gradients=weights)
    except Exception:  # whatever a gradient function raises, or TensorFlow where there is none
        return None
    result = dense(given, source.tensor)
    return None if result is None else float(to_coordinates(result.numpy())[coordinate])


def _weights(call: DerivativeCall, row: int | None) -> list[Any] | None:
    """The cotangents of the targets: those of a gradient, or, for a Jacobian, a unit vector for one element."""
    if call.method == "gradient" or row is None:
        return None if call.weights is None else list(call.weights)
    (target,) = call.targets
    unit = np.eye(1, math.prod(target.shape), row).reshape(target.shape)
    return [tf.constant(unit.astype(target.dtype.as_numpy_dtype))]


def graph_diagnosis(target: Any, source: Any, name: str, lost: LostPart) -> Diagnosis | None:
    """Diagnose why tf.gradients(target, source) lost a part; None where the graph has no path, or no break on it.

    `target` is a symbolic tensor, `source` one or a variable of its graph. Nothing is run and nothing is added to the
    graph: its structure shows which operations lie on the path.
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
