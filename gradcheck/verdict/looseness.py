"""Agreement that rests on autodiff's own rounding alone, where that is no smaller than what it rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.finding import Kind, Reason
from gradcheck.numerics.stencil import Sample
from gradcheck.verdict.entries import AGREE, EXCLUSION, INCONCLUSIVE, MISMATCH, Entries
from gradcheck.verdict.observation import LITTLE, Derivative, moved, ulp_rounding

Array = np.ndarray[Any, Any]

LOOSE = 0.1
"""Rounding above this share of the derivative leaves nothing to compare."""


def without_loose_agreement(
    problem: Problem, derivative: Derivative, sample: Sample, entries: Entries, rounding: Array
) -> Entries:
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
