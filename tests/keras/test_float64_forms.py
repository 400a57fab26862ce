"""Layers and networks that compute in less than float64 are decided by their float64 form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import slices
from tests.verdicts import check


@pytest.mark.sliced
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_fault_behind_a_cast_is_found(dtype: str) -> None:
    @tf.custom_gradient
    def wrong(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) * (1.01 if dtype == "float32" else 2.0)

    assert check(lambda x: tf.cast(wrong(tf.cast(x, dtype)), tf.float64), [0.5, 1.0]).verdict == "mismatch"
    if dtype not in slices.sliced(["float32", "float16", "bfloat16"], lambda dtypes: dtypes[-1:]):
        return
    layer = keras.layers.Dense(2, activation=wrong, dtype=dtype)
    x = tf.constant([[0.3, 0.6]], dtype)
    layer(x)
    assert check(layer, x, variables=[variable.value for variable in layer.variables]).verdict == "mismatch"


LAYERS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "Dense": (lambda **dtype: keras.layers.Dense(3, "tanh", **dtype), (2, 3)),
    "Conv2D": (lambda **dtype: keras.layers.Conv2D(2, 2, **dtype), (1, 3, 3, 2)),
    "LSTM": (lambda **dtype: keras.layers.LSTM(1, **dtype), (1, 2, 1)),
    "UnitNormalization": (lambda **dtype: keras.layers.UnitNormalization(**dtype), (2, 4)),
    "UpSampling2D": (lambda **dtype: keras.layers.UpSampling2D(interpolation="bilinear", **dtype), (1, 3, 3, 1)),
    "GlobalMaxPooling2D": (lambda **dtype: keras.layers.GlobalMaxPooling2D(**dtype), (1, 3, 3, 2)),
    "Dropout": (lambda **dtype: keras.layers.Dropout(0.5, seed=1, **dtype), (3, 4)),
}

FAULTS = {"float32": 1.01, "mixed_bfloat16": -4.0, "bfloat16": -4.0}


FEW = [
    *(("float32", "UnitNormalization"), ("float32", "UpSampling2D"), ("float32", "Dropout")),
    *(("mixed_bfloat16", "Conv2D"), ("bfloat16", "Dense"), ("bfloat16", "GlobalMaxPooling2D")),
]


@slices.parametrized("policy, name", product(FAULTS, LAYERS), lambda _: FEW)  # an LSTM takes as long as all of these
def test_layers_are_decided(policy: str, name: str) -> None:
    (make, shape), fault = LAYERS[name], FAULTS[policy]
    x = tf.cast(np.random.default_rng(3).normal(size=shape), "bfloat16" if policy == "bfloat16" else "float32")
    if name == "LSTM":  # Keras draws an orthogonal matrix, for which there is no kernel in less than float32
        make = partial(make, recurrent_initializer="glorot_uniform")
    keras.utils.set_random_seed(0)
    layer = make(dtype=policy)
    layer(x)
    variables = [variable.value for variable in layer.trainable_variables] or None

    @tf.custom_gradient
    def wrong(y: tf.Tensor) -> Any:
        return tf.identity(y), lambda upstream: fault * upstream

    def called(x: tf.Tensor) -> Any:
        return layer(x, training=True) if name == "Dropout" else layer(x)

    result = check(called, x, variables=variables)
    assert (result.verdict, result.orders[1].inconclusive) == ("agree", 0)
    assert check(lambda x: wrong(called(x)), x, variables=variables).verdict == "mismatch"


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * tf.cast(1.02, x.dtype)


@pytest.mark.parametrize(
    ("activation", "verdict"),
    [(tf.nn.silu, "agree"), (scaled_slope, "mismatch"), (tf.function(scaled_slope), "mismatch")],
    ids=["right", "wrong", "wrong, traced before"],
)
def test_a_wrong_custom_gradient_in_a_float32_network_is_found(activation: Any, verdict: str) -> None:
    keras.utils.set_random_seed(1)
    layers = keras.layers.Dense(4, "tanh"), keras.layers.Dense(4, activation), keras.layers.Dense(4)
    network, images, labels = keras.Sequential(layers), tf.random.normal([4, 3]), tf.constant([0, 1, 2, 3])
    network(images)

    def loss() -> tf.Tensor:
        return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, network(images), True))

    assert check(loss, variables=network.trainable_variables).verdict == verdict
