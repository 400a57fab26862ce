"""Checks a graph's derivatives, order by order, and excuses mismatches that finite differences cannot establish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.autodiff.mode import PLAIN
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.graph import alone
from gradcheck.hunt.chain_rule import Pulled, chain_rule_gradient, chain_rule_products, tangents_at_kink
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import joined
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind, OrderResult, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.first_order import compare_first, compare_gradients
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.probes import PROBES, first_order, one_by_one
from gradcheck.verdict.second_order import compare_products, compare_second
from gradcheck.verdict.summary import broken, summarise, undecided
from gradcheck.verdict.tables import Comparison, Tolerance
from gradcheck.verdict.terms import Term, decided

Checked = tuple[OrderResult, Sequence[Comparison]]
"""The result of an order, and the tables of comparisons that it sums up (none where nothing was compared)."""

ANOTHER = Kind.WRONG_VALUE, Kind.MISSING
"""Autodiff's value differs from the estimate, or is missing, which counts as zero."""

OFF = 0.1
"""A mismatch is excused if the chain rule's value misses the estimate by at least this share of autodiff's error: the
cause is then what differences miss, or the rounding of the nodes' own derivatives.
"""

ROUNDED = {Reason.ILL_CONDITIONED, Reason.STAIRCASE}
"""The reasons for which derivatives are inconclusive where values have lost digits."""


def check_orders(problem: GraphProblem, orders: Iterable[int]) -> dict[int, Checked]:
    """Checks each order. Raises ModeUnavailableError where there is no derivative in the problem's mode."""
    together = problem.batched and problem.smooth and not problem.empty and problem.point.size <= SMALL
    if set(orders) == {1, 2} and together:
        try:
            first, second = compare_both_orders(problem)
        except (DerivativeRaisedError, WrongShapeError):
            pass  # each order reports what it raises
        else:
            first = decided(first, problem, FIRST_ORDER)
            tables = {1: [first], 2: _second_decided(SecondEvidence(problem, first), second)}
            return {order: _summed_up(problem, order, tables[order]) for order in orders}
    return {order: check_order(problem, order) for order in orders}


def check_order(problem: GraphProblem, order: int) -> Checked:
    """Checks one order, second derivatives along the problem's direction. Raises ModeUnavailableError."""
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
            tables = _second_decided(SecondEvidence(problem), tables)
        else:
            # The subgradient test at a kink takes every output by itself.
            compared = replace(problem, cotangent=None) if nodes.kinks else problem
            tables = [decided(table, problem, FIRST_ORDER) for table in first_order(compared, Tolerance(), PROBES)]
    except DerivativeRaisedError as error:
        return broken(order, Kind.RAISES, "the inputs", str(error)), ()
    except WrongShapeError as error:
        return broken(order, Kind.SHAPE, error.source, str(error)), ()
    return _summed_up(problem, order, tables)


