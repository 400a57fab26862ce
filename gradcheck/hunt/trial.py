"""The trial of a graph: its derivatives checked order by order, in a mode, and everything that a report of it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.execution import ModeUnavailableError
from gradcheck.autodiff.execution import values as values_in_mode
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.first_order import compare_first, compare_gradients
from gradcheck.comparison.lines import Lines, ulp_rounding
from gradcheck.comparison.own_rounding import OwnRounding, Surroundings
from gradcheck.comparison.probes import SMALL, first_order, one_by_one
from gradcheck.comparison.second_order import compare_products, compare_second
from gradcheck.comparison.summary import broken, summarise, undecided
from gradcheck.comparison.tables import EXCLUSION, Comparison, Tolerance
from gradcheck.hunt.blame import alone, blame
from gradcheck.hunt.catalogue.language import traced_anew
from gradcheck.hunt.chain_rule import Pulled, chain_rule_gradient, chain_rule_products, tangents_at_kink
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.hunt.known_graphs import tells_of
from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import joined
from gradcheck.result import Kind, OrderResult, Reason, Result, Verdict

Array = np.ndarray[Any, Any]
Checked = tuple[OrderResult, Sequence[Comparison]]
"""The result of an order, and the tables of comparisons that it sums up (none where nothing was compared)."""

PROBES = 8

ANOTHER = Kind.WRONG_VALUE, Kind.MISSING
"""Autodiff has another value than the estimate, or none, which counts as zero."""

OFF = 0.1
"""Where the chain rule's value misses the finite-difference estimate by this part of what autodiff's does, that is why:
by what differences miss, or by what the nodes' own derivatives round.
"""

VALUES = 1e-4
"""Values of a function that differ by more are those of another function, and no matter of its derivative."""

ROUNDINGS = 32.0
"""In less than float64, values that differ by more roundings than so many."""

ROUNDED = {Reason.ILL_CONDITIONED, Reason.STAIRCASE}
"""Why derivatives are inconclusive where values have lost digits."""

KEPT = (Kind.RAISES, Kind.SHAPE)
"""Kinds that are kept: they are more than a disagreement of modes."""


@dataclass(frozen=True)
class Trial:
    """What came out of checking a graph's derivatives, and what they were checked with: the `problem`, mode included.

    `tables` has, for each order, the comparisons that its result sums up (none where nothing was compared).
    """

    problem: GraphProblem
    result: Result
    tables: Mapping[int, Sequence[Comparison]]

    @property
    def error_ratio(self) -> float:
        """The largest error over what is allowed, for a search that aims at it; 0 where nothing was compared."""
        compared = (table for tables in self.tables.values() for table in tables)
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
    problem = GraphProblem.evaluated(graph, weights, vector, mode)
    if mode == PLAIN:
        checked = check_orders(problem, orders)
    else:
        problem, one = check_in_mode(problem, orders[0])
        checked = {orders[0]: one}
    results = {order: result for order, (result, _) in checked.items()}
    return Trial(problem, Result(results), {order: tables for order, (_, tables) in checked.items()})


def culprit(
    graph: Graph,
    order: int,
    check: Callable[[Graph, tuple[int, ...]], Trial] = run,
    *,
    weights: Array | None = None,
) -> int | None:
    """The position of the first node whose own derivative is wrong by a `check`; None where only the whole is.

    `weights` are those of the graph's own trial.
    """

    def is_wrong(part: Graph, places: Sequence[int]) -> bool:
        return tells_wrong(graph, order, check(part, (order,)), places, weights)

    return blame(graph, values_of(graph), order, is_wrong)


def tells_wrong(graph: Graph, order: int, part: Trial, places: Sequence[int], weights: Array | None) -> bool:
    """Whether a part of a graph, whose first nodes stand at some places of it, is wrong, and that tells of the graph.

    `weights` are those of the graph's own trial.
    """
    wrong = part.result.verdict == Verdict.MISMATCH
    return wrong and tells_of(graph, order, part.problem, places, weights=weights)


def check_orders(problem: GraphProblem, orders: Iterable[int]) -> dict[int, Checked]:
    """The check of each order. Raises ModeUnavailableError where there is no derivative in the problem's mode."""
    if set(orders) == {1, 2} and problem.smooth and not problem.empty and problem.point.size <= SMALL:
        try:
            first, second = compare_both_orders(problem)
        except (DerivativeRaisedError, WrongShapeError):
            pass  # each order reports what it raises
        else:
            first = _without_hidden_terms(problem, first)
            second = _without_hidden_products(problem, _where_first_decides(problem, second, first))
            tables = {1: [first], 2: second}
            return {order: _decided(problem, order, tables[order]) for order in orders}
    return {order: check_order(problem, order) for order in orders}


