"""Limits of one-sided sequences: Richardson extrapolation over a geometric row of steps, each with an error bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

SAFETY = 3.0
COLUMNS = 6
WITNESSES = 4


@dataclass(frozen=True)
class Limit:
    """The limit of a sequence as the step goes to zero, `value` within `bound` (inf where unknown), each (k, m)."""

    value: Array
    bound: Array


@dataclass(frozen=True)
class Side:
    """A function seen from one side of the point, its own value there left out but for `gap`.

    Derivatives are with respect to t. `slopes` (count - 1, k, m) are the secants between neighbouring steps, coarsest
    first, `seconds` (count - 2, k, m) the second differences between three, each with its rounding errors. `gap` is
    the limit of f(t) - f(0), `slope` and `curvature` the limits of the first and second derivative. `inside` (k, m)
    tells whether the finest steps lie inside the domain.
    """

    slopes: Array
    slope_rounding: Array
    seconds: Array
    second_rounding: Array
    gap: Limit
    slope: Limit
    curvature: Limit
    inside: Array


def extrapolate(rows: Array, rounding: Array, ratio: float, order: int) -> Limit:
    """Extrapolate a sequence with an expansion in the powers of the step to step zero.

    `rows` (count, k, m) are its members for steps that fall by `ratio`, coarsest first, and `rounding` their rounding
    errors, which grow like step**-order. The bound of an entry of the tableau is the largest change from its column
    to the one before, over this entry and all finer ones, each scaled to the step of the entry, so that noise of
    unknown size shows in the finer rows. An entry counts only if all finer rows are compatible with it (Ridders 1982,
    made one-sided).
    """
    count = len(rows)
    column = np.array(rows)
    best = Limit(column[-1], np.full(rows.shape[1:], np.inf))
    change = np.abs(np.diff(rows, axis=0))
    low, high = _agreed(rows, SAFETY * np.concatenate([change, change[-1:]]) + rounding)
    scale = ratio ** (-order * np.arange(count, dtype=np.float64))[:, None, None]
    for power in range(1, min(COLUMNS, count - 1) + 1):
        factor = ratio**power
        refined = column[1:] + (column[1:] - column[:-1]) / (factor - 1.0)
        size = len(refined)
        change = np.abs(refined - column[:-1]) * scale[:size]
        truncation = np.maximum.accumulate(change[::-1])[::-1] / scale[:size]
        bound = SAFETY * truncation + 2.0 * rounding[power : power + size]
        agreed = _agreed(refined, bound)
        low, high = np.maximum(low[:size], agreed[0]), np.minimum(high[:size], agreed[1])
        fits = (refined >= low - bound) & (refined <= high + bound)
        bound = np.where(fits & np.isfinite(bound), bound, np.inf)
        bound[max(0, count - WITNESSES + 1) :] = np.inf
        best = _narrower(best, refined, bound)
        column = refined
    return best


def _agreed(rows: Array, error: Array) -> tuple[Array, Array]:
    """For every row, the interval that this row and all finer ones agree on."""
    low = np.maximum.accumulate((rows - error)[::-1])[::-1]
    high = np.minimum.accumulate((rows + error)[::-1])[::-1]
    return low, high


def _narrower(best: Limit, values: Array, bounds: Array) -> Limit:
    row = np.argmin(bounds, axis=0)[None]
    value = np.take_along_axis(values, row, axis=0)[0]
    bound = np.take_along_axis(bounds, row, axis=0)[0]
    better = bound < best.bound
    return Limit(np.where(better, value, best.value), np.where(better, bound, best.bound))


def sides(sample: Sample) -> tuple[Side, Side]:
    """The function seen from the left and from the right, in this order."""
    count = sample.stencil.count
    right = sample.values[:, 1 : count + 1]
    left = sample.values[:, count + 1 : 2 * count + 1]
    return _side(sample, left, -1.0), _side(sample, right, 1.0)


def _side(sample: Sample, values: Array, sign: float) -> Side:
    """One side's sequences; the rounding assumed is the mixed error f^(x) = (1 + d1) f(x (1 + d2)), |d| <= 4 eps."""
    ratio = sample.stencil.ratio
    with np.errstate(all="ignore"):
        rows = np.moveaxis(values, 1, 0)
        centre = sample.values[None, :, 0]
        steps = (sample.step[None, :] * sample.stencil.steps[:, None])[..., None]
        shift = sign * steps
        slopes = np.diff(rows, axis=0) / np.diff(shift, axis=0)
        seconds = 2.0 * np.diff(slopes, axis=0) / (shift[2:] - shift[:-2])
        steep = np.concatenate([np.abs(slopes), np.abs(slopes[-1:])])
        tiny = np.finfo(np.float64).tiny
        height = np.abs(rows) + np.abs(centre) + np.abs(shift * steep)
        error = 4.0 * sample.eps * (height + sample.magnitude[None, :, None] * steep) + tiny
        error = np.maximum.accumulate(error[::-1])[::-1]
        rounding = 2.0 * error[:-1] / np.abs(np.diff(shift, axis=0))
        bend = 4.0 * rounding[:-1] / np.abs(shift[2:] - shift[:-2])
        bend = np.maximum(bend, 4.0 * rounding[1:] / np.abs(shift[2:] - shift[:-2]))
        return Side(
            slopes=slopes,
            slope_rounding=rounding,
            seconds=seconds,
            second_rounding=bend,
            gap=extrapolate(rows - centre, error, ratio, 0),
            slope=extrapolate(slopes, rounding, ratio, 1),
            curvature=extrapolate(seconds, bend, ratio, 2),
            inside=np.asarray(np.isfinite(rows[-WITNESSES:]).all(axis=0)),
        )
