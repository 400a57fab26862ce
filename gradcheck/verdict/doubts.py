"""Doubts: ways in which a right derivative looks wrong, and, in the reviews, how a wrong one looks right.

Each function returns where it holds, boolean (k, c), and its docstring is the reason. `terms` lists the verdicts that
they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck.numerics.difference import EXCLUSION, Estimate, first_difference
from gradcheck.numerics.one_sided import (
    ROUGH,
    OneSided,
    Smoothness,
    classify,
    confirm,
    constant,
    interval,
    subgradient_allows,
    wide_slope,
    wide_slope_of_tilted,
)
from gradcheck.numerics.probing import probe_directions
from gradcheck.numerics.reach import hidden_transition, stepped_over
from gradcheck.numerics.rounding import PROMISE, lattice, rounding_of
from gradcheck.numerics.sampling import CONFIRM, EPS64, Sample, Stencil
from gradcheck.problem.problem import Problem
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.lines import LITTLE, Lines, sample_values
from gradcheck.verdict.looks import closer_look
from gradcheck.verdict.measured_rounding import DRAWS, SPREAD, inner_rounding, ulp_rounding
from gradcheck.verdict.suspicion import FINER, NEARER, TINY, UNSMOOTH, Evidence
from gradcheck.verdict.tables import GRANTED, LEFT, Comparison

CLEAR, ENOUGH = 64.0, 5
"""Departures beyond CLEAR times the largest perturbation of ENOUGH draws, on either side, are no rounding errors."""

FEW = 10
"""The number of points that are perturbed again after the first draw."""

MET = 2.0**-10
"""A slope this many times nearer to autodiff's than to the difference agrees with autodiff's by more than chance."""

FLAT = 4
"""A function that is constant on this many of the finest steps may be a staircase."""

CLOSER = 2.0**-14
"""Steps scaled by this step over no stair of moderate size, and still resolve a second derivative."""

DIRECTIONS_BEFORE_MISMATCH = 16
"""Oblique lines on which a kink is looked for before a mismatch; a power of two, see `oblique_directions`."""

BEND = Stencil(ratio=2.0, count=2)
"""The stencil of second differences over a step and its half: 5 evaluations on a line."""

TREND = 1e-3
SHIFTS = 12
APART = 0.05
SWINGS = 5
"""Of the neighbours at SHIFTS distances, at least SWINGS miss the parabola through the next ones by APART times the gap
if the derivative oscillates. Where a value changes on both sides, up to four do.
"""
STILL = 4
"""An oscillation misses one of the first STILL parabolas, which are the widest."""

PERIODS, LEAST_SHIFT, CHANGE = 100.0, 1e-4, 10.0
"""A term that the error bound hides may have any value where it has turned by PERIODS radians, and no nearer than
LEAST_SHIFT times the radius, times the gap over the size: a kernel may leave the term out. A smooth derivative has
changed there by at most CHANGE times its size, times that distance over the radius."""

SMALL_CHANGE, CHANCE = 1e-2, 1e-6
"""A change of at most SMALL_CHANGE of the gap does not explain it. If the one at that distance is as small, neighbours
there tell the two apart: enough of them are asked that an oscillation is back within the change at all of them with a
probability below CHANCE."""

NEIGHBOURS = np.array([1.0, -0.83, 0.61])
"""The neighbours' places, in units of that distance."""


