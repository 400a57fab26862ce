"""Steps whose optimizer scales the loss against underflow, as those of every model in mixed_float16."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientInconclusive, GradientMismatch, GradientPartial, assert_step
from tests import slices

Step = Callable[[], Any]
BATCH = np.linspace(-1.0, 1.0, 24, dtype="f4").reshape(8, 3), np.linspace(0.0, 1.0, 8, dtype="f4")[:, None]


def scaling(**options: Any) -> Any:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, **options))


def test_a_model_that_returns_a_dict_is_seen_as_sharply_as_without_a_scale() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    seen = []
    for optimizer in (keras.optimizers.SGD(0.1), scaling()):
        model.compile(optimizer, "mse")
        order = assert_step(model.train_step, tuple(map(tf.constant, BATCH))).orders[1]
        assert (order.verdict, order.compared) == ("agree", 21)
        seen.append(order.resolution)
    assert seen[1] == pytest.approx(seen[0], rel=0.1)


@slices.parametrized(("forgotten", "coupled"), product((1, 2), (False, True)), lambda _: [(1, True), (2, False)])
def test_of_several_losses_the_one_that_is_not_scaled_is_named(forgotten: int, coupled: bool) -> None:
    """The losses before it are computed in runs that end with their own tapes; it may depend on what they moved."""
    weights = [tf.Variable([size, 2 * size]) for size in (0.5, 0.7, 0.9)]
    optimizers = [scaling(), scaling(), scaling()]
    for weight, optimizer in zip(weights, optimizers, strict=True):
        optimizer.build([weight])

    def step() -> Any:
        losses = []
        for number, (weight, optimizer) in enumerate(zip(weights, optimizers, strict=True)):
            with tf.GradientTape() as tape:
                losses.append(tf.reduce_sum(tf.sin(weight)) * (tf.reduce_sum(weights[0]) if coupled and number else 1))
                scaled = losses[-1] if number == forgotten else optimizer.scale_loss(losses[-1])
            optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])
        return losses[0]

    with pytest.raises(GradientMismatch, match="differentiated a loss that was not multiplied by it") as caught:
        assert_step(step, variables=weights)
    assert caught.value.result is not None
    assert {finding.input.partition(" ")[0] for finding in caught.value.result.findings} == {f"variables[{forgotten}]"}


def test_a_clip_of_the_optimizer_that_is_wrapped_is_named() -> None:
    weight, optimizer = tf.Variable([1.0, 2.0]), scaling(global_clipnorm=0.5)
    step = scaled_step(lambda w: tf.reduce_sum(w**2), weight, returned=True, optimizer=optimizer)
    (note,) = assert_step(step).orders[1].notes
    assert (
        note
        == "changed after it was taken: SGD clips to the global norm 0.5 (the largest was 4.47214), its global_clipnorm"
    )


@tf.custom_gradient
def halved(x: tf.Tensor) -> Any:
    return x**2, lambda dy: dy * x


def scaled_step(
    loss_of: Callable[[Any], Any], weight: tf.Variable, *, returned: bool, scale: bool = True, optimizer: Any = None
) -> Step:
    optimizer = optimizer or scaling()
    optimizer.build([weight])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(weight)
            scaled = optimizer.scale_loss(loss) if scale else loss
        optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])
        return loss if returned else None

    return step


LOSSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "wrong custom gradient": (lambda w: tf.reduce_sum(halved(w)), "correct the gradient that halved at "),
    "stop_gradient": (lambda w: tf.reduce_sum(w * tf.stop_gradient(w)), "leave tf.stop_gradient out of "),
}


@slices.parametrized(
    ("cause", "returned"), product(LOSSES, (False, True)), lambda _: zip(LOSSES, (False, True), strict=True)
)
def test_a_wrong_gradient_of_a_scaled_loss_has_its_cause(cause: str, returned: bool) -> None:
    loss, remedy = LOSSES[cause]
    with pytest.raises(GradientMismatch) as caught:
        assert_step(scaled_step(loss, tf.Variable([1.0, 2.0]), returned=returned))
    message = str(caught.value)
    assert f"cause        {cause}\n" in message
    assert f"remedy       {remedy}" in message
    assert "these numbers are for the loss times 32768, which the tape differentiated" in message
    assert "given        2\n    estimate     4 " in message
    assert "RealDiv" not in message


def test_a_part_outside_of_the_tape_of_a_scaled_loss() -> None:
    weight, optimizer = tf.Variable([1.0, 2.0]), scaling()
    optimizer.build([weight])

    def step() -> Any:
        square = weight**2
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(square + weight**3)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply_gradients([(tape.gradient(scaled, weight), weight)])
        return loss

    with pytest.raises(GradientPartial, match=r"cause +computed outside the tape"):
        assert_step(step)


SCALING = (scaling, lambda: keras.optimizers.SGD(0.1, loss_scale_factor=32768.0))


@slices.parametrized(
    ("optimizer", "returned"), product(SCALING, (True, False)), lambda _: zip(SCALING, (True, False), strict=True)
)
def test_a_loss_that_is_not_multiplied_by_the_scale_is_told(optimizer: Any, returned: bool) -> None:
    weight, given = tf.Variable([1.0, 2.0]), optimizer()
    step = scaled_step(lambda w: tf.reduce_sum(w**2), weight, returned=returned, scale=False, optimizer=given)
    with pytest.raises(GradientMismatch) as caught:
        assert_step(step)
    assert (
        f"{type(given).__name__} divides gradients by 32768, but the tape differentiated a loss that was not "
        "multiplied by it\n    remedy       let the tape differentiate optimizer.scale_loss(loss)"
    ) in str(caught.value)


def test_nor_in_a_train_step_that_returns_a_dict() -> None:
    class Forgetful(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.all = keras.layers.Dense(1, use_bias=False)

        def call(self, x: Any) -> Any:
            return self.all(x)

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    model, optimizer = Forgetful(), scaling()
    model.compile(optimizer, "mse")
    model(BATCH[0])
    optimizer.build(model.trainable_variables)
    scale = float(optimizer.dynamic_scale)
    with pytest.raises(GradientMismatch, match=r"differentiated a loss that was not multiplied by it"):
        assert_step(model.train_step, tuple(map(tf.constant, BATCH)))
    assert float(optimizer.dynamic_scale) == scale


def in_half_precision(w: Any) -> Any:
    return tf.reduce_sum(tf.cast(w, tf.float16) ** 2)


def test_a_step_that_the_optimizer_skips_is_inconclusive() -> None:
    with pytest.raises(GradientInconclusive) as caught:
        assert_step(scaled_step(in_half_precision, tf.Variable([3.0, 2.0]), returned=True))
    assert "the gradients of the loss times 32768 overflow, those of the loss do not: the optimizer skips this" in str(
        caught.value
    )


def test_a_gradient_that_is_not_finite_by_itself_stays_wrong_although_the_optimizer_skips_it() -> None:
    with pytest.raises(GradientMismatch):
        assert_step(scaled_step(lambda w: tf.norm(w) + tf.reduce_sum(w), tf.Variable([0.0, 0.0]), returned=True))
