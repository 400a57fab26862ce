"""Sampling a problem along lines, and the derivatives of autodiff along the same lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import seen
from gradcheck.numerics.one_sided import FINEST
from gradcheck.numerics.probing import magnitudes
from gradcheck.numerics.rounding import PROMISE
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
from gradcheck.typing import Array
from gradcheck.verdict.tables import Tolerance

LITTLE = 64.0
"""A change by this many units in the last place of the computed values may be rounding alone."""


@dataclass(frozen=True)
class Lines:
    """The derivatives that are compared: of <w, f> along `directions` (k, n), for `cotangents` w (l, m).

    `gradients`: second derivatives are compared, so that the gradient of <w, f> is sampled, for the only cotangent w:
    all of it, or, along a single direction, its products with the vectors `left`, the last of which is that direction.
    `among`: the directions of the whole check, of which these are some; by default, these.
    """

    problem: Problem
    directions: Array
    cotangents: Array
    tolerance: Tolerance
    gradients: bool = False
    left: LeftVectors | None = None
    among: Array | None = None

    @property
    def moving(self) -> Array:
        """How far the lines of the whole check move each coordinate at most, (n,)."""
        return np.asarray(np.abs(self.directions if self.among is None else self.among).max(axis=0, initial=0.0))

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the arithmetic behind `values`."""
        return self.problem.slope_roundoff if self.gradients else self.problem.roundoff

    def __getitem__(self, lines: Array | slice) -> Lines:
        """These lines restricted to some of the directions."""
        among = self.directions if self.among is None else self.among
        return replace(self, directions=some_rows(self.directions, lines), among=among)

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
        if stencil is QUICK and np.all(shrink == 1.0):
            return self._quick
        return self._sampled(stencil, shrink)

    @cached_property
    def _quick(self) -> Sample:
        return self._sampled(QUICK, 1.0)

    def _sampled(self, stencil: Stencil, shrink: Array | float) -> Sample:
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
        return np.asarray(PROMISE * self.roundoff * np.sqrt(sums))

    def sampled(self, stencil: Stencil, places: Array, shrink: Array) -> Sample:
        """Sample the lines `places` with their usual steps scaled by `shrink`."""
        if stencil is QUICK and np.all(shrink == 1.0):
            return self._quick[places]
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
