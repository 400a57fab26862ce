"""First derivatives held against differences, line by line and row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import Gradients
from gradcheck.comparison.filters import (
    FINER,
    hidden_terms,
    without_aliases,
    without_loose_agreement,
    without_residue,
    without_staircases,
)
from gradcheck.comparison.observation import (
    Lines,
    along,
    erratic_gap,
    measured_rounding,
    observe,
    slopes,
    ulp_rounding,
    with_inner_rounding,
)
from gradcheck.comparison.tables import (
    AGREE,
    EXCLUSION,
    INCONCLUSIVE,
    KINK,
    MISMATCH,
    Comparison,
    Tolerance,
    chosen,
    code_of,
    combined,
    confirmed,
)
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.one_sided import ROUGH, OneSided, Smoothness, classify, confirm, constant, subgradient_allows
from gradcheck.numerics.probing import probe_directions
from gradcheck.numerics.stencil import CONFIRM, Sample
from gradcheck.result import Kind, Reason

Array = np.ndarray[Any, Any]

DIRECTIONS_BEFORE_MISMATCH = 4


@dataclass(frozen=True)
class FirstOrder:
    """The table (k lines, l rows), and the gradients it came from."""

    entries: Comparison
    gradients: Gradients


def compare_first(problem: Problem, directions: Array, cotangents: Array, tolerance: Tolerance) -> FirstOrder:
    """Hold autodiff's derivative of <w, f> along each direction against differences.

    `directions` (k, n), `cotangents` (l, m). Raises DerivativeRaisedError and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangents, tolerance)
    gradients = problem.gradients(cotangents)
    sample = lines.sample()
    return judge_first(lines, gradients, sample, first_difference(sample))


def judge_first(lines: Lines, gradients: Gradients, sample: Sample, difference: Estimate) -> FirstOrder:
    """Hold gradients (one a cotangent) against the first difference of a sample of the lines.

    Cheap while everything agrees. The rounding of autodiff, a second tableau and the kind of point are only looked at
    where there is doubt.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(lines.directions, gradients.values)
    estimate = with_constants(difference, sample)
    rounding = ulp_rounding(autodiff, lines.problem.precision)
    entries = settle(autodiff, estimate, lines.tolerance, rounding, factor=1.0)
    doubt = entries.status != AGREE
    if not doubt.any():
        return FirstOrder(entries, gradients)
    doubtful = np.flatnonzero(doubt.any(axis=1))
    closer = _examine(lines, autodiff, sample, doubtful)
    merged = combined(lambda quick, close: _overlaid(quick, doubtful, doubt, close), entries, closer)
    return FirstOrder(merged.named(_missing(lines.directions, gradients)), gradients)


def settle(autodiff: Array, estimate: Estimate, tolerance: Tolerance, rounding: Array, *, factor: float) -> Comparison:
    """The verdict of one tableau: agree within `factor` bounds, inconclusive, or a mismatch (so far)."""
    error = np.abs(autodiff - estimate.value)
    noticed = EXCLUSION * (estimate.bound + rounding)
    wanted = tolerance.of(estimate.value)
    allowed = np.maximum(noticed, wanted) if tolerance.given else noticed
    with np.errstate(invalid="ignore"):
        close = error <= np.maximum(factor * (estimate.bound + rounding), wanted)
        # A difference that is zero within its bound asks for no relative resolution.
        zero = np.abs(estimate.value) <= estimate.bound
        resolved = ~estimate.conclusive if tolerance.given else np.zeros(error.shape, bool)
        blurred = (noticed > wanted) & ~zero if tolerance.given else resolved
    status = np.where(close, AGREE, MISMATCH)
    status = np.where(~estimate.conclusive | (blurred & close), INCONCLUSIVE, status)
    code = np.where(status == INCONCLUSIVE, code_of(Reason.ILL_CONDITIONED), code_of(Kind.WRONG_VALUE))
    return Comparison(autodiff, estimate.value, estimate.bound, allowed, status, code)


def _examine(whole: Lines, autodiff: Array, sample: Sample, doubtful: Array) -> Comparison:
    """A closer look at some of the lines, given autodiff's values and a sample on all of them."""
    lines, autodiff, problem = whole.some(doubtful), autodiff[doubtful], whole.problem
    derivative = slopes(lines.cotangents, lines.directions)
    rounding = measured_rounding(problem, autodiff, derivative)
    rounding = np.maximum(rounding, erratic_gap(problem, lines.cotangents, lines.directions))
    samples = with_inner_rounding(problem, (sample.lines(doubtful), lines.sample(CONFIRM)), lines.centre)
    tables = [settle(autodiff, slope_estimate(s), lines.tolerance, rounding, factor=EXCLUSION) for s in samples]
    entries = confirmed(*tables)
    entries = without_loose_agreement(problem, derivative, samples[0], entries, rounding)
    terms = hidden_terms(problem, samples[0]) * np.max(np.abs(lines.cotangents), axis=1, initial=0.0)
    entries = without_residue(entries, terms, samples[0].step[:, None], problem.precision)
    if entries.any(MISMATCH):
        entries = without_aliases(entries, slope_estimate(lines.sample(shrink=FINER)))
    if problem.smooth:
        return without_staircases(entries, samples[0], lines.directions, lines.values, problem.point)
    sides = [classify(s) for s in samples]
    entries, sides = _through_finer_rows(lines, autodiff, rounding, entries, sides)
    entries = _at_bends(entries, sides, lines.tolerance, rounding, samples[0])
    entries = _at_kinks(entries, sides, autodiff, rounding + lines.tolerance.of(entries.difference))
    entries = without_staircases(entries, samples[0], lines.directions, lines.values, problem.point)
    if entries.any(MISMATCH):
        entries = _without_hidden_kinks(whole, classify(sample), entries)
    return _off_the_domain(entries, samples[0])


