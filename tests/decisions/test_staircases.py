"""Derivatives whose own differences are staircases, since they are computed from a value near one, as y (1 - y)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests import slices
from tests.verdicts import check


def first_probability(x: Any) -> Any:
    return tf.nn.softmax(tf.stack([x, tf.zeros_like(x)]))[0]


def largest_sigmoid(x: Any) -> Any:
    return tf.reduce_max(tf.sigmoid(tf.stack([x, x / 2]) ** 2))


SATURATING: dict[str, tuple[Callable[..., Any], float, float]] = {
    "elu": (tf.nn.elu, -36.0, -20.0),
    "largest sigmoid": (largest_sigmoid, 4.5, 6.0),
    "sigmoid": (tf.sigmoid, 20.0, 36.0),
    "softmax": (first_probability, 20.0, 36.0),
    "tanh": (tf.tanh, 10.0, 18.0),
}


@pytest.mark.sliced
@pytest.mark.parametrize("name", SATURATING)
def test_second_derivatives_of_saturated_functions_are_not_called_wrong(name: str) -> None:
    f, low, high = SATURATING[name]
    for x in slices.sliced(np.random.default_rng(3).uniform(low, high, 24), slices.every(8)):
        result = check(f, x, order=2)
        assert result.verdict != "mismatch", f"at {x}: {result}"


@pytest.mark.sliced
@pytest.mark.parametrize("factor", [2.0, -1.0])
def test_a_wrong_second_derivative_there_is_found(factor: float) -> None:
    @tf.custom_gradient
    def slope(x: Any) -> Any:
        y = tf.math.expm1(x) + 1.0
        return y, lambda dy: factor * dy * y

    @tf.custom_gradient
    def elu(x: Any) -> Any:
        return tf.math.expm1(x), lambda dy: dy * slope(x)

    points = slices.sliced(np.random.default_rng(4).uniform(-33.0, -28.0, 12), slices.every(6))
    verdicts = [check(elu, x, order=2).orders[2].verdict for x in points]
    assert sum(verdict == "mismatch" for verdict in verdicts) >= len(points) / 2


@pytest.mark.parametrize("x", [-1.37e-16, -1e-17])
def test_a_kink_within_a_rounding_of_one_is_no_zero_slope(x: float) -> None:
    """There tf.nn.selu is 1.76 (exp(x) - 1) = 0, and 1.05 x on the other side, which has no stairs."""

    @tf.custom_gradient
    def thrice(x: Any) -> Any:
        return tf.nn.selu(x), lambda upstream: 3.0 * upstream

    assert check(tf.nn.selu, x).verdict == "inconclusive"
    assert check(thrice, x).verdict == "mismatch"
