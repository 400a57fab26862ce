"""Extrapolation of differences to step zero: a tableau of entries with error bounds, and the choice among them."""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np

from gradcheck.numerics.sampling import EPS64, Stencil
from gradcheck.typing import Array

SPAN = 1100.0
"""An entry combines steps of at most this ratio: more columns would only add rounding."""

LEAST = 2
"""First column whose entries have enough changes behind them for an estimate of their truncation."""

WITNESSES = 3
"""An entry counts only if at least this many finer differences could have contradicted it."""

ORDERLY = 1.5
"""The changes from step to step may depart from a series in h**2 by this factor."""

DIVERGENT = 4.0
"""Above this theta the widest step of an entry lies beyond twice the radius of convergence.

The column `LEAST` has only one ratio of changes, which may be small by chance across a kink: its theta is at least
this.
"""

FASTEST = 8
"""A derivative of zero shows in differences that fall like a power of the step, from the first to this one; those of a
staircase fall faster."""

SAFETY = 2.0
"""The estimate of the truncation is asymptotic; this factor allows for the next term."""

SUMMATION = 4 * EPS64
"""The relative rounding of the differences and of the sums of an entry."""


@lru_cache(maxsize=16)
def weights(stencil: Stencil) -> Array:
    """The weights of the differences in the entries, shape (columns, count, count).

    Entry (c, j) eliminates h**2 to h**(2 c) from the differences at the steps j - c to j (Romberg 1955; the
    differences' errors are series in h**2). Entries with j < c do not exist; their weights are 0.
    """
    columns = 1 + int(log(SPAN) / log(stencil.ratio))
    table = np.zeros((columns, stencil.count, stencil.count))
    table[0] = np.eye(stencil.count)
    for c in range(1, columns):
        gain = stencil.ratio ** (2 * c)
        table[c, c:] = (gain * table[c - 1, c:] - table[c - 1, c - 1 : -1]) / (gain - 1)
    return table


def choose(column: Array, rounding: Array, resolved: Array, stencil: Stencil) -> tuple[Array, Array, Array, Array]:
    """The entry with the smallest bound among those that every finer entry of their column is compatible with.

    `column` (count, k, m) are differences at the stencil's steps, the widest first, `rounding` (count, k, m) their
    rounding errors; `resolved` (count, k) marks the steps that the arithmetic resolves. Returns its value and its
    bound, and the indices of the widest and the finest of its steps, each (k, m). Where there is no such entry the
    value is NaN, the bound infinite.
    """
    table = weights(stencil)
    columns, count = table.shape[:2]
    shape = (columns, *column.shape)
    reach = orderly(column, rounding, resolved[:, :, None], stencil)
    inner = np.where(reach, column, 0.0).reshape(count, -1)
    values = (table.reshape(-1, count) @ inner).reshape(shape)
    errors = np.where(reach, rounding + SUMMATION * np.abs(column), 0.0).reshape(count, -1)
    errors = (np.abs(table).reshape(-1, count) @ errors).reshape(shape)
    bounds = truncation(values, errors, stencil) + errors[LEAST:]
    fits = compatible(values[LEAST:], errors[LEAST:], bounds, resolved[:, :, None])
    for c in range(LEAST, columns):
        fits[c - LEAST, :c] = False
        fits[c - LEAST, c:] &= reach[: count - c]
    bounds = np.where(fits, bounds, np.inf).reshape(-1, *shape[2:])
    best = np.argmin(bounds, axis=0)[None]
    bound = np.take_along_axis(bounds, best, axis=0)[0]
    value = np.take_along_axis(values[LEAST:].reshape(bounds.shape), best, axis=0)[0]
    past, finest = np.divmod(best[0], count)
    return np.where(np.isfinite(bound), value, np.nan), bound, np.maximum(finest - past - LEAST, 0), finest


