"""Staircases: functions that are constant around the point, though their derivative was meant to be something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

WIDENING = 4.0
WIDEST = 24
ODD_SPANS = (1.0, 1.37, 1.83, 2.41, 3.19)


def constant(sample: Sample) -> Array:
    """Whether an output has the same value on the whole row of steps, shape (k, m) bool; NaN is never constant."""
    row = sample.values[:, : 2 * sample.stencil.count + 1]
    return np.asarray((row == row[:, :1]).all(axis=1))


def wide_slope(
    f: Callable[[Array], Array], x: Array, direction: Array, start: float, output: int | None = None
) -> tuple[Array, Array] | None:
    """Widen x ± t * direction from t = `start` until f has changed on both sides, and take the slope over wider spans.

    `f` maps points (points, n) to values (points, m). A function that loses digits or rounds changes in steps; once
    the span holds several steps, its slope is that of the function meant. Returns (slope, spread), both (m,), NaN for
    outputs that did not change: the median over five spans without a common divisor, and their largest deviation, at
    least one step over the span. Returns None where `output` (any output, if None) is still constant on a side after
    24 widenings by 4 (a flat piece, such as relu left of 0, is no staircase), or where f is not finite there;
    close to the edge of its domain fewer steps have to do.
    """
    x, direction = np.asarray(x, dtype=np.float64), np.asarray(direction, dtype=np.float64)
    centre = f(x[None])[0]
    for power in range(1, WIDEST + 1):
        span = start * WIDENING**power
        ends = f(x + span * np.array([[1.0], [-1.0]]) * direction)
        if not np.isfinite(ends).all():
            return None
        changed = (ends != centre).all(axis=0)
        if changed[output] if output is not None else changed.any():
            step = np.where(changed, np.abs(ends - centre).max(axis=0), np.nan)
            slopes = (_slope_across(f, x, direction, reach, step) for reach in (span * WIDENING, span))
            return next((slope for slope in slopes if slope is not None), None)
    return None


def _slope_across(
    f: Callable[[Array], Array], x: Array, direction: Array, span: float, step: Array
) -> tuple[Array, Array] | None:
    spans = span * np.array(ODD_SPANS)[:, None]
    values = f(np.concatenate([x + spans * direction, x - spans * direction]))
    if not np.isfinite(values).all():
        return None
    right, left = values[: len(spans)], values[len(spans) :]
    slopes = (right - left) / (2.0 * spans)
    slope = np.where(np.isnan(step), np.nan, np.median(slopes, axis=0))
    return slope, np.maximum(np.abs(slopes - slope).max(axis=0), step / (2.0 * span))
