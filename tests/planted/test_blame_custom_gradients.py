"""Wrong custom gradients in the middle of models: each is blamed by name, on the line where it is defined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, GradientMismatch, Result, assert_step, check, explain, spot_check
from gradcheck.tracing.hooks import gradients_looked_up
from tests import slices, verdicts

Activation = Callable[[Any], Any]
NUMBERS = np.random.default_rng(0)


@tf.custom_gradient
def gated(x: Any) -> Any:
    """Forgets a term of the product rule."""
    return x * tf.sigmoid(x), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def mirrored(x: Any) -> Any:
    """Has the wrong sign."""
    return tf.cos(x), lambda dy: dy * tf.sin(x)


@tf.custom_gradient
def nearly(x: Any) -> Any:
    """Is wrong by a thousandth."""
    return tf.tanh(x), lambda dy: 1.001 * dy * (1 - tf.tanh(x) ** 2)


@tf.custom_gradient
def upstreamless(x: Any) -> Any:
    """Forgets the incoming cotangent."""
    return tf.exp(-(x**2)), lambda dy: -2 * x * tf.exp(-(x**2))


@tf.custom_gradient
def centred(x: Any) -> Any:
    """Forgets that every element moves the mean."""
    return x - tf.reduce_mean(x, -1, keepdims=True), lambda dy: dy


@tf.custom_gradient
def normalised(x: Any) -> Any:
    """Treats the norm as a constant."""
    norm = tf.sqrt(tf.reduce_sum(x**2, -1, keepdims=True) + 1)
    return x / norm, lambda dy: dy / norm


FAULTS = (gated, mirrored, nearly, upstreamless, centred, normalised)


def float64(layer: type[Any], *arguments: Any, **options: Any) -> Any:
    return layer(*arguments, dtype="float64", **options)


class Activated(keras.layers.Layer):  # type: ignore[misc]
    """A user's own layer."""

    def __init__(self, activation: Activation) -> None:
        super().__init__(dtype="float64")
        self.activation = activation

    def call(self, x: Any) -> Any:
        return self.activation(x)


def perceptron(activation: Activation) -> tuple[Any, Any]:
    layers = [float64(keras.layers.Dense, 5, "tanh") for _ in range(2)]
    model = keras.Sequential([layers[0], Activated(activation), layers[1], float64(keras.layers.Dense, 1)])
    return model, NUMBERS.normal(size=(3, 2))


def convolutional(activation: Activation) -> tuple[Any, Any]:
    layers = keras.layers
    model = keras.Sequential(
        [
            float64(layers.Conv2D, 3, 3, activation="softplus"),
            Activated(activation),
            float64(layers.MaxPooling2D, 2),
            float64(layers.Flatten),
            float64(layers.Dense, 1),
        ]
    )
    return model, NUMBERS.normal(size=(1, 4, 4, 1))


def transformer(activation: Activation) -> tuple[Any, Any]:
    layers = keras.layers
    inputs = keras.Input((3, 4), dtype="float64")
    attended = float64(layers.MultiHeadAttention, 2, 3)(inputs, inputs)
    hidden = float64(layers.LayerNormalization)(inputs + attended)
    forward = Activated(activation)(float64(layers.Dense, 5)(hidden))
    outputs = float64(layers.LayerNormalization)(hidden + float64(layers.Dense, 4)(forward))
    return keras.Model(inputs, float64(layers.Dense, 1)(outputs)), NUMBERS.normal(size=(1, 3, 4))


def recurrent(activation: Activation) -> tuple[Any, Any]:
    lstm = float64(keras.layers.LSTM, 4, return_sequences=True)
    model = keras.Sequential(
        [lstm, Activated(activation), float64(keras.layers.LSTM, 3), float64(keras.layers.Dense, 1)]
    )
    return model, NUMBERS.normal(size=(1, 3, 2))


MODELS = (perceptron, convolutional, transformer, recurrent)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    keras.utils.set_random_seed(3)


