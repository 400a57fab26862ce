"""Second derivatives between two estimates: the verdict when one of the three stands alone."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.result import Verdict
from tests import slices
from tests.verdicts import check


def corner(size: float, width: float) -> Any:
    """A corner rounded within `width`, whose second derivative at its tip is size / width."""
    return lambda x: tf.sin(x) + size * tf.sqrt((x - 1.0) ** 2 + width**2)


def dent(size: float, width: float) -> Any:
    """A dent of the same width, whose second derivative at its bottom is 2 size / width."""

    def f(x: Any) -> Any:
        near = (x - 1.0) / width
        return tf.sin(x) + size * width * tf.exp(-(near**2)) * near**2

    return f


@slices.parametrized(
    "f",
    [
        corner(1e-9, 1e-10),
        corner(1e-9, 1e-11),
        dent(1e-7, 1e-8),
        dent(1e-7, 1e-9),
        dent(1e-5, 1e-9),
        dent(1e-9, 1e-10),
        dent(1e-5, 1e-11),
    ],
    slices.every(3),
)
def test_what_is_too_narrow_for_values_but_not_for_gradients_is_no_mismatch(f: Any) -> None:
    """The derivatives are right; in the values, the narrow part is smaller than their rounding."""
    assert not check(f, np.array([1.0]), order=2).findings


@slices.parametrized("f, narrow", product([corner, dent], [1e-5, 1e-7]), slices.every(3))
def test_what_values_show_of_a_wrong_gradient_stays_a_mismatch(f: Any, narrow: float) -> None:
    """The gradient has a narrow part that the values lack, just wide enough for them to show it."""

    @tf.custom_gradient
    def without(x: Any) -> Any:
        def backward(upstream: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(1e-3, narrow)(x)
            return upstream * tape.gradient(y, x)

        return tf.sin(x), backward

    assert check(without, np.array([1.0]), order=2).orders[2].verdict == Verdict.MISMATCH
