"""Agreement that rests on autodiff's own rounding alone, where that is no smaller than what it rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.comparison.observation import LITTLE, Derivative, moved, ulp_rounding
from gradcheck.comparison.tables import AGREE, EXCLUSION, INCONCLUSIVE, MISMATCH, Comparison
from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.one_sided import constant, wide_slope
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.stencil import Sample
from gradcheck.result import Kind, Reason

Array = np.ndarray[Any, Any]

LOOSE = 0.1
"""Rounding above this share of the derivative leaves nothing to compare."""


def without_loose_agreement(
    problem: Problem, derivative: Derivative, sample: Sample, entries: Comparison, rounding: Array
) -> Comparison:
    """Agreement of a `derivative` within a `rounding` no smaller than itself is none.

    Where it agrees with the differences of `sample` as soon as something moves, its value at the point is wrong: inputs
    where the point is special, and at smooth points, where the value persists as inputs move, the roundings of what
    lies between, which cannot change a right one.
    """
    error = np.abs(entries.autodiff - entries.difference)
    tight = EXCLUSION * (entries.bound + ulp_rounding(entries.autodiff, problem.precision))
    sizes = np.max(np.where(np.isfinite(sample.values), np.abs(sample.values), 0.0), axis=1) / sample.step[:, None]
    little = np.maximum(LOOSE * np.abs(entries.difference), LITTLE * problem.precision * sizes)
    loose = (entries.status == AGREE) & (error > tight) & (rounding > little)
    if not loose.any():
        return entries

    def near(values: Array, target: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(values - target) <= tight)

    beside = moved(problem, derivative)
    right = near(beside, entries.difference)
    if problem.smooth:
        persists = near(moved(problem, derivative, inner=False), entries.autodiff).all(axis=0)
        jumps = loose & right.all(axis=0) & persists
    else:
        jumps = loose & right.any(axis=0) & (right | near(beside, entries.autodiff)).all(axis=0)
    entries = replace(entries, allowed=np.where(jumps, tight, entries.allowed))
    entries = entries.marked(loose, INCONCLUSIVE, Reason.ILL_CONDITIONED)
    return entries.marked(jumps, MISMATCH, Kind.WRONG_VALUE)


ULPS = 2.0
FLAT = 4
"""A function that is constant on so many of the finest steps may be a staircase."""
CLOSER = 2.0**-14
"""A row that starts here steps over no stair of moderate size, and still resolves a second derivative."""
FINER = 2.0**-20
"""A row that starts at a millionth of the usual step resolves what the usual row aliases."""


def hidden_terms(problem: Problem, sample: Sample) -> Array:
    """The magnitude of what may have cancelled in the function's value, on every line and row (k, l) of a sample.

    A function that is constant there, such as a vanishing imaginary part, does not show its terms: the inputs' size
    then stands in for them.
    """
    size = float(np.max(magnitudes(problem.point)))
    return np.where(constant(sample), max(problem.terms, size), problem.terms)


def without_residue(entries: Comparison, terms: Array | float, lengths: Array, precision: float) -> Comparison:
    """A derivative that is nothing but the rounding of cancelled terms is not wrong.

    `terms` is the largest magnitude that went into the sum, `lengths` (broadcast to the entries) the products of the
    steps by which it is divided: a residue of a few units in the last place of terms / lengths is rounding.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        residue = EXCLUSION * ULPS * precision * terms / np.broadcast_to(lengths, entries.status.shape)
        small = (entries.status == MISMATCH) & (np.abs(entries.autodiff - entries.difference) <= residue)
    allowed = np.where(small, np.maximum(entries.allowed, residue), entries.allowed)
    return replace(entries, status=np.where(small, AGREE, entries.status), allowed=allowed)


def without_unresolved(entries: Comparison, resolved: Array) -> Comparison:
    """A second derivative counts only where the first one along the same line could be told from the values.

    `resolved` is (lines, 1). Where the function saturates before the finest step, tanh(1e15 t) for one, its derivative
    vanishes at every point of the row, and differences of it say nothing.
    """
    return entries.marked((entries.status == MISMATCH) & ~resolved, INCONCLUSIVE, Reason.ILL_CONDITIONED)


def without_aliases(entries: Comparison, finer: Estimate) -> Comparison:
    """Where a much finer row contradicts the differences, their row had aliased the function: nobody can tell."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(finer.value - entries.difference) > finer.bound + entries.bound
    aliased = (entries.status == MISMATCH) & apart & np.isfinite(finer.bound)
    return entries.marked(aliased, INCONCLUSIVE, Reason.ILL_CONDITIONED)


def only_supported(entries: Comparison, closer: Estimate) -> Comparison:
    """What values alone say against autodiff counts only if a closer row says the same.

    The usual row may take many small jumps, those of x * floor(x) for one, for noise around a smooth function.
    """
    with np.errstate(invalid="ignore"):
        same = np.abs(closer.value - entries.difference) <= closer.bound + entries.bound
        same &= ~(np.abs(closer.value - entries.autodiff) <= closer.bound)
    return entries.marked((entries.status == MISMATCH) & ~same, INCONCLUSIVE, Reason.ILL_CONDITIONED)


def without_staircases(
    entries: Comparison, sample: Sample, directions: Array, f: Callable[[Array], Array], point: Array
) -> Comparison:
    """Constant around the point though autodiff is not zero: if the slope of a wide step agrees, it is a staircase.

    `f` maps points (p, n) to what was sampled (p, m); the entries are (k, m), as the sample's lines and rows. A
    gradient that is computed from a value near one, as y (1 - y), is such a staircase for its own differences.
    """
    if not entries.any(MISMATCH):
        return entries
    flat = _flat_steps(sample)
    suspects = (entries.status == MISMATCH) & (flat >= FLAT) & np.isfinite(entries.autodiff)
    stairs = np.zeros(suspects.shape, bool)
    for line, row in zip(*np.nonzero(suspects), strict=True):
        start = float(sample.step[line] * sample.stencil.steps[-flat[line, row]])
        wide = wide_slope(partial(_row, f, point, int(row)), point, directions[line], start)
        stairs[line, row] = wide is not None and abs(wide[0][0] - entries.autodiff[line, row]) <= wide[1][0]
    return entries.marked(stairs, INCONCLUSIVE, Reason.STAIRCASE)


def stepped(sample: Sample) -> Array:
    """Where the function is constant around the point, but not on the whole row: such values have no curvature."""
    return (_flat_steps(sample) >= FLAT) & ~constant(sample)


def _row(f: Callable[[Array], Array], point: Array, row: int, at: Array) -> Array:
    """One column of the values; the first of several points is always the one on trial, at which references look."""
    return f(np.concatenate([point[None, :], at]))[1:, row, None]


def _flat_steps(sample: Sample) -> Array:
    """On how many of the finest steps, to both sides, the function has the value that it has at the point, (k, m)."""
    count = sample.stencil.count
    rows = sample.values[:, 1 : 2 * count + 1] == sample.values[:, :1]
    same = (rows[:, :count] & rows[:, count:])[:, ::-1]
    flat: Array = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    return flat