def diagnosis_of(result: Result) -> Diagnosis:
    found = [finding.diagnosis for finding in result.findings] + [source.diagnosis for source in result.sources]
    return next(one for one in found if one is not None)


def assert_blamed(diagnosis: Diagnosis, function: Any) -> None:
    """The function under tf.custom_gradient is blamed, on its line, and the text says what was checked."""
    name = function.__name__
    assert diagnosis.cause is Cause.CUSTOM_GRADIENT, diagnosis
    assert diagnosis.place is not None
    assert diagnosis.place.code == f"def {name}(x: Any) -> Any:"
    if function is upstreamless:
        assert f"the gradient of the function {name} under tf.custom_gradient" in diagnosis.evidence
        assert "is not proportional to the upstream gradient that it is given" in diagnosis.evidence
        return
    assert f"the function {name} under tf.custom_gradient gives the derivative " in diagnosis.evidence
    assert " looked at" in diagnosis.evidence


@slices.parametrized(
    ("architecture", "fault"),
    product(MODELS, FAULTS),
    # Each fault is in one model; none is in the transformer or the recurrent one, which cost most.
    lambda cases: [(model, fault) for model, fault in cases if MODELS.index(model) == FAULTS.index(fault) % 2],
    ids=lambda one: one.__name__,
)
def test_in_the_middle_of_a_model(architecture: Any, fault: Any) -> None:
    model, x = architecture(fault)
    assert_blamed(diagnosis_of(check(lambda x: tf.reduce_sum(model(x) ** 2), x)), fault)


def one_layer() -> tuple[Any, Any]:
    """A model with the function after a layer with one weight, and three rows."""
    dense = float64(keras.layers.Dense, 1, use_bias=False)
    model, x = keras.Sequential([dense, Activated(gated)]), NUMBERS.normal(size=(3, 1))
    model(x)
    return model, x


def test_in_a_training_step() -> None:
    model, x = one_layer()

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        return loss, tape.gradient(loss, model.trainable_variables)

    assert_blamed(diagnosis_of(explain(step)), gated)
    assert_blamed(diagnosis_of(explain(tf.function(step))), gated)
    with pytest.raises(GradientMismatch) as caught:
        assert_step(step)
    assert caught.value.result is not None
    assert_blamed(diagnosis_of(caught.value.result), gated)


def test_in_a_train_step_of_keras() -> None:
    model, x = one_layer()
    model.compile("sgd", "mse")
    batch = tf.constant(x), tf.ones((3, 1), tf.float64)
    model.train_on_batch(*batch)
    assert_blamed(diagnosis_of(explain(model.train_step, batch)), gated)
    with pytest.raises(GradientMismatch) as caught:
        assert_step(model.train_step, batch)
    assert caught.value.result is not None
    assert_blamed(diagnosis_of(caught.value.result), gated)


@slices.parametrized(("shape", "factor"), product([None, (3, 1)], [1.0, 2.0]), slices.every(3))
def test_that_gives_rows(shape: Any, factor: float) -> None:
    """Rows with or without the shape of their table: tapes and optimizers accept both."""
    rows = tf.constant([0, 2, 2])

    @tf.custom_gradient
    def lookup(table: Any) -> Any:
        known = None if shape is None else tf.constant(shape)
        return tf.gather(table, rows), lambda dy: tf.IndexedSlices(factor * dy, rows, known)

    table, optimizer = tf.Variable(np.ones((3, 1))), keras.optimizers.SGD(0.1)

    def loss() -> Any:
        return tf.reduce_sum(lookup(table) ** 2)

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(value, table)

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        optimizer.apply_gradients([(tape.gradient(value, table), table)])
        return value

    checks = (
        lambda: check(loss, variables=[table], order=2),
        lambda: explain(gradient),
        lambda: spot_check(loss, [table]).result,
        lambda: assert_step(step),
    )
    result: Result | None = None
    for run in checks:
        try:
            result = run()
        except GradientMismatch as error:
            result = error.result
        assert result is not None
        assert result.verdict == ("agree" if factor == 1.0 else "mismatch")
        assert all(one.diagnosis and one.diagnosis.cause is Cause.CUSTOM_GRADIENT for one in result.findings)
    assert spot_check(loss, [table], lambda: [gradient()]).verdict == ("agree" if factor == 1.0 else "mismatch")


