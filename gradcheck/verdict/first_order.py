"""Compare first derivatives with their estimates: quickly, and closely where that leaves a doubt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from gradcheck.autodiff.reverse import Gradients, along
from gradcheck.numerics.difference import EXCLUSION, Estimate, first_difference
from gradcheck.numerics.one_sided import ROUGH, classify
from gradcheck.numerics.sampling import QUICK, SECOND, Sample
from gradcheck.problem.problem import Problem
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict import terms
from gradcheck.verdict.doubts import kink_shown_obliquely, moved_at_kinks
from gradcheck.verdict.lines import Lines, some_rows
from gradcheck.verdict.looks import closer_look, reach, screened, slope_estimate, widened, wider_look, with_constants
from gradcheck.verdict.measured_rounding import slope_rounding, ulp_rounding, with_inner_rounding
from gradcheck.verdict.suspicion import Evidence, residue
from gradcheck.verdict.tables import GRANTED, Comparison, Tolerance, combined, compare, confirmed
from gradcheck.verdict.terms import judged


def compare_first(
    problem: Problem, directions: Array, cotangents: Array, tolerance: Tolerance, among: Array | None = None
) -> Comparison:
    """Compare autodiff's derivative of <w, f> along each direction with its estimate; entries (k, l).

    Lines on which everything agrees with a tight estimate from few values are done; the others are compared closely. Of
    those that are clearly off the worst one comes first, and the others follow it if it is wrong. `directions` (k, n),
    `cotangents` w (l, m), `among`: the directions of the whole check, by default these. Raises DerivativeRaisedError
    and WrongShapeError.
    """
    lines = Lines(problem, directions, cotangents, tolerance, among=among)
    gradients = problem.gradients(cotangents)
    if problem.batched:
        whole = lines.sample()
        return compare_gradients(lines, gradients, whole, first_difference(whole))
    comparison = compare_quickly(lines, gradients)
    comparison = comparison.marked(_nowhere_finite(lines, comparison), Verdict.INCONCLUSIVE, Reason.NOT_FINITE)
    settled = comparison.where(Verdict.AGREE) | comparison.where(Verdict.INCONCLUSIVE, Reason.NOT_FINITE)
    doubtful: Array = np.asarray(~settled.all(axis=1))
    if not doubtful.any():
        return comparison
    clear = doubtful & _clearly_off(lines, comparison)
    left: Array = np.asarray(doubtful & ~clear)
    close = lines[left]
    sample: Sample | None = wider_look(close, close.sample()) if left.any() else None
    if clear.any():
        fixed = moved_at_kinks(lines, lines.sample(QUICK))
        if sample is not None:
            fixed |= moved_at_kinks(close, sample)
        found = _worst_first(lines, gradients, comparison, clear, fixed)
        if found is None:
            left, close = doubtful, lines[doubtful]
            sample = wider_look(close, close.sample())
        else:
            comparison = found
    if sample is None:
        return comparison
    closer = compare_gradients(close, gradients, sample, first_difference(sample)).spread(left)
    return comparison.replaced(left[:, None], _within_what_is_stated(comparison, closer))


def _clearly_off(lines: Lines, quick: Comparison) -> Array:
    """Lines (k,) that a first look shows to be smooth, and off by more than a closer one may allow."""
    clear = quick.where(Verdict.AGREE) | (quick.where(Verdict.MISMATCH) & (quick.excess() > GRANTED))
    off: Array = np.asarray(clear.all(axis=1) & quick.where(Verdict.MISMATCH).any(axis=1))
    if off.any():
        off[off] = ~np.isin(classify(lines.sample(QUICK)[off]).kind, ROUGH).any(axis=1)
    return off


def _worst_first(
    lines: Lines, gradients: Gradients, quick: Comparison, clear: Array, fixed: Array
) -> Comparison | None:
    """Compare the worst of the lines (k,) that are `clear`ly off by a first look; return nothing if it is not wrong.

    If it is, so are the others, which need no further values of their own: they are smooth by those of the first look
    and in oblique directions, with the coordinates `fixed` (n,) that kink by themselves.
    """
    first, wrong = lines.sample(QUICK), quick.where(Verdict.MISMATCH) & clear[:, None]
    worst = np.arange(len(clear)) == np.argmax(np.where(wrong, quick.excess(), 0.0).max(axis=1))
    line = lines[worst]
    sample = first[worst] if combined(itemgetter(worst), quick).grossly_off else wider_look(line, line.sample())
    found = compare_gradients(line, gradients, sample, first_difference(sample), fixed)
    if not found.decided_wrong:
        return None
    if not lines.problem.smooth and kink_shown_obliquely(lines, quick, wrong, sample, fixed).any():
        return None
    granted = replace(quick, bound=GRANTED * quick.bound, allowed=GRANTED * quick.allowed)
    others = granted.named(_missing(lines, gradients))
    return quick.replaced(clear[:, None], others).replaced(worst[:, None], found.spread(worst))


def _within_what_is_stated(quick: Comparison, closer: Comparison) -> Comparison:
    """Return the closer comparison, with agreement made inconclusive beyond what a first look states for a correct one.

    Subgradients and derivatives next to zero are exempt: a first look states nothing about them.
    """
    stated = np.abs(quick.autodiff - quick.difference) <= GRANTED * quick.allowed
    zero = np.abs(closer.difference) <= EXCLUSION * closer.bound
    beyond = quick.where(Verdict.MISMATCH) & closer.where(Verdict.AGREE) & ~(stated | zero | closer.at_kink)
    return closer.marked(beyond, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def _nowhere_finite(lines: Lines, comparison: Comparison) -> Array:
    """Entries that are finite neither at the point nor on any step of the first look; closer steps have none either."""
    blank = ~np.isfinite(comparison.difference) & ~np.isfinite(comparison.autodiff)
    places = np.flatnonzero(blank.any(axis=1))
    if len(places):
        blank[places] &= ~np.isfinite(lines.sample(QUICK).values[places]).any(axis=1)
    return blank


def compare_quickly(lines: Lines, gradients: Gradients) -> Comparison:
    """Compare gradients with tight estimates from few values."""
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(lines.directions, gradients.values)
    estimate = screened(lines.sampled, len(lines.directions))
    return compare(autodiff, estimate, lines.tolerance, ulp_rounding(autodiff, lines.problem.precision), factor=1.0)


def compare_gradients(
    lines: Lines,
    gradients: Gradients,
    sample: Sample,
    estimate: Estimate,
    fixed: Array | None = None,
) -> Comparison:
    """Compare gradients (one per cotangent) with the first difference of a sample of the lines.

    Cheap while everything agrees: autodiff's rounding, a second tableau and the terms are used only for the rest.
    `fixed`: the coordinates (n,) that kink by themselves on any line of the check; by default, by this sample.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        autodiff = along(lines.directions, gradients.values)
    rounding = ulp_rounding(autodiff, lines.problem.precision)
    estimate = with_constants(estimate, sample)
    wide = comparison = compare(autodiff, estimate, lines.tolerance, rounding, factor=1.0)
    closer = closer_look(lines.sampled, sample, estimate, SECOND[sample.stencil], wider=widened(lines, sample))
    if closer is not estimate:
        comparison = compare(autodiff, closer, lines.tolerance, rounding, factor=1.0)
    doubt = ~comparison.where(Verdict.AGREE)
    if not doubt.any():
        return comparison
    closely = _first_closely(lines, autodiff, sample, doubt, fixed)
    comparison = comparison.replaced(doubt, closely).named(_missing(lines, gradients))
    return comparison.replaced(wide.where(Verdict.AGREE) & comparison.where(Verdict.INCONCLUSIVE), wide)


