"""The false-positive filters between a suspicion and a mismatch.

A comparison outside the bounds of both tableaus is a suspicion. Each filter knows one way in which a correct derivative
looks wrong (the last one: how a wrong one looks correct) and changes the verdicts that this explains. There is one list
for first derivatives, and two for second derivatives, compared with differences of gradients and with differences of
values; both end with the same search for oscillation. The order within a list:

1. Autodiff's own rounding: the residue of cancelled terms, and low precision (for first derivatives later: a tie that
   it creates is a kink).
2. The sampled steps: finer ones show what the usual ones aliased, or that an apparent kink is none.
3. The kind of point, from one-sided sequences: a jump of the curvature, then kinks and jumps, whose verdicts replace
   those of a smooth function.
4. Expensive searches for the remaining mismatches: staircases, kinks that only oblique directions show, terms that only
   autodiff shows. Then the edge of the domain becomes the reason of what is still inconclusive, and NaN a mismatch
   where the function is finite. Last, what agrees in low precision only is a mismatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gradcheck.numerics.difference import ABSOLUTE, RELATIVE, Estimate, first_difference
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
)
from gradcheck.numerics.probing import probe_directions
from gradcheck.numerics.rounding import lattice, rounding_of
from gradcheck.numerics.sampling import CONFIRM, EPS64, Sample
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.aliasing import aliasing
from gradcheck.verdict.closer import closer_look
from gradcheck.verdict.lines import LITTLE, Lines, sample_values, ulp_rounding
from gradcheck.verdict.suspicion import FINER, Evidence
from gradcheck.verdict.swing import swings
from gradcheck.verdict.tables import EXCLUSION, GRANTED, LEFT, Comparison, confirmed

FLAT = 4
"""A function that is constant on this many of the finest steps may be a staircase."""

CLOSER = 2.0**-14
"""Steps scaled by this step over no stair of moderate size, and still resolve a second derivative."""

DIRECTIONS_BEFORE_MISMATCH = 4


def cancelled_terms(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Accept errors up to the rounding of cancelled terms; where nothing else is left, they are next to zero."""
    small = np.abs(comparison.autodiff - comparison.difference) <= evidence.residue
    small &= comparison.where(Verdict.MISMATCH) & np.isfinite(comparison.autodiff)
    return _allowed(comparison, small, np.maximum(comparison.allowed, evidence.residue))