def test_in_a_loop_and_a_branch() -> None:
    def looped(x: Any) -> Any:
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(gated(y))), [0, x])
        return y

    def branched(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(gated(x)), lambda: x)

    # tf.cond in a tf.function has no gradient with a custom one inside: TensorFlow raises.
    for f in (looped, branched, tf.function(looped)):
        assert_blamed(diagnosis_of(check(f, [0.5, 1.0])), gated)


def test_as_the_activation_of_a_recurrent_cell() -> None:
    layer = float64(keras.layers.LSTM, 2, activation=gated)
    assert_blamed(diagnosis_of(check(layer, NUMBERS.normal(size=(1, 2, 2)))), gated)


def test_with_variables_of_its_own() -> None:
    kernel = tf.Variable([[0.5, -1.0], [2.0, 0.25]], dtype=tf.float64, name="kernel")

    @tf.custom_gradient
    def fused(x: Any) -> Any:
        def backward(dy: Any, variables: Any) -> Any:
            return dy @ tf.transpose(kernel), [2 * tf.transpose(x) @ dy]  # twice the right one

        return x @ kernel, backward

    def f() -> Any:
        return tf.reduce_sum(tf.sin(fused(tf.constant([[1.0, -2.0]], tf.float64))))

    assert_blamed(diagnosis_of(check(f, variables=[kernel])), fused)


def test_in_what_is_recomputed() -> None:
    """Its inside cannot be seen, but it is user code, and not a wrong operation of TensorFlow."""

    def block(x: Any) -> Any:
        return gated(x) ** 2

    diagnosis = diagnosis_of(check(tf.recompute_grad(block), [0.5, 1.0]))
    assert diagnosis.evidence.startswith("what tf.recompute_grad recomputes in the backward pass gives the derivative ")
    assert re.fullmatch(
        r"call block at test_blame_custom_gradients.py:\d+ without tf.recompute_grad to see which of its operations "
        "is wrong",
        diagnosis.remedy,
    )
    assert_blamed(diagnosis_of(check(block, [0.5, 1.0])), gated)


def test_that_is_wrong_when_differentiated_again() -> None:
    @tf.custom_gradient
    def slope(x: Any) -> Any:
        return tf.cos(x), lambda dy: -dy * tf.sin(x) * 1.5

    @tf.custom_gradient
    def wave(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * slope(x)

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(wave(x * x)) ** 2)

    result = check(f, [0.5, 1.0], order=2)
    assert {finding.order for finding in result.findings} == {2}
    assert_blamed(diagnosis_of(result), wave)
    assert "differentiated again" in diagnosis_of(result).evidence


@slices.parametrized(("layers", "width"), [(20, 3), (100, 8)], lambda cases: cases[:1])
def test_many_layers(layers: int, width: int) -> None:
    """Finding the one operation takes at most ten times as many gradients as the check that failed."""
    kernels = [np.linalg.qr(NUMBERS.normal(size=(width, width)))[0] for _ in range(layers)]
    x, taken = NUMBERS.normal(size=(2, width)), Counter[str]()

    def deep(x: Any) -> Any:
        for number, kernel in enumerate(kernels):
            x = tf.asinh(tf.matmul(x, kernel))
            x = gated(x) if number == layers // 2 else x
        return tf.reduce_sum(x)

    def counted(name: str, gradient: Any) -> Any:
        taken[name] += 1
        return gradient

    with gradients_looked_up(counted):
        verdicts.check(deep, x)
        before = taken.total()
        diagnosis = diagnosis_of(check(deep, x))
    assert_blamed(diagnosis, gated)
    assert f"{layers} operations looked at, from the target back to this one" in diagnosis.evidence
    assert 0 < before < taken.total() < 12 * before
