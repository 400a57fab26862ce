"""Lines in doubt near a kink, a pole, an edge or a branch, sampled again inside the radius that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.comparison.lines import curvature_estimate, slope_estimate
from gradcheck.numerics.difference import ABSOLUTE, Estimate
from gradcheck.numerics.reach import AROUND, FAR, both, closer_steps, erratic, nearer
from gradcheck.numerics.sampling import Sample, Stencil

Array = np.ndarray[Any, Any]

ROUNDS = 3
"""A row shows features down to a hundred millionth of its largest step: after three rows nothing is left."""


Sampler = Callable[[Stencil, Array, Array], Sample]
"""Samples with a stencil the lines at some places, with steps so much smaller than usual."""


def closer_look(
    sampler: Sampler, sample: Sample, estimate: Estimate, stencil: Stencil | None = None, *, order: int = 1
) -> Estimate:
    """The estimate of a sample's lines, better where rows inside the reach of the differences make it so.

    The rows have the `stencil` of the sample; with another one, only agreement counts for the caller. Else a closer row
    may accuse somebody because it lies on a single stair: lost digits around the reach are granted to its values, too,
    and where it contradicts the sample, the bound contains both. `order` is that of the derivative.
    """
    places, shrink, wide, accusing = np.arange(len(sample.step)), np.ones(len(sample.step)), estimate, stencil is None
    for _ in range(ROUNDS):
        steps = closer_steps(sample, estimate.lines(places))
        chosen = np.isfinite(steps)
        if not chosen.any():
            break
        floor = np.maximum(erratic(sample), sample.floor)[chosen]
        places, shrink = places[chosen], (shrink * steps / sample.step)[chosen]
        if accusing:
            far = np.minimum(FAR * shrink, 1.0)
            floor = np.maximum(floor, erratic(sampler(AROUND, places, far)))
        sample = replace(sampler(stencil or sample.stencil, places, shrink), floor=floor)
        least = ABSOLUTE * np.abs(sample.values[:, 0]) * (shrink / sample.step)[:, None] ** order
        found = slope_estimate(sample) if order == 1 else curvature_estimate(sample)
        estimate = estimate.replaced(places, nearer(estimate.lines(places), found, least))
    return both(wide, estimate) if accusing else estimate
