"""NaN made in each of the classic ways, in models: the operation that makes it is named, and a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import (
    Cause,
    Diagnosis,
    GradientInconclusive,
    GradientMismatch,
    Result,
    assert_close,
    assert_step,
    check,
    explain,
)
from tests import slices

Step = Callable[[], Any]
KERNEL = np.array([[0.5, -0.25, 1.0], [0.75, 0.5, -1.0]])


def diagnosis_of(result: Result) -> Diagnosis:
    found = [finding.diagnosis for finding in result.findings] + [source.diagnosis for source in result.sources]
    return next(one for one in found if one is not None)


def variable(value: Any) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64)


def unused_logarithm(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.where(h > 0.1, tf.math.log(h), h))


def unused_quotient(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    d = 1.0 / h
    return tf.reduce_sum(tf.where(h > 0.1, tf.tanh(d), h))


def unused_power(w: Any) -> Any:
    h = tf.constant([[1.0, 2.0]], tf.float64) @ w
    return tf.reduce_sum(tf.where(h > 0.0, tf.pow(h, 0.5), tf.zeros_like(h)))


def unused_exponential(w: Any) -> Any:
    h = 1000.0 * (tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.where(h < 10.0, tf.exp(h), h))


def root(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.sqrt(h) * 2.0)


def norm(w: Any) -> Any:
    h = tf.constant([[1.0, 2.0]], tf.float64) @ w
    return tf.reduce_sum(tf.norm(h - tf.stop_gradient(h), axis=-1) + tf.reduce_sum(h, -1))


def distance(w: Any) -> Any:
    h = tf.transpose(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.sqrt(tf.reduce_sum((h[:, None] - h[None]) ** 2, -1)))


def saturated(w: Any) -> Any:
    p = tf.nn.softmax(5000.0 * (tf.constant([[1.0, 2.0]], tf.float64) @ w))
    return -tf.reduce_sum(tf.math.log(p) * tf.constant([[0.0, 1.0, 0.0]], tf.float64))


def saturated_loss(w: Any) -> Any:
    p = tf.nn.sigmoid(-2000.0 * (tf.constant([[1.0, 2.0]], tf.float64) @ w))
    return -tf.reduce_mean(tf.math.log(p[:, :1]))


def exponent(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.pow(h, tf.constant([1.0, 2.0, 0.0], tf.float64)))


def cosine(w: Any) -> Any:
    h = tf.constant([[1.0, 2.0]], tf.float64) @ w
    return tf.reduce_sum(tf.acos(h / tf.sqrt(h**2)))


def angle(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.math.atan2(h[:, 2], h[:, 2] * 2.0) + h[:, 0])


def divided(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(h / h)


def pole(w: Any) -> Any:
    h = tf.nn.relu(tf.constant([[1.0, 2.0]], tf.float64) @ w)
    return tf.reduce_sum(tf.exp(-tf.math.lgamma(h)))


WAYS: dict[Any, tuple[str, str, str]] = {
    unused_logarithm: ("Log", "tf.where(h > 0.1", "safe = tf.where(condition, x, 1.0)"),
    unused_quotient: ("RealDiv", "d = 1.0 / h", "safe = tf.where(condition, x, 1.0)"),
    unused_power: ("Pow", "tf.pow(h, 0.5)", "safe = tf.where(condition, x, 1.0)"),
    unused_exponential: ("Exp", "tf.exp(h)", "safe = tf.where(condition, x, 1.0)"),
    root: ("Sqrt", "tf.sqrt(h) * 2.0", "tf.sqrt(tf.maximum(x, 1e-12))"),
    norm: ("Sqrt", "tf.norm(", "tf.sqrt(tf.reduce_sum(x**2) + 1e-12)"),
    distance: ("Sqrt", "tf.sqrt(tf.reduce_sum(", "tf.sqrt(tf.reduce_sum(x**2) + 1e-12)"),
    saturated: ("Log", "tf.math.log(p)", "tf.nn.log_softmax(logits)"),
    saturated_loss: ("Log", "tf.math.log(p[:, :1])", "tf.math.log_sigmoid(logits)"),
    exponent: ("Pow", "tf.pow(h, ", "keep x away from 0"),
    cosine: ("Acos", "tf.acos(", "clip the argument"),
    angle: ("Atan2", "tf.math.atan2", "the origin"),
    divided: ("RealDiv", "h / h", "tf.math.divide_no_nan"),
    pole: ("Lgamma", "tf.math.lgamma(h)", "away from the poles"),
}
"""Functions with the operation that makes NaN or infinity, the code on its line, and the remedy."""


def assert_traced(diagnosis: Diagnosis, operation: str, line: str, remedy: str) -> None:
    assert diagnosis.cause in (Cause.NOT_FINITE, Cause.KNOWN_DEFECT), diagnosis
    assert diagnosis.place is not None
    assert (diagnosis.place.operation, line in diagnosis.place.code) == (operation, True), diagnosis
    assert remedy in diagnosis.remedy or diagnosis.cause is Cause.KNOWN_DEFECT, diagnosis
    assert "looked at" in diagnosis.evidence


@slices.parametrized(
    ("way", "traced"),
    [(way, traced) for way in WAYS for traced in (False, True)],
    lambda cases: [case for number, case in enumerate(cases) if case[1] == number // 2 % 2],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_the_classic_ways_in_a_training_step(way: Any, traced: bool) -> None:
    w = variable(KERNEL)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = way(w)
        return tape.gradient(loss, w)

    assert_traced(diagnosis_of(explain(tf.function(step) if traced else step)), *WAYS[way])


@slices.parametrized(
    "way", [unused_logarithm, unused_quotient, exponent], lambda ways: ways[-1:], ids=lambda way: way.__name__
)
def test_in_assert_close_and_assert_step(way: Any) -> None:
    w = variable(KERNEL)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = way(w)
        return loss, [tape.gradient(loss, w)]

    assert_traced(diagnosis_of(check(way, KERNEL)), *WAYS[way])
    with pytest.raises(GradientMismatch) as caught:
        assert_step(step, variables=[w])
    assert caught.value.result is not None
    assert_traced(diagnosis_of(caught.value.result), *WAYS[way])


def test_where_no_derivative_is_there_to_compare_with() -> None:
    with pytest.raises(GradientInconclusive, match=r"Sqrt at .* turns the finite cotangent 1 into inf at x = 0"):
        assert_close(lambda x: tf.sqrt(x), 0.0)
    result = check(lambda x: tf.sqrt(x), [0.0, 1.0])
    assert result.verdict == "inconclusive"
    (note,) = result.orders[1].notes
    assert note.startswith("the derivative with respect to x is not finite: Sqrt at ")
    assert check(lambda x: x * tf.round(x), [0.5, 1.0]).orders[1].notes == ()


def test_in_a_train_step_of_keras() -> None:
    class Rooted(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            positive = tf.nn.relu(x)
            return tf.sqrt(positive)

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3, use_bias=False), Rooted(name="rooted")])
    batch = tf.constant([[1.0, -2.0], [0.5, 3.0]]), tf.ones((2, 3))
    model(batch[0])
    model.compile("sgd", "mse")
    diagnosis = diagnosis_of(explain(model.train_step, batch))
    assert_traced(diagnosis, "Sqrt", "return tf.sqrt(positive)", "tf.sqrt(tf.maximum(x, 1e-12))")
    assert "layer rooted" in diagnosis.evidence


def test_in_a_loop() -> None:
    def looped(x: Any) -> Any:
        _, y = tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, tf.where(y > 0, tf.sqrt(y), tf.exp(1.0 / y)) - 0.5),
            [0, x],
        )
        return y

    for f in (looped, tf.function(looped)):
        diagnosis = diagnosis_of(explain(f, tf.constant([0.25, 1.0], tf.float64)))
        assert_traced(diagnosis, "RealDiv", "tf.exp(1.0 / y)", "")


def gradient_penalty(f: Any, w: tf.Variable) -> Any:
    """A step that differentiates the sum of squares of the gradient of f."""

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                value = f(w)
            penalty = tf.reduce_sum(tape.gradient(value, w) ** 2)
        return outer.gradient(penalty, w)

    return step


def test_at_second_order() -> None:
    def penalised(x: Any) -> Any:
        h = tf.abs(x)
        return tf.reduce_sum(tf.pow(h, 1.5) + x**2)

    diagnosis = diagnosis_of(explain(gradient_penalty(penalised, variable([0.0, 1.0]))))
    assert_traced(diagnosis, "Pow", "tf.pow(h, 1.5)", "keep x away from 0")
    assert "differentiated again" in diagnosis.evidence


@slices.parametrized(
    "way",
    [unused_logarithm, unused_quotient, saturated, exponent],
    lambda ways: ways[-1:],
    ids=lambda way: way.__name__,
)
def test_at_second_order_of_what_is_not_finite_at_first(way: Any) -> None:
    """The operation of the model is named, not those that TensorFlow's gradient of it consists of."""
    result = explain(gradient_penalty(way, variable(KERNEL)))
    for diagnosis in (source.diagnosis for source in result.sources):
        assert diagnosis is not None
        assert_traced(diagnosis, *WAYS[way])


