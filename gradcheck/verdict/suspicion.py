"""The evidence for the terms of a verdict: a suspicion, with all that was sampled and measured around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradcheck.numerics.difference import EXCLUSION, RELATIVE, Estimate, crude_difference, first_difference
from gradcheck.numerics.one_sided import ROUGH, OneSided, Smoothness, classify, confirm, constant
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import FINE, MANY, QUICK, Sample, Stencil, slices
from gradcheck.problem.problem import Problem
from gradcheck.typing import Array
from gradcheck.verdict.lines import LITTLE, Lines
from gradcheck.verdict.measured_rounding import OwnRounding, ulp_rounding
from gradcheck.verdict.tables import Comparison, compare

DROWNED = 0.01
"""Noise above this share of a gradient leaves nothing of its own derivative."""

ULPS = 2.0
"""A residue of up to this many units in the last place of the cancelled terms is rounding."""

FINER = 2.0**-20
"""Steps scaled to a millionth resolve what the usual steps alias."""

NEARER = 2.0**-10
"""Steps finer than those by this factor show no more than one step of a staircase."""

WIDE = 4096
"""At most this many coordinates of a column of second derivatives are estimated. A longer one is compared by products
with parts, this long, of a random left vector; crude differences choose the coordinates that are estimated."""

SUSPECTS = 8
"""The number of coordinates that are examined behind wrong products."""

UNSMOOTH = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR, Smoothness.CURVATURE_JUMP)
"""The kinds of points at which a function is not twice differentiable along a line."""

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Evidence:
    """A quantity on k lines, sampled with two stencils, and autodiff's derivatives of it, for the terms.

    `lines` sample the quantity, `estimate` differentiates a sample. `own` has autodiff's values (k, c) and measures
    their rounding. `residue` (k, c) is what the rounding of cancelled terms may leave of a derivative, `beside` what
    those of any output may leave, which counts as next to zero. `values` are the samples of the function itself.
    `fixed()` (n,) are the coordinates that kink by themselves, on any line of the check.
    """

    lines: Lines
    samples: Sequence[Sample]
    estimate: Callable[[Sample], Estimate]
    own: OwnRounding
    residue: Array
    beside: Array
    values: Sequence[Sample]
    fixed: Callable[[], Array]

    def compare(self, estimate: Estimate) -> Comparison:
        """Compare autodiff with an estimate; one that resolves errors of a given tolerance is conclusive."""
        own, tolerance = self.own, self.lines.tolerance
        counts: Array | bool = True
        if not tolerance.given:
            # The rest is inconclusive, or agrees, whatever its rounding.
            with np.errstate(invalid="ignore"):
                near = np.abs(own.autodiff - estimate.value) <= EXCLUSION * (estimate.bound + own.granted)
            counts = estimate.conclusive & ~near
        rounding = own.beside(estimate.value - estimate.bound, estimate.value + estimate.bound, counts)
        if tolerance.given:
            resolves = EXCLUSION * (estimate.bound + rounding) <= tolerance.of(estimate.value)
            estimate = replace(estimate, conclusive=estimate.conclusive | resolves)
        return compare(own.autodiff, estimate, tolerance, rounding, factor=EXCLUSION)

    def little(self, difference: Array) -> Array:
        """The largest rounding that leaves something to compare with an estimate, if only that it is next to zero."""
        problem, sample = self.lines.problem, self.samples[0]
        sizes = np.max(np.where(np.isfinite(sample.values), np.abs(sample.values), 0.0), axis=1) / sample.step[:, None]
        rounded = np.maximum(LITTLE * problem.precision * sizes, self.beside)
        return np.asarray(np.maximum(RELATIVE * np.abs(difference), rounded))

    @cached_property
    def finer(self) -> Sample:
        """A sample with the usual steps scaled by FINER, keeping the error floor."""
        return self.row(FINER)

    def row(self, shrink: Array | float, stencil: Stencil | None = None) -> Sample:
        """Resample with the usual steps scaled by `shrink`, keeping the error floor."""
        sample = self.lines.sample(stencil or FINE[self.samples[0].stencil], shrink=shrink)
        return replace(sample, floor=self.samples[0].floor)

    @cached_property
    def closer(self) -> Estimate:
        """The estimate from `finer`."""
        return self.estimate(self.finer)

    def refutes(self, slope: Array, shrink: Array | None = None) -> Array:
        """Whether the estimate from finer steps excludes `slope`, by its bound; not where it cannot tell."""
        closer = self.closer if shrink is None else self.estimate(self.row(shrink))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(closer.value - slope) > closer.bound)

    @cached_property
    def nearest(self) -> Array:
        """The kind of point (k, c) that the function's values show on steps scaled by FINER."""
        if not self.lines.gradients:
            return classify(replace(self.finer, floor=0.0)).kind
        rows = replace(self.lines, gradients=False, left=None).sample(self.finer.stencil, shrink=FINER)
        return classify(rows).kind

    @cached_property
    def coarse_sides(self) -> list[OneSided]:
        """The one-sided sequences of both samples."""
        return [classify(sample) for sample in self.samples]

    @cached_property
    def withdrawn(self) -> Array:
        """Apparent kinks (k, c) that finer steps show to be smooth."""
        rough, confirmed_rough = (np.isin(sides[0].kind, ROUGH) for sides in (self.coarse_sides, self.sides))
        return np.asarray(rough & ~confirmed_rough)

    @cached_property
    def sides(self) -> list[OneSided]:
        """The same, without the kinks that finer steps show to be smooth."""
        if not np.isin(self.coarse_sides[0].kind, ROUGH).any():
            return self.coarse_sides
        finer = classify(self.finer)
        return [confirm(side, finer) for side in self.coarse_sides]


