"""Paths with several cuts, and tf.stop_gradient as users write it, in code with and without its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from gradcheck import Cause, Diagnosis, explain
from gradcheck.diagnosis.diagnosis import graph_diagnosis
from gradcheck.diagnosis.wrong_gradient import LostPart

x = tf.Variable(2.0, dtype=tf.float64, name="x")
MEANT = "; if that was its purpose, nothing is wrong"


def diagnosis(code: Any) -> Diagnosis:
    (one,) = explain(code).sources
    assert one.diagnosis is not None
    return one.diagnosis


def test_the_stop_gradient_of_keras_is_the_user_s_own() -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = keras.ops.stop_gradient(x) * x
        return tape.gradient(loss, x)

    found = diagnosis(code)
    assert found.cause is Cause.STOP_GRADIENT
    assert found.remedy.startswith("leave tf.stop_gradient out of `loss = keras.ops.stop_gradient(x) * x` (")


def test_code_without_its_text() -> None:
    space: dict[str, Any] = {"tf": tf, "x": x}
    program = [
        "def stopped():",
        "    with tf.GradientTape() as tape:",
        "        loss = tf.stop_gradient(x**2) + x",
        "    return tape.gradient(loss, x)",
        "def outside():",
        "    square = x**2",
        "    with tf.GradientTape() as tape:",
        "        loss = square + x",
        "    return tape.gradient(loss, x)",
    ]
    exec("\n".join(program), space)
    assert (
        diagnosis(space["stopped"]).remedy
        == f'leave tf.stop_gradient out of the code at <string>:3{MEANT}, and intended="<string>:3" compares the rest'
    )
    assert diagnosis(space["outside"]).remedy.startswith("move the code at <string>:6 into the block")


def test_a_statement_of_several_lines_is_quoted_as_a_whole() -> None:
    def code() -> Any:
        square = tf.reduce_sum(
            tf.square(
                x  # of all
                + 1.0
            )
        )
        with tf.GradientTape() as tape:
            loss = square + x
        return tape.gradient(loss, x)

    assert diagnosis(code).remedy.startswith("move `square = tf.reduce_sum(tf.square(x + 1.0))` (")


def test_all_cuts_are_named(lines: Callable[..., str]) -> None:
    def code() -> Any:
        with tf.GradientTape() as tape:
            held = tf.stop_gradient(x**2)
            parts = []
            for _ in range(2):
                parts.append(float(x**3))
            loss = held + sum(parts) + x
        return tape.gradient(loss, x)

    found = diagnosis(code)
    also = (
        "not the gradient; and also: a value that depends on x comes back at test_several_cuts.py:«loss = held» as a "
        "constant that NumPy or Python computed, taken out by float at test_several_cuts.py:«parts.append(»"
    )
    assert found.cause is Cause.STOP_GRADIENT
    assert lines(code, also) in found.evidence
    assert found.evidence.count("comes back") == 1
    assert f"{MEANT}, and intended=" in found.remedy
    assert "compares the rest; and also: write `parts.append(float(x**3))` (" in found.remedy


def test_what_moves_in_steps_is_no_further_cut() -> None:
    with tf.Graph().as_default():
        y = tf.compat.v1.placeholder(tf.float32, [])
        target = tf.stop_gradient(y**2) + tf.floor(y) * y
        found = graph_diagnosis(target, y, "y", LostPart(2.0, 6.0))
    assert found is not None
    assert found.cause is Cause.STOP_GRADIENT
    assert "and also" not in found.evidence


def test_a_stop_gradient_inside_of_a_library_is_no_further_cut() -> None:
    layer = keras.layers.LayerNormalization(dtype="float64")
    layer(tf.zeros((1, 2), tf.float64))

    def code() -> Any:
        with tf.GradientTape() as tape:
            held = tf.stop_gradient(x**2)
            loss = held + tf.reduce_sum(layer(x * [[1.0, 3.0]]) ** 3)
        return tape.gradient(loss, x)

    assert "and also" not in diagnosis(code).evidence