def check_order(problem: GraphProblem, order: int) -> Checked:
    """The check of one order, second derivatives along the problem's direction. Raises ModeUnavailableError."""
    nodes = problem.nonsmooth_nodes
    if problem.empty:
        return OrderResult(order=order, verdict=Verdict.AGREE, notes=("no elements: agrees trivially",)), ()
    if nodes.composed:
        note = "more than one node is at a kink, or one at a singular point"
        return undecided(order, Reason.COMPOSED_KINK, note), ()
    if order == 2 and (nodes.kinks or nodes.curvature_jumps):
        return undecided(order, Reason.HIGHER_KINK, "a node has no second derivative at its arguments"), ()
    try:
        if order == 2:
            tables = compare_second(problem, problem.direction[None, :], np.ones(1), Tolerance())
            tables = _without_hidden_products(problem, _where_first_decides(problem, tables))
        else:
            # The subgradient test at a kink looks at every output by itself.
            compared = replace(problem, cotangent=None) if nodes.kinks else problem
            tables = [_without_hidden_terms(problem, table) for table in first_order(compared, Tolerance(), PROBES)]
    except DerivativeRaisedError as error:
        return broken(order, Kind.RAISES, "the inputs", str(error)), ()
    except WrongShapeError as error:
        return broken(order, Kind.SHAPE, error.source, str(error)), ()
    return _decided(problem, order, tables)


def _decided(problem: GraphProblem, order: int, tables: Sequence[Comparison]) -> Checked:
    """What the comparisons say, undecided where inner values are not known well enough to tell where a kink lies.

    The nearest integer times y, of a y that has lost its digits but for two behind the point: every difference that
    shows more than rounding spans many of its stairs.
    """
    result = summarise(order, tables, problem.sources)
    if result.verdict != Verdict.MISMATCH:
        return result, tables
    if problem.nonsmooth_nodes.kinked_elements > 1:
        # Several elements of one node at their kinks compose like several nodes do.
        return undecided(order, Reason.COMPOSED_KINK, "more than one element of a node is at a kink"), ()
    if not (blurred := problem.blurred_nodes):
        return result, tables
    nodes = dict(problem.graph.positions())
    names = ", ".join(dict.fromkeys(nodes[place].op for place in blurred))
    note = f"the arguments of {names} lie as near to a kink or leap as they have lost digits"
    return undecided(order, Reason.ILL_CONDITIONED, note), ()


def compare_both_orders(problem: GraphProblem) -> tuple[Comparison, list[Comparison]]:
    """The derivatives of one number along the axes, and the second one along the direction, beside their estimates.

    The gradient under test is the one that autodiff's second derivative passes through. One batch holds the values on
    all lines, one tableau the differences of all values and of the gradient. Raises DerivativeRaisedError and
    WrongShapeError.
    """
    n, cotangent, line = problem.point.size, np.ones(1), problem.direction[None, :]
    on_axes, on_line = slice(None, n), slice(n, n + 1)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([np.eye(n), line]), cotangent[None, :], Tolerance())
    values, gradients = lines.sample(), replace(lines.some(on_line), gradients=True).sample()
    sample = joined(values, gradients.apart())
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    curvatures = second_difference(sample, slopes, rounding)
    first = compare_gradients(lines.some(on_axes), gradient, values.lines(on_axes), slopes.lines(on_axes))
    estimates = slopes.lines(slice(n + 1, None)).turned, curvatures.lines(on_line)
    second = compare_products(lines.some(on_line), products, gradients, values.lines(on_line), estimates)
    return replace(first, columns=tuple(range(n)), rows=(0,)), second


def _where_first_decides(
    problem: GraphProblem, tables: list[Comparison], first: Comparison | None = None
) -> list[Comparison]:
    """Second derivatives, inconclusive where only coordinates that may be at a kink make them wrong.

    Their first derivatives are inconclusive, or the kink is nearer than the finest step. A clip to 1e-7 and more kinks
    a tenth of a millionth beside an input of 0: the gradients of all other coordinates kink there along a direction
    that moves this one. What is wrong along the rest of the direction, too, is wrong.
    """
    n = problem.point.size
    if n > SMALL or not any(table.any(Verdict.MISMATCH) for table in tables):
        return tables
    if first is None:
        plain = replace(problem, mode=PLAIN)
        first = _without_hidden_terms(plain, one_by_one(plain, Tolerance(), range(n), range(1)))
    decided = ~first.where(Verdict.INCONCLUSIVE)[:, 0] & ~problem.hidden_kinks
    rest = np.where(decided, problem.direction, 0.0)
    if (rest == problem.direction).all():
        return tables
    if rest.any():
        along_rest = compare_second(problem, rest[None, :], np.ones(1), Tolerance())
        if any(table.any(Verdict.MISMATCH) for table in along_rest):
            return tables
    return [replace(table.excused(True, Reason.ILL_CONDITIONED), alone=None) for table in tables]