def vanishing(column: Array, rounding: Array, resolved: Array, stencil: Stencil) -> tuple[Array, Array]:
    """The bound of a derivative that is zero, and the index of the widest step that shows it, (k, m) each.

    The sizes of the differences, `column` (count, k, m), then fall with the step down to the finest one that is
    `resolved`, up to their `rounding`, whatever series they have: one side may be flat, or a first term missing. The
    bound is infinite where they do not.
    """
    low, high = np.maximum(column - rounding, 0.0), column + rounding
    falls = np.isfinite(column)
    falls[:-1] &= (low[1:] <= high[:-1] * ORDERLY / stencil.ratio) | ~resolved[1:, :, None]
    falls[:-1] &= (high[1:] * ORDERLY * stencil.ratio**FASTEST >= low[:-1]) | ~resolved[1:, :, None]
    reach = np.logical_and.accumulate(falls[::-1], axis=0)[::-1]
    contradicted = np.zeros(resolved.shape, bool)
    contradicted[:-WITNESSES] = resolved[WITNESSES:]
    seen = np.sum(reach & (low > 0), axis=0) >= WITNESSES  # what is lost in rounding shows nothing
    bounds = np.where(reach & contradicted[:, :, None] & seen, SAFETY * high, np.inf)
    return bounds.min(axis=0), np.argmax(reach, axis=0)


def compatible(values: Array, errors: Array, bounds: Array, resolved: Array) -> Array:
    """Marks the entries with at least `WITNESSES` finer ones in their column, all within both bounds; boolean like
    `values`."""
    above = np.where(resolved, values + errors, np.inf)[:, ::-1]
    below = np.where(resolved, values - errors, -np.inf)[:, ::-1]
    above = np.minimum.accumulate(above, axis=1)[:, ::-1]
    below = np.maximum.accumulate(below, axis=1)[:, ::-1]
    fits = (values - bounds <= above) & (values + bounds >= below)
    fits[:, :-WITNESSES] &= resolved[WITNESSES:]
    fits[:, -WITNESSES:] = False
    return np.asarray(fits)


def truncation(values: Array, errors: Array, stencil: Stencil) -> Array:
    """The truncation of the entries from column `LEAST` on, shape (columns - LEAST, count, k, m).

    In column c of a series in (h / rho)**2 the change from the column before is about the truncation of that one, and
    the truncation of the entry itself is smaller by theta = (h_widest / rho)**2. The ratios of successive changes
    measure theta; so do those one column earlier, lest one vanishing coefficient of the series should hide the next.
    """
    square = stencil.ratio**2
    changes = np.abs(values[1:] - values[:-1])
    theta = square * changes[1:] / (changes[:-1] + errors[LEAST:])
    theta[1:] = np.maximum(theta[1:], square * theta[:-1])
    theta[0] = np.maximum(theta[0], DIVERGENT)
    change = np.maximum(changes[1:], changes[:-1] * (theta / square))
    return np.asarray(SAFETY * change * np.where(theta > DIVERGENT, np.inf, np.maximum(theta, 1.0)))


def orderly(column: Array, rounding: Array, resolved: Array, stencil: Stencil) -> Array:
    """Which steps lie within the reach of a series in h**2, boolean (count, k, m): all of them up to a widest one.

    Within it, the changes from step to step fall by ratio**2, within a factor of `ORDERLY` and up to rounding. The
    first pair of changes that does not, seen from the finest step, ends it: a pole, a kink, a period, an edge.
    """
    square = stencil.ratio**2
    change, slack = np.abs(column[1:] - column[:-1]), 2 * (rounding[1:] + rounding[:-1])
    low, high = change - slack, change + slack
    steady = np.isfinite(column)
    steady[:-2] = (high[:-1] * ORDERLY >= square * low[1:]) & (low[:-1] <= square * ORDERLY * high[1:])
    steady[:-2] |= ~resolved[2:]
    return np.asarray(np.logical_and.accumulate(steady[::-1], axis=0)[::-1])
