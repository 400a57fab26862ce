"""Where the usual row of steps has aliased the function, or stepped over a part of it: what finer rows show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.one_sided import constant
from gradcheck.numerics.reach import hidden_transition, stepped_over
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import CONFIRM, Sample
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.lines import DRAWS, LITTLE, SPREAD, Lines, inner_rounding
from gradcheck.verdict.suspicion import FINER, NEARER, TINY, Evidence
from gradcheck.verdict.tables import EXCLUSION, Comparison

CLEAR, ENOUGH = 64.0, 5
"""A departure of CLEAR times the largest perturbation of ENOUGH draws, on either side, is no rounding error."""

FEW = 10
"""The number of points that are perturbed again after the first draw."""

MET = 2.0**-10
"""A slope that is so much nearer to autodiff's than to the difference meets it by no chance."""


def aliasing(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Where a much finer row contradicts the estimate, the usual row has aliased the function, or stepped over a part.

    Digits that the values lose are granted to the finer row, too, which may lie on a single stair. Where they only look
    lost, as those of a wave or of a floor, the finer row counts if its slope is autodiff's, by however wide a bound;
    that of a single stair does not where perturbations of inner values show that digits are lost, and as many as the
    row does.
    """
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
    if evidence.lines.gradients:  # what one entry of a gradient shows is a part of the function, and so of all of them
        found = np.any(aliased & comparison.where(Verdict.MISMATCH), axis=1, keepdims=True)
        aliased |= found & ~evidence.refutes(comparison.autodiff)
    comparison = comparison.excused(aliased, Reason.ILL_CONDITIONED)
    for shrink in (FINER * NEARER, NEARER):
        if not comparison.any(Verdict.MISMATCH):
            break
        row = evidence.row(shrink)
        nearer = _beyond_rounding(_nearer(comparison, evidence, row, shrink), comparison, evidence, row)
        comparison = comparison.excused(nearer, Reason.ILL_CONDITIONED)
    return comparison


def _beyond_rounding(contradicted: Array, comparison: Comparison, evidence: Evidence, row: Sample) -> Array:
    """Which mismatches a row contradicts by more than perturbations of inner values move it.

    The root of an expanded square (x - a)**2 is constant on steps whose squares the terms of the sum lose.
    """
    doubtful = contradicted & comparison.where(Verdict.MISMATCH)
    for line in np.flatnonzero(doubtful.any(axis=1)):
        one = row.lines(np.array([line]))
        moves = one.step[0] * one.stencil.offsets[:, None]
        slope, bound, values = comparison.difference[line], comparison.bound[line], one.values[0]
        with np.errstate(invalid="ignore"):
            away = np.abs(values - values[:1] - moves * slope) - np.abs(moves) * bound
        away = np.where(doubtful[line], np.nan_to_num(away, nan=np.inf), 0.0)
        doubtful[line] &= _beyond(away, evidence.lines.some(np.array([line])), one)
    return doubtful


def _beyond(away: Array, line: Lines, row: Sample) -> Array:
    """Which columns of a row on a line are so far `away` (p, m) at a point that rounding is not the reason, (m,).

    Of the two points at a distance one may be lucky in all draws, and neither is likely to be. After the first draw a
    few points are enough, those that it explains least.
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
    """Whether autodiff has the slope next to the point that another row shows, and the difference that of many stairs.

    The finer row, too, may reach beyond the stair on which the point lies, where a slope of 1e10 meets a floor.
    """
    inside = evidence.estimate(sample)
    with np.errstate(invalid="ignore"):
        apart = np.abs(inside.value - comparison.difference) > inside.bound + comparison.bound
    seen = apart & evidence.compare(inside).where(Verdict.AGREE) & ~constant(sample)
    return np.asarray(seen | _meets(comparison, evidence, sample, inside, shrink))


def _meets(comparison: Comparison, evidence: Evidence, sample: Sample, estimate: Estimate, shrink: float) -> Array:
    """Whether the slopes of two finer rows meet autodiff's where they need not, within a thousandth of the gap.

    They count whatever their own bounds are: that of 0 is inconclusive, and that of values which are granted a rounding
    they do not have is too wide. A single row may meet by chance what is off by as much as its rounding.
    """

    def near(row: Sample, value: Array) -> Array:
        gap = np.abs(value - comparison.difference)
        return np.asarray((np.abs(value - comparison.autodiff) <= MET * gap) & ~constant(row))

    met = comparison.where(Verdict.MISMATCH) & near(sample, estimate.value)
    if not met.any():
        return met
    other = evidence.row(shrink, CONFIRM)
    return np.asarray(met & near(other, evidence.estimate(other).value))