def _missing(lines: Lines, gradients: Gradients) -> Array:
    """Where TensorFlow gave None for every coordinate that a line moves, (k, l)."""
    return np.asarray(~((lines.directions != 0) @ gradients.connected.T))


def _first_closely(everywhere: Lines, autodiff: Array, sample: Sample, doubt: Array, fixed: Array | None) -> Comparison:
    """Compare the lines and cotangents in `doubt` (k, l), with both tableaus, measured rounding, and the terms."""
    doubtful, columns = (np.asarray(doubt.any(axis=axis)) for axis in (1, 0))
    problem, sample_here = everywhere.problem, sample[doubtful].of_outputs(columns)
    lines = replace(everywhere[doubtful], cotangents=some_rows(everywhere.cotangents, columns))
    autodiff = autodiff[doubtful][:, columns]
    confirming = lines.sample(SECOND[sample.stencil], shrink=widened(lines, sample_here))
    own = slope_rounding(problem, autodiff, lines.cotangents, lines.directions)
    samples = with_inner_rounding(lines, sample_here, confirming, enough=own.settled(slope_estimate))
    of_terms = partial(residue, problem, samples[0], lines.cotangents, reach(lines, samples[0]))
    evidence = Evidence(
        lines=lines,
        samples=samples,
        estimate=slope_estimate,
        own=own,
        residue=of_terms(),
        beside=of_terms(of_any=True),
        values=samples,
        fixed=lambda: moved_at_kinks(everywhere, sample) if fixed is None else fixed,
    )
    first, second = (
        evidence.compare(closer_look(lines.sampled, each, slope_estimate(each), wider=widened(lines, each)))
        for each in samples
    )
    return judged(confirmed(first, second), evidence, terms.FIRST_ORDER).spread(doubtful, columns)
