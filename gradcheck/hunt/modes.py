"""The check of a derivative in a mode: compared with the plain one, and with an estimate where they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.execution import ModeUnavailableError, values
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.autodiff_rounding import measured_rounding, ulp_rounding
from gradcheck.comparison.summary import undecided
from gradcheck.comparison.tables import EXCLUSION
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.graph_check import GraphCheck, OrderCheck
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]
VALUES = 1e-4
"""Values of a function that differ by more are those of another function, and no matter of its derivative."""

KEPT = (Kind.RAISES, Kind.SHAPE)
"""Kinds that are kept: they are more than a disagreement of modes."""


def check_in_mode(check: GraphCheck, order: int) -> tuple[Mode, OrderCheck]:
    """The check of one order, and the mode whose derivative it is about: that of the check, or the plain one.

    The derivative agrees where it equals the plain one within its rounding. Else estimates decide: where they
    contradict the plain derivative, that is the finding. Where there is no derivative in the mode, for a documented
    reason, the check is inconclusive.
    """
    plain = replace(check, mode=PLAIN)
    try:
        result = _compared_with_plain(check, plain, order)
        if result is not None:
            return check.mode, OrderCheck(result)
        _refuse_other_values(check)
        checked = check.order(order)
    except ModeUnavailableError as error:
        return check.mode, OrderCheck(undecided(order, Reason.CANNOT_RUN, str(error)))
    beside = plain.order(order)
    if beside.result.verdict == Verdict.MISMATCH:
        return PLAIN, beside
    findings = tuple(_finding(one, check.mode, beside.result.verdict) for one in checked.result.findings)
    return check.mode, replace(checked, result=replace(checked.result, findings=findings))


def _compared_with_plain(check: GraphCheck, plain: GraphCheck, order: int) -> OrderResult | None:
    """Agreement with the plain derivative; None where they differ, or where one of them cannot be taken."""
    if check.empty:
        return check.order(order).result
    problem = plain.problem()

    def derivative(at: Any, point: Array | None = None) -> Array:
        """The gradient of <w, f> (1, n), or its derivative along the direction."""
        if order == 1:
            return np.asarray(at.gradients(np.ones((1, 1)), point).values)
        return np.asarray(at.products(np.ones(1), check.direction[None, :], point).values)

    try:
        taken, other = derivative(check.problem()), derivative(problem)
        allowed = ulp_rounding(other, problem.precision)
        if not _close(taken, other, allowed).all():
            allowed = EXCLUSION * measured_rounding(problem, other, derivative)
    except (DerivativeRaisedError, WrongShapeError):
        return None
    if not _close(taken, other, allowed).all():
        return None
    resolution, largest = (float(np.max(np.abs(part[np.isfinite(part)]), initial=0.0)) for part in (allowed, other))
    return OrderResult(
        order=order,
        verdict=Verdict.AGREE,
        notes=("compared with the plain derivative",),
        resolution=resolution,
        relative_resolution=resolution / largest if largest else float("nan"),
        compared=other.size,
    )


def _refuse_other_values(check: GraphCheck) -> None:
    """Raises ModeUnavailableError where the function itself has other values in the mode, as random numbers have."""
    sources = [tf.constant(literal.array()) for literal in check.graph.inputs]
    (output,) = values(check.mode, lambda at: [forward(check.graph, at)[-1]], sources)
    if not np.allclose(output.numpy(), check.output, rtol=VALUES, atol=VALUES * check.largest, equal_nan=True):
        raise ModeUnavailableError("the function has other values in this mode")


def _close(one: Array, other: Array, allowed: Array) -> Array:
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= allowed
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)))


def _finding(finding: Finding, mode: Mode, plain: Verdict) -> Finding:
    reason = f"{mode}: {finding.reason}; {PLAIN}: {plain}"
    return replace(finding, kind=finding.kind if finding.kind in KEPT else Kind.MODES, reason=reason)
