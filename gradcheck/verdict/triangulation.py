"""Triangulate second derivatives: which of three estimates stands alone, and what one estimate says about another."""

from __future__ import annotations

import numpy as np

from gradcheck.numerics.difference import Estimate
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.lines import Lines
from gradcheck.verdict.suspicion import FINER, NEARER, Evidence
from gradcheck.verdict.tables import EXCLUSION, Comparison


def beyond_gaps(diagonal: Comparison, gaps: Array, lines: Lines) -> Comparison:
    """Excuse the diagonal where it is off by no more than the `gaps` (k, c) of the entries that it is summed from."""
    covered = np.abs(diagonal.autodiff - diagonal.difference) <= 2 * lines.twice(gaps, bounds=True)
    return diagonal.excused(covered, Reason.ILL_CONDITIONED)


def noisy_gaps(entries: Comparison, noisy: Array) -> Array:
    """The errors that `noisy` entries may bring into the diagonal.

    A gradient may be nothing but rounding, as 1 - 2 x F(x) far out, with Dawson's integral F. Its derivative is then
    amplified rounding, which may be alike at all neighbours. And steps that alias gradients alias values, too.
    """
    return np.where(noisy, np.abs(entries.autodiff - entries.difference), 0.0)


def narrow_gaps(entries: Comparison, wide: Estimate, gradients: Evidence, values: Evidence) -> Array:
    """The same for a part of the function that is narrower than the usual steps, unless `values` contradict it there.

    Within 1e-10 of a point a second derivative may differ from that around it. Differences of gradients resolve that
    with finer steps, at which second differences of values are nothing but rounding. Where one entry agrees on such
    steps only, the undecided ones of its line count as part of the same function.
    """
    autodiff, agree = entries.autodiff, np.zeros(entries.verdict.shape, bool)
    radius = np.zeros(agree.shape)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(autodiff - wide.value)
        for row in (gradients.closer, gradients.estimate(gradients.row(FINER * NEARER))):
            near = (np.abs(autodiff - row.value) <= row.bound) & (EXCLUSION * row.bound < gaps)
            agree |= near
            radius = np.where(near, np.maximum(radius, row.radius), radius)
        agree &= gaps > EXCLUSION * wide.bound
    seen = agree.any(axis=1, keepdims=True)
    if not seen.any():
        return np.zeros_like(gaps)
    least = np.min(radius, axis=1, where=agree, initial=np.inf)
    seen &= ~values.refutes(values.own.autodiff, np.minimum(least / values.samples[0].step, 1.0))
    narrow = agree | (entries.where(Verdict.INCONCLUSIVE) & np.isfinite(gaps))
    return np.where(seen & narrow, gaps, 0.0)


def triangulated(entries: Comparison, diagonal: Comparison, lines: Lines) -> tuple[Comparison, str | None]:
    """Return the entries, and the name of the one of the three estimates that contradicts the two others."""
    if not entries.any(Verdict.MISMATCH):
        return entries, "differences of function values" if diagonal.any(Verdict.MISMATCH) else None
    differences = lines.twice(np.where(np.isfinite(entries.difference), entries.difference, 0.0))
    bounds = lines.twice(entries.bound, bounds=True) + diagonal.bound
    apart = np.abs(differences - diagonal.difference) > EXCLUSION * bounds
    if not (diagonal.where(Verdict.AGREE) & apart).all():
        return entries, "autodiff of autodiff"
    # The first derivative is wrong near the point, not the second; the first order has to find that.
    return entries.excused(True, Reason.ILL_CONDITIONED), "differences of the first autodiff derivative"
