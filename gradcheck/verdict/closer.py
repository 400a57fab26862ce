"""Resample lines in doubt: inside the radius that was found near a kink, a pole, an edge or a branch; with wider steps
where low precision does not resolve the scale of a small coordinate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference
from gradcheck.numerics.reach import AROUND, FAR, both, closer_steps, erratic, nearer
from gradcheck.numerics.sampling import EPS64, Sample, Stencil, largest_steps, typical_magnitude
from gradcheck.typing import Array
from gradcheck.verdict.lines import Lines, curvature_estimate, slope_estimate

ROUNDS = 3
"""Rounds of resampling. One sample shows features down to 1e-8 of its largest step, so that three leave nothing."""

Sampler = Callable[[Stencil, Array, Array], Sample]
"""`sampler(stencil, places, shrink)` samples the lines `places` with their usual steps scaled by `shrink`."""


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
