"""Second derivatives: three estimates, triangulated.

Autodiff of autodiff (AD of AD) is held against differences of the first autodiff derivative (FD of AD, sharp, one value
a coordinate) and against second differences of function values alone (FD2, blunter but independent).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.gradients import Gradients
from gradcheck.autodiff.problem import Problem
from gradcheck.finding import Kind, Reason
from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference
from gradcheck.numerics.directions import magnitudes
from gradcheck.numerics.sampling import gather, magnitude, points
from gradcheck.numerics.second import second_difference
from gradcheck.numerics.smoothness import Smoothness, classify
from gradcheck.numerics.stencil import CONFIRM, FIRST, Sample, Stencil
from gradcheck.verdict.entries import AGREE, EXCLUSION, INCONCLUSIVE, MISMATCH, Entries, Tolerance, code_of
from gradcheck.verdict.first import settle, slope_estimate
from gradcheck.verdict.observation import observe, row_steps, ulp_rounding
from gradcheck.verdict.refutation import FINER, hidden_terms, without_aliases, without_residue

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Second:
    """`entries` (directions, coordinates), and `along` (directions, 1): the second derivative along each direction.

    `alone` names the estimate that stands alone where they do not agree.
    """

    entries: Entries
    along: Entries
    products: Gradients
    alone: str | None = None


def compare_second(problem: Problem, directions: Array, cotangent: Array, tolerance: Tolerance) -> Second:
    """Hold the second derivative of <w, f> along directions (k, n) against differences, for one cotangent w (m,).

    Raises DerivativeRaisedError and WrongShapeError.
    """
    products = problem.products(cotangent, directions)
    gradients = _gradient_sample(problem, directions, cotangent, FIRST)
    values = observe(problem, directions, cotangent[None, :])
    blunt = second_difference(values, first_difference(values))
    along = np.sum(products.values * directions, axis=1, keepdims=True)
    entries = settle(
        products.values,
        _natural(slope_estimate(gradients), values, problem),
        tolerance,
        ulp_rounding(products.values, problem.precision),
        factor=1.0,
    )
    check = settle(along, blunt, Tolerance(), ulp_rounding(along, problem.precision), factor=EXCLUSION)
    rough = _rough(gradients, values) if not problem.smooth else np.zeros(len(directions), bool)
    if not (entries.any(MISMATCH) or entries.any(INCONCLUSIVE) or check.any(MISMATCH) or rough.any()):
        return Second(entries, check, products)
    return _examined(problem, directions, cotangent, tolerance, products, entries, check, rough)


def _examined(
    problem: Problem,
    directions: Array,
    cotangent: Array,
    tolerance: Tolerance,
    products: Gradients,
    entries: Entries,
    check: Entries,
    rough: Array,
) -> Second:
    rounding = _measured(problem, cotangent, directions, products.values)
    values = observe(problem, directions, cotangent[None, :], CONFIRM)
    again = _natural(slope_estimate(_gradient_sample(problem, directions, cotangent, CONFIRM)), values, problem)
    first = settle(products.values, _estimate(entries), tolerance, rounding, factor=EXCLUSION)
    entries = _confirmed(first, settle(products.values, again, tolerance, rounding, factor=EXCLUSION))
    terms = hidden_terms(problem, values) * float(np.max(np.abs(cotangent), initial=0.0))
    lengths = values.step[:, None] * magnitudes(problem.point)
    entries = without_residue(entries, terms, lengths, problem.precision)
    if entries.any(MISMATCH):
        finer = slope_estimate(_gradient_sample(problem, directions, cotangent, FIRST, shrink=FINER))
        entries = without_aliases(entries, finer)
    blunt = second_difference(values, first_difference(values))
    slack = np.sum(rounding * np.abs(directions), axis=1, keepdims=True)
    check = _confirmed(check, settle(check.autodiff, blunt, Tolerance(), slack, factor=EXCLUSION))
    check = without_residue(check, terms, values.step[:, None] ** 2, problem.precision)
    entries, check, alone = _triangulated(entries, check, directions)
    entries, check = _not_checked(entries, rough), _not_checked(check, rough)
    code = np.where(
        (entries.status == MISMATCH) & ~np.isfinite(entries.autodiff), code_of(Kind.NON_FINITE), entries.code
    )
    code = np.where((entries.status == MISMATCH) & ~products.connected, code_of(Kind.MISSING), code)
    unfinished = (check.status == MISMATCH) & ~np.isfinite(check.autodiff)
    check = replace(check, code=np.where(unfinished, code_of(Kind.NON_FINITE), check.code))
    return Second(replace(entries, code=code), check, products, alone)


def _triangulated(entries: Entries, check: Entries, directions: Array) -> tuple[Entries, Entries, str | None]:
    """Which of the three stands alone? AD of AD is wrong only if no independent estimate supports it."""
    if entries.any(MISMATCH):
        differences = np.sum(np.where(np.isfinite(entries.difference), entries.difference, 0) * directions, axis=1)
        bounds = np.sum(entries.bound * np.abs(directions), axis=1)
        gap = np.abs(differences - check.difference[:, 0])
        supported = (check.status[:, 0] == AGREE) & (gap > EXCLUSION * (bounds + check.bound[:, 0]))
        if supported.all():
            # FD of AD alone: the first derivative is wrong near the point, and not this one; the first order tells.
            status = np.where(entries.status == MISMATCH, INCONCLUSIVE, entries.status)
            code = np.where(entries.status == MISMATCH, code_of(Reason.ILL_CONDITIONED), entries.code)
            return replace(entries, status=status, code=code), check, "differences of the first autodiff derivative"
        return entries, check, "autodiff of autodiff"
    if check.any(MISMATCH):
        return entries, check, "differences of function values"
    return entries, check, None


def _not_checked(entries: Entries, rough: Array) -> Entries:
    """Where the function is not twice differentiable along a direction, its second derivative is not checked."""
    mask = np.broadcast_to(rough[:, None], entries.status.shape)
    return replace(
        entries,
        status=np.where(mask, INCONCLUSIVE, entries.status),
        code=np.where(mask, code_of(Reason.HIGHER_KINK), entries.code),
    )


def _rough(gradients: Sample, values: Sample) -> Array:
    """Only a kink of the gradient counts: a jump that the values do not show as a kink is a wrong gradient there."""
    unsmooth = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR, Smoothness.CURVATURE_JUMP)
    broken = (classify(gradients).kind == Smoothness.KINK).any(axis=1)
    result: Array = broken | np.isin(classify(values).kind, unsmooth).any(axis=1)
    return result


def _confirmed(first: Entries, second: Entries) -> Entries:
    status = np.where((first.status == MISMATCH) & (second.status != MISMATCH), second.status, first.status)
    status = np.where((first.status == INCONCLUSIVE) & (second.status == AGREE), AGREE, status)
    code = np.where(status == INCONCLUSIVE, code_of(Reason.ILL_CONDITIONED), first.code)
    return replace(first, status=status, code=code)


def _natural(estimate: Estimate, values: Sample, problem: Problem) -> Estimate:
    """Conclusive also where the bound is small beside the function's own size over the product of the two steps.

    A gradient that vanishes identically consists of rounding, and is no scale for its own differences.
    """
    lengths = magnitudes(problem.point)
    offsets = np.abs(values.stencil.offsets)[None, :] * values.step[:, None]
    sizes = np.abs(np.where(np.isfinite(values.values), values.values, 0.0))[:, :, 0]
    inside = offsets[:, :, None] <= estimate.radius[:, None, :]
    size = np.max(np.where(inside, sizes[:, :, None], 0.0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = estimate.bound <= ABSOLUTE * size / (estimate.radius * lengths[None, :])
    return replace(estimate, conclusive=estimate.conclusive | (small & np.isfinite(estimate.bound)))


def _estimate(entries: Entries) -> Estimate:
    conclusive = entries.status != INCONCLUSIVE
    return Estimate(entries.difference, entries.bound, conclusive, np.zeros(conclusive.shape))


def _gradient_sample(
    problem: Problem, directions: Array, cotangent: Array, stencil: Stencil, *, shrink: float = 1.0
) -> Sample:
    roundoff = problem.gradient_roundoff
    steps = row_steps(problem, directions, stencil, roundoff, shrink)
    rows = problem.gradients_at(cotangent, points(problem.point, directions, steps, stencil))
    return Sample(
        stencil, steps, gather(rows, len(directions), stencil), magnitude(problem.point, directions), roundoff
    )


def _measured(problem: Problem, cotangent: Array, directions: Array, products: Array, draws: int = 4) -> Array:
    rng = np.random.default_rng(0)
    spread = ulp_rounding(products, problem.precision)
    for _ in range(draws):
        moved = problem.point * (1 + 2 * problem.precision * rng.choice([-1.0, 1.0], size=problem.point.shape))
        with np.errstate(invalid="ignore", over="ignore"):
            change = np.abs(problem.products(cotangent, directions, moved).values - products)
        spread = np.maximum(spread, np.where(np.isfinite(change), change, 0.0))
    return spread
