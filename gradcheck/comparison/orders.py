"""Derivatives of both orders beside their estimates: quickly, and closely where that leaves a doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import Gradients
from gradcheck.comparison import filters
from gradcheck.comparison.filters import Evidence, filtered, residue
from gradcheck.comparison.lines import (
    Lines,
    along,
    measured_rounding,
    quick_estimate,
    slope_estimate,
    slopes,
    ulp_rounding,
    with_constants,
    with_inner_rounding,
)
from gradcheck.comparison.tables import EXCLUSION, Comparison, Tolerance, combined, compare, confirmed
from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference, second_difference
from gradcheck.numerics.one_sided import Smoothness, classify
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import CONFIRM, QUICK, Sample
from gradcheck.result import Reason, Verdict

Array = np.ndarray[Any, Any]


def compare_first(problem: Problem, directions: Array, cotangents: Array, tolerance: Tolerance) -> Comparison:
    """Compare autodiff's derivative of <w, f> along each direction with its estimate; entries (k, l).

    Lines on which everything agrees with a tight estimate from few values are done with; the others are looked at
    closely. `directions` (k, n), `cotangents` w (l, m). Raises DerivativeRaisedError and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangents, tolerance)
    gradients = problem.gradients(cotangents)
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(directions, gradients.values)
    estimate = quick_estimate(lambda places, shrink: lines.some(places).sample(QUICK, shrink=shrink), len(directions))
    rounding = ulp_rounding(autodiff, problem.precision)
    comparison = compare(autodiff, estimate, tolerance, rounding, factor=1.0)
    doubtful: Array = np.asarray(~comparison.where(Verdict.AGREE).all(axis=1))
    if not doubtful.any():
        return comparison
    close = lines.some(doubtful)
    sample = close.sample()
    closer = compare_gradients(close, gradients, sample, first_difference(sample), moving=_moving(directions))
    place = np.cumsum(doubtful) - 1
    return comparison.replaced(doubtful[:, None], combined(lambda array: array[place], closer))


def compare_gradients(
    lines: Lines, gradients: Gradients, sample: Sample, estimate: Estimate, moving: Array | None = None
) -> Comparison:
    """Compare gradients (one a cotangent) with the first difference of a sample of the lines.

    Cheap while everything agrees: the rounding of autodiff, a second tableau and the filters are for what does not.
    `moving` (n,) says how far the lines of the check, of which these may be a part, move each coordinate.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(lines.directions, gradients.values)
    rounding = ulp_rounding(autodiff, lines.problem.precision)
    comparison = compare(autodiff, with_constants(estimate, sample), lines.tolerance, rounding, factor=1.0)
    doubt = ~comparison.where(Verdict.AGREE)
    if not doubt.any():
        return comparison
    doubtful = doubt.any(axis=1)
    place = np.cumsum(doubtful) - 1  # of a line among the doubtful ones
    moving = _moving(lines.directions) if moving is None else moving
    closer = _first_closely(lines, autodiff, sample, moving, np.flatnonzero(doubtful))
    missing = ~((lines.directions != 0) @ gradients.connected.T)  # None for every coordinate that a line moves
    return comparison.replaced(doubt, combined(lambda array: array[place], closer)).named(missing)


def _first_closely(everywhere: Lines, autodiff: Array, sample: Sample, moving: Array, doubtful: Array) -> Comparison:
    """The comparison on some of the lines, with both tableaus, measured rounding, and the filters."""
    lines, autodiff, problem = everywhere.some(doubtful), autodiff[doubtful], everywhere.problem
    derivative = slopes(lines.cotangents, lines.directions)
    samples = with_inner_rounding(lines, sample.lines(doubtful), lines.sample(CONFIRM))
    weights = np.max(np.abs(lines.cotangents), axis=1, initial=0.0)
    evidence = Evidence(
        lines=lines,
        samples=samples,
        estimate=slope_estimate,
        autodiff=autodiff,
        rounding=measured_rounding(problem, autodiff, derivative),
        derivative=derivative,
        residue=residue(problem, samples[0], weights, samples[0].step[:, None]),
        values=samples,
        everywhere=(everywhere, sample),
        moving=moving,
    )
    first, second = (evidence.compare(slope_estimate(each)) for each in samples)
    return filtered(confirmed(first, second), evidence, filters.FIRST_ORDER)


def compare_second(
    problem: Problem, directions: Array, cotangent: Array, tolerance: Tolerance, output: int | None = None
) -> list[Comparison]:
    """Compare the second derivative of <w, f> along directions (k, n), for one cotangent w (m,), with two estimates.

    `output` is that behind the cotangent, if it is a single one. The first comparison has a line a coordinate and a
    column a direction; a second one, of one line, is there where only the second differences of values contradict.
    Raises DerivativeRaisedError and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangent[None, :], tolerance)
    products = problem.products(cotangent, directions)
    gradients, values = replace(lines, gradients=True).sample(), lines.sample()
    estimates = first_difference(gradients), curvature_estimate(values)
    return compare_products(lines, products, gradients, values, estimates, output)


def curvature_estimate(values: Sample) -> Estimate:
    """The second difference of a sample."""
    rounding = rounding_of(values)
    return second_difference(values, first_difference(values, rounding), rounding)