def _summed_up(problem: GraphProblem, order: int, tables: Sequence[Comparison]) -> Checked:
    """The result of the comparisons; undecided where inner values are too inaccurate to tell where a kink lies.

    An example is the nearest integer times y, where only two decimal places of y are correct: every difference that
    exceeds rounding spans many of its stairs.
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
    note = f"the arguments of {names} are closer to a kink or jump than their rounding error"
    return undecided(order, Reason.ILL_CONDITIONED, note), ()


def compare_both_orders(problem: GraphProblem) -> tuple[Comparison, list[Comparison]]:
    """Compares the gradient of a scalar along the axes, and its second derivative along the direction, with estimates.

    The gradient under test is the one that autodiff's second derivative passes through. One batch holds the values on
    all lines, one tableau the differences of all values and of the gradient. Raises DerivativeRaisedError and
    WrongShapeError.
    """
    n, cotangent, line = problem.point.size, np.ones(1), problem.direction[None, :]
    on_axes, on_line = slice(None, n), slice(n, n + 1)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([np.eye(n), line]), cotangent[None, :], Tolerance())
    values, gradients = lines.sample(), replace(lines[on_line], gradients=True).sample()
    sample = joined(values, gradients.apart())
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    curvatures = second_difference(sample, slopes, rounding)
    first = compare_gradients(lines[on_axes], gradient, values[on_axes], slopes[on_axes])
    estimates = slopes[n + 1 :].turned, curvatures[on_line]
    second = compare_products(lines[on_line], products, gradients, values[on_line], estimates)
    return replace(first, coordinates=tuple(range(n)), outputs=(0,)), second


def passes_jump(table: Comparison, problem: GraphProblem) -> Array:
    """Doubt differences along directions that pass a jump within the finest steps, as of fmod(1e5, 1e-7).

    There, differences give the slope from stair to stair, or none, and autodiff gives that of a stair.
    """
    missed = table.where(Verdict.MISMATCH, *ANOTHER)
    jump = any(CATALOGUE[node.op].singular for node in problem.graph.nodes)
    if not (jump and missed.any()) or problem.blurred_nodes:
        return np.zeros(missed.shape, bool)
    jumps = problem.hidden_jumps
    passed = np.array([jumps.any() if column is None else jumps[column] for column in table.coordinates])
    return np.asarray(missed & passed[:, None])


def hidden_terms(table: Comparison, problem: GraphProblem) -> Array:
    """Doubt differences that the chain rule contradicts.

    If every node's own derivative agrees with its estimate under the incoming cotangent, and their product is no nearer
    to the differences of the whole graph, these have missed a term that is small beside others, or a kink. If rounding
    makes a node's derivative inconclusive by itself, it is inconclusive within the graph, too.
    """
    axes = [coordinate for coordinate in table.coordinates if coordinate is not None]
    missed, expected = table.where(Verdict.MISMATCH, *ANOTHER), np.full(table.verdict.shape, np.nan)
    kinked = bool(problem.nonsmooth_nodes.kinks)
    applies = problem.mode == PLAIN and len(problem.graph.nodes) > 1 and not (kinked and None in table.outputs)
    if not (applies and missed.any() and len(axes) == len(table.coordinates)) or problem.blurred_nodes:
        return np.zeros(missed.shape, bool)

    @cache
    def moved() -> Array | None:  # the same for all outputs
        tangents = tangents_at_kink(problem, agrees)
        return None if tangents is None else tangents[axes]

    outputs = np.eye(coordinate_count(problem.output.shape, problem.output.dtype))
    for row in np.flatnonzero(missed.any(axis=0)):
        under = replace(problem, cotangent=outputs[table.outputs[row]]) if kinked else problem
        verdicts: list[Verdict] = []
        pulled = chain_rule_gradient(under, partial(_agrees_or_rounds, verdicts=verdicts))
        if pulled is not None:
            decides = not kinked or Verdict.INCONCLUSIVE in verdicts or _between_slopes(problem, pulled, moved())
            expected[:, row] = np.where(decides, pulled.gradient[axes], np.nan)
    return _missed_by(table, expected)


def _between_slopes(problem: GraphProblem, pulled: Pulled, moved: Array | None) -> Array | bool:
    """For each coordinate, whether the derivative of the only node at a kink lies between its one-sided slopes.

    The slopes are taken along the coordinate's tangent: at a tie, each partial derivative may be possible while all of
    them together are not.
    """
    if moved is None or (kink := problem.nonsmooth_nodes.kinks[0]) not in pulled.cotangents:
        return False
    one = GraphProblem.evaluated(alone(problem.graph, kink, problem.intermediates), pulled.cotangents[kink])
    found: Array = np.asarray(~moved.any(axis=1))
    if not found.all():
        slopes = compare_first(one, moved[~found], np.ones((1, 1)), Tolerance())
        found[~found] = slopes.where(Verdict.AGREE)[:, 0]
    return found


@dataclass(frozen=True)
class SecondEvidence:
    """A graph whose second derivatives are in doubt, with its first ones, `compared` already or on demand."""

    problem: GraphProblem
    compared: Comparison | None = None

    @cached_property
    def first(self) -> Comparison:
        """The comparison of the first derivatives along the axes."""
        if self.compared is not None:
            return self.compared
        plain = replace(self.problem, mode=PLAIN)
        return decided(one_by_one(plain, Tolerance(), range(plain.point.size), range(1)), plain, FIRST_ORDER)

    @cached_property
    def first_decides(self) -> bool:
        """Whether only coordinates that may be at a kink make the second derivatives wrong."""
        problem = self.problem
        if problem.point.size > SMALL:
            return False
        settled = ~self.first.where(Verdict.INCONCLUSIVE)[:, 0] & ~problem.hidden_kinks
        rest = np.where(settled, problem.direction, 0.0)
        if (rest == problem.direction).all():
            return False
        along_rest = compare_second(problem, rest[None, :], np.ones(1), Tolerance()) if rest.any() else []
        return not any(table.any(Verdict.MISMATCH) for table in along_rest)

    @cached_property
    def products(self) -> Array | None:
        """The second derivatives along the direction by the chain rule, where no node's own ones are in doubt."""
        problem = self.problem
        applies = problem.mode == PLAIN and problem.smooth and len(problem.graph.nodes) > 1
        return chain_rule_products(problem, _agrees_or_rounds) if applies else None


