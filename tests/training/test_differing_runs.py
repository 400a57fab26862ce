"""Runs of a step that differ: what differs first, and which Python state, or which operation, makes them differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import assert_step

Step = Callable[..., Any]
HIDDEN = [[[np.random.default_rng(5)]]]
"""A generator in lists, where no name of the step leads."""


def refusal(step: Step, *inputs: Any) -> str:
    with pytest.raises(ValueError, match="two runs of the step from the same state differ") as caught:
        assert_step(step, *inputs)
    return str(caught.value)


def scaled(x: tf.Variable, factor: Any, of_gradient: Any = 1.0) -> Any:
    with tf.GradientTape() as tape:
        loss = factor * x**2
    return loss, [of_gradient * tape.gradient(loss, x)]


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable(3.0, name="x", dtype=tf.float64)


class Trainer:
    """Counts its steps, which matters, and its calls, which does not."""

    def __init__(self, x: tf.Variable, *, noisy: bool) -> None:
        self.x, self.noisy = x, noisy
        self.calls, self.turn = 0, 0
        self.turns = tf.Variable(0)
        self.log: list[int] = []

    def counted(self) -> None:
        self.calls += 1
        self.log.append(self.calls)

    def noise(self) -> Any:
        return tf.random.normal((), dtype=tf.float64) if self.noisy else 0.0

    def in_python(self) -> Any:
        self.counted()
        self.turn += 1
        return scaled(self.x, 1.0 + self.turn % 2 + self.noise())

    def in_a_variable(self) -> Any:
        self.counted()
        self.turns.assign_add(1)
        return scaled(self.x, 1.0 + tf.cast(self.turns % 2, tf.float64) + self.noise())

    def as_an_input(self, turn: Any) -> Any:
        self.counted()
        return scaled(self.x, 1.0 + turn % 2 + self.noise())


@pytest.mark.parametrize("noisy", [False, True])
def test_of_several_changes_the_one_that_matters_is_named(x: tf.Variable, noisy: bool) -> None:
    trainer = Trainer(x, noisy=noisy)
    message = refusal(trainer.in_python)
    assert "), and it changes self.turn (was 1, is 2); pass that as an input" in message
    assert (trainer.calls, trainer.turn, trainer.log) == (0, 0, [])
    assert assert_step(trainer.in_a_variable).verdict == "agree"
    assert assert_step(trainer.as_an_input, 1.0).verdict == "agree"
    assert (trainer.calls, trainer.turn, trainer.log) == (0, 0, [])


def test_two_changes_that_matter_together_are_both_named(x: tf.Variable) -> None:
    numbers = {"first": 0}
    count = 0

    def step() -> Any:
        nonlocal count
        count += 1
        numbers["first"] += 1
        return scaled(x, float(max(count, numbers["first"])))

    assert "and it changes count (was 1, is 2), numbers; pass" in refusal(step)


def test_a_counter_is_not_blamed_for_hidden_state(x: tf.Variable) -> None:
    calls = 0

    def step() -> Any:
        nonlocal calls
        calls += 1
        noise = HIDDEN[0][0][0].normal()
        return scaled(x, tf.constant(1.0 + noise, tf.float64))

    message = refusal(step)
    assert "calls" not in message
    assert "a value that enters TensorFlow is " in message
    assert " at test_differing_runs.py:" in message
    assert "such as a generator object like np.random.default_rng()" in message


def test_a_random_operation_of_a_graph_is_named(x: tf.Variable) -> None:
    calls = 0
    drawn = tf.function(lambda: tf.random.normal((), dtype=tf.float64))

    def step() -> Any:
        nonlocal calls
        calls += 1
        return scaled(x, drawn())

    message = refusal(step)
    assert "calls" not in message
    assert "RandomStandardNormal, whose state cannot be put back" in message


def test_a_value_kept_from_the_last_step(x: tf.Variable) -> None:
    kept = {"average": 1.0}

    def step() -> Any:
        loss, gradients = scaled(x, kept["average"])
        kept["average"] = 0.5 * kept["average"] + 0.1
        return loss, gradients

    assert "and it changes kept" in refusal(step)


@pytest.mark.parametrize(
    ("of_loss", "of_gradient", "apart"),
    [
        (0.5, 0.0, "losses 13.5 and 18"),
        (1e-12, 0.0, "losses 9.000000000009 and 9.000000000018"),
        (0.0, 1.0, "gradients of x:0: 6 and 12"),
    ],
)
def test_what_differs_first_is_said_with_the_digits_that_show_it(
    x: tf.Variable, of_loss: float, of_gradient: float, apart: str
) -> None:
    count = -1

    def step() -> Any:
        nonlocal count
        count += 1
        return scaled(x, 1.0 + of_loss * count, 1.0 + of_gradient * (count - 1))

    assert f"differ ({apart}), and it changes count (was 0, is 1)" in refusal(step)


def test_an_update_that_differs(x: tf.Variable) -> None:
    moves = [0.5]

    def step() -> Any:
        loss, gradients = scaled(x, 1.0)
        x.assign_sub(moves[0] * gradients[0])
        moves[0] /= 2
        return loss, gradients

    assert "differ (new values of x:0: 1.5 and 2.25), and it changes moves" in refusal(step)


def test_an_input_may_be_a_number(x: tf.Variable) -> None:
    assert "RandomStandardNormal" in refusal(
        tf.function(lambda factor: scaled(x, factor * tf.random.normal((), dtype=tf.float64))), 2.0
    )


def test_what_only_counts_is_no_reason_to_refuse(x: tf.Variable) -> None:
    trainer = Trainer(x, noisy=True)

    def step() -> Any:
        trainer.counted()
        return scaled(x, 1.0 + trainer.noise())

    assert assert_step(step).verdict == "agree"


class Alternating(keras.Sequential):
    """Trains its last layer at every second step only."""

    turn, counts = 0, True

    def train_step(self, data: Any) -> Any:
        self.turn += self.counts
        variables = self.trainable_variables if self.turn % 2 or not self.counts else self.trainable_variables[:2]
        with tf.GradientTape() as tape:
            noise = tf.random.normal(tf.shape(data), dtype=tf.float64)
            loss = tf.reduce_mean(self(data + noise) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


def test_a_train_step_that_counts() -> None:
    keras.utils.set_random_seed(2)
    layers = keras.layers.Dense(2, "tanh", dtype="float64"), keras.layers.Dense(1, dtype="float64")
    model = Alternating([keras.Input((2,), dtype="float64"), *layers])
    model.compile(keras.optimizers.SGD(0.1))
    model.optimizer.build(model.trainable_variables)
    data = tf.constant([[1.0, 0.5], [0.3, -1.0]], tf.float64)
    message = refusal(model.train_step, data)
    assert "/kernel:0, which only one has), and it changes self.turn (was 1, is 2); pass that" in message
    model.counts = False
    assert assert_step(model.train_step, data).verdict == "agree"
