"""The line on which NumPy read a tensor's memory unseen, among all lines that mention NumPy or Python numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, explain
from tests import slices

Code = Callable[[], Any]
w = tf.Variable([[0.5], [-0.25]], name="w")


def cast_before() -> Any:
    with tf.GradientTape() as tape:
        h = tf.cast(w * 2.0, np.float32)
        z = np.tanh(h)  # the cut
        loss = tf.reduce_sum(tf.square(z))
    return tape.gradient(loss, w)


def in_a_comment() -> Any:
    with tf.GradientTape() as tape:
        h = tf.exp(w)
        # round off what is not an int
        z = np.square(h)  # the cut
        loss = tf.reduce_sum(z)
    return tape.gradient(loss, w)


def a_count_before() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        n = int(a.shape[0])
        k = 2 * np.pi * n
        c = np.sin(a)  # the cut
        loss = tf.reduce_sum(tf.convert_to_tensor(c) * k)
    return tape.gradient(loss, w)


def logged_before() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        m = np.mean(a)
        c = np.std(a)  # the cut
        loss = tf.reduce_sum(a) * c
    return tape.gradient(loss, w), m


def logged_behind() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        c = np.std(a)  # the cut
        m = np.mean(a)
        loss = tf.reduce_sum(a) * c
    return tape.gradient(loss, w), m


def data_behind() -> Any:
    data = [1.0, 2.0]
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        c = np.std(a)  # the cut
        m = np.mean(data)
        loss = tf.reduce_sum(a) * (c * m)
    return tape.gradient(loss, w)


def scaled_behind() -> Any:
    with tf.GradientTape() as tape:
        z = np.tanh(w)  # the cut
        n = np.float32(w.shape[0])
        loss = tf.reduce_sum(z) / n
    return tape.gradient(loss, w)


def in_steps() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        first = np.sin(a)  # the cut
        second = first * np.float32(2.0)
        third = second.T
        loss = tf.reduce_sum(third)
    return tape.gradient(loss, w)


def on_the_line_itself() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        n = np.float32(3.0)
        loss = tf.reduce_sum(np.sin(a) * n)  # the cut
    return tape.gradient(loss, w)


def in_a_list() -> Any:
    kept = []
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        kept.append(np.sin(a))  # the cut
        n = np.float32(3.0)
        loss = tf.reduce_sum(kept[0]) * n
    return tape.gradient(loss, w)


def summed(values: Any) -> tf.Tensor:
    return tf.reduce_sum(values)


def handed_over() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        z = np.sin(a)  # the cut
        loss = summed(z)
    return tape.gradient(loss, w)


def handed_over_at_once() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        loss = summed(np.sin(a))  # the cut
    return tape.gradient(loss, w)


def sine(value: Any) -> Any:
    return np.sin(value)


def computed_in_a_helper() -> Any:
    with tf.GradientTape() as tape:
        a = tf.exp(w)
        z = sine(a)
        loss = tf.reduce_sum(z)  # the cut
    return tape.gradient(loss, w)


PROGRAMS = [
    *(cast_before, in_a_comment, a_count_before, data_behind, logged_before, logged_behind, in_steps, scaled_behind),
    *(on_the_line_itself, in_a_list, handed_over, handed_over_at_once),
]


def line_named(code: Code) -> str:
    (one,) = explain(code).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.NUMPY
    assert one.diagnosis.place is not None
    return one.diagnosis.place.code


@pytest.mark.sliced
def test_the_line_that_computes_is_told_from_those_that_mention_numpy(subtests: pytest.Subtests) -> None:
    for code in slices.sliced(PROGRAMS, slices.every(3)):
        with subtests.test(code.__name__):
            assert line_named(code).endswith("# the cut")


def test_where_no_line_mentions_numpy_that_is_named_where_the_value_comes_back() -> None:
    assert line_named(computed_in_a_helper).endswith("# the cut")


def test_where_no_source_is_readable_the_line_has_its_number() -> None:
    space: dict[str, Any] = {"tf": tf, "np": np, "w": w}
    program = "\n".join(
        [
            "def code():",
            "    with tf.GradientTape() as tape:",
            "        z = np.sin(tf.exp(w))",
            "        loss = tf.reduce_sum(z)",
            "    return tape.gradient(loss, w)",
        ]
    )
    exec(program, space)
    (one,) = explain(space["code"]).sources
    assert one.diagnosis is not None
    assert one.diagnosis.place is not None
    assert (one.diagnosis.cause, one.diagnosis.place.line) == (Cause.NUMPY, 4)
