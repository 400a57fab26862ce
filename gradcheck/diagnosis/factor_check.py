"""Compare a factor of the chain rule with differences: along a random direction, and closely if that is suspicious."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from gradcheck.autodiff.constraints import hermitian
from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates
from gradcheck.autodiff.reverse import DerivativeRaisedError, Gradients, WrongShapeError
from gradcheck.autodiff.sources import Source
from gradcheck.diagnosis.chain import Factor
from gradcheck.numerics.probing import directions_at
from gradcheck.numerics.sampling import EPS64, QUICK, LinePoints, largest_steps
from gradcheck.problem.function import Function
from gradcheck.problem.opening import open_function
from gradcheck.problem.problem import Problem
from gradcheck.result import OrderResult, Reason, Verdict
from gradcheck.tracing.blame_time import BlameTime
from gradcheck.tracing.kernels import ONE_TRIANGLE
from gradcheck.tracing.rerun import widened
from gradcheck.tracing.state import state_restored
from gradcheck.typing import Array
from gradcheck.verdict.first_order import compare_first
from gradcheck.verdict.lines import Lines, first_look, ulp_rounding
from gradcheck.verdict.probes import PROBES, first_order
from gradcheck.verdict.summary import summarise, undecided
from gradcheck.verdict.tables import EXCLUSION, Comparison, Tolerance

NEXT, NEARBY = 2.0**-15, 2.0 ** np.array([-6.0, -7.0])
"""Steps of a quick check, relative to the largest step: one for a central difference, then two for extrapolation."""
RICHARDSON = np.array([-1.0, 4.0]) / 3.0
"""Weights of Richardson extrapolation, which removes the second-order error of the central differences."""
RIGHT = 1e6
"""An error of up to this many roundings of the summed products is no suspicion in a quick check."""
ONE = np.ones((1, 1))
DRAWS = 4
NOT_ALONE = "it cannot run by itself"
NO_COTANGENT = "the cotangent that reached it is not finite"
FEW, TOGETHER = 64, 4
"""Up to FEW coordinates are compared one by one, TOGETHER at a time."""
MOST = 20000
"""An operation that needs more values than this to be compared is left as unclear."""


class NotByItselfError(Exception):
    """The operation cannot run by itself, or has no finite value then; the message is that of the cause."""


class TooExpensiveError(Exception):
    """The comparison of an operation would take too long."""


@dataclass(frozen=True)
class FactorProblem(Problem):
    """A factor weighted by the cotangents that reached it: a function with one output."""

    function: Function
    cotangent: Array
    time: BlameTime
    spent: list[int] = field(default_factory=list)

    @cached_property
    def point(self) -> Array:
        return self.function.point

    @property
    def parts(self) -> tuple[slice, ...]:
        return self.function.parts

    @property
    def outputs(self) -> int:
        return 1

    @property
    def roundoff(self) -> float:
        return self.function.roundoff

    @property
    def precision(self) -> float:
        return self.function.precision

    @cached_property
    def terms(self) -> float:
        """Also covers intermediate values in the operation, by its change when the arguments are rounded."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, self.point.size))
        unit = 2 * self.roundoff
        moved = self.values(np.vstack([self.point[None, :], self.point * (1 + unit * signs)]))
        weighted = self.function.values(self.point[None, :])[0] * self.cotangent
        return float(max(np.max(np.abs(weighted), initial=0.0), np.max(np.abs(moved[1:] - moved[0])) / unit))

    @cached_property
    def in_float64(self) -> Problem | None:
        wide = self.function.wide
        return None if wide is None else FactorProblem(wide, self.cotangent, self.time)

    def values(self, points: Array | LinePoints) -> Array:
        self.time.refuse_more()
        self.spent.append(len(points))
        if sum(self.spent) > MOST:
            raise TooExpensiveError
        used = self.cotangent != 0
        with np.errstate(invalid="ignore", over="ignore"):
            product: Array = self.function.values(points)[:, used] @ self.cotangent[used, None]
        return product

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        return self.function.gradients(cotangents @ self.cotangent[None, :], point)

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        return Gradients.undefined(len(directions), self.point.size)


def compared(factor: Factor, time: BlameTime) -> OrderResult:
    """Compare the factor's derivative with differences; inconclusive if it cannot run by itself, or is not finite.

    Only what is suspicious along one random direction is compared entry by entry. Raises TimeUpError.
    """
    time.refuse_more()
    if not factor.moved:
        return undecided(1, Reason.CANNOT_RUN, NOT_ALONE)
    try:
        with state_restored():
            problem, sources = _problem(factor, time)
            if not np.isfinite(problem.cotangent).all():
                return undecided(1, Reason.NOT_FINITE, NO_COTANGENT)
            if not suspicious(problem):
                return OrderResult(1, Verdict.AGREE, compared=1)
            return summarise(1, closely(problem), sources)
    except TooExpensiveError:
        return undecided(1, Reason.TOO_EXPENSIVE, f"more than {MOST} values")
    except (NotByItselfError, DerivativeRaisedError, WrongShapeError) as error:
        return undecided(1, Reason.CANNOT_RUN, f"{type(error).__name__}: {error}")


