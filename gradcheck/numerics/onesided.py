"""Limits of one-sided sequences: Richardson extrapolation over a geometric row of steps, each with an error bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

SAFETY = 4.0
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

    Derivatives are with respect to t. `rises` (count, k, m) are f(t) - f(0), coarsest step first, `slopes`
    (count - 1, k, m) the secants between neighbouring steps, `seconds` (count - 2, k, m) the second differences between
    three, both with their rounding errors. `gap` is the limit of f(t) - f(0), `slope` and `curvature` the limits of the
    first and second derivative. `inside` (k, m) tells whether the finest steps lie inside the domain.
    """

    rises: Array
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
    count, lines = sample.stencil.count, len(sample.step)
    right = sample.values[:, 1 : count + 1]
    left = sample.values[:, count + 1 : 2 * count + 1]
    both = _side(sample, np.moveaxis(np.concatenate([left, right]), 1, 0))
    return _split(both, slice(None, lines)), _split(both, slice(lines, None))


def _side(sample: Sample, rows: Array) -> Side:
    """The sequences of `rows` (count, 2 k, m), both sides as one, to spare overhead.

    The rounding assumed is the mixed error f^(x) = (1 + d1) f(x (1 + d2)), |d1|, |d2| <= 4 eps.
    """
    ratio = sample.stencil.ratio
    with np.errstate(all="ignore"):
        centre = np.tile(sample.values[:, 0], (2, 1))
        magnitude = np.tile(sample.magnitude, 2)[:, None]
        shift = (sample.stencil.steps[:, None] * np.concatenate([-sample.step, sample.step]))[..., None]
        width, span = np.diff(shift, axis=0), shift[2:] - shift[:-2]
        slopes = np.diff(rows, axis=0) / width
        seconds = 2.0 * np.diff(slopes, axis=0) / span
        steep = np.abs(slopes[[*range(len(slopes)), -1]])
        height = np.abs(rows) + np.abs(centre) + (np.abs(shift) + magnitude) * steep
        error = 4.0 * sample.eps * height + np.finfo(np.float64).tiny
        error = np.maximum.accumulate(error[::-1])[::-1]
        rounding = 2.0 * error[:-1] / np.abs(width)
        bend = 4.0 * np.maximum(rounding[:-1], rounding[1:]) / np.abs(span)
        return Side(
            rises=rows - centre,
            slopes=slopes,
            slope_rounding=rounding,
            seconds=seconds,
            second_rounding=bend,
            gap=extrapolate(rows - centre, error, ratio, 0),
            slope=extrapolate(slopes, rounding, ratio, 1),
            curvature=extrapolate(seconds, bend, ratio, 2),
            inside=np.asarray(np.isfinite(rows[-WITNESSES:]).all(axis=0)),
        )


def _split(both: Side, lines: slice) -> Side:
    def limit(whole: Limit) -> Limit:
        return Limit(whole.value[lines], whole.bound[lines])

    return Side(
        rises=both.rises[:, lines],
        slopes=both.slopes[:, lines],
        slope_rounding=both.slope_rounding[:, lines],
        seconds=both.seconds[:, lines],
        second_rounding=both.second_rounding[:, lines],
        gap=limit(both.gap),
        slope=limit(both.slope),
        curvature=limit(both.curvature),
        inside=both.inside[lines],
    )
