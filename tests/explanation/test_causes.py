"""Every cause beyond the scenarios: which one is named first, and the exact text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Result, explain
from tests import slices

HERE = Path(__file__)
Code = Callable[[], Any]


def f64(value: Any, name: str, trainable: bool = True) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float64, name=name, trainable=trainable)


x, y = f64(1.5, "x"), f64(2.0, "y")


def stopped() -> Any:
    with tf.GradientTape() as tape:
        a = x * y
        with tape.stop_recording():
            b = a * a
        c = b + a
    return tape.gradient(c, x)


def forgotten() -> Any:
    with tf.GradientTape() as tape:
        a = x * y
        tape.reset()
        c = a + x
    return tape.gradient(c, x)


def too_late() -> Any:
    with tf.GradientTape() as tape:
        a = x * y
    c = a * a
    return tape.gradient(c, x)


def watched_late() -> Any:
    t = tf.constant(3.0)
    with tf.GradientTape() as tape:
        a = t * t
        tape.watch(t)
        c = a + t
    return tape.gradient(c, t)


def watch_forgotten() -> Any:
    t = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(t)
        tape.reset()
        c = t * t
    return tape.gradient(c, t)


def unwatched() -> Any:
    t = tf.constant(3.0)
    with tf.GradientTape() as tape:
        c = t * t
    return tape.gradient(c, t)


def python_number() -> Any:
    with tf.GradientTape() as tape:
        a = x * y
        s = float(a)
        c = s * x
    return tape.gradient(c, x)


def numpy_function() -> Any:
    with tf.GradientTape() as tape:
        c = tf.numpy_function(np.sin, [x], tf.float64)
    return tape.gradient(c, x)


def numpy_ufunc() -> Any:
    with tf.GradientTape() as tape:
        a = x * y
        b = np.exp(a)
        c = tf.convert_to_tensor(b)
    return tape.gradient(c, x)


def text() -> Any:
    with tf.GradientTape() as tape:
        s = tf.strings.as_string(x * y, precision=15)
        c = tf.strings.to_number(s, tf.float64)
    return tape.gradient(c, x)


def comparison() -> Any:
    with tf.GradientTape() as tape:
        positive = x > 1.0
        c = tf.cast(positive, tf.float64) * y
    return tape.gradient(c, x)


def cast_to_int() -> Any:
    with tf.GradientTape() as tape:
        i = tf.cast(10.0 * x, tf.int32)
        c = tf.cast(i, tf.float64) * y
    return tape.gradient(c, x)


def floored() -> Any:
    with tf.GradientTape() as tape:
        c = tf.floor(x) * y
    return tape.gradient(c, x)


def rounded() -> Any:
    with tf.GradientTape() as tape:
        c = tf.round(4.0 * x) * y
    return tape.gradient(c, x)


def largest() -> Any:
    with tf.GradientTape() as tape:
        i = tf.argmax(tf.stack([x, y]))
        c = tf.cast(i, tf.float64) * y
    return tape.gradient(c, x)


def held_back() -> Any:
    with tf.GradientTape() as tape:
        c = x * tf.stop_gradient(x)
    return tape.gradient(c, x)


@tf.custom_gradient
def gated(a: tf.Tensor) -> Any:
    return a * tf.sigmoid(a), lambda upstream: upstream * tf.sigmoid(a)


def wrong_formula() -> Any:
    with tf.GradientTape() as tape:
        c = y * gated(x)
    return tape.gradient(c, x)


@tf.custom_gradient
def silent(a: tf.Tensor) -> Any:
    return a * a, lambda upstream: None


def no_formula() -> Any:
    with tf.GradientTape() as tape:
        c = silent(x)
    return tape.gradient(c, x)


def state_beside() -> Any:
    total = f64(0.0, "total")
    with tf.GradientTape() as tape:
        total.assign(x * y)
        c = total * x
    return tape.gradient(c, x)


def second_outside() -> Any:
    with tf.GradientTape() as first:
        a = x**3
    slope = first.gradient(a, x)
    with tf.GradientTape() as second:
        b = slope * y
    return second.gradient(b, x)


def later_model() -> Any:
    weight = f64(0.5, "weight", trainable=False)
    with tf.GradientTape() as tape:
        c = (weight * x - y) ** 2
    return tape.gradient(c, weight)


CAUSES = {
    stopped: (Cause.OUTSIDE_TAPE, 12.0),
    forgotten: (Cause.OUTSIDE_TAPE, 2.0),
    too_late: (Cause.OUTSIDE_TAPE, 12.0),
    watched_late: (Cause.NOT_WATCHED, 6.0),
    watch_forgotten: (Cause.NOT_WATCHED, 6.0),
    unwatched: (Cause.NOT_WATCHED, 6.0),
    python_number: (Cause.NUMPY, 3.0),
    numpy_function: (Cause.NUMPY, np.cos(1.5)),
    numpy_ufunc: (Cause.NUMPY, 2 * np.exp(3.0)),
    text: (Cause.DTYPE, 2.0),
    comparison: (Cause.DTYPE, None),
    cast_to_int: (Cause.NOT_DIFFERENTIABLE, None),
    floored: (Cause.NOT_DIFFERENTIABLE, None),
    rounded: (Cause.NOT_DIFFERENTIABLE, None),
    largest: (Cause.NOT_DIFFERENTIABLE, None),
    held_back: (Cause.STOP_GRADIENT, 1.5),
    wrong_formula: (Cause.CUSTOM_GRADIENT, 2 * 1.5 / (1 + np.exp(-1.5)) / (1 + np.exp(1.5))),
    no_formula: (Cause.CUSTOM_GRADIENT, 3.0),
    state_beside: (Cause.STATE, 3.0),
    second_outside: (Cause.TAKEN_OUTSIDE, 18.0),
    later_model: (Cause.NON_TRAINABLE, -3.75),
}
TEXTS = {
    name: text.strip()
    for name, _, text in (
        part.partition("\n") for part in HERE.with_name("causes.txt").read_text(encoding="utf-8").split("=== ")[1:]
    )
}


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are shown relative to the current directory."""
    monkeypatch.chdir(HERE.parents[2])