def closely(problem: FactorProblem) -> list[Comparison]:
    """Compare the most suspicious derivatives, a few at a time up to the first wrong one; very many by a search."""
    if problem.point.size > FEW:
        return first_order(problem, Tolerance(), PROBES)
    everywhere = np.eye(problem.point.size)
    estimate = first_look(partial(Lines(problem, everywhere, ONE, Tolerance()).sampled, QUICK), problem.point.size)
    gradient = problem.gradients(ONE).values[0]
    with np.errstate(invalid="ignore"):
        excess = np.abs(gradient - estimate.value[:, 0]) / (
            estimate.bound[:, 0] + ulp_rounding(gradient, problem.precision)
        )
    excess = np.nan_to_num(excess, nan=np.inf, posinf=np.inf)
    tables: list[Comparison] = []
    for some in np.array_split(np.argsort(-excess), np.arange(TOGETHER, problem.point.size, TOGETHER)):
        columns = tuple(map(int, some))
        table = compare_first(problem, everywhere[some], ONE, Tolerance())
        tables.append(replace(table, coordinates=columns, outputs=(0,)))
        if table.any(Verdict.MISMATCH) or excess[some].min() <= 1:
            break
    return tables


def suspicious(problem: FactorProblem) -> bool:
    """Whether the derivative along one random direction contradicts the differences beyond rounding."""
    gradient = problem.gradients(ONE).values[0]
    if not np.isfinite(gradient).all():
        return True
    directions = directions_at(np.random.default_rng(0), 1, problem.point)
    products = gradient * directions[0]
    if _right_at_a_glance(problem, directions, products):
        return False
    lines = Lines(problem, directions, ONE, Tolerance())
    estimate = first_look(partial(lines.sampled, QUICK), 1)
    error = abs(float(products.sum()) - float(estimate.value[0, 0]))
    if estimate.conclusive.all():
        rounding = ulp_rounding(np.abs(products).sum(), problem.precision)
        return bool(error > EXCLUSION * (float(estimate.bound[0, 0]) + float(rounding)))
    return not error <= problem.precision**0.5 * problem.terms


def _right_at_a_glance(problem: FactorProblem, directions: Array, products: Array) -> bool:
    """Whether few values near the point confirm a sum of products as the derivative along a direction, in float64."""
    if problem.precision > EPS64:
        return False
    largest = problem.feasible_steps(directions, largest_steps(problem.point, directions, QUICK))

    def slopes(shares: Array) -> Array:
        steps = largest * shares
        beside = np.concatenate([steps, -steps])[:, None] * directions
        right, left = np.split(problem.values(problem.point + beside)[:, 0], 2)
        return np.asarray((right - left) / (2 * steps))

    def right(slope: float) -> bool:
        return bool(abs(float(products.sum()) - slope) <= RIGHT * problem.precision * np.abs(products).sum())

    with np.errstate(invalid="ignore", over="ignore"):
        return right(float(slopes(np.array([NEXT]))[0])) or right(float(RICHARDSON @ slopes(NEARBY)))


def _problem(factor: Factor, time: BlameTime) -> tuple[FactorProblem, list[Source]]:
    """The factor as a function of its moved tensors, with its float64 form if it has one, and its named sources."""
    tensors = [factor.tensors[position] for position in factor.moved]
    try:
        function = open_function(lambda *moved: factor.function(moved), _constrained(factor, tensors), None)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NotByItselfError(f"{type(error).__name__}: {error}") from error
    cotangents = [to_coordinates(np.asarray(one.numpy())) for one in factor.reached]
    pairs = zip(function.sources, factor.names, strict=True)
    sources = [replace(source, name=name) for source, name in pairs]
    return FactorProblem(_with_float64_form(factor, function, tensors), np.concatenate(cotangents), time), sources


def _with_float64_form(factor: Factor, function: Function, tensors: Sequence[Any]) -> Function:
    """Return the function with the same one of wide tensors, if it computes in less and both give the same values."""
    if function.precision <= ROUNDOFF["float64"]:
        return function
    try:
        wide_tensors = _constrained(factor, [widened(tensor) for tensor in tensors])
        wide = open_function(lambda *moved: factor.function(moved, wide=True), wide_tensors, None)
    except (TypeError, ValueError, RuntimeError):  # no kernel in float64, or float32 written in the function
        return function
    one, other = function.opened, wide.opened
    assert one is not None
    assert other is not None
    slack = function.precision**0.5 * (np.max(np.abs(one), initial=0.0) + np.finfo(np.float32).tiny)
    same = one.shape == other.shape and bool(np.all(np.abs(one - other) <= slack))
    return replace(function, wide=wide) if same else function


def _constrained(factor: Factor, moved: Sequence[Any]) -> tuple[Any, ...]:
    """The moved tensors, constrained to the sets that the operation's gradient assumes."""
    of_matrix = factor.operation.name in ONE_TRIANGLE
    pairs = zip(factor.moved, moved, strict=True)
    return tuple(hermitian(tensor) if of_matrix and position == 0 else tensor for position, tensor in pairs)
