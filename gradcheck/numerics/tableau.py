"""Extrapolation of differences to step zero, each entry with its error bound, and the choice among the entries."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Stencil

Array = np.ndarray[Any, Any]

LEAST = 2
"""Entries of the first columns have too few changes behind them for an estimate of their truncation."""

THETA = 0.4
"""What the second column takes theta for at least."""

SAFETY = 2.0

FINER = 3
"""An entry counts only if at least this many finer differences were there to contradict it."""

REACH = 1100.0
"""An entry spans steps of at most this ratio: more columns only add rounding."""


DIVERGENT = 4.0
"""Above this growth of the changes from column to column the widest step lies beyond twice the radius of convergence."""


ORDERLY = 1.5
"""Differences count as departing like h**2 while the departures grow from step to step as they should, within this factor."""


@dataclass(frozen=True)
class Choice:
    """The entry with the smallest bound, arrays (k, m); `widest` indexes the widest step that it used."""

    value: Array
    bound: Array
    widest: Array


def extrapolate(column: Array, rounding: Array, stencil: Stencil) -> tuple[Array, Array]:
    """The Romberg tableau of differences whose error is a series in h**2, and the rounding carried through it.

    `column` and `rounding` are (count, k, m), steps descending. Both results are (columns, count, k, m); entries that lack
    wider steps are NaN and infinite.
    """
    columns = 1 + int(log(REACH) / log(stencil.ratio))
    column = np.where(orderly(column, rounding, stencil), column, np.nan)
    values = np.full((columns, *column.shape), np.nan)
    errors = np.full((columns, *column.shape), np.inf)
    values[0], errors[0] = column, rounding
    for c in range(1, columns):
        weight = stencil.ratio ** (2 * c)
        finer, wider = values[c - 1, c:], values[c - 1, c - 1 : -1]
        values[c, c:] = finer + (finer - wider) / (weight - 1)
        errors[c, c:] = (weight * errors[c - 1, c:] + errors[c - 1, c - 1 : -1]) / (weight - 1)
    return values, errors


def choose(values: Array, rounding: Array, resolved: Array, stencil: Stencil) -> Choice:
    """Chooses the entry with the smallest bound among those that every finer entry of their column is compatible with.

    `values` and `rounding` come from `extrapolate`; `resolved` (count, k) says which steps the arithmetic resolves.
    """
    columns, count, k, m = values.shape
    bounds = truncation(values, rounding, stencil) + rounding[LEAST:]
    values, rounding = values[LEAST:], rounding[LEAST:]
    open_rows = resolved[:, :, None]
    above = np.where(open_rows, values + rounding, np.inf)[:, ::-1]
    below = np.where(open_rows, values - rounding, -np.inf)[:, ::-1]
    above = np.minimum.accumulate(above, axis=1)[:, ::-1]
    below = np.maximum.accumulate(below, axis=1)[:, ::-1]
    stop = count - FINER
    fits = (values - bounds <= above)[:, :stop] & (values + bounds >= below)[:, :stop] & open_rows[FINER:]
    bounds = np.where(fits, bounds[:, :stop], np.inf).reshape((columns - LEAST) * stop, k, m)
    best = np.argmin(bounds, axis=0)[None]
    bound = np.take_along_axis(bounds, best, axis=0)[0]
    value = np.take_along_axis(values[:, :stop].reshape(bounds.shape), best, axis=0)[0]
    column, row = np.divmod(best[0], stop)
    return Choice(np.where(np.isfinite(bound), value, np.nan), bound, np.maximum(row - column - LEAST, 0))


def truncation(values: Array, rounding: Array, stencil: Stencil) -> Array:
    """The truncation of the entries from column `LEAST` on, shape (columns - LEAST, count, k, m).

    In column c of a series in (h / rho)**2 the change from the column before is about the truncation of that one, and the
    truncation of the entry itself is smaller by theta = (h_widest / rho)**2. The ratios of successive changes measure
    theta; so do those one column earlier, lest one coefficient of the series that happens to vanish should hide the next.
    """
    square = stencil.ratio**2
    changes = np.abs(values[1:] - values[:-1])
    theta = np.empty_like(changes[1:])
    np.divide(square * changes[1:], changes[:-1] + rounding[LEAST:], out=theta)
    theta[1:] = np.maximum(theta[1:], square * theta[:-1])
    theta[0] = np.maximum(theta[0], THETA)
    change = np.maximum(changes[1:], changes[:-1] * theta / square)
    return np.asarray(SAFETY * change * np.where(theta > DIVERGENT, np.inf, np.maximum(theta, 1.0)))


def orderly(column: Array, rounding: Array, stencil: Stencil) -> Array:
    """Which steps lie within the reach of a series in h**2, boolean (count, k, m).

    Within it, the changes from step to step fall by ratio**2, within a factor of `ORDERLY` and up to rounding; the first
    pair of changes that does not, seen from the finest step, ends it.
    """
    square = stencil.ratio**2
    change, slack = np.abs(column[1:] - column[:-1]), 2 * (rounding[1:] + rounding[:-1])
    low, high = change - slack, change + slack
    steady = (high[:-1] * ORDERLY >= square * low[1:]) & (low[:-1] <= square * ORDERLY * high[1:])
    reach = np.logical_and.accumulate(steady[::-1], axis=0)[::-1]
    return np.concatenate([reach, np.ones((2, *reach.shape[1:]), dtype=bool)])
