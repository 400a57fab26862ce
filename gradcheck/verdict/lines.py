"""Sampling a problem along lines, autodiff's derivatives along the same lines, and their rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import seen
from gradcheck.numerics.difference import (
    ABSOLUTE,
    RELATIVE,
    Estimate,
    first_difference,
    orderly_part,
    second_difference,
    tight,
)
from gradcheck.numerics.one_sided import constant
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import (
    FIRST,
    QUICK,
    LinePoints,
    Sample,
    Stencil,
    largest_steps,
    least_magnitude,
    sample_lines,
    typical_magnitude,
)
from gradcheck.problem.problem import Problem
from gradcheck.tracing.perturbation import (
    choices_of,
    perturbed_gradients,
    perturbed_matrices,
    perturbed_operations,
)
from gradcheck.typing import Array
from gradcheck.verdict.tables import Tolerance

ULPS = 4.0
"""Autodiff is granted the mixed error that is promised for functions, 4 units in the last place."""

DRAWS, FIRST_DRAWS = 8, 2
SPREAD = 2.0
"""The largest of DRAWS perturbations may miss the largest possible one by this factor. After FIRST_DRAWS no more are
drawn where all values agree without them, or are too far off."""

LITTLE = 64.0
"""A change by this many units in the last place of the computed values may be rounding alone."""

BEYOND = QUICK.ratio**-QUICK.count
"""Steps scaled by this start beyond the finest of the steps before."""

FINEST = 3
"""Number of finest steps on which a value that is isolated at the point keeps its distance."""


@dataclass(frozen=True)
class Lines:
    """The derivatives that are compared: of <w, f> along `directions` (k, n), for `cotangents` w (l, m).

    `gradients`: second derivatives are compared, so that the gradient of <w, f> is sampled, for the only cotangent w:
    all of it, or, along a single direction, its products with the vectors `left`, the last of which is that direction.
    """

    problem: Problem
    directions: Array
    cotangents: Array
    tolerance: Tolerance
    gradients: bool = False
    left: LeftVectors | None = None

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the arithmetic behind `values`."""
        return self.problem.slope_roundoff if self.gradients else self.problem.roundoff

    def __getitem__(self, lines: Array | slice) -> Lines:
        """These lines restricted to some of the directions."""
        return replace(self, directions=some_rows(self.directions, lines))

    def values(self, points: Array | LinePoints, problem: Problem | None = None) -> Array:
        """Return the values (p, l) of <w, f> at points (p, n), or its seen gradient, for this or a perturbed problem.

        Outputs of weight zero do not count, not even when they are not finite.
        """
        problem = problem or self.problem
        if self.gradients:
            return problem.gradients_at(self.cotangents[0], points, self.left)
        used = np.any(self.cotangents != 0, axis=0)
        with np.errstate(invalid="ignore", over="ignore"):
            product: Array = problem.values(points)[..., used] @ self.cotangents[:, used].T
        return product

    def seen(self, gradients: Array) -> Array:
        """Gradients (p, n), or their products with the left vectors (p, c)."""
        return seen(gradients, self.left)

    def twice(self, entries: Array, *, bounds: bool = False) -> Array:
        """Return second derivatives (k, 1) along each direction twice, or their bounds, from the seen ones (k, c)."""
        if self.left is not None:
            return entries[:, -1:]
        weights = np.abs(self.directions) if bounds else self.directions
        return np.asarray(np.sum(entries * weights, axis=1, keepdims=True))

    @property
    def lengths(self) -> Array:
        """Step (c,) along each axis, or left vector, at which a coordinate has moved by its own magnitude."""
        sizes = magnitudes(self.problem.point)
        if self.left is None:
            return sizes
        return 1.0 / self.left.over(np.maximum, lambda vector, at: np.abs(vector) / sizes[at])

    def sample(self, stencil: Stencil = FIRST, *, shrink: Array | float = 1.0) -> Sample:
        """Sample all lines; `shrink` scales the usual steps of all, or of each line (k,)."""
        count = len(self.cotangents)
        unit = self.cotangents.shape == (count, count) and np.array_equal(self.cotangents, np.eye(count))
        evaluate = None if unit and not self.gradients else self.values
        taken = sample_values(self.problem, self.directions, evaluate, stencil, shrink=shrink, eps=self.roundoff)
        if not self.gradients:
            return taken
        return with_limits(taken if self.left is None else replace(taken, floor=self._rounding_of_sums()))

    def _rounding_of_sums(self) -> Array:
        """Return the rounding (c,) that the entries of a gradient bring into its products with the left vectors.

        The rounding errors of so many entries are taken to be independent.
        """
        assert self.left is not None
        (gradient,) = self.problem.gradients_at(self.cotangents[0], self.problem.point[None, :])
        sums = self.left.over(np.add, lambda vector, at: (vector * np.nan_to_num(gradient[at])) ** 2)
        return np.asarray(ULPS * self.roundoff * np.sqrt(sums))

    def sampled(self, stencil: Stencil, places: Array, shrink: Array) -> Sample:
        """Sample the lines `places` with their usual steps scaled by `shrink`."""
        return self[places].sample(stencil, shrink=shrink)


