"""A gradient of a Keras network in the middle of a training, compared with a few differences of its loss."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gradcheck import spot_check


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * tf.cast(1.02, x.dtype)


def network(activation: Any) -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(4, activation)]
    model = keras.Sequential([*layers, keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model(tf.random.normal([4, 3]))
    return model


def loss_of(model: Any) -> Any:
    images, targets = tf.random.stateless_normal([4, 3], [1, 2]), tf.random.stateless_normal([4, 1], [3, 4])
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


def test_mixed_precision_agrees_with_less() -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = network("tanh")
    finally:
        keras.config.set_dtype_policy("float32")
    assert spot_check(loss_of(model), model.trainable_variables).verdict != "mismatch"


def test_variables_that_are_not_finite_are_named_by_their_path() -> None:
    model = network("tanh")
    kernel = model.layers[0].kernel
    kernel.assign(kernel * np.nan)
    found = spot_check(loss_of(model), model.trainable_variables)
    assert f"{kernel.path} holds NaN or infinity" in str(found)
