"""A value that is NaN or infinite: the operation that made it from finite numbers is named, or the input that had
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, assert_step, check, explain, spot_check

Function = Callable[[Any], Any]
ROWS = tf.constant([[1.0, np.nan], [2.0, 3.0]], tf.float64)


def origin(f: Function, x: Any) -> Diagnosis:
    """The operation that explain names as the origin of the value."""
    (source,) = explain(f, tf.constant(x, tf.float64)).sources
    assert source.right is None
    assert source.diagnosis is not None
    return source.diagnosis


def looped(x: Any) -> Any:
    for _ in tf.range(4):
        x = tf.sqrt(x) - 0.9
    return x


def repeated(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.sqrt(y) - 0.9), [0, x])[1]


def branched(x: Any) -> Any:
    return tf.cond(x[0] > 0, lambda: x, lambda: tf.acos(x))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def doubled_logarithm(x: Any) -> Any:
    return 2.0 * tf.math.log(x), lambda dy: 2.0 * dy / x


def held(x: Any) -> Any:
    state.assign(tf.reduce_sum(tf.math.log(x)))
    return state + x


state = tf.Variable(0.0, dtype=tf.float64)
MADE: dict[str, tuple[Function, list[float], str, str, str]] = {
    "a logarithm": (lambda x: tf.math.log(x), [1.0, -1.0], "tf.math.log", "nan at x[1] = -1", "keep x above 0"),
    "of zero": (lambda x: tf.math.log(x), [0.0, 2.0], "tf.math.log", "-inf at x[0] = 0", "keep x above 0"),
    "a root": (lambda x: tf.sqrt(x), [1.0, -4.0], "tf.sqrt", "nan at x[1] = -4", "at 0 or above"),
    "a quotient": (lambda x: x[0] / x[1], [1.0, 0.0], "tf.truediv (RealDiv)", "inf at y = 0", "divide_no_nan"),
    "a power": (lambda x: x**0.5, [-2.0, 1.0], "tf.pow", "nan at x[0] = -2", "x**p is NaN where x is negative"),
    "a power that is too large": (
        lambda x: x**99,
        [1e9, 1.0],
        "tf.pow",
        "inf at x[0] = 1e+09",
        "too large for float64",
    ),
    "an exponential": (lambda x: tf.exp(x), [1.0, 1e3], "tf.exp", "inf at x[1] = 1000", "too large for its dtype"),
    "a product": (lambda x: x * x, [1e200, 1.0], "tf.multiply (Mul)", "inf at x[0] = 1e+200", "too large for float64"),
    "a cast": (lambda x: tf.cast(x, tf.float16), [1e6, 1.0], "tf.cast", "inf at x[0] = 1e+06", "too large for float16"),
    "no elements": (
        lambda x: tf.reduce_mean(tf.boolean_mask(x, x > 5.0)),
        [1.0, 2.0],
        "tf.reduce_mean (Mean)",
        "nan of no elements",
        "the mean of no elements",
    ),
    "inside of a library": (lambda x: tf.norm(x) / tf.norm(0.0 * x), [1.0, 2.0], "tf.truediv (RealDiv)", "y = 0", ""),
    "inside of Keras": (lambda x: keras.ops.log(x), [1.0, -1.0], "keras.ops.log", "nan at x[1] = -1", "keep x above 0"),
    "a loop": (tf.function(looped), [0.9, 2.0], "tf.sqrt", "nan at x[0] = -0.679357", "at 0 or above"),
    "a loop of TensorFlow": (tf.function(repeated), [0.9, 2.0], "tf.sqrt", "nan at x[0] = -0.679357", "at 0 or above"),
    "a branch": (tf.function(branched), [-2.0, 0.5], "tf.acos", "nan at x[0] = -2", "clip the argument"),
    "a custom gradient": (doubled_logarithm, [1.0, -1.0], "tf.math.log", "nan at x[1] = -1", "keep x above 0"),
    "a variable between": (held, [1.0, -1.0], "tf.math.log", "nan at x[1] = -1", "keep x above 0"),
}
"""Functions with the operation that makes NaN or infinity, at which value, and a part of the remedy."""


@pytest.mark.parametrize("name", MADE)
def test_the_operation_that_made_it_is_named(name: str) -> None:
    f, x, operation, made, remedy = MADE[name]
    diagnosis = origin(f, x)
    assert diagnosis.cause is Cause.NOT_FINITE
    assert f"{operation} at test_not_finite_values.py:" in diagnosis.evidence
    assert made in diagnosis.evidence
    assert remedy in diagnosis.remedy
    assert diagnosis.place is not None
    assert "tf." in diagnosis.place.code or "x" in diagnosis.place.code


def test_what_does_not_reach_the_value_is_not_blamed() -> None:
    """Values that tf.where or a slice leaves out, and an infinity from which a finite number is made."""

    def left_out(x: Any) -> Any:
        logs = tf.where(x > 0, tf.math.log(x), 0.0)
        parts = tf.stack([tf.math.log(x[0]), x[1], tf.sqrt(x[0])])
        return tf.reduce_sum(logs + 1.0 / tf.exp(1e3 * x[1])) + tf.reduce_sum(2.0 * parts[1:])

    evidence = origin(left_out, [-1.0, 2.0]).evidence
    assert evidence.startswith("in the forward pass, tf.sqrt at ")


def test_of_several_the_first_is_named() -> None:
    def several(x: Any) -> Any:
        first = tf.math.log(x)
        return first + tf.sqrt(x)

    assert "tf.math.log at " in origin(several, [-1.0]).evidence


@pytest.mark.parametrize(
    ("f", "name", "held", "remedy"),
    [
        (
            lambda x: x * ROWS,
            "ROWS, which `",
            "holds nan at [0, 1], 1 of 4 numbers are not finite",
            "leave such rows out",
        ),
        (lambda x: x * np.array([1.0, np.nan]), "a constant in `", "holds nan at [1], 1 of 2", "write a finite number"),
        (lambda x: x * np.inf, "a constant in `", "holds inf, 1 of 1", "-1e9"),
    ],
    ids=["captured", "written", "infinite"],
)
def test_what_came_in_is_named(f: Function, name: str, held: str, remedy: str) -> None:
    diagnosis = origin(f, [1.0, 2.0])
    assert diagnosis.cause is Cause.CAME_IN
    assert diagnosis.evidence.startswith(name)
    assert held in diagnosis.evidence
    assert remedy in diagnosis.remedy


def test_an_input_and_a_variable_that_are_not_finite_are_named() -> None:
    weights = tf.Variable([1.0, np.inf], dtype=tf.float64, name="weights")
    (source,) = explain(lambda: tf.reduce_sum(weights - weights)).sources
    assert source.diagnosis is not None
    assert "tf.subtract (Sub) at " in source.diagnosis.evidence, "it is what makes NaN of infinity"
    (source,) = explain(lambda: tf.reduce_sum(weights**2)).sources
    assert source.diagnosis is not None
    assert source.diagnosis.evidence.startswith("the variable weights holds inf at [1], 1 of 2 numbers")
    result = explain(lambda batch: tf.reduce_sum(batch["age"] ** 2), {"age": ROWS})
    (source,) = result.sources
    assert source.diagnosis is not None
    assert source.diagnosis.evidence.startswith("batch['age'] holds nan at [0, 1]")


def test_check_says_it_where_it_refuses_the_point() -> None:
    with pytest.raises(ValueError, match=r"give other inputs; in the forward pass, tf\.math\.log at .* at x\[1\] = -1"):
        check(lambda x: tf.math.log(x), [1.0, -1.0])


def test_steps_name_the_operation_behind_their_loss() -> None:
    w = tf.Variable([1.0, -1.0])

    def loss() -> Any:
        return tf.reduce_sum(tf.math.log(w))

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return value, [tape.gradient(value, w)]

    with pytest.raises(
        ValueError, match=r"the loss of the step is nan, .*; in the forward pass, tf\.math\.log at .*:\d+ "
    ):
        assert_step(step, variables=[w])
    # The remedy of a spot check says that explain names the operation.
    assert "gradcheck.explain(loss, variables=variables) names" in str(spot_check(loss, [w]))
    (source,) = explain(loss, variables=[w]).sources
    assert source.note == "the target is NaN or infinite"
    assert source.diagnosis is not None
    assert "tf.math.log at " in source.diagnosis.evidence
    (source,) = explain(step).sources
    assert "not finite (the target is NaN or infinite)" in str(source)


def test_the_layer_is_named() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(2, activation="exponential", kernel_initializer="ones", name="large")])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"keras\.activations\.exponential \(Exp\) at .*layer large.* = 300"):
        assert_step(model.train_step, (100 * tf.ones((2, 3)), tf.ones((2, 2))))
