"""Second derivatives of all outputs: along the axes while there are few, along random directions beyond that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import Gradients
from gradcheck.comparison.filters import (
    CLOSER,
    FINER,
    hidden_terms,
    only_supported,
    stepped,
    without_aliases,
    without_loose_agreement,
    without_residue,
    without_staircases,
    without_unresolved,
)
from gradcheck.comparison.first_order import settle, slope_estimate, with_constants
from gradcheck.comparison.observation import (
    LITTLE,
    Lines,
    measured_rounding,
    observe_gradient,
    ulp_rounding,
    with_inner_rounding,
)
from gradcheck.comparison.probes import ComparisonTable
from gradcheck.comparison.tables import AGREE, EXCLUSION, INCONCLUSIVE, MISMATCH, Comparison, Tolerance, confirmed
from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference, second_difference
from gradcheck.numerics.one_sided import Smoothness, classify
from gradcheck.numerics.probing import axes, cotangents, magnitudes, probe_directions
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.stencil import CONFIRM, Sample
from gradcheck.result import Finding, Reason

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SecondOrder:
    """`entries` (directions, coordinates), and `along` (directions, 1): the second derivative along each direction.

    `alone` names the estimate that stands alone where they do not agree.
    """

    entries: Comparison
    along: Comparison
    products: Gradients
    alone: str | None = None


@dataclass(frozen=True)
class SecondOrderSamples:
    """What is seen of one <w, f> on k directions, all that a verdict at a first glance needs.

    `products` (k, n) are autodiff's, `gradients` the samples of the gradient and `sharp` (k, n) their first difference,
    `values` those of the function and `blunt` (k, 1) their second difference.
    """

    products: Gradients
    gradients: Sample
    sharp: Estimate
    values: Sample
    blunt: Estimate


def compare_second(problem: Problem, directions: Array, cotangent: Array, tolerance: Tolerance) -> SecondOrder:
    """Hold the second derivative of <w, f> along directions (k, n) against differences, for one cotangent w (m,).

    Raises DerivativeRaisedError and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangent[None, :], tolerance)
    products = problem.products(cotangent, directions)
    gradients = observe_gradient(problem, directions, cotangent)
    values = lines.sample()
    return judge_second(
        lines, SecondOrderSamples(products, gradients, first_difference(gradients), values, _blunt(values))
    )


def judge_second(lines: Lines, seen: SecondOrderSamples) -> SecondOrder:
    """Hold autodiff's products against the two differences; closer where the evidence leaves a doubt."""
    problem, products = lines.problem, seen.products.values
    rounding = ulp_rounding(products, problem.precision)
    sharp = _natural(with_constants(seen.sharp, seen.gradients), seen.values, problem)
    entries = settle(products, sharp, lines.tolerance, rounding, factor=1.0)
    along = np.sum(products * lines.directions, axis=1, keepdims=True)
    check = settle(along, seen.blunt, Tolerance(), ulp_rounding(along, problem.precision), factor=EXCLUSION)
    rough = _rough(seen.gradients, seen.values) if not problem.smooth else np.zeros(len(lines.directions), bool)
    if not (entries.any(MISMATCH) or entries.any(INCONCLUSIVE) or check.any(MISMATCH) or rough.any()):
        return SecondOrder(entries, check, seen.products)
    entries, check = _examined(lines, seen)
    entries, check, alone = _triangulated(entries, check, lines.directions)
    # Where the function is not twice differentiable along a direction, its second derivative is not checked.
    entries, check = (t.marked(rough[:, None], INCONCLUSIVE, Reason.HIGHER_KINK) for t in (entries, check))
    return SecondOrder(entries.named(~seen.products.connected), check.named(), seen.products, alone)


def _examined(lines: Lines, seen: SecondOrderSamples) -> tuple[Comparison, Comparison]:
    """Both comparisons again, with the rounding of autodiff and of inner values, and a second tableau."""
    problem, directions, (cotangent,) = lines.problem, lines.directions, lines.cotangents
    values = with_inner_rounding(problem, (seen.values, lines.sample(CONFIRM)), lines.centre)
    gradients = with_inner_rounding(
        problem,
        (seen.gradients, observe_gradient(problem, directions, cotangent, CONFIRM)),
        lambda other: other.gradients_at(cotangent, problem.point[None, :])[0],
    )

    def derivative(other: Problem, point: Array) -> Array:
        return other.products(cotangent, directions, point).values

    rounding = measured_rounding(problem, seen.products.values, derivative)
    terms = hidden_terms(problem, values[1]) * float(np.max(np.abs(cotangent), initial=0.0))
    entries = _sharply(lines, seen.products.values, values, gradients, rounding)
    entries = without_loose_agreement(problem, derivative, gradients[0], entries, rounding)
    entries = _refuted(lines, entries, values, gradients[0], terms)
    return entries, _bluntly(lines, seen.products.values, values, rounding, terms)


def _sharply(
    lines: Lines, products: Array, values: Sequence[Sample], gradients: Sequence[Sample], rounding: Array
) -> Comparison:
    """The products against the differences of the gradient, from the samples of both tableaus."""
    estimates = [_natural(slope_estimate(g), v, lines.problem) for g, v in zip(gradients, values, strict=True)]
    return confirmed(*(settle(products, e, lines.tolerance, rounding, factor=EXCLUSION) for e in estimates))


