"""A bijector returns the result of an earlier call with the same tensor, which no tape has recorded.

It does so while that result exists, also if another bijector of the same class and parameters made it. The remedy is to
give it a new tensor: `tf.identity` of the old one. The right derivatives are those of the functions in mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import gradcheck

pytestmark = pytest.mark.exhaustive

POINT = 0.4
BIJECTORS: dict[str, tuple[Any, Callable[..., Any]]] = {
    "Exp": (tfp.bijectors.Exp, mpmath.exp),
    "Sigmoid": (tfp.bijectors.Sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "Softplus": (tfp.bijectors.Softplus, lambda x: mpmath.log1p(mpmath.exp(x))),
    "Tanh": (tfp.bijectors.Tanh, mpmath.tanh),
}
METHODS = ("forward", "forward_log_det_jacobian")


def sum_with_square(made: Any, method: str) -> Callable[..., Any]:
    return lambda x: getattr(made, method)(x) + x**2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BIJECTORS)
def test_the_first_derivative_is_lost_after_an_evaluation_at_the_same_tensor(name: str, method: str) -> None:
    make, function = BIJECTORS[name]
    of = function if method == "forward" else lambda x: mpmath.log(mpmath.diff(function, x))
    right = float(mpmath.diff(of, POINT)) + 2 * POINT
    x = tf.constant(POINT, tf.float64)
    assert slope(sum_with_square(make(), method), x) == pytest.approx(right)
    kept = getattr(make(), method)(x)
    assert slope(sum_with_square(make(), method), x) == 2 * POINT
    assert slope(sum_with_square(make(), method), tf.identity(x)) == pytest.approx(right)
    assert kept.shape == ()  # while it exists


@pytest.mark.parametrize("name", BIJECTORS)
def test_the_inverse_at_an_image_is_the_point_itself(name: str) -> None:
    make, function = BIJECTORS[name]
    x = tf.constant(POINT, tf.float64)
    y = make().forward(x)
    assert slope(make().inverse, y) is None
    assert slope(make().inverse, tf.identity(y)) == pytest.approx(float(1 / mpmath.diff(function, POINT)))


@pytest.mark.parametrize("name", BIJECTORS)
def test_a_check_has_tensors_of_its_own(name: str) -> None:
    make, x = BIJECTORS[name][0], tf.constant(POINT, tf.float64)
    kept = make().forward(x)
    gradcheck.assert_close(make().forward, x, order=2)
    assert kept.shape == ()


def slope(function: Callable[..., Any], x: Any) -> float | None:
    """The first derivative by a tape at a tensor."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    found = tape.gradient(value, x)
    return None if found is None else float(found)
