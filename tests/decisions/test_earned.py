"""An agreement is earned: an error of a tenth of a source's derivative does not agree."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Reason
from tests import slices
from tests.verdicts import check

WRONG = slices.sliced((0.0, -1.0, 1.1, 1.5), slices.every(2))
"""Factors of a gradient."""


def scaled(factor: Any) -> Callable[[Any], Any]:
    """The identity with a gradient that is `factor` times the right one."""

    @tf.custom_gradient
    def identity(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda dy: tf.cast(factor, x.dtype) * dy

    return identity


def shifted(error: Any) -> Callable[[Any], Any]:
    """A sum of sines plus an exponential of the mean, with a gradient that is wrong by an error per element."""

    def total(x: tf.Tensor) -> Any:
        return tf.reduce_sum(tf.sin(x)) + tf.exp(tf.reduce_mean(x))

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = total(x)
        right = tape.gradient(value, x)
        return value, lambda dy: dy * (right + tf.constant(error, x.dtype))

    return f


@slices.parametrized(("size", "dtype"), product((1, 10, 30, 1000), ("float64", "float32")), lambda cases: cases[::3])
def test_an_error_as_large_as_the_stated_resolution_does_not_agree(size: int, dtype: str) -> None:
    x = tf.constant(np.linspace(0.5, 1.2, size), dtype)
    result = check(shifted(np.zeros(size)), x)
    assert result.verdict == "agree"
    error = np.zeros(size)
    # Many inputs are compared together, each weighted by its magnitude.
    error[size // 2] = result.resolution_of("x") / (1.0 if size < 24 else x[size // 2])
    for times in (1.0, 3.0):
        assert check(shifted(times * error), x).verdict != "agree"
    assert check(shifted(error / 100), x).verdict == "agree"


def test_the_first_look_states_no_less_than_a_closer_one_allows() -> None:
    def f_of(error: float) -> Any:
        @tf.custom_gradient
        def f(x: tf.Tensor) -> Any:
            return 1e6 * tf.sin(x) + 1e-6 * x**3, lambda dy: dy * (1e6 * tf.cos(x) + 3e-6 * x**2 + error)

        return f

    stated = check(f_of(0.0), 2.0).resolution_of("x")
    assert [check(f_of(times * stated), 2.0).verdict for times in (1.0, 1.2, 3.0)] == ["mismatch"] * 3


@pytest.mark.sliced
@pytest.mark.parametrize("size", [3, 30])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_source_that_the_others_hide_is_looked_at_by_itself(size: int, dtype: str) -> None:
    x, y = (tf.constant(np.linspace(low, 1.2, size), dtype) for low in (0.5, 0.7))
    least = 1e-9 if dtype == "float64" else 1e-7

    def f_of(factor: float) -> Any:
        return lambda x, y: tf.reduce_sum(tf.sin(x)) + least * tf.reduce_sum(scaled(factor)(y) ** 2)

    order = check(f_of(1.0), x, y).orders[1]
    seen, hidden = order.by_source
    if dtype == "float32":  # by the values of the float64 form
        assert order.verdict == "agree"
        assert hidden.resolution < least / 10 < seen.resolution
    for factor in WRONG:
        assert check(f_of(factor), x, y).verdict != "agree", factor


def test_a_derivative_of_zero_is_seen_to_be_zero() -> None:
    x, y = np.linspace(0.5, 1.2, 30), np.linspace(0.7, 1.2, 30)
    assert check(lambda x, y: tf.reduce_sum(tf.sin(x)) + 0.0 * tf.reduce_sum(y), x, y).verdict == "agree"
    blind = scaled(0.0)
    for least in (1.0, 1e-9):
        wrong = check(lambda x, y, least=least: tf.reduce_sum(tf.sin(x)) + least * tf.reduce_sum(blind(y)), x, y)
        assert [finding.input for finding in wrong.findings] == ["y"]


def test_a_large_input_without_a_derivative_hides_no_error_behind_its_size() -> None:
    """1e-15 times the input is 1e-9, in a function with the value 0.5 that does not depend on that input."""
    for error, verdict in ((1e-15, "mismatch"), (0.0, "agree")):

        @tf.custom_gradient
        def leaking(x: tf.Tensor, error: float = error) -> Any:
            return tf.zeros_like(x), lambda upstream: error * upstream

        assert check(lambda x: tf.sin(x[1]) + leaking(x[0]), [1e6, 0.5]).verdict == verdict


def test_a_source_that_moves_nothing_but_rounding_is_seen_by_a_quick_look() -> None:
    """A bias of all keys of an attention layer, on which its twelve outputs do not depend."""
    keras.utils.set_random_seed(7)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 2))
    layer = keras.layers.MultiHeadAttention(2, 3, dtype="float64")
    layer(x, y)
    order = check(layer, x, y, variables=layer.trainable_variables).orders[1]
    assert order.verdict == "agree"
    assert any("in 2 random combinations" in note for note in order.notes)


@pytest.mark.parametrize("size", [3, 8, 30])
def test_a_point_where_all_derivatives_are_zero_agrees(size: int) -> None:
    x = np.zeros(size)
    assert check(lambda x: tf.reduce_sum(x**2) + tf.reduce_prod(x), x, order=2).verdict == "agree"
    wrong = scaled(2.0)
    off = check(lambda x: tf.reduce_sum(wrong(x - 1e-3) ** 2 - 1e-6 + 2e-3 * x), x)
    assert off.verdict == "mismatch"


@pytest.mark.sliced
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_sum_of_hundreds_of_rows_in_low_precision_says_what_it_sees(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, b = tf.constant(rng.normal(size=(300, 4)), dtype), tf.constant(rng.normal(size=4), dtype)
    for factor in WRONG:
        wrong = scaled(factor)
        result = check(lambda x, b, f=wrong: tf.reduce_sum(tf.nn.bias_add(x, f(b)) ** 2), x, b)
        assert result.verdict != "agree", factor


def test_what_is_seen_too_coarsely_is_told_with_the_number_and_what_helps() -> None:
    x = tf.constant([1.0, -2.0], tf.bfloat16)

    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(x**2)

    order = check(f, x, gradient=[2.2 * x]).orders[1]
    assert (order.verdict, order.reasons) == ("inconclusive", (Reason.TOO_COARSE,))
    (note,) = order.notes
    assert "times the derivative for x" in note
    assert "float64" in note
    assert check(f, x, gradient=[2.0 * x]).verdict == "agree"


def test_an_operation_that_is_wrong_by_a_tenth_in_bfloat16_is_wrong_by_as_much_in_float64() -> None:
    x = tf.constant([1.0, -2.0], tf.bfloat16)
    for factor, verdict in ((1.1, "mismatch"), (1.0, "agree")):
        wrong = scaled(factor)
        assert check(lambda x, f=wrong: tf.reduce_sum(f(x) ** 2), x).verdict == verdict


def test_a_mixed_precision_layer_whose_gradient_is_half_too_large_does_not_agree() -> None:
    class Wrong(keras.layers.Layer):  # type: ignore[misc]
        def call(self, h: Any) -> Any:
            return scaled(1.5)(h)

    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 6)).astype("float32"), rng.integers(0, 3, size=8)
    hidden = [keras.layers.Dense(16, activation=name, dtype="mixed_float16") for name in ("relu", "swish")]
    model = keras.Sequential([hidden[0], Wrong(dtype="mixed_float16"), hidden[1], keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model(x)
    assert check(lambda: loss(y, model(x)), variables=model.trainable_variables).verdict != "agree"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_cast_of_constants_costs_no_resolution(dtype: str) -> None:
    d, x = tf.constant([0.1, 0.7, -1.3], tf.float64), np.linspace(0.5, 1.2, 3)

    def f_of(factor: float) -> Any:
        return lambda x: tf.reduce_sum(tf.sin(scaled(factor)(x)) * tf.cast(tf.cast(d, dtype), tf.float64))

    assert check(f_of(1.0), x).resolution_of("x") < 1e-9
    assert [check(f_of(1 + error), x).verdict for error in (1e-6, 1e-3)] == ["mismatch"] * 2


def test_an_input_layer_that_casts_its_data_costs_no_resolution() -> None:
    keras.utils.set_random_seed(0)
    wrong = scaled(1 + 1e-6)
    layers = [keras.layers.Dense(4, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")]
    model, data = keras.Sequential([keras.Input((3,)), *layers]), np.linspace(-1.0, 1.0, 15).reshape(5, 3)
    for f, verdict in ((tf.identity, "agree"), (wrong, "mismatch")):
        found = check(lambda f=f: tf.reduce_sum(f(model(data)) ** 2), variables=model.trainable_variables)
        assert found.verdict == verdict


@pytest.mark.parametrize("size", [24, 25, 200])
def test_a_relative_tolerance_is_that_of_each_entry(size: int) -> None:
    x, weights, signs = np.linspace(0.5, 1.2, size), np.ones(size), np.ones(size)
    weights[size // 2], signs[size // 2] = 1e-4, -1.0

    def f_of(signs: Any) -> Any:
        @tf.custom_gradient
        def f(x: tf.Tensor) -> Any:
            return tf.reduce_sum(tf.sin(x) * weights), lambda dy: dy * tf.cos(x) * weights * signs

        return f

    (finding,) = check(f_of(signs), x, rtol=1e-3).findings
    assert finding.index == (size // 2,)
    assert check(f_of(1.0), x, rtol=1e-3).verdict == "agree"
    assert check(f_of(np.where(signs < 0, 1 + 1e-4, 1.0)), x, rtol=1e-3).verdict == "agree"


@pytest.mark.parametrize("outputs", [3, 24, 40])
def test_a_relative_tolerance_is_that_of_each_entry_of_each_output(outputs: int) -> None:
    """One entry is a thousandth of the others, and its own output a thousandth of the others."""
    x, matrix = np.linspace(0.5, 1.2, 30), np.ones((outputs, 30))
    matrix[1] *= 1e-3
    matrix[1, 7] *= 1e-3

    def f_of(factor: float) -> Any:
        wrong = matrix.copy()
        wrong[1, 7] *= factor

        @tf.custom_gradient
        def f(x: tf.Tensor) -> Any:
            return tf.linalg.matvec(matrix, tf.sin(x)), lambda dy: tf.linalg.matvec(wrong.T, dy) * tf.cos(x)

        return f

    verdicts = [check(f_of(factor), x, rtol=1e-2).verdict for factor in (1.0, 1.005, 1.02, -1.0)]
    assert verdicts == ["agree", "agree", "mismatch", "mismatch"]


def test_the_resolution_is_that_of_the_output_that_is_seen_worst() -> None:
    x, scales = np.linspace(0.5, 1.2, 30), np.array([1e-6, 1e6, 1.0])

    def f_of(error: float) -> Any:
        @tf.custom_gradient
        def f(x: tf.Tensor) -> Any:
            def backward(dy: tf.Tensor) -> Any:
                return tf.reduce_sum(dy * scales) * tf.cos(x) + error * dy[1] * np.eye(30)[4]

            return tf.reduce_sum(tf.sin(x)) * scales, backward

        return f

    right = check(f_of(0.0), x)
    assert right.verdict == "agree"
    stated = right.resolution_of("x")
    assert stated == right.orders[1].resolution
    assert [check(f_of(times * stated / x[4]), x).verdict for times in (1.0, 3.0)] == ["mismatch"] * 2


@pytest.mark.parametrize("size", [24, 25, 1000])
def test_an_input_far_smaller_than_the_others_is_seen(size: int) -> None:
    x, factor = np.linspace(0.5, 1.2, size), np.ones(size)
    x[3], factor[3] = 1e-12, 2.0
    assert check(lambda x: tf.reduce_sum(tf.sin(x)), x).verdict == "agree"
    (finding,) = check(lambda x: tf.reduce_sum(tf.sin(scaled(factor)(x))), x).findings
    assert finding.element == "x[3]"


def test_the_resolution_of_a_source_is_found_by_its_name() -> None:
    v = tf.Variable(2.0, dtype=tf.float64, name="kernel")
    result = check(lambda x: x**2 + 1e-9 * v**2, 1.0, variables=[v])
    assert result.resolution_of("x") == result.resolution_of("x", order=1) > 0
    assert result.resolution_of("kernel") == result.resolution_of("variables[0] (kernel:0)") > 0
    with pytest.raises(KeyError, match="'bias' names 0 sources where one was expected; known are x, variables"):
        result.resolution_of("bias")
    with pytest.raises(KeyError, match="order 2 was not checked; known are 1"):
        result.resolution_of("x", order=2)


def test_the_resolution_of_a_source_is_printed_where_it_is_another_than_that_of_the_whole() -> None:
    apart = str(check(lambda x, y: 1e6 * tf.exp(x) + tf.sin(y), 1.0, 1.0))
    alike = str(check(lambda x, y: tf.exp(x) + tf.sin(y), 1.0, 1.0))
    assert "of its own derivative" in apart
    assert "of its own derivative" not in alike
