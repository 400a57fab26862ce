"""In low precision, coordinates far smaller than the others get wider stencils, if nothing else shows them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck import Result
from tests import slices
from tests.verdicts import check

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "bias": lambda x: tf.reduce_sum(tf.tanh(x[1:] * 0.5 + x[0]) ** 2),
    "log": lambda x: tf.math.log(x[0]) + x[1] * x[2],
    "pole": lambda x: 1e-5 / x[0] + x[1] ** 2,
    "fast": lambda x: 1e-3 * tf.sin(x[0] * 1e5) + x[1],
    "kink": lambda x: 3 * tf.nn.relu(x[0] + 1e-6) + x[1],
    "narrow": lambda x: tf.exp(-((x[0] * 1e4) ** 2)) + x[1],
    "jump": lambda x: tf.where(x[0] > 1e-3, 5.0, 2.0) * (1 + x[0]) + x[1],
}


def checked(name: str, size: float, factor: float) -> Result:
    """The check with respect to a variable whose first element is small, of a gradient that is wrong by a factor.

    The function reads a value, so that it cannot be traced and has no float64 form.
    """
    x = tf.Variable(np.array([size, -1.3, 0.9], np.float32))

    def function() -> Any:
        return FUNCTIONS[name](x) if float(x[1]) < 9 else x[0]

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            value = function()
        return [tape.gradient(value, x) * tf.constant([factor, 1.0, 1.0])]

    return check(function, variables=[x], gradient=gradient)


SMALL = (1e-5, 1e-4)


@slices.parametrized("size, factor", product(SMALL, (1.0, 1.5)), slices.every(3))
def test_a_small_bias_is_decided(size: float, factor: float) -> None:
    verdict = "agree" if factor == 1.0 else "mismatch"
    assert checked("bias", size, factor).verdict == verdict


@slices.parametrized("size, factor", product(SMALL, (1.0, 1.01, 1.5)), slices.every(2))
def test_a_small_bias_excuses_nothing(size: float, factor: float) -> None:
    """With a float64 form, the radius of a wider stencil, not the size, says what cancelled terms may leave."""
    x = tf.Variable(np.array([size, -1.3, 0.9], np.float32))

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            value = FUNCTIONS["bias"](x)
        return [tape.gradient(value, x) * tf.constant([factor, 1.0, 1.0])]

    verdict = "agree" if factor == 1.0 else "mismatch"
    assert check(lambda: FUNCTIONS["bias"](x), variables=[x], gradient=gradient).verdict == verdict


SIZES = (1e-6, 1e-5, 1e-4, 1e-3)


@slices.parametrized("size, name", product(SIZES, FUNCTIONS), slices.every(4))
def test_what_is_right_is_not_called_wrong(size: float, name: str) -> None:
    assert checked(name, size, 1.0).verdict != "mismatch"
