"""Losses for the differences may come from a graph of the step without its update, if they equal those of its runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from tests import slices

Step = Callable[[], Any]


def steps(x: tf.Variable, optimizer: Any, factor: float) -> dict[str, Step]:
    calls: list[int] = []

    def update() -> Any:
        with tf.GradientTape() as tape:
            loss = x**4
        optimizer.apply_gradients([(factor * tape.gradient(loss, x), x)])
        return loss

    def after() -> Any:
        update()
        return x**4

    def reading() -> Any:
        return update() * (2.0 if float(x) > 1e9 else 1.0)

    def counting() -> Any:
        calls.append(1)
        return update()

    def printing() -> Any:
        loss = update()
        print(float(loss))
        return loss

    return {
        "returned": update,
        "taken by a tape": lambda: {"metric": update() * 3.0},
        "after the update": after,
        "read": reading,
        "counted": counting,
        "printed": printing,
    }


NAMES, FACTORS = ("returned", "taken by a tape", "after the update", "read", "counted", "printed"), (1.0, 1.01)
IN_A_GRAPH = {"returned": True, "taken by a tape": True, "counted": True}


@slices.parametrized(
    ("name", "factor", "traced"),
    product(NAMES, FACTORS, (False, True)),
    # The one with a loss after the update is also found below.
    lambda _: (
        (name, *form)
        for name, form in zip(NAMES, cycle(product(FACTORS[::-1], (True, False))))
        if name != "after the update"
    ),
)
def test_the_verdict_is_that_of_runs(name: str, factor: float, traced: bool, graphs: list[bool]) -> None:
    x = tf.Variable(1.5, name="x", dtype=tf.float64)
    optimizer = keras.optimizers.Adam(0.125)
    step = steps(x, optimizer, factor)[name]
    if traced and name in ("returned", "taken by a tape", "after the update"):
        step = tf.function(step)
    wrong = factor != 1.0 or name == "after the update"
    if wrong:
        with pytest.raises(gradcheck.GradientMismatch):
            gradcheck.assert_step(step)
    else:
        assert gradcheck.assert_step(step).verdict == "agree"
    assert graphs[0] is IN_A_GRAPH.get(name, False)
    assert float(x) == 1.5
    assert int(optimizer.iterations) == 0


def test_state_is_put_back_before_every_loss(graphs: list[bool]) -> None:
    keras.utils.set_random_seed(2)
    layers = [keras.layers.Dense(1, "tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    model = keras.Sequential([keras.layers.Input((2,)), *layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    batch = np.random.default_rng(1).normal(size=(6, 2)).astype("f4"), np.ones((6, 1), "f4")
    model.fit(*batch, epochs=1, verbose=0)
    held = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    before = [variable.numpy() for variable in held]
    result = gradcheck.assert_step(
        model.train_step, tuple(map(tf.constant, batch)), variables=model.layers[-1].trainable_variables
    )
    assert result.verdict == "agree"
    assert graphs[0]
    for variable, value in zip(held, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


class Counted(keras.optimizers.SGD):
    """Counts its updates."""

    updates = 0

    def update_step(self, *arguments: Any) -> Any:
        """Counts one update per variable."""
        self.updates += 1
        return super().update_step(*arguments)


@pytest.mark.parametrize("name", ["read", "printed", "after the update"])
def test_the_optimizer_runs_again_only_where_the_loss_needs_it(name: str) -> None:
    x, optimizer = tf.Variable(1.5, name="x", dtype=tf.float64), Counted(0.125)
    step = steps(x, optimizer, 1.0)[name]
    if name == "after the update":
        with pytest.raises(gradcheck.GradientMismatch):
            gradcheck.assert_step(step)
    else:
        gradcheck.assert_step(step)
    assert (optimizer.updates > 40) is (name == "after the update")


class Drawing:
    """Draws from its own generator whenever it runs, traced or not."""

    def __init__(self, x: tf.Variable) -> None:
        self.x, self.rng = x, np.random.default_rng(3)

    def __call__(self) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.numpy_function(lambda: np.float64(self.rng.uniform(1, 2)), [], tf.float64) * self.x**4
        return loss, [tape.gradient(loss, self.x)]


def test_what_a_graph_draws_is_put_back(graphs: list[bool]) -> None:
    step = Drawing(tf.Variable(1.5, name="x", dtype=tf.float64))
    before = step.rng.bit_generator.state
    assert gradcheck.assert_step(step).verdict == "agree"
    assert graphs == [False]
    assert step.rng.bit_generator.state == before
