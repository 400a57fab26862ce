"""tf.stop_gradient as people write it, in code with and without its text."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from gradcheck import Cause, Diagnosis, explain

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
    assert diagnosis(space["stopped"]).remedy == f"leave tf.stop_gradient out of the code at <string>:3{MEANT}"
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
