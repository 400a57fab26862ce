"""Second derivatives beside two estimates: differences of autodiff's gradients, and second differences of values.

They are taken along the axes while these are few, along random directions beyond that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import Gradients
from gradcheck.comparison.filters import GRADIENT_DIFFERENCES, VALUE_DIFFERENCES, Evidence, filtered, residue
from gradcheck.comparison.lines import (
    Lines,
    measured_rounding,
    slope_estimate,
    ulp_rounding,
    with_constants,
    with_inner_rounding,
)
from gradcheck.comparison.tables import EXCLUSION, Comparison, Tolerance, compare
from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference, second_difference
from gradcheck.numerics.one_sided import Smoothness, classify
from gradcheck.numerics.probing import axes, cotangents, magnitudes, probe_directions
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import CONFIRM, Sample
from gradcheck.result import Reason, Verdict

Array = np.ndarray[Any, Any]

FEW_INPUTS = 6
FEW_OUTPUTS = 4
DIRECTIONS = 4


def second_order(problem: Problem, tolerance: Tolerance, probes: int) -> list[Comparison]:
    """The comparisons of second derivatives, a line a coordinate.

    Every direction compares a whole column of the Hessian, so half as many directions as first-order probes do. Raises
    DerivativeRaisedError and WrongShapeError.
    """
    rng = np.random.default_rng(0)
    n, m = problem.point.size, problem.outputs
    directions = axes(n)
    if n > FEW_INPUTS:
        directions = probe_directions(rng, max(DIRECTIONS, probes // 2), magnitudes(problem.point))
    rows = axes(m) if m <= FEW_OUTPUTS else cotangents(rng, FEW_OUTPUTS, np.ones(m))
    found = []
    for place, row in enumerate(rows):
        output = place if 1 < m <= FEW_OUTPUTS else None
        found += compare_second(problem, directions, row, tolerance, output)
    return found


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
    gradients, values = lines.sample_gradient(), lines.sample()
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
    problem, directions = lines.problem, lines.directions
    autodiff = products.values
    slopes = _scaled_by_values(with_constants(estimates[0], gradients), values, problem)
    rounding = ulp_rounding(autodiff, problem.precision)
    entries = compare(autodiff, slopes, lines.tolerance, rounding, factor=1.0)
    along = np.sum(autodiff * directions, axis=1, keepdims=True)
    rounding = ulp_rounding(along, problem.precision)
    diagonal = compare(along, estimates[1], Tolerance(), rounding, factor=EXCLUSION)
    rough = np.zeros((len(directions), 1), bool) if problem.smooth else _rough(gradients, values)
    alone = None
    doubtful = entries.any(Verdict.MISMATCH) or entries.any(Verdict.INCONCLUSIVE)
    if doubtful or diagonal.any(Verdict.MISMATCH) or rough.any():
        entries, diagonal = _compare_closely(lines, autodiff, gradients, values)
        entries, alone = _triangulated(entries, diagonal, directions)
        # Where the function is not twice differentiable along a direction, its second derivative is not checked.
        entries, diagonal = (t.marked(rough, Verdict.INCONCLUSIVE, Reason.HIGHER_KINK) for t in (entries, diagonal))
        entries, diagonal = entries.named(~products.connected), diagonal.named()
    placed = partial(replace, rows=(output,) * len(directions), directions=directions, alone=alone)
    found = [placed(entries.turned, columns=tuple(range(directions.shape[1])))]
    if diagonal.any(Verdict.MISMATCH) and not entries.any(Verdict.MISMATCH):
        found.append(placed(diagonal.turned, columns=(None,)))
    return found


def _compare_closely(lines: Lines, autodiff: Array, gradients: Sample, values: Sample) -> tuple[Comparison, Comparison]:
    """Both comparisons, with both tableaus, the rounding of autodiff and of inner values, and the filters."""
    problem, directions, (cotangent,) = lines.problem, lines.directions, lines.cotangents
    both_values = with_inner_rounding(problem, (values, lines.sample(CONFIRM)), lines.centre)
    both_gradients = with_inner_rounding(
        problem,
        (gradients, lines.sample_gradient(CONFIRM)),
        lambda other: other.gradients_at(cotangent, problem.point[None, :])[0],
    )

    def derivative(other: Problem, point: Array) -> Array:
        return other.products(cotangent, directions, point).values

    weight, step = float(np.max(np.abs(cotangent), initial=0.0)), both_values[1].step[:, None]
    beside_gradients = Evidence(
        lines=lines,
        quantity=partial(problem.gradients_at, cotangent),
        samples=both_gradients,
        estimate=slope_estimate,
        resample=lines.sample_gradient,
        autodiff=autodiff,
        rounding=measured_rounding(problem, autodiff, derivative),
        derivative=derivative,
        residue=residue(problem, both_values[1], weight, step * magnitudes(problem.point)),
        values=both_values,
        everywhere=(lines, gradients),
    )
    beside_values = replace(
        beside_gradients,
        lines=replace(lines, tolerance=Tolerance()),
        quantity=lines.values,
        samples=both_values,
        estimate=curvature_estimate,
        resample=lines.sample,
        autodiff=np.sum(autodiff * directions, axis=1, keepdims=True),
        rounding=np.sum(beside_gradients.rounding * np.abs(directions), axis=1, keepdims=True),
        residue=residue(problem, both_values[1], weight, step**2),
    )
    slopes = [
        _scaled_by_values(slope_estimate(one), other, problem)
        for one, other in zip(both_gradients, both_values, strict=True)
    ]
    curvatures = [curvature_estimate(one) for one in both_values]
    return (
        filtered(beside_gradients.comparison(slopes), beside_gradients, GRADIENT_DIFFERENCES),
        filtered(beside_values.comparison(curvatures), beside_values, VALUE_DIFFERENCES),
    )


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
    wrong = entries.where(Verdict.MISMATCH)
    unknown = entries.marked(wrong, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
    return unknown, "differences of the first autodiff derivative"


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