def _refuted(
    lines: Lines, entries: Comparison, values: Sequence[Sample], gradients: Sample, terms: Array
) -> Comparison:
    """The table without the mismatches that something else explains."""
    problem, directions, (cotangent,) = lines.problem, lines.directions, lines.cotangents
    lengths = values[1].step[:, None] * magnitudes(problem.point)
    entries = without_residue(entries, terms, lengths, problem.precision)
    if not entries.any(MISMATCH):
        return entries
    finer = slope_estimate(observe_gradient(problem, directions, cotangent, shrink=FINER))
    entries = without_aliases(entries, finer)
    gradients_at = partial(problem.gradients_at, cotangent)
    entries = without_staircases(entries, gradients, directions, gradients_at, problem.point)
    return without_unresolved(entries, np.logical_and(*(_resolved(v, problem) for v in values)))


def _resolved(values: Sample, problem: Problem) -> Array:
    """Whether the first derivative along each line could be told, (k, 1): by a difference, or as that of a constant."""
    change = np.max(np.abs(values.values - values.values[:, :1]), axis=1)
    constant = change <= LITTLE * problem.precision * problem.terms  # but for rounding
    return np.asarray(first_difference(values).conclusive | constant)


def _bluntly(lines: Lines, products: Array, values: Sequence[Sample], rounding: Array, terms: Array) -> Comparison:
    """The products along their directions against the second differences of the values, of both tableaus."""
    along = np.sum(products * lines.directions, axis=1, keepdims=True)
    slack = np.sum(rounding * np.abs(lines.directions), axis=1, keepdims=True)
    check = confirmed(*(settle(along, _blunt(v), Tolerance(), slack, factor=EXCLUSION) for v in values))
    check = without_residue(check, terms, values[1].step[:, None] ** 2, lines.problem.precision)
    if check.any(MISMATCH):
        check = only_supported(check, _blunt(lines.sample(shrink=CLOSER)))
    return check.marked((check.status == MISMATCH) & stepped(values[1]), INCONCLUSIVE, Reason.STAIRCASE)


def _blunt(values: Sample) -> Estimate:
    rounding = rounding_of(values)
    return second_difference(values, first_difference(values, rounding), rounding)


def _triangulated(
    entries: Comparison, check: Comparison, directions: Array
) -> tuple[Comparison, Comparison, str | None]:
    """Which of the three stands alone? AD of AD is wrong only if no independent estimate supports it."""
    if entries.any(MISMATCH):
        differences = np.sum(np.where(np.isfinite(entries.difference), entries.difference, 0) * directions, axis=1)
        bounds = np.sum(entries.bound * np.abs(directions), axis=1)
        gap = np.abs(differences - check.difference[:, 0])
        supported = (check.status[:, 0] == AGREE) & (gap > EXCLUSION * (bounds + check.bound[:, 0]))
        if supported.all():
            # FD of AD alone: the first derivative is wrong near the point, and not this one; the first order tells.
            unknown = entries.marked(entries.status == MISMATCH, INCONCLUSIVE, Reason.ILL_CONDITIONED)
            return unknown, check, "differences of the first autodiff derivative"
        return entries, check, "autodiff of autodiff"
    if check.any(MISMATCH):
        return entries, check, "differences of function values"
    return entries, check, None


def _rough(gradients: Sample, values: Sample) -> Array:
    """Only a kink of the gradient counts: a jump that the values do not show as a kink is a wrong gradient there."""
    unsmooth = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR, Smoothness.CURVATURE_JUMP)
    broken = (classify(gradients).kind == Smoothness.KINK).any(axis=1)
    result: Array = broken | np.isin(classify(values).kind, unsmooth).any(axis=1)
    return result


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


FEW_INPUTS = 6
FEW_OUTPUTS = 4
DIRECTIONS = 4


def second_order(problem: Problem, tolerance: Tolerance, probes: int) -> tuple[list[ComparisonTable], str | None]:
    """The tables of second derivatives, a line a coordinate, and which estimate stands alone where they disagree.

    Every direction compares a whole column of the Hessian, so half as many directions as first-order probes do. Raises
    DerivativeRaisedError and WrongShapeError.
    """
    rng = np.random.default_rng(0)
    n, m = problem.point.size, problem.outputs
    directions = axes(n)
    if n > FEW_INPUTS:
        directions = probe_directions(rng, max(DIRECTIONS, probes // 2), magnitudes(problem.point))
    rows = axes(m) if m <= FEW_OUTPUTS else cotangents(rng, FEW_OUTPUTS, np.ones(m))
    tables, alone = [], None
    for place, row in enumerate(rows):
        found = compare_second(problem, directions, row, tolerance)
        alone = alone or found.alone
        outputs = (place if 1 < m <= FEW_OUTPUTS else None,) * len(directions)
        tables.append(ComparisonTable(found.entries.turned, tuple(range(n)), outputs, directions=directions))
        if found.along.any(MISMATCH) and not found.entries.any(MISMATCH):
            tables.append(ComparisonTable(found.along.turned, (None,), outputs, directions=directions))
    return tables, alone


@dataclass(frozen=True)
class SecondExplanation:
    """Says which of the three estimates stands `alone`."""

    alone: str | None

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        if self.alone is None:
            return finding
        return replace(finding, reason=f"{finding.reason}; of the three estimates {self.alone} stands alone")
