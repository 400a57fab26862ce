"""Finer samples, where the usual steps have aliased the function or stepped over a part of it."""

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
"""Departures beyond CLEAR times the largest perturbation of ENOUGH draws, on either side, are no rounding errors."""

FEW = 10
"""The number of points that are perturbed again after the first draw."""

MET = 2.0**-10
"""A slope this many times nearer to autodiff's than to the difference agrees with autodiff's by more than chance."""


def aliasing(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Excuse mismatches with an estimate that much finer steps contradict: the usual ones missed a part of f.

    The digits that the values lose are granted to the finer sample, too, which may lie inside one step of a staircase.
    Where they only seem lost, in an oscillation or at a floor, the finer sample counts if its slope agrees with
    autodiff's, however wide its bound. A constant finer sample does not count where perturbing inner values shows that
    as many digits are lost.
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
    if evidence.lines.gradients:  # a feature of one gradient entry is one of the function, and so of all entries
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
