"""The reach within which differences around a point stay orderly, for a finer stencil inside of it."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from gradcheck.numerics.difference import EXCLUSION, RELATIVE, Estimate, tight
from gradcheck.numerics.rounding import FACTOR, RESOLVED, rounding_of
from gradcheck.numerics.sampling import Sample, Stencil
from gradcheck.numerics.tableau import LEAST, WITNESSES, orderly
from gradcheck.typing import Array

INTO = 0.7
"""Largest step of a finer stencil, as a share of the narrowest step that is known to lie beyond the reach."""

POOR = 2.0**20
"""A bound of more than this many roundings of the value may gain from a finer stencil."""

WORTH = 30.0
"""A bound may gain from a finer stencil only if it is also over this many times the rounding of the differences."""

GAIN = 0.1
"""A finer stencil's largest step is at most this share of the usual one; a wider one would show nothing new."""

NOTABLE = 0.1
"""A second difference counts if it is at least this share of the largest one."""

TURNS = 4
"""Second differences with at least this many changes of sign do not belong to a single feature."""

AROUND = Stencil(ratio=4.0, count=1, noise_spacings=(2.0**-4, 2.0**-7, 2.0**-10), noise_points=33)
"""Samples that show stairs as such around the reach: 101 evaluations on a line."""

FAR = 512.0
"""The stairs around the reach are looked for up to this many times its size."""

REPEATED = 6
"""This many equal rises in succession, over steps that differ a thousandfold, show a hidden transition."""

ALIKE = 0.05
"""Rises count as equal within this share."""

STAIRS = 16.0
"""Equal rises are no transition unless they are at least this many stairs high."""


def closer_steps(sample: Sample, estimate: Estimate) -> Array:
    """The largest step (k,) of a stencil inside the reach of a sample's differences; NaN where that would not help.

    The reach ends at a kink, a pole, an edge of the domain, a branch or a period: beyond it the central differences are
    no series in h**2. Of the outputs whose `estimate` (k, m) may gain, the one with the widest reach counts; the
    stencil that is taken for it shows where the reach of the others ends.
    """
    stencil, nowhere = sample.stencil, np.full(len(sample.step), np.nan)
    sharp = estimate.conclusive & (estimate.bound <= POOR * sample.eps * np.abs(estimate.value))
    if sharp.all() or tight(estimate, sample).conclusive.all():
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
    finest = RESOLVED * sample.eps * sample.magnitude * stencil.ratio ** (LEAST + WITNESSES)
    return np.where((start > finest) & (start <= GAIN * sample.step), start, nowhere)


def erratic(sample: Sample) -> Array:
    """The size of lost digits, steps and oscillations around the point, (k, m), 0 where the noise samples show none.

    A stencil inside of them would give the slope of a single stair. Their second differences change sign again and
    again; those at a kink do not, those at a jump once, those at a pole three times.
    """
    with np.errstate(all="ignore"):
        curves = np.diff(sample.noise - sample.values[:, None, None, 0], n=2, axis=2)
        curves = np.where(np.isfinite(curves), curves, 0.0)
        clear = np.abs(curves) >= NOTABLE * np.abs(curves).max(axis=2, keepdims=True)
        turns, last = np.zeros(clear.shape[:2] + clear.shape[3:], int), np.sign(curves[:, :, 0])
        for sign in np.moveaxis(np.where(clear, np.sign(curves), 0.0), 2, 0):
            turns += sign * last < 0
            last = np.where(sign == 0, last, sign)
        level = FACTOR * np.sqrt(np.mean(curves**2, axis=2) / comb(4, 2))
    return np.asarray(np.where(turns >= TURNS, level, 0.0).max(axis=1, initial=0.0))


def stepped_over(sample: Sample, finer: Sample, slope: Array, bound: Array) -> Array:
    """Whether a finer stencil shows a feature between the point and a sample's finest step, boolean (k, m).

    At that step the `slope` (k, m), within its `bound`, predicts the values up to the errors that the sample shows;
    nearer to the point it does not. The slope misses such a feature, which may be too small at the point for the slopes
    of the finer stencil to show it, as in erf((2.6 - 1e9 t)**2) at 0.
    """
    stencil, finest = finer.stencil, sample.step[:, None] * sample.stencil.steps[-1]
    steps = finer.step[:, None] * np.concatenate([stencil.steps, stencil.offsets[1 + 2 * stencil.count :]])
    with np.errstate(all="ignore"):
        noise = finer.noise - finer.noise[:, :, ::-1]
        rises = np.concatenate([finer.right - finer.left, noise.reshape(len(steps), -1, noise.shape[-1])], axis=1)
        errors = rounding_of(sample).values[-1][:, None]

        def departs(rises: Array, steps: Array) -> Array:
            away = np.abs(rises - 2 * steps * slope[:, None])
            return np.asarray(away > 2 * EXCLUSION * (errors + np.abs(steps) * bound[:, None]))

        missed = departs(rises, steps[:, :, None]) & (np.abs(steps) < finest)[:, :, None]
        seen = departs((sample.right - sample.left)[:, -1:], finest[:, :, None])
        return np.asarray((missed & ~seen).any(axis=1))


def hidden_transition(finer: Sample) -> Array:
    """Whether a finer stencil shows the same rise at steps far apart, and a smaller one at the point, boolean (k, m).

    The function passes from one value to another inside of these steps. The slopes of the usual stencil miss that, and
    take the rise for noise if it is small beside the value, as in 1 + 1e-9 tanh(1e11 t + 0.7) at 0. Noise does not
    repeat itself, except for the one or two stairs that a low precision leaves.
    """
    rises = finer.right - finer.left
    with np.errstate(all="ignore"):
        runs = sliding_window_view(rises, REPEATED, axis=1)
        high, low = runs.max(axis=-1), runs.min(axis=-1)
        same = (high - low <= ALIKE * np.abs(high)) & (np.abs(rises[:, -1:]) <= np.abs(high) / 2)
        gaps = np.diff(np.sort(rises, axis=1), axis=1)
        stair = np.min(gaps, axis=1, where=gaps > 0, initial=np.inf)[:, None]
        same &= np.abs(high) >= STAIRS * stair
    return np.asarray(same.any(axis=1))


def nearer(wide: Estimate, close: Estimate, least: Array) -> Estimate:
    """The better one of two estimates, entry by entry; the close one where they contradict each other.

    A finer stencil has a small radius, beside which every bound is small; for derivatives near zero its bound has to be
    at most `least` (k, m) instead.
    """
    sharp = close.conclusive & (close.bound <= np.maximum(RELATIVE * np.abs(close.value), least))
    apart = np.abs(close.value - wide.value) > wide.bound + close.bound
    return wide.where(sharp & (~wide.conclusive | apart | (close.bound < wide.bound)), close)


def both(wide: Estimate, close: Estimate) -> Estimate:
    """The close estimate, with a bound that contains the wide one, too, where they contradict each other."""
    gap = np.abs(close.value - wide.value)
    apart = wide.conclusive & close.conclusive & (gap > wide.bound + close.bound)
    bound = np.where(apart, gap + wide.bound, close.bound)
    return replace(
        close, bound=bound, conclusive=close.conclusive & (~apart | (bound <= RELATIVE * np.abs(close.value)))
    )
