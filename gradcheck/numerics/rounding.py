"""The errors of sampled values: the assumed mixed error, the noise seen in them, and underflow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from gradcheck.numerics.sampling import EPS64, Sample
from gradcheck.typing import Array

ORDERS = (4, 5, 6)

AGREEMENT = 4.0
"""Standard deviations from the three orders that agree within this factor are taken for noise."""

FACTOR = 4.0
"""An error due to noise is at most this many standard deviations."""

CONFIRMED = 100.0
"""The finest differences confirm noise if they differ by at least its bound over this."""

SIGN_CHANGES = 3
"""Least number of sign changes in second differences of noise; at a kink there are at most one or two."""

NOISE = 1e-6
"""Lost digits are at most this share of the function's change over the samples; an oscillation is larger."""

PART = 0.125
"""Second differences of noise are seldom smaller than this share of its level."""

LOST = 1e-3
"""Noise that only widens a bound is at most this share of the function's change, a larger one than `NOISE`."""


@lru_cache(maxsize=16)
def differences(count: int) -> Array:
    """All differences of order 4, 5 and 6 of `count` values, one per row, each scaled to the variance of one value."""
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
    if not sample.stencil.noise_spacings:
        return np.zeros((len(sample.values), 0, sample.values.shape[2]))
    count = sample.stencil.noise_points
    lengths = np.array([count - order for order in ORDERS])
    squares = (differences(count) @ (sample.noise - sample.values[:, None, None, 0])) ** 2
    variances = np.add.reduceat(squares, np.cumsum(lengths) - lengths, axis=2) / lengths[:, None]
    high = variances.max(axis=2)
    agree = np.isfinite(high) & (high <= AGREEMENT**2 * variances.min(axis=2))
    return FACTOR * np.sqrt(np.where(agree, high, 0.0))


def confirmed(sample: Sample, level: Array, tail: Array, model: Array) -> Array:
    """The error that noise adds to a value, shape (k, m), given the noise that the finest differences show, `tail` (k,
    m).

    The noise at a spacing, `level` (k, spacings, m), counts only if the tail shows at least a part of it: wide spacings
    may straddle a kink or a period and take it for noise, which the finest differences do not show. It also counts if
    it exceeds the `model` (k, m), goes up and down, and is small beside the samples' range or the tail is zero: then
    the finest differences lie on one stair of a staircase, not beside a kink.
    """
    counts = level <= CONFIRMED * tail[:, None]
    stairs = ~counts & (level > model[:, None])
    if stairs.any():
        rows = sample.noise - sample.values[:, None, None, 0]
        stairs &= _goes_up_and_down(np.diff(rows, n=2, axis=2), level)
        counts |= stairs & ((level <= NOISE * np.abs(rows).max(axis=2)) | (tail == 0)[:, None])
    return np.asarray(np.maximum(tail, np.where(counts, level, 0.0).max(axis=1, initial=0.0)))


def _goes_up_and_down(curves: Array, level: Array) -> Array:
    """Whether second differences (k, spacings, count, m) change sign as noise does; those far below its level are
    skipped."""
    signs = np.where(np.abs(curves) < PART * level[:, :, None], 0.0, np.sign(curves))
    for place in range(1, signs.shape[2]):
        signs[:, :, place] = np.where(signs[:, :, place] == 0, signs[:, :, place - 1], signs[:, :, place])
    return np.asarray(np.sum(signs[:, :, 1:] * signs[:, :, :-1] < 0, axis=2) >= SIGN_CHANGES)


def scattered(sample: Sample, level: Array, known: Array) -> Array:
    """The noise at a spacing, `level` (k, spacings, m), where it exceeds the `known` error (k, m) at all samples, else
    0.

    A kink or a jump leaves most second differences alone; noise does not, and is small beside the samples' range. The
    finest differences do not show it where they lie on one stair, or where the steps are in phase with the stairs.
    """
    doubtful = level > known[:, None]
    if not doubtful.any():
        return np.zeros_like(level)
    rows = sample.noise - sample.values[:, None, None, 0]
    curves = np.diff(rows, n=2, axis=2)
    # Not the median: of a few stairs it may be one of them, beside which all others would go one way.
    curves -= np.mean(curves, axis=2, keepdims=True)
    doubtful &= _goes_up_and_down(curves, level) & (level <= LOST * np.abs(rows).max(axis=(1, 2))[:, None])
    return np.where(doubtful, level, 0.0)


def lattice(sample: Sample, known: Array, near: int) -> Array:
    """The largest power of two that divides all changes of the value, (k, m), if it exceeds the `known` error, else 0.

    Values of x - sin(x) near 0 are multiples of the last digit of x; their errors need not scatter along any sequence
    of steps. A constant has no digits to lose, not even one on the `near` finest steps alone, and a function of few
    stairs counts as constant.
    """
    centre = sample.values[:, :1]
    few = np.concatenate([sample.right[:, -near:], sample.left[:, -near:]], axis=1) - centre
    few /= np.exp2(np.ceil(np.log2(known)))[:, None]
    coarse = (few == np.rint(few)).all(axis=1) & (few != 0).any(axis=1)
    if not coarse.any():
        return np.zeros_like(known)
    changes = sample.values - centre
    digits, exponents = np.frexp(changes)
    odd = np.where(np.isfinite(digits), digits * 2.0**53, 0.0).astype(np.int64)
    divisor = np.where(odd == 0, np.inf, np.ldexp((odd & -odd).astype(np.float64), exponents - 53)).min(axis=1)
    return np.where(coarse & (divisor > known) & (divisor <= LOST * np.abs(changes).max(axis=1)), divisor, 0.0)


