"""Custom gradients whose function computes with tensors that are not among its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Cause, explain

Code = Callable[[], Any]
data = tf.constant([[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]], tf.float64)
w = tf.Variable([[0.5], [-0.25]], dtype=tf.float64, name="w")
s = tf.Variable(0.5, dtype=tf.float64, name="s")


def code_of(argument: Code, scaled_by: Callable[[Any], Callable[[Any], Any]]) -> Code:
    """Code that calls a custom gradient, which uses a tensor beside its argument."""

    def code() -> Any:
        with tf.GradientTape() as tape:
            e = tf.exp(s)
            loss = tf.reduce_mean(scaled_by(e)(argument()) ** 2)  # captures
        return tape.gradient(loss, s)

    return code


def by_itself(e: Any) -> Callable[[Any], Any]:
    @tf.custom_gradient
    def scaled(given: tf.Tensor) -> Any:
        return given * e, lambda upstream: upstream * e

    return scaled


def in_a_function_that_it_calls(e: Any) -> Callable[[Any], Any]:
    inner = by_itself(e)

    @tf.custom_gradient
    def scaled(given: tf.Tensor) -> Any:
        return inner(given) + 1.0, lambda upstream: upstream * e

    return scaled


CAPTURING = [
    pytest.param(code_of(lambda: data @ w, by_itself), id="beside an argument that does not depend"),
    pytest.param(code_of(lambda: s * data @ w, by_itself), id="beside an argument that depends"),
    pytest.param(code_of(lambda: data @ w, in_a_function_that_it_calls), id="in a function that it calls"),
]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("code", CAPTURING)
def test_a_tensor_that_is_no_argument_is_the_custom_gradient_s_fault(code: Code, traced: bool) -> None:
    (one,) = explain(tf.function(code) if traced else code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.CUSTOM_GRADIENT
    assert one.diagnosis.place is not None
    assert one.diagnosis.place.code.endswith("# captures")
    assert "the function scaled under tf.custom_gradient" in one.diagnosis.evidence


def test_a_tensor_that_was_cut_off_before_is_not_its_fault() -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(by_itself(tf.stop_gradient(s))(data @ w))
        return tape.gradient(loss, s)

    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.STOP_GRADIENT
    assert "custom_gradient" not in one.diagnosis.evidence


@tf.custom_gradient
def scaled_by_a_variable(given: tf.Tensor) -> Any:
    def gradient(upstream: tf.Tensor, variables: Any) -> Any:
        return upstream * s, [tf.reduce_sum(upstream * given)]

    return given * s, gradient


def test_a_variable_that_it_takes_as_one_is_no_cut() -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(scaled_by_a_variable(s * data)) + tf.stop_gradient(s**3)
        return tape.gradient(loss, s)

    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.STOP_GRADIENT


def test_a_python_number_inside_of_its_function_is_one() -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            e = tf.exp(s)

            @tf.custom_gradient
            def scaled(given: tf.Tensor) -> Any:
                factor = float(e)  # the cut
                return given * factor, lambda upstream: upstream * factor

            loss = tf.reduce_sum(scaled(data))
        return tape.gradient(loss, s)

    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.NUMPY
    assert one.diagnosis.place is not None
    assert one.diagnosis.place.code.endswith("# the cut")
