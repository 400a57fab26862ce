"""The trial of a graph: its derivatives checked order by order, in a mode, and everything that a report of it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.execution import ModeUnavailableError
from gradcheck.autodiff.execution import values as values_in_mode
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.graph import Graph
from gradcheck.hunt.evaluation import in_batches
from gradcheck.hunt.finding import EAGER_TAPE
from gradcheck.hunt.graph_check import Checked, check_order, check_orders
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.long_sums import compare_sums
from gradcheck.numerics.difference import EXCLUSION
from gradcheck.operations.language import traced_anew
from gradcheck.result import Kind, OrderResult, Reason, Result, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.measured_rounding import Neighbourhood, OwnRounding, ulp_rounding
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.summary import summarise, undecided
from gradcheck.verdict.tables import Comparison

VALUES = 1e-4
"""Relative tolerance of values; values that differ by more belong to another function, whatever its derivative."""

ROUNDINGS = 32.0
"""Least relative tolerance of values in roundings of the mode's number type, which counts below float64."""

OTHER_VALUES = "the function has other values in this mode"
BESIDE = 2.0**-6
"""Replaces zeros; exact in every number type."""

FEW = 8.0
"""As many roundings of the largest derivative, in the mode's number type, are no error of a smaller one."""

KEPT = (Kind.RAISES, Kind.SHAPE)
"""Kinds that are kept, since they are more than a disagreement of modes."""

SEEN = {Verdict.AGREE: "right", Verdict.MISMATCH: "wrong, too", Verdict.INCONCLUSIVE: "inconclusive"}
"""The verdict on another mode, in the reason of a finding."""


@dataclass(frozen=True)
class Trial:
    """The result of checking a graph's derivatives, and the `problem` (mode included) that was checked.

    `tables` has, for each order, the comparisons that its result sums up (none where nothing was compared).
    """

    problem: GraphProblem
    result: Result
    tables: Mapping[int, Sequence[Comparison]]

    def error_ratio(self, order: int) -> float:
        """The largest error over what is allowed, as a search target; 0 where nothing was compared."""
        return max((float(np.max(table.excess(), initial=0.0)) for table in self.tables[order]), default=0.0)


def run(
    graph: Graph,
    orders: tuple[int, ...] = (1, 2),
    *,
    weights: Array | None = None,
    vector: Array | None = None,
    mode: Mode = PLAIN,
) -> Trial:
    """Checks a graph's derivatives at its literal inputs, as taken in a mode.

    No node at a kink: <w, y> for a fixed random cotangent w, against every coordinate (order 1) and along one direction
    (order 2). One node: the subgradient test, output by output, and no second order. More, or a singular point: a
    convention, not checked. The coordinates `weights` and `vector` replace the random cotangent and direction.

    In another mode than the plain one, one order is checked: it agrees where it equals the plain derivative; else the
    estimates decide. Where they contradict the plain derivative, that is the finding, and the trial's mode is plain.
    Raises ValueError for several orders in such a mode.
    """
    if mode != PLAIN and len(orders) != 1:
        raise ValueError(f"orders were {orders}; in the mode {mode} one is checked at a time")
    # Both orders together take no gradient of first order alone, where the function is smooth.
    taped = set(orders) != {1, 2} or not in_batches(graph)
    problem = GraphProblem.evaluated(graph, weights, vector, mode, taped=taped)
    if mode == PLAIN:
        checked = check_orders(problem, orders)
    else:
        problem, one = check_in_mode(problem, orders[0])
        checked = {orders[0]: one}
    results = {order: result for order, (result, _) in checked.items()}
    return Trial(problem, Result(results), {order: tables for order, (_, tables) in checked.items()})


def check_in_mode(problem: GraphProblem, order: int) -> tuple[GraphProblem, Checked]:
    """The check of one order, and the problem whose derivative it is about: the one given, or that in the plain mode.

    The derivative agrees where it equals the plain one within its rounding. Else estimates decide: where they
    contradict the plain derivative, that is the finding. Where there is no derivative in the mode, for a documented
    reason, the check is inconclusive.
    """
    if problem.empty:
        return problem, check_order(problem, order)
    plain, mode = replace(problem, mode=PLAIN), problem.mode
    try:
        agreement = None if mode.number_type else _agreement(problem, plain, order)
        if agreement is not None:
            return problem, (agreement, ())
        _refuse_other_values(problem)
        result, tables = _in_sums(problem, order) or _beyond_rounding(problem, order, check_order(problem, order))
        if mode.number_type and result.verdict != Verdict.MISMATCH:
            return problem, (result, tables)
        _refuse_other_values_beside(problem)
    except ModeUnavailableError as error:
        return problem, (undecided(order, Reason.CANNOT_RUN, str(error)), ())
    beside = check_order(plain, order)
    if beside[0].verdict == Verdict.MISMATCH:
        return plain, _also(beside, f"taken as {mode}, it is {SEEN[result.verdict]}")
    tape = f"{EAGER_TAPE}{' in float64' if mode.number_type else ''}"
    findings = tuple(
        replace(
            finding,
            kind=finding.kind if finding.kind in KEPT else Kind.MODES,
            reason=f"{mode}: {finding.reason}; {tape} is {SEEN[beside[0].verdict]}",
        )
        for finding in result.findings
    )
    return problem, (replace(result, findings=findings), tables)


