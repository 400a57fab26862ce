"""Keras models, and methods of them, that are called as they are not meant: the message says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import assert_close, assert_step, check, explain

X, Y = np.linspace(-1.0, 1.0, 12).reshape(4, 3), np.ones((4, 1))
LOSS = keras.losses.MeanSquaredError()


@pytest.fixture(scope="module")
def model() -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def written(message: str, model: Any) -> Any:
    """The result of the line that a message says to write."""
    line = re.search(r"gradcheck\.\w+\(.*\)$", message)
    assert line, message
    names = {"gradcheck": gradcheck, "model": model, "x": tf.constant(X), "y": tf.constant(Y), "loss": LOSS}
    return eval(line[0], names)


def traced(model: Any) -> Any:
    return tf.function(model.train_step)


MISREAD: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "a model with data": (explain, lambda model: (model, X, Y), "which takes 1 input, 2 were given"),
    "a model with data in check": (check, lambda model: (model, X, Y), "which takes 1 input, 2 were given"),
    "a model with data in assert_close": (
        assert_close,
        lambda model: (model, X, Y),
        "which takes 1 input, 2 were given",
    ),
    "a model as a step": (
        assert_step,
        lambda model: (model, X, Y),
        "step is a model (Sequential), a training step was",
    ),
    "a model with a batch": (assert_step, lambda model: (model, (X, Y)), "step is a model (Sequential), a training "),
    "two inputs": (assert_step, lambda model: (model.train_step, X, Y), "train_step takes (data), 2 inputs were given"),
    "two inputs in explain": (explain, lambda model: (model.train_step, X, Y), "takes (data), 2 inputs were given"),
    "a traced step": (assert_step, lambda model: (traced(model), X, Y), "train_step takes (data), 2 inputs were given"),
    "no inputs": (explain, lambda model: (model.train_step,), "train_step takes (data), no inputs were given"),
    "fit": (explain, lambda model: (model.fit, X, Y), "f is the fit of a model, which trains for many steps"),
    "fit as a step": (
        assert_step,
        lambda model: (model.fit, X, Y),
        "step is the fit of a model, which trains for many",
    ),
    "a call of fit": (
        explain,
        lambda model: (lambda: model.fit(X, Y, verbose=0),),
        "f returned the History of model.fit, which trains for many steps",
    ),
}


@pytest.mark.parametrize("name", MISREAD)
def test_the_message_says_what_to_write(name: str, model: Any) -> None:
    asked, arguments, said = MISREAD[name]
    with pytest.raises(TypeError) as caught:
        asked(*arguments(model))
    assert said in str(caught.value)
    assert written(str(caught.value), model).verdict == "agree"


class Two(keras.Model):  # type: ignore[misc]
    def call(self, a: Any, b: Any) -> Any:
        return a * b


class Own(keras.Model):  # type: ignore[misc]
    def train_step(self, x: Any, y: Any) -> Any:
        kernel = self.trainable_variables[0]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ kernel - y) ** 2)
        return loss, [tape.gradient(loss, kernel)]


def test_what_a_model_takes_is_not_refused(model: Any) -> None:
    assert check(Two(), X, X).verdict == "agree"
    assert explain(Two(), X, X).verdict == "agree"
    assert check(lambda x: model(x), X).verdict == "agree"
    own = Own()
    own.kernel = own.add_weight(name="kernel", shape=(3, 1), dtype="float64")
    batch = tf.constant(X), tf.constant(Y)
    assert assert_step(own.train_step, *batch, variables=[own.kernel]).verdict == "agree"