def low_precision(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Accept the error of low precision in a correct derivative, measured against its float64 form."""
    if evidence.lines.problem.in_float64 is None:
        return comparison
    allowed = comparison.allowed + EXCLUSION * evidence.own.lost
    covered = comparison.where(Verdict.MISMATCH) & (np.abs(comparison.autodiff - comparison.difference) <= allowed)
    vacuous = covered & (evidence.own.lost > evidence.little(comparison.difference))
    return _allowed(comparison, covered, allowed).marked(vacuous, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def beyond_a_first_look(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Reject agreement within the rounding of low precision if the formula is wrong in float64.

    Without a float64 form, agreement beyond what a first look states is inconclusive, unless it is next to zero. So is
    agreement beyond a given tolerance.
    """
    precision, tolerance = evidence.lines.problem.precision, evidence.lines.tolerance
    difference, bound, wanted = comparison.difference, comparison.bound, tolerance.of(comparison.difference)
    error, agree = np.abs(comparison.autodiff - difference), comparison.where(Verdict.AGREE) & ~comparison.at_kink
    if tolerance.given:
        agree &= (error > wanted) & ((np.abs(difference) > bound) | bool(tolerance.atol))
        comparison = comparison.marked(agree, Verdict.INCONCLUSIVE, Reason.TOLERANCE)
    if precision <= EPS64 or not agree.any():
        return comparison
    exact = evidence.own.in_float64
    if exact is None:
        zero = (np.abs(difference) <= EXCLUSION * bound) & (error <= EXCLUSION * comparison.little)
        doubtful = ~zero & (error > GRANTED * EXCLUSION * (bound + ulp_rounding(comparison.autodiff, precision)))
        return comparison.marked(agree & doubtful, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
    missed, allowed = np.abs(exact - difference), bound + ulp_rounding(exact, EPS64)
    if (wrong := agree & (missed > np.maximum(EXCLUSION * allowed, wanted))).any():
        wrong &= missed > EXCLUSION * (allowed + LEFT * evidence.own.lost)
    return comparison.marked(wrong, Verdict.MISMATCH, Kind.WRONG_VALUE)


def _allowed(comparison: Comparison, mask: Array, allowed: Array) -> Comparison:
    """Mark the entries in `mask` as agreeing, since more is `allowed`; for a zero, that much is next to zero."""
    zero = mask & (np.abs(comparison.difference) <= comparison.bound)
    little = np.where(zero, np.maximum(comparison.little, allowed / EXCLUSION), comparison.little)
    more = replace(comparison, allowed=np.where(mask, allowed, comparison.allowed), little=little)
    return more.marked(mask, Verdict.AGREE)


def smooth_on_finer_rows(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Withdraw kinks that steps a million times finer do not show: there the verdict of the finer sample counts."""
    rough, confirmed_rough = (np.isin(sides[0].kind, ROUGH) for sides in (evidence.coarse_sides, evidence.sides))
    withdrawn = rough & ~confirmed_rough
    if not withdrawn.any():
        return comparison
    rows = evidence.finer, evidence.row(FINER, CONFIRM)
    return comparison.replaced(withdrawn, confirmed(*(evidence.compare(evidence.estimate(row)) for row in rows)))


def small_jump(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse mismatches at a jump discontinuity: it has no derivative, and a small one may have passed for noise."""
    return comparison.excused(evidence.nearest == Smoothness.JUMP, Reason.JUMP)


def small_kink(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse mismatches at a kink that only finer steps show: the usual ones miss |x - 1e10 x**2| at 0 and 1e-10.

    A finer sample of the differenced quantity may show a kink that one of the function's values loses in its own
    rounding. So may the usual sample once it is granted the digits that it has lost, unless the finer one shows it to
    be smooth. Either counts if autodiff's slope is one that it allows.
    """
    sample, allowed, finer = evidence.samples[0], np.zeros(comparison.verdict.shape, bool), classify(evidence.finer)
    lost = rounding_of(sample).values[-1]
    blurred = replace(sample, floor=np.maximum(lost, lattice(sample, lost, sample.stencil.count)))
    for sides in (finer, confirm(classify(blurred), finer)):
        slack = evidence.own.beside(*interval(sides))
        allowed |= (sides.kind == Smoothness.KINK) & subgradient_allows(sides, comparison.autodiff, slack)
    hidden = ((evidence.nearest == Smoothness.KINK) | allowed) & ~np.isin(evidence.sides[0].kind, ROUGH)
    return comparison.excused(hidden, Reason.ILL_CONDITIONED)


def curvature_jump(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Estimate by the one-sided slopes where only the curvature of the differenced quantity jumps."""
    side, sample = evidence.sides[0], evidence.samples[0]
    jump = (side.kind == Smoothness.CURVATURE_JUMP) & comparison.where(Verdict.INCONCLUSIVE)
    if not jump.any():
        return comparison
    value, bound = side.middle, side.reach
    change = np.nanmax(np.abs(sample.values - sample.values[:, :1]), axis=1) / sample.step[:, None]
    little = ABSOLUTE * change
    conclusive = jump & (bound <= np.maximum(RELATIVE * np.abs(value), little))
    return comparison.replaced(jump, evidence.compare(Estimate(value, bound, conclusive, bound, little)))


def kink(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Require autodiff to lie between one-sided slopes that differ; jumps and infinite slopes are inconclusive."""
    first, second = evidence.sides
    slack = evidence.own.beside(*interval(first)) + evidence.lines.tolerance.of(comparison.difference)
    kinked = first.kind == Smoothness.KINK
    certain = kinked & (second.kind == Smoothness.KINK)
    autodiff = evidence.own.autodiff
    inside = subgradient_allows(first, autodiff, slack) | (certain & subgradient_allows(second, autodiff, slack))
    near = [subgradient_allows(side, autodiff, EXCLUSION * (side.uncertain + slack)) for side in evidence.sides]
    excluded = certain & ~np.logical_or(*near)
    bounded = kinked & np.isfinite(first.reach)
    agrees = kinked & inside
    comparison = replace(
        comparison,
        difference=np.where(kinked & np.isfinite(first.middle), first.middle, comparison.difference),
        bound=np.where(bounded, first.reach, comparison.bound),
        allowed=np.where(bounded, first.reach + slack, comparison.allowed),
        at_kink=agrees,
    ).marked(agrees, Verdict.AGREE)
    comparison = comparison.marked(excluded, Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)
    comparison = comparison.marked(kinked & ~excluded & ~inside, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
    broken = np.isin(first.kind, (Smoothness.JUMP, Smoothness.SINGULAR))
    return comparison.marked(broken, Verdict.INCONCLUSIVE, Reason.JUMP)


def doubtful_kink(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse values between slopes that differ by more than their bounds, though not on all steps: maybe a kink.

    The kink of 1.62 + 3e-12 * max(x, 0.6) shows on the coarse steps only; on the others rounding hides it.
    """
    side = evidence.sides[0]
    doubt = side.left_bound + side.right_bound
    differ = (side.kind == Smoothness.UNKNOWN) & (np.abs(side.right - side.left) > doubt)
    between = differ & subgradient_allows(side, comparison.autodiff, doubt)
    return comparison.excused(between, Reason.ILL_CONDITIONED)


def staircase(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse a staircase: the quantity is constant around the point, and autodiff's slope is that of a wide step.

    A gradient that is computed from a value near one, as y (1 - y), is a staircase for its own differences.
    """
    sample, directions, point = evidence.samples[0], evidence.lines.directions, evidence.lines.problem.point
    flat = _flat_steps(sample)
    suspects = comparison.where(Verdict.MISMATCH) & (flat >= FLAT) & np.isfinite(comparison.autodiff)
    stairs = np.zeros(suspects.shape, bool)
    for line, column in zip(*np.nonzero(suspects), strict=True):
        start = float(sample.step[line] * sample.stencil.steps[-flat[line, column]])
        wide = wide_slope(partial(_column, evidence.lines, int(column)), point, directions[line], start)
        stairs[line, column] = wide is not None and abs(wide[0] - comparison.autodiff[line, column]) <= wide[1]
    return comparison.excused(stairs, Reason.STAIRCASE)


def hidden_kink(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse entries that take part in a kink along which the axes are flat, and which oblique directions show.

    A line takes part if the jump of the slope along the same directions changes without its coordinates. Coordinates
    that kink by themselves are held fixed.
    """
    lines, sample = evidence.everywhere
    wrong = comparison.where(Verdict.MISMATCH) & ~comparison.where(Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)
    columns, places = np.flatnonzero(wrong.any(axis=0)), np.flatnonzero(wrong.any(axis=1))
    rough = np.isin(classify(sample).kind, ROUGH).any(axis=1)
    scale = np.where(np.any(lines.directions[rough] != 0, axis=0), 0.0, evidence.moving)
    if np.sum(scale != 0) < 2 or not len(columns):
        return comparison
    values = replace(lines, cotangents=lines.cotangents[columns]).values

    def along(oblique: Array) -> OneSided:
        return classify(sample_values(lines.problem, oblique, values, sample.stencil))

    oblique = probe_directions(np.random.default_rng(1), DIRECTIONS_BEFORE_MISMATCH, scale)
    whole = along(oblique)
    kinked = np.isin(whole.kind, ROUGH)
    if not kinked.any():
        return comparison
    excused = np.zeros(wrong.shape, bool)
    for place in places:
        others = np.where(evidence.lines.directions[place] != 0, 0.0, oblique)
        takes_part = not others.any() or ~whole.jumps_like(along(others))
        excused[place, columns] = (kinked & takes_part).any(axis=0)
    return comparison.excused(wrong & excused, Reason.COMPOSED_KINK)


def hidden_swing(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse values that oscillate from neighbour to neighbour: autodiff follows a term that the differences miss.

    An oscillation between the steps that is small compared with other terms, as sin(x) in sin(x) + x**2 at 2e7, is
    rounding to the estimate. Values that a wrong formula gives, everywhere, on one side or at one point, keep their
    distance from it.
    """
    suspects = comparison.where(Verdict.MISMATCH) & np.isfinite(comparison.autodiff + comparison.difference)
    if not suspects.any():
        return comparison
    sample = evidence.samples[0]
    radius = evidence.estimate(sample).radius / sample.step[:, None]
    moves = sample.step[:, None] * evidence.lines.directions
    swinging = swings(evidence.own.at, evidence.lines.problem.point, moves, radius, comparison, suspects)
    return comparison.excused(swinging, Reason.ILL_CONDITIONED)


def edge_of_domain(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Give NOT_FINITE as the reason where the function is finite on none of the finest steps of either side."""
    nowhere = ~np.isfinite(_beside(evidence.samples[0])).any(axis=1)
    inconclusive = comparison.where(Verdict.INCONCLUSIVE)
    return comparison.marked(inconclusive & nowhere, Verdict.INCONCLUSIVE, Reason.NOT_FINITE)


def no_number(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Make NaN a mismatch where the function is finite at the point and near it, whatever kind of point that is."""
    return without_nan(comparison, evidence.samples[0])


def without_nan(comparison: Comparison, *samples: Sample) -> Comparison:
    """The comparison, in which NaN is a mismatch where the samples are finite at the point and on the finest steps."""
    nan = comparison.where(Verdict.INCONCLUSIVE) & np.isnan(comparison.autodiff)
    for sample in samples if nan.any() else ():
        nan &= np.isfinite(sample.values[:, 0]) & np.isfinite(_beside(sample)).all(axis=1)
    return comparison.marked(nan, Verdict.MISMATCH, Kind.NON_FINITE)


def _beside(sample: Sample) -> Array:
    """The values on the finer half of the steps, on both sides, (k, steps, c)."""
    fine = sample.stencil.count // 2
    return np.concatenate([sample.left[:, fine:], sample.right[:, fine:]], axis=1)


def unresolved_slope(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse second derivatives along lines on which the values do not resolve the first derivative.

    Where the function saturates before the finest step, tanh(1e15 t) for one, its derivative vanishes at every sampled
    point, and differences of it say nothing. A function that is constant up to rounding has a known slope.
    """
    problem, lines = evidence.lines.problem, replace(evidence.lines, gradients=False)
    resolved = np.ones((len(lines.directions), 1), bool)
    for sample in evidence.values:
        change = np.max(np.abs(sample.values - sample.values[:, :1]), axis=1)
        slope = closer_look(lines.sampled, sample, first_difference(sample))
        resolved &= slope.conclusive | (change <= LITTLE * problem.precision * problem.terms)
    return comparison.excused(~resolved, Reason.ILL_CONDITIONED)


def many_small_jumps(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse mismatches with second differences of values that closer steps do not confirm.

    The usual steps may take many small jumps, those of x * floor(x) for one, for noise around a smooth function.
    """
    closer = evidence.estimate(evidence.lines.sample(shrink=CLOSER))
    same = np.abs(closer.value - comparison.difference) <= closer.bound + comparison.bound
    other = np.abs(closer.value - comparison.autodiff) <= closer.bound
    return comparison.excused(~same | other, Reason.ILL_CONDITIONED)


def locally_constant(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse values that are constant around the point, but not on all steps: they show no curvature."""
    sample = evidence.samples[1]
    return comparison.excused((_flat_steps(sample) >= FLAT) & ~constant(sample), Reason.STAIRCASE)


def _column(lines: Lines, column: int, points: Array) -> Array:
    """One column of the values at `points`, evaluated after the point itself, which reference formulas expect first."""
    return lines.values(np.concatenate([lines.problem.point[None, :], points]))[1:, column]


def _flat_steps(sample: Sample) -> Array:
    """Number (k, c) of finest steps on which the values at both sides equal the one at the point."""
    centre = sample.values[:, :1]
    same = ((sample.left == centre) & (sample.right == centre))[:, ::-1]
    return np.asarray(np.logical_and.accumulate(same, axis=1).sum(axis=1))


@dataclass(frozen=True)
class Filter:
    """A filter with its name; its docstring is the reason for what it changes.

    It is applied only while an entry has the verdict `on` (None: always), and, if it is for `nonsmooth` functions, not
    where the function promises to be smooth at the point.
    """

    name: str
    apply: Callable[[Comparison, Evidence], Comparison]
    on: Verdict | None = Verdict.MISMATCH
    nonsmooth: bool = False


FIRST_ORDER = (
    Filter("cancelled terms", cancelled_terms),
    Filter("aliasing", aliasing),
    Filter("smooth on finer rows", smooth_on_finer_rows, on=None, nonsmooth=True),
    Filter("curvature jump", curvature_jump, on=Verdict.INCONCLUSIVE, nonsmooth=True),
    Filter("kink", kink, on=None, nonsmooth=True),
    Filter("small jump", small_jump, nonsmooth=True),
    Filter("doubtful kink", doubtful_kink, nonsmooth=True),
    Filter("staircase", staircase),
    Filter("low precision", low_precision),
    Filter("small kink", small_kink, nonsmooth=True),
    Filter("hidden kink", hidden_kink, nonsmooth=True),
    Filter("hidden swing", hidden_swing),
    Filter("edge of the domain", edge_of_domain, on=Verdict.INCONCLUSIVE, nonsmooth=True),
    Filter("no number", no_number, on=Verdict.INCONCLUSIVE),
    Filter("beyond a first look", beyond_a_first_look, on=Verdict.AGREE),
)
"""The filters for first derivatives."""

GRADIENT_DIFFERENCES = (
    Filter("cancelled terms", cancelled_terms),
    Filter("low precision", low_precision),
    Filter("aliasing", aliasing),
    Filter("curvature jump", curvature_jump, on=Verdict.INCONCLUSIVE, nonsmooth=True),
    Filter("staircase", staircase),
    Filter("small jump", small_jump, nonsmooth=True),
    Filter("small kink", small_kink, nonsmooth=True),
    Filter("unresolved slope", unresolved_slope),
)
"""The filters for second derivatives compared with differences of gradients, applied before `SWING`."""

SWING = (Filter("hidden swing", hidden_swing),)
"""Marks autodiff's own values, and sums of them, as unresolved; runs last."""

VALUE_AGREEMENT = (
    Filter("cancelled terms", cancelled_terms),
    Filter("low precision", low_precision),
)
"""The filters for second differences of values where only their agreement counts."""

VALUE_DIFFERENCES = (
    *VALUE_AGREEMENT,
    Filter("many small jumps", many_small_jumps),
    Filter("locally constant", locally_constant),
    *SWING,
)
"""The filters for second derivatives compared with second differences of values."""


def filtered(comparison: Comparison, evidence: Evidence, filters: Sequence[Filter]) -> Comparison:
    """Apply all filters of a list, in its order."""
    for each in filters:
        smooth = each.nonsmooth and evidence.lines.problem.smooth
        if not smooth and (each.on is None or comparison.any(each.on)):
            with np.errstate(all="ignore"):
                comparison = each.apply(comparison, evidence)
    return comparison
