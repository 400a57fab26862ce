"""One-sided limits along a line, by Richardson extrapolation with error bounds, and the kinds of points they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from math import comb

import numpy as np

from gradcheck.numerics.difference import ABSOLUTE, EXCLUSION, RELATIVE
from gradcheck.numerics.rounding import PROMISE
from gradcheck.numerics.sampling import Sample
from gradcheck.numerics.tableau import SAFETY, WITNESSES
from gradcheck.typing import Array

CHANGES = 4.0
"""An entry departs from the limit by at most this many changes in its column."""

COLUMNS = 6
"""The number of powers of the step that are eliminated."""

DISTINCT = 4.0
"""Values that differ by more than this many bounds are certainly different."""

SMALLEST_KINK = 1e-3
"""At a smooth point no kink of this share of the slope goes unseen."""

STEADY = 0.9
"""Changes of the slope that fall more slowly than this, from step to step, have no limit."""

LAST = 4
"""The number of finest steps by which the slopes next to the point are judged."""

ROOT = 0.8
"""At a cusp the changes of the slope fall more slowly than this power of the step, and than the steps."""

EVEN = 0.1
"""At a cusp their rates of change are equal within this share."""

AMPLIFIED = 10.0
"""Aitken's process amplifies the rounding of the finest slope by at most this."""

ISOLATED = 2000.0
"""A gap at the point is the only one up to this many times the finest step."""

FINEST = 3
"""The number of finest steps on which a jump, a kink, or a gap at the point has to last."""

LASTING = 0.25
"""It lasts if it changes by at most this share of itself."""

NOTHING = 1e9 * float(np.finfo(np.float64).tiny)
"""A function is taken to be at least this large."""

Limit = tuple[Array, Array]
"""A limit as the step goes to zero, and its error bound (inf where unknown)."""


class Smoothness(IntEnum):
    """How smooth a function is along a line through the point, down to the finest step of the stencil."""

    SMOOTH = 0
    CURVATURE_JUMP = 1
    KINK = 2
    JUMP = 3
    SINGULAR = 4
    UNKNOWN = 5


ROUGH = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR)
"""The kinds of points without a derivative."""


