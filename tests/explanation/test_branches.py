"""A value that a branch gives at one point alone: the derivative there is that of the branch, not of the function."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, assert_close, check, explain

Map = Callable[[Any], Any]
x = tf.Variable([0.0, 0.7], dtype=tf.float64, name="x")
weights = tf.constant([1.5, -2.0], tf.float64)


def quotient(v: Any) -> Any:
    return tf.math.expm1(v) / v


def away(v: Any) -> Any:
    return tf.where(v == 0.0, tf.ones_like(v), v)


def selected(v: Any) -> Any:
    return tf.where(v == 0.0, tf.ones_like(v), quotient(away(v)))


def selected_series(v: Any) -> Any:
    return tf.where(v == 0.0, 1.0 + 0.5 * v, quotient(away(v)))


def selected_by_keras(v: Any) -> Any:
    return keras.ops.where(keras.ops.equal(v, 0.0), keras.ops.ones_like(v), quotient(away(v)))


def concentrated(v: Any) -> Any:
    return tf.where(tf.abs(v - 0.7) > 0.0, (v - 0.7) ** 3 + 2.0 * v, 1.4 + 0.0 * v)


def concentrated_series(v: Any) -> Any:
    return tf.where(tf.abs(v - 0.7) > 0.0, (v - 0.7) ** 3 + 2.0 * v, 1.4 + 2.0 * (v - 0.7))


def one_by_one(function: Map) -> Map:
    return lambda v: tf.stack([function(one) for one in tf.unstack(v)])


def in_python(v: Any) -> Any:
    if float(v) == 0.0:
        return tf.constant(1.0, tf.float64)
    return quotient(v)


def in_python_series(v: Any) -> Any:
    if float(v) == 0.0:
        return 1.0 + 0.5 * v
    return quotient(v)


def conditional(v: Any) -> Any:
    return tf.cond(v == 0.0, lambda: tf.ones_like(v), lambda: quotient(v))


def conditional_series(v: Any) -> Any:
    return tf.cond(v == 0.0, lambda: 1.0 + 0.5 * v, lambda: quotient(v))


BRANCHES: dict[str, tuple[Map, Map, str, str]] = {
    "tf.where": (selected, selected_series, "tf.where at ", "return tf.where(v == 0.0, tf.ones_like(v), quotient("),
    "keras.ops.where": (selected_by_keras, selected_series, "tf.where at ", "return keras.ops.where("),
    "another point": (concentrated, concentrated_series, "tf.where at ", "return tf.where(tf.abs(v - 0.7) > 0.0"),
    "Python": (one_by_one(in_python), one_by_one(in_python_series), "the code takes at ", "return"),
    "tf.cond": (one_by_one(conditional), one_by_one(conditional_series), "the code takes at ", "return tf.cond("),
}


def step_of(function: Map) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(x) * weights)
        return tape.gradient(loss, x)

    return step


def told(function: Map, traced: bool) -> list[Diagnosis]:
    step = tf.function(step_of(function)) if traced else step_of(function)
    found = explain(step).findings + (() if traced else check(function, x).findings)
    return [one.diagnosis for one in found if one.diagnosis is not None]


@pytest.mark.parametrize("name", BRANCHES)
def test_the_branch_is_named_and_with_its_slope_the_gradient_is_right(name: str) -> None:
    wrong, right, takes, code = BRANCHES[name]
    for traced in (False, True) if name in ("tf.where", "tf.cond") else (False,):
        for one in told(wrong, traced):
            assert one.cause is Cause.BRANCH
            assert one.evidence.startswith(takes)
            assert re.search(r"another branch at [xv]\[[01]\] = (0|0\.7) than on either side of it", one.evidence)
            assert "f0 + f1 * " in one.remedy
            assert one.place is not None
            assert one.place.code.startswith(code)
    assert explain(step_of(right)).verdict == "agree"
    assert_close(right, x)


@tf.custom_gradient
def mistaken(v: Any) -> Any:
    return tf.where(v == 0.0, v, tf.sin(v)), lambda dy: dy * 0.25


@pytest.mark.parametrize(
    "function",
    [
        lambda v: tf.where(v > 0.0, v, tf.zeros_like(v)),
        lambda v: tf.where(v == 0.0, tf.ones_like(v), tf.cos(v)),
        lambda v: tf.where(v == 0.0, 5.0 * tf.ones_like(v), tf.exp(v)),
        mistaken,
        lambda v: tf.where(v == 0.0, v, v + tf.stop_gradient(v)),
        lambda v: v * tf.stop_gradient(tf.where(v == 0.3, v, v + 1.0)),
    ],
    ids=["a kink", "the right slope", "a jump", "a custom gradient", "a stop_gradient", "a branch elsewhere"],
)
def test_another_error_or_none_is_not_laid_to_a_branch(function: Map) -> None:
    assert not [one for one in told(function, traced=False) if one.cause is Cause.BRANCH]
