"""Autodiff's derivatives compared with their finite-difference estimates, entry by entry, with a verdict for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from itertools import compress
from operator import or_
from typing import Any

import numpy as np

from gradcheck.numerics.difference import EXCLUSION, Estimate
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array

GRANTED = 4.0
"""A closer look may allow this many times what an earlier one does, as it measures rounding and lost digits."""

LEFT = 2.0**-20
"""float64 loses less than this part of what float32, or less, loses of a derivative: its unit is 2**-29 of theirs."""

GROSS = 1e6
"""An error of this many times what would have been noticed is gross: beyond what chance makes of the roundings of a
sum. A few wide steps show it as surely as many, and one perturbed value does."""

WORD = np.dtype(f"U{max(map(len, (*Verdict, *Kind, *Reason)))}")
"""The dtype of arrays of verdicts, kinds and reasons."""

ALLOWANCES = ("cancelled terms", "digits lost in low precision")
"""The names of what is allowed of a mismatch only."""

PARTS = np.dtype([(name, float) for name in ("rounding", "tolerance", *ALLOWANCES)])
"""The dtype of arrays of the parts of an allowed error; the rest is the error of the estimate."""


@dataclass(frozen=True)
class Tolerance:
    """Errors up to `atol + rtol * |difference|` do not matter; None: every error that can be noticed matters."""

    rtol: float | None = None
    atol: float | None = None

    @property
    def given(self) -> bool:
        """Whether rtol or atol was given."""
        return self.rtol is not None or self.atol is not None

    def __str__(self) -> str:
        given = {"rtol": self.rtol, "atol": self.atol}
        return " and ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)

    def of(self, difference: Array) -> Array:
        """The allowed error of each entry."""
        sizes = np.where(np.isfinite(difference), np.abs(difference), 0.0)
        allowed: Array = (self.atol or 0.0) + (self.rtol or 0.0) * sizes
        return allowed


@dataclass(frozen=True)
class Comparison:
    """Derivatives compared along lines (rows of the arrays), one column per output; all arrays have one shape.

    `difference` is the finite-difference estimate, within `bound`; `allowed` is the largest error that would not have
    been noticed, with the named `parts` of it, of a mismatch also those that were not enough. `little` is an error that
    is negligible compared with the function's values there. `verdict` holds values of Verdict, `cause` values of Kind
    where it is a mismatch, of Reason where it is inconclusive, else "". `at_kink` marks agreement with a subgradient.

    The rest says where the entries lie: `coordinates` has that of each line (None for a random direction), `outputs`
    that of each column of the arrays (None for a random combination). `contribution` is the largest single
    product in each probe, `shares` (k, l, sources) is the share of each source in its derivative, `lost` (k, l) is what
    low precision is seen to lose in each, which may be more than is allowed, `behind` is the number of entries behind
    all of them. `searched`: an entry that a search found behind failing probes; there may be others. `again`: a further
    look at entries that another comparison counts. `directions` (columns of the arrays, n): for second derivatives,
    those of the other derivative; a line without a coordinate goes along that direction twice. `alone` names the
    estimate of second derivatives that contradicts the two others.
    """

    autodiff: Array
    difference: Array
    bound: Array
    allowed: Array
    little: Array
    verdict: Array
    cause: Array
    at_kink: Array
    parts: Array
    coordinates: tuple[int | None, ...] = ()
    outputs: tuple[int | None, ...] = ()
    contribution: Array | None = None
    shares: Array | None = None
    lost: Array | None = None
    behind: int = 0
    searched: bool = False
    again: bool = False
    directions: Array | None = None
    alone: str | None = None

    @staticmethod
    def agreeing(
        autodiff: Array, difference: Array, bound: Array, allowed: Array, little: Array | None = None
    ) -> Comparison:
        """A comparison whose entries all agree."""
        shape = autodiff.shape
        agree, none, nowhere = (
            np.full(shape, Verdict.AGREE.value, WORD),
            np.full(shape, "", WORD),
            np.zeros(shape, bool),
        )
        little = np.zeros(shape) if little is None else little
        return Comparison(autodiff, difference, bound, allowed, little, agree, none, nowhere, np.zeros(shape, PARTS))

    def where(self, verdict: Verdict, *causes: Kind | Reason) -> Array:
        """Entries with this verdict, and one of these causes if any are given; boolean."""
        found: Array = self.verdict == verdict.value  # NumPy compares with a plain string six times as fast
        return found & reduce(or_, [self.cause == cause.value for cause in causes]) if causes else found

    def any(self, verdict: Verdict) -> bool:
        """Whether any entry has this verdict."""
        return bool(self.where(verdict).any())

    def marked(self, mask: Array, verdict: Verdict, cause: Kind | Reason | None = None) -> Comparison:
        """The comparison with this verdict, for this cause, where `mask` says so."""
        if not mask.any():
            return self
        words = np.where(mask, verdict.value, self.verdict), np.where(mask, cause.value if cause else "", self.cause)
        return replace(self, verdict=words[0], cause=words[1])

    def excused(self, mask: Array | bool, reason: Reason) -> Comparison:
        """The comparison whose mismatches are inconclusive where `mask` says so."""
        return self.marked(self.where(Verdict.MISMATCH) & mask, Verdict.INCONCLUSIVE, reason)

    def replaced(self, mask: Array, other: Comparison) -> Comparison:
        """The comparison with the entries of another one where `mask` says so."""
        return combined(lambda own, others: np.asarray(np.where(mask, others, own)), self, other)

    def spread(self, lines: Array, columns: Array | None = None) -> Comparison:
        """Put this comparison's lines in the marked places of all lines (k,); any of them fills the other places.

        Its `columns` go to the marked places of all columns (l,) in the same way.
        """
        places = np.cumsum(lines) - 1, slice(None) if columns is None else np.cumsum(columns) - 1
        return combined(lambda array: array[places[0]][:, places[1]], self)

    def kept(self, mask: Array, axis: int) -> Comparison:
        """The comparison of some of its lines (axis 0), or of its outputs or combinations of them (axis 1)."""
        some = combined(partial(np.compress, mask, axis=axis), self)
        probes = (self.contribution, self.shares, self.lost)
        contribution, shares, lost = (None if of is None else np.compress(mask, of, axis=axis) for of in probes)
        coordinates, outputs = (
            tuple(compress(places, mask.tolist())) if axis == own else places
            for own, places in enumerate((self.coordinates, self.outputs))
        )
        return replace(
            some, coordinates=coordinates, outputs=outputs, contribution=contribution, shares=shares, lost=lost
        )

    def named(self, missing: Array | bool = False) -> Comparison:
        """Name the kinds of wrong values: missing where TensorFlow gave None, non-finite, else unchanged."""
        endless = self.where(Verdict.MISMATCH, Kind.WRONG_VALUE) & ~np.isfinite(self.autodiff)
        named = self.marked(endless, Verdict.MISMATCH, Kind.NON_FINITE)
        return named.marked(self.where(Verdict.MISMATCH) & missing, Verdict.MISMATCH, Kind.MISSING)

    @property
    def gross(self) -> Array:
        """Mismatches that are off by so much that no digit of the estimate matters, boolean."""
        return np.asarray(self.where(Verdict.MISMATCH) & (self.excess() > GROSS))

    @property
    def grossly_off(self) -> bool:
        """Whether every entry that does not agree is off by so much, and one is."""
        gross = self.gross
        return bool(gross.any() and (gross | self.where(Verdict.AGREE)).all())

    @property
    def decided_wrong(self) -> bool:
        """Whether there is a mismatch, and nothing is inconclusive."""
        return self.any(Verdict.MISMATCH) and not self.any(Verdict.INCONCLUSIVE)

    def excess(self) -> Array:
        """The error over what is allowed: below 1 unless something is wrong (inf where autodiff is not finite)."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = np.abs(self.autodiff - self.difference) / np.maximum(self.allowed, np.finfo(np.float64).tiny)
        ratio = np.where(np.isfinite(self.autodiff), ratio, np.inf)
        return np.where(self.where(Verdict.INCONCLUSIVE), 0.0, ratio)


