"""The noise in a function's values, from tables of differences (Moré & Wild 2011, "Estimating computational noise")."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

ORDERS = (4, 5, 6)
AGREEMENT = 4.0
FACTOR = 4.0
CONFIRMED = 100.0


def value_noise(sample: Sample) -> Array:
    """The standard deviation of the noise in the values, shape (spacings, k, m).

    A spacing counts where the estimates of its differences of order 4, 5 and 6 agree within a factor of 4 (ECNoise,
    section 3); elsewhere the differences are not noise but the function, and the estimate is 0.
    """
    stencil = sample.stencil
    rows = sample.values[:, 1 + 2 * stencil.count :]
    k, _, m = rows.shape
    table = rows.reshape(k, len(stencil.noise_spacings), stencil.noise_points, m)
    levels = []
    for order in range(1, ORDERS[-1] + 1):
        table = table[:, :, 1:] - table[:, :, :-1]
        if order in ORDERS:
            gamma = factorial(order) ** 2 / factorial(2 * order)
            levels.append(np.sqrt(gamma / table.shape[2] * np.einsum("kspm,kspm->skm", table, table)))
    low = np.minimum(np.minimum(levels[0], levels[1]), levels[2])
    high = np.maximum(np.maximum(levels[0], levels[1]), levels[2])
    return np.asarray(np.where(high <= AGREEMENT * low, high, 0.0))


def confirmed(sample: Sample, tail: Array) -> Array:
    """The error that noise adds to a value, shape (k, m), from `tail` (k, m), what the finest differences show of it.

    The noise at a spacing counts only if the tail shows at least a part of it: wide spacings may straddle a kink or a
    period and take it for noise, of which the finest differences know nothing.
    """
    level = FACTOR * value_noise(sample)
    return np.asarray(np.maximum(tail, np.where(level <= CONFIRMED * tail, level, 0.0).max(axis=0)))
