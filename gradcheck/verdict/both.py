"""Both orders from one look at a graph: what they have in common is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck.graphs.problem import GraphProblem
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.directions import axes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.second import second_difference
from gradcheck.verdict.entries import Tolerance
from gradcheck.verdict.first import First, hold_first
from gradcheck.verdict.observation import Lines, observe_gradient
from gradcheck.verdict.second import Evidence, Second, hold_second

Array = np.ndarray[Any, Any]


def compare_both(
    problem: GraphProblem, direction: Array, cotangent: Array, tolerance: Tolerance
) -> tuple[First, Second]:
    """Hold the first derivatives of <w, f> along the axes, and the second one along a direction, against differences.

    `direction` (n,), `cotangent` w (m,). The gradient on trial is the one that autodiff's second derivative passes
    through; one batch holds the values on all lines. Raises DerivativeRaisedError and WrongShapeError.
    """
    n = problem.point.size
    line, along_axes, along_line = direction[None, :], slice(None, n), slice(n, None)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([axes(n), line]), cotangent[None, :], tolerance)
    sample = lines.sample()
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    bends = second_difference(sample, slopes, rounding)
    first = hold_first(lines.some(along_axes), gradient, sample.lines(along_axes), slopes.lines(along_axes))
    gradients = observe_gradient(problem, line, cotangent)
    seen = Evidence(products, gradients, sample.lines(along_line), bends.lines(along_line))
    return first, hold_second(lines.some(along_line), seen)
