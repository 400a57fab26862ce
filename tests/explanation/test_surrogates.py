"""Straight-through estimators and other surrogates: what makes a derivative differ from that of its value is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, GradientMismatch, Result, assert_step, check, explain
from tests import slices

Loss = Callable[..., Any]
Pass = Callable[[Any], Any]
MEANT = "a surrogate; if that is meant, nothing is wrong"


def f32(value: Any, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float32, name=name)


w, zeros = f32([0.3, 1.4, -0.7], "w"), f32([0.0, 0.0], "zeros")
table, c = f32([0.3, 0.4, 0.25], "table"), tf.constant([[1.0, -0.7, 0.6]])
encoder, book = f32([[0.4, -0.2], [0.3, 0.8]], "encoder"), f32([[0.1, 0.2], [1.0, -1.0], [0.5, 0.6]], "book")
batch = tf.constant([[1.0, 0.5], [0.2, -0.4]])


def floored(stop: Pass) -> Any:
    q = c / table
    q = q - stop(q - tf.floor(q))
    return tf.reduce_sum((q * table) ** 2)


def rounded(stop: Pass) -> Any:
    return tf.reduce_sum((w + stop(tf.round(w) - w)) ** 2 * w)


def signed(stop: Pass) -> Any:
    s = w + stop(tf.sign(w) - w)
    return tf.reduce_sum(s * w**2)


def quantised(stop: Pass) -> Any:
    z = batch @ encoder
    near = tf.argmin(tf.reduce_sum((z[:, None] - tf.stop_gradient(book)[None]) ** 2, -1), -1)
    q = tf.gather(book, near)
    return tf.reduce_sum((z + stop(q - z)) ** 3 * encoder)


class Rounding(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self, stop: Pass) -> None:
        super().__init__()
        self.stop = stop

    def call(self, x: Any) -> Any:
        return x + self.stop(tf.round(x) - x)


layer, without = Rounding(lambda x: tf.stop_gradient(x)), Rounding(tf.identity)


def in_a_layer(stop: Pass) -> Any:
    return tf.reduce_sum((without if stop is tf.identity else layer)(w * 0.9) * w)


STOPS = {floored: table, rounded: w, signed: w, quantised: encoder, in_a_layer: w}


def step_of(loss: Callable[[], Any], source: tf.Variable) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return value, tape.gradient(value, [source])

    return step


def diagnosis_of(result: Result) -> Diagnosis:
    (found,) = (one.diagnosis for one in result.orders[1].findings)
    assert found is not None
    return found


def failed(step: Callable[[], Any], source: tf.Variable = w) -> Diagnosis:
    with pytest.raises(GradientMismatch) as caught:
        assert_step(step, variables=[source])
    assert caught.value.result is not None
    return diagnosis_of(caught.value.result)


ASKED: dict[str, Callable[[Callable[[], Any], tf.Variable], Diagnosis]] = {
    "explain": lambda step, source: diagnosis_of(explain(step)),
    "assert_step": failed,
    "check": lambda step, source: diagnosis_of(check(lambda: step()[0], variables=[source])),
    "explain of a tf.function": lambda step, source: diagnosis_of(explain(tf.function(step))),
    "assert_step of a tf.function": lambda step, source: failed(tf.function(step), source),
}


def named(function: Any) -> Any:
    return getattr(function, "__name__", None)


# Each loss and each way to ask.
@slices.parametrized(("loss", "way"), product(STOPS, ASKED), slices.every(4), ids=named)
def test_the_stop_gradient_is_named_and_without_it_the_gradient_is_right(loss: Loss, way: str) -> None:
    source = STOPS[loss]
    one = ASKED[way](step_of(lambda: loss(lambda x: tf.stop_gradient(x)), source), source)
    assert one.cause is Cause.STOP_GRADIENT
    assert "tf.stop_gradient" in one.evidence
    assert "with its value held, differences give " in one.evidence or " is lost at " in one.evidence
    assert "leave tf.stop_gradient out of `" in one.remedy
    assert "nothing is wrong" in one.remedy
    assert one.place is not None
    assert "tf.stop_gradient(x)" in one.place.code
    assert explain(step_of(lambda: loss(tf.identity), source)).verdict == "agree"


@tf.custom_gradient
def straight_through(x: Any) -> Any:
    return tf.round(x), lambda dy: dy


@tf.custom_gradient
def larq_sign(x: Any) -> Any:
    return tf.sign(x), lambda dy: tf.where(tf.abs(x) < 1.0, dy, 0.0)


@tf.custom_gradient
def fired(x: Any) -> Any:
    return tf.cast(x > 0.0, x.dtype), lambda dy: dy / (1 + x**2)


@tf.custom_gradient
def reversed_gradient(x: Any) -> Any:
    return tf.identity(x), lambda dy: -dy


@tf.custom_gradient
def clipped_gradient(x: Any) -> Any:
    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 0.1)


CUSTOM = {
    straight_through: "moves only in steps, by Round at test_surrogates.py:",
    larq_sign: "its value moves only in steps, by Sign at test_surrogates.py:",
    fired: "its value moves only in steps, by Cast at test_surrogates.py:",
    reversed_gradient: "it returns its argument unchanged",
    clipped_gradient: "it returns its argument unchanged",
}


WAYS = ("explain", "explain of a tf.function", "assert_step")


@slices.parametrized(("function", "way"), product(CUSTOM, WAYS), slices.every(2), ids=named)
def test_a_custom_gradient_that_is_a_surrogate_is_named_as_one(function: Any, way: str) -> None:
    one = ASKED[way](step_of(lambda: tf.reduce_sum(function(1.1 * w) * w), w), w)
    assert one.cause is Cause.CUSTOM_GRADIENT
    assert f" {function.__name__} under tf.custom_gradient" in one.evidence
    assert CUSTOM[function] in one.evidence
    marked = f'{MEANT}, and intended="{function.__name__}" compares the rest; otherwise correct the gradient that '
    assert one.remedy.startswith(f"{marked}{function.__name__} at test_surrogates.py:")


def test_a_kernel_that_quantises_has_a_surrogate() -> None:
    step = step_of(lambda: tf.reduce_sum(tf.quantization.fake_quant_with_min_max_args(w, -2.0, 2.0, 2) * w), w)
    one = diagnosis_of(explain(step))
    assert one.evidence.startswith("FakeQuantWithMinMaxArgs at test_surrogates.py:")
    assert " rounds, and its gradient is meant to pass as if it did not" in one.evidence
    assert one.remedy.startswith(f"{MEANT}; otherwise ")


@pytest.mark.parametrize("function", [lambda x: x + tf.stop_gradient(tf.round(x) - x), straight_through])
def test_where_no_difference_can_tell_a_note_names_it(function: Any) -> None:
    step = step_of(lambda: tf.reduce_sum(function(3.3 * w) ** 2), w)
    (one,) = explain(step).sources
    assert one.right is None
    assert f": {MEANT}, and intended=" in one.note
    (note,) = check(lambda: step()[0], variables=[w]).orders[1].notes
    assert note.startswith("the staircase in variables[0] (w:0): ")


@tf.custom_gradient
def mistaken(x: Any) -> Any:
    return tf.cos(x), lambda dy: dy * tf.sin(x)


@tf.custom_gradient
def unmasked(x: Any) -> Any:
    return tf.where(x > 0.0, x, 0.0), lambda dy: dy


@tf.custom_gradient
def sine_added(x: Any) -> Any:
    return tf.sin(x) + x, lambda dy: dy * tf.cos(x)


@tf.custom_gradient
def doubled_added(x: Any, b: Any) -> Any:
    return x + 2.0 * b, lambda dy: (dy, dy)


@pytest.mark.parametrize("loss", [lambda: sine_added(zeros), lambda: doubled_added(zeros, 3.0 * zeros)])
def test_what_returns_its_argument_at_one_point_only_is_no_surrogate(loss: Loss) -> None:
    one = diagnosis_of(explain(step_of(lambda: tf.reduce_sum(loss()), zeros)))
    assert "unchanged" not in one.evidence
    assert one.remedy.startswith("correct the gradient that ")


@pytest.mark.parametrize("function", [mistaken, unmasked])
def test_a_plain_mistake_is_no_surrogate(function: Any) -> None:
    one = diagnosis_of(explain(step_of(lambda: tf.reduce_sum(function(w) * w), w)))
    assert one.remedy.startswith("correct the gradient that ")


def test_a_harmless_stop_gradient_is_not_blamed_for_a_mistake_beside_it() -> None:
    def loss() -> Any:
        e = tf.exp(w - tf.stop_gradient(tf.reduce_max(w)))
        return tf.reduce_sum(e / tf.reduce_sum(e) * mistaken(w))

    one = diagnosis_of(explain(step_of(loss, w)))
    assert one.cause is Cause.CUSTOM_GRADIENT
    assert "stop_gradient" not in one.evidence


def test_of_two_stop_gradients_the_harmless_one_is_left_out(lines: Callable[..., str]) -> None:
    def loss() -> Any:
        shifted = tf.exp(w - tf.stop_gradient(tf.reduce_max(w)))
        share = shifted / tf.reduce_sum(shifted)
        through = w + tf.stop_gradient(tf.sign(w) - w)
        return tf.reduce_sum(share * through)

    one = diagnosis_of(explain(step_of(loss, w)))
    assert one.evidence.startswith(lines(loss, "tf.stop_gradient at test_surrogates.py:«through = w» lets the value"))
    assert one.remedy.partition("; otherwise ")[2].count("test_surrogates.py") == 1


def test_a_part_that_is_held_back_is_named_as_before() -> None:
    one = diagnosis_of(explain(step_of(lambda: tf.reduce_sum(w * tf.stop_gradient(w)), w)))
    assert " is lost at " in one.evidence
    assert "; if that was its purpose, nothing is wrong, and intended=" in one.remedy
