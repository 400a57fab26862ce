"""Functions under tf.function that were traced before: their lines are their author's, and so are their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Kind, explain

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
    assert source.diagnosis.place.code == "p = self.forward(X)"
    assert "opened at test_traced_before.py" in source.diagnosis.remedy


def test_a_method_is_left_as_it_was_converted() -> None:
    training = Training()
    training.step()
    method = training.step._python_function
    converted = method.__wrapped__
    assert converted is not method.__original_wrapped__
    explain(training.step)
    assert method.__wrapped__ is converted


v = tf.Variable(1.5, dtype=tf.float64, name="v")


class Settings:
    beta = 0.0


@tf.function
def whole() -> Any:
    with tf.GradientTape() as tape:
        loss = v**2 * (1.0 + Settings.beta)
    return tape.gradient(loss, v)


@tf.function
def drawn() -> Any:
    factor = np.random.normal()
    with tf.GradientTape() as tape:
        loss = v**2 * factor
    return tape.gradient(loss, v)


@tf.function
def forward() -> Any:
    return v**2 * (1.0 + Settings.beta)


def around() -> Any:
    with tf.GradientTape() as tape:
        loss = forward()
    return tape.gradient(loss, v)


@pytest.mark.parametrize("code", [whole, drawn, around], ids=["a gradient", "a draw", "a loss"])
def test_a_value_kept_from_tracing_makes_no_gradient_wrong(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.seed(0)
    code()
    monkeypatch.setattr(Settings, "beta", 1.0)
    result = explain(code)
    assert result.sources[0].right
    (finding,) = result.findings
    assert finding.kind is Kind.MODES
    assert "a tf.function freezes Python numbers, attributes and NumPy random numbers" in finding.reason
    assert "pass them as tensors, or hold them in variables" in finding.reason


def test_a_gradient_that_is_wrong_in_a_graph_alone_is_compared_as_it_is() -> None:
    @tf.custom_gradient
    def square(x: Any) -> Any:
        factor = 2.0 if tf.executing_eagerly() else 3.0
        return x**2, lambda upstream: upstream * factor * x

    forward = tf.function(square)

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = forward(v)
        return tape.gradient(loss, v)

    (one,) = explain(code).sources
    assert (one.gradient, one.right) == ("4.5", False)


def test_what_differs_from_run_to_run_is_no_disagreement_of_modes() -> None:
    calls: list[int] = []

    @tf.function
    def gradient(factor: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = v**2 * factor
        return tape.gradient(loss, v)

    def code() -> Any:
        calls.append(1)
        return gradient(tf.constant(float(len(calls)), tf.float64))

    assert explain(code).verdict == "inconclusive"