ARRAYS = tuple(field.name for field in fields(Comparison))[:9]


def compare(autodiff: Array, estimate: Estimate, tolerance: Tolerance, rounding: Array, *, factor: float) -> Comparison:
    """Compare autodiff's derivatives, and their `rounding`, with one estimate.

    They agree within `factor` bounds, else they are a mismatch for now; inconclusive where the estimate is, and where a
    given tolerance is finer than the error that would have been noticed, which `allowed` holds there.
    """
    error = np.abs(autodiff - estimate.value)
    uncertain = estimate.bound + rounding
    noticed, wanted = EXCLUSION * uncertain, tolerance.of(estimate.value)
    beyond = np.maximum(wanted - noticed, 0.0)
    with np.errstate(invalid="ignore"):
        close = error <= np.maximum(factor * uncertain, wanted)
        too_fine: Array = np.zeros(error.shape, bool)
        if tolerance.given:
            # An estimate that is zero within its bound requires no relative resolution, but an absolute one.
            waived = (np.abs(estimate.value) <= estimate.bound) & (not tolerance.atol)
            too_fine = close & (noticed > wanted) & ~waived
            noticed = np.maximum(noticed, wanted)
    comparison = Comparison.agreeing(autodiff, estimate.value, estimate.bound, noticed, estimate.little)
    comparison.parts["rounding"], comparison.parts["tolerance"] = EXCLUSION * rounding, beyond
    comparison = comparison.marked(~close, Verdict.MISMATCH, Kind.WRONG_VALUE)
    comparison = comparison.marked(too_fine, Verdict.INCONCLUSIVE, Reason.TOLERANCE)
    return comparison.marked(~estimate.conclusive, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)


def combined(function: Callable[..., Array], *comparisons: Comparison) -> Comparison:
    """Apply the function to the comparisons' arrays, field by field; the other fields are those of the first."""
    arrays: dict[str, Any] = {name: function(*(getattr(one, name) for one in comparisons)) for name in ARRAYS}
    return replace(comparisons[0], **arrays)


def confirmed(first: Comparison, second: Comparison) -> Comparison:
    """Require both tableaus for a mismatch; where only the first was inconclusive, the second may still agree."""
    rescued = first.where(Verdict.INCONCLUSIVE) & second.where(Verdict.AGREE)
    doubted = first.where(Verdict.MISMATCH) & ~second.where(Verdict.MISMATCH)
    return first.replaced(rescued | doubted, second)