def some_rows(array: Array, rows: Array | slice) -> Array:
    """Return some of the rows; the array itself for all of them in order, since a large one is expensive to copy."""
    every = np.arange(len(array))
    return array if np.array_equal(every[rows], every) else array[rows]


def sample_values(
    problem: Problem,
    directions: Array,
    evaluate: Callable[[LinePoints], Array] | None = None,
    stencil: Stencil = FIRST,
    *,
    shrink: Array | float = 1.0,
    eps: float | None = None,
) -> Sample:
    """Sample the outputs, or `evaluate(points)`, on lines that stay in the sets of the inputs.

    `eps` is the unit roundoff of the evaluated quantity, by default that of the outputs.
    """
    eps = eps or problem.roundoff
    steps = problem.feasible_steps(directions, shrink * _steps_inside(problem, directions, stencil, eps))
    return sample_lines(evaluate or problem.values, problem.point, directions, stencil, eps, steps)


def _steps_inside(problem: Problem, directions: Array, stencil: Stencil, eps: float) -> Array:
    """The largest steps (k,) of lines, by a coordinate's own size where the finest step would cross a nearer edge.

    The usual steps take a tiny coordinate for a larger one, which leaves the domain of log at 1e-300.
    """
    point, steps = problem.point, largest_steps(problem.point, directions, stencil, eps=eps)
    if problem.smallest >= least_magnitude(typical_magnitude(point), eps):
        return steps
    own = largest_steps(point, directions, stencil, eps=eps, own=True)
    finest = steps * stencil.steps[-1]
    for line in np.flatnonzero(own < finest):
        moved = finest[line] * directions[line]
        centre, *sides = problem.values(np.stack([point, point + moved, point - moved]))
        if (np.isfinite(centre) & ~np.isfinite(sides).all(axis=0)).any():
            steps[line] = own[line]
    return steps


def with_limits(gradients: Sample) -> Sample:
    """Replace a gradient that is isolated at the point by the limit from both sides.

    No derivative has a removable discontinuity (Darboux), so that such a gradient is wrong: the first order has to find
    that, and it says nothing about differences between other points. Near a kink, the means of both sides approach
    the value at the point; here they keep their distance.
    """
    centre = gradients.values[:, :1]
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = (gradients.left[:, -FINEST:] + gradients.right[:, -FINEST:]) / 2 - centre
        sizes, noise = np.abs(gaps), LITTLE * gradients.eps * np.abs(centre[:, 0])
        alone = (np.abs(np.sign(gaps).sum(axis=1)) == FINEST) & (sizes.min(axis=1) > noise)
        alone &= sizes.min(axis=1) > sizes.max(axis=1) / 2
    if not alone.any():
        return gradients
    values = gradients.values.copy()
    values[:, gradients.stencil.offsets == 0] += np.where(alone, gaps[:, -1], 0.0)[:, None]
    return replace(gradients, values=values)


Sampled = Callable[[Array, Array], Sample]
"""`sampled(places, shrink)` samples the lines `places` with a light stencil and steps scaled by `shrink`."""


def quick_estimate(
    sampled: Sampled, lines: int, enough: Callable[[Estimate], Estimate] = lambda estimate: estimate
) -> Estimate:
    """Return first differences from few values, conclusive only where they are tight, or `enough` makes them so.

    Lines that only finer steps show to be smooth are sampled a second time within these.
    """
    sample = sampled(np.arange(lines), np.ones(lines))
    with np.errstate(all="ignore"):
        rounding = rounding_of(sample)
    estimate = enough(with_constants(tight(first_difference(sample, rounding), sample), sample))
    if estimate.conclusive.all():
        return estimate
    shrink = orderly_part(sample, rounding)
    return enough(taken_again(sampled, estimate, np.where((shrink > 0) & (shrink < 1), shrink, np.nan)))


def first_look(
    sampled: Sampled, lines: int, enough: Callable[[Estimate], Estimate] = lambda estimate: estimate
) -> Estimate:
    """Extend `quick_estimate` beyond its finest step where it sees nothing: of many coordinates some kink is near."""
    estimate = quick_estimate(sampled, lines, enough)
    blind = ~sharp_beside(estimate, RELATIVE, axis=0).all(axis=1)
    return taken_again(sampled, estimate, np.where(blind, BEYOND, np.nan))


def taken_again(sampled: Sampled, estimate: Estimate, shrink: Array) -> Estimate:
    """Improve the estimate with steps scaled by `shrink`, on lines that are not tight and where it is not NaN."""
    places = np.flatnonzero(~estimate.conclusive.all(axis=1) & np.isfinite(shrink))
    if not len(places):
        return estimate
    sample = sampled(places, shrink[places])
    return estimate.replaced(places, estimate[places].better(tight(first_difference(sample), sample)))


