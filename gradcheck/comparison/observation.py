"""One look at a function: differences along lines, and autodiff's value for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.perturbation import perturbed_gradients
from gradcheck.autodiff.problem import Problem, TapeProblem
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
from gradcheck.comparison.tables import Tolerance
from gradcheck.numerics.sampling import largest_steps, sample
from gradcheck.numerics.stencil import FIRST, Sample, Stencil

Array = np.ndarray[Any, Any]
Samples = list[Sample]
Derivative = Callable[[Problem, Array], Array]
"""Autodiff's values at a point (n,), for a problem or its rounded form."""

ULPS = 4.0
"""Autodiff is granted the mixed error that is promised for functions, 4 units in the last place."""

DRAWS = 8
SPREAD = 2.0
"""The largest of eight draws may miss the largest possible one by this factor."""

LITTLE = 64.0
"""A change by so many units in the last place of what is computed may be rounding alone."""

NEAR = 2.0**-8
"""How far, relatively, the neighbours lie at which the rounding of a low-precision derivative is compared."""


@dataclass(frozen=True)
class Lines:
    """What is held against differences: the derivatives of <w, f> along directions.

    `directions` (k, n), `cotangents` w (l, m).
    """

    problem: Problem
    directions: Array
    cotangents: Array
    tolerance: Tolerance

    def some(self, lines: Array | slice) -> Lines:
        """The question for some of the directions."""
        return replace(self, directions=self.directions[lines])

    def values(self, points: Array) -> Array:
        """The values (p, l) of <w, f> at points (p, n)."""
        return weighted(self.problem.values(points), self.cotangents)

    def centre(self, problem: Problem) -> Array:
        """The values (l,) of <w, f> at the point, as this problem or its rounded form computes them."""
        centre: Array = weighted(problem.values(self.problem.point[None, :]), self.cotangents)[0]
        return centre

    def sample(self, stencil: Stencil = FIRST, *, shrink: float = 1.0) -> Sample:
        """The values (k, points, l) of <w, f>."""
        count = len(self.cotangents)
        unit = self.cotangents.shape == (count, count) and np.array_equal(self.cotangents, np.eye(count))
        return observe(self.problem, self.directions, None if unit else self.cotangents, stencil, shrink=shrink)


def observe(
    problem: Problem, directions: Array, cotangents: Array | None, stencil: Stencil = FIRST, *, shrink: float = 1.0
) -> Sample:
    """Sample <w, f> for each row w of the cotangents (None: every output by itself) on the lines.

    `shrink` makes all steps smaller than usual.
    """

    def evaluate(points: Array) -> Array:
        values = problem.values(points)
        return values if cotangents is None else weighted(values, cotangents)

    return _sampled(evaluate, problem, directions, stencil, problem.roundoff, shrink)


def observe_gradient(
    problem: Problem, directions: Array, cotangent: Array, stencil: Stencil = FIRST, *, shrink: float = 1.0
) -> Sample:
    """The same for the n coordinates of the gradient of <w, f>, for one cotangent w (m,)."""

    def evaluate(points: Array) -> Array:
        return problem.gradients_at(cotangent, points)

    return _sampled(evaluate, problem, directions, stencil, problem.gradient_roundoff, shrink)


def _sampled(
    evaluate: Callable[[Array], Array],
    problem: Problem,
    directions: Array,
    stencil: Stencil,
    eps: float,
    shrink: float,
) -> Sample:
    """A sample on lines of which neither side leaves the sets of the inputs."""
    steps = shrink * largest_steps(problem.point, directions, stencil, eps=eps)
    if isinstance(problem, TapeProblem):
        steps = problem.function.feasible_steps(directions, steps)
    return sample(evaluate, problem.point, directions, stencil=stencil, eps=eps, step=steps)


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


def ulp_rounding(autodiff: Array, precision: float) -> Array:
    """The rounding that every autodiff value is granted without being measured."""
    finite = np.where(np.isfinite(autodiff), np.abs(autodiff), 0.0)
    granted: Array = 2 * ULPS * precision * finite
    return granted


def measured_rounding(problem: Problem, autodiff: Array, derivative: Derivative) -> Array:
    """How far autodiff's values move when everything moves by one unit in the last place, in their shape."""
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(moved(problem, derivative) - autodiff)
    spread = np.max(np.where(np.isfinite(change), change, 0.0), axis=0)
    return np.asarray(np.maximum(ulp_rounding(autodiff, problem.precision), spread))


def moved(problem: Problem, derivative: Derivative, draws: int = 4, *, inner: bool = True) -> Array:
    """Autodiff's values at inputs that are all moved by one unit in the last place, up or down, one draw a row.

    With `inner`, inner values are rounded another way each time, where they can be reached.
    """
    rng = np.random.default_rng(0)
    rows = []
    for draw in range(draws):
        ulps = 2 * problem.precision * rng.choice([-1.0, 1.0], size=problem.point.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            rows.append(derivative(problem.rounded(draw) if inner else problem, problem.point * (1 + ulps)))
    return np.stack(rows)


def slopes(cotangents: Array, directions: Array) -> Derivative:
    """Autodiff's derivatives (k, l) of <w, f> along directions."""
    return lambda problem, point: along(directions, problem.gradients(cotangents, point).values)


def with_inner_rounding(problem: Problem, samples: Sequence[Sample], quantity: Callable[[Problem], Array]) -> Samples:
    """Samples whose values are no better than other roundings of what they are computed from let them be.

    `quantity` gives the m values at the point. A function that has lost its digits inside may look constant, and its
    error bound does not know. So may a gradient: this is about the error of differences, so that here, other than in
    `moved`, the backward pass of each operation is rounded another way, too.
    """
    plain, moves = quantity(problem), []
    with np.errstate(invalid="ignore", over="ignore"):
        for draw in range(DRAWS):
            with perturbed_gradients(draw):
                moves.append(np.abs(quantity(problem.rounded(draw)) - plain))
    floor = SPREAD * np.max(np.where(np.isfinite(moves), moves, 0.0), axis=0)
    return [replace(sample, floor=floor) for sample in samples]


def erratic_gap(problem: Problem, cotangents: Array, directions: Array, draws: int = 6) -> Array:
    """How much the gap between a low-precision derivative and its float64 form varies around the point, (k, l).

    Rounding changes from point to point even where an ulp does not show it (1 - cos(x)**2 near 0); a wrong formula is
    wrong by as much at the neighbours. Zero where there is no float64 form.
    """
    quiet = np.zeros((len(directions), len(cotangents)))
    if not isinstance(problem, TapeProblem) or problem.wide is None:
        return quiet
    rng = np.random.default_rng(0)
    shifts = [np.zeros(problem.point.size)] + [NEAR * rng.uniform(-1, 1, problem.point.size) for _ in range(draws)]
    try:
        gaps = [problem.gap(cotangents, problem.point * (1 + shift)) for shift in shifts]
    except (DerivativeRaisedError, WrongShapeError):
        return quiet
    with np.errstate(invalid="ignore", over="ignore"):
        lines = np.stack([along(directions, gap) for gap in gaps if gap is not None])
        spread = np.max(np.abs(lines - lines[0]), axis=0)
    return np.where(np.isfinite(spread), spread, 0.0)
