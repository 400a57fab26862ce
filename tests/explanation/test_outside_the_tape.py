"""A computation outside the tape is named by the line that can be moved into its block."""

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


def test_the_line_that_is_named_can_be_moved(subtests: pytest.Subtests) -> None:
    for code in OUTSIDE:
        with subtests.test(code.__name__):
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


x = tf.Variable(2.0, dtype=tf.float64, name="x")
CONSTANT = "; if that is meant as a constant (a target, an advantage), nothing is wrong"


def test_all_lines_that_ran_outside_are_named(lines: Callable[..., str]) -> None:
    def code() -> Any:
        parts = []
        for _ in range(3):
            parts.append(x**2)
        cube = x**3
        with tf.GradientTape() as tape:
            with tape.stop_recording():
                root = tf.sqrt(x)
            loss = tf.add_n(parts) + cube + root + x
        return tape.gradient(loss, x)

    found = diagnosis(code)
    evidence = (
        "Pow at test_outside_the_tape.py:«parts.append(x**2)» and Pow at test_outside_the_tape.py:«cube = x**3» ran "
        "before the tape was opened at test_outside_the_tape.py:«with tf.GradientTape() as tape:»; Sqrt at "
        "test_outside_the_tape.py:«root = tf.sqrt(x)» ran while the tape's recording was stopped at "
        "test_outside_the_tape.py:«with tape.stop_recording():»; a tape around"
    )
    remedy = (
        "move `parts.append(x**2)` (test_outside_the_tape.py:«parts.append(x**2)»), `cube = x**3` "
        "(test_outside_the_tape.py:«cube = x**3») and `root = tf.sqrt(x)` "
        "(test_outside_the_tape.py:«root = tf.sqrt(x)») into the block"
    )
    assert lines(code, evidence) in found.evidence
    assert lines(code, remedy) in found.remedy


def test_of_many_lines_outside_some_are_counted() -> None:
    def code() -> Any:
        a = x**2
        b = x**3
        c = tf.sin(x)
        d = tf.cos(x)
        e = tf.exp(x)
        with tf.GradientTape() as tape:
            loss = a + b + c + d + e
        return tape.gradient(loss, x)

    evidence = diagnosis(code).evidence
    assert "Cos at" in evidence
    assert "Exp at" not in evidence
    assert "; so did operations on 1 more line; " in evidence


def test_a_target_that_the_same_network_computed_may_be_meant() -> None:
    def code() -> Any:
        target = wanted + 0.9 * tf.reduce_max(data @ w)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((data @ w - target) ** 2)
        return tape.gradient(loss, w)

    assert diagnosis(code).remedy.endswith(CONSTANT)


def test_an_advantage_beside_a_policy_may_be_meant() -> None:
    policy = tf.Variable([[0.25], [1.0]], dtype=tf.float64)

    def code() -> Any:
        advantage = wanted - data @ w
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(advantage * tf.math.log_sigmoid(data @ policy))
        return tape.gradient(loss, [policy, w])

    found = explain(code).sources[1].diagnosis
    assert found is not None
    assert found.remedy.endswith(CONSTANT)


def test_where_nothing_is_left_of_the_gradient_that_is_not_meant() -> None:
    assert "nothing is wrong" not in diagnosis(helped).remedy
