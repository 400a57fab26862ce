"""A computation as the list of its operations: the same values and derivatives, or no list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import pullbacks, second_pullbacks
from gradcheck.tracing.state import executed_operations
from gradcheck.tracing.wengert_list import NoListError, WengertList

X, Y, Z = (tf.constant(values, tf.float64) for values in ([0.3, -0.8, 1.2], [1.5, 0.4, -0.2], [-0.6, 0.9, 0.1]))
SCALE = tf.Variable([2.0, 3.0, 5.0], dtype=tf.float64)


def computed(x: tf.Tensor) -> list[tf.Tensor]:
    """Two results, constants of several kinds, an operation with many inputs, and one that is not needed."""
    tf.exp(x)
    noise = tf.random.stateless_uniform([3], [1, 2], dtype=tf.float64)
    whole = tf.concat([tf.sin(x) * noise, tf.reshape(x, tf.shape(SCALE)) * SCALE], 0)
    return [tf.reduce_sum(whole * whole), tf.stack([x, x])]


def names(listed: WengertList) -> list[str]:
    return [step.operation.name for step in listed.steps]


def test_the_values_are_those_of_the_computation() -> None:
    listed = WengertList.of(computed, [X], [Y])
    for point in (X, Y, Z):
        for one, other in zip(listed(point), computed(point), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_not_a_number_is_the_same_value() -> None:
    assert names(WengertList.of(lambda x: [tf.math.log(x)], [X], [Y])) == ["Log"]


def test_so_are_the_derivatives_of_both_orders() -> None:
    listed = WengertList.of(computed, [X], [Y])
    weights, directions = [tf.constant(1.5, tf.float64), tf.ones([2, 3], tf.float64)], [[Y], [Z]]

    def derivatives(f: Callable[..., Any]) -> list[Any]:
        def forward(sources: list[Any]) -> list[Any]:
            return list(f(*sources))

        first = pullbacks(forward, [Z], [weights])
        return list(tf.nest.flatten([first, second_pullbacks(forward, [Z], weights, directions)]))

    for one, other in zip(derivatives(listed), derivatives(computed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15)


def test_only_what_depends_on_the_inputs_and_is_needed_runs() -> None:
    listed = WengertList.of(computed, [X], [Y])
    assert not {"Exp", "StatelessRandomUniformV2", "Shape", "ReadVariableOp"} & set(names(listed))
    assert executed_operations(lambda: listed(Z)) == set(names(listed))


def test_constants_keep_their_values() -> None:
    changed = tf.Variable(2.0, dtype=tf.float64)
    listed = WengertList.of(lambda x: [x * changed], [X], [Y])
    changed.assign(3.0)
    np.testing.assert_array_equal(listed(X)[0], 2.0 * X)


def test_a_gradient_is_listed_with_its_backward_pass() -> None:
    def gradient(x: tf.Tensor, weight: tf.Tensor) -> list[tf.Tensor]:
        (row,) = pullbacks(lambda sources: [tf.tanh(sources[0])], [x], [[weight]])
        return list(row)

    listed = WengertList.of(gradient, [X, Y], [Y, Z])
    assert names(listed) == ["Tanh", "TanhGrad"]
    np.testing.assert_array_equal(listed(Z, X)[0], gradient(Z, X)[0])


def test_attributes_may_be_the_default() -> None:
    listed = WengertList.of(lambda x: [tf.squeeze(tf.stack([x], 1)) * x], [X], [Y])
    assert names(listed) == ["Pack", "Squeeze", "Mul"]
    np.testing.assert_array_equal(listed(Z)[0], Z * Z)
    weights, directions = [tf.ones(3, tf.float64)], [[Y]]
    second = second_pullbacks(lambda sources: listed(*sources), [Z], weights, directions)
    np.testing.assert_array_equal(second[1][0][0], 2 * Y)


def test_results_may_be_inputs_or_constants() -> None:
    one, other = WengertList.of(lambda x: [x, tf.ones(2, tf.float64)], [X], [Y])(Z)
    np.testing.assert_array_equal(one, Z)
    np.testing.assert_array_equal(other, [1, 1])


NONE: dict[str, tuple[Callable[..., Any], str]] = {
    "a step through NumPy": (lambda x: [x * tf.constant(np.sin(x.numpy()))], "other values"),
    "a branch in Python": (lambda x: [tf.sin(x) if float(x[0]) < 1 else tf.cos(x)], "other values"),
    "random numbers": (lambda x: [x * tf.random.uniform([3], dtype=tf.float64)], "other values"),
    "random numbers of the inputs": (lambda x: [tf.random.poisson([], tf.abs(x))], "RandomPoissonV2"),
    "a function": (lambda x: [tf.function(tf.sin)(x)], "is a function, or has a state"),
}


@pytest.mark.parametrize("name", NONE)
def test_what_runs_otherwise_at_other_points_is_no_list(name: str) -> None:
    compute, why = NONE[name]
    with pytest.raises(NoListError, match=why):
        WengertList.of(compute, [X], [Y])
