"""Replays for the differences may come from a graph of the code, if its targets equal those of eager replays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import gradcheck
from tests import slices

Code = Callable[[], Any]


def codes(x: tf.Variable, factor: float) -> dict[str, Code]:
    calls, total = [0.0], tf.Variable(1.0, dtype=tf.float64)
    drawn = np.random.default_rng(3).normal(size=100)

    @tf.custom_gradient
    def power(value: Any) -> Any:
        return value**4, lambda upstream: factor * upstream * 4 * value**3

    def gradient(scale: Callable[[], Any] = lambda: 1.0) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(power(x)) * scale()
        return tape.gradient(loss, x)

    def counting() -> Any:
        total.assign_add(1.0)
        return gradient(lambda: total)

    def reading() -> Any:
        return gradient(lambda: 1.0 if float(x[0]) < 1e9 else 2.0)

    def drawing() -> Any:
        return gradient(lambda: np.random.uniform(1.0, 2.0))

    def drawing_tensors() -> Any:
        return gradient(lambda: tf.random.uniform((), 1, 2, tf.float64) + tf.random.normal((), 9, 1, tf.float64))

    def drawing_late() -> Any:
        return gradient(lambda: tf.numpy_function(lambda: np.float64(np.random.uniform(1, 2)), [], tf.float64))

    def of_a_tensor() -> Any:
        inner = x * 1.0
        with tf.GradientTape() as tape:
            tape.watch(inner)
            loss = tf.reduce_sum(power(inner))
        return tape.gradient(loss, inner)

    def python_state() -> Any:
        calls[0] += 1.0
        return gradient(lambda: drawn[0])

    return {
        "plain": gradient,
        "state": counting,
        "read": reading,
        "drawn": drawing,
        "drawn by TensorFlow": drawing_tensors,
        "drawn late": drawing_late,
        "of a tensor": of_a_tensor,
        "counted": python_state,
        "function": tf.function(gradient),
    }


TRACED = ("plain", "state", "drawn", "drawn by TensorFlow", "counted", "function")
NAMES = (*TRACED, "read", "drawn late", "of a tensor")


@slices.parametrized(
    ("factor", "name"),
    product((1.0, 1.01), NAMES),
    lambda cases: [*cases[: len(NAMES)], *cases[len(NAMES) :: 6]],
)
def test_the_verdict_is_that_of_replays(name: str, factor: float, graphs: list[bool]) -> None:
    """Of the wrong ones, the test command takes one that is traced and one that is not."""
    x = tf.Variable([1.5, -2.0], name="x", dtype=tf.float64)
    result = gradcheck.explain(codes(x, factor)[name])
    assert [source.right for source in result.sources] == [factor == 1.0]
    assert graphs[0] is (name in TRACED)
    np.testing.assert_array_equal(x.numpy(), [1.5, -2.0])


def test_a_model_in_training(graphs: list[bool]) -> None:
    """Moving averages, seeds and metrics that the graph changes are restored before every replay, and at the end."""
    keras.utils.set_random_seed(2)
    normalization = keras.layers.BatchNormalization(center=False, scale=False)
    layers = [keras.layers.Dense(1, "tanh", use_bias=False), normalization, keras.layers.Dropout(0.3)]
    model = keras.Sequential([keras.layers.Input((2,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    batch = np.random.default_rng(1).normal(size=(6, 2)).astype("f4"), np.ones((6, 1), "f4")
    model.fit(*batch, epochs=1, verbose=0)
    held = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    before = [variable.numpy() for variable in held]
    result = gradcheck.explain(model.train_step, tuple(map(tf.constant, batch)))
    assert result.verdict == "agree"
    assert graphs[0]
    assert "all calls start from the same state" in str(result)
    for variable, value in zip(held, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