@slices.parametrized("way", [unused_quotient, exponent], slices.every(2), ids=lambda way: way.__name__)
def test_in_the_second_order_of_check(way: Any) -> None:
    checked = [one for one in check(way, KERNEL, order=2).findings if one.order == 2]
    assert checked
    for finding in checked:
        assert finding.diagnosis is not None
        assert_traced(finding.diagnosis, *WAYS[way])


def test_the_remedies_work() -> None:
    """The recommended code has a finite gradient that agrees with differences, where these are conclusive."""
    x = np.array([0.0, 0.5, 2.0])

    def safe_logarithm(x: Any) -> Any:
        used = x > 0.1
        return tf.where(used, tf.math.log(tf.where(used, x, 1.0)), x)

    assert check(safe_logarithm, x, order=2).verdict == "agree"
    assert check(lambda x: tf.sqrt(tf.reduce_sum(x**2) + 1e-12), np.zeros(2)).verdict != "mismatch"
    assert check(lambda x: tf.nn.log_softmax(800 * x)[0], x).verdict == "agree"
    assert check(lambda x: tf.math.log_sigmoid(-2000 * x), x + 1).verdict == "agree"
    assert check(lambda x: tf.math.divide_no_nan(x, x + 1), x).verdict == "agree"
    guarded = (lambda x: tf.sqrt(tf.maximum(x, 1e-12)), lambda x: tf.pow(tf.maximum(x, 1e-12), 0.5))
    for f in guarded:
        with tf.GradientTape() as tape:
            at_zero = tf.constant(x)
            tape.watch(at_zero)
            y = f(at_zero)
        assert np.isfinite(tape.gradient(y, at_zero).numpy()).all()


