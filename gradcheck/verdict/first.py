"""First derivatives held against differences, line by line and row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.gradients import Gradients
from gradcheck.autodiff.problem import Problem
from gradcheck.finding import Kind, Reason
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.smoothness import OneSided, Smoothness, classify, subgradient_allows
from gradcheck.numerics.staircase import constant, wide_slope
from gradcheck.numerics.stencil import CONFIRM, Sample
from gradcheck.verdict.entries import AGREE, EXCLUSION, INCONCLUSIVE, KINK, MISMATCH, Entries, Tolerance, code_of
from gradcheck.verdict.observation import along, erratic_gap, measured_rounding, moved_autodiff, observe, ulp_rounding
from gradcheck.verdict.refutation import FINER, hidden_terms, without_aliases, without_residue

Array = np.ndarray[Any, Any]

DIRECTIONS_BEFORE_MISMATCH = 4

FLAT = 4
"""A function that is constant on so many of the finest steps may be a staircase."""

LOOSE = 0.1
"""Rounding above this share of the derivative leaves nothing to compare."""

LITTLE = 64.0
"""Rounding is little below so many units in the last place of the function over its step."""


@dataclass(frozen=True)
class First:
    """The table (k lines, l rows), and the gradients it came from."""

    entries: Entries
    gradients: Gradients


def compare_first(problem: Problem, directions: Array, cotangents: Array, tolerance: Tolerance) -> First:
    """Hold autodiff's derivative of <w, f> along each direction against differences.

    `directions` (k, n), `cotangents` (l, m). Cheap while everything agrees: one sample, one row of pullbacks. The
    rounding of autodiff, a second tableau and the kind of point are only looked at where there is doubt. Raises
    DerivativeRaisedError and WrongShapeError.
    """
    unit = cotangents.shape[0] == cotangents.shape[1] and np.array_equal(cotangents, np.eye(len(cotangents)))
    gradients = problem.gradients(cotangents)
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(directions, gradients.values)
    sample = observe(problem, directions, None if unit else cotangents)
    estimate = slope_estimate(sample)
    entries = settle(autodiff, estimate, tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
    doubt = entries.status != AGREE
    if not doubt.any():
        return First(entries, gradients)
    lines = np.flatnonzero(doubt.any(axis=1))
    closer = _examine(problem, directions, cotangents, autodiff, sample, lines, tolerance)
    merged = {
        name: _overlaid(getattr(entries, name), lines, doubt, getattr(closer, name))
        for name in Entries.__dataclass_fields__
    }
    return First(_named(Entries(**merged), gradients, directions), gradients)


def settle(autodiff: Array, estimate: Estimate, tolerance: Tolerance, rounding: Array, *, factor: float) -> Entries:
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
    return Entries(autodiff, estimate.value, estimate.bound, allowed, status, code)


def _examine(
    problem: Problem,
    directions: Array,
    cotangents: Array,
    autodiff: Array,
    sample: Sample,
    lines: Array,
    tolerance: Tolerance,
) -> Entries:
    """A closer look at some of the lines."""
    doubtful, autodiff = directions[lines], autodiff[lines]
    rounding = measured_rounding(problem, cotangents, doubtful, autodiff)
    rounding = np.maximum(rounding, erratic_gap(problem, cotangents, doubtful))
    samples = (_lines(sample, lines), observe(problem, doubtful, cotangents, CONFIRM))
    entries = _both(*(settle(autodiff, slope_estimate(s), tolerance, rounding, factor=EXCLUSION) for s in samples))
    if not problem.smooth:
        entries = _without_loose_agreement(problem, doubtful, cotangents, samples[0], entries, rounding)
    terms = hidden_terms(problem, samples[0]) * np.max(np.abs(cotangents), axis=1, initial=0.0)
    entries = without_residue(entries, terms, samples[0].step[:, None], problem.precision)
    if entries.any(MISMATCH):
        finer = slope_estimate(observe(problem, doubtful, cotangents, shrink=FINER))
        entries = without_aliases(entries, finer)
    if problem.smooth:
        return entries
    sides = [classify(s) for s in samples]
    entries = _at_bends(entries, sides, tolerance, rounding, samples[0])
    entries = _at_kinks(entries, sides, autodiff, rounding + tolerance.of(entries.difference))
    if entries.any(MISMATCH):
        entries = _without_staircases(problem, doubtful, cotangents, samples[0], entries)
    if entries.any(MISMATCH):
        entries = _without_hidden_kinks(problem, directions, cotangents, classify(sample), entries)
    return _off_the_domain(entries, samples[0])


def slope_estimate(sample: Sample) -> Estimate:
    """As `first_difference`; a function that is constant on the whole row has the derivative zero in any precision."""
    estimate = first_difference(sample)
    return replace(estimate, conclusive=estimate.conclusive | (constant(sample) & np.isfinite(estimate.value)))


def _without_loose_agreement(
    problem: Problem, directions: Array, cotangents: Array, sample: Sample, entries: Entries, rounding: Array
) -> Entries:
    """Agreement that rests on autodiff's own rounding alone is none where that rounding is no smaller than autodiff.

    Where autodiff jumps between this value and one that agrees with the differences, its value at the point is wrong.
    """
    error = np.abs(entries.autodiff - entries.difference)
    tight = EXCLUSION * (entries.bound + ulp_rounding(entries.autodiff, problem.precision))
    sizes = np.max(np.where(np.isfinite(sample.values), np.abs(sample.values), 0.0), axis=1) / sample.step[:, None]
    little = np.maximum(LOOSE * np.abs(entries.difference), LITTLE * problem.precision * sizes)
    loose = (entries.status == AGREE) & (error > tight) & (rounding > little)
    if not loose.any():
        return entries
    moved = moved_autodiff(problem, cotangents, directions)
    with np.errstate(invalid="ignore"):
        right = np.abs(moved - entries.difference) <= tight
        same = np.abs(moved - entries.autodiff) <= tight
    jumps = loose & right.any(axis=0) & (right | same).all(axis=0)
    status = np.select([jumps, loose], [MISMATCH, INCONCLUSIVE], entries.status)
    code = np.select([jumps, loose], [code_of(Kind.WRONG_VALUE), code_of(Reason.ILL_CONDITIONED)], entries.code)
    return replace(entries, status=status, code=code, allowed=np.where(jumps, tight, entries.allowed))


def _off_the_domain(entries: Entries, sample: Sample) -> Entries:
    """Inconclusive for want of finite values: the function is not finite on the finest steps of either side."""
    count, fine = sample.stencil.count, sample.stencil.count // 2
    rows = np.isfinite(sample.values[:, 1 : 2 * count + 1])
    nowhere = ~(rows[:, fine:count].any(axis=1) | rows[:, count + fine :].any(axis=1))
    code = np.where((entries.status == INCONCLUSIVE) & nowhere, code_of(Reason.NOT_FINITE), entries.code)
    return replace(entries, code=code)


def _both(first: Entries, second: Entries) -> Entries:
    """A mismatch needs both tableaux; where only the first was inconclusive, the second may still agree."""
    status = first.status.copy()
    status[(first.status == MISMATCH) & (second.status == AGREE)] = AGREE
    status[(first.status == MISMATCH) & (second.status == INCONCLUSIVE)] = INCONCLUSIVE
    rescued = (first.status == INCONCLUSIVE) & (second.status == AGREE)
    status[rescued] = AGREE
    pick = {n: np.where(rescued, getattr(second, n), getattr(first, n)) for n in ("difference", "bound", "allowed")}
    code = np.where(status == INCONCLUSIVE, code_of(Reason.ILL_CONDITIONED), first.code)
    return Entries(first.autodiff, pick["difference"], pick["bound"], pick["allowed"], status, code)


def _at_bends(
    entries: Entries, sides: list[OneSided], tolerance: Tolerance, rounding: Array, sample: Sample
) -> Entries:
    """Where only the curvature jumps, the one-sided slopes are the sharper estimate of the first derivative."""
    bent = (sides[0].kind == Smoothness.CURVATURE_JUMP) & (entries.status == INCONCLUSIVE)
    if not bent.any():
        return entries
    value = (sides[0].left + sides[0].right) / 2
    bound = np.abs(sides[0].right - sides[0].left) / 2 + np.maximum(sides[0].left_bound, sides[0].right_bound)
    change = np.nanmax(np.abs(sample.values - sample.values[:, :1]), axis=1) / sample.step[:, None]
    conclusive = bent & (bound <= np.maximum(0.1 * np.abs(value), 1e-6 * change))
    table = settle(entries.autodiff, Estimate(value, bound, conclusive, bound), tolerance, rounding, factor=EXCLUSION)
    return Entries(*(np.where(bent, getattr(table, n), getattr(entries, n)) for n in Entries.__dataclass_fields__))


def _at_kinks(entries: Entries, sides: list[OneSided], autodiff: Array, slack: Array) -> Entries:
    """Where one-sided slopes differ, autodiff has to lie between them; at jumps and infinite slopes nobody can tell."""
    status, code = entries.status.copy(), entries.code.copy()
    kink = sides[0].kind == Smoothness.KINK
    certain = kink & (sides[1].kind == Smoothness.KINK)
    inside = subgradient_allows(sides[0], autodiff, slack) | subgradient_allows(sides[1], autodiff, slack)
    status[kink & inside] = KINK
    status[certain & ~inside] = MISMATCH
    code[certain & ~inside] = code_of(Kind.SUBDIFFERENTIAL)
    status[kink & ~certain & ~inside] = INCONCLUSIVE
    code[kink & ~certain & ~inside] = code_of(Reason.ILL_CONDITIONED)
    broken = np.isin(sides[0].kind, (Smoothness.JUMP, Smoothness.SINGULAR))
    status[broken] = INCONCLUSIVE
    code[broken] = code_of(Reason.JUMP)
    middle = (sides[0].left + sides[0].right) / 2
    difference = np.where(kink & np.isfinite(middle), middle, entries.difference)
    reach = np.abs(sides[0].right - sides[0].left) / 2 + np.maximum(sides[0].left_bound, sides[0].right_bound)
    bound = np.where(kink & np.isfinite(reach), reach, entries.bound)
    allowed = np.where(kink & np.isfinite(reach), reach + slack, entries.allowed)
    return replace(entries, difference=difference, bound=bound, allowed=allowed, status=status, code=code)


def _without_staircases(
    problem: Problem, directions: Array, cotangents: Array, sample: Sample, entries: Entries
) -> Entries:
    """Constant around the point though autodiff is not zero: if the slope of a wide step agrees, it is a staircase."""
    flat = _flat_steps(sample)
    suspects = (entries.status == MISMATCH) & (flat >= FLAT) & np.isfinite(entries.autodiff)
    status, code = entries.status.copy(), entries.code.copy()
    for line, row in zip(*np.nonzero(suspects), strict=True):
        weights = cotangents[row][:, None]
        wide = wide_slope(
            lambda points, weights=weights: problem.values(points) @ weights,  # type: ignore[misc]
            problem.point,
            directions[line],
            float(sample.step[line] * sample.stencil.steps[-flat[line, row]]),
        )
        autodiff = entries.autodiff[line, row]
        if wide is not None and abs(wide[0][0] - autodiff) <= wide[1][0]:
            status[line, row], code[line, row] = INCONCLUSIVE, code_of(Reason.STAIRCASE)
    return replace(entries, status=status, code=code)


def _flat_steps(sample: Sample) -> Array:
    """On how many of the finest steps, to both sides, the function has the value that it has at the point, (k, m)."""
    count = sample.stencil.count
    rows = sample.values[:, 1 : 2 * count + 1] == sample.values[:, :1]
    same = (rows[:, :count] & rows[:, count:])[:, ::-1]
    flat: Array = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    return flat


def _without_hidden_kinks(
    problem: Problem, directions: Array, cotangents: Array, sides: OneSided, entries: Entries
) -> Entries:
    """Random directions beside the axes may show a kink along which the axes are flat.

    Coordinates that kink by themselves stay put, so that they cannot excuse a wrong derivative of another coordinate.
    """
    rows = np.flatnonzero((entries.status == MISMATCH).any(axis=0))
    rough = np.isin(sides.kind, (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR)).any(axis=1)
    moving = ~np.any(directions[rough] != 0, axis=0) & np.any(directions != 0, axis=0)
    if moving.sum() < 2:
        return entries
    rng = np.random.default_rng(1)
    scale = np.max(np.abs(directions), axis=0) * moving
    shape = (DIRECTIONS_BEFORE_MISMATCH, problem.point.size)
    oblique = rng.choice([-1.0, 1.0], size=shape) * rng.uniform(0.5, 1.0, size=shape) * scale
    kinds = classify(observe(problem, oblique, cotangents[rows])).kind
    hidden = np.isin(kinds, (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR)).any(axis=0)
    excused = np.zeros(entries.status.shape, bool)
    excused[:, rows[hidden]] = True
    excused &= (entries.status == MISMATCH) & (entries.code != code_of(Kind.SUBDIFFERENTIAL))
    status = np.where(excused, INCONCLUSIVE, entries.status)
    code = np.where(excused, code_of(Reason.COMPOSED_KINK), entries.code)
    return replace(entries, status=status, code=code)


def _named(entries: Entries, gradients: Gradients, directions: Array) -> Entries:
    """Name the mismatches: missing where TensorFlow said None, non-finite, else as they are."""
    touched = np.abs(directions) > 0
    missing = ~((touched.astype(float) @ gradients.connected.T.astype(float)) > 0)
    wrong = (entries.status == MISMATCH) & (entries.code == code_of(Kind.WRONG_VALUE))
    code = np.where(wrong & ~np.isfinite(entries.autodiff), code_of(Kind.NON_FINITE), entries.code)
    code = np.where((entries.status == MISMATCH) & missing, code_of(Kind.MISSING), code)
    return replace(entries, code=code)


def _lines(sample: Sample, lines: Array) -> Sample:
    return Sample(sample.stencil, sample.step[lines], sample.values[lines], sample.magnitude[lines], sample.eps)


def _overlaid(quick: Array, lines: Array, doubt: Array, closer: Array) -> Array:
    whole = quick.copy()
    whole[lines] = np.where(doubt[lines], closer, quick[lines])
    return whole
