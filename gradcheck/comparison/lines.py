"""Sampling a problem along lines, and autodiff's derivatives along the same lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.comparison.tables import Tolerance
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.one_sided import constant
from gradcheck.numerics.sampling import largest_steps, sample
from gradcheck.numerics.stencil import FIRST, Sample, Stencil

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lines:
    """What is compared: the derivatives of <w, f> along `directions` (k, n), for `cotangents` w (l, m)."""

    problem: Problem
    directions: Array
    cotangents: Array
    tolerance: Tolerance

    def some(self, lines: Array | slice) -> Lines:
        """The same for some of the directions."""
        return replace(self, directions=self.directions[lines])

    def values(self, points: Array) -> Array:
        """The values (p, l) of <w, f> at points (p, n)."""
        return weighted(self.problem.values(points), self.cotangents)

    def centre(self, problem: Problem) -> Array:
        """The values (l,) of <w, f> at the point, as this problem or a perturbed one computes them."""
        centre: Array = weighted(problem.values(self.problem.point[None, :]), self.cotangents)[0]
        return centre

    def sample(self, stencil: Stencil = FIRST, *, shrink: float = 1.0) -> Sample:
        """The values (k, points, l) of <w, f>; `shrink` makes all steps smaller than usual."""
        count = len(self.cotangents)
        unit = self.cotangents.shape == (count, count) and np.array_equal(self.cotangents, np.eye(count))
        return sample_values(self.problem, self.directions, None if unit else self.cotangents, stencil, shrink=shrink)

    def sample_gradient(self, stencil: Stencil = FIRST, *, shrink: float = 1.0) -> Sample:
        """The gradients (k, points, n) of <w, f> for the only cotangent w."""

        def evaluate(points: Array) -> Array:
            return self.problem.gradients_at(self.cotangents[0], points)

        return _sampled(evaluate, self.problem, self.directions, stencil, self.problem.gradient_roundoff, shrink)


def sample_values(
    problem: Problem, directions: Array, cotangents: Array | None, stencil: Stencil = FIRST, *, shrink: float = 1.0
) -> Sample:
    """Sample <w, f> for each row w of the cotangents (None: every output by itself) on the lines."""

    def evaluate(points: Array) -> Array:
        values = problem.values(points)
        return values if cotangents is None else weighted(values, cotangents)

    return _sampled(evaluate, problem, directions, stencil, problem.roundoff, shrink)


def _sampled(
    evaluate: Callable[[Array], Array],
    problem: Problem,
    directions: Array,
    stencil: Stencil,
    eps: float,
    shrink: float,
) -> Sample:
    """A sample on lines of which neither side leaves the sets of the inputs."""
    steps = problem.feasible_steps(directions, shrink * largest_steps(problem.point, directions, stencil, eps=eps))
    return sample(evaluate, problem.point, directions, stencil=stencil, eps=eps, step=steps)


def slope_estimate(sample: Sample) -> Estimate:
    """The first difference of a sample, constants included."""
    return with_constants(first_difference(sample), sample)


def with_constants(estimate: Estimate, sample: Sample) -> Estimate:
    """A function that is constant on the whole row has the derivative zero in any precision.

    Unless a perturbation of its inner values moves it: then it is constant for want of digits.
    """
    flat = constant(sample) & np.isfinite(estimate.value) & (np.asarray(sample.floor) == 0)
    return replace(estimate, conclusive=estimate.conclusive | flat)


def weighted(values: Array, cotangents: Array) -> Array:
    """<w, values> for each row w; outputs of weight zero do not count, not even when they are not finite."""
    used = np.any(cotangents != 0, axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        product: Array = values[..., used] @ cotangents[:, used].T
    return product


def along(directions: Array, gradients: Array) -> Array:
    """The derivatives (k, l) along directions (k, n) of gradients (l, n); a NaN counts only where the line moves."""
    finite = np.isfinite(gradients)
    product: Array = directions @ np.where(finite, gradients, 0.0).T
    for row in np.flatnonzero(~finite.all(axis=1)):
        for line in np.flatnonzero((directions[:, ~finite[row]] != 0).any(axis=1)):
            moving = directions[line] != 0
            product[line, row] = np.sum(directions[line, moving] * gradients[row, moving])
    return product