def _through_finer_rows(
    lines: Lines, autodiff: Array, rounding: Array, entries: Comparison, sides: list[OneSided]
) -> tuple[Comparison, list[OneSided]]:
    """Where a row a million times finer shows no kink, there is none to excuse a value: that row's verdict counts."""
    rough = np.isin(sides[0].kind, ROUGH)
    if not rough.any():
        return entries, sides
    row = lines.sample(shrink=FINER)
    finer = classify(row)
    sides = [confirm(side, finer) for side in sides]
    withdrawn = rough & ~np.isin(sides[0].kind, ROUGH)
    if not withdrawn.any():
        return entries, sides
    rows = (row, lines.sample(CONFIRM, shrink=FINER))
    tables = [settle(autodiff, slope_estimate(s), lines.tolerance, rounding, factor=EXCLUSION) for s in rows]
    return chosen(withdrawn, confirmed(*tables), entries), sides


def slope_estimate(sample: Sample) -> Estimate:
    """The first difference of a sample, constants included."""
    return with_constants(first_difference(sample), sample)


def with_constants(estimate: Estimate, sample: Sample) -> Estimate:
    """A function that is constant on the whole row has the derivative zero in any precision.

    Unless other roundings would move it: then it is constant for want of digits.
    """
    flat = constant(sample) & np.isfinite(estimate.value) & (np.asarray(sample.floor) == 0)
    return replace(estimate, conclusive=estimate.conclusive | flat)


def _off_the_domain(entries: Comparison, sample: Sample) -> Comparison:
    """Inconclusive for want of finite values: the function is not finite on the finest steps of either side."""
    count, fine = sample.stencil.count, sample.stencil.count // 2
    rows = np.isfinite(sample.values[:, 1 : 2 * count + 1])
    nowhere = ~(rows[:, fine:count].any(axis=1) | rows[:, count + fine :].any(axis=1))
    return entries.marked((entries.status == INCONCLUSIVE) & nowhere, INCONCLUSIVE, Reason.NOT_FINITE)


