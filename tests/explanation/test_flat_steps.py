"""Sources whose effect is a staircase that small moves do not show, and sources that have no effect at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, explain

Code = Callable[[], Any]


def f64(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name)


X, Y = np.random.default_rng(0).normal(size=(6, 2)), np.array([[1.0], [0.0], [1.0], [1.0], [1.0], [0.0]])
b, t = f64([0.0, 0.0, 0.0], "b"), f64(0.5, "t")
kernel, bias, y = f64([[16.0], [-12.0]], "kernel"), f64([0.1], "bias"), f64(2.0, "y")
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((2,), dtype="float64"), keras.layers.Dense(3, dtype="float64")])


def largest(margin: float) -> Code:
    def code() -> Any:
        logits = tf.constant([[margin, 0.0, 0.0], [0.0, margin, 0.0]], tf.float64)
        with tf.GradientTape() as tape:
            chosen = tf.argmax(logits + b, 1)
            loss = tf.reduce_sum(tf.one_hot(chosen, 3) * [1.0, 2.0, 3.0])
        return tape.gradient(loss, b)

    return code


def far_threshold() -> Any:
    with tf.GradientTape() as tape:
        above = t > 5.0
        loss = tf.where(above, tf.ones_like(y), tf.zeros_like(y))
    return tape.gradient(loss, t)


def accuracy() -> Any:
    with tf.GradientTape() as tape:
        predicted = tf.round(tf.sigmoid(X @ kernel + bias))
        loss = tf.reduce_mean(tf.cast(tf.equal(predicted, Y), tf.float64))
    return tape.gradient(loss, [kernel, bias])


def classes() -> Any:
    with tf.GradientTape() as tape:
        chosen = tf.argmax(model(10.0 * X), 1)
        loss = tf.reduce_mean(tf.cast(chosen, tf.float64))
    return tape.gradient(loss, model.trainable_variables)


STEPS = {
    "argmax by 3": (largest(3.0), Cause.NOT_DIFFERENTIABLE, "chosen = tf.argmax(logits + b, 1)"),
    "argmax by 1": (largest(1.0), Cause.NOT_DIFFERENTIABLE, "chosen = tf.argmax(logits + b, 1)"),
    "a threshold": (far_threshold, Cause.DTYPE, "above = t > 5.0"),
    "an accuracy": (accuracy, Cause.NOT_DIFFERENTIABLE, "predicted = tf.round(tf.sigmoid(X @ kernel + bias))"),
    "a model": (classes, Cause.NOT_DIFFERENTIABLE, "chosen = tf.argmax(model(10.0 * X), 1)"),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_moves_the_target_in_steps_is_missing(name: str) -> None:
    code, cause, line = STEPS[name]
    result = explain(code)
    assert [source.right for source in result.sources] == [False] * len(result.sources), str(result)
    for source in result.sources:
        assert source.diagnosis is not None
        assert source.diagnosis.place is not None
        assert (source.diagnosis.cause, source.diagnosis.place.code) == (cause, line)


def guard() -> Any:
    return tf.where(tf.math.is_nan(t), tf.zeros_like(y), y)


def overflow() -> Any:
    return y + 0.0 * tf.exp(100.0 * tf.round(10.0 * t))


def shape() -> Any:
    return y * tf.cast(tf.size(t) + tf.rank(t), tf.float64) + tf.zeros_like(t) * tf.ones_like(t)


def stopped() -> Any:
    return y + 0.0 * tf.stop_gradient(t)


NOTHING = "the target does not depend on it, but on y"
BETWEEN = "no perturbation that was tried changed the target: {} at test_flat_steps.py:{} lies between"
WITHOUT = {
    "a guard": (guard, BETWEEN.format("IsNan", guard.__code__.co_firstlineno + 1)),
    "an overflow": (overflow, BETWEEN.format("Round", overflow.__code__.co_firstlineno + 1)),
    "a shape": (shape, NOTHING),
    "a part that is stopped": (stopped, NOTHING),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_does_not_move_the_target_is_unconnected(name: str) -> None:
    function, note = WITHOUT[name]

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = function()
        return tape.gradient(loss, [t, y])

    result = explain(code)
    assert result.verdict == "agree", str(result)
    assert [(one.right, one.note) for one in result.sources] == [(None, note), (True, "")]
    assert result.unconnected == (result.sources[0].name,)
