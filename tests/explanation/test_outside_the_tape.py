"""What ran outside of the tape is named by the line that can be moved into its block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, explain

Code = Callable[[], Any]
data = tf.constant([[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]], tf.float64)
wanted = tf.constant([[1.0], [0.0], [2.0]], tf.float64)
w = tf.Variable([[0.5], [-0.25]], dtype=tf.float64, name="w")


def encode(given: tf.Tensor) -> tf.Tensor:
    return tf.tanh(given @ w)  # shared


def loss_of(predicted: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean((predicted - wanted) ** 2)


def helped() -> Any:
    hidden = encode(data)  # to be moved
    with tf.GradientTape() as tape:
        loss = loss_of(hidden)
    return tape.gradient(loss, w)


def helped_inside_and_outside() -> Any:
    target = encode(data)  # to be moved
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((encode(data) - 2.0 * target) ** 2)
    return tape.gradient(loss, w)


def after_the_tape() -> Any:
    with tf.GradientTape() as tape:
        hidden = data @ w
    loss = loss_of(hidden)  # to be moved
    return tape.gradient(loss, w)


def gradient_of(hidden: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        loss = loss_of(hidden)
    return tape.gradient(loss, w)


def tape_in_a_helper() -> Any:
    hidden = encode(data)  # to be moved
    return gradient_of(hidden)


def one_statement() -> Any:
    return gradient_of(
        encode(data),
    )


@contextmanager
def opened() -> Iterator[tf.GradientTape]:
    with tf.GradientTape() as tape:
        yield tape


def tape_of_a_context() -> Any:
    hidden = encode(data)  # to be moved
    with opened() as tape:
        loss = loss_of(hidden)
    return tape.gradient(loss, w)


def encode_unrecorded(tape: tf.GradientTape) -> tf.Tensor:
    with tape.stop_recording():
        return encode(data)  # to be moved


def stopped_in_a_helper() -> Any:
    with tf.GradientTape() as tape:
        hidden = encode_unrecorded(tape)
        loss = loss_of(hidden)
    return tape.gradient(loss, w)


class Regression(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(dtype="float64")
        self.layer = keras.layers.Dense(1, dtype="float64")

    def call(self, given: tf.Tensor) -> tf.Tensor:
        return self.layer(given)

    def step(self) -> Any:
        predicted = self(data)  # to be moved
        with tf.GradientTape() as tape:
            loss = loss_of(predicted)
        return tape.gradient(loss, self.layer.kernel)


def of_a_model() -> Any:
    return model.step()


model = Regression()
model(data)
OUTSIDE = [
    *(helped, helped_inside_and_outside, after_the_tape, tape_in_a_helper, tape_of_a_context, stopped_in_a_helper),
    of_a_model,
]


def diagnosis(code: Code) -> Diagnosis:
    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.OUTSIDE_TAPE
    return one.diagnosis


@pytest.mark.parametrize("code", OUTSIDE, ids=lambda code: code.__name__)
def test_the_line_that_is_named_can_be_moved(code: Code) -> None:
    found = diagnosis(code)
    assert found.place is not None
    assert found.place.code.endswith("# to be moved")
    assert f"move `{found.place.code}`" in found.remedy


def test_the_operation_inside_of_what_is_called_is_told(lines: Callable[..., str]) -> None:
    where = (
        "MatMul at test_outside_the_tape.py:«encode(data)  # to be moved» (inside of what is called there, at "
        "test_outside_the_tape.py:«# shared») ran before the tape was opened at test_outside_the_tape.py:«with»"
    )
    assert lines(helped, where) in diagnosis(helped).evidence


def test_in_one_statement_with_the_tape_there_is_only_the_operation_to_name() -> None:
    assert "`return tf.tanh(given @ w)  # shared`" in diagnosis(one_statement).remedy
