"""A gradient in the middle of a training, held against a few differences of its loss."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import spot_check
from gradcheck.spot_check import SpotWalk


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * tf.cast(1.02, x.dtype)


def network(activation: Any, dtype: str = "float32") -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(16, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(16, activation)]
    model = keras.Sequential([*layers, keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model(tf.random.normal([8, 5]))
    return model


def loss_of(model: Any) -> Any:
    images, targets = tf.random.stateless_normal([8, 5], [1, 2]), tf.random.stateless_normal([8, 1], [3, 4])
    return tf.function(lambda: tf.reduce_mean((tf.cast(model(images, training=True), tf.float32) - targets) ** 2))


def test_a_right_network_agrees_and_is_left_as_it_was() -> None:
    model = network("relu")
    loss = loss_of(model)
    loss()
    before = [variable.numpy() for variable in model.variables]
    found = spot_check(loss, model.trainable_variables)
    assert found.verdict == "agree"
    assert found.error < found.resolution < 0.05
    assert f"an error of {found.resolution:.1e} would have been noticed" in str(found)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_wrong_custom_gradient_is_named() -> None:
    model = network(scaled_slope)
    found = spot_check(loss_of(model), model.trainable_variables)
    assert found.verdict == "mismatch"
    assert found.error > found.resolution
    causes = {finding.diagnosis.cause.value for finding in found.result.findings if finding.diagnosis is not None}
    assert causes == {"wrong custom gradient"}


@pytest.mark.parametrize("factor", [1.01, 0.0, -1.0, float("nan")])
def test_a_gradient_of_ones_own(factor: float) -> None:
    weights = tf.Variable([0.5, -1.0, 2.0], dtype=tf.float64)

    def loss() -> tf.Tensor:
        return tf.reduce_sum(tf.sin(weights))

    assert spot_check(loss, weights, lambda: tf.cos(weights)).verdict == "agree"
    assert spot_check(loss, [weights], lambda: [tf.cos(weights) * factor]).verdict == "mismatch"
    assert spot_check(loss, [weights], lambda: [None]).verdict == "mismatch"


def test_dropout_without_a_seed_is_held_fixed() -> None:
    weights = tf.Variable(tf.ones([20]))
    found = spot_check(lambda: tf.reduce_sum(tf.nn.dropout(weights, 0.5) ** 2), [weights])
    assert found.verdict == "agree"


def test_what_differs_from_call_to_call_is_said_to() -> None:
    weights, calls = tf.Variable([1.0, 2.0]), [0]

    def loss() -> tf.Tensor:
        calls[0] += 1
        return tf.reduce_sum(weights) * float(calls[0])

    found = spot_check(loss, [weights])
    assert found.verdict == "inconclusive"
    assert found.result.orders[1].reasons == (gradcheck.Reason.NOT_DETERMINISTIC,)
    assert "no direction could be compared" in str(found)


def test_rows_of_steps_on_a_line_share_their_points() -> None:
    weights, points = tf.Variable(np.linspace(-1.0, 1.0, 40)), []

    def loss() -> tf.Tensor:
        points.append(weights.numpy())
        return tf.reduce_sum(tf.sin(weights))

    found = SpotWalk.of(loss, [weights], lambda: 2 * tf.cos(weights)).along(2)
    assert found.verdict == "mismatch"
    # The loss, and four at the start and an ulp from it; on each line 16 points, and four more for the finer row.
    assert len(points) == 5 + 2 * (16 + 4)
    assert len({point.tobytes() for point in points[5:]}) == 2 * (16 + 4)


def test_mixed_precision_agrees_with_less() -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = network("tanh")
    finally:
        keras.config.set_dtype_policy("float32")
    assert spot_check(loss_of(model), model.trainable_variables).verdict != "mismatch"


WEIGHTS = tf.Variable([1.0, 2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((WEIGHTS, [WEIGHTS]), "loss is of type ResourceVariable; a function without arguments was expected"),
        ((lambda: WEIGHTS[0], [WEIGHTS], [1.0]), "gradient is of type list; a function without arguments"),
        ((lambda: WEIGHTS, [WEIGHTS]), r"loss returned float32\(2,\); a scalar of a floating type was expected"),
        ((lambda: WEIGHTS[0], [WEIGHTS], list), "gradient returned 0 for 1 variables; one for each was expected"),
        (
            (lambda: WEIGHTS[0], [WEIGHTS], lambda: [1.0]),
            r"has the shape \(\); that of the variable was expected, \(2,\)",
        ),
        ((lambda: WEIGHTS[0], [1.0]), "is of type float; a tf.Variable was expected"),
    ],
)
def test_bad_input_is_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        spot_check(*arguments)


@pytest.mark.parametrize("directions", [0, 1.5, True])
def test_so_is_a_number_of_directions(directions: Any) -> None:
    with pytest.raises(ValueError, match=f"directions was {directions!r}; an integer of at least 1 was expected"):
        spot_check(lambda: WEIGHTS[0], [WEIGHTS], directions=directions)