PROMISE = 4.0
"""The assumed mixed error, forward and backward, in units of eps; one more is spent on rounding the point itself."""

TAIL = 3
"""Number of the finest differences that show noise; a function that the stencil resolves has no curvature left
there."""

TAIL_FACTOR = 1.5
"""Noise is at most this many times what these few differences show."""

RESOLVED = 16.0
"""Steps below this many roundings of the point are not resolved."""

ZERO = 1e10
"""A function below this multiple of the smallest normal number counts as zero."""


@dataclass(frozen=True)
class Rounding:
    """The quantities of a sample that both orders of differences need; `count` is the number of steps, widest first.

    `steps` (count, k, 1) are the steps in t; `slopes` (count, k, m) the central differences, `seconds` (count, k, m)
    the second differences f(x + h) + f(x - h) - 2 f(x). `values` (count, k, m) bounds the error of either value at a
    step, `promised` (count, k, m) the part of it that is not noise, `centre` (count, k, m) the error of f(x), by the
    slope at that step. `resolved` (count, k) are the steps that the arithmetic resolves. `sizes` (count, k, m) is the
    largest |f| up to each step, at least `ZERO` times the smallest normal. `level` (k, spacings, m) is the noise at
    each spacing, whose samples reach as far as `spans` (k, spacings); `lost` (k, m) are lost digits that the finest
    differences do not show.
    """

    steps: Array
    slopes: Array
    seconds: Array
    values: Array
    promised: Array
    centre: Array
    resolved: Array
    sizes: Array
    level: Array
    lost: Array
    spans: Array


@np.errstate(all="ignore")
def rounding_of(sample: Sample) -> Rounding:
    """The error bounds of a sample's values.

    A value f(x + h) is wrong by at most eps (4 |f| + 5 |(x + h) f'|), or by what the differences reveal as noise, and
    by the smallest normal number. Slopes f' between the steps are secants, the steeper one of both sides.
    """
    eps, stencil = sample.eps, sample.stencil
    centre, plus, minus = sample.values[:, 0], *(side.transpose(1, 0, 2) for side in (sample.right, sample.left))
    steps = (stencil.steps[:, None] * sample.step)[:, :, None]
    slopes = sample.differences.transpose(1, 0, 2)
    resolved = steps[:, :, 0] >= RESOLVED * eps * sample.magnitude
    smallest = float(np.finfo(np.float64 if eps <= EPS64 else np.float32).tiny)
    larger = np.maximum(np.abs(plus), np.abs(minus))
    changes = np.maximum(np.abs(plus[:-1] - plus[1:]), np.abs(minus[:-1] - minus[1:]))
    secants = changes / (steps[:-1] - steps[1:])
    steep = np.concatenate([secants, secants[-1:]])
    backward = (PROMISE + 1) * eps * (sample.magnitude[:, None] + steps) * steep
    level = value_noise(sample)
    model = PROMISE * eps * larger + backward + smallest
    noise = confirmed(sample, level, _tail(slopes, steps, resolved, stencil.ratio), model[-1])
    noise = np.maximum(noise, sample.floor)
    known = np.maximum(model[-1], noise)
    lost = np.maximum(scattered(sample, level, known).max(axis=1, initial=0.0), lattice(sample, known, TAIL))
    return Rounding(
        steps=steps,
        slopes=slopes,
        seconds=(plus - centre) + (minus - centre),
        values=np.maximum(model, noise),
        centre=np.maximum(PROMISE * eps * np.abs(centre) + backward + smallest, noise),
        promised=model,
        resolved=resolved,
        sizes=np.maximum(np.maximum.accumulate(larger[::-1], axis=0)[::-1], ZERO * smallest),
        level=level,
        lost=lost,
        spans=np.multiply.outer(sample.step, stencil.noise_spacings) * ((stencil.noise_points - 1) / 2),
    )


def finest(resolved: Array) -> Array:
    """Marks the `TAIL` finest of the resolved steps, boolean like `resolved` (count, k)."""
    last = resolved.copy()
    last[:-TAIL] &= ~resolved[TAIL:]
    return last


def _tail(slopes: Array, steps: Array, resolved: Array, ratio: float) -> Array:
    """Noise that the finest resolved slopes show: they differ by truncation far less than by noise, shape (k, m)."""
    once = slopes[1:] + (slopes[1:] - slopes[:-1]) / (ratio**2 - 1)
    twice = once[1:] + (once[1:] - once[:-1]) / (ratio**4 - 1)
    jumps = np.abs(twice[1:] - twice[:-1]) * steps[3:]
    shown = finest(resolved)[3:, :, None] & np.isfinite(jumps)
    return np.asarray(TAIL_FACTOR * np.max(jumps, axis=0, where=shown, initial=0.0))