def aliasing(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt an estimate that much finer steps contradict: the usual ones missed a part of f.

    The digits that the values lose are granted to the finer sample, too, which may lie inside one step of a staircase.
    Where they only seem lost, in an oscillation or at a floor, the finer sample counts if its slope agrees with
    autodiff's, however wide its bound. A constant finer sample does not count where perturbing inner values shows that
    as many digits are lost. Where one-sided slopes were compared, or finer samples already, nothing was stepped over.
    """
    looked_at = comparison.where(Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)
    if not (evidence.lines.gradients or evidence.lines.problem.smooth):
        looked_at = looked_at | evidence.withdrawn
    comparison = comparison.excused(looked_at, Reason.ILL_CONDITIONED)
    if not comparison.any(Verdict.MISMATCH):
        return comparison.where(Verdict.MISMATCH)
    sample, finer = evidence.samples[0], evidence.finer
    lost = rounding_of(sample).values[-1]
    plain, granted = evidence.closer, evidence.estimate(replace(finer, floor=lost))
    digits = (sample.floor > LITTLE * sample.eps * np.abs(sample.values[:, 0])) & (lost <= EXCLUSION * sample.floor)
    allows = np.abs(plain.value - comparison.autodiff) <= plain.bound
    supports = (evidence.compare(plain).where(Verdict.AGREE) | allows) & ~(constant(finer) & digits)
    apart, beyond = (
        (np.abs(row.value - comparison.difference) > row.bound + comparison.bound) & np.isfinite(row.bound)
        for row in (plain, granted)
    )
    missed = stepped_over(sample, finer, comparison.difference, comparison.bound) | hidden_transition(finer)
    aliased = beyond | missed | (apart & supports) | _meets(comparison, evidence, finer, plain, FINER)
    aliased = _beyond_rounding(aliased, comparison, evidence, finer)
    if evidence.lines.gradients:  # a feature of one gradient entry is one of the function, and so of all entries
        found = np.any(aliased & comparison.where(Verdict.MISMATCH), axis=1, keepdims=True)
        aliased |= found & ~evidence.refutes(comparison.autodiff)
    aliased &= comparison.where(Verdict.MISMATCH)
    for shrink in (FINER * NEARER, NEARER):
        left = comparison.excused(aliased, Reason.ILL_CONDITIONED)
        if not left.any(Verdict.MISMATCH):
            break
        row = evidence.row(shrink)
        aliased |= _beyond_rounding(_nearer(left, evidence, row, shrink), left, evidence, row)
    return aliased


def _beyond_rounding(contradicted: Array, comparison: Comparison, evidence: Evidence, row: Sample) -> Array:
    """Mismatches that a sample contradicts by more than perturbing inner values moves it.

    The root of an expanded square (x - a)**2 is constant on steps whose squares are rounded away in the sum.
    """
    doubtful = contradicted & comparison.where(Verdict.MISMATCH)
    for line in np.flatnonzero(doubtful.any(axis=1)):
        one = row[np.array([line])]
        moves = one.step[0] * one.stencil.offsets[:, None]
        slope, bound, values = comparison.difference[line], comparison.bound[line], one.values[0]
        with np.errstate(invalid="ignore"):
            away = np.abs(values - values[:1] - moves * slope) - np.abs(moves) * bound
        away = np.where(doubtful[line], np.nan_to_num(away, nan=np.inf), 0.0)
        doubtful[line] &= _beyond(away, evidence.lines[np.array([line])], one)
    return doubtful


def _beyond(away: Array, line: Lines, row: Sample) -> Array:
    """Columns (m,) of a sample on one line that are too far `away` (p, m) at some point for rounding to be the cause.

    One of the two points at a distance may escape the rounding in all draws, but hardly both. After the first draw only
    the few points that rounding explains least are perturbed again.
    """
    offsets, rounding, tries = row.stencil.offsets, np.zeros_like(away), np.zeros((len(away), 1))
    upwards, downwards = np.argsort(offsets, kind="stable"), np.argsort(-offsets, kind="stable")
    left, places = away > 0, np.flatnonzero((away > 0).any(axis=1))
    for draw in range(2 * DRAWS):
        rounding[places] = np.maximum(rounding[places], inner_rounding(line, row, places, draw)[0])
        rounding[upwards] = np.maximum(rounding[upwards], rounding[downwards])
        tries[places] += 1
        left, clear = away > SPREAD * rounding, (away > CLEAR * rounding) & (tries >= ENOUGH)
        if np.all(~left.any(axis=0) | clear.any(axis=0)):
            break
        ratios = np.max(np.where(left, away / np.maximum(rounding, TINY), 0.0), axis=1)
        places = np.argsort(-ratios, kind="stable")[: min(FEW, int(left.any(axis=1).sum()))]
    return np.asarray(left.any(axis=0))


def _nearer(comparison: Comparison, evidence: Evidence, sample: Sample, shrink: float) -> Array:
    """Where finer steps agree with autodiff's slope, and the difference is the slope of many steps of a staircase.

    The finer sample, too, may reach beyond the stair on which the point lies, where a slope of 1e10 meets a floor.
    """
    inside = evidence.estimate(sample)
    with np.errstate(invalid="ignore"):
        apart = np.abs(inside.value - comparison.difference) > inside.bound + comparison.bound
    seen = apart & evidence.compare(inside).where(Verdict.AGREE) & ~constant(sample)
    return np.asarray(seen | _meets(comparison, evidence, sample, inside, shrink))


def _meets(comparison: Comparison, evidence: Evidence, sample: Sample, estimate: Estimate, shrink: float) -> Array:
    """Where the slopes of two finer samples agree with autodiff's within MET times their gap to the difference.

    They count whatever their own bounds are: the bound of a zero is inconclusive, and that of values which are granted
    rounding they do not have is too wide. A single sample may agree by chance where it is off by as much as its
    rounding.
    """

    def near(row: Sample, value: Array) -> Array:
        gap = np.abs(value - comparison.difference)
        return np.asarray((np.abs(value - comparison.autodiff) <= MET * gap) & ~constant(row))

    met = comparison.where(Verdict.MISMATCH) & near(sample, estimate.value)
    if not met.any():
        return met
    other = evidence.row(shrink, CONFIRM)
    return np.asarray(met & near(other, evidence.estimate(other).value))


def small_jump(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt differences at a jump discontinuity: it has no derivative, and a small one may have passed for noise."""
    return np.asarray(evidence.nearest == Smoothness.JUMP)


def doubtful_kink(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt values between slopes that differ by more than their bounds, though not on all steps: maybe a kink.

    The kink of 1.62 + 3e-12 * max(x, 0.6) shows on the coarse steps only; on the others rounding hides it.
    """
    side = evidence.sides[0]
    doubt = side.left_bound + side.right_bound
    differ = (side.kind == Smoothness.UNKNOWN) & (np.abs(side.right - side.left) > doubt)
    return np.asarray(differ & subgradient_allows(side, comparison.autodiff, doubt))


def small_kink(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt differences at a kink that only finer steps show: the usual ones miss |x - 1e10 x**2| at 0 and 1e-10.

    A finer sample of the differenced quantity may show a kink that one of the function's values loses in its own
    rounding. So may the usual sample once it is granted the digits that it has lost, unless the finer one shows it to
    be smooth. Either counts if autodiff's slope is one that it allows.
    """
    sample, allowed, finer = evidence.samples[0], np.zeros(comparison.verdict.shape, bool), classify(evidence.finer)
    lost = rounding_of(sample).values[-1]
    blurred = replace(sample, floor=np.maximum(lost, lattice(sample, lost, sample.stencil.count)))
    for sides in (finer, confirm(classify(blurred), finer)):
        kinked = sides.kind == Smoothness.KINK
        slack = evidence.own.beside(*interval(sides), kinked)
        allowed |= kinked & subgradient_allows(sides, comparison.autodiff, slack)
    return np.asarray(((evidence.nearest == Smoothness.KINK) | allowed) & ~np.isin(evidence.sides[0].kind, ROUGH))


def staircase(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt differences where the quantity is straight around the point, and autodiff's slope is that of a wide step.

    Such a staircase is any gradient that is computed from a value near one, as y (1 - y), for its own differences. It
    is flat, or tilted where other coordinates move it, too.
    """
    sample, directions, point = evidence.samples[0], evidence.lines.directions, evidence.lines.problem.point
    flat, (straight, noise) = _flat_steps(sample), _straight_steps(sample, comparison)
    suspects = comparison.where(Verdict.MISMATCH) & np.isfinite(comparison.autodiff)
    stairs = np.zeros(suspects.shape, bool)
    for place in zip(*np.nonzero(suspects & (np.maximum(flat, straight) >= FLAT)), strict=True):
        f, x, direction = partial(_column, evidence.lines, int(place[1])), point, directions[place[0]]
        steps = sample.step[place[0]] * sample.stencil.steps
        if flat[place] >= FLAT:
            wide = wide_slope(f, x, direction, float(steps[-flat[place]]))
        else:
            slope = comparison.difference[place]
            wide = wide_slope_of_tilted(f, x, direction, float(steps[-straight[place]]), slope, noise[place])
        stairs[place] = wide is not None and abs(wide[0] - comparison.autodiff[place]) <= wide[1]
    return stairs


def hidden_kink(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt entries that take part in a kink along which the axes are flat, and which oblique directions show."""
    return kink_shown_obliquely(evidence.lines, comparison, _wrong(comparison), evidence.samples[0], evidence.fixed())


def hidden_kink_of_gradient(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt second derivatives where the gradient has such a kink, as that of max(min(x, y), 0)**2 at zero."""
    stencil = evidence.samples[0].stencil
    return _shown_obliquely(evidence.lines, _wrong(comparison), stencil, evidence.fixed(), (Smoothness.KINK,), order=2)


def hidden_curvature_jump(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt second differences of values where the curvature jumps along oblique directions alone."""
    stencil = evidence.samples[0].stencil
    return _shown_obliquely(evidence.lines, _wrong(comparison), stencil, evidence.fixed(), UNSMOOTH, order=2)


def _wrong(comparison: Comparison) -> Array:
    """Mismatches (k, c), without those at a kink."""
    return comparison.where(Verdict.MISMATCH) & ~comparison.where(Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)


def moved_at_kinks(lines: Lines, sample: Sample) -> Array:
    """The coordinates (n,) that are moved on a line with a kink or a jump at the point."""
    rough = np.isin(classify(sample).kind, ROUGH).any(axis=1)
    return np.asarray((lines.directions[rough] != 0).any(axis=0))


def kink_shown_obliquely(lines: Lines, comparison: Comparison, wrong: Array, sample: Sample, fixed: Array) -> Array:
    """Where the function has a kink or a jump in oblique directions, in which a line with a `wrong` entry takes part.

    Only one that explains the least error (k, c) of a comparison counts; the coordinates `fixed` (n,) do not move.
    """
    error = np.abs(comparison.autodiff - comparison.difference)
    least = np.min(error, axis=0, where=wrong & np.isfinite(error), initial=np.inf)
    least = np.where((wrong & ~np.isfinite(error)).any(axis=0) | np.isinf(least), 0.0, least)
    return _shown_obliquely(lines, wrong, sample.stencil, fixed, ROUGH, least)


def _shown_obliquely(
    lines: Lines,
    wrong: Array,
    stencil: Stencil,
    fixed: Array,
    kinds: Sequence[Smoothness],
    least: Array | None = None,
    order: int = 1,
) -> Array:
    """Where the quantity of the lines has a point of such `kinds` in oblique directions, in which a line takes part.

    It does if the jump of the slope along the same directions changes without its coordinates. Entries (k, c) that are
    `wrong` are asked about; the coordinates `fixed` (n,) do not move. A jump counts only if it is not small beside the
    `least` error (c,).
    """
    problem, scale = lines.problem, np.where(fixed, 0.0, lines.moving)
    columns, places = np.flatnonzero(wrong.any(axis=0)), np.flatnonzero(wrong.any(axis=1))
    if np.sum(scale != 0) < 2 or not len(columns):
        return np.zeros(wrong.shape, bool)
    if order == 1:  # of a gradient all entries count: the kink of max(min(x, y), 0)**2 is in one or the other
        lines = replace(lines, cotangents=lines.cotangents[columns])
    cotangent, moved = lines.cotangents.sum(axis=0), lines.directions[places[:1]]

    def slope(point: Array) -> Array:
        taken = problem.gradients(cotangent[None], point) if order == 1 else problem.products(cotangent, moved, point)
        return np.asarray(taken.values[0])

    def along(oblique: Array) -> OneSided:
        return classify(sample_values(problem, oblique, lines.values, stencil, eps=lines.roundoff))

    oblique, hidden = oblique_directions(problem, slope, scale), np.zeros(wrong.shape, bool)
    if Smoothness.CURVATURE_JUMP not in kinds:
        # In low precision closer steps show rounding alone.
        closer = min(CLOSER * (lines.roundoff / EPS64) ** (1 / 3), 1.0)

        def closely(stencil: Stencil) -> Sample:
            return sample_values(problem, oblique, lines.values, stencil, shrink=closer, eps=lines.roundoff)

        if least is not None:
            oblique = oblique[_jumps(closely(replace(BEND, count=1)), SMALL_CHANGE * least[columns])]
        if len(oblique):
            oblique = oblique[bent(closely(BEND).values, lines.roundoff)]
    if not len(oblique):
        return hidden
    whole = along(oblique)
    kinked = np.isin(whole.kind, kinds)
    shown = np.flatnonzero(kinked.any(axis=1))
    for place in places if len(shown) else ():
        others = np.where(lines.directions[place] != 0, 0.0, oblique[shown])
        takes_part = kinked[shown] & (not others.any() or ~whole[shown].jumps_like(along(others)))
        hidden[place, columns] = takes_part.any(axis=0) if order == 1 else takes_part.any()
    return np.asarray(wrong & hidden)


def _jumps(sample: Sample, most: Array) -> Array:
    """Which lines (k,) may have a jump of the slope above `most` (c,), by a sample (k, 3, c) of one step."""
    with np.errstate(invalid="ignore", over="ignore"):
        jump = np.abs(sample.values[:, 1] + sample.values[:, 2] - 2 * sample.values[:, 0]) / sample.step[:, None]
        return np.asarray(~(jump <= most).all(axis=1))


def bent(values: Array, eps: float = EPS64) -> Array:
    """Which lines (k,) may have a kink, or noise, by the values (k, 5, c) on the stencil `BEND`, of roundoff `eps`.

    Half a step leaves 1/4 of a second difference where the function is smooth, and 1/2 at a kink.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        wide, near = (np.abs(values[:, place] + values[:, place + 2] - 2 * values[:, 0]) for place in (1, 2))
        smooth = (near <= 2**-1.5 * wide) | (near <= LITTLE * eps * np.abs(values).max(axis=1))
    return np.asarray(~smooth.all(axis=1))


def oblique_directions(problem: Problem, slope: Callable[[Array], Array], scale: Array) -> Array:
    """Directions (k, n), at most `scale` (n,) along each coordinate, that meet a kink which few orthants show.

    max(min(x, y, z), 0) has one in a single octant. A line has two opposite orthants: up to five coordinates all of
    them are met, up to 16 all sign patterns of any three coordinates (a Hadamard matrix and its negative are an
    orthogonal array of strength 3). Of the last line, each sign is that of the change of autodiff's `slope` (n,) at a
    point (n,) from beside the problem's point to it: so is the gradient of a term that is hidden.
    """
    rng = np.random.default_rng(1)
    oblique = probe_directions(rng, DIRECTIONS_BEFORE_MISMATCH, scale)
    coordinates = np.flatnonzero(scale)
    if len(coordinates) <= DIRECTIONS_BEFORE_MISMATCH:
        signs = np.ones((1, 1))
        while len(signs) < DIRECTIONS_BEFORE_MISMATCH:
            signs = np.block([[signs, signs], [signs, -signs]])
        first = sorted(range(len(signs)), key=int.bit_count)  # column 0 and the powers of two have all patterns
        oblique[:, coordinates] = np.abs(oblique[:, coordinates]) * signs[:, first[: len(coordinates)]]
    towards = probe_directions(rng, 1, scale)
    with np.errstate(invalid="ignore"):
        change = slope(problem.point) - slope(problem.rounded(problem.point + CLOSER * oblique[0]))
    return np.concatenate([oblique, np.copysign(towards, np.where(np.nan_to_num(change) == 0, towards, change))])


def hidden_swing(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt values that oscillate from neighbour to neighbour: autodiff follows a term that the differences miss.

    An oscillation between the steps that is small compared with other terms, as sin(x) in sin(x) + x**2 at 2e7, is
    rounding to the estimate. Values that a wrong formula gives, everywhere, on one side or at one point, keep their
    distance from it.
    """
    finite = np.isfinite(comparison.autodiff + comparison.difference)
    suspects: Array = np.asarray(comparison.where(Verdict.MISMATCH) & finite)
    if not suspects.any():
        return suspects
    sample = evidence.samples[0]
    radius = evidence.estimate(sample).radius / sample.step[:, None]
    moves = sample.step[:, None] * evidence.lines.directions
    return swings(evidence.own.at, evidence.lines.problem.point, moves, radius, comparison, suspects)


def swings(
    derivative: Callable[[Array], Array],
    point: Array,
    moves: Array,
    radius: Array,
    comparison: Comparison,
    suspects: Array,
) -> Array:
    """Which `suspects` (k, c) oscillate, by autodiff's `derivative` (k, c) at points (n,) along the lines in doubt.

    The lines move by at most `moves` (k, n); their estimates rest on the part `radius` (k, c) of that.
    """
    lines = suspects.any(axis=1)
    gap = np.abs(comparison.autodiff - comparison.difference)
    size = np.maximum(np.abs(comparison.autodiff), np.abs(comparison.difference))
    # Means of two neighbours lie on a parabola up to the fourth power of their distance.
    reach = np.min(radius * (TREND * gap / size) ** 0.25, where=suspects, initial=1.0)
    shifts = reach * 8.0 ** -np.linspace(0.0, 1.0, SHIFTS)
    rng, some = np.random.default_rng(2), np.count_nonzero(lines)
    move = (rng.uniform(0.5, 1.0, some) * rng.choice([-1.0, 1.0], some)) @ moves[lines]
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = LEAST_SHIFT * np.min(radius * gap / size, where=suspects, initial=1.0)
        near = np.max(PERIODS * comparison.bound * radius / gap, where=suspects, initial=reached)
        share = np.max(CHANGE * near / radius * size / gap, where=suspects, initial=0.0)
    if share <= SMALL_CHANGE:
        count = int(np.ceil(np.log(CHANCE) / np.log(max(share, CHANCE))))
        points = point + near * move * NEIGHBOURS[:count, None]
        if _stays(derivative, points, comparison.autodiff, share * gap, suspects):
            return np.zeros(gap.shape, bool)
    square, means = shifts**2, []
    missed = np.zeros(gap.shape, int)
    for left, shift in zip(reversed(range(SHIFTS)), shifts, strict=True):
        means.append((derivative(point + shift * move) + derivative(point - shift * move)) / 2)
        if len(means) > 2:
            wide, middle, fine = square[len(means) - 3 : len(means)]
            part = (middle - fine) / (wide - fine)
            missed += np.abs(means[-2] - (part * means[-3] + (1 - part) * means[-1])) > APART * gap
        unsettled = suspects & (missed < SWINGS) & (missed + left >= SWINGS)
        if len(means) - 2 >= STILL:
            unsettled &= missed > 0
        if not unsettled.any():
            break
    return np.asarray(suspects & (missed >= SWINGS))


def _stays(derivative: Callable[[Array], Array], points: Array, autodiff: Array, slack: Array, suspects: Array) -> bool:
    """Whether the derivatives of all suspects equal those at the point, within `slack` (k, c), at all of the points."""
    return all(bool((np.abs(derivative(point) - autodiff) <= slack)[suspects].all()) for point in points)


def unresolved_slope(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt second derivatives along lines on which the values do not resolve the first derivative.

    Where the function saturates before the finest step, tanh(1e15 t) for one, its derivative vanishes at every sampled
    point, and differences of it say nothing. A function that is constant up to rounding has a known slope.
    """
    problem, lines = evidence.lines.problem, replace(evidence.lines, gradients=False)
    resolved = np.ones((len(lines.directions), 1), bool)
    for sample in evidence.values:
        change = np.max(np.abs(sample.values - sample.values[:, :1]), axis=1)
        slope = closer_look(lines.sampled, sample, first_difference(sample))
        resolved &= slope.conclusive | (change <= LITTLE * problem.precision * problem.terms)
    return ~resolved


def many_small_jumps(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt second differences of values that closer steps do not confirm.

    The usual steps may take many small jumps, those of x * floor(x) for one, for noise around a smooth function.
    """
    closer = evidence.estimate(evidence.lines.sample(shrink=CLOSER))
    same = np.abs(closer.value - comparison.difference) <= closer.bound + comparison.bound
    other = np.abs(closer.value - comparison.autodiff) <= closer.bound
    return np.asarray(~same | other)


def locally_constant(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt values that are constant around the point, but not on all steps: they show no curvature."""
    sample = evidence.samples[1]
    return np.asarray((_flat_steps(sample) >= FLAT) & ~constant(sample))


def edge_of_domain(comparison: Comparison, evidence: Evidence) -> Array:
    """Name as the reason that the function is finite on none of the finest steps of either side."""
    return np.asarray(~np.isfinite(_beside(evidence.samples[0])).any(axis=1))


def no_number(comparison: Comparison, evidence: Evidence) -> Array:
    """Reject NaN where the function is finite at the point and near it, whatever kind of point that is."""
    return np.isnan(comparison.autodiff) & finite_nearby(evidence.samples[0])


def finite_nearby(sample: Sample) -> Array:
    """Where a sample is finite at the point and on the finest steps, (k, c)."""
    return np.asarray(np.isfinite(sample.values[:, 0]) & np.isfinite(_beside(sample)).all(axis=1))


def _beside(sample: Sample) -> Array:
    """The values on the finer half of the steps, on both sides, (k, steps, c)."""
    fine = sample.stencil.count // 2
    return np.concatenate([sample.left[:, fine:], sample.right[:, fine:]], axis=1)


def beyond_the_tolerance(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt agreement beyond a given tolerance, unless a derivative of zero has only a relative one."""
    return _allowed_by_rounding(comparison, evidence) & evidence.lines.tolerance.given


def wrong_in_float64(comparison: Comparison, evidence: Evidence) -> Array:
    """Reject agreement within the rounding of low precision if the formula is wrong in float64."""
    agree, difference = _allowed_by_rounding(comparison, evidence), comparison.difference
    if evidence.lines.problem.precision <= EPS64 or not agree.any() or (exact := evidence.own.in_float64) is None:
        return np.zeros(agree.shape, bool)
    missed, allowed = np.abs(exact - difference), comparison.bound + ulp_rounding(exact, EPS64)
    wrong = agree & (missed > np.maximum(EXCLUSION * allowed, evidence.lines.tolerance.of(difference)))
    if wrong.any():
        wrong &= missed > EXCLUSION * (allowed + LEFT * evidence.own.lost)
    return np.asarray(wrong)


def beyond_a_first_look(comparison: Comparison, evidence: Evidence) -> Array:
    """Doubt agreement in low precision beyond what a first look states, if no float64 form tells more.

    A derivative that is next to zero may be off by what is negligible.
    """
    agree, precision = _allowed_by_rounding(comparison, evidence), evidence.lines.problem.precision
    if precision <= EPS64 or not agree.any() or evidence.own.in_float64 is not None:
        return np.zeros(agree.shape, bool)
    difference, bound = comparison.difference, comparison.bound
    error = np.abs(comparison.autodiff - difference)
    zero = (np.abs(difference) <= EXCLUSION * bound) & (error <= EXCLUSION * comparison.little)
    first_look = GRANTED * EXCLUSION * (bound + ulp_rounding(comparison.autodiff, precision))
    return np.asarray(agree & ~zero & (error > first_look))


def _allowed_by_rounding(comparison: Comparison, evidence: Evidence) -> Array:
    """Entries that agree, away from kinks, by more than a given tolerance allows."""
    agree, tolerance = comparison.where(Verdict.AGREE) & ~comparison.at_kink, evidence.lines.tolerance
    if not tolerance.given:
        return agree
    beyond = np.abs(comparison.autodiff - comparison.difference) > tolerance.of(comparison.difference)
    return np.asarray(agree & beyond & ((np.abs(comparison.difference) > comparison.bound) | bool(tolerance.atol)))


def _column(lines: Lines, column: int, points: Array) -> Array:
    """One column of the values at `points`, evaluated after the point itself, which reference formulas expect first."""
    return lines.values(np.concatenate([lines.problem.point[None, :], points]))[1:, column]


def _flat_steps(sample: Sample) -> Array:
    """Number (k, c) of finest steps on which the values at both sides equal the one at the point."""
    centre = sample.values[:, :1]
    return _finest_steps((sample.left == centre) & (sample.right == centre))


def _straight_steps(sample: Sample, comparison: Comparison) -> tuple[Array, Array]:
    """Number (k, c) of finest steps on which the values rise by the estimated slope, and their noise (k, c)."""
    size = np.abs(sample.values[:, 0]) + sample.magnitude[:, None] * np.abs(comparison.difference)
    noise = EXCLUSION * PROMISE * sample.eps * size
    steps = (sample.step[:, None] * sample.stencil.steps)[:, :, None]
    off = np.abs((sample.right - sample.left) / 2 - steps * comparison.difference[:, None])
    return _finest_steps(off <= noise[:, None]), np.asarray(noise)


def _finest_steps(holds: Array) -> Array:
    """Number (k, c) of finest steps, the last of (k, steps, c), on all of which something holds."""
    return np.asarray(np.logical_and.accumulate(holds[:, ::-1], axis=1).sum(axis=1))