def _at_bends(
    entries: Comparison, sides: list[OneSided], tolerance: Tolerance, rounding: Array, sample: Sample
) -> Comparison:
    """Where only the curvature jumps, the one-sided slopes are the sharper estimate of the first derivative."""
    bent = (sides[0].kind == Smoothness.CURVATURE_JUMP) & (entries.status == INCONCLUSIVE)
    if not bent.any():
        return entries
    value = (sides[0].left + sides[0].right) / 2
    bound = np.abs(sides[0].right - sides[0].left) / 2 + np.maximum(sides[0].left_bound, sides[0].right_bound)
    change = np.nanmax(np.abs(sample.values - sample.values[:, :1]), axis=1) / sample.step[:, None]
    conclusive = bent & (bound <= np.maximum(0.1 * np.abs(value), 1e-6 * change))
    table = settle(entries.autodiff, Estimate(value, bound, conclusive, bound), tolerance, rounding, factor=EXCLUSION)
    return chosen(bent, table, entries)


def _at_kinks(entries: Comparison, sides: list[OneSided], autodiff: Array, slack: Array) -> Comparison:
    """Where one-sided slopes differ, autodiff has to lie between them; at jumps and infinite slopes nobody can tell."""
    kink = sides[0].kind == Smoothness.KINK
    certain = kink & (sides[1].kind == Smoothness.KINK)
    inside = subgradient_allows(sides[0], autodiff, slack) | subgradient_allows(sides[1], autodiff, slack)
    broken = np.isin(sides[0].kind, (Smoothness.JUMP, Smoothness.SINGULAR))
    middle = (sides[0].left + sides[0].right) / 2
    reach = np.abs(sides[0].right - sides[0].left) / 2 + np.maximum(sides[0].left_bound, sides[0].right_bound)
    entries = replace(
        entries,
        difference=np.where(kink & np.isfinite(middle), middle, entries.difference),
        bound=np.where(kink & np.isfinite(reach), reach, entries.bound),
        allowed=np.where(kink & np.isfinite(reach), reach + slack, entries.allowed),
        status=np.where(kink & inside, KINK, entries.status),
    )
    entries = entries.marked(certain & ~inside, MISMATCH, Kind.SUBDIFFERENTIAL)
    entries = entries.marked(kink & ~certain & ~inside, INCONCLUSIVE, Reason.ILL_CONDITIONED)
    return entries.marked(broken, INCONCLUSIVE, Reason.JUMP)


def _without_hidden_kinks(lines: Lines, sides: OneSided, entries: Comparison) -> Comparison:
    """Random directions beside the axes may show a kink along which the axes are flat.

    Coordinates that kink by themselves stay put, so that they cannot excuse a wrong derivative of another coordinate.
    `lines` and `sides` are those of all directions, not only of those in doubt.
    """
    directions = lines.directions
    rows = np.flatnonzero((entries.status == MISMATCH).any(axis=0))
    rough = np.isin(sides.kind, ROUGH).any(axis=1)
    moving = ~np.any(directions[rough] != 0, axis=0) & np.any(directions != 0, axis=0)
    if moving.sum() < 2:
        return entries
    scale = np.max(np.abs(directions), axis=0) * moving
    oblique = probe_directions(np.random.default_rng(1), DIRECTIONS_BEFORE_MISMATCH, scale)
    kinds = classify(observe(lines.problem, oblique, lines.cotangents[rows])).kind
    hidden = np.isin(kinds, ROUGH).any(axis=0)
    excused = np.zeros(entries.status.shape, bool)
    excused[:, rows[hidden]] = True
    excused &= (entries.status == MISMATCH) & (entries.code != code_of(Kind.SUBDIFFERENTIAL))
    return entries.marked(excused, INCONCLUSIVE, Reason.COMPOSED_KINK)


def _missing(directions: Array, gradients: Gradients) -> Array:
    """Where TensorFlow said None for every coordinate that a line moves, (k, l)."""
    touched = np.abs(directions) > 0
    return np.asarray(~((touched.astype(float) @ gradients.connected.T.astype(float)) > 0))


def _overlaid(quick: Array, lines: Array, doubt: Array, closer: Array) -> Array:
    whole = quick.copy()
    whole[lines] = np.where(doubt[lines], closer, quick[lines])
    return whole
