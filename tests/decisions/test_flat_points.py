"""Points where derivatives vanish, where one side is flat, or which lie next to an edge of the domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.verdicts import check


def smootherstep(x: Any) -> Any:
    inside = x**3 * (x * (x * 6 - 15) + 10)
    return tf.where(x < 0.0, tf.zeros_like(x), tf.where(x > 1.0, tf.ones_like(x), inside))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (smootherstep, 0.0),
        (smootherstep, 1.0),
        (lambda x: x**6, 0.0),
        (lambda x: tf.cosh(x) - 1, 0.0),
        (lambda x: tf.reduce_sum(x**6) + tf.reduce_prod(x), [0.0, 0.0, 0.0]),
    ],
)
def test_a_derivative_that_vanishes_agrees_and_a_constant_in_its_place_does_not(f: Callable[..., Any], x: Any) -> None:
    assert check(f, x, order=2).verdict == "agree"

    @tf.custom_gradient
    def wrong(x: tf.Tensor) -> Any:
        return f(x), lambda dy: dy * tf.ones_like(x) * 1e-3

    assert check(wrong, x).verdict == "mismatch"


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_a_cube_of_the_modulus_has_a_slope_of_zero(error: float) -> None:
    f = lambda x: tf.abs(x) ** 3  # noqa: E731
    assert check(f, 0.0, gradient=error).verdict == ("mismatch" if error else "agree")


def test_digits_that_are_lost_beside_a_point_are_no_derivative_of_zero() -> None:
    result = check(lambda x: (x + 1e16) - 1e16, 0.3)
    assert result.verdict == "inconclusive"


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_the_logarithm_is_decided_far_below_the_step_of_a_tiny_number(factor: float) -> None:
    x = np.array([1e-300, 2.0])
    found = check(tf.math.log, x, gradient=factor / x)
    assert found.verdict == ("agree" if factor == 1.0 else "mismatch")
    assert check(tf.math.log, 1e-300, order=2).orders[2].verdict == "inconclusive"  # -1e600
