"""Is a function smooth at a point? One-sided sequences tell jumps, kinks and curvature jumps from smooth points."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from math import comb
from typing import Any

import numpy as np

from gradcheck.numerics.onesided import Limit, Side, sides
from gradcheck.numerics.stencil import Sample

Array = np.ndarray[Any, Any]

CERTAIN = 4.0
RELATIVE = 1e-3
ABSOLUTE = 1e-6
STEADY = 0.9
LAST = 4
NOTHING = 1e9 * float(np.finfo(np.float64).tiny)


class Smoothness(IntEnum):
    """What a function looks like along a line through the point, down to the finest step of the row."""

    SMOOTH = 0
    CURVATURE_JUMP = 1
    KINK = 2
    JUMP = 3
    SINGULAR = 4
    UNKNOWN = 5


ROUGH = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR)
"""Where there is no derivative."""


@dataclass(frozen=True)
class OneSided:
    """One-sided derivatives on k lines of m outputs: every array has shape (k, m).

    `left` and `right` are derivatives with respect to t, each true within its bound; where the kind is UNKNOWN, the
    row may alias, and the bounds promise nothing. They leave the function's value at the point out, so that at a jump
    they are the slopes of the two branches. An infinite slope is ±inf with bound 0, a side outside the domain NaN with
    bound inf. `kind` holds `Smoothness` as integers. `curvature_bound` is the smallest jump of the second derivative
    that would have been seen (inf where none would).
    """

    left: Array
    right: Array
    left_bound: Array
    right_bound: Array
    kind: Array
    curvature_bound: Array


def classify(sample: Sample) -> OneSided:
    """Classify every line and output of a sample from its one-sided sequences.

    SINGULAR: the point or a side next to it is outside the domain, or the slopes grow without limit. JUMP: the values
    of a side tend to something else than the value at the point. KINK: the slopes differ. CURVATURE_JUMP: the slopes
    agree, the second derivatives differ or grow without limit. SMOOTH: nothing of this, and a kink of 1e-3 of the
    slope (or of 1e-6 of the function's change over the row per step) would have been seen. UNKNOWN: noise, or a
    feature about as small as the finest step, leaves more than one possibility. Features far below the finest step
    cannot be seen.
    """
    with np.errstate(all="ignore"):
        ratio = sample.stencil.ratio
        left, right = sides(sample)
        outside = ~(np.isfinite(sample.values[:, 0]) & left.inside & right.inside)
        gap, unsure_gap = _gap(sample, left, right)
        slopes = _slope(left, ratio), _slope(right, ratio)
        kink = slopes[1].value - slopes[0].value
        doubt = slopes[0].bound + slopes[1].bound
        bend = right.curvature.value - left.curvature.value
        haze = left.curvature.bound + right.curvature.bound
        kinked, bent = np.abs(kink) > CERTAIN * doubt, np.abs(bend) > CERTAIN * haze
        lasting_kink = _lasting(right.slopes - left.slopes, right.slope_rounding + left.slope_rounding, kink)
        lasting_bend = _lasting(right.seconds - left.seconds, right.second_rounding + left.second_rounding, bend)
        cases = (
            (outside | _endless(left) | _endless(right), Smoothness.SINGULAR),
            (gap, Smoothness.JUMP),
            (unsure_gap | _restless(left) | _restless(right), Smoothness.UNKNOWN),
            (kinked & lasting_kink & _joined(sample, left, right, kink), Smoothness.KINK),
            (kinked | ~_resolved(sample, slopes, np.abs(kink) + doubt), Smoothness.UNKNOWN),
            ((bent & lasting_bend) | _cusp(left, ratio) | _cusp(right, ratio), Smoothness.CURVATURE_JUMP),
        )
        kind = np.select([case for case, _ in cases], [int(name) for _, name in cases], int(Smoothness.SMOOTH))
        return OneSided(
            left=slopes[0].value,
            right=slopes[1].value,
            left_bound=slopes[0].bound,
            right_bound=slopes[1].bound,
            kind=kind.astype(np.int64),
            curvature_bound=np.where(np.isfinite(haze) & (lasting_bend | ~bent), CERTAIN * haze, np.inf),
        )


def subgradient_allows(one_sided: OneSided, autodiff: Array, slack: Array | float = 0.0) -> Array:
    """Whether an autodiff derivative with respect to t lies between the one-sided slopes, per entry, shape (k, m).

    The interval is widened by the slopes' bounds and by `slack`. A side outside the domain is left out of it; where
    both are, nothing is allowed. Where a bound is inf, everything finite is.
    At an UNKNOWN point the answer means nothing.
    """
    left_bound = np.where(np.isnan(one_sided.left), 0.0, one_sided.left_bound)
    right_bound = np.where(np.isnan(one_sided.right), 0.0, one_sided.right_bound)
    low = np.fmin(one_sided.left - left_bound, one_sided.right - right_bound) - slack
    high = np.fmax(one_sided.left + left_bound, one_sided.right + right_bound) + slack
    return np.asarray((low <= autodiff) & (autodiff <= high))


def confirm(coarse: OneSided, finer: OneSided) -> OneSided:
    """Withdraw kinks, jumps and singularities that a finer row on the same lines shows to be smooth.

    `tanh(1e10 * x)` at 0 has a jump for every row that ends far above 1e-10; a row that starts 2**20 times finer (the
    argument `step` of `sample`) tells. An entry is replaced where the finer one is SMOOTH and would have seen the kink.
    """
    with np.errstate(invalid="ignore"):
        kink = np.abs(coarse.right - coarse.left)
    claimed = np.isin(coarse.kind, ROUGH)
    sharp = (coarse.kind != Smoothness.KINK) | (finer.left_bound + finer.right_bound <= 0.1 * kink)
    withdrawn = claimed & sharp & (finer.kind == Smoothness.SMOOTH)
    return OneSided(*(np.where(withdrawn, getattr(finer, x.name), getattr(coarse, x.name)) for x in fields(OneSided)))


def _restless(side: Side) -> Array:
    """Whether the finest slopes run one way, above their rounding, in steps that do not get smaller."""
    steps, one_way = _clear_steps(side)
    return np.asarray(one_way & (np.abs(steps[1:]) >= STEADY * np.abs(steps[:-1])).all(axis=0))


def _endless(side: Side) -> Array:
    """Whether the slope tends to infinity; restless slopes that fall in size only show a feature finer than the row."""
    size = np.abs(side.slopes[-LAST - 1 :])
    return np.asarray(_restless(side) & (np.diff(size, axis=0) > 0).all(axis=0))


def _cusp(side: Side, ratio: float) -> Array:
    """Whether the slope has a limit but its own slope has none, as |t|**1.5 at zero."""
    steps, one_way = _clear_steps(side)
    # With a bounded second derivative these steps fall like the row itself; with a root they fall slower.
    rate = np.abs(steps[1:]) / np.abs(steps[:-1])
    steady = (rate > ratio**-0.8) & (rate < STEADY) & (np.abs(rate / rate[-1] - 1.0) < 0.1)
    return np.asarray(one_way & steady.all(axis=0))


def _clear_steps(side: Side) -> tuple[Array, Array]:
    """The last changes of the slopes, and where all are above the rounding and of one sign."""
    steps = np.diff(side.slopes, axis=0)[-LAST:]
    clear = np.abs(steps) > CERTAIN * (side.slope_rounding[:-1] + side.slope_rounding[1:])[-LAST:]
    return steps, np.asarray(clear.all(axis=0) & (np.abs(np.sign(steps).sum(axis=0)) == LAST))


def _gap(sample: Sample, left: Side, right: Side) -> tuple[Array, Array]:
    """Where the value at the point is certainly not a side's limit, and where that cannot be told."""
    finest = (sample.step * sample.stencil.steps[-1])[:, None]
    noise = _one_sided_noise(sample)
    certain = np.zeros(left.inside.shape, dtype=bool)
    suspected = np.zeros(left.inside.shape, dtype=bool)
    steep = np.maximum(np.abs(left.slopes[-2:]), np.abs(right.slopes[-2:])).max(axis=0)
    for side, sign in ((left, -1.0), (right, 1.0)):
        size = np.abs(side.gap.value)
        differs = size > CERTAIN * side.gap.bound
        clear = (size > 10.0 * noise) & (size > 10.0 * finest * steep) & _standing(sample, side, sign)
        certain |= differs & clear
        suspected |= differs & ~clear
    return certain, suspected & ~certain


def _standing(sample: Sample, side: Side, sign: float) -> Array:
    """Whether a gap stands alone: up to 2,000 times the finest step, no other change of half its size beside the slope.

    Next to an edge of a staircase (a function that loses digits), more such edges follow.
    """
    steps = sample.stencil.steps
    near = steps <= 2000.0 * steps[-1]
    shift = sign * (steps[near, None] * sample.step)[..., None]
    rest = side.rises[near] - side.gap.value - side.slope.value * shift
    return np.asarray((np.abs(rest) <= 0.5 * np.abs(side.gap.value)).all(axis=0))


def _lasting(rows: Array, rounding: Array, jump: Array) -> Array:
    """Whether the two sides differ by `jump` within a quarter on the three finest rows that are clear of rounding.

    Between sides that only meet below the finest clear row (a rounded corner, noise in steps), the difference changes.
    """
    clear = rounding <= 0.1 * np.abs(jump)
    finest = clear & (np.cumsum(clear[::-1], axis=0)[::-1] <= 3)
    same = np.abs(rows - jump) <= 0.25 * np.abs(jump)
    return np.asarray((finest.sum(axis=0) == 3) & (same | ~finest).all(axis=0))


def _joined(sample: Sample, left: Side, right: Side, kink: Array) -> Array:
    """Whether both sides meet in the point itself, and not where a kink lies between the two finest steps."""
    clear = right.slope_rounding + left.slope_rounding <= 0.1 * np.abs(kink)
    steps = (sample.stencil.steps[1:, None] * sample.step)[..., None]
    finest = np.where(clear, steps, np.inf).min(axis=0)
    return np.asarray(np.maximum(left.gap.bound, right.gap.bound) <= 0.5 * np.abs(kink) * finest)


def _one_sided_noise(sample: Sample) -> Array:
    """The noise of the values, (k, m): second and third differences over the noise samples, either side apart.

    Differences of order p of noise of deviation s have the mean square s**2 (2p choose p) (Moré and Wild 2011).
    """
    stencil = sample.stencil
    half = stencil.noise_points // 2
    noise = np.zeros(sample.values[:, 0].shape)
    start = 1 + 2 * stencil.count
    for first in range(start, start + len(stencil.noise_spacings) * stencil.noise_points, stencil.noise_points):
        block = sample.values[:, first : first + stencil.noise_points]
        for part in (block[:, :half], block[:, -half:]):
            for order in range(2, min(half, 4)):
                level = np.abs(np.diff(part, n=order, axis=1)).max(axis=1) / np.sqrt(comb(2 * order, order))
                noise = np.fmax(noise, level)
    return noise


def _resolved(sample: Sample, slopes: tuple[Limit, Limit], doubt: Array) -> Array:
    """Whether a kink that matters, beside the slopes or beside the function's size, would have been seen."""
    slope = np.maximum(np.abs(slopes[0].value), np.abs(slopes[1].value))
    row = sample.values[:, : 2 * sample.stencil.count + 1]
    size = np.max(np.where(np.isfinite(row), np.abs(row), 0.0), axis=1) + NOTHING
    return np.asarray(doubt <= RELATIVE * slope + ABSOLUTE * size / sample.step[:, None])


def _slope(side: Side, ratio: float) -> Limit:
    """The side's slope: infinite where it is endless, NaN outside the domain, by Aitken's rule at a cusp."""
    endless, cusp = _endless(side), _cusp(side, ratio)
    aitken = _aitken(side)
    value = np.where(cusp, aitken.value, side.slope.value)
    bound = np.where(cusp, aitken.bound, side.slope.bound)
    value = np.where(endless, np.copysign(np.inf, side.slopes[-1]), value)
    bound = np.where(endless, 0.0, bound)
    return Limit(np.where(side.inside, value, np.nan), np.where(side.inside, bound, np.inf))


def _aitken(side: Side) -> Limit:
    """The limit of slopes that converge like an unknown power of the step (Aitken's delta-squared process)."""
    steps = np.diff(side.slopes, axis=0)
    limits = side.slopes[2:] - steps[1:] ** 2 / (steps[1:] - steps[:-1])
    bound = 2.0 * np.abs(np.diff(limits[-3:], axis=0)).max(axis=0) + 10.0 * side.slope_rounding[-1]
    return Limit(limits[-1], bound)