def residue(problem: Problem, sample: Sample, cotangents: Array, lengths: Array, *, of_any: bool = False) -> Array:
    """Return what the rounding of cancelled terms may leave of the derivatives of combinations of outputs (c, m).

    With `of_any`, the terms of any output count for all. `lengths` are the products of the steps by which the terms are
    divided. A function that is zero up to rounding on the whole sample, such as a vanishing imaginary part, does not
    show its terms: then the inputs' size is taken instead. What low precision leaves is measured with a float64 form
    whose inner values are perturbed by low-precision roundings.
    """
    weights = np.max(np.abs(cotangents), axis=1, initial=0.0)
    terms = problem.terms * weights if of_any else problem.terms_of(cotangents)
    size = np.max(magnitudes(problem.point)) * weights
    nothing = constant(sample) & (terms <= EXCLUSION * ULPS * problem.precision * size)
    terms = np.where(nothing, size, terms)
    with np.errstate(invalid="ignore", divide="ignore"):
        measured = problem.in_float64 is not None and problem.in_float64.rounds_inside
        precision = problem.roundoff if measured else problem.precision
        return np.asarray(EXCLUSION * ULPS * precision * terms / lengths)


def rough_lines(lines: Lines, gradients: Sample, values: Sample) -> Array:
    """Where the function is not twice differentiable along a line, (k, 1).

    Of the gradient only a kink counts: a jump that the values do not show as a kink is a wrong gradient there. A kink
    that finer steps show to be smooth lies near the point, not at it.
    """
    sides = classify(values), classify(gradients)
    rough = _unsmooth(*sides)
    suspects = np.flatnonzero(rough)
    if suspects.size:
        lines = lines[suspects]
        rows = (one.sample(FINE[values.stencil], shrink=FINER) for one in (lines, replace(lines, gradients=True)))
        finer = (confirm(side[suspects], classify(row)) for side, row in zip(sides, rows, strict=True))
        rough[suspects] = _unsmooth(*finer)
    return rough[:, None]


def _unsmooth(values: OneSided, gradients: OneSided) -> Array:
    """Lines (k,) that the values, or a kink of the gradients, show to be not twice differentiable."""
    kinked = gradients.kind == Smoothness.KINK
    return np.asarray(kinked.any(axis=1) | np.isin(values.kind, UNSMOOTH).any(axis=1))


def noise_dominated(sample: Sample) -> Array:
    """Where the noise exceeds DROWNED times the finest values, which then are mostly rounding, (k, c)."""
    noise = rounding_of(replace(sample, floor=0.0)).values[-1]
    fine = np.abs([sample.left[:, -1], sample.right[:, -1]])
    return np.asarray(noise > DROWNED * np.max(fine, axis=0))


def worst_coordinates(line: Lines, autodiff: Array, shrink: Array) -> Array:
    """The coordinates where second derivatives (n,) along a line miss estimates from the quick look's gradients most.

    Of very many, only those are estimated whose crude differences they miss most. `shrink` (1,) scales the quick look's
    steps.
    """
    sample = replace(line, gradients=True, left=None).sample(QUICK, shrink=shrink)
    granted = ulp_rounding(autodiff, line.problem.precision) + TINY

    def worst(count: int, places: Array, value: Array, error: Array) -> Array:
        missed = np.abs(autodiff[places] - value) / (error + granted[places])
        missed[~np.isfinite(autodiff[places])] = np.inf
        return np.asarray(places[np.argsort(-np.nan_to_num(missed, nan=0.0, posinf=np.inf))[:count]])

    places = np.arange(autodiff.size)
    if places.size > WIDE:
        crude = np.concatenate(
            [crude_difference(sample.of_outputs(part)) for part in slices(places.size, MANY)], axis=2
        )
        places = worst(WIDE, places, *crude[:, 0])
    estimate = first_difference(sample.of_outputs(places))
    return worst(SUSPECTS, places, estimate.value[0], estimate.bound[0])
