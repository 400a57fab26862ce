"""Sums and states that steps keep: gradients added to a variable, tensors kept on an object, one tape for each pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientPartial, GradientWrongValue, assert_step, explain
from gradcheck.result import Cause, Diagnosis
from gradcheck.training.common_factor import ONE_TAPE
from gradcheck.training.step_check import REMEDY, RESET

BATCH = tf.constant(np.random.default_rng(0).normal(size=(4, 3)))
Step = Callable[..., Any]


class Trainer:
    """Weights, an optimizer, and places in which to keep sums."""

    def __init__(self) -> None:
        self.w = tf.Variable([[0.7], [-0.3]], dtype=tf.float64, name="w")
        self.sum = tf.Variable(tf.zeros_like(self.w), trainable=False, name="sum")
        self.optimizer = keras.optimizers.SGD(0.1)
        self.optimizer.build([self.w])
        self.total: Any = 0.0
        self.state: Any = tf.zeros((4, 1), tf.float64)

    def loss(self, batch: Any, state: Any = 0.0) -> Any:
        return tf.reduce_mean((self.hidden(batch, state) - batch[:, 2:]) ** 2)

    def hidden(self, batch: Any, state: Any) -> Any:
        return tf.tanh(batch[:, :2] @ self.w + 0.5 * state)

    def gradient(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        return loss, tape.gradient(loss, self.w)

    def apply(self, gradient: Any) -> None:
        self.optimizer.apply_gradients([(gradient, self.w)])


@pytest.fixture
def trainer() -> Trainer:
    return Trainer()


def cause(step: Step) -> Diagnosis:
    with pytest.raises(GradientWrongValue) as caught:
        assert_step(step, BATCH)
    assert caught.value.result is not None
    (finding,) = caught.value.result.findings
    assert finding.diagnosis is not None
    return finding.diagnosis


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_variable_that_holds_the_gradients_of_earlier_steps(trainer: Trainer, traced: Any, share: float) -> None:
    def adding(batch: Any) -> Any:
        loss, gradient = trainer.gradient(batch)
        trainer.sum.assign_add(gradient)
        trainer.apply(share * trainer.sum)
        return loss

    def resetting(batch: Any) -> Any:
        loss = adding(batch)
        trainer.sum.assign(tf.zeros_like(trainer.sum))
        return loss

    def passes(batch: Any) -> Any:
        trainer.sum.assign(tf.zeros_like(trainer.sum))
        losses = []
        for part in (batch[:2], batch[2:]):
            loss, gradient = trainer.gradient(part)
            trainer.sum.assign_add(gradient)
            losses.append(loss)
        trainer.apply(share * trainer.sum)
        return share * tf.add_n(losses)

    adding(BATCH)
    found = cause(traced(adding))
    assert found.cause is Cause.CHANGED_AFTERWARDS
    assert "; sum:0 held " in found.evidence
    assert found.remedy == RESET.format(name="sum:0")
    assert assert_step(traced(passes), BATCH).verdict == "agree"
    if share == 1.0:
        resetting(BATCH)
        assert assert_step(traced(resetting), BATCH).verdict == "agree"


def test_what_is_added_besides_is_no_earlier_sum(trainer: Trainer, traced: Any) -> None:
    def decaying(batch: Any) -> Any:
        loss, gradient = trainer.gradient(batch)
        trainer.sum.assign_add(gradient)
        trainer.apply(gradient + 0.1 * trainer.w)
        return loss

    trainer.sum.assign([[1.0], [2.0]])
    found = cause(traced(decaying))
    assert "sum:0" not in found.evidence
    assert found.remedy == REMEDY


KEPT = ("total", "state")


@pytest.mark.parametrize("name", KEPT)
def test_a_tensor_that_an_object_keeps_is_named(trainer: Trainer, name: str) -> None:
    def step(batch: Any, kept: Any = None) -> Any:
        before = getattr(trainer, name) if kept is None else kept
        with tf.GradientTape() as tape:
            if name == "total":
                trainer.total = loss = before + trainer.loss(batch)
            else:
                trainer.state = trainer.hidden(batch, before)
                loss = tf.reduce_mean((trainer.state - batch[:, 2:]) ** 2)
        trainer.apply(tape.gradient(loss, trainer.w))
        return loss

    before = getattr(trainer, name)
    with pytest.raises(ValueError, match=rf"and it changes trainer\.{name} \(a tensor of shape ") as caught:
        assert_step(step, BATCH)
    assert "generator" not in str(caught.value)
    assert "; set that at the beginning of the step" in str(caught.value)
    assert getattr(trainer, name) is before
    assert assert_step(step, BATCH, tf.constant(before, tf.float64)).verdict == "agree"
    assert getattr(trainer, name) is before


def test_a_tensor_that_is_kept_and_not_read_is_no_reason_to_refuse(trainer: Trainer, traced: Any) -> None:
    def step(batch: Any) -> Any:
        loss, gradient = trainer.gradient(batch)
        trainer.total = loss
        trainer.apply(gradient)
        return loss

    trainer.total = tf.constant(5.0)
    assert assert_step(traced(step), BATCH).verdict == "agree"
    assert float(trainer.total) == 5.0


@tf.custom_gradient
def halved(x: Any) -> Any:
    return tf.identity(x), lambda dy: 0.5 * dy


def unrolled(trainer: Trainer, share: float, *, wrong: bool = False, handing: bool = True) -> Step:
    """Two passes with a tape each; the second begins with the state at which the first ends."""

    def step(batch: Any) -> Any:
        state, total, gradient = tf.zeros((2, 1), tf.float64), tf.zeros((), tf.float64), tf.zeros_like(trainer.w)
        for part in (batch[:2], batch[2:]):
            with tf.GradientTape() as tape:
                after = trainer.hidden(part, state)
                loss = tf.reduce_mean(((halved(after) if wrong else after) - part[:, 2:]) ** 2)
            gradient += share * tape.gradient(loss, trainer.w)
            total += share * loss
            state = after if handing else state
        trainer.apply(gradient)
        return total

    return step


@pytest.mark.parametrize(("share", "named"), [(1.0, "sum"), (0.5, "mean")])
def test_a_state_that_one_tape_hands_to_the_next(trainer: Trainer, traced: Any, share: float, named: str) -> None:
    def one_tape(batch: Any) -> Any:
        state, total = tf.zeros((2, 1), tf.float64), tf.zeros((), tf.float64)
        with tf.GradientTape() as tape:
            for part in (batch[:2], batch[2:]):
                state = trainer.hidden(part, state)
                total += share * tf.reduce_mean((state - part[:, 2:]) ** 2)
        trainer.apply(tape.gradient(total, trainer.w))
        return total

    found = cause(traced(unrolled(trainer, share)))
    assert found.cause is Cause.OUTSIDE_TAPE
    assert f"the step uses the {named} of the gradients of 2 tapes, as its loss is that of theirs" in found.evidence
    assert "; a tape around the whole computation gives " in found.evidence
    assert found.remedy == ONE_TAPE
    assert assert_step(traced(one_tape), BATCH).verdict == "agree"
    assert assert_step(traced(unrolled(trainer, share, handing=False)), BATCH).verdict == "agree"


@pytest.mark.parametrize("handing", [True, False])
def test_a_wrong_operation_in_the_passes_is_no_such_state(trainer: Trainer, traced: Any, handing: bool) -> None:
    found = cause(traced(unrolled(trainer, 1.0, wrong=True, handing=handing)))
    assert found.remedy != ONE_TAPE


def test_a_train_step_that_keeps_a_sum() -> None:
    class Net(keras.Sequential):
        held = keras.Variable(np.zeros((2, 1)), dtype="float64", name="held", trainable=False)

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(data[:, :2]) - data[:, 2:]) ** 2)
            (variable,) = self.trainable_variables
            self.held.assign_add(tape.gradient(loss, variable))
            self.optimizer.apply_gradients([(tf.convert_to_tensor(self.held), variable)])
            return {"loss": loss}

    layers = [keras.layers.Dense(1, use_bias=False, dtype="float64")]
    net = Net([keras.Input((2,), dtype="float64"), *layers])
    net.compile(keras.optimizers.SGD(0.1))
    net.optimizer.build(net.trainable_variables)
    assert assert_step(net.train_step, BATCH).verdict == "agree"
    net.train_step(BATCH)
    found = cause(net.train_step)
    assert found.remedy == RESET.format(name="held:0")


def test_a_total_of_losses_that_two_tapes_see(trainer: Trainer) -> None:
    def kept(batch: Any, *, fresh: bool = True) -> Any:
        trainer.total = 0.0 if fresh else trainer.total
        with tf.GradientTape() as tape:
            trainer.total += trainer.loss(batch[:2])
        with tf.GradientTape() as tape:
            trainer.total += trainer.loss(batch[2:])
        trainer.apply(tape.gradient(trainer.total, trainer.w))
        return trainer.total

    def one_tape(batch: Any) -> Any:
        trainer.total = 0.0
        with tf.GradientTape() as tape:
            for part in (batch[:2], batch[2:]):
                trainer.total += trainer.loss(part)
        trainer.apply(tape.gradient(trainer.total, trainer.w))
        return trainer.total

    def added(batch: Any) -> Any:
        trainer.total, gradient = 0.0, tf.zeros_like(trainer.w)
        for part in (batch[:2], batch[2:]):
            loss, new = trainer.gradient(part)
            trainer.total, gradient = trainer.total + loss, gradient + new
        trainer.apply(gradient)
        return trainer.total

    trainer.total = tf.constant(0.0, tf.float64)
    with pytest.raises(ValueError, match="set that at the beginning of the step, as a total of losses to zero"):
        assert_step(partial(kept, fresh=False), BATCH)
    with pytest.raises(GradientPartial) as caught:
        assert_step(kept, BATCH)
    assert "add up the gradients of each tape, each of its own loss, or open one tape around all" in str(caught.value)
    for right in (one_tape, added):
        assert assert_step(right, BATCH).verdict == "agree"


@pytest.mark.parametrize("in_a_variable", [True, False])
def test_gradients_that_are_added_up_are_not_to_be_added_up(trainer: Trainer, in_a_variable: bool) -> None:
    def step(*, once: bool = False) -> Any:
        total, gradients = tf.zeros((), tf.float64), []
        trainer.sum.assign(tf.zeros_like(trainer.sum))
        for part in (BATCH[:2], BATCH[2:]):
            with tf.GradientTape() as tape:
                total += trainer.loss(part)
            gradients.append(tape.gradient(total, trainer.w))
            if in_a_variable:
                trainer.sum.assign_add(gradients[-1])
        return gradients[1] if once else trainer.sum.read_value() if in_a_variable else gradients[0] + gradients[1]

    _, second = explain(step).sources
    assert second.diagnosis is not None
    assert second.diagnosis.cause is Cause.OUTSIDE_TAPE
    assert re.match(
        r"nothing is wrong: `.*` \(test_kept_sums.*\) adds this gradient to that of ", second.diagnosis.remedy
    )
    both = lambda: (trainer.loss(BATCH[:2]) + trainer.loss(BATCH[2:]), [step()])  # noqa: E731
    assert assert_step(both, variables=[trainer.w]).verdict == "agree"
    if not in_a_variable:
        _, second = explain(partial(step, once=True)).sources
        assert second.diagnosis is not None
        assert second.diagnosis.remedy.startswith("add up the gradients of each tape")