def compare_products(
    lines: Lines,
    products: Gradients,
    gradients: Sample,
    values: Sample,
    estimates: tuple[Estimate, Estimate],
    output: int | None = None,
) -> list[Comparison]:
    """Compare autodiff's products (k, n) with the first difference of its gradients and the second one of values.

    Triangulation: autodiff of autodiff is wrong only if no independent estimate supports it. Cheap while everything
    agrees.
    """
    problem, directions, autodiff = lines.problem, lines.directions, products.values
    estimate = _scaled_by_values(with_constants(estimates[0], gradients), values, problem)
    entries = compare(autodiff, estimate, lines.tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
    twice = np.sum(autodiff * directions, axis=1, keepdims=True)
    diagonal = compare(twice, estimates[1], Tolerance(), ulp_rounding(twice, problem.precision), factor=EXCLUSION)
    rough = np.zeros((len(directions), 1), bool) if problem.smooth else _rough(gradients, values)
    alone = None
    if not entries.where(Verdict.AGREE).all() or diagonal.any(Verdict.MISMATCH) or rough.any():
        entries, diagonal = _second_closely(lines, autodiff, gradients, values)
        entries, alone = _triangulated(entries, diagonal, directions)
        # Where the function is not twice differentiable along a direction, its second derivative is not checked.
        entries, diagonal = (t.marked(rough, Verdict.INCONCLUSIVE, Reason.HIGHER_KINK) for t in (entries, diagonal))
        entries, diagonal = entries.named(~products.connected), diagonal.named()
    # A line a coordinate, a column a direction.
    found = [replace(combined(np.transpose, entries), columns=tuple(range(directions.shape[1])))]
    if diagonal.any(Verdict.MISMATCH) and not entries.any(Verdict.MISMATCH):
        found.append(replace(combined(np.transpose, diagonal), columns=(None,)))
    return [replace(table, rows=(output,) * len(directions), directions=directions, alone=alone) for table in found]


def _second_closely(lines: Lines, autodiff: Array, gradients: Sample, values: Sample) -> tuple[Comparison, Comparison]:
    """Both comparisons, with both tableaus, the rounding of autodiff and of inner values, and the filters."""
    problem, directions, (cotangent,) = lines.problem, lines.directions, lines.cotangents
    of_gradients = replace(lines, gradients=True)
    both_values = with_inner_rounding(lines, values, lines.sample(CONFIRM))
    both_gradients = with_inner_rounding(of_gradients, gradients, of_gradients.sample(CONFIRM))

    def derivative(other: Problem, point: Array) -> Array:
        return other.products(cotangent, directions, point).values

    weight, step = float(np.max(np.abs(cotangent), initial=0.0)), both_values[1].step[:, None]
    beside_gradients = Evidence(
        lines=of_gradients,
        samples=both_gradients,
        estimate=slope_estimate,
        autodiff=autodiff,
        rounding=measured_rounding(problem, autodiff, derivative),
        derivative=derivative,
        residue=residue(problem, both_values[1], weight, step * magnitudes(problem.point)),
        values=both_values,
        everywhere=(lines, gradients),
        moving=_moving(directions),
    )
    beside_values = replace(
        beside_gradients,
        lines=replace(lines, tolerance=Tolerance()),
        samples=both_values,
        estimate=curvature_estimate,
        autodiff=np.sum(autodiff * directions, axis=1, keepdims=True),
        rounding=np.sum(beside_gradients.rounding * np.abs(directions), axis=1, keepdims=True),
        residue=residue(problem, both_values[1], weight, step**2),
    )
    entries = (
        beside_gradients.compare(_scaled_by_values(slope_estimate(one), other, problem))
        for one, other in zip(both_gradients, both_values, strict=True)
    )
    diagonal = (beside_values.compare(curvature_estimate(one)) for one in both_values)
    return (
        filtered(confirmed(*entries), beside_gradients, filters.GRADIENT_DIFFERENCES),
        filtered(confirmed(*diagonal), beside_values, filters.VALUE_DIFFERENCES),
    )


def _moving(directions: Array) -> Array:
    """How far some lines move each coordinate, (n,)."""
    return np.asarray(np.abs(directions).max(axis=0, initial=0.0))


def _triangulated(entries: Comparison, diagonal: Comparison, directions: Array) -> tuple[Comparison, str | None]:
    """The entries, and the name of the one of the three estimates that contradicts the two others."""
    if not entries.any(Verdict.MISMATCH):
        return entries, "differences of function values" if diagonal.any(Verdict.MISMATCH) else None
    differences = np.sum(np.where(np.isfinite(entries.difference), entries.difference, 0) * directions, axis=1)
    bounds = np.sum(entries.bound * np.abs(directions), axis=1)
    gap = np.abs(differences - diagonal.difference[:, 0])
    apart = gap > EXCLUSION * (bounds + diagonal.bound[:, 0])
    if not (diagonal.where(Verdict.AGREE)[:, 0] & apart).all():
        return entries, "autodiff of autodiff"
    # The first derivative is wrong near the point, and not this one; that is for the first order to find.
    return entries.excused(True, Reason.ILL_CONDITIONED), "differences of the first autodiff derivative"


def _rough(gradients: Sample, values: Sample) -> Array:
    """Where the function is not twice differentiable along a line, (k, 1).

    Only a kink of the gradient counts: a jump that the values do not show as a kink is a wrong gradient there.
    """
    unsmooth = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR, Smoothness.CURVATURE_JUMP)
    kinked = (classify(gradients).kind == Smoothness.KINK).any(axis=1, keepdims=True)
    return np.asarray(kinked | np.isin(classify(values).kind, unsmooth).any(axis=1, keepdims=True))


def _scaled_by_values(estimate: Estimate, values: Sample, problem: Problem) -> Estimate:
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
