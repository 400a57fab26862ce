"""The check of a graph's derivatives in one mode: one cotangent, one direction, one batch of points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.lines import Lines
from gradcheck.comparison.orders import compare_gradients, compare_products, compare_second
from gradcheck.comparison.probes import SMALL, first_order
from gradcheck.comparison.summary import broken, summarise, undecided
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.hunt.blame import chain_rule_gradient
from gradcheck.hunt.evaluation import TapedEvaluation, values_of
from gradcheck.hunt.graph import Graph, coordinates_of
from gradcheck.hunt.graph_problem import GraphProblem, NonsmoothNodes, nonsmooth_nodes
from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.probing import axes, magnitudes, probe_directions
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.stencil import joined
from gradcheck.result import Kind, OrderResult, Reason, Verdict

Array = np.ndarray[Any, Any]

PROBES = 8

NEARER = 0.01
"""A chain-rule value is autodiff's if it is so much nearer to that than to the finite-difference estimate."""


@dataclass(frozen=True)
class OrderCheck:
    """The result of one order, and the tables of comparisons that it sums up (none where nothing was compared)."""

    result: OrderResult
    tables: tuple[Comparison, ...] = ()


@dataclass(frozen=True)
class GraphCheck:
    """A graph at its literal inputs, ready to have its derivatives in a mode checked.

    `values` are those at all positions. `cotangent` (m,), in coordinates, is what the output is multiplied with;
    `given_direction` (n,) replaces the random direction of second derivatives. `taped` is an evaluation under a tape.
    """

    graph: Graph
    values: tuple[Array, ...]
    nonsmooth_nodes: NonsmoothNodes
    cotangent: Array
    given_direction: Array | None = None
    mode: Mode = PLAIN
    taped: TapedEvaluation | None = None

    @staticmethod
    def at_inputs(
        graph: Graph, cotangent: Array | None = None, direction: Array | None = None, mode: Mode = PLAIN
    ) -> GraphCheck:
        """The check of a graph, with a fixed random cotangent and direction unless they are given."""
        taped = TapedEvaluation(graph) if mode == PLAIN else None
        values = tuple(values_of(graph)) if taped is None else taped.values
        if cotangent is None:
            cotangent = random_cotangent(coordinate_count(values[-1].shape, str(values[-1].dtype)))
        return GraphCheck(graph, values, nonsmooth_nodes(graph, values), cotangent, direction, mode, taped)

    @property
    def output(self) -> Array:
        """The value of the graph."""
        return self.values[-1]

    @cached_property
    def point(self) -> Array:
        """The coordinates of all inputs, shape (n,)."""
        return coordinates_of(self.graph.inputs)

    @cached_property
    def direction(self) -> Array:
        """The direction (n,) along which second derivatives are taken."""
        return random_direction(self.point) if self.given_direction is None else self.given_direction

    @cached_property
    def largest(self) -> float:
        """The largest magnitude at any position."""
        return max(float(np.max(np.abs(value), initial=0.0)) for value in self.values)

    @property
    def empty(self) -> bool:
        """Whether there is no derivative, for want of elements."""
        return not self.output.size or not self.point.size

    def orders(self, orders: tuple[int, ...]) -> Mapping[int, OrderCheck]:
        """The check of each order. Raises ModeUnavailableError where there is no derivative in the mode."""
        if set(orders) == {1, 2} and self.nonsmooth_nodes.smooth and not self.empty and self.point.size <= SMALL:
            try:
                return self._both()
            except (DerivativeRaisedError, WrongShapeError):
                pass  # each order reports what it raises
        return {order: self.order(order) for order in orders}

    def order(self, order: int) -> OrderCheck:
        """The check of one order."""
        if self.empty:
            return OrderCheck(OrderResult(order=order, verdict=Verdict.AGREE, notes=("no elements: agrees trivially",)))
        if self.nonsmooth_nodes.composed:
            note = "more than one node is at a kink, or one at a singular point"
            return OrderCheck(undecided(order, Reason.COMPOSED_KINK, note))
        if order == 2 and not self.nonsmooth_nodes.twice_differentiable:
            return OrderCheck(undecided(order, Reason.HIGHER_KINK, "a node has no second derivative at its arguments"))
        try:
            return self._first() if order == 1 else self._second()
        except DerivativeRaisedError as error:
            return OrderCheck(broken(order, Kind.RAISES, "the inputs", str(error)))
        except WrongShapeError as error:
            return OrderCheck(broken(order, Kind.SHAPE, error.source, str(error)))

    def problem(self, *, projected: bool = True) -> GraphProblem:
        """The graph's product with the cotangent as a function, or, not `projected`, the graph itself."""
        # A tie rests on the values before it: perturbed, it would break, and show another side of the kink.
        exempt = frozenset().union(*(self.graph.ancestors(place) for place in self.nonsmooth_nodes.positions))
        return GraphProblem(
            self.graph,
            tuple(self.output.shape),
            str(self.output.dtype),
            self.nonsmooth_nodes.smooth,
            self.cotangent if projected else None,
            self.largest,
            exempt,
            mode=self.mode,
            taped=self.taped,
        )

    def _both(self) -> Mapping[int, OrderCheck]:
        problem = self.problem()
        first, second = compare_both_orders(problem, self.direction)
        return {1: _summary(1, problem, [self._chain_rule(first)]), 2: _summary(2, problem, second)}

    def _first(self) -> OrderCheck:
        problem = self.problem(projected=not self.nonsmooth_nodes.kinks)
        tables = [self._chain_rule(table) for table in first_order(problem, Tolerance(), PROBES)]
        check = _summary(1, problem, tables)
        if self.nonsmooth_nodes.kinked_elements > 1 and check.result.verdict == Verdict.MISMATCH:
            # Several elements of one node at their kinks compose like several nodes do.
            return OrderCheck(undecided(1, Reason.COMPOSED_KINK, "more than one element of a node is at a kink"))
        return check

    def _second(self) -> OrderCheck:
        problem = self.problem()
        return _summary(2, problem, compare_second(problem, self.direction[None, :], np.ones(1), Tolerance()))

    def _chain_rule(self, table: Comparison) -> Comparison:
        """The table without mismatches that the chain rule contradicts.

        Where every node's own derivative agrees with its estimate, under the cotangent that reaches it, and their
        product is autodiff's value, the differences of the whole have missed what is small beside its other terms.
        """
        columns = [column for column in table.columns if column is not None]
        applies = self.mode == PLAIN and self.nonsmooth_nodes.smooth and len(self.graph.nodes) > 1
        if not (applies and table.any(Verdict.MISMATCH) and len(columns) == len(table.columns)):
            return table
        gradient = chain_rule_gradient(self.graph, self.values, self.cotangent, _gradient_if_right)
        if gradient is None:
            return table
        expected = gradient[columns][:, None]
        missed = table.where(Verdict.MISMATCH, Kind.WRONG_VALUE)
        missed &= np.abs(expected - table.autodiff) <= NEARER * np.abs(expected - table.difference)
        return table.marked(missed, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def compare_both_orders(problem: GraphProblem, direction: Array) -> tuple[Comparison, list[Comparison]]:
    """The derivatives along the axes, and the second one along a direction (n,), of one number, beside their estimates.

    The gradient under test is the one that autodiff's second derivative passes through. One batch holds the values on
    all lines, one tableau the differences of all values and of the gradient. Raises DerivativeRaisedError and
    WrongShapeError.
    """
    n, cotangent = problem.point.size, np.ones(1)
    line, on_axes, on_line = direction[None, :], slice(None, n), slice(n, n + 1)
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


@lru_cache(maxsize=256)
def random_cotangent(count: int) -> Array:
    """The fixed random cotangent for outputs of `count` coordinates."""
    only: Array = probe_directions(np.random.default_rng(count), 1, np.ones(count))[0]
    return only


def random_direction(point: Array) -> Array:
    """The fixed random direction through a point (n,), each component of its coordinate's magnitude."""
    only: Array = probe_directions(np.random.default_rng(point.size), 1, magnitudes(point))[0]
    return only


def _gradient_if_right(graph: Graph, cotangent: Array) -> Array | None:
    """The gradient of a graph of one node, if its estimate agrees with it."""
    check = GraphCheck.at_inputs(graph, cotangent)
    if not np.all(np.isfinite(cotangent)) or check.order(1).result.verdict != Verdict.AGREE:
        return None
    row: Array = check.problem().gradients(np.ones((1, 1))).values[0]
    return row


def _summary(order: int, problem: GraphProblem, tables: list[Comparison]) -> OrderCheck:
    return OrderCheck(summarise(order, tables, problem.sources), tuple(tables))
