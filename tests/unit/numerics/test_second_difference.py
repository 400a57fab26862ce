from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.difference import Estimate, first_difference, second_difference
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.sampling import CONFIRM, FIRST, Stencil, sample

Array = np.ndarray[Any, Any]
STENCILS = pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])


def both(f: Callable[[Array], Array], x: float, stencil: Stencil) -> tuple[Estimate, Estimate]:
    with np.errstate(all="ignore"):
        lines = sample(f, np.array([x]), np.eye(1), stencil=stencil)
        first = first_difference(lines)
        return first, second_difference(lines, first)


@STENCILS
@pytest.mark.parametrize(
    ("f", "x", "true"),
    [
        (np.sin, 1.0, -np.sin(1.0)),
        (np.log, 1e-6, -1e12),
        (np.exp, -3.0, np.exp(-3.0)),
        (np.cos, 0.0, -1.0),
        (lambda p: p * p, 0.0, 2.0),
        (lambda p: 1.0 / (p - 1.125), 1.0, -2.0 / 0.125**3),
        (lambda p: np.sin(1e3 * p), 0.1, -1e6 * np.sin(100.0)),
        (lambda p: np.where(p > 1.001, 0.0, p * p), 1.0, 2.0),
    ],
    ids=["sin", "log", "exp", "cos", "x2", "pole", "oscillating", "jump"],
)
def test_value_within_its_bound(f: Callable[[Array], Array], x: float, true: float, stencil: Stencil) -> None:
    first, second = both(f, x, stencil)
    assert second.conclusive[0, 0]
    assert abs(second.value[0, 0] - true) <= second.bound[0, 0] <= 1e-4 * abs(true)
    assert 0.0 < second.radius[0, 0] <= first.radius[0, 0]


@STENCILS
@pytest.mark.parametrize("f", [lambda p: 3.0 * p + 1.0, lambda p: 0.0 * p + 7.0, lambda p: 0.0 * p])
def test_no_curvature(f: Callable[[Array], Array], stencil: Stencil) -> None:
    _, second = both(f, 1.0, stencil)
    assert second.conclusive[0, 0]
    assert abs(second.value[0, 0]) <= second.bound[0, 0] < 1e-9


@STENCILS
def test_kink_within_the_row(stencil: Stencil) -> None:
    _, second = both(lambda p: np.maximum(p - 1.0, 0.0) * p, 1.01, stencil)
    assert abs(second.value[0, 0] - 2.0) <= second.bound[0, 0] < 1e-2


@STENCILS
@pytest.mark.parametrize("f", [np.abs, np.sqrt, lambda p: p * np.nan])
def test_nothing_to_say(f: Callable[[Array], Array], stencil: Stencil) -> None:
    _, second = both(f, 0.0, stencil)
    assert not second.conclusive[0, 0]


@STENCILS
def test_only_steps_inside_the_first_radius(stencil: Stencil) -> None:
    lines = sample(np.sin, np.array([1.0]), np.eye(1), stencil=stencil)
    first = first_difference(lines)
    narrow = replace(first, radius=first.radius / 50)
    second = second_difference(lines, narrow)
    assert 0.0 < second.radius[0, 0] <= narrow.radius[0, 0]
    assert abs(second.value[0, 0] + np.sin(1.0)) <= second.bound[0, 0]
    none = replace(first, radius=np.zeros((1, 1)))
    assert not second_difference(lines, none).conclusive[0, 0]


@STENCILS
def test_lines_and_outputs_together_equal_one_by_one(stencil: Stencil) -> None:
    x, directions = np.array([0.3, -2.0]), np.array([[1.0, 0.0], [0.5, -1.0]])

    def f(p: Array) -> Array:
        return np.stack([np.sin(p).sum(axis=1), np.exp(p[:, 0] * p[:, 1])], axis=1)

    lines = sample(f, x, directions, stencil=stencil)
    together = second_difference(lines, first_difference(lines))
    for i, direction in enumerate(directions):
        for j in range(2):
            line = sample(lambda p, j=j: f(p)[:, [j]], x, direction[None], stencil=stencil)  # type: ignore[misc]
            alone = second_difference(line, first_difference(line))
            np.testing.assert_allclose(together.value[i, j], alone.value[0, 0], rtol=1e-9)
            np.testing.assert_allclose(together.bound[i, j], alone.bound[0, 0], rtol=1e-2)


def test_a_known_rounding_serves_both_orders() -> None:
    lines = sample(np.exp, np.array([0.5]), np.eye(1))
    rounding = rounding_of(lines)
    first = first_difference(lines, rounding)
    np.testing.assert_array_equal(first.bound, first_difference(lines).bound)
    second = second_difference(lines, first, rounding)
    np.testing.assert_array_equal(second.bound, second_difference(lines, first).bound)
