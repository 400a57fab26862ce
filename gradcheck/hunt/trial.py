"""The check of one graph, as the hunt runs it by the thousand: one cotangent, one direction, one batch of points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.first_order import compare_gradients
from gradcheck.comparison.lines import Lines
from gradcheck.comparison.probes import SMALL, first_order
from gradcheck.comparison.second_order import compare_products, compare_second
from gradcheck.comparison.summary import broken, summarise, undecided
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.hunt.blame import blame, chained, squared
from gradcheck.hunt.evaluation import TapedEvaluation, values_of
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_problem import GraphProblem, NonsmoothNodes, nonsmooth_nodes
from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.probing import axes, magnitudes, probe_directions
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.stencil import joined
from gradcheck.result import Kind, OrderResult, Reason, Result, Verdict

Array = np.ndarray[Any, Any]


def compare_both(
    problem: GraphProblem, direction: Array, cotangent: Array, tolerance: Tolerance
) -> tuple[Comparison, list[Comparison]]:
    """Compare the first derivatives of <w, f> along the axes, and the second one along a direction, with estimates.

    `direction` (n,), `cotangent` w (m,). The gradient on trial is the one that autodiff's second derivative passes
    through. One batch holds the values on all lines, one tableau the differences of all values and of the gradient.
    Raises DerivativeRaisedError and WrongShapeError.
    """
    n = problem.point.size
    line, on_axes, on_line = direction[None, :], slice(None, n), slice(n, n + 1)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([axes(n), line]), cotangent[None, :], tolerance)
    values, gradients = lines.sample(), lines.some(on_line).sample_gradient()
    sample = joined(values, gradients.apart())
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    curvatures = second_difference(sample, slopes, rounding)
    first = compare_gradients(lines.some(on_axes), gradient, values.lines(on_axes), slopes.lines(on_axes))
    estimates = slopes.lines(slice(n + 1, None)).turned, curvatures.lines(on_line)
    second = compare_products(lines.some(on_line), products, gradients, values.lines(on_line), estimates)
    return replace(first, columns=tuple(range(n)), rows=(0,)), second


PROBES = 8

NEARER = 0.01
"""A value that is so many times nearer to autodiff than to the differences stands with autodiff."""


@dataclass(frozen=True)
class Outcome:
    """An order's result, with the tables that it sums up."""

    result: OrderResult
    tables: tuple[Comparison, ...] = ()

    @property
    def error_ratio(self) -> float:
        """The largest error over what is allowed, for a search that aims at it."""
        return max((float(np.max(table.excess(), initial=0.0)) for table in self.tables), default=0.0)


@dataclass(frozen=True)
class Trial:
    """What came out of taking derivatives in `mode`: an outcome for each order.

    `cotangent` (m,) and, where there is an order 2, `direction` (n,) are in coordinates.
    """

    graph: Graph
    outcomes: Mapping[int, Outcome]
    nonsmooth_nodes: NonsmoothNodes
    cotangent: Array
    direction: Array | None
    mode: Mode = PLAIN

    @cached_property
    def result(self) -> Result:
        """The results of all orders."""
        return Result({order: outcome.result for order, outcome in self.outcomes.items()})

    @property
    def error_ratio(self) -> float:
        """The largest error over what is allowed at any order."""
        return max(outcome.error_ratio for outcome in self.outcomes.values())

    @property
    def kinks(self) -> int:
        """How many nodes stand on a kink."""
        return len(self.nonsmooth_nodes.kinks)

    @property
    def singular(self) -> bool:
        """Whether a node stands on a singular point."""
        return bool(self.nonsmooth_nodes.singular)