def _also(checked: Checked, said: str) -> Checked:
    """The check with an addition to the reasons of its findings; what is raised stands alone."""
    result, tables = checked
    findings = tuple(
        one if one.kind is Kind.RAISES else replace(one, reason=f"{one.reason}; {said}") for one in result.findings
    )
    return replace(result, findings=findings), tables


def _beyond_rounding(problem: GraphProblem, order: int, checked: Checked) -> Checked:
    """The check without the mismatches that a few roundings of a number type make, as of p - q for two equal shares."""
    result, tables = checked
    if problem.mode.number_type is None or result.verdict != Verdict.MISMATCH or not tables:
        return checked
    excused = []
    for table in tables:
        sizes = np.abs(table.difference[np.isfinite(table.difference)])
        with np.errstate(invalid="ignore"):
            small = np.abs(table.autodiff - table.difference) <= FEW * problem.precision * np.max(sizes, initial=0.0)
        excused.append(table.excused(small, Reason.ILL_CONDITIONED))
    return summarise(order, excused, problem.sources), excused


def _in_sums(problem: GraphProblem, order: int) -> Checked | None:
    """The check of a gradient in a number type by the terms that it adds up; None for few, or if they do not decide."""
    many = max(problem.point.size, problem.output.size) > SMALL
    table = None
    if problem.mode.number_type and order == 1 and many and problem.smooth:
        with suppress(DerivativeRaisedError, WrongShapeError):  # which the check of an order tells of
            table = compare_sums(problem)
    if table is None:
        return None
    return summarise(1, [table], problem.sources, notes=("compared with the derivative in float64",)), [table]


def _agreement(problem: GraphProblem, plain: GraphProblem, order: int) -> OrderResult | None:
    """Agreement with the plain derivative; None where they differ, or where one of them cannot be taken."""

    def derivative(at: Any, point: Array | None = None) -> Array:
        """The gradient of <w, f> (1, n), or its derivative along the direction."""
        if order == 1:
            return np.asarray(at.gradients(np.ones((1, 1)), point).values)
        return np.asarray(at.products(np.ones(1), problem.direction[None, :], point).values)

    try:
        taken, other = derivative(problem), derivative(plain)
        allowed = ulp_rounding(other, plain.precision)
        if not _close(taken, other, allowed):
            allowed = EXCLUSION * OwnRounding(Neighbourhood(plain, derivative), other, allowed).beside(taken, taken)
    except (DerivativeRaisedError, WrongShapeError):
        return None
    if not _close(taken, other, allowed):
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


def _refuse_other_values(problem: GraphProblem) -> None:
    """Raises ModeUnavailableError if the function's own values differ in the mode, as those of random numbers do."""
    if _differ(problem, problem.point, problem.output):
        raise ModeUnavailableError(OTHER_VALUES)


def _refuse_other_values_beside(problem: GraphProblem) -> None:
    """The same at a point without zeros, which hide their factors; not if the function is not defined there."""
    if problem.point.all():
        return
    point = np.where(problem.point == 0, BESIDE, problem.point)
    try:
        differ = _differ(problem, point, problem.forward(problem.tensors(point))[0].numpy())
    except (tf.errors.OpError, ModeUnavailableError):
        return
    if differ:
        raise ModeUnavailableError(OTHER_VALUES)


def _differ(problem: GraphProblem, point: Array, expected: Array) -> bool:
    """Whether the values at a point differ from the expected ones in the problem's mode."""
    with traced_anew():
        (output,) = values_in_mode(problem.mode, problem.forward, problem.tensors(point))
    near = max(VALUES, ROUNDINGS * problem.precision)
    return not np.allclose(output.numpy(), expected, rtol=near, atol=near * problem.largest, equal_nan=True)


def _close(one: Array, other: Array, allowed: Array) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= allowed
    return bool(np.all(near | (one == other) | (np.isnan(one) & np.isnan(other))))
