"""How far from a point its differences stay orderly, for the row of steps that is taken again inside of that reach."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from gradcheck.numerics.difference import RELATIVE, Estimate, tight
from gradcheck.numerics.rounding import RESOLVED, SIGN_CHANGES, rounding_of, value_noise
from gradcheck.numerics.sampling import Sample
from gradcheck.numerics.tableau import FINER, LEAST, orderly

Array = np.ndarray[Any, Any]

INTO = 0.7
"""A closer row starts at this part of the narrowest step that is known to lie beyond the reach."""

POOR = 2.0**20
"""A bound of more than so many roundings of the value may gain from a closer row,"""

WORTH = 30.0
"""if it is so many times the rounding of the differences there."""

GAIN = 0.1
"""A closer row starts at no more than this part of the largest step: else it would show what is known."""

CLEAR = 0.1
"""Second differences of this part of the largest one are a feature of the function, or else lost digits."""


def closer_steps(sample: Sample, estimate: Estimate) -> Array:
    """The largest step (k,) of a row inside the reach of the differences of a sample; NaN where that is of no use.

    Something ends the reach, a kink, a pole, an edge of the domain, a branch or a period: beyond it the central
    differences are no series in h**2. Of the outputs whose `estimate` (k, m) may gain, the one with the widest reach
    counts; the row that is taken for it shows where that of the others ends.
    """
    stencil, nowhere = sample.stencil, np.full(len(sample.step), np.nan)
    if tight(estimate, sample).conclusive.all():
        return nowhere
    with np.errstate(all="ignore"):
        rounding = rounding_of(sample)
        errors = rounding.promised / rounding.steps
        inside = orderly(rounding.slopes, errors, rounding.resolved[:, :, None], stencil)
        least = np.min(errors, axis=0, where=inside, initial=np.inf)
        enough = np.maximum(POOR * sample.eps * np.abs(estimate.value), WORTH * least)
        gains = ~(estimate.conclusive & (estimate.bound <= enough))
    steps = np.broadcast_to(rounding.steps, inside.shape)
    beyond = np.min(steps, axis=0, where=~inside, initial=np.inf)
    start = INTO * np.max(np.where(gains & np.isfinite(beyond), beyond, 0.0), axis=1)
    finest = RESOLVED * sample.eps * sample.magnitude * stencil.ratio ** (LEAST + FINER)
    return np.where((start > finest) & (start <= GAIN * sample.step), start, nowhere)


def erratic(sample: Sample) -> Array:
    """The size of lost digits, steps and oscillations around the point, (k, m), 0 where the noise samples show none.

    A row inside of them would show the slope of a single stair. Their second differences go up and down; those beside
    a kink, a jump or a pole stand alone.
    """
    with np.errstate(all="ignore"):
        curves = np.diff(sample.noise - sample.values[:, None, None, 0], n=2, axis=2)
        sizes = np.abs(curves)
        signs = np.sign(np.where(sizes >= CLEAR * sizes.max(axis=2, keepdims=True), curves, 0.0))
        changes = np.zeros(sample.noise.shape[:2] + sample.noise.shape[3:])
        last = signs[:, :, 0]
        for sign in np.moveaxis(signs[:, :, 1:], 2, 0):
            changes += sign * last < 0
            last = np.where(sign == 0, last, sign)
        level = np.where(changes >= SIGN_CHANGES, value_noise(sample), 0.0)
    return np.asarray(level.max(axis=1))


def nearer(wide: Estimate, close: Estimate, least: Array, *, trusting: bool) -> Estimate:
    """The better one of two estimates, entry by entry.

    A closer row has a small radius, beside which every bound is small; a bound of `least` (k, m) is for derivatives
    near zero. Where the two exclude one another, the closer one counts for those who are `trusting`, else what
    contains both, for the closer row may lie on a single stair.
    """
    sharp = close.conclusive & (close.bound <= np.maximum(RELATIVE * np.abs(close.value), least))
    gap = np.abs(close.value - wide.value)
    apart = wide.conclusive & sharp & (gap > wide.bound + close.bound)
    better = apart | (sharp & (~wide.conclusive | (close.bound < wide.bound)))
    bound = np.where(apart & ~np.array(trusting), gap + wide.bound, close.bound)
    held = replace(close, bound=bound, conclusive=(bound == close.bound) | (bound <= RELATIVE * np.abs(close.value)))
    names = [field.name for field in fields(Estimate)]
    return Estimate(*(np.where(better, getattr(held, name), getattr(wide, name)) for name in names))
