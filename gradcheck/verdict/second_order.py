"""Second derivatives of all outputs: along the axes while there are few, along random directions beyond that."""

from __future__ import annotations

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.numerics.directions import axes, cotangents, magnitudes, probe_directions
from gradcheck.verdict.entries import MISMATCH, Tolerance
from gradcheck.verdict.probing import Table
from gradcheck.verdict.second import compare_second

FEW_INPUTS = 6
FEW_OUTPUTS = 4
DIRECTIONS = 4


def second_order(problem: Problem, tolerance: Tolerance, probes: int) -> tuple[list[Table], str | None]:
    """The tables of second derivatives, a line a coordinate, and which estimate stands alone where they disagree.

    Every direction compares a whole column of the Hessian, so half as many directions as first-order probes do. Raises
    DerivativeRaisedError and WrongShapeError.
    """
    rng = np.random.default_rng(0)
    n, m = problem.point.size, problem.outputs
    directions = axes(n)
    if n > FEW_INPUTS:
        directions = probe_directions(rng, max(DIRECTIONS, probes // 2), magnitudes(problem.point))
    rows = axes(m) if m <= FEW_OUTPUTS else cotangents(rng, FEW_OUTPUTS, np.ones(m))
    tables, alone = [], None
    for place, row in enumerate(rows):
        found = compare_second(problem, directions, row, tolerance)
        alone = alone or found.alone
        outputs = (place if 1 < m <= FEW_OUTPUTS else None,) * len(directions)
        tables.append(Table(found.entries.turned, tuple(range(n)), outputs, directions=directions))
        if found.along.any(MISMATCH) and not found.entries.any(MISMATCH):
            tables.append(Table(found.along.turned, (None,), outputs, directions=directions))
    return tables, alone
