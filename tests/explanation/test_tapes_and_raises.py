"""Losses of several tapes, what tf.recompute_grad cannot do, and the sentence of an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, GradientMismatch, Result, assert_step, explain

Code = Callable[[], Any]
w = tf.Variable([1.0, 2.0], name="w")
rows = [tf.constant([1.0, 3.0]), tf.constant([2.0, -1.0]), tf.constant([0.5, 1.0])]
layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
layer.build((1, 2))


def loss_of(x: Any) -> Any:
    return tf.reduce_sum((x * w) ** 2)


def loss_of_layer(x: Any) -> Any:
    return tf.reduce_sum(layer(x[None]) ** 2)


def diagnosis_of(result: Result) -> Diagnosis:
    (found,) = (one.diagnosis for one in result.orders[1].findings)
    assert found is not None
    return found


def last_tape(loss: Any, source: Any) -> Code:
    def step() -> Any:
        total = tf.constant(0.0)
        for x in rows:
            with tf.GradientTape() as tape:
                total = total + loss(x)
        return total, [tape.gradient(total, source)]

    return step


def every_tape(loss: Any, source: Any) -> Code:
    def step() -> Any:
        total, gradient = tf.constant(0.0), tf.zeros_like(source)
        for x in rows:
            with tf.GradientTape() as tape:
                own = loss(x)
            gradient += tape.gradient(own, source)
            total += own
        return total, [gradient]

    return step


def one_tape(loss: Any, source: Any) -> Code:
    def step() -> Any:
        with tf.GradientTape() as tape:
            total = tf.add_n([loss(x) for x in rows])
        return total, [tape.gradient(total, source)]

    return step


@pytest.mark.parametrize(("loss", "source"), [(loss_of, w), (loss_of_layer, layer.kernel)], ids=["eager", "layer"])
def test_losses_of_the_tapes_of_a_loop(loss: Any, source: Any) -> None:
    wrong = last_tape(loss, source)
    told = [diagnosis_of(explain(code)) for code in (wrong, tf.function(wrong))]
    with pytest.raises(GradientMismatch) as caught:
        assert_step(wrong, variables=[source])
    assert caught.value.result is not None
    for one in (*told, diagnosis_of(caught.value.result)):
        assert one.cause is Cause.OUTSIDE_TAPE
        assert " was recorded by the tapes of 2 earlier passes, not by the last one, opened at " in one.evidence
        assert one.remedy.startswith(
            "add up the gradients of each tape, each of its own loss, or open one tape around the loop"
        )
        assert one.place is not None
        assert one.place.code.startswith(("return tf.reduce_sum((x * w)", "return tf.reduce_sum(layer("))
    for right in (every_tape(loss, source), one_tape(loss, source)):
        assert_step(right, variables=[source])


def test_losses_of_two_tapes() -> None:
    def wrong() -> Any:
        with tf.GradientTape():
            a = tf.reduce_sum(w**2)
        with tf.GradientTape() as second:
            loss = a + tf.reduce_sum(w**3)
        return second.gradient(loss, w)

    def right() -> Any:
        with tf.GradientTape() as first:
            a = tf.reduce_sum(w**2)
        with tf.GradientTape() as second:
            b = tf.reduce_sum(w**3)
        return a + b, [first.gradient(a, w) + second.gradient(b, w)]

    one = diagnosis_of(explain(wrong))
    assert "was recorded by another tape, opened at test_tapes_and_raises.py:" in one.evidence
    assert one.remedy.startswith("add up the gradients of each tape, each of its own loss, or open one tape around all")
    assert_step(right, variables=[w])


def before_a_tape() -> Any:
    a = tf.reduce_sum(w**2)
    with tf.GradientTape() as tape:
        loss = a + tf.reduce_sum(w**3)
    return tape.gradient(loss, w)


def in_an_outer_tape() -> Any:
    with tf.GradientTape():
        a = tf.reduce_sum(w**2)
        with tf.GradientTape() as inner:
            loss = a + tf.reduce_sum(w**3)
        return inner.gradient(loss, w)


@pytest.mark.parametrize("code", [before_a_tape, in_an_outer_tape], ids=lambda code: code.__name__)
def test_of_an_open_tape_or_none_the_line_is_moved(code: Code) -> None:
    one = diagnosis_of(explain(code))
    assert one.remedy.startswith("move `a = tf.reduce_sum(w**2)` (")


def penalised(function: Any) -> Code:
    x = tf.Variable([[0.1, 0.7]])

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = tf.reduce_sum(function(x))  # the call
            penalty = tf.reduce_sum(inner.gradient(value, x) ** 2)
        return outer.gradient(penalty, w)

    return step


def block(x: Any) -> Any:
    return tf.tanh(x * w)


class Block(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return tf.tanh(x * w)


@pytest.mark.parametrize(
    ("wrapped", "name"),
    [(block, "block"), (lambda x: tf.tanh(x * w), "what it wraps"), (tf.function(block), "block"), (Block(), "block")],
    ids=["function", "lambda", "traced", "layer"],
)
def test_recompute_grad_has_no_second_derivative(wrapped: Any, name: str) -> None:
    one = diagnosis_of(explain(penalised(tf.recompute_grad(wrapped))))
    assert one.cause is Cause.RAISES
    assert one.evidence.startswith("tf.recompute_grad, called at test_tapes_and_raises.py:")
    # A layer has no __name__, which TensorFlow's own message asks for.
    error = "AttributeError" if isinstance(wrapped, Block) else "NotImplementedError"
    assert f"has no second derivative: TensorFlow, not your code, raises {error} there" in one.evidence
    assert one.remedy.startswith("leave tf.recompute_grad out where a second derivative is taken: call ")
    assert one.remedy.endswith(f"{name} itself") or isinstance(wrapped, Block)
    assert one.place is not None
    assert one.place.code.endswith("# the call")
    assert explain(penalised(wrapped)).verdict == "agree"


def test_an_own_gradient_that_raises_is_not_that_of_tensorflow() -> None:
    @tf.custom_gradient
    def squared(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            raise NotImplementedError("not yet")

        return x**2, gradient

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(squared(w))
        return tape.gradient(loss, w)

    one = diagnosis_of(explain(step))
    assert "the custom gradient of squared" in one.evidence
    assert "recompute_grad" not in one.evidence


def powered(**options: Any) -> Code:
    """A step that is compiled as a whole: XLA passes no list from one function to the next."""

    @tf.function(jit_compile=True)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loop = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), (0, w.value()), **options)
            value = tf.reduce_sum(loop[1])
        return value, [tape.gradient(value, w)]

    return step


def test_a_loop_without_a_bound_in_xla() -> None:
    (finding,) = explain(powered()).orders[1].findings
    assert "XLA compilation requires a fixed tensor list size" in finding.reason
    assert "setting maximum_iteration to a suitable value." in finding.reason
    assert "tf2xla" not in finding.reason
    assert "File" not in finding.reason
    assert explain(powered(maximum_iterations=3)).verdict == "agree"


def test_what_autograph_cannot_trace_is_said_without_frames() -> None:
    @tf.function
    def branched(x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            y = x * 2
        return y

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = branched(w)
        return tape.gradient(value, w)

    (finding,) = explain(step).orders[1].findings
    assert finding.reason == "'y' must also be initialized in the else branch"
