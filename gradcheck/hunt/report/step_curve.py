"""The step-size curve: how far a plain central difference lies from autodiff, step by step.

For a right derivative it falls with the square of the step until rounding takes over and it rises again: a V. For a
wrong one it ends in a flat floor, the error itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.hunt.report.comparison import ElementComparison
from gradcheck.numerics.sampling import coordinate_steps

Array = np.ndarray[Any, Any]

RATIO = 2.0
COUNT = 44


@dataclass(frozen=True)
class StepCurve:
    """Central `differences` of one element at `steps`, widest first.

    `autodiff` is None where there is no finite value; `limit` is the extrapolated difference, with its `bound`.
    """

    element: str
    steps: tuple[float, ...]
    differences: tuple[float, ...]
    autodiff: float | None
    limit: float
    bound: float

    def distances(self, value: float) -> tuple[float, ...]:
        """How far the differences lie from a value."""
        return tuple(abs(difference - value) for difference in self.differences)


def step_curve(comparison: ElementComparison) -> StepCurve:
    """The curve at the worst element: of function values at order 1, of autodiff's first derivative at order 2.

    Raises what evaluating the graph raises.
    """
    entries, worst, problem = comparison.entries, comparison.worst, comparison.problem
    point = problem.point
    if comparison.direction is None:
        along = np.eye(point.size)[worst]
        largest = float(coordinate_steps(point)[worst])
    else:
        along = comparison.direction
        moving = along != 0
        largest = float(np.min(coordinate_steps(point)[moving] / np.abs(along[moving])))
    steps = largest * RATIO ** -np.arange(COUNT, dtype=np.float64)
    points = point + np.concatenate([steps, -steps])[:, None] * along
    if comparison.direction is None:
        values = problem.values(points)[:, 0]
    else:
        values = problem.gradients_at(np.ones(1), points)[:, worst]
    with np.errstate(invalid="ignore", over="ignore"):
        differences = (values[:COUNT] - values[COUNT:]) / (2 * steps)
    autodiff = float(entries.autodiff[worst])
    return StepCurve(
        comparison.name(worst),
        tuple(steps.tolist()),
        tuple(differences.tolist()),
        autodiff if np.isfinite(autodiff) else None,
        float(entries.difference[worst]),
        float(entries.bound[worst]),
    )
