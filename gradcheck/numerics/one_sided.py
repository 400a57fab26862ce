"""One-sided limits along a line, by Richardson extrapolation with error bounds, and the kinds of points they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from math import comb
from typing import Any

import numpy as np

from gradcheck.numerics.sampling import Sample

Array = np.ndarray[Any, Any]

SAFETY = 4.0
COLUMNS = 6
WITNESSES = 4


Limit = tuple[Array, Array]
"""A limit (k, m) as the step goes to zero, and its error bound (inf where unknown)."""


@dataclass(frozen=True)
class Side:
    """A function seen from one side of the point, its own value there left out but for `gap`.

    Derivatives are with respect to t. `rises` (count, k, m) are f(t) - f(0), coarsest step first, `slopes`
    (count - 1, k, m) the secants between neighbouring steps, `seconds` (count - 2, k, m) the second differences between
    three, both with their rounding errors. `gap` is the limit of f(t) - f(0), `slope` and `curvature` the limits of the
    first and second derivative, (k, m) as their bounds. `inside`: the finest steps lie in the domain.
    """

    rises: Array
    slopes: Array
    slope_rounding: Array
    seconds: Array
    second_rounding: Array
    gap: Array
    gap_bound: Array
    slope: Array
    slope_bound: Array
    curvature: Array
    curvature_bound: Array
    inside: Array

    def lines(self, chosen: slice) -> Side:
        """The same on some of the lines."""
        return Side(*(array[..., chosen, :] for array in vars(self).values()))


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
    best = column[-1], np.full(rows.shape[1:], np.inf)
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
    value, bound = (np.take_along_axis(array, row, axis=0)[0] for array in (values, bounds))
    better = bound < best[1]
    return np.where(better, value, best[0]), np.where(better, bound, best[1])


def sides(sample: Sample) -> tuple[Side, Side]:
    """The function seen from the left and from the right, in this order."""
    both, lines = _both_sides(sample), len(sample.step)
    return both.lines(slice(None, lines)), both.lines(slice(lines, None))


def _both_sides(sample: Sample) -> Side:
    """The sequences of both sides, those of the left first, as one with 2 k lines, to spare overhead.

    The rounding assumed is the mixed error f^(x) = (1 + d1) f(x (1 + d2)), |d1|, |d2| <= 4 eps.
    """
    ratio, rows = sample.stencil.ratio, np.moveaxis(np.concatenate([sample.left, sample.right]), 1, 0)
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
        second_rounding = 4.0 * np.maximum(rounding[:-1], rounding[1:]) / np.abs(span)
        limits = (
            *extrapolate(rows - centre, error, ratio, 0),
            *extrapolate(slopes, rounding, ratio, 1),
            *extrapolate(seconds, second_rounding, ratio, 2),
        )
        inside = np.asarray(np.isfinite(rows[-WITNESSES:]).all(axis=0))
        return Side(rows - centre, slopes, rounding, seconds, second_rounding, *limits, inside)


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
    bound inf. `kind` holds `Smoothness` as integers.
    """

    left: Array
    right: Array
    left_bound: Array
    right_bound: Array
    kind: Array

    @property
    def middle(self) -> Array:
        """Half-way between the one-sided derivatives."""
        return np.asarray((self.left + self.right) / 2)

    @property
    def reach(self) -> Array:
        """How far from the middle a subgradient may lie, given the bounds."""
        return np.asarray(np.abs(self.right - self.left) / 2 + np.maximum(self.left_bound, self.right_bound))


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
        (slope_left, bound_left), (slope_right, bound_right) = _slope(left, ratio), _slope(right, ratio)
        kink, doubt = slope_right - slope_left, bound_left + bound_right
        jump, jump_doubt = right.curvature - left.curvature, left.curvature_bound + right.curvature_bound
        kinked, curved = np.abs(kink) > CERTAIN * doubt, np.abs(jump) > CERTAIN * jump_doubt
        lasting_kink = _lasting(right.slopes - left.slopes, right.slope_rounding + left.slope_rounding, kink)
        lasting_jump = _lasting(right.seconds - left.seconds, right.second_rounding + left.second_rounding, jump)
        size = np.maximum(np.abs(slope_left), np.abs(slope_right))
        cases = (
            (outside | _endless(left) | _endless(right), Smoothness.SINGULAR),
            (gap, Smoothness.JUMP),
            (unsure_gap | _unsettled(left) | _unsettled(right), Smoothness.UNKNOWN),
            (kinked & lasting_kink & _joined(sample, left, right, kink), Smoothness.KINK),
            (kinked | ~_resolved(sample, size, np.abs(kink) + doubt), Smoothness.UNKNOWN),
            ((curved & lasting_jump) | _cusp(left, ratio) | _cusp(right, ratio), Smoothness.CURVATURE_JUMP),
        )
        kind = np.select([case for case, _ in cases], [int(name) for _, name in cases], int(Smoothness.SMOOTH))
        return OneSided(slope_left, slope_right, bound_left, bound_right, kind.astype(np.int64))


