"""A function under tf.custom_gradient that is called by keyword: TensorFlow does not use its gradient."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Diagnosis, GradientMismatch, Result, assert_close, assert_step, check, explain
from tests import slices

Loss = Callable[[], Any]
w = tf.Variable([1.0, 100.0], name="w")
v = tf.Variable([1.0, 2.0], name="v")


@tf.custom_gradient
def softplus(x: Any) -> Any:
    e = tf.exp(x)
    return tf.where(x > 50.0, x, tf.math.log(1.0 + e)), lambda dy: dy * tf.sigmoid(x)


@tf.custom_gradient
def scaled(a: Any, x: Any) -> Any:
    return a * x, lambda dy: (dy * x, dy * a)


@tf.custom_gradient
def halved(a: Any, x: Any) -> Any:
    return a * x, lambda dy: dy * x


@tf.custom_gradient
def powered(x: Any, n: int = 2) -> Any:
    return x**n, lambda dy: dy * n * x


class Activated(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


@keras.saving.register_keras_serializable("tests")
def by_keyword(x: Any) -> Any:
    return softplus(x=x)


layer, mended = Activated(by_keyword), Activated(softplus)
dense, mended_dense = (keras.layers.Dense(2, act, kernel_initializer="identity") for act in (by_keyword, softplus))


def step_of(loss: Loss, *sources: tf.Variable) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(loss())
        return total, tape.gradient(total, list(sources))

    return step


def diagnosis_of(result: Result) -> Diagnosis:
    (found,) = {one.diagnosis.place: one.diagnosis for one in result.sources if one.diagnosis is not None}.values()
    return found


# Written, as the remedy says, and the variables
WRONG: dict[str, tuple[Loss, Loss, str, tuple[tf.Variable, ...]]] = {
    "alone": (lambda: softplus(x=w), lambda: softplus(w), "softplus(w)", (w,)),
    "in a product": (lambda: v * softplus(x=w + v), lambda: v * softplus(w + v), "softplus(w + v)", (v, w)),
    "in a layer": (lambda: layer(tf.identity(w)), lambda: mended(tf.identity(w)), "softplus(x)", (w,)),
    "in Keras": (lambda: dense(w[None]), lambda: mended_dense(w[None]), "softplus(x)", (w,)),
    "beside another": (lambda: scaled(v, x=w), lambda: scaled(v, w), "scaled(v, w)", (v, w)),
    "in another order": (lambda: scaled(x=w, a=v), lambda: scaled(v, w), "", (v, w)),
}


@pytest.mark.parametrize("name", [one for one in WRONG if one != "in another order"])
def test_the_call_is_named_and_by_position_it_is_right(name: str) -> None:
    wrong, right, written, variables = WRONG[name]
    found = diagnosis_of(explain(step_of(wrong, *variables)))
    function = written.partition("(")[0]
    assert found.cause is Cause.CUSTOM_GRADIENT
    assert found.evidence.startswith(f"the custom gradient of {function} is not used at test_keywords.py:")
    assert ", since its argument x is given by keyword; " in found.evidence
    assert found.remedy == f"call it as {written}"
    assert found.place is not None
    assert "x=" in found.place.code
    assert explain(step_of(right, *variables)).verdict == "agree"


def test_a_gradient_for_fewer_arguments_is_none_for_those_by_keyword() -> None:
    v_result, w_result = explain(step_of(lambda: halved(v, x=w), v, w)).sources
    assert v_result.right
    assert w_result.diagnosis is not None
    assert w_result.diagnosis.remedy == "call it as halved(v, w)"


NAMES = ("alone", "in a layer")


@slices.parametrized("name", NAMES, lambda names: names[:1])
def test_check_names_it(name: str) -> None:
    wrong, right, written, _ = WRONG[name]
    found = check(wrong, variables=[w])
    (finding,) = found.orders[1].findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.remedy == f"call it as {written}"
    assert check(right, variables=[w]).verdict == "agree"


@slices.parametrized("name", NAMES, lambda names: names[1:])
def test_a_step_names_it(name: str) -> None:
    wrong, right, _, _ = WRONG[name]
    with pytest.raises(GradientMismatch, match=r"is not used at .*, since its argument x is given by keyword"):
        assert_step(step_of(wrong, w))
    assert_step(step_of(right, w))


def test_a_traced_function_refuses_what_runs_eagerly() -> None:
    result = explain(step_of(tf.function(lambda: softplus(x=v)), v))
    assert diagnosis_of(result).remedy == "call it as softplus(v)"
    assert explain(step_of(tf.function(lambda: softplus(v)), v)).verdict == "agree"


@pytest.mark.parametrize("loss", [lambda: softplus(x=v), WRONG["in another order"][0]])
def test_where_all_is_finite_it_is_a_note(loss: Loss) -> None:
    result = explain(step_of(loss, v))
    (note,) = result.orders[1].notes
    assert result.verdict == "agree"
    assert "is not used at test_keywords.py:" in note
    assert note.endswith((": call it as softplus(v)", ": call it as scaled(v, w)"))


def test_where_all_is_finite_check_and_a_step_say_so_too() -> None:
    unused = r"the custom gradient of softplus is not used at test_keywords\.py:\d+, .*: call it as softplus\(v\)"
    (note,) = check(lambda: softplus(x=v), variables=[v]).orders[1].notes
    assert re.fullmatch(unused, note)
    with pytest.warns(UserWarning, match=unused):
        assert_close(lambda: softplus(x=v), variables=[v])
    with pytest.warns(UserWarning, match=unused):
        (note,) = assert_step(step_of(lambda: softplus(x=v), v), variables=[v]).orders[1].notes
    assert re.fullmatch(unused, note)


@pytest.mark.parametrize("loss", [lambda: softplus(v), lambda: scaled(v, w), lambda: powered(v, n=2)])
def test_by_position_or_with_a_number_by_keyword_there_is_no_note(loss: Loss) -> None:
    result = explain(step_of(loss, v))
    assert not [note for note in result.orders[1].notes if "keyword" in note]
    assert not check(loss, variables=[v]).orders[1].notes
    assert not assert_step(step_of(loss, v), variables=[v]).orders[1].notes
    assert not any("keyword" in one.diagnosis.evidence for one in result.sources if one.diagnosis is not None)


def test_a_mistake_outside_of_the_call_has_its_own_cause() -> None:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(softplus(x=v) * tf.stop_gradient(v))
        return tape.gradient(loss, v)

    (one,) = explain(step).sources
    assert one.diagnosis is not None
    assert one.diagnosis.cause is Cause.STOP_GRADIENT
    assert np.isfinite(step().numpy()).all()
