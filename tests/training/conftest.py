"""Two variables, and the steps that the tests of `assert_step` are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests import slices

Step = Callable[[], Any]

FORMS = ("eager", "tf.function")
"""The forms in which a step runs; the fixture `traced` applies them."""


@pytest.fixture
def x() -> tf.Variable:
    return tf.Variable(3.0, name="x", dtype=tf.float64)


@pytest.fixture
def y() -> tf.Variable:
    return tf.Variable([1.0, 2.0], name="y", dtype=tf.float64)


@pytest.fixture
def optimizer() -> Any:
    return keras.optimizers.SGD(0.1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Takes steps in both forms, in the test command only as a tf.function; a test may choose its forms itself."""
    chosen = any("traced" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "traced" in metafunc.fixturenames and not chosen:
        forms = slices.sliced(FORMS, lambda forms: forms[1:])
        metafunc.parametrize("traced", [pytest.param(form, marks=pytest.mark.sliced) for form in forms], indirect=True)


@pytest.fixture
def traced(request: pytest.FixtureRequest) -> Callable[[Step], Step]:
    """Leaves a step eager, or makes a tf.function of it."""
    return tf.function if request.param == "tf.function" else lambda step: step


@pytest.fixture
def training(x: tf.Variable, y: tf.Variable, optimizer: Any) -> Callable[..., Step]:
    """A step on the loss x² + sum of y³ that passes its gradients through `change` to the optimizer."""

    def make(change: Callable[[list[Any]], list[Any]] = list, sources: Any = None) -> Step:
        found = [x, y] if sources is None else sources

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = x**2 + tf.reduce_sum(y**3)
            gradients = tape.gradient(loss, found)
            optimizer.apply_gradients(zip(change(gradients), found, strict=True))
            return loss

        return step

    return make
