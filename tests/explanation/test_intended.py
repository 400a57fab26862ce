"""`intended=` marks a stop_gradient or a surrogate custom gradient that is meant: the rest of the code is compared."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import (
    Cause,
    GradientInconclusive,
    GradientMismatch,
    InconclusiveWarning,
    Result,
    assert_close,
    assert_step,
    check,
    explain,
)
from tests import slices

Step = Callable[[], Any]
Map = Callable[[Any], Any]
w = tf.Variable([0.3, 1.4, -0.7], dtype=tf.float64, name="w")
gain = tf.Variable(0.8, dtype=tf.float64, name="gain")


def through(x: Any) -> Any:
    return x + tf.stop_gradient(tf.round(x) - x)


class Rounding(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return x + keras.ops.stop_gradient(keras.ops.round(x) - x)


rounding = Rounding(dtype="float64")


def by_layer(x: Any) -> Any:
    return rounding(x)


def twice(x: Any) -> Any:
    for _ in range(2):
        x = 1.3 * through(x)
    return x


def target(x: Any) -> Any:
    return (x - tf.stop_gradient(0.9 * tf.reduce_max(x) + 1.0)) ** 2


@tf.custom_gradient
def fired(x: Any) -> Any:
    return tf.cast(x > 0.0, x.dtype), lambda dy: dy / (1 + x**2)


@tf.custom_gradient
def shared(x: Any) -> Any:
    return tf.round(x), lambda dy: dy + tf.reduce_mean(dy)


@tf.custom_gradient
def learned(x: Any) -> Any:
    def gradient(dy: Any, variables: Any = None) -> Any:
        return gain * dy, [tf.reduce_sum(dy * x) for _ in variables]

    return tf.round(gain * x), gradient


@tf.custom_gradient
def mistaken(x: Any) -> Any:
    return tf.cos(x), lambda dy: dy * tf.sin(x)


@tf.custom_gradient
def clipped(x: Any) -> Any:
    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 0.1)


def line(function: Callable[..., Any], code: str = "") -> str:
    """The line of a function's source with this code, as a message names it."""
    source, first = inspect.getsourcelines(inspect.unwrap(function))
    return f"test_intended.py:{next(number for number, text in enumerate(source, first) if code in text)}"


MARKS: list[tuple[Map, Any]] = [
    (through, "through"),
    (through, through),
    (through, line(through, "stop_gradient")),
    (through, "explanation/" + line(through, "stop_gradient")),
    (by_layer, "Rounding"),
    (by_layer, line(by_layer, "return")),
    (twice, ["through"]),
    (target, "target"),
    (fired, "fired"),
    (shared, "shared"),
]


def step_of(function: Map, beside: Map = tf.cos, variables: Any = (w,)) -> Step:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(1.1 * w) * w * beside(w))
        return loss, tape.gradient(loss, list(variables))

    return step


ASKED: dict[str, Callable[[Step, Any], Result]] = {
    "explain": lambda step, mark: explain(step, intended=mark),
    "explain of a tf.function": lambda step, mark: explain(tf.function(step), intended=mark),
    "check": lambda step, mark: check(lambda: step()[0], variables=[w], intended=mark),
    "assert_step": lambda step, mark: assert_step(step, variables=[w], intended=mark),
    "assert_step of a tf.function": lambda step, mark: assert_step(tf.function(step), variables=[w], intended=mark),
}


# Each mark several times, and each way to ask.
@slices.parametrized(("way", "case"), product(ASKED, MARKS), slices.every(3))
def test_what_is_intended_is_held_and_the_rest_agrees(way: str, case: tuple[Map, Any]) -> None:
    function, mark = case
    result = ASKED[way](step_of(function), mark)
    assert result.verdict == "agree"
    assert result.orders[1].notes[0].startswith("intended: ")
    assert result.orders[1].notes[0].endswith("; held, while the rest was compared")


@pytest.mark.parametrize(("function", "mark"), MARKS)
def test_assert_close_holds_it_too(function: Map, mark: Any) -> None:
    assert_close(lambda x: function(1.1 * x) * x, w.numpy(), intended=mark)


@pytest.mark.parametrize("function", [by_layer, twice, shared])
def test_what_is_not_marked_does_not_agree(function: Map) -> None:
    assert explain(step_of(function)).verdict != "agree"


def failed(step: Step, mark: Any) -> Result:
    with pytest.raises(GradientMismatch) as caught:
        assert_step(tf.function(step), variables=[w], intended=mark)
    assert caught.value.result is not None
    return caught.value.result


@slices.parametrized(
    ("case", "asked"),
    product([MARKS[0], MARKS[4], MARKS[8], MARKS[9]], [ASKED["explain"], ASKED["check"], failed]),
    slices.every(2),
)
def test_a_mistake_elsewhere_is_a_mismatch_with_its_cause(
    case: tuple[Map, Any], asked: Callable[[Step, Any], Result]
) -> None:
    function, mark = case
    (finding,) = asked(step_of(function, mistaken), mark).orders[1].findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.remedy.startswith("correct the gradient that mistaken at test_intended.py:")


def test_one_of_two_is_marked_and_the_other_is_named() -> None:
    step = step_of(lambda x: through(x) + fired(x))
    (one,) = explain(step, intended="fired").sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.STOP_GRADIENT
    (other,) = explain(step, intended="through").sources
    assert other.diagnosis is not None
    assert " fired under tf.custom_gradient" in other.diagnosis.evidence
    assert explain(step, intended=["fired", "through"]).verdict == "agree"


