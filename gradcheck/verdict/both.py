"""Both orders from one look at a graph: what they have in common is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck.graphs.problem import GraphProblem
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.directions import axes
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.second import second_difference
from gradcheck.numerics.stencil import joined
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
    through. One batch holds the values on all lines, one tableau the differences of all values and of the gradient.
    Raises DerivativeRaisedError and WrongShapeError.
    """
    n = problem.point.size
    line, on_axes, on_line = direction[None, :], slice(None, n), slice(n, n + 1)
    gradient, products = problem.derivatives(cotangent, line)
    lines = Lines(problem, np.concatenate([axes(n), line]), cotangent[None, :], tolerance)
    values, gradients = lines.sample(), observe_gradient(problem, line, cotangent)
    sample = joined(values, gradients.apart())
    rounding = rounding_of(sample)
    slopes = first_difference(sample, rounding)
    bends = second_difference(sample, slopes, rounding)
    first = hold_first(lines.some(on_axes), gradient, values.lines(on_axes), slopes.lines(on_axes))
    sharp = slopes.lines(slice(n + 1, None)).turned
    seen = Evidence(products, gradients, sharp, values.lines(on_line), bends.lines(on_line))
    return first, hold_second(lines.some(on_line), seen)
