"""Verdicts from named terms: estimates, allowances and doubts, for both orders, functions and graphs.

A comparison outside of the bounds of both tableaus is a suspicion, which three kinds of terms decide:

1. Estimates replace the value and its bound at points at which central differences are none: kinks, jumps of the
   curvature, and kinks that finer steps show to be smooth. Each belongs to another kind of point.
2. Allowances add to the error that is allowed: the rounding of cancelled terms, or the digits lost in low precision.
   Both measure the same rounding, so that the larger one counts.
3. Doubts make a mismatch inconclusive, with a Reason. After them, reviews look at entries that are no mismatch: a value
   that is NaN, an agreement in low precision alone.

Within a kind the order does not change a verdict: all terms are asked about the same entries, whatever the others say.
It is that of the reasons, and of the cost, since a term is asked only while there is an entry left for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.numerics.difference import ABSOLUTE, EXCLUSION, RELATIVE, Estimate
from gradcheck.numerics.one_sided import Smoothness, interval, subgradient_allows
from gradcheck.numerics.sampling import CONFIRM
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict import doubts
from gradcheck.verdict.suspicion import FINER, Evidence
from gradcheck.verdict.tables import Comparison, confirmed


@dataclass(frozen=True)
class Term:
    """A named term of a verdict; the docstring of its function says when it holds, and why.

    `of(comparison, evidence)` returns the comparison with other estimates, an additional error (k, c) that is allowed,
    or, for a doubt or a review, where it holds, boolean (k, c): an entry whose verdict it is `about` then gets another
    `verdict` and `cause`. Terms of `nonsmooth` functions are not asked of one that promises to be smooth at the point.
    """

    name: str
    of: Callable[[Comparison, Any], Any]
    cause: Kind | Reason = Reason.ILL_CONDITIONED
    nonsmooth: bool = False
    about: Verdict = Verdict.MISMATCH
    verdict: Verdict = Verdict.INCONCLUSIVE


@dataclass(frozen=True)
class Terms:
    """The terms of the verdicts on one quantity."""

    estimates: tuple[Term, ...] = ()
    allowances: tuple[Term, ...] = ()
    doubts: tuple[Term, ...] = ()
    reviews: tuple[Term, ...] = ()

    def of_smooth(self, smooth: bool) -> Terms:
        """The terms that are asked of a function, which may promise to be `smooth` at the point."""
        if not smooth:
            return self
        kinds = self.estimates, self.allowances, self.doubts, self.reviews
        return Terms(*(tuple(each for each in kind if not each.nonsmooth) for kind in kinds))


def judged(comparison: Comparison, evidence: Evidence, terms: Terms) -> Comparison:
    """Decide all entries by the terms."""
    terms = terms.of_smooth(evidence.lines.problem.smooth)
    with np.errstate(all="ignore"):
        for each in terms.estimates:
            comparison = each.of(comparison, evidence)
        comparison = with_allowances(comparison, evidence, terms.allowances)
        comparison = decided(comparison, evidence, terms.doubts)
        return decided(comparison, evidence, terms.reviews)


def with_allowances(comparison: Comparison, evidence: Evidence, allowances: Sequence[Term]) -> Comparison:
    """Accept mismatches within the largest allowance; where that leaves nothing to compare, they are inconclusive.

    For an estimate of zero, what is allowed counts as next to zero. What stays a mismatch keeps the error that would
    have been noticed, beside the `parts` that were not enough.
    """
    wrong, error = comparison.where(Verdict.MISMATCH), np.abs(comparison.autodiff - comparison.difference)
    total, parts, left = comparison.allowed, comparison.parts.copy(), wrong
    for each in allowances:
        if not left.any():
            break
        beyond = np.nan_to_num(each.of(comparison, evidence) - (total - comparison.allowed), posinf=np.inf)
        parts[each.name] = np.where(left, np.maximum(beyond, 0.0), 0.0)
        total = total + parts[each.name]
        left = left & ~(error <= total)
    covered = wrong & np.isfinite(comparison.autodiff) & ~left
    allowed = np.where(covered, total, comparison.allowed)
    zero = covered & (np.abs(comparison.difference) <= comparison.bound)
    little = np.where(zero, np.maximum(comparison.little, allowed / EXCLUSION), comparison.little)
    found = replace(comparison, allowed=allowed, parts=parts, little=little).marked(covered, Verdict.AGREE)
    if not covered.any():
        return found
    vacuous = covered & (allowed - comparison.allowed > EXCLUSION * evidence.little(comparison.difference))
    return found.marked(vacuous, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def decided(comparison: Comparison, evidence: Any, terms: Sequence[Term]) -> Comparison:
    """Give entries the verdicts of doubts or reviews that hold; of several, the first one names the cause."""
    given = comparison
    for each in terms:
        left = given.where(each.about) & comparison.where(each.about)
        if left.any():
            comparison = comparison.marked(left & each.of(given, evidence), each.verdict, each.cause)
    return comparison


def smooth_on_finer_rows(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Withdraw kinks that steps a million times finer do not show: there the estimates of the finer samples count."""
    if not evidence.withdrawn.any():
        return comparison
    rows = evidence.finer, evidence.row(FINER, CONFIRM)
    return comparison.replaced(
        evidence.withdrawn, confirmed(*(evidence.compare(evidence.estimate(row)) for row in rows))
    )


