"""The step-size curve: how far plain central differences lie from a derivative, step by step.

From a right derivative it falls with the square of the step until rounding takes over and it rises again: a V. From a
wrong one it ends in a flat floor, the error itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradcheck.hunt.finding import ElementCheck, StepCurve
from gradcheck.numerics.difference import difference_quotient
from gradcheck.numerics.sampling import EPS64
from gradcheck.typing import Array

Pixels = list[tuple[float, float]]

RATIO = 2.0
COUNT = 44
ROWS = 12
MOST_TICKS = 9


def step_curve(
    f: Callable[[Array], Array], point: Array, direction: Array, largest: float, coordinate: int
) -> StepCurve:
    """The curve of a function of points (p, n) with values (p,), at steps that are halved from the largest one.

    Raises what evaluating the function raises.
    """
    steps = largest * RATIO ** -np.arange(COUNT, dtype=np.float64)
    quotients = difference_quotient(f, point, direction, steps)
    return StepCurve(coordinate, tuple(steps.tolist()), tuple(quotients.tolist()))


@dataclass(frozen=True)
class CurveLine:
    """The distances from one value, drawn; its legend begins at the abscissa `legend`."""

    kind: str
    label: str
    points: Pixels
    legend: int


@dataclass(frozen=True)
class CurvePlot:
    """A step-size curve as its template draws it: places in pixels, ticks with their powers of ten, rows of a table."""

    name: str
    lines: tuple[CurveLine, ...]
    x_ticks: Pixels
    y_ticks: Pixels
    rows: list[tuple[float, float, float | None, float]]
    width: int = 640
    height: int = 400
    left: int = 78
    right: int = 628
    top: int = 36
    bottom: int = 340


def plot(name: str, curve: StepCurve, element: ElementCheck) -> CurvePlot:
    """The plot of a curve, for the element whose comparison is given."""
    autodiff = element.autodiff if math.isfinite(element.autodiff) else None
    values = {"estimate": element.difference, "autodiff": autodiff}
    labels = {"estimate": "from the finite-difference estimate", "autodiff": "from autodiff"}
    # Distances from the estimate that are below its error bound mean nothing.
    least = element.bound if 0 < element.bound < math.inf else EPS64 * abs(element.difference) or EPS64
    logs = {kind: _logarithms(curve, value, least) for kind, value in values.items() if value is not None}
    x_low, x_high = _decades([x for points in logs.values() for x, _ in points])
    y_low, y_high = _decades([y for points in logs.values() for _, y in points])

    def x_place(log: float) -> float:
        return round(CurvePlot.left + (log - x_low) / (x_high - x_low) * (CurvePlot.right - CurvePlot.left), 1)

    def y_place(log: float) -> float:
        return round(CurvePlot.bottom - (log - y_low) / (y_high - y_low) * (CurvePlot.bottom - CurvePlot.top), 1)

    lines = [
        CurveLine(kind, labels[kind], [(x_place(x), y_place(y)) for x, y in points], CurvePlot.left + 300 * place)
        for place, (kind, points) in enumerate(logs.items())
    ]
    rows = [
        (step, quotient, None if autodiff is None else abs(quotient - autodiff), abs(quotient - element.difference))
        for step, quotient in zip(curve.steps, curve.quotients, strict=True)
    ]
    return CurvePlot(
        name,
        tuple(lines),
        [(x_place(power), power) for power in _ticks(x_low, x_high)],
        [(y_place(power), power) for power in _ticks(y_low, y_high)],
        rows[:: max(1, len(rows) // ROWS)],
    )


def _logarithms(curve: StepCurve, value: float, least: float) -> Pixels:
    """The decimal logarithms of the steps and of the distances from a value, where these are finite."""
    pairs = zip(curve.steps, (max(abs(quotient - value), least) for quotient in curve.quotients), strict=True)
    return [(math.log10(step), math.log10(far)) for step, far in pairs if 0 < step < math.inf and far < math.inf]


def _decades(logs: list[float]) -> tuple[int, int]:
    """The powers of ten around numbers, at least one apart."""
    low = math.floor(min(logs, default=0.0))
    return low, max(math.ceil(max(logs, default=0.0)), low + 1)


def _ticks(low: int, high: int) -> range:
    return range(high, low - 1, -max(1, math.ceil((high - low) / MOST_TICKS)))