def subgradient_allows(one_sided: OneSided, autodiff: Array, slack: Array | float = 0.0) -> Array:
    """Whether an autodiff derivative with respect to t lies between the one-sided slopes, per entry, shape (k, m).

    The interval is widened by the slopes' bounds and by `slack`. A side outside the domain is left out of it; where
    both are, nothing is allowed. Where a bound is inf, everything finite is. At an UNKNOWN point this means nothing.
    """
    left_bound = np.where(np.isnan(one_sided.left), 0.0, one_sided.left_bound)
    right_bound = np.where(np.isnan(one_sided.right), 0.0, one_sided.right_bound)
    low = np.fmin(one_sided.left - left_bound, one_sided.right - right_bound) - slack
    high = np.fmax(one_sided.left + left_bound, one_sided.right + right_bound) + slack
    return np.asarray((low <= autodiff) & (autodiff <= high))


def confirm(coarse: OneSided, finer: OneSided) -> OneSided:
    """Withdraw kinks, jumps and singularities that a finer row on the same lines shows to be smooth.

    `tanh(1e10 * x)` at 0 has a jump for every row that ends far above 1e-10; a row that starts 2**20 times finer (the
    argument `step` of `sample`) does not. An entry is replaced where the finer one is SMOOTH and would see the kink.
    """
    with np.errstate(invalid="ignore"):
        kink = np.abs(coarse.right - coarse.left)
    claimed = np.isin(coarse.kind, ROUGH)
    precise = (coarse.kind != Smoothness.KINK) | (finer.left_bound + finer.right_bound <= 0.1 * kink)
    withdrawn = claimed & precise & (finer.kind == Smoothness.SMOOTH)
    return OneSided(*(np.where(withdrawn, getattr(finer, x.name), getattr(coarse, x.name)) for x in fields(OneSided)))


def _unsettled(side: Side) -> Array:
    """Whether the finest slopes run one way, above their rounding, in steps that do not get smaller."""
    steps, one_way = _clear_steps(side)
    return np.asarray(one_way & (np.abs(steps[1:]) >= STEADY * np.abs(steps[:-1])).all(axis=0))


def _endless(side: Side) -> Array:
    """Whether the slope tends to infinity; unsettled slopes that fall in size show a feature finer than the row."""
    size = np.abs(side.slopes[-LAST - 1 :])
    return np.asarray(_unsettled(side) & (np.diff(size, axis=0) > 0).all(axis=0))


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
    """Where the value at the point is certainly not a side's limit, and where that is uncertain."""
    finest = (sample.step * sample.stencil.steps[-1])[:, None]
    noise = _one_sided_noise(sample)
    certain = np.zeros(left.inside.shape, dtype=bool)
    suspected = np.zeros(left.inside.shape, dtype=bool)
    steep = np.maximum(np.abs(left.slopes[-2:]), np.abs(right.slopes[-2:])).max(axis=0)
    for side, sign in ((left, -1.0), (right, 1.0)):
        size = np.abs(side.gap)
        differs = size > CERTAIN * side.gap_bound
        clear = (size > 10.0 * noise) & (size > 10.0 * finest * steep) & _isolated(sample, side, sign)
        certain |= differs & clear
        suspected |= differs & ~clear
    return certain, suspected & ~certain


def _isolated(sample: Sample, side: Side, sign: float) -> Array:
    """Whether a gap is isolated: up to 2,000 times the finest step, no other change of half its size beside the slope.

    Next to an edge of a staircase (a function that loses digits), more such edges follow.
    """
    steps = sample.stencil.steps
    near = steps <= 2000.0 * steps[-1]
    shift = sign * (steps[near, None] * sample.step)[..., None]
    rest = side.rises[near] - side.gap - side.slope * shift
    return np.asarray((np.abs(rest) <= 0.5 * np.abs(side.gap)).all(axis=0))


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
    return np.asarray(np.maximum(left.gap_bound, right.gap_bound) <= 0.5 * np.abs(kink) * finest)


