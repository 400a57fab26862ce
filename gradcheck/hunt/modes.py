"""The check of one graph in a mode: its derivative against the plain one, and against differences where they differ."""

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
from gradcheck.hunt import trial
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.trial import Bench, Outcome, Trial
from gradcheck.result import Finding, Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]
VALUES = 1e-4
"""Values of a function that differ by more are those of another function, and no matter of its derivative."""

KEPT = (Kind.RAISES, Kind.SHAPE)
"""Kinds that say more than that modes disagree."""


def run(
    graph: Graph, orders: tuple[int, ...], mode: Mode, *, weights: Array | None = None, vector: Array | None = None
) -> Trial:
    """Check a graph's derivative of one order, as taken in a mode.

    It agrees where it equals the plain derivative within what that is rounded by. Else differences decide: a derivative
    that they refute is a finding; where they refute the plain one, that is the finding, and the trial's mode is plain.
    Where there is no derivative in this mode, for a documented reason, the verdict is inconclusive. `weights` and
    `vector` are those of `trial.run`.
    """
    (order,) = orders
    bench = Bench.of(graph, weights, vector, mode)
    try:
        result = _beside_plain(bench, order)
        if result is not None:
            return bench.trial({order: Outcome(result)})
        _refuse_other_values(bench)
        checked = trial.run(graph, orders, weights=weights, vector=vector, mode=mode)
    except ModeUnavailableError as error:
        result = undecided(order, Reason.CANNOT_RUN, str(error))
        return bench.trial({order: Outcome(result)})
    plain = trial.run(graph, orders, weights=weights, vector=vector)
    if mode != PLAIN and plain.result.verdict == Verdict.MISMATCH:
        return plain
    return _named(checked, plain.result.orders[order])


def check(
    graph: Graph, orders: tuple[int, ...], mode: Mode, *, weights: Array | None = None, vector: Array | None = None
) -> Trial:
    """The check of a graph's derivative in any mode: `trial.run` for the plain one, else `run`."""
    if mode == PLAIN:
        return trial.run(graph, orders, weights=weights, vector=vector)
    return run(graph, orders, mode, weights=weights, vector=vector)


def _beside_plain(bench: Bench, order: int) -> OrderResult | None:
    """Agreement with the plain derivative; None where they differ, or where one of them cannot be taken."""
    if not bench.output.size or not bench.count:
        return OrderResult(order=order, verdict=Verdict.AGREE, notes=("no elements: agrees trivially",))
    plain = replace(bench, mode=PLAIN)
    try:
        taken, other = _derivative(bench, order), _derivative(plain, order)
        problem = plain.problem(projected=True)
        allowed = ulp_rounding(other, problem.precision)
        if not _close(taken, other, allowed).all():
            allowed = EXCLUSION * measured_rounding(
                problem, other, lambda at, point: _derivative(plain, order, at, point)
            )
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


def _refuse_other_values(bench: Bench) -> None:
    """Raises ModeUnavailableError where the function itself has other values in the mode, as random numbers have."""
    sources = [tf.constant(literal.array()) for literal in bench.graph.inputs]
    (output,) = values(bench.mode, lambda at: [forward(bench.graph, at)[-1]], sources)
    if not np.allclose(output.numpy(), bench.output, rtol=VALUES, atol=VALUES * bench.largest, equal_nan=True):
        raise ModeUnavailableError("the function has other values in this mode")


def _derivative(bench: Bench, order: int, problem: Any = None, point: Array | None = None) -> Array:
    """The gradient of <w, f> (1, n), or its derivative along the direction; of the bench's problem, unless given."""
    at = bench.problem(projected=True) if problem is None else problem
    if order == 1:
        return np.asarray(at.gradients(np.ones((1, 1)), point).values)
    return np.asarray(at.products(np.ones(1), bench.along(at.point)[None, :], point).values)


def _close(one: Array, other: Array, allowed: Array) -> Array:
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= allowed
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)))


def _named(checked: Trial, plain: OrderResult) -> Trial:
    """The trial with findings that name the mode."""
    ((order, outcome),) = checked.outcomes.items()
    findings = tuple(_finding(finding, checked.mode, plain) for finding in outcome.result.findings)
    return replace(checked, outcomes={order: replace(outcome, result=replace(outcome.result, findings=findings))})


def _finding(finding: Finding, mode: Mode, plain: OrderResult) -> Finding:
    said = f"{mode}: {finding.reason}; {PLAIN}: {plain.verdict}"
    return replace(finding, kind=finding.kind if finding.kind in KEPT else Kind.MODES, reason=said)
