"""The check of a graph's derivatives in one mode: one cotangent, one direction, one batch of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.lines import Lines
from gradcheck.comparison.orders import compare_gradients, compare_products, compare_second
from gradcheck.comparison.probes import SMALL, first_order
from gradcheck.comparison.summary import broken, summarise, undecided
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.hunt.blame import alone
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.probing import axes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import joined
from gradcheck.result import Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]
Checked = tuple[OrderResult, Sequence[Comparison]]
"""The result of an order, and the tables of comparisons that it sums up (none where nothing was compared)."""

PROBES = 8

NEARER = 0.01
"""A chain-rule value is autodiff's if it is so much nearer to that than to the finite-difference estimate."""


def check_orders(problem: GraphProblem, orders: Iterable[int]) -> dict[int, Checked]:
    """The check of each order. Raises ModeUnavailableError where there is no derivative in the problem's mode."""
    if set(orders) == {1, 2} and problem.smooth and not problem.empty and problem.point.size <= SMALL:
        try:
            first, second = compare_both_orders(problem)
        except (DerivativeRaisedError, WrongShapeError):
            pass  # each order reports what it raises
        else:
            tables = {1: [_without_hidden_terms(problem, first)], 2: second}
            return {order: (summarise(order, tables[order], problem.sources), tables[order]) for order in orders}
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
        else:
            # The subgradient test at a kink looks at every output by itself.
            compared = replace(problem, cotangent=None) if nodes.kinks else problem
            tables = [_without_hidden_terms(problem, table) for table in first_order(compared, Tolerance(), PROBES)]
    except DerivativeRaisedError as error:
        return broken(order, Kind.RAISES, "the inputs", str(error)), ()
    except WrongShapeError as error:
        return broken(order, Kind.SHAPE, error.source, str(error)), ()
    result = summarise(order, tables, problem.sources)
    if nodes.kinked_elements > 1 and result.verdict == Verdict.MISMATCH:
        # Several elements of one node at their kinks compose like several nodes do.
        return undecided(order, Reason.COMPOSED_KINK, "more than one element of a node is at a kink"), ()
    return result, tables


def compare_both_orders(problem: GraphProblem) -> tuple[Comparison, list[Comparison]]:
    """The derivatives of one number along the axes, and the second one along the direction, beside their estimates.

    The gradient under test is the one that autodiff's second derivative passes through. One batch holds the values on
    all lines, one tableau the differences of all values and of the gradient. Raises DerivativeRaisedError and
    WrongShapeError.
    """
    n, cotangent, line = problem.point.size, np.ones(1), problem.direction[None, :]
    on_axes, on_line = slice(None, n), slice(n, n + 1)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([axes(n), line]), cotangent[None, :], Tolerance())
    values, gradients = lines.sample(), replace(lines.some(on_line), gradients=True).sample()
    sample = joined(values, gradients.apart())
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    curvatures = second_difference(sample, slopes, rounding)
    first = compare_gradients(lines.some(on_axes), gradient, values.lines(on_axes), slopes.lines(on_axes))
    estimates = slopes.lines(slice(n + 1, None)).turned, curvatures.lines(on_line)
    second = compare_products(lines.some(on_line), products, gradients, values.lines(on_line), estimates)
    return replace(first, columns=tuple(range(n)), rows=(0,)), second


def _without_hidden_terms(problem: GraphProblem, table: Comparison) -> Comparison:
    """The table without mismatches that the chain rule contradicts.

    Where every node's own derivative agrees with its estimate, under the cotangent that reaches it, and their product
    is autodiff's value, the differences of the whole have missed what is small beside its other terms.
    """
    columns = [column for column in table.columns if column is not None]
    applies = problem.mode == PLAIN and problem.smooth and len(problem.graph.nodes) > 1
    if not (applies and table.any(Verdict.MISMATCH) and len(columns) == len(table.columns)):
        return table
    gradient = chain_rule_gradient(problem)
    if gradient is None:
        return table
    expected = gradient[columns][:, None]
    missed = table.where(Verdict.MISMATCH, Kind.WRONG_VALUE)
    missed &= np.abs(expected - table.autodiff) <= NEARER * np.abs(expected - table.difference)
    return table.marked(missed, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def chain_rule_gradient(problem: GraphProblem) -> Array | None:
    """The gradient (n,) under the problem's cotangent, node by node; None where one of them is in doubt.

    What reaches a node is summed over its uses, as reverse accumulation does it (Griewank and Walther, "Evaluating
    Derivatives", section 3.2).
    """
    graph, values = problem.graph, problem.intermediates
    counts = [coordinate_count(value.shape, value.dtype) for value in values]
    reached: dict[int, Any] = {graph.size - 1: problem.cotangent}
    for position, node in reversed(list(graph.positions())):
        if position not in reached:
            continue
        one = GraphProblem.evaluated(alone(graph, position, values), reached[position])
        if not np.all(np.isfinite(reached[position])) or check_order(one, 1)[0].verdict != Verdict.AGREE:
            return None
        pulled = one.gradients(np.ones((1, 1))).values[0]
        for parent in dict.fromkeys(node.parents):
            part, pulled = pulled[: counts[parent]], pulled[counts[parent] :]
            reached[parent] = reached.get(parent, 0.0) + part
    return np.concatenate([reached.get(place, np.zeros(counts[place])) for place in range(len(graph.inputs))])