def test_finite_gradients_are_left_alone() -> None:
    w = variable(KERNEL)

    def step() -> Any:
        with tf.GradientTape() as tape:
            h = tf.constant([[1.0, 2.0]], tf.float64) @ w
            loss = tf.reduce_sum(tf.where(h > 0, tf.sqrt(tf.where(h > 0, h, 1.0)), 0.0 * h))
        return tape.gradient(loss, w)

    (source,) = explain(step).sources
    assert (source.right, source.diagnosis) == (True, None)


def test_a_remedy_for_the_last_argument_of_where_is_written_for_that() -> None:
    def sinc(w: Any) -> Any:
        return tf.reduce_sum(tf.where(tf.equal(w, 0.0), 1.0, tf.sin(w) / w))

    def safe_sinc(w: Any) -> Any:
        safe = tf.where(tf.equal(w, 0.0), tf.ones_like(w), w)
        return tf.reduce_sum(tf.where(tf.equal(w, 0.0), 1.0, tf.sin(safe) / safe))

    diagnosis = diagnosis_of(check(sinc, [0.0, 0.5]))
    assert "safe = tf.where(condition, 1.0, x), then tf.where(condition, other, f(safe))" in diagnosis.remedy
    assert check(safe_sinc, [0.0, 0.5]).verdict == "agree"


@pytest.mark.parametrize(
    ("f", "operation"),
    [
        (lambda w: tf.reduce_sum(tf.nn.softmax(w - np.inf) ** 2), "Softmax"),
        (lambda w: tf.reduce_sum(tf.exp((w - np.inf) - (w - np.inf))), "Sub"),
    ],
    ids=["softmax", "difference"],
)
def test_an_infinite_mask_that_becomes_nan_is_told(f: Any, operation: str) -> None:
    w = variable([1.0, 2.0])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = f(w)
        return tape.gradient(loss, w)

    diagnosis = diagnosis_of(explain(step))
    assert diagnosis.place is not None
    assert diagnosis.place.operation == operation
    assert re.search(
        rf"tf\.[\w.]*{operation.lower()}\w*(?: \({operation}\))? at test_blame_not_finite\.py", diagnosis.evidence
    )
    assert re.search(r"returns nan at \w+\[0\] = -inf", diagnosis.evidence)
