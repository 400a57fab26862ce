"""Noise in a function's values, from tables of differences (Moré and Wild 2011, "Estimating computational noise")."""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

ORDERS = (4, 5, 6)

AGREEMENT = 4.0
"""Standard deviations from the three orders within this factor are those of noise."""

FACTOR = 4.0
"""An error by noise is at most this many standard deviations."""

CONFIRMED = 100.0
"""The finest differences show noise if they differ by more than its bound over this."""

BENDS = 3
"""At a kink the second differences change sign at most once or twice."""

SMALL = 1e-6
"""Lost digits are small beside the function's change over the samples; an oscillation is not."""


@lru_cache(maxsize=16)
def differences(count: int) -> Array:
    """All differences of order 4, 5 and 6 of `count` values, one a row, each scaled to the variance of one value."""
    rows = []
    for order in ORDERS:
        signs = np.array([(-1) ** i * comb(order, i) for i in range(order + 1)]) / np.sqrt(comb(2 * order, order))
        rows += [np.pad(signs, (shift, count - order - 1 - shift)) for shift in range(count - order)]
    return np.array(rows)


def value_noise(sample: Sample) -> Array:
    """The noise in the values, shape (k, spacings, m): `FACTOR` times its standard deviation.

    A spacing counts where the estimates of its differences of order 4, 5 and 6 agree within a factor of 4 (ECNoise,
    section 3); elsewhere the differences are not noise but the function, and the estimate is 0.
    """
    stencil = sample.stencil
    lengths = np.array([stencil.noise_points - order for order in ORDERS])
    squares = (differences(stencil.noise_points) @ _noise_rows(sample)) ** 2
    variances = np.add.reduceat(squares, np.cumsum(lengths) - lengths, axis=2) / lengths[:, None]
    high = variances.max(axis=2)
    agree = np.isfinite(high) & (high <= AGREEMENT**2 * variances.min(axis=2))
    return FACTOR * np.sqrt(np.where(agree, high, 0.0))


def noise_spans(sample: Sample) -> Array:
    """How far the noise samples reach from the centre, in t, shape (k, spacings)."""
    stencil = sample.stencil
    return np.multiply.outer(sample.step, stencil.noise_spacings) * ((stencil.noise_points - 1) / 2)


def confirmed(sample: Sample, level: Array, tail: Array, model: Array) -> Array:
    """The error that noise adds to a value, shape (k, m), from `tail` (k, m), what the finest differences show of it.

    The noise at a spacing, `level` (k, spacings, m), counts only if the tail shows at least a part of it: wide spacings
    may straddle a kink or a period and take it for noise, of which the finest differences know nothing. It also counts
    if it exceeds the `model` (k, m), goes up and down, and is small beside the samples' range or the tail is
    constant: then the finest differences lie on one stair of a staircase, not beside a kink.
    """
    counts = level <= CONFIRMED * tail[:, None]
    stairs = ~counts & (level > model[:, None])
    if stairs.any():
        rows = _noise_rows(sample)
        curves = np.diff(rows, n=2, axis=2)
        stairs &= np.sum(curves[:, :, 1:] * curves[:, :, :-1] < 0, axis=2) >= BENDS
        counts |= stairs & ((level <= SMALL * np.abs(rows).max(axis=2)) | (tail == 0)[:, None])
    return np.asarray(np.maximum(tail, np.where(counts, level, 0.0).max(axis=1)))


def _noise_rows(sample: Sample) -> Array:
    stencil = sample.stencil
    around = sample.values[:, 1 + 2 * stencil.count :] - sample.values[:, :1]
    return around.reshape(len(around), len(stencil.noise_spacings), stencil.noise_points, -1)