@dataclass(frozen=True)
class OneSided:
    """One-sided derivatives on k lines of m outputs: every array has shape (k, m).

    `left` and `right` are derivatives with respect to t, each true within its bound; where the kind is UNKNOWN, the
    steps may alias, and the bounds promise nothing. They do not use the function's value at the point, so that at a
    jump they are the slopes of the two branches. An infinite slope is ±inf with bound 0, a side outside the domain NaN
    with bound inf. `kind` holds `Smoothness` as integers.
    """

    left: Array
    right: Array
    left_bound: Array
    right_bound: Array
    kind: Array

    def __getitem__(self, chosen: Array | slice) -> OneSided:
        """The derivatives on some of the lines."""
        return OneSided(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def jumps_like(self, other: OneSided) -> Array:
        """Where both have the same kind, and the same jump of the derivative within the bounds, (k, m)."""
        bounds = self.left_bound + self.right_bound + other.left_bound + other.right_bound
        with np.errstate(invalid="ignore"):
            apart = np.abs((self.right - self.left) - (other.right - other.left)) > bounds
        return np.asarray((self.kind == other.kind) & ~apart)

    @property
    def middle(self) -> Array:
        """The midpoint of the one-sided derivatives."""
        return np.asarray((self.left + self.right) / 2)

    @property
    def reach(self) -> Array:
        """How far from the middle a subgradient may lie, given the bounds."""
        return np.asarray(np.abs(self.right - self.left) / 2 + np.maximum(self.left_bound, self.right_bound))

    @property
    def uncertain(self) -> Array:
        """The larger bound of those sides that lie inside the domain."""
        sides = (self.left, self.left_bound), (self.right, self.right_bound)
        return np.asarray(np.maximum(*(np.where(np.isnan(slope), 0.0, bound) for slope, bound in sides)))


def classify(sample: Sample) -> OneSided:
    """Classify every line and output of a sample from its one-sided sequences.

    SINGULAR: the point or a side next to it is outside the domain, or the slopes grow without limit. JUMP: the values
    of a side tend to another limit than the value at the point. KINK: the slopes differ. CURVATURE_JUMP: the slopes
    agree, the second derivatives differ or grow without limit. SMOOTH: none of these, and a kink of 1e-3 of the slope
    (or of 1e-6 of the largest |f| over the largest step) would have been seen. UNKNOWN: noise, or a feature about as
    small as the finest step, leaves more than one possibility. Features far below the finest step cannot be seen.
    """
    with np.errstate(all="ignore"):
        seen = _both_sides(sample)
        slope, bound, endless, unsettled, cusp = _slopes(seen, sample.stencil.ratio)
        gap, unsure_gap = _gap(sample, seen)
        kink, doubt = slope[1] - slope[0], bound[1] + bound[0]
        kinked = np.abs(kink) > DISTINCT * doubt
        curvature, curvature_bound = seen.curvature
        middles = (seen.shift[:-1] + seen.shift[1:]) / 2
        straight = seen.slopes - curvature * middles, seen.slope_rounding + curvature_bound * np.abs(middles)
        # Beside a larger curvature, a small kink shows only once the curvature is subtracted.
        lasting_kink = _lasting(seen.slopes, seen.slope_rounding, kink) | _lasting(*straight, kink)
        jump = curvature[1] - curvature[0]
        curved = np.abs(jump) > DISTINCT * (curvature_bound[1] + curvature_bound[0])
        curved &= _lasting(seen.seconds, seen.second_rounding, jump)
        outside = ~(np.isfinite(sample.values[:, 0]) & seen.inside.all(axis=0))
        size = np.max(np.where(np.isfinite(sample.row), np.abs(sample.row), 0.0), axis=1) + NOTHING
        matters = SMALLEST_KINK * np.abs(slope).max(axis=0) + ABSOLUTE * size / sample.step[:, None]
        cases = (
            (outside | endless.any(axis=0), Smoothness.SINGULAR),
            (gap, Smoothness.JUMP),
            (unsure_gap | unsettled.any(axis=0), Smoothness.UNKNOWN),
            (kinked & lasting_kink & _joined(seen, kink), Smoothness.KINK),
            (kinked | ~(np.abs(kink) + doubt <= matters), Smoothness.UNKNOWN),
            (curved | cusp.any(axis=0), Smoothness.CURVATURE_JUMP),
        )
        kind = np.select([case for case, _ in cases], [int(name) for _, name in cases], int(Smoothness.SMOOTH))
        return OneSided(slope[0], slope[1], bound[0], bound[1], kind.astype(np.int64))


@dataclass(frozen=True)
class _Sides:
    """A function on the left and on the right of the point; its value at the point only enters `rises` and `gap`.

    Arrays end in (2, k, m), the left side first; derivatives are with respect to t. `shift` are the steps, the coarsest
    first, `rises` f(t) - f(0), `slopes` the secants between neighbouring steps, `seconds` the second differences
    between three, both with their rounding errors. `gap` is the limit of f(t) - f(0), `slope` and `curvature` the
    limits of the first and second derivative. `inside`: the finest steps lie in the domain.
    """

    shift: Array
    rises: Array
    slopes: Array
    slope_rounding: Array
    seconds: Array
    second_rounding: Array
    gap: Limit
    slope: Limit
    curvature: Limit
    inside: Array


def _both_sides(sample: Sample) -> _Sides:
    """Both sides of a sample; rounding is assumed to be f^(x) = (1 + d1) f(x (1 + d2)), with |d1|, |d2| <= 4 eps."""
    ratio, centre = sample.stencil.ratio, sample.values[:, 0]
    rows = np.moveaxis(np.stack([sample.left, sample.right]), 2, 0)
    shift = (sample.stencil.steps[:, None, None] * np.stack([-sample.step, sample.step]))[..., None]
    width, span = np.diff(shift, axis=0), shift[2:] - shift[:-2]
    slopes = np.diff(rows, axis=0) / width
    seconds = 2.0 * np.diff(slopes, axis=0) / span
    steep = np.abs(slopes[[*range(len(slopes)), -1]])
    height = np.abs(rows) + np.abs(centre) + (np.abs(shift) + sample.magnitude[:, None]) * steep
    error = np.maximum(PROMISE * sample.eps * height, sample.floor) + np.finfo(np.float64).tiny
    error = np.maximum.accumulate(error[::-1])[::-1]
    rounding = 2.0 * error[:-1] / np.abs(width)
    second_rounding = 4.0 * np.maximum(rounding[:-1], rounding[1:]) / np.abs(span)
    return _Sides(
        shift=shift,
        rises=rows - centre,
        slopes=slopes,
        slope_rounding=rounding,
        seconds=seconds,
        second_rounding=second_rounding,
        gap=extrapolate(rows - centre, error, ratio, 0),
        slope=extrapolate(slopes, rounding, ratio, 1),
        curvature=extrapolate(seconds, second_rounding, ratio, 2),
        inside=np.isfinite(rows[-LAST:]).all(axis=0),
    )


def extrapolate(rows: Array, rounding: Array, ratio: float, order: int) -> Limit:
    """Extrapolate a sequence with an expansion in the powers of the step to step zero.

    `rows` (count, ...) are its members for steps that fall by `ratio`, coarsest first, and `rounding` their rounding
    errors, which grow like step**-order. The bound of an entry of the tableau is the largest change from its column
    to the one before, over this entry and all finer ones, each scaled to the step of the entry, so that noise of
    unknown size shows in the finer entries. An entry counts only if all finer ones are compatible with it (Ridders
    1982, made one-sided).
    """
    count = len(rows)
    column = np.array(rows)
    best, best_bound = column[-1], np.full(rows.shape[1:], np.inf)
    change = np.abs(np.diff(rows, axis=0))
    low, high = _agreed(rows, CHANGES * np.concatenate([change, change[-1:]]) + rounding)
    scale = ratio ** (-order * np.arange(count, dtype=np.float64)).reshape(-1, *[1] * (rows.ndim - 1))
    for power in range(1, min(COLUMNS, count - 1) + 1):
        refined = column[1:] + (column[1:] - column[:-1]) / (ratio**power - 1.0)
        size = len(refined)
        change = np.abs(refined - column[:-1]) * scale[:size]
        truncation = np.maximum.accumulate(change[::-1])[::-1] / scale[:size]
        bound = CHANGES * truncation + 2.0 * rounding[power : power + size]
        agreed = _agreed(refined, bound)
        low, high = np.maximum(low[:size], agreed[0]), np.minimum(high[:size], agreed[1])
        fits = (refined >= low - bound) & (refined <= high + bound)
        bound = np.where(fits & np.isfinite(bound), bound, np.inf)
        bound[max(0, count - WITNESSES) :] = np.inf
        row = np.argmin(bound, axis=0)[None]
        narrow, least = (np.take_along_axis(array, row, axis=0)[0] for array in (refined, bound))
        better = least < best_bound
        best, best_bound = np.where(better, narrow, best), np.where(better, least, best_bound)
        column = refined
    return best, best_bound


def _agreed(rows: Array, error: Array) -> tuple[Array, Array]:
    """For every entry, the interval that it and all finer ones agree on."""
    low = np.maximum.accumulate((rows - error)[::-1])[::-1]
    high = np.minimum.accumulate((rows + error)[::-1])[::-1]
    return low, high


def _slopes(seen: _Sides, ratio: float) -> tuple[Array, Array, Array, Array, Array]:
    """Each side's slope with its bound, and whether it is endless, unsettled, or has a cusp; all (2, k, m).

    Unsettled: the finest slopes change in one direction, above their rounding, in steps that do not get smaller. They
    are endless where they grow in size; where they fall, a feature is finer than the stencil. At a cusp, as that of
    |t|**1.5, the slope has a limit but its own slope has none. An endless slope is infinite, one outside the domain
    NaN.
    """
    slopes, rounding = seen.slopes, seen.slope_rounding
    steps = np.diff(slopes, axis=0)
    last, sizes = steps[-LAST:], np.abs(steps[-LAST:])
    clear = sizes > DISTINCT * (rounding[:-1] + rounding[1:])[-LAST:]
    one_way = clear.all(axis=0) & (np.abs(np.sign(last).sum(axis=0)) == LAST)
    unsettled = one_way & (sizes[1:] >= STEADY * sizes[:-1]).all(axis=0)
    endless = unsettled & (np.diff(np.abs(slopes[-LAST - 1 :]), axis=0) > 0).all(axis=0)
    # With a bounded second derivative these changes fall like the steps; with a root they fall more slowly.
    rate = sizes[1:] / sizes[:-1]
    steady = (rate > ratio**-ROOT) & (rate < STEADY) & (np.abs(rate / rate[-1] - 1.0) < EVEN)
    cusp = one_way & steady.all(axis=0)
    # At a cusp slopes converge like an unknown power of the step: Aitken's delta-squared process.
    aitken = slopes[2:] - steps[1:] ** 2 / (steps[1:] - steps[:-1])
    aitken_bound = SAFETY * np.abs(np.diff(aitken[-3:], axis=0)).max(axis=0) + AMPLIFIED * rounding[-1]
    value = np.where(endless, np.copysign(np.inf, slopes[-1]), np.where(cusp, aitken[-1], seen.slope[0]))
    bound = np.where(endless, 0.0, np.where(cusp, aitken_bound, seen.slope[1]))
    value, bound = np.where(seen.inside, value, np.nan), np.where(seen.inside, bound, np.inf)
    return value, bound, endless, unsettled, cusp


def _gap(sample: Sample, seen: _Sides) -> tuple[Array, Array]:
    """Where the value at the point is certainly not a side's limit, and where that is uncertain, (k, m).

    A certain gap is isolated: up to 2,000 times the finest step, there is no other change of half its size besides the
    slope. Next to an edge of a staircase (a function that loses digits), more such edges follow.
    """
    (gap, bound), steps = seen.gap, sample.stencil.steps
    size, near = np.abs(gap), steps <= ISOLATED * steps[-1]
    rest = seen.rises[near] - gap - seen.slope[0] * seen.shift[near]
    isolated = (np.abs(rest) <= 0.5 * size).all(axis=0)
    steep = np.abs(seen.slopes[-2:]).max(axis=(0, 1)) * np.abs(seen.shift[-1, 1])
    clear = (size > EXCLUSION * _one_sided_noise(sample)) & (size > EXCLUSION * steep) & isolated
    differs = size > DISTINCT * bound
    certain = (differs & clear).any(axis=0)
    return certain, (differs & ~clear).any(axis=0) & ~certain


def _one_sided_noise(sample: Sample) -> Array:
    """The noise of the values, (k, m): second and third differences over the noise samples, on each side separately.

    Differences of order p of noise of deviation s have the mean square s**2 (2p choose p) (Moré and Wild 2011).
    """
    half = sample.stencil.noise_points // 2
    parts = np.stack([sample.noise[:, :, :half], sample.noise[:, :, -half:]])
    levels = [
        np.abs(np.diff(parts, n=order, axis=3)).max(axis=3) / np.sqrt(comb(2 * order, order))
        for order in range(2, min(half, 4))
    ]
    return np.asarray(np.fmax.reduce(levels, axis=(0, 1, 3), initial=0.0))


def _lasting(rows: Array, rounding: Array, jump: Array) -> Array:
    """Whether the two sides differ by `jump` within a quarter at the three finest steps that are clear of rounding.

    If the sides only meet below the finest clear step (a rounded corner, noise in steps), the difference changes.
    """
    clear = rounding[:, 1] + rounding[:, 0] <= RELATIVE * np.abs(jump)
    finest = clear & (np.cumsum(clear[::-1], axis=0)[::-1] <= FINEST)
    same = np.abs(rows[:, 1] - rows[:, 0] - jump) <= LASTING * np.abs(jump)
    return np.asarray((finest.sum(axis=0) == FINEST) & (same | ~finest).all(axis=0))


def _joined(seen: _Sides, kink: Array) -> Array:
    """Whether both sides meet at the point itself, rather than at a kink between the two finest steps."""
    clear = seen.slope_rounding[:, 1] + seen.slope_rounding[:, 0] <= RELATIVE * np.abs(kink)
    finest = np.where(clear, seen.shift[1:, 1], np.inf).min(axis=0)
    return np.asarray(seen.gap[1].max(axis=0) <= 0.5 * np.abs(kink) * finest)


def interval(one_sided: OneSided) -> tuple[Array, Array]:
    """The ends of the interval that the one-sided slopes span, widened by their bounds, each (k, m).

    A side outside the domain is left out of it; where both are, the ends are NaN.
    """
    left_bound = np.where(np.isnan(one_sided.left), 0.0, one_sided.left_bound)
    right_bound = np.where(np.isnan(one_sided.right), 0.0, one_sided.right_bound)
    low = np.fmin(one_sided.left - left_bound, one_sided.right - right_bound)
    return low, np.fmax(one_sided.left + left_bound, one_sided.right + right_bound)


def subgradient_allows(one_sided: OneSided, autodiff: Array, slack: Array | float = 0.0) -> Array:
    """Whether an autodiff derivative with respect to t lies between the one-sided slopes, per entry, shape (k, m).

    The interval is widened by `slack`. A side outside the domain is left out of it; where both are, nothing is allowed.
    Where a bound is inf, every finite value is allowed. At an UNKNOWN point the answer means nothing.
    """
    low, high = interval(one_sided)
    return np.asarray((low - slack <= autodiff) & (autodiff <= high + slack))


def confirm(coarse: OneSided, finer: OneSided) -> OneSided:
    """Withdraw kinks, jumps and singularities that a finer stencil on the same lines shows to be smooth.

    `tanh(1e10 * x)` at 0 has a jump for every stencil that ends far above 1e-10; one that starts 2**20 times finer (the
    argument `step` of `sample`) shows none. An entry is replaced where the finer one is SMOOTH and would see the kink.
    """
    with np.errstate(invalid="ignore"):
        kink = np.abs(coarse.right - coarse.left)
    claimed = np.isin(coarse.kind, ROUGH)
    precise = (coarse.kind != Smoothness.KINK) | (finer.left_bound + finer.right_bound <= RELATIVE * kink)
    withdrawn = claimed & precise & (finer.kind == Smoothness.SMOOTH)
    return OneSided(*(np.where(withdrawn, getattr(finer, x.name), getattr(coarse, x.name)) for x in fields(OneSided)))


def constant(sample: Sample) -> Array:
    """Whether an output has the same value at all steps, shape (k, m) bool; NaN is never constant."""
    return np.asarray((sample.row == sample.row[:, :1]).all(axis=1))


WIDENING = 4.0
"""The ratio of successive spans."""

WIDEST = 24
"""The number of times that a span is widened."""

ODD_SPANS = np.array([1.0, 1.37, 1.83, 2.41, 3.19])
"""Spans without a common divisor."""

ASIDE = 2.0**-10
"""Shifted by this share of the flat piece around the point, a staircase stays on most of its stairs."""


def wide_slope(f: Callable[[Array], Array], x: Array, direction: Array, start: float) -> tuple[float, float] | None:
    """Widen x ± t * direction from t = `start` until f has changed on both sides, and take the slope over wider spans.

    `f` maps points (p, n) to values (p,). A function that loses digits or rounds changes in steps; once the span holds
    several steps, its slope is that of the underlying function. Returns the median over five spans without a common
    divisor, and their largest deviation, at least one step over the span; beside a kink on the flat piece, such as that
    of selu at -1e-17, up to the slopes of both sides. Returns None where f is still constant on a side after 24
    widenings by 4 (a flat piece, such as relu left of 0), where it has no stairs (such as a soft threshold, which
    slopes on both sides), or where it is not finite; close to the edge of its domain fewer steps have to suffice.
    """

    def both_ways(spans: Array) -> Array:
        moves = spans[:, None] * direction
        return f(np.concatenate([x + moves, x - moves])).reshape(2, -1)

    centre = f(x[None])[0]
    for power in range(1, WIDEST + 1):
        span = start * WIDENING**power
        ends = both_ways(np.array([span]))
        if not np.isfinite(ends).all():
            return None
        if (ends != centre).all():
            break
    else:
        return None
    step = float(np.abs(ends - centre).max())
    for reach in (span * WIDENING, span):
        spans = reach * ODD_SPANS
        right, left = both_ways(spans)
        if np.isfinite([right, left]).all():
            if np.mean(both_ways(spans + ASIDE * start) == [right, left]) < 0.5:
                return None
            slope, spread = _median((right - left) / (2.0 * spans), step / (2.0 * reach))
            kink = abs(float(np.median((right + left - 2.0 * centre) / (2.0 * spans))))
            return slope, spread + kink if kink > spread else spread
    return None


def wide_slope_of_tilted(
    f: Callable[[Array], Array], x: Array, direction: Array, start: float, tilt: float, noise: float
) -> tuple[float, float] | None:
    """As `wide_slope`, of a staircase whose stairs have a slope: half the rise from -t to t, less `tilt` * t, is flat.

    That leaves out the curvature of the stairs. Up to t = `start` it is at most `noise`; None where it does not end
    abruptly, as where f is smooth or has a kink nearby, and where no other stairs follow.
    """

    def stairs(spans: Array) -> Array:
        moves = spans[:, None] * direction
        right, left = f(np.concatenate([x + moves, x - moves])).reshape(2, -1)
        return np.asarray((right - left) / 2 - tilt * spans)

    spans = start * WIDENING ** np.arange(1.0, WIDEST)
    for span in spans:
        (step,) = np.abs(stairs(np.array([span])))
        if not step <= noise:
            break
    # What is left of a smooth function grows by the third or fifth power of the span.
    if not noise * WIDENING**6 < step < np.inf:
        return None
    wider = span * WIDENING * ODD_SPANS
    values, aside = stairs(wider), stairs(wider + ASIDE * start)
    # A kink nearby adds more than this share of a step along the way.
    if not np.mean(np.abs(aside - values) <= ASIDE / WIDENING**2 * step) >= 0.5:
        return None
    slope, spread = _median(values / wider, float(step / (span * WIDENING)))
    return (tilt + slope, spread) if 2 * spread <= abs(slope) else None  # else it is a single jump nearby


def _median(slopes: Array, least: float) -> tuple[float, float]:
    """The median of slopes, and their largest deviation from it, which is at `least` so much."""
    slope = float(np.median(slopes))
    return slope, max(float(np.abs(slopes - slope).max()), least)
