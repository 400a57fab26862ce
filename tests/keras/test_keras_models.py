"""Keras models: their trainable variables through assert_close, in float64 and in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_close, check


class Network(keras.Model):
    """A convolution, attention over its pixels, a normalisation and a dense head."""

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.convolution = keras.layers.Conv2D(2, 2, activation="tanh", dtype=dtype)
        self.reshape = keras.layers.Reshape((4, 2), dtype=dtype)
        self.attention = keras.layers.MultiHeadAttention(num_heads=1, key_dim=2, dtype=dtype)
        self.normalization = keras.layers.LayerNormalization(dtype=dtype)
        self.dense = keras.layers.Dense(2, dtype=dtype)

    def call(self, images: Any) -> Any:
        pixels = self.reshape(self.convolution(images))
        return self.dense(self.normalization(pixels + self.attention(pixels, pixels)))


def network(dtype: str) -> tuple[Network, tf.Tensor]:
    keras.utils.set_random_seed(1)
    images = tf.constant(np.random.default_rng(2).normal(size=(2, 3, 3, 1)), dtype)
    model = Network(dtype)
    model(images)
    # Biases that start as zero would leave half of the model untested.
    for variable in model.trainable_variables:
        variable.assign_add(0.1 * np.random.default_rng(3).normal(size=variable.shape))
    return model, images


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_model_with_its_inputs_and_trainable_variables(dtype: str) -> None:
    model, images = network(dtype)
    before = [variable.numpy().copy() for variable in model.trainable_variables]
    assert len(before) == 14

    def loss(images: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(model(images) - 0.5))

    assert_close(loss, images, variables=model.trainable_variables)
    for variable, value in zip(model.trainable_variables, before, strict=True):
        assert variable.dtype == dtype
        np.testing.assert_array_equal(variable.numpy(), value)


def test_both_orders_of_a_small_model() -> None:
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.layers.Input((2,), dtype="float64"),
            keras.layers.Dense(2, activation="tanh", dtype="float64"),
            keras.layers.Dense(1, dtype="float64"),
        ]
    )
    x = tf.constant([[0.5, -1.0], [1.5, 0.25]], tf.float64)
    assert_close(lambda x: tf.reduce_sum(model(x) ** 2), x, variables=model.trainable_variables, order=2)


def test_a_layer_with_a_wrong_gradient_is_found_by_the_name_of_its_weight() -> None:
    @tf.custom_gradient
    def scaled(x: tf.Tensor, gamma: tf.Tensor) -> Any:
        return x * gamma, lambda upstream: (upstream * gamma, tf.reduce_sum(upstream * x, axis=0) * 1.001)

    class Scale(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.gamma = self.add_weight(shape=(shape[-1],), initializer="ones", name="gamma")

        def call(self, x: Any) -> Any:
            return scaled(x, tf.convert_to_tensor(self.gamma))

    dense, layer = keras.layers.Dense(2, dtype="float64"), Scale(dtype="float64")

    def loss() -> tf.Tensor:
        return tf.reduce_mean(layer(dense(x)) ** 2)

    x = tf.constant([[0.5, -1.0], [1.5, 0.25]], tf.float64)
    loss()
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_close(loss, variables=[*dense.trainable_variables, layer.gamma])
    (finding,) = caught.value.result.findings  # type: ignore[union-attr]
    assert finding.input == "variables[2] (scale/gamma)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Dropout(0.4, seed=1),
        lambda: keras.layers.GaussianDropout(0.4),
        lambda: keras.layers.AlphaDropout(0.4, seed=1),
        lambda: keras.layers.GaussianNoise(0.3),
        lambda: keras.layers.SpectralNormalization(keras.layers.Dense(3, dtype="float64"), dtype="float64"),
        lambda: keras.layers.BatchNormalization(dtype="float64"),
    ],
)
def test_layers_with_a_state_get_a_verdict_while_it_is_held(make: Callable[[], Any]) -> None:
    layer, x = make(), tf.constant(np.random.default_rng(0).normal(size=(3, 4)))
    layer(x, training=True)
    before = [variable.numpy() for variable in layer.variables]
    result = check(lambda x: layer(x, training=True), x)
    assert result.verdict == "agree"
    assert result.orders[1].compared >= 108
    assert "all calls start from the same state" in str(result)
    for variable, value in zip(layer.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_wrong_gradient_behind_dropout_is_seen() -> None:
    dropout = keras.layers.Dropout(0.4, seed=1, dtype="float64")

    @tf.custom_gradient
    def wrong(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda dy: dy * 1.01 * tf.cos(x)

    result = check(lambda x: dropout(wrong(x), training=True), np.ones(20))
    assert result.verdict == "mismatch"
