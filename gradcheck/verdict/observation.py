"""One look at a function: differences along lines, and autodiff's value for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck.autodiff.gradients import WrongShapeError
from gradcheck.autodiff.problem import Problem, TapeProblem
from gradcheck.autodiff.pullback import DerivativeRaisedError
from gradcheck.numerics.sampling import gather, magnitude, points
from gradcheck.numerics.stencil import FIRST, Sample, Stencil
from gradcheck.numerics.step import largest_steps

Array = np.ndarray[Any, Any]

ULPS = 4.0
"""Autodiff is granted the mixed error that is promised for functions, 4 units in the last place."""

NEAR = 2.0**-8
"""How far, relatively, the neighbours lie at which the rounding of a low-precision derivative is compared."""


def observe(
    problem: Problem, directions: Array, cotangents: Array | None, stencil: Stencil = FIRST, *, shrink: float = 1.0
) -> Sample:
    """Sample <w, f> for each row w of the cotangents (None: every output by itself) on the lines.

    `shrink` makes all steps smaller than usual.
    """
    steps = row_steps(problem, directions, stencil, problem.roundoff, shrink)
    values = problem.values(points(problem.point, directions, steps, stencil))
    if cotangents is not None:
        values = weighted(values, cotangents)
    return Sample(
        stencil, steps, gather(values, len(directions), stencil), magnitude(problem.point, directions), problem.roundoff
    )


def row_steps(problem: Problem, directions: Array, stencil: Stencil, roundoff: float, shrink: float) -> Array:
    """The largest step of each line, such that neither side leaves the sets of the inputs."""
    steps = shrink * largest_steps(problem.point, directions, stencil, eps=roundoff)
    return problem.function.inside(directions, steps) if isinstance(problem, TapeProblem) else steps


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


def measured_rounding(problem: Problem, cotangents: Array, directions: Array, autodiff: Array, draws: int = 4) -> Array:
    """How far the same gradient moves when every input moves by one unit in the last place, (k, l)."""
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.abs(moved_autodiff(problem, cotangents, directions, draws) - autodiff)
    spread = np.max(np.where(np.isfinite(change), change, 0.0), axis=0)
    return np.asarray(np.maximum(ulp_rounding(autodiff, problem.precision), spread))


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


def moved_autodiff(problem: Problem, cotangents: Array, directions: Array, draws: int = 4) -> Array:
    """Autodiff's values at inputs that are all moved by one unit in the last place, up or down, (draws, k, l)."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(draws):
        moved = problem.point * (1 + 2 * problem.precision * rng.choice([-1.0, 1.0], size=problem.point.shape))
        with np.errstate(invalid="ignore", over="ignore"):
            rows.append(along(directions, problem.gradients(cotangents, moved).values))
    return np.stack(rows)