@pytest.mark.parametrize("function", [through, fired, target])
def test_the_message_says_how_to_mark_it(function: Map) -> None:
    step = step_of(function)
    (one,) = explain(step).sources
    assert one.diagnosis is not None
    mark = one.diagnosis.remedy.partition('intended="')[2].partition('"')[0]
    assert explain(step, intended=mark).verdict == "agree"


def test_a_staircase_says_how_to_mark_it() -> None:
    step = step_of(lambda x: through(3.3 * x) / tf.stop_gradient(x), tf.ones_like)
    (one,) = explain(step_of(lambda x: fired(x) / x, tf.ones_like)).sources
    assert one.diagnosis is not None
    (note,) = check(lambda: tf.reduce_sum(through(3.3 * w) ** 2), variables=[w]).orders[1].notes
    assert note.endswith(f', and intended="{line(through, "stop_gradient")}" compares the rest')
    assert explain(step, intended=["through", line(test_a_staircase_says_how_to_mark_it, "step =")]).verdict == "agree"


@tf.custom_gradient
def straight(x: Any) -> Any:
    return tf.floor(x), lambda dy: dy


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("size", [1, 2, 30])
@pytest.mark.parametrize("function", [through, straight])
def test_the_advice_on_a_staircase_is_what_to_mark(function: Map, size: int, total: bool) -> None:
    x = np.linspace(0.7, 1.4, size)

    def f(x: Any) -> Any:
        return tf.reduce_sum((function(x) + 1) ** 2) if total else function(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((AssertionError, InconclusiveWarning)) as caught:
            assert_close(f, x)
        advice = str(caught.value).partition("What to do: " if "What to do" in str(caught.value) else "remedy")[2]
        mark = advice.partition('intended="')[2].partition('"')[0]
        assert_close(f, x, intended=mark)


def test_the_advice_on_a_staircase_names_nothing_that_cannot_help() -> None:
    with pytest.warns(InconclusiveWarning) as caught:
        assert_close(straight, [0.7, 1.4])
    assert str(caught[0].message).endswith(
        'What to do: pass intended="straight" if that is meant, or pass inconclusive="ignore".'
    )
    with pytest.warns(InconclusiveWarning, match='pass order=1 and intended="straight" if that is meant, or'):
        assert_close(straight, [0.7, 1.4], order=2)


def test_a_kernel_that_rounds_is_named_in_noise() -> None:
    with pytest.raises(GradientInconclusive, match="on the path from x: FakeQuantWithMinMaxArgs at "):
        assert_close(lambda x: tf.quantization.fake_quant_with_min_max_args(x, -6.0, 6.0), tf.constant(0.3))


def test_a_custom_gradient_with_a_variable_is_held_in_it_too() -> None:
    step = step_of(lambda x: learned(x) * gain, variables=(w, gain))
    result = explain(step, intended="learned")
    assert [one.right for one in result.sources] == [True, True]
    wrong = step_of(lambda x: learned(x) * tf.stop_gradient(gain), variables=(w, gain))
    assert [one.right for one in explain(wrong, intended="learned").sources] == [True, False]


def test_randomness_is_the_same_while_it_is_held() -> None:
    step = step_of(lambda x: through(x + tf.stop_gradient(x * tf.random.normal([3], dtype=tf.float64))))
    marks = ["through", line(test_randomness_is_the_same_while_it_is_held, "step =")]
    assert explain(step, intended=marks).verdict == "agree"
    assert assert_step(step, variables=[w], intended=marks).verdict == "agree"


def test_a_keras_model_with_a_quantising_layer() -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), Rounding(), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    result = assert_step(model.train_step, (tf.constant(x), tf.reduce_sum(x, 1, keepdims=True)), intended="Rounding")
    assert result.verdict == "agree"


def test_the_custom_gradients_of_a_library_are_left_alone_where_it_is_called() -> None:
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build([w])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(through(1.1 * w) * w)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    (note,) = assert_step(tf.function(step), intended="step").orders[1].notes
    assert note == f"intended: tf.stop_gradient at {line(through, 'stop_gradient')}; held, while the rest was compared"


def test_a_name_that_nothing_has_is_refused_with_the_candidates() -> None:
    for call in (explain, assert_step):
        with pytest.raises(ValueError, match=r"intended was 'other', .*: tf\.stop_gradient at test_intended\.py:\d+; "):
            call(step_of(through), intended="other")
    with pytest.raises(ValueError, match=r"but the code calls neither tf\.stop_gradient nor a custom gradient"):
        check(tf.sin, [1.0], intended="through")
    stopped = line(through, "stop_gradient")
    for name in (stopped.removeprefix("test_"), stopped + "0", "other/" + stopped, stopped.partition(":")[0]):
        with pytest.raises(ValueError, match="which none of these is, or is called in"):
            check(through, [1.3], intended=name)
    with pytest.raises(TypeError, match="names of functions, or lines"):
        check(through, [1.0], intended=3)


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(ValueError, match=r"of clipped at .* is not proportional to its upstream gradient"):
        explain(step_of(clipped), intended="clipped")
    with pytest.raises(ValueError, match="intended= is for first"):
        check(through, [1.0], order=2, intended="through")
    with pytest.raises(ValueError, match=r"cannot be held in the derivative that `return .* takes"):
        explain(of_second_order, intended="fired")
    with (
        tf.compat.v1.Session(graph=tf.Graph()) as session,
        pytest.raises(ValueError, match="for steps of TensorFlow 2"),
    ):
        assert_step(lambda: session, session=session, intended="through")


def of_second_order() -> Any:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.reduce_sum(fired(1.1 * w) * w)
        slope = inner.gradient(loss, w)
    return outer.gradient(slope, w)
