"""Lines in doubt near a kink, a pole, an edge or a branch, sampled again inside the radius that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.comparison.lines import Lines
from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.reach import closer_steps, erratic, nearer
from gradcheck.numerics.sampling import Sample, Stencil, largest_steps

Array = np.ndarray[Any, Any]

ROUNDS = 3
"""A row shows features down to a hundred millionth of its largest step: after three rows nothing is left."""


def closer_look(
    lines: Lines,
    sample: Sample,
    estimate: Estimate,
    estimated: Callable[[Sample], Estimate],
    stencil: Stencil | None = None,
    rounds: int = ROUNDS,
) -> Estimate:
    """The estimate of a sample's lines, better where a row inside the reach of the differences makes it so.

    `estimated` makes an estimate of a sample; the new rows have the `stencil` of the sample, or else this one. Lost
    digits that show around the point are granted to the values of a closer row, too, which may lie on a single stair.
    """
    steps = closer_steps(sample, estimate) if rounds else np.array([])
    chosen = np.flatnonzero(np.isfinite(steps))
    if not chosen.size:
        return estimate
    lines, problem, stencil = lines.some(chosen), lines.problem, stencil or sample.stencil
    usual = largest_steps(problem.point, lines.directions, stencil, eps=problem.roundoff)
    floor = np.maximum(erratic(sample), sample.floor)[chosen]
    row = replace(lines.sample(stencil, shrink=steps[chosen] / usual), floor=floor)
    found = nearer(estimate.lines(chosen), estimated(row))
    return estimate.replaced(chosen, closer_look(lines, row, found, estimated, stencil, rounds - 1))