def _one_sided_noise(sample: Sample) -> Array:
    """The noise of the values, (k, m): second and third differences over the noise samples, either side apart.

    Differences of order p of noise of deviation s have the mean square s**2 (2p choose p) (Moré and Wild 2011).
    """
    half = sample.stencil.noise_points // 2
    noise = np.zeros(sample.values[:, 0].shape)
    for part in (sample.noise[:, :, :half], sample.noise[:, :, -half:]):
        for order in range(2, min(half, 4)):
            levels = np.abs(np.diff(part, n=order, axis=2)).max(axis=2) / np.sqrt(comb(2 * order, order))
            noise = np.fmax(noise, np.fmax.reduce(levels, axis=1))
    return noise


def _resolved(sample: Sample, slope: Array, doubt: Array) -> Array:
    """Whether a kink that matters, beside the slopes or beside the function's size, would have been seen."""
    size = np.max(np.where(np.isfinite(sample.row), np.abs(sample.row), 0.0), axis=1) + NOTHING
    return np.asarray(doubt <= RELATIVE * slope + ABSOLUTE * size / sample.step[:, None])


def _slope(side: Side, ratio: float) -> Limit:
    """The side's slope: infinite where it is endless, NaN outside the domain, by Aitken's rule at a cusp."""
    endless, cusp = _endless(side), _cusp(side, ratio)
    value, bound = (np.where(cusp, *both) for both in zip(_aitken(side), (side.slope, side.slope_bound), strict=True))
    value = np.where(endless, np.copysign(np.inf, side.slopes[-1]), value)
    bound = np.where(endless, 0.0, bound)
    return np.where(side.inside, value, np.nan), np.where(side.inside, bound, np.inf)


def _aitken(side: Side) -> Limit:
    """The limit of slopes that converge like an unknown power of the step (Aitken's delta-squared process)."""
    steps = np.diff(side.slopes, axis=0)
    limits = side.slopes[2:] - steps[1:] ** 2 / (steps[1:] - steps[:-1])
    bound = 2.0 * np.abs(np.diff(limits[-3:], axis=0)).max(axis=0) + 10.0 * side.slope_rounding[-1]
    return limits[-1], bound


WIDENING = 4.0
WIDEST = 24
ODD_SPANS = (1.0, 1.37, 1.83, 2.41, 3.19)


def constant(sample: Sample) -> Array:
    """Whether an output has the same value on the whole row of steps, shape (k, m) bool; NaN is never constant."""
    return np.asarray((sample.row == sample.row[:, :1]).all(axis=1))


def wide_slope(f: Callable[[Array], Array], x: Array, direction: Array, start: float) -> tuple[float, float] | None:
    """Widen x ± t * direction from t = `start` until f has changed on both sides, and take the slope over wider spans.

    `f` maps points (p, n) to values (p,). A function that loses digits or rounds changes in steps; once the span holds
    several steps, its slope is that of the function meant. Returns the median over five spans without a common divisor,
    and their largest deviation, at least one step over the span. Returns None where f is still constant on a side after
    24 widenings by 4 (a flat piece, such as relu left of 0, is no staircase), or is not finite there; close to the edge
    of its domain fewer steps have to do.
    """
    centre = f(x[None])[0]
    for power in range(1, WIDEST + 1):
        span = start * WIDENING**power
        ends = f(x + span * np.array([[1.0], [-1.0]]) * direction)
        if not np.isfinite(ends).all():
            return None
        if (ends != centre).all():
            step = float(np.abs(ends - centre).max())
            slopes = (_slope_across(f, x, direction, reach, step) for reach in (span * WIDENING, span))
            return next((slope for slope in slopes if slope is not None), None)
    return None


def _slope_across(
    f: Callable[[Array], Array], x: Array, direction: Array, span: float, step: float
) -> tuple[float, float] | None:
    spans = span * np.array(ODD_SPANS)
    moves = spans[:, None] * direction
    right, left = f(np.concatenate([x + moves, x - moves])).reshape(2, -1)
    if not np.isfinite([right, left]).all():
        return None
    slopes = (right - left) / (2.0 * spans)
    slope = float(np.median(slopes))
    return slope, max(float(np.abs(slopes - slope).max()), step / (2.0 * span))
