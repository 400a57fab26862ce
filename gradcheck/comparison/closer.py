"""Lines in doubt near a kink, a pole, an edge or a branch, sampled again inside the radius that was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.comparison.lines import Lines, curvature_estimate, slope_estimate
from gradcheck.numerics.difference import ABSOLUTE, Estimate
from gradcheck.numerics.reach import closer_steps, erratic, nearer
from gradcheck.numerics.sampling import Sample, Stencil, largest_steps

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