def run(
    graph: Graph,
    orders: tuple[int, ...] = (1, 2),
    *,
    weights: Array | None = None,
    vector: Array | None = None,
    mode: Mode = PLAIN,
) -> Trial:
    """Check a graph's derivatives at its literal inputs.

    No node on a kink: <w, y> for a fixed random cotangent w, against every coordinate (order 1) and along one direction
    (order 2). One: the subgradient test, output by output, and no second order. More, or a singular point: a
    convention, not checked. The coordinates `weights` and `vector` stand in for the random cotangent and direction.
    Raises ModeUnavailableError where there is no derivative in this `mode`.
    """
    bench = Bench.of(graph, weights, vector, mode)
    return bench.trial(bench.outcomes(orders))


def culprit(graph: Graph, order: int, check: Callable[[Graph, tuple[int, ...]], Trial] = run) -> int | None:
    """The position of the first node whose own derivative is wrong, as `check` says; None where only the whole is.

    At order 2 a node is tried with its square behind it, too: a linear operation shows a wrong second derivative only
    where what comes from above depends on the inputs.
    """
    values = values_of(graph)

    def wrong(node: Graph) -> bool:
        tried = (node, squared(node)) if order == 2 else (node,)
        return any(check(one, (order,)).result.verdict == Verdict.MISMATCH for one in tried)

    return blame(graph, values, wrong)


@lru_cache(maxsize=256)
def cotangent(count: int) -> Array:
    """The fixed random cotangent for outputs of `count` coordinates."""
    only: Array = probe_directions(np.random.default_rng(count), 1, np.ones(count))[0]
    return only


def direction(point: Array) -> Array:
    """The fixed random direction through a point (n,), each component of its coordinate's magnitude."""
    only: Array = probe_directions(np.random.default_rng(point.size), 1, magnitudes(point))[0]
    return only


