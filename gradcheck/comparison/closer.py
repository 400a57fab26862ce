"""Lines in doubt, sampled again: inside the radius that was found near a kink, a pole, an edge or a branch; on wider
rows where low precision does not resolve the scale of a small coordinate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.comparison.lines import Lines, curvature_estimate, slope_estimate
from gradcheck.numerics.difference import ABSOLUTE, Estimate, first_difference
from gradcheck.numerics.reach import closer_steps, erratic, nearer
from gradcheck.numerics.sampling import EPS64, Sample, Stencil, largest_steps, typical_magnitude

Array = np.ndarray[Any, Any]

ROUNDS = 3
"""A row shows features down to a hundred millionth of its largest step: after three rows nothing is left."""


def closer_look(
    lines: Lines,
    sample: Sample,
    estimate: Estimate,
    stencil: Stencil | None = None,
    *,
    order: int = 1,
    rounds: int = ROUNDS,
) -> Estimate:
    """The estimate of a sample's lines, better where a row inside the reach of the differences makes it so.

    The new rows have the `stencil` of the sample, or else another one: then they are trusted over the sample, and only
    agreement with them counts. Lost digits that show around the point are granted to the values of a closer row, too,
    which may lie on a single stair. `order` is that of the derivative.
    """
    steps = closer_steps(sample, estimate) if rounds else np.array([])
    chosen = np.flatnonzero(np.isfinite(steps))
    if not chosen.size:
        return estimate
    lines, taken = lines.some(chosen), stencil or sample.stencil
    floor = np.maximum(erratic(sample), sample.floor)[chosen]
    usual = largest_steps(lines.problem.point, lines.directions, taken, eps=lines.roundoff)
    row = replace(lines.sample(taken, shrink=steps[chosen] / usual), floor=floor)
    least = ABSOLUTE * np.abs(row.values[:, 0]) / usual[:, None] ** order
    found = slope_estimate(row) if order == 1 else curvature_estimate(row)
    found = nearer(estimate.lines(chosen), found, least, trusting=stencil is not None)
    return estimate.replaced(chosen, closer_look(lines, row, found, stencil, order=order, rounds=rounds - 1))


def wider_look(lines: Lines, sample: Sample) -> Sample:
    """The sample, with wider rows on those of its lines that are conclusive only then.

    In low precision a function does not show a change by a coordinate that is much smaller than the others, such as a
    bias after a few steps of training, or than one. A row as wide as that of a larger one has its finer steps as well.
    """
    problem = lines.problem
    if problem.roundoff <= EPS64:
        return sample
    for size in (typical_magnitude(problem.point), 1.0):
        sizes = np.maximum(np.abs(problem.point), size)
        wide = largest_steps(sizes, lines.directions, sample.stencil, eps=problem.roundoff) / sample.step
        chosen = np.flatnonzero(~first_difference(sample).conclusive.all(axis=1) & (wide > 1))
        if chosen.size:
            row = lines.some(chosen).sample(sample.stencil, shrink=wide[chosen])
            better = first_difference(row).conclusive.all(axis=1)
            step, values = sample.step.copy(), sample.values.copy()
            step[chosen[better]], values[chosen[better]] = row.step[better], row.values[better]
            sample = replace(sample, step=step, values=values)
    return sample


def widened(lines: Lines, sample: Sample) -> Array:
    """By how much wider than usual the rows of a sample are, (k,)."""
    usual = largest_steps(lines.problem.point, lines.directions, sample.stencil, eps=lines.problem.roundoff)
    return np.maximum(sample.step / usual, 1.0)