def without_bounds(text: str) -> str:
    """Error bounds differ in their digits from machine to machine."""
    return re.sub(r"(error at most )\d\.\de-\d\d", r"\1#", text)


def last(result: Result) -> tuple[Cause | None, float | None]:
    diagnosis = result.sources[-1].diagnosis
    return (None, None) if diagnosis is None else (diagnosis.cause, diagnosis.lost)


EAGER = (state_beside, later_model, python_number, numpy_ufunc)
"""Programs that no tf.function accepts: they create variables inside, or use NumPy."""


@slices.parametrized(
    ("code", "traced"),
    [(code, traced) for code in CAUSES for traced in (False, True) if not traced or code not in EAGER],
    # One form each, in turn.
    lambda _: [(code, number % 2 == 1 and code not in EAGER) for number, code in enumerate(CAUSES)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_the_first_answer_is_the_cause(code: Code, traced: bool, lines: Callable[..., str]) -> None:
    cause, lost = CAUSES[code]
    result = explain(tf.function(code) if traced else code)
    assert last(result) == (cause, None if lost is None else pytest.approx(lost, rel=1e-6))
    assert without_bounds(str(result)) == lines(code, TEXTS[code.__name__])


def test_a_function_below_the_tape_hides_nothing() -> None:
    @tf.function
    def inner(a: tf.Tensor) -> tf.Tensor:
        return tf.floor(a) * y

    def code() -> Any:
        with tf.GradientTape() as tape:
            c = inner(x)
        return tape.gradient(c, x)

    assert last(explain(code)) == (Cause.NOT_DIFFERENTIABLE, None)


def right() -> list[Code]:
    """Programs without any error to report."""
    table, ids = f64(np.arange(6.0).reshape(3, 2), "table"), tf.constant([0, 2, 2])
    step, unused = f64(0.0, "step", trainable=False), f64(1.0, "unused")

    def looked_up() -> Any:
        with tf.GradientTape() as tape:
            c = tf.reduce_sum(tf.gather(table, ids) ** 2)
        return tape.gradient(c, table)

    def counted() -> Any:
        with tf.GradientTape() as tape:
            c = x**2 * y
            step.assign_add(1.0)
        return tape.gradient(c, [x, y, unused])

    def set_before() -> Any:
        x.assign(3.0)
        with tf.GradientTape() as tape:
            c = x * x * y
        return tape.gradient(c, [x, y])

    def set_inside() -> Any:
        with tf.GradientTape() as tape:
            x.assign(4.0)
            c = x * x
        return tape.gradient(c, x)

    def trained() -> Any:
        found = []
        for _ in range(3):
            with tf.GradientTape() as tape:
                c = (x * y - 1.0) ** 2
            slope = tape.gradient(c, x)
            x.assign_sub(0.1 * slope)
            found.append(slope)
        return found

    def multiplied_by_zero() -> Any:
        s = 0.0 * x
        with tf.GradientTape() as tape:
            c = s + y**2
        return tape.gradient(c, [x, y])

    def masked() -> Any:
        with tf.GradientTape() as tape:
            c = tf.where(x > 1.0, x * y, y)
        return tape.gradient(c, [x, y])

    def vector_product() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                c = x**3 * y
            slope = inner.gradient(c, [x, y])
        return outer.gradient(
            slope, [x, y], output_gradients=[tf.constant(1.0, tf.float64), tf.constant(2.0, tf.float64)]
        )

    def flat_with_zeros() -> Any:
        z = tf.constant(0.0)
        with tf.GradientTape() as tape:
            tape.watch(z)
            c = z * z
        return tape.gradient(c, z, unconnected_gradients="zero")

    def random() -> Any:
        tf.random.set_seed(7)
        with tf.GradientTape() as tape:
            c = x * tf.random.normal([], dtype=tf.float64)
        return tape.gradient(c, x)

    def python_function() -> Any:
        data = tf.data.Dataset.range(3).map(lambda n: tf.numpy_function(np.float64, [n], tf.float64))
        with tf.GradientTape() as tape:
            c = tf.py_function(lambda v: tf.sin(v) * v, [x], tf.float64) + sum(n * x for n in data)
        return tape.gradient(c, x)

    def jacobians() -> Any:
        v = tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(v)
            c = v**3
        return tape.jacobian(c, v), tape.batch_jacobian(c, v)

    def logged() -> Any:
        with tf.GradientTape() as tape:
            c = x**2
        assert float(c) >= 0.0
        return tape.gradient(c, x)

    return [
        *(looked_up, counted, set_before, set_inside, trained, multiplied_by_zero, masked, vector_product),
        *(flat_with_zeros, random, python_function, jacobians, logged),
    ]


@pytest.mark.sliced
def test_no_complaint_about_what_is_right(subtests: pytest.Subtests) -> None:
    for code in slices.sliced(right(), slices.every(2)):
        with subtests.test(code.__name__):
            result = explain(code)
            assert result.verdict == "agree", str(result)
            assert all(source.right for source in result.sources)
            assert (float(x), float(y)) == (1.5, 2.0)
