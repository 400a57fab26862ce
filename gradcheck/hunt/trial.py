"""The trial of a graph: its derivatives checked in a mode, and everything that a report of it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.execution import ModeUnavailableError, values
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.lines import measured_rounding, ulp_rounding
from gradcheck.comparison.summary import undecided
from gradcheck.comparison.tables import EXCLUSION
from gradcheck.hunt.blame import blame, squared
from gradcheck.hunt.evaluation import forward, values_of
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_check import GraphCheck, OrderCheck
from gradcheck.hunt.graph_problem import NonsmoothNodes
from gradcheck.result import Finding, Kind, OrderResult, Reason, Result, Verdict

Array = np.ndarray[Any, Any]
VALUES = 1e-4
"""Values of a function that differ by more are those of another function, and no matter of its derivative."""

KEPT = (Kind.RAISES, Kind.SHAPE)
"""Kinds that are kept: they are more than a disagreement of modes."""


@dataclass(frozen=True)
class Trial:
    """What came out of checking a graph's derivatives in `mode`, order by order, and what they were checked with.

    `values` are those at all positions. `cotangent` (m,) and `direction` (n,; None without second order) are the
    coordinates that the derivatives were taken with.
    """

    graph: Graph
    mode: Mode
    orders: Mapping[int, OrderCheck]
    values: tuple[Array, ...]
    nonsmooth_nodes: NonsmoothNodes
    cotangent: Array
    direction: Array | None

    @cached_property
    def result(self) -> Result:
        """The results of all orders."""
        return Result({order: check.result for order, check in self.orders.items()})

    @property
    def kinks(self) -> int:
        """How many nodes are at a kink."""
        return len(self.nonsmooth_nodes.kinks)

    @property
    def singular(self) -> bool:
        """Whether a node is at a singular point."""
        return bool(self.nonsmooth_nodes.singular)

    @property
    def error_ratio(self) -> float:
        """The largest error over what is allowed, for a search that aims at it; 0 where nothing was compared."""
        compared = (table for check in self.orders.values() for table in check.tables)
        return max((float(np.max(table.excess(), initial=0.0)) for table in compared), default=0.0)


def run(
    graph: Graph,
    orders: tuple[int, ...] = (1, 2),
    *,
    weights: Array | None = None,
    vector: Array | None = None,
    mode: Mode = PLAIN,
) -> Trial:
    """Check a graph's derivatives at its literal inputs, as taken in a mode.

    No node at a kink: <w, y> for a fixed random cotangent w, against every coordinate (order 1) and along one direction
    (order 2). One: the subgradient test, output by output, and no second order. More, or a singular point: a
    convention, not checked. The coordinates `weights` and `vector` replace the random cotangent and direction.

    In another mode than the plain one, one order is checked: it agrees where it equals the plain derivative; else the
    estimates decide. Where they contradict the plain derivative, that is the finding, and the trial's mode is plain.
    Raises ValueError for several orders in such a mode.
    """
    if mode != PLAIN and len(orders) != 1:
        raise ValueError(f"orders were {orders}; in the mode {mode} one is checked at a time")
    check = GraphCheck.at_inputs(graph, weights, vector, mode)
    if mode == PLAIN:
        checked = check.orders(orders)
    else:
        (order,) = orders
        mode, one = check_in_mode(check, order)
        checked = {order: one}
    direction = check.direction if 2 in checked and not check.empty else None
    return Trial(graph, mode, checked, check.values, check.nonsmooth_nodes, check.cotangent, direction)


def culprit(graph: Graph, order: int, check: Callable[[Graph, tuple[int, ...]], Trial] = run) -> int | None:
    """The position of the first node whose own derivative is wrong by a `check`; None where only the whole is.

    At order 2 a node is tried with its square behind it, too: a linear operation shows a wrong second derivative only
    where what comes from above depends on the inputs.
    """

    def wrong(node: Graph) -> bool:
        tried = (node, squared(node)) if order == 2 else (node,)
        return any(check(one, (order,)).result.verdict == Verdict.MISMATCH for one in tried)

    return blame(graph, values_of(graph), wrong)


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