def sharp_beside(estimate: Estimate, share: float, axis: int) -> Array:
    """Entries that are conclusive, or whose bound is at most `share` of the largest conclusive value along `axis`."""
    largest = np.max(np.abs(estimate.value), axis=axis, keepdims=True, where=estimate.conclusive, initial=0.0)
    return np.asarray(estimate.conclusive | (estimate.bound <= share * largest))


def slope_estimate(sample: Sample) -> Estimate:
    """The first difference of a sample, conclusive also where the sample is constant."""
    return with_constants(first_difference(sample), sample)


def curvature_estimate(values: Sample) -> Estimate:
    """The second difference of a sample."""
    rounding = rounding_of(values)
    return second_difference(values, first_difference(values, rounding), rounding)


def with_constants(estimate: Estimate, sample: Sample) -> Estimate:
    """Make the derivative zero of a function that is constant on all steps conclusive, in any precision.

    Unless perturbing its inner values moves it: then it is constant because digits are lost.
    """
    if estimate.conclusive.all():
        return estimate
    flat = constant(sample) & np.isfinite(estimate.value) & (np.asarray(sample.floor) == 0)
    little = np.where(flat, np.maximum(estimate.little, estimate.bound), estimate.little)
    return replace(estimate, conclusive=estimate.conclusive | flat, little=little)


def scaled_by_values(estimate: Estimate, values: Sample, lines: Lines, share: float = ABSOLUTE) -> Estimate:
    """Make estimates conclusive also where the bound is at most `share` of |f| over the product of the two steps.

    A gradient that vanishes identically consists of rounding, and is no scale for its own differences.
    """
    sizes = np.abs(np.where(np.isfinite(values.values), values.values, 0.0))
    size = np.max(np.where(values.within(estimate.radius), sizes, 0.0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = size / (estimate.radius * lines.lengths)
    small = np.isfinite(estimate.bound) & (estimate.bound <= share * sizes)
    little = np.where(np.isfinite(sizes), np.maximum(estimate.little, ABSOLUTE * sizes), estimate.little)
    return replace(estimate, conclusive=estimate.conclusive | small, little=little)


def ulp_rounding(autodiff: Array, precision: float) -> Array:
    """The rounding that is granted to every autodiff value without measurement."""
    finite = np.where(np.isfinite(autodiff), np.abs(autodiff), 0.0)
    granted: Array = 2 * ULPS * precision * finite
    return granted


Settled = Callable[[Sample], bool]
"""Whether autodiff's values agree with a sample's estimates, or are too far off for rounding to be the cause."""


def with_inner_rounding(lines: Lines, *samples: Sample, enough: Settled) -> tuple[Sample, ...]:
    """Raise the error floor of samples of the lines to the effect of perturbing inner values.

    A function that has lost its digits inside may look constant, and its error bound does not show it. So may a
    gradient, so that the backward pass of each operation is perturbed, too. For gradients the forward pass is perturbed
    only where the problem reaches its inner values: elsewhere that would break ties, which moves a gradient but not a
    value. Comparisons are held: another branch is no rounding. Two draws do if `enough` holds for all samples.
    """
    point, changes = lines.problem.point[None, :], list[Array]()
    plain, chosen = lines.values(point)[0], None

    def rounded() -> tuple[Sample, ...]:
        floor = SPREAD * np.max(np.where(np.isfinite(changes), changes, 0.0), axis=0)
        return tuple(replace(sample, floor=np.maximum(sample.floor, floor)) for sample in samples)

    with np.errstate(invalid="ignore", over="ignore"):
        for draw in range(DRAWS):
            if chosen is None and not lines.gradients and lines.problem.perturbed(draw) is lines.problem:
                chosen = choices_of(lambda: lines.values(point))
            with _perturbed(lines.problem, draw, chosen) as noisy:
                changes.append(np.abs(lines.values(point, noisy)[0] - plain))
            if len(changes) == FIRST_DRAWS and all(map(enough, rounded())):
                break
    return rounded()


@contextmanager
def _perturbed(problem: Problem, draw: int, choices: Sequence[Any] | None) -> Iterator[Problem]:
    """Perturb the inner values of a problem in the block; those of its forward pass only with `choices`.

    A problem that reaches its inner values perturbs these itself.
    """
    noisy = problem.perturbed(draw)
    inner = noisy is problem and choices is not None
    operations = perturbed_operations(draw, choices=choices or ()) if inner else perturbed_matrices(draw)
    with perturbed_gradients(draw), operations:
        yield noisy


def inner_rounding(lines: Lines, sample: Sample, places: Array, draw: int) -> Array:
    """Return the change (k, places, m) of a sample's values at some points when inner values are perturbed.

    Other branches may be taken: away from the point a tie is there by chance, and rounding decides it.
    """
    offsets = sample.step[:, None] * sample.stencil.offsets[places]
    points, plain = LinePoints.on(lines.problem.point, lines.directions, offsets), sample.values[:, places]
    with np.errstate(invalid="ignore", over="ignore"), _perturbed(lines.problem, draw, ()) as noisy:
        changes = np.abs(lines.values(points, noisy)[1:].reshape(plain.shape) - plain)
    return np.asarray(np.nan_to_num(changes, posinf=0.0))