def undecided_first(table: Comparison, evidence: SecondEvidence) -> Array:
    """Doubt second derivatives that only coordinates make wrong whose first derivatives are inconclusive.

    Or those nearer to a kink than the finest step. An example is a clip to 1e-7 and more, whose kink is 1e-7 beside an
    input of 0: the gradients of all other coordinates kink there along a direction that moves this one. What is wrong
    along the rest of the direction, too, stays wrong.
    """
    return np.full(table.verdict.shape, evidence.first_decides)


def hidden_products(table: Comparison, evidence: SecondEvidence) -> Array:
    """Doubt differences of gradients that the chain rule contradicts."""
    products = evidence.products
    if products is None:
        return np.zeros(table.verdict.shape, bool)
    whole = evidence.problem.direction @ products
    expected = np.array([whole if column is None else products[column] for column in table.coordinates])
    return _missed_by(table, expected[:, None])


def _second_decided(evidence: SecondEvidence, tables: Sequence[Comparison]) -> list[Comparison]:
    found = [decided(table, evidence, SECOND_ORDER) for table in tables]
    pairs = zip(tables, found, strict=True)
    return [new if new is old or new.any(Verdict.MISMATCH) else replace(new, alone=None) for old, new in pairs]


def _missed_by(table: Comparison, expected: Array) -> Array:
    """Mismatches where the chain rule's value, `expected`, misses the estimate, too."""
    off = np.abs(expected - table.difference) >= OFF * np.abs(table.autodiff - table.difference)
    return np.asarray(table.where(Verdict.MISMATCH, *ANOTHER) & off)


def agrees(problem: GraphProblem, order: int) -> bool:
    """Whether a problem's derivatives of an order agree with their estimates."""
    return check_order(problem, order)[0].verdict == Verdict.AGREE


def _agrees_or_rounds(problem: GraphProblem, order: int, verdicts: list[Verdict] | None = None) -> bool:
    """Whether they agree, except for entries that the rounding of values makes inconclusive; notes the verdict."""
    result, tables = check_order(problem, order)
    if verdicts is not None:
        verdicts.append(result.verdict)
    lost = result.verdict == Verdict.INCONCLUSIVE and set(result.reasons) <= ROUNDED and bool(tables)
    return lost or result.verdict == Verdict.AGREE


FIRST_ORDER = (Term("jump beside the point", passes_jump), Term("hidden terms", hidden_terms))
"""The doubts about mismatches of a graph's first derivatives."""

SECOND_ORDER = (Term("undecided first derivatives", undecided_first), Term("hidden products", hidden_products))
"""The doubts about mismatches of its second derivatives."""
