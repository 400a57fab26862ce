"""First derivatives beside their finite-difference estimates, line by line and output by output."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import Gradients
from gradcheck.comparison.filters import FIRST_ORDER, Evidence, filtered, residue
from gradcheck.comparison.lines import (
    Lines,
    along,
    erratic_gap,
    measured_rounding,
    slope_estimate,
    slopes,
    ulp_rounding,
    with_constants,
    with_inner_rounding,
)
from gradcheck.comparison.tables import Comparison, Tolerance, combined, compare
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.sampling import CONFIRM, Sample
from gradcheck.result import Verdict

Array = np.ndarray[Any, Any]


def compare_first(problem: Problem, directions: Array, cotangents: Array, tolerance: Tolerance) -> Comparison:
    """Compare autodiff's derivative of <w, f> along each direction with its estimate; entries (k, l).

    `directions` (k, n), `cotangents` w (l, m). Raises DerivativeRaisedError and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangents, tolerance)
    gradients = problem.gradients(cotangents)
    sample = lines.sample()
    return compare_gradients(lines, gradients, sample, first_difference(sample))


def compare_gradients(lines: Lines, gradients: Gradients, sample: Sample, estimate: Estimate) -> Comparison:
    """Compare gradients (one a cotangent) with the first difference of a sample of the lines.

    Cheap while everything agrees: the rounding of autodiff, a second tableau and the filters are for what does not.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(lines.directions, gradients.values)
    rounding = ulp_rounding(autodiff, lines.problem.precision)
    comparison = compare(autodiff, with_constants(estimate, sample), lines.tolerance, rounding, factor=1.0)
    doubt = ~comparison.where(Verdict.AGREE)
    if not doubt.any():
        return comparison
    doubtful = np.flatnonzero(doubt.any(axis=1))
    closer = _compare_closely(lines, autodiff, sample, doubtful)
    return combined(partial(_overlaid, doubtful, doubt), comparison, closer).named(_missing(lines, gradients))


def _compare_closely(everywhere: Lines, autodiff: Array, sample: Sample, doubtful: Array) -> Comparison:
    """The comparison on some of the lines, with both tableaus, measured rounding, and the filters."""
    lines, autodiff, problem = everywhere.some(doubtful), autodiff[doubtful], everywhere.problem
    derivative = slopes(lines.cotangents, lines.directions)
    rounding = measured_rounding(problem, autodiff, derivative)
    samples = with_inner_rounding(problem, (sample.lines(doubtful), lines.sample(CONFIRM)), lines.centre)
    weights = np.max(np.abs(lines.cotangents), axis=1, initial=0.0)
    evidence = Evidence(
        lines=lines,
        quantity=lines.values,
        samples=samples,
        estimate=slope_estimate,
        resample=lines.sample,
        autodiff=autodiff,
        rounding=np.maximum(rounding, erratic_gap(problem, lines.cotangents, lines.directions)),
        derivative=derivative,
        residue=residue(problem, samples[0], weights, samples[0].step[:, None]),
        values=samples,
        everywhere=(everywhere, sample),
    )
    return filtered(evidence.comparison([slope_estimate(each) for each in samples]), evidence, FIRST_ORDER)


def _missing(lines: Lines, gradients: Gradients) -> Array:
    """Where TensorFlow gave None for every coordinate that a line moves, (k, l)."""
    moving = np.abs(lines.directions) > 0
    return np.asarray(~((moving.astype(float) @ gradients.connected.T.astype(float)) > 0))


def _overlaid(lines: Array, doubt: Array, quick: Array, closer: Array) -> Array:
    whole = quick.copy()
    whole[lines] = np.where(doubt[lines], closer, quick[lines])
    return whole
