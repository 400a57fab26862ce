"""Looks at derivatives along lines, at four levels: values on the lines, and the estimate that comes of them.

1. A screen takes few values (`QUICK`), and is conclusive only where nothing but rounding limits the estimate: there its
   agreement is final (`screened`).
2. A quick look takes the same values, and counts only where autodiff is off by far more than they could be.
3. A close look takes more values (`FIRST`), then others inside of the reach that they show near a kink, a pole, an edge
   or a branch (`closer_look`), or with wider steps where low precision hides a small coordinate (`wider_look`).
4. A confirmation takes values at unrelated steps (`SECOND`); only what contradicts both is a mismatch.

Second derivatives are looked at in the same way, along lines whose values are gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck.numerics.difference import (
    ABSOLUTE,
    RELATIVE,
    Estimate,
    first_difference,
    orderly_part,
    second_difference,
    tight,
)
from gradcheck.numerics.one_sided import constant
from gradcheck.numerics.reach import AROUND, FAR, both, closer_steps, erratic, nearer
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import EPS64, QUICK, Sample, Stencil, largest_steps, typical_magnitude
from gradcheck.typing import Array
from gradcheck.verdict.lines import Lines

ROUNDS = 3
"""Rounds of resampling. One sample shows features down to 1e-8 of its largest step, so that three leave nothing."""

BEYOND = QUICK.ratio**-QUICK.count
"""Steps scaled by this start beyond the finest of the steps before."""

Sampler = Callable[[Stencil, Array, Array], Sample]
"""`sampler(stencil, places, shrink)` samples the lines `places` with their usual steps scaled by `shrink`."""


def screened(
    sampler: Sampler,
    lines: int,
    enough: Callable[[Estimate], Estimate] = lambda estimate: estimate,
    *,
    beyond: bool = False,
) -> Estimate:
    """Return first differences from few values, conclusive only where they are tight, or `enough` makes them so.

    Lines that only finer steps show to be smooth are sampled a second time within these; with `beyond`, those of which
    nothing is seen also beyond the finest step: of many coordinates some kink is near.
    """
    sample = sampler(QUICK, np.arange(lines), np.ones(lines))
    with np.errstate(all="ignore"):
        rounding = rounding_of(sample)
    estimate = enough(with_constants(tight(first_difference(sample, rounding), sample), sample))
    if not estimate.conclusive.all():
        shrink = orderly_part(sample, rounding)
        again = np.where((shrink > 0) & (shrink < 1), shrink, np.nan)
        estimate = enough(taken_again(sampler, estimate, again))
    if beyond:
        blind = ~sharp_beside(estimate, RELATIVE, axis=0).all(axis=1)
        estimate = taken_again(sampler, estimate, np.where(blind, BEYOND, np.nan))
    return estimate


def taken_again(sampler: Sampler, estimate: Estimate, shrink: Array) -> Estimate:
    """Improve the estimate with steps scaled by `shrink`, on lines that are not tight and where it is not NaN."""
    places = np.flatnonzero(~estimate.conclusive.all(axis=1) & np.isfinite(shrink))
    if not len(places):
        return estimate
    sample = sampler(QUICK, places, shrink[places])
    return estimate.replaced(places, estimate[places].better(tight(first_difference(sample), sample)))


def sharp_beside(estimate: Estimate, share: float, axis: int) -> Array:
    """Entries that are conclusive, or whose bound is at most `share` of the largest conclusive value along `axis`."""
    largest = np.max(np.abs(estimate.value), axis=axis, keepdims=True, where=estimate.conclusive, initial=0.0)
    return np.asarray(estimate.conclusive | (estimate.bound <= share * largest))


def slope_estimate(sample: Sample) -> Estimate:
    """The first difference of a sample, conclusive also where the sample is constant."""
    return with_constants(first_difference(sample), sample)


def curvature_estimate(values: Sample) -> Estimate:
    """The second difference of a sample."""
    rounding = rounding_of(values)
    return second_difference(values, first_difference(values, rounding), rounding)


def with_constants(estimate: Estimate, sample: Sample) -> Estimate:
    """Make the derivative zero of a function that is constant on all steps conclusive, in any precision.

    Unless perturbing its inner values moves it: then it is constant because digits are lost.
    """
    if estimate.conclusive.all():
        return estimate
    flat = constant(sample) & np.isfinite(estimate.value) & (np.asarray(sample.floor) == 0)
    little = np.where(flat, np.maximum(estimate.little, estimate.bound), estimate.little)
    return replace(estimate, conclusive=estimate.conclusive | flat, little=little)


def scaled_by_values(estimate: Estimate, values: Sample, lines: Lines, share: float = ABSOLUTE) -> Estimate:
    """Make estimates conclusive also where the bound is at most `share` of |f| over the product of the two steps.

    A gradient that vanishes identically consists of rounding, and is no scale for its own differences.
    """
    sizes = np.abs(np.where(np.isfinite(values.values), values.values, 0.0))
    size = np.max(np.where(values.within(estimate.radius), sizes, 0.0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = size / (estimate.radius * lines.lengths)
    small = np.isfinite(estimate.bound) & (estimate.bound <= share * sizes)
    little = np.where(np.isfinite(sizes), np.maximum(estimate.little, ABSOLUTE * sizes), estimate.little)
    return replace(estimate, conclusive=estimate.conclusive | small, little=little)


def closer_look(
    sampler: Sampler,
    sample: Sample,
    estimate: Estimate,
    stencil: Stencil | None = None,
    *,
    order: int = 1,
    wider: Array | float = 1.0,
) -> Estimate:
    """Return the estimate of a sample's lines, improved by sampling inside the reach of the differences.

    The new samples have the sample's stencil; with another `stencil`, only agreement counts for the caller. Otherwise a
    narrower stencil inside one step of a staircase would give a false mismatch: so digits lost around the reach are
    granted to its values, too, and where it contradicts the sample, the bound contains both. `order` is that of the
    derivative; the sample's steps are `wider` times the usual ones.
    """
    accusing, wide, places = stencil is None, estimate, np.arange(len(sample.step))
    shrink = wider * np.ones(len(places))
    for _ in range(ROUNDS):
        steps = closer_steps(sample, estimate[places])
        chosen = np.isfinite(steps)
        if not chosen.any():
            break
        floor = np.maximum(erratic(sample), sample.floor)[chosen]
        places, shrink = places[chosen], (shrink * steps / sample.step)[chosen]
        if accusing:
            far = np.minimum(FAR * shrink, 1.0)
            floor = np.maximum(floor, erratic(sampler(AROUND, places, far)))
        sample = replace(sampler(stencil or sample.stencil, places, shrink), floor=floor)
        with np.errstate(over="ignore"):
            least = ABSOLUTE * np.abs(sample.values[:, 0]) * (shrink / sample.step)[:, None] ** order
        found = slope_estimate(sample) if order == 1 else curvature_estimate(sample)
        estimate = estimate.replaced(places, nearer(estimate[places], found, least))
    return both(wide, estimate) if accusing else estimate


def wider_look(lines: Lines, sample: Sample) -> Sample:
    """Return the sample, with wider steps on those lines that are conclusive only then.

    In low precision a function does not show a change by a coordinate that is much smaller than the others, such as a
    bias after a few steps of training, or than one. Steps as wide as those of a larger coordinate include its finer
    ones.
    """
    problem = lines.problem
    if problem.roundoff <= EPS64:
        return sample
    for size in (typical_magnitude(problem.point), 1.0):
        sizes = np.maximum(np.abs(problem.point), size)
        wide = _usual_steps(lines, sample, sizes) / sample.step
        chosen = np.flatnonzero(~first_difference(sample).conclusive.all(axis=1) & (wide > 1))
        if chosen.size:
            row = lines[chosen].sample(sample.stencil, shrink=wide[chosen])
            better = first_difference(row).conclusive.all(axis=1)
            step, values = sample.step.copy(), sample.values.copy()
            step[chosen[better]], values[chosen[better]] = row.step[better], row.values[better]
            sample = replace(sample, step=step, values=values)
    return sample


def reach(lines: Lines, sample: Sample) -> Array:
    """Lengths (k, l), or (k, 1), over which the function's terms vary along the lines of a sample: at least its steps.

    In low precision the size of a coordinate that is far smaller than the others says little: wider steps count up to
    the radius within which the function is smooth.
    """
    problem, steps = lines.problem, sample.step[:, None]
    if problem.precision <= EPS64:
        return steps
    sizes = np.maximum(np.abs(problem.point), typical_magnitude(problem.point))
    wide = _usual_steps(lines, sample, sizes) / sample.step
    estimate = first_difference(lines.sample(sample.stencil, shrink=np.maximum(wide, 1.0)))
    return np.maximum(steps, np.where(estimate.conclusive, estimate.radius, 0.0))


def widened(lines: Lines, sample: Sample) -> Array:
    """Ratio (k,) of the sample's steps to the usual ones; above 1 only in low precision, after `wider_look`."""
    if lines.problem.roundoff <= EPS64:
        return np.ones(len(sample.step))
    return np.maximum(sample.step / _usual_steps(lines, sample, lines.problem.point), 1.0)


def _usual_steps(lines: Lines, sample: Sample, point: Array) -> Array:
    """The usual largest steps (k,) of a sample's lines around a point (n,)."""
    return largest_steps(point, lines.directions, sample.stencil, eps=lines.problem.roundoff)