@dataclass(frozen=True)
class Bench:
    """A graph, where its nodes stand, and with what its derivatives are taken."""

    graph: Graph
    stands: NonsmoothNodes
    values: tuple[Array, ...]
    weights: Array | None
    vector: Array | None
    mode: Mode
    taped: TapedEvaluation | None = None

    @staticmethod
    def of(graph: Graph, weights: Array | None = None, vector: Array | None = None, mode: Mode = PLAIN) -> Bench:
        """The bench at the graph's literal inputs."""
        taped = TapedEvaluation(graph) if mode == PLAIN else None
        values = tuple(values_of(graph)) if taped is None else taped.values
        return Bench(graph, nonsmooth_nodes(graph, values), values, weights, vector, mode, taped)

    @property
    def output(self) -> Array:
        """The value of the graph."""
        return self.values[-1]

    @cached_property
    def largest(self) -> float:
        """The largest magnitude at any position."""
        return max(float(np.max(np.abs(value), initial=0.0)) for value in self.values)

    def outcomes(self, orders: tuple[int, ...]) -> dict[int, Outcome]:
        """Each order's result with its error ratio."""
        if set(orders) == {1, 2} and self.stands.smooth and self.output.size and 0 < self.count <= SMALL:
            try:
                return self._both()
            except (DerivativeRaisedError, WrongShapeError):
                pass  # each order says for itself what it raises
        return {order: self._order(order) for order in orders}

    def trial(self, outcomes: Mapping[int, Outcome]) -> Trial:
        """The trial with these outcomes."""
        vector = self.along(self.problem(projected=True).point) if 2 in outcomes and self.count else None
        return Trial(self.graph, outcomes, self.stands, self.row, vector, self.mode)

    @property
    def count(self) -> int:
        """How many coordinates the inputs have together."""
        return sum(coordinate_count(literal.shape, literal.dtype) for literal in self.graph.inputs)

    def _order(self, order: int) -> Outcome:
        if not self.output.size or not self.count:
            return Outcome(OrderResult(order=order, verdict=Verdict.AGREE, notes=("no elements: agrees trivially",)))
        if self.stands.composed:
            why = "more than one node stands on a kink, or on a singular point"
            return Outcome(undecided(order, Reason.COMPOSED_KINK, why))
        if not self.stands.curved and order == 2:
            return Outcome(undecided(order, Reason.HIGHER_KINK, "a node stands where it has no second derivative"))
        try:
            return self._first() if order == 1 else self._second()
        except DerivativeRaisedError as error:
            return Outcome(broken(order, Kind.RAISES, "the inputs", str(error)))
        except WrongShapeError as error:
            return Outcome(broken(order, Kind.SHAPE, error.source, str(error)))

    def _both(self) -> dict[int, Outcome]:
        problem = self.problem(projected=True)
        vector = self.along(problem.point)
        first, second = compare_both(problem, vector, np.ones(1), Tolerance())
        return {1: _outcome(1, problem, [self._chained(first)]), 2: _outcome(2, problem, second)}

    def _first(self) -> Outcome:
        problem = self.problem(projected=not self.stands.kinks)
        tables = [self._chained(table) for table in first_order(problem, Tolerance(), PROBES)]
        outcome = _outcome(1, problem, tables)
        if self.stands.elements > 1 and outcome.result.verdict == Verdict.MISMATCH:
            # Several elements of one node at their kinks compose like several nodes do.
            return Outcome(undecided(1, Reason.COMPOSED_KINK, "more than one element of a node stands on a kink"))
        return outcome

    def _chained(self, table: Comparison) -> Comparison:
        """The table without mismatches that the chain rule refutes.

        Where every node's own derivative agrees with differences, under the cotangent that reaches it, and their
        product is autodiff's value, the differences of the whole have missed what is small beside its other terms.
        """
        columns = [column for column in table.columns if column is not None]
        plain = self.mode == PLAIN and self.stands.smooth and len(self.graph.nodes) > 1
        if not (plain and table.any(Verdict.MISMATCH) and len(columns) == len(table.columns)):
            return table
        chain = chained(self.graph, self.values, self.row, _agreed)
        if chain is None:
            return table
        expected = chain[columns][:, None]
        gap = np.abs(expected - table.difference)
        refuted = table.where(Verdict.MISMATCH, Kind.WRONG_VALUE)
        refuted &= np.abs(expected - table.autodiff) <= NEARER * gap
        return table.marked(refuted, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)

    def _second(self) -> Outcome:
        problem = self.problem(projected=True)
        vector = self.along(problem.point)
        return _outcome(2, problem, compare_second(problem, vector[None, :], np.ones(1), Tolerance()))

    def problem(self, *, projected: bool) -> GraphProblem:
        """The graph as a function, or, `projected`, its product with the cotangent."""
        dtype, shape = str(self.output.dtype), tuple(self.output.shape)
        # A tie rests on the values before it: another rounding would break it, and show another side of the kink.
        exempt = frozenset().union(*(self.graph.ancestors(place) for place in self.stands.rough))
        row = self.row if projected else None
        return GraphProblem(
            *(self.graph, shape, dtype, self.stands.smooth, row, self.largest, exempt), mode=self.mode, taped=self.taped
        )

    @property
    def row(self) -> Array:
        """The cotangent, in coordinates."""
        given = self.weights
        return cotangent(coordinate_count(self.output.shape, str(self.output.dtype))) if given is None else given

    def along(self, point: Array) -> Array:
        """The direction through a point (n,) along which second derivatives are taken."""
        return direction(point) if self.vector is None else self.vector


def _agreed(graph: Graph, weights: Array) -> Array | None:
    """The gradient of a node by itself, if differences agree with it."""
    bench = Bench.of(graph, weights)
    if not np.all(np.isfinite(weights)) or bench.outcomes((1,))[1].result.verdict != Verdict.AGREE:
        return None
    row: Array = bench.problem(projected=True).gradients(np.ones((1, 1))).values[0]
    return row


def _outcome(order: int, problem: GraphProblem, tables: list[Comparison]) -> Outcome:
    return Outcome(summarise(order, tables, problem.sources), tuple(tables))
