"""Derivatives that are zero for a reason in the values, and variables that are copies of those that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import explain

Loss = Callable[[Any], Any]
x = tf.constant(np.abs(np.random.default_rng(0).normal(size=(4, 2))), tf.float32)
dense = keras.layers.Dense(3, "relu")
dense.build((None, 2))
dense.set_weights([np.array([[1.0, -1.0, 0.5], [1.0, -2.0, 0.3]], "float32"), np.zeros(3, "float32")])


def step_of(loss: Loss, source: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(loss(source))
        return tape.gradient(value, source)

    return step


def variable(value: Any) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float32, name="w")


RELU = "4 of 4 values are negative, so that Relu at test_zeros.py:"
MINIMUM = "2 of 2 values are beyond the bound of Minimum at test_zeros.py:"
ZERO: list[tuple[Loss, Any, str]] = [
    (lambda w: tf.nn.relu(x @ w) ** 2, [[-1.0], [-2.0]], RELU),
    (lambda w: tf.keras.activations.relu(x @ w) * 2, [[-1.0], [-2.0]], RELU),
    (lambda w: tf.function(lambda w: tf.nn.relu(x @ w))(w), [[-1.0], [-2.0]], RELU),
    (lambda w: tf.clip_by_value(w, -1.0, 1.0) ** 2, [3.0, 4.0], MINIMUM),
    (lambda w: tf.minimum(w**2, 1.0), [3.0, 4.0], MINIMUM),
]


@pytest.mark.parametrize("case", ZERO, ids=["relu", "of Keras", "traced", "clip", "minimum"])
def test_a_zero_is_right_and_has_its_reason(case: tuple[Loss, Any, str]) -> None:
    loss, value, reason = case
    for step in (step_of(loss, variable(value)), tf.function(step_of(loss, variable(value)))):
        result = explain(step)
        (one,) = result.sources
        assert (result.verdict, one.right) == ("agree", True)
        assert one.note.startswith(reason)


def test_one_unit_of_a_layer_is_dead() -> None:
    step = step_of(lambda kernel: dense(x) ** 2, dense.kernel)
    (one,) = explain(step).sources
    assert one.right
    assert one.note.startswith("4 of 4 values of unit 1 are negative, so that Relu at test_zeros.py:")
    assert "(layer dense" in one.note


@pytest.mark.parametrize(
    "loss", [lambda w: tf.nn.relu(x @ w), lambda w: w * 0.0, lambda w: tf.nn.relu(-1.0 - w[:1] ** 2) + w[1:]]
)
def test_of_another_zero_or_of_none_nothing_is_said(loss: Loss) -> None:
    (one,) = explain(step_of(loss, variable([[1.0], [2.0]]))).sources
    assert one.right
    assert one.note == ""


def net_of(units: int = 1) -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])


net = net_of()
copies = [tf.Variable(one.value) for one in net.trainable_variables]
others = [tf.Variable(tf.random.stateless_normal(one.shape, [1, 2])) for one in net.trainable_variables]


def gradient_of(sources: Any) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(net(x) ** 2)
        return tape.gradient(loss, sources)

    return step


@pytest.mark.parametrize("sources", [copies, others], ids=["values", "shapes"])
def test_copies_of_variables(sources: Any) -> None:
    for step in (gradient_of(sources), tf.function(gradient_of(sources))):
        result = explain(step)
        assert result.verdict == "inconclusive"
        for one in result.sources:
            assert one.unconnected
            assert "the sources have the shapes of the variables of net, as a copy has" in one.note
            assert "differentiate net.trainable_variables instead" in one.note
    assert explain(gradient_of(net.trainable_variables)).verdict == "agree"


def test_one_copy() -> None:
    original = tf.Variable([1.0, 2.0], name="original")
    copy = tf.Variable(original)

    def step(source: Any = copy) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(original**2)
        return tape.gradient(loss, source)

    (one,) = explain(step).sources
    assert "it has the value of original, as a copy has: differentiate original instead" in one.note
    assert explain(lambda: step(original)).verdict == "agree"


@pytest.mark.parametrize(
    "sources", [[variable(5.0)], [variable(np.ones((7, 7))), variable(1.0)], [*copies, net.weights[0]]]
)
def test_other_variables_are_no_copies(sources: Any) -> None:
    notes = [one.note for one in explain(gradient_of(sources)).sources]
    assert not any("copy" in note for note in notes)
