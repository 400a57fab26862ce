"""How wrong the sampled values may be: the promised mixed error, the noise seen in them, and underflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.numerics.noise import confirmed
from gradcheck.numerics.stencil import EPS64, Sample

Array = np.ndarray[Any, Any]

PROMISE = 4.0
"""A function's mixed error, forward and backward, in units of eps; one more is spent on rounding the point itself."""

TAIL_FACTOR = 1.5
RESOLVED = 16.0
ZERO = 1e10


@dataclass(frozen=True)
class Rounding:
    """What both orders of differences need of a sample; `count` is the number of steps.

    `steps` (count, k, 1) are the steps in t; `slopes` (count, k, m) the central differences; `pairs` (count, k, m) bounds
    the error of (f(x + h) - f(x - h)) / 2 and, doubled, that of f(x + h) + f(x - h); `centre` (k, m) that of f(x).
    `resolved` (count, k): the steps that are wide enough for the arithmetic. `sizes` (count, k, m) is the largest |f| up to
    each step; a function no larger than `zero` is as good as zero.
    """

    steps: Array
    slopes: Array
    pairs: Array
    centre: Array
    resolved: Array
    sizes: Array
    zero: float


def rounding_of(sample: Sample) -> Rounding:
    """The error bounds of a sample's values.

    A value f(x + h) is wrong by at most eps (4 |f| + 5 |x f'|), by what the differences reveal as noise, and by the smallest
    normal number. Slopes f' between the steps are secants.
    """
    count, eps = sample.stencil.count, sample.eps
    values = np.moveaxis(sample.values, 1, 0)
    centre, plus, minus = values[0], values[1 : 1 + count], values[1 + count : 1 + 2 * count]
    steps = (sample.stencil.steps[:, None] * sample.step)[:, :, None]
    reach = sample.magnitude[:, None]
    slopes = (plus - minus) / (2 * steps)
    resolved = steps[:, :, 0] >= RESOLVED * eps * sample.magnitude
    smallest = float(np.finfo(np.float64 if eps <= EPS64 else np.float32).tiny)
    larger = np.maximum(np.abs(plus), np.abs(minus))
    secants = _secants(plus, minus, steps)
    noise = confirmed(sample, TAIL_FACTOR * _tail(slopes, steps, resolved, sample))
    model = eps * (PROMISE * larger + (PROMISE + 1) * reach * secants) + smallest
    centre_model = eps * (PROMISE * np.abs(centre) + (PROMISE + 1) * reach * secants[-FINEST]) + smallest
    sizes = np.maximum.accumulate(larger[::-1], axis=0)[::-1]
    return Rounding(
        steps,
        slopes,
        np.maximum(model, noise),
        np.maximum(centre_model, noise),
        resolved,
        np.maximum(sizes, np.abs(centre)),
        ZERO * smallest,
    )


FINEST = 5


def _secants(plus: Array, minus: Array, steps: Array) -> Array:
    """The steeper one of the secants from each step to the next finer one, on either side, shape (count, k, m)."""
    gaps = steps[:-1] - steps[1:]
    between = np.maximum(np.abs(plus[:-1] - plus[1:]), np.abs(minus[:-1] - minus[1:])) / gaps
    return np.concatenate([between, between[-1:]])


def _tail(slopes: Array, steps: Array, resolved: Array, sample: Sample) -> Array:
    """Noise that the finest resolved slopes show: they differ by truncation far less than by noise, shape (k, m)."""
    weight = sample.stencil.ratio**2
    once = slopes[1:] + (slopes[1:] - slopes[:-1]) / (weight - 1)
    twice = once[1:] + (once[1:] - once[:-1]) / (weight**2 - 1)
    jumps = np.abs(twice[1:] - twice[:-1]) * steps[3:]
    last = resolved[3:].copy()
    last[:-3] &= ~resolved[6:]
    return np.asarray(np.max(np.where(last[:, :, None] & np.isfinite(jumps), jumps, 0.0), axis=0))
