"""Functions under tf.function that were traced before: their lines are their author's, and so are their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, explain

X, Y = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.1]]), np.array([[1.0], [0.0], [2.0]])


class Training:
    def __init__(self) -> None:
        self.w = tf.Variable([[0.3], [-0.2]], dtype=tf.float64, name="w")

    def forward(self, x: Any) -> Any:
        return tf.tanh(x @ self.w)

    @tf.function
    def step(self) -> Any:
        p = self.forward(X)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((p - Y) ** 2)
        return tape.gradient(loss, self.w)


class Module(Training, tf.Module):
    def __init__(self) -> None:
        tf.Module.__init__(self)
        Training.__init__(self)


@pytest.mark.parametrize("through", [False, True], ids=["the method", "a lambda"])
@pytest.mark.parametrize("kind", [Training, Module])
def test_a_method_keeps_its_lines(kind: type[Training], through: bool) -> None:
    training = kind()
    assert training.step() is None
    (source,) = explain((lambda: training.step()) if through else training.step).sources
    assert source.call is not None
    assert source.diagnosis is not None
    assert source.diagnosis.place is not None
    assert (source.name, source.call.code) == ("self.w", "return tape.gradient(loss, self.w)")
    assert source.diagnosis.cause is Cause.OUTSIDE_TAPE
    assert source.diagnosis.place.code == "return tf.tanh(x @ self.w)"
    assert "opened at test_traced_before.py" in source.diagnosis.remedy


def test_a_method_is_left_as_it_was_converted() -> None:
    training = Training()
    training.step()
    method = training.step._python_function
    converted = method.__wrapped__
    assert converted is not method.__original_wrapped__
    explain(training.step)
    assert method.__wrapped__ is converted