def _without_hidden_terms(problem: GraphProblem, table: Comparison) -> Comparison:
    """The table without mismatches that the chain rule contradicts.

    Where every node's own derivative agrees with its estimate, under the cotangent that reaches it, and their product
    is no nearer to the differences of the whole, these have missed what is small beside its other terms, or a kink.
    Where a node's cannot be told for its rounding, they cannot tell it behind others, either.
    """
    columns = [column for column in table.columns if column is not None]
    missed = table.where(Verdict.MISMATCH, *ANOTHER)
    kinked = bool(problem.nonsmooth_nodes.kinks)
    applies = problem.mode == PLAIN and len(problem.graph.nodes) > 1 and not (kinked and None in table.rows)
    if not (applies and missed.any() and len(columns) == len(table.columns)) or problem.blurred_nodes:
        return table

    @cache
    def moved() -> Array | None:  # alike for all outputs
        tangents = tangents_at_kink(problem, agrees)
        return None if tangents is None else tangents[columns]

    expected = np.full(missed.shape, np.nan)
    outputs = np.eye(coordinate_count(problem.output.shape, problem.output.dtype))
    for row in np.flatnonzero(missed.any(axis=0)):
        under = replace(problem, cotangent=outputs[table.rows[row]]) if kinked else problem
        verdicts: list[Verdict] = []
        pulled = chain_rule_gradient(under, partial(_agrees_or_rounds, verdicts=verdicts))
        if pulled is not None:
            decides = not kinked or Verdict.INCONCLUSIVE in verdicts or _between_slopes(problem, pulled, moved())
            expected[:, row] = np.where(decides, pulled.gradient[columns], np.nan)
    return _without_missed(table, expected)


def _between_slopes(problem: GraphProblem, pulled: Pulled, moved: Array | None) -> Array | bool:
    """Where the only node at a kink has a derivative between its one-sided slopes, along what a coordinate moves it.

    At a tie each partial derivative may be possible and all together not.
    """
    if moved is None or (kink := problem.nonsmooth_nodes.kinks[0]) not in pulled.cotangents:
        return False
    one = GraphProblem.evaluated(alone(problem.graph, kink, problem.intermediates), pulled.cotangents[kink])
    found: Array = np.asarray(~moved.any(axis=1))
    if not found.all():
        slopes = compare_first(one, moved[~found], np.ones((1, 1)), Tolerance())
        found[~found] = slopes.where(Verdict.AGREE)[:, 0]
    return found


def _without_hidden_products(problem: GraphProblem, tables: list[Comparison]) -> list[Comparison]:
    """The same for second derivatives along the problem's direction."""
    wrong = any(table.any(Verdict.MISMATCH) for table in tables)
    applies = problem.mode == PLAIN and problem.smooth and len(problem.graph.nodes) > 1
    if not (applies and wrong) or (products := chain_rule_products(problem, agrees)) is None:
        return tables
    whole, found = problem.direction @ products, []
    for table in tables:
        expected = np.array([whole if column is None else products[column] for column in table.columns])[:, None]
        left = _without_missed(table, expected)
        found.append(left if left.any(Verdict.MISMATCH) else replace(left, alone=None))
    return found


def _without_missed(table: Comparison, expected: Array) -> Comparison:
    """The table without wrong values where the chain rule's, `expected`, misses the estimates, too."""
    off = np.abs(expected - table.difference) >= OFF * np.abs(table.autodiff - table.difference)
    return table.marked(table.where(Verdict.MISMATCH, *ANOTHER) & off, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def agrees(problem: GraphProblem, order: int) -> bool:
    """Whether a problem's derivatives of an order agree with their estimates."""
    return check_order(problem, order)[0].verdict == Verdict.AGREE


def _agrees_or_rounds(problem: GraphProblem, order: int, *, verdicts: list[Verdict]) -> bool:
    """Whether they do, but for entries that cannot be told for the rounding of the values; notes the verdict."""
    result, tables = check_order(problem, order)
    verdicts.append(result.verdict)
    lost = result.verdict == Verdict.INCONCLUSIVE and set(result.reasons) <= ROUNDED and bool(tables)
    return lost or result.verdict == Verdict.AGREE


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
        result, tables = check_order(problem, order)
        if mode.number_type and result.verdict != Verdict.MISMATCH:
            return problem, (result, tables)
    except ModeUnavailableError as error:
        return problem, (undecided(order, Reason.CANNOT_RUN, str(error)), ())
    beside = check_order(plain, order)
    if beside[0].verdict == Verdict.MISMATCH:
        return plain, beside
    findings = tuple(
        replace(
            finding,
            kind=finding.kind if finding.kind in KEPT else Kind.MODES,
            reason=f"{mode}: {finding.reason}; {PLAIN}: {beside[0].verdict}",
        )
        for finding in result.findings
    )
    return problem, (replace(result, findings=findings), tables)


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
            allowed = EXCLUSION * OwnRounding(Surroundings(plain, derivative), other, allowed).beside(taken, taken)
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
    """Raises ModeUnavailableError where the function itself has other values in the mode, as random numbers have."""
    with traced_anew():
        (output,) = values_in_mode(problem.mode, problem.forward, problem.tensors(problem.point))
    near = max(VALUES, ROUNDINGS * problem.precision)
    if not np.allclose(output.numpy(), problem.output, rtol=near, atol=near * problem.largest, equal_nan=True):
        raise ModeUnavailableError("the function has other values in this mode")


def _close(one: Array, other: Array, allowed: Array) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.abs(one - other) <= allowed
    return bool(np.all(near | (one == other) | (np.isnan(one) & np.isnan(other))))
