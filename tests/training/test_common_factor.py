"""Gradients that are all one number times the right ones: the number, its origin in the step, the remedy followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import GradientMismatch, assert_step
from gradcheck.result import Cause, Diagnosis
from gradcheck.training.common_factor import MULTIPLE, PASSES, REWARD, SCALED, UNCHANGED

BATCH = tf.constant([[0.5, 1.0, 0.2], [-1.0, 0.25, 0.4], [2.0, 0.5, -1.0], [0.1, -1.0, 0.3]], tf.float64)
Step = Callable[..., Any]


@pytest.fixture
def w() -> tf.Variable:
    return tf.Variable([[0.7], [-0.3]], dtype=tf.float64, name="w")


@pytest.fixture
def b() -> tf.Variable:
    return tf.Variable([0.2], dtype=tf.float64, name="b")


def causes(step: Step, *inputs: Any, **arguments: Any) -> list[Diagnosis | None]:
    with pytest.raises(GradientMismatch) as caught:
        assert_step(step, *inputs, **arguments)
    assert caught.value.result is not None
    return [finding.diagnosis for finding in caught.value.result.findings]


def evidence(step: Step, *inputs: Any, **arguments: Any) -> tuple[str, str]:
    """The evidence and the remedy that all findings have in common."""
    first, *rest = causes(step, *inputs, **arguments)
    assert first is not None
    assert all(one == first for one in rest)
    return first.evidence, first.remedy


def errors(batch: Any, w: Any, b: Any) -> Any:
    return (tf.tanh(batch[:, :2] @ w + b) - batch[:, 2:]) ** 2


def accumulating(w: tf.Variable, b: tf.Variable, share: float, of_loss: float, *, later: float = 1.0) -> Step:
    """A step of two passes that uses `share` of its summed gradients, and `of_loss` of its summed losses."""
    kept = [tf.Variable(tf.zeros_like(w)), tf.Variable(tf.zeros_like(b))]
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([w, b])

    def step(batch: Any) -> Any:
        total = tf.zeros((), tf.float64)
        for one in kept:
            one.assign(tf.zeros_like(one))
        for number in tf.range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(errors(batch[2 * number : 2 * number + 2], w, b))
            part = tf.where(number == 0, tf.constant(1.0, tf.float64), later)
            for one, gradient in zip(kept, tape.gradient(loss, [w, b]), strict=True):
                one.assign_add(part * gradient)
            total += loss
        optimizer.apply_gradients([(share * kept[0], w), (share * kept[1], b)])
        return of_loss * total

    return step


def test_accumulated_steps(w: tf.Variable, b: tf.Variable, traced: Any) -> None:
    said = evidence(traced(accumulating(w, b, 1.0, 0.5)), BATCH)
    assert said == (
        "all gradients are 2 times the right ones, as many as there are passes: their 2 gradients are summed, the loss "
        "is their mean",
        PASSES.format(count=2),
    )
    assert assert_step(traced(accumulating(w, b, 0.5, 0.5)), BATCH).verdict == "agree"
    assert assert_step(traced(accumulating(w, b, 1.0, 1.0)), BATCH).verdict == "agree"


def test_the_sum_of_the_passes_may_be_right_and_changed_afterwards(w: tf.Variable, b: tf.Variable, traced: Any) -> None:
    said = evidence(traced(accumulating(w, b, 3.0, 1.0)), BATCH)
    assert said == (
        "all gradients are 3 times the right ones; the sum of the 2 gradients that its tapes took is right, and was "
        "multiplied",
        UNCHANGED.format(total="sum"),
    )


def test_passes_of_different_weights_have_no_common_factor(w: tf.Variable, b: tf.Variable, traced: Any) -> None:
    for found in causes(traced(accumulating(w, b, 1.0, 0.5, later=0.25)), BATCH):
        assert found is None or "all gradients are" not in found.evidence


def differentiating(w: tf.Variable, b: tf.Variable, target: Step, loss: Step, *, of_b: float = 1.0) -> Step:
    """A step that differentiates one function of its errors and returns another."""

    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            found = errors(batch, w, b)
            differentiated = target(found)
        of_w, of_bias = tape.gradient(differentiated, [w, b])
        return loss(found), [of_w, of_b * of_bias]

    return step


SAMPLES = ", as many as the 4 samples of inputs[0]"
MULTIPLES = {
    "sum": (tf.reduce_sum, tf.reduce_mean, f"4 times the right ones{SAMPLES}; the tape differentiated", MULTIPLE),
    "vector": (tf.identity, tf.reduce_mean, f"{SAMPLES}; the tape differentiated 4 numbers, which means", MULTIPLE),
    "reward": (lambda e: -tf.reduce_mean(e), tf.reduce_mean, "are -1 times the right ones: the sign is wrong", REWARD),
    "scale": (
        lambda e: 1024 * tf.reduce_mean(e),
        tf.reduce_mean,
        "as its loss; a loss scale, by which the gradients were not divided",
        SCALED.format(scale="1024"),
    ),
    "other": (lambda e: 0.3 * tf.reduce_mean(e), tf.reduce_mean, "are 0.3 times the right ones; the tape", MULTIPLE),
}


@pytest.mark.parametrize("name", MULTIPLES)
def test_a_tape_that_differentiates_a_multiple_of_the_loss(
    w: tf.Variable, b: tf.Variable, name: str, traced: Any
) -> None:
    target, loss, expected, remedy = MULTIPLES[name]
    said = evidence(traced(differentiating(w, b, target, loss)), BATCH, variables=[w, b])
    assert expected in said[0]
    assert said[0].startswith("all gradients are ")
    assert said[1] == remedy
    for one in (target, loss):
        step = differentiating(w, b, one, lambda found, one=one: tf.reduce_sum(one(found)))
        assert assert_step(traced(step), BATCH, variables=[w, b]).verdict == "agree"


def test_a_loss_scale_that_is_not_divided_out(w: tf.Variable, b: tf.Variable) -> None:
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=256)
    scaling.build([w, b])

    def stepping(optimizer: Any) -> Step:
        def step(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(errors(batch, w, b))
                scaled = scaling.scale_loss(loss)
            optimizer.apply_gradients(zip(tape.gradient(scaled, [w, b]), [w, b], strict=True))
            return loss

        return step

    found, remedy = evidence(stepping(scaling.inner_optimizer), BATCH)
    assert found.startswith("all gradients are 256 times the right ones; the tape differentiated ")
    assert remedy == SCALED.format(scale="256")
    assert assert_step(stepping(scaling), BATCH).verdict == "agree"


def test_a_second_factor_is_no_common_one(w: tf.Variable, b: tf.Variable, traced: Any) -> None:
    step = differentiating(w, b, tf.reduce_sum, tf.reduce_mean, of_b=2.0)
    for found in causes(traced(step), BATCH, variables=[w, b]):
        assert found is None or "all gradients are" not in found.evidence


def test_nor_is_a_factor_of_one_of_two_variables(w: tf.Variable, b: tf.Variable) -> None:
    step = differentiating(w, b, tf.reduce_mean, tf.reduce_mean, of_b=4.0)
    for found in causes(step, BATCH, variables=[w, b]):
        assert found is not None
        assert found.cause is Cause.CHANGED_AFTERWARDS
        assert "all gradients" not in found.evidence


def test_a_factor_that_nothing_in_the_step_explains(w: tf.Variable, b: tf.Variable) -> None:
    """The step makes its gradients by hand."""

    def step(batch: Any, factor: float) -> Any:
        inner = tf.tanh(batch[:, :2] @ w + b)
        slope = 2 * (inner - batch[:, 2:]) * (1 - inner**2) / len(batch)
        gradients = [tf.transpose(batch[:, :2]) @ slope, tf.reduce_sum(slope, 0)]
        return tf.reduce_mean((inner - batch[:, 2:]) ** 2), [factor * gradient for gradient in gradients]

    found = evidence(step, BATCH, 0.7, variables=[w, b])[0]
    assert found.startswith("all gradients are 0.7 times the right ones")
    assert assert_step(step, BATCH, 1.0, variables=[w, b]).verdict == "agree"


def test_a_train_step_of_keras(traced: Any) -> None:
    class Net(keras.Sequential):
        factor: Any = 1.0

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            found = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(
                [(self.factor * one, v) for one, v in zip(found, self.trainable_variables, strict=True)]
            )
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    net = Net([keras.Input((2,)), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.1))
    net.optimizer.build(net.trainable_variables)
    data = tf.cast(BATCH[:, :2], tf.float32), tf.cast(BATCH[:, 2:], tf.float32)
    net.factor = -1.0
    for found in causes(traced(net.train_step), data):
        assert found is not None
        assert found.cause is Cause.CHANGED_AFTERWARDS
        assert re.search("all gradients (are|were) .*-1.*: the sign is wrong", found.evidence)
    net.factor = 1.0
    assert assert_step(traced(net.train_step), data).verdict == "agree"
