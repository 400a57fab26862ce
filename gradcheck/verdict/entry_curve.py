"""The step-size curve of the worst entry of a comparison, of differences that the comparison has taken already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gradcheck.autodiff.sources import Source
from gradcheck.numerics.sampling import LinePoints
from gradcheck.problem.problem import Problem
from gradcheck.result import EntryCurve, Verdict
from gradcheck.step_curve import StepCurve
from gradcheck.typing import Array
from gradcheck.verdict.summary import element_of
from gradcheck.verdict.tables import ALLOWANCES, Comparison


def worst_curve(problem: Problem, tables: Sequence[Comparison], sources: Sequence[Source]) -> EntryCurve | None:
    """The curve of the entry that is farthest off beside what is allowed, of a wrong one if any is.

    None if its differences are not known: those of entries that were compared together, or of few steps. No function
    is called for it, and none is kept.
    """
    wrong = any(table.any(Verdict.MISMATCH) for table in tables)
    places = [(*place, table) for table in tables if (place := _worst(table, wrong, problem.outputs)) is not None]
    if not places:
        return None
    _, line, row, table = max(places, key=lambda place: place[0])
    coordinate, output = int(table.coordinates[line] or 0), int(table.outputs[row] or 0)
    if table.directions is None:
        direction, column = np.eye(1, problem.point.size, coordinate)[0], output
        taken = problem.tables()
    else:
        direction, column = table.directions[row], coordinate
        taken = problem.tables(np.eye(1, problem.outputs, output)[0])
    quotients = _quotients(taken, direction, column)
    if len(quotients) <= 2:  # as along the lines of a first glance at an edge
        return None
    name, index, _ = element_of(sources, coordinate)
    allowed = table.allowed[line, row] + sum(table.parts[part][line, row] for part in ALLOWANCES)
    steps = sorted(quotients, reverse=True)
    return EntryCurve(
        input=name,
        index=index,
        output=None if problem.outputs == 1 else output,
        autodiff=float(table.autodiff[line, row]),
        difference=float(table.difference[line, row]),
        bound=float(table.bound[line, row]),
        allowed=float(allowed),
        curve=StepCurve(coordinate, tuple(steps), tuple(quotients[step] for step in steps)),
    )


def _worst(table: Comparison, wrong: bool, outputs: int) -> tuple[float, int, int] | None:
    """The excess, the line and the column of the worst entry of a single coordinate and output."""
    chosen = table.where(Verdict.MISMATCH) if wrong else ~table.where(Verdict.INCONCLUSIVE)
    chosen = chosen & np.array([[one is not None] for one in table.coordinates], bool)
    if outputs > 1:
        chosen = chosen & np.array([one is not None for one in table.outputs], bool)
    if not chosen.any():
        return None
    excess = np.where(chosen, table.excess(), -1.0)
    line, row = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return float(excess[line, row]), int(line), int(row)


def _quotients(taken: Iterable[tuple[LinePoints, Array]], direction: Array, column: int) -> dict[float, float]:
    """The central differences of a column along a direction, by their steps, as far as these move the point."""
    found: dict[float, float] = {}
    moving = direction != 0
    for points, table in taken:
        x, along = points.x[moving], direction[moving]
        for line in np.flatnonzero((points.directions == direction).all(axis=1)):
            rows = np.flatnonzero((points.lines == line) & (points.moves != 0))
            values = dict(zip(points.moves[rows].tolist(), table[rows, column].tolist(), strict=True))
            with np.errstate(invalid="ignore", over="ignore"):
                found |= {
                    step: (value - values[-step]) / (2 * step)
                    for step, value in values.items()
                    if step > 0 and -step in values and (x + step * along != x).any()
                }
    return found