def curvature_jump(comparison: Comparison, evidence: Evidence) -> Comparison:
    """Estimate by the one-sided slopes where only the curvature of the differenced quantity jumps."""
    if not comparison.any(Verdict.INCONCLUSIVE):
        return comparison
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
    kinked = first.kind == Smoothness.KINK
    rounding = evidence.own.beside(*interval(first), kinked)
    tolerated = evidence.lines.tolerance.of(comparison.difference)
    slack = rounding + tolerated
    certain = kinked & (second.kind == Smoothness.KINK)
    autodiff = evidence.own.autodiff
    inside = subgradient_allows(first, autodiff, slack) | (certain & subgradient_allows(second, autodiff, slack))
    near = [subgradient_allows(side, autodiff, EXCLUSION * (side.uncertain + slack)) for side in evidence.sides]
    excluded = certain & ~np.logical_or(*near)
    bounded = kinked & np.isfinite(first.reach)
    agrees = kinked & inside
    parts = np.where(bounded, np.zeros_like(comparison.parts), comparison.parts)
    for name, part in (("rounding", rounding), ("tolerance", tolerated)):
        parts[name] = np.where(bounded, part, parts[name])
    comparison = replace(
        comparison,
        difference=np.where(kinked & np.isfinite(first.middle), first.middle, comparison.difference),
        bound=np.where(bounded, first.reach, comparison.bound),
        allowed=np.where(bounded, first.reach + slack, comparison.allowed),
        at_kink=agrees,
        parts=parts,
    ).marked(agrees, Verdict.AGREE)
    comparison = comparison.marked(excluded, Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)
    comparison = comparison.marked(kinked & ~excluded & ~inside, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
    broken = np.isin(first.kind, (Smoothness.JUMP, Smoothness.SINGULAR))
    return comparison.marked(broken, Verdict.INCONCLUSIVE, Reason.JUMP)


def cancelled_terms(comparison: Comparison, evidence: Evidence) -> Array:
    """Allow for the rounding of terms that cancel; where nothing else is left of a derivative, it is next to zero."""
    # The slopes at a kink are compared with their own rounding.
    beside = comparison.where(Verdict.MISMATCH, Kind.SUBDIFFERENTIAL)
    return np.where(beside, 0.0, np.maximum(evidence.residue - comparison.allowed, 0.0))


def lost_digits(comparison: Comparison, evidence: Evidence) -> Array:
    """Allow for the digits that a right derivative loses in low precision, measured against its float64 form."""
    if evidence.lines.problem.in_float64 is None:
        return np.zeros(comparison.verdict.shape)
    return np.asarray(EXCLUSION * evidence.own.lost)


RESIDUE = Term("cancelled terms", cancelled_terms)
LOST_DIGITS = Term("digits lost in low precision", lost_digits)
CURVATURE_JUMP = Term("curvature jump", curvature_jump, nonsmooth=True)
ALIASING = Term("aliasing", doubts.aliasing)
SMALL_JUMP = Term("small jump", doubts.small_jump, Reason.JUMP, nonsmooth=True)
STAIRCASE = Term("staircase", doubts.staircase, Reason.STAIRCASE)
SMALL_KINK = Term("small kink", doubts.small_kink, nonsmooth=True)
HIDDEN_SWING = Term("hidden swing", doubts.hidden_swing)

FIRST_ORDER = Terms(
    estimates=(
        Term("smooth on finer rows", smooth_on_finer_rows, nonsmooth=True),
        CURVATURE_JUMP,
        Term("kink", kink, nonsmooth=True),
    ),
    allowances=(RESIDUE, LOST_DIGITS),
    doubts=(
        ALIASING,
        SMALL_JUMP,
        Term("doubtful kink", doubts.doubtful_kink, nonsmooth=True),
        STAIRCASE,
        SMALL_KINK,
        Term("hidden kink", doubts.hidden_kink, Reason.COMPOSED_KINK, nonsmooth=True),
        HIDDEN_SWING,
    ),
    reviews=(
        Term(
            "edge of the domain", doubts.edge_of_domain, Reason.NOT_FINITE, nonsmooth=True, about=Verdict.INCONCLUSIVE
        ),
        Term("no number", doubts.no_number, Kind.NON_FINITE, about=Verdict.INCONCLUSIVE, verdict=Verdict.MISMATCH),
        Term("wrong in float64", doubts.wrong_in_float64, Kind.WRONG_VALUE, False, Verdict.AGREE, Verdict.MISMATCH),
        Term("beyond a first look", doubts.beyond_a_first_look, about=Verdict.AGREE),
        Term("beyond the tolerance", doubts.beyond_the_tolerance, Reason.TOLERANCE, about=Verdict.AGREE),
    ),
)
"""The terms of first derivatives."""

GRADIENT_DIFFERENCES = Terms(
    estimates=(CURVATURE_JUMP,),
    allowances=(RESIDUE, LOST_DIGITS),
    doubts=(
        ALIASING,
        STAIRCASE,
        SMALL_JUMP,
        SMALL_KINK,
        Term("hidden kink of a gradient", doubts.hidden_kink_of_gradient, Reason.HIGHER_KINK, nonsmooth=True),
        Term("unresolved slope", doubts.unresolved_slope),
    ),
)
"""The terms of second derivatives compared with differences of gradients, before `SWING`."""

SWING = Terms(doubts=(HIDDEN_SWING,))
"""Finds autodiff's own values unresolved, and sums of them; asked last."""

VALUE_AGREEMENT = Terms(allowances=(RESIDUE, LOST_DIGITS))
"""The terms of second differences of values where only their agreement counts."""

VALUE_DIFFERENCES = Terms(
    allowances=(RESIDUE, LOST_DIGITS),
    doubts=(
        Term("many small jumps", doubts.many_small_jumps),
        Term("locally constant", doubts.locally_constant, Reason.STAIRCASE),
        Term("hidden curvature jump", doubts.hidden_curvature_jump, Reason.HIGHER_KINK, nonsmooth=True),
        HIDDEN_SWING,
    ),
)
"""The terms of second derivatives compared with second differences of values."""
