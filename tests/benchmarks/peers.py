"""numdifftools and scipy.differentiate on the functions of the accuracy benchmark."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from functions import Function

from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.sampling import sample

Array = np.ndarray[Any, Any]
Derivative = Callable[[Callable[[Array], Array], float], tuple[float, float]]


@dataclass
class Counted:
    """A function that counts the points it was evaluated at."""

    function: Callable[[Array], Array]
    points: int = 0

    def __call__(self, x: Array) -> Array:
        self.points += np.size(x)
        return self.function(np.asarray(x, dtype=np.float64))


def by_gradcheck(f: Callable[[Array], Array], x: float) -> tuple[float, float]:
    """This project's derivative and bound."""
    estimate = first_difference(sample(f, np.array([x]), np.eye(1)))
    return float(estimate.value[0, 0]), float(estimate.bound[0, 0])


def by_numdifftools(f: Callable[[Array], Array], x: float) -> tuple[float, float]:
    """The derivative and error estimate of numdifftools.Derivative with its defaults."""
    import numdifftools

    result = numdifftools.Derivative(f, full_output=True)(x)
    if isinstance(result, tuple) and len(result) == 2:
        return float(result[0]), float(np.max(result[1].error_estimate))
    return float(result.estimate), float(np.max(result.error_estimate))


def by_scipy(f: Callable[[Array], Array], x: float) -> tuple[float, float]:
    """The derivative and error estimate of scipy.differentiate.derivative with its defaults."""
    from scipy.differentiate import derivative

    result = derivative(f, x)
    return float(result.df), float(result.error)


METHODS: tuple[tuple[str, Derivative], ...] = (
    ("gradcheck", by_gradcheck),
    ("numdifftools", by_numdifftools),
    ("scipy", by_scipy),
)


def _cell(method: Derivative, function: Function, x: Array, exact: Array) -> str:
    errors, outside, points = [], 0, 0
    for value, true in zip(x, exact, strict=True):
        counted = Counted(function)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                estimate, bound = method(counted, float(value))
        except ImportError:
            return f"{'not installed':>28s}"
        points += counted.points
        errors.append(abs(estimate - true) / abs(true))
        outside += not abs(estimate - true) <= bound
    return f"{np.median(errors):9.0e} {np.max(errors):9.0e} {outside:2d} {points // len(x):5d}"


def table(functions: Sequence[Function], points: int, seed: int) -> str:
    """For each method: median and worst relative error, points outside its own error bound, evaluations per point."""
    rng = np.random.default_rng(seed)
    lines = [f"{'':26s} " + " | ".join(f"{name:^28s}" for name, _ in METHODS)]
    lines.append(f"{'function':26s} " + " | ".join([f"{'median':>9s} {'worst':>9s} {'>b':>2s} {'eval.':>5s}"] * 3))
    for function in functions:
        x = function.draw(rng, points)
        exact = function.derivatives(x)[0]
        cells = [_cell(method, function, x, exact) for _, method in METHODS]
        lines.append(f"{function.name:26s} " + " | ".join(cells))
    return "\n".join(lines)
