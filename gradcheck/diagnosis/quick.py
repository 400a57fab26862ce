"""Whether derivatives plainly agree: a few lines through all coordinates at once, before anybody looks closer."""

from __future__ import annotations

import numpy as np

from gradcheck.diagnosis.call_problem import CallProblem
from gradcheck.numerics.directions import magnitudes, probe_directions
from gradcheck.verdict.entries import AGREE, Tolerance
from gradcheck.verdict.first import settle, slope_estimate
from gradcheck.verdict.observation import Lines, along, ulp_rounding
from gradcheck.verdict.probing import SMALL, Table

FEW = 3
"""So many random lines do while the coordinates are few; two errors cancel on none of them but by a rare accident."""


def plainly_agrees(problem: CallProblem, tolerance: Tolerance, probes: int) -> Table | None:
    """The table of the lines where all of them agree at the first look, else None. Raises WrongShapeError."""
    count = FEW if problem.point.size <= SMALL else probes
    if problem.point.size <= FEW or problem.outputs > SMALL:
        return None
    cotangents = np.eye(problem.outputs)
    gradients = problem.gradients(cotangents).values
    if not np.isfinite(gradients).all():
        return None
    directions = probe_directions(np.random.default_rng(0), count, magnitudes(problem.point))
    estimate = slope_estimate(Lines(problem, directions, cotangents, tolerance).sample())
    autodiff = along(directions, gradients)
    entries = settle(autodiff, estimate, tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
    if not (entries.status == AGREE).all():
        return None
    contribution = np.max(np.abs(directions[:, None, :] * gradients[None, :, :]), axis=2)
    return Table(entries, (None,) * count, tuple(range(problem.outputs)), contribution)
