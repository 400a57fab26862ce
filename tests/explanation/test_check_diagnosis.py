"""The findings of check and assert_close carry the cause; it is searched for after a mismatch, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Cause, Kind, assert_close, check
from gradcheck.diagnosis import check_diagnosis
from gradcheck.tracing.user_code import definition_of
from tests.planting import planted


def diagnosed(*arguments: Any, **options: Any) -> list[tuple[Kind, int, Cause | None, str | None]]:
    found = []
    for finding in check(*arguments, **options).findings:
        diagnosis = finding.diagnosis
        line = diagnosis.place.code if diagnosis is not None and diagnosis.place is not None else None
        found.append((finding.kind, finding.order, None if diagnosis is None else diagnosis.cause, line))
    return found


def through_numpy(x: Any) -> Any:
    y = np.tanh(x)
    return tf.convert_to_tensor(y) * 2.0


def through_text(x: Any) -> Any:
    return tf.strings.to_number(tf.strings.as_string(x, precision=15), tf.float64)


def through_state(x: Any) -> Any:
    keeper = tf.Variable(0.0, dtype=tf.float64)
    keeper.assign(x**2)
    return keeper * x


def contrast(x: Any) -> Any:
    return tf.image.adjust_contrast(x, 2.0)


@tf.custom_gradient
def cubed(x: Any) -> Any:
    return x**3, lambda upstream: upstream * 3.0 * x


def weighted(x: Any) -> Any:
    return 2.0 * cubed(x)


@pytest.mark.parametrize(
    ("f", "value", "expected"),
    [
        (through_numpy, 1.5, (Kind.MISSING, 1, Cause.NUMPY, "y = np.tanh(x)")),
        (lambda x: x * tf.stop_gradient(x), 1.5, (Kind.WRONG_VALUE, 1, Cause.STOP_GRADIENT, None)),
        (through_text, 1.5, (Kind.MISSING, 1, Cause.DTYPE, None)),
        (through_state, 1.5, (Kind.WRONG_VALUE, 1, Cause.STATE, "keeper.assign(x**2)")),
        (contrast, np.array([[[0.5, 0.1, 0.2]]], np.float32), (Kind.RAISES, 1, Cause.NO_GRADIENT, None)),
        (weighted, 1.5, (Kind.WRONG_VALUE, 1, Cause.CUSTOM_GRADIENT, "def cubed(x: Any) -> Any:")),
    ],
)
def test_functions_that_lose_a_gradient(f: Any, value: Any, expected: tuple[Any, ...]) -> None:
    (found,) = diagnosed(f, value)
    assert found[:3] == expected[:3]
    assert expected[3] in (None, found[3])


def test_gradients_that_were_given() -> None:
    x = tf.Variable(1.5, dtype=tf.float64)

    def clipped() -> Any:
        with tf.GradientTape() as tape:
            y = x**2
        gradient = tape.gradient(y, x)
        return tf.clip_by_norm(gradient, 1.0)

    def unwatched(t: Any) -> Any:
        with tf.GradientTape() as tape:
            y = t**2
        return [tape.gradient(y, t)]

    (found,) = diagnosed(lambda: x**2, variables=[x], gradient=clipped)
    assert found == (Kind.WRONG_VALUE, 1, Cause.CHANGED_AFTERWARDS, "return tf.clip_by_norm(gradient, 1.0)")
    (found,) = diagnosed(lambda t: t**2, 1.5, gradient=unwatched)
    assert found == (Kind.MISSING, 1, Cause.NOT_WATCHED, "y = t**2")
    (found,) = diagnosed(lambda t: t**2, 1.5, gradient=lambda t: 2.5 * t)
    assert found == (Kind.WRONG_VALUE, 1, None, None)


def test_a_tape_that_was_used_up() -> None:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        tape.gradient(y, x)
        return tape.gradient(y, x)

    with pytest.raises(gradcheck.GradientRaises) as caught:
        assert_close(lambda x: x**2, 1.5, gradient=gradient)
    text = str(caught.value)
    assert "    cause        tape already used\n" in text
    assert "    where        " in text
    assert "make this one persistent: tf.GradientTape(persistent=True)" in text
    assert "What to do" not in text


@tf.custom_gradient
def unfinished(x: Any) -> Any:
    def gradient(upstream: Any) -> Any:
        raise NotImplementedError("later")

    return 2.0 * x, gradient


def twice_in_a_branch(x: Any) -> Any:
    return tf.cond(x > 0, lambda: unfinished(x), lambda: x)


def normalized(x: Any) -> Any:
    return tf.nn.local_response_normalization(x[None, None, None])


def refusing(right: Any) -> Any:
    def gradient(op: Any, upstream: Any) -> Any:
        raise ValueError("no")

    return gradient


@pytest.mark.parametrize("wrapped", [lambda f: f, tf.function])
def test_a_custom_gradient_that_raises_is_named_with_both_lines(wrapped: Any) -> None:
    (finding,) = check(wrapped(twice_in_a_branch), 1.5).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.place is not None
    assert (finding.kind, finding.diagnosis.cause) == (Kind.RAISES, Cause.RAISES)
    assert finding.diagnosis.place.code == "return tf.cond(x > 0, lambda: unfinished(x), lambda: x)"
    raising = definition_of(unfinished)[1] + 2
    assert finding.diagnosis.evidence.endswith(f"raises NotImplementedError at test_check_diagnosis.py:{raising}")
    assert finding.diagnosis.remedy == f"fix that gradient at test_check_diagnosis.py:{raising}"


@pytest.mark.parametrize("wrapped", [lambda f: f, tf.function])
def test_an_operation_without_a_second_derivative_is_named_with_the_one_whose_gradient_runs_it(wrapped: Any) -> None:
    (finding,) = check(wrapped(normalized), np.array([0.25, 0.3], np.float32), order=2).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.place is not None
    assert (finding.kind, finding.order, finding.diagnosis.cause) == (Kind.RAISES, 2, Cause.NO_GRADIENT)
    assert finding.diagnosis.place.code == "return tf.nn.local_response_normalization(x[None, None, None])"
    assert "no gradient for LRNGrad, which the gradient of LRN runs, and that ran at " in finding.diagnosis.evidence


def test_an_operation_whose_gradient_raises_is_to_be_replaced() -> None:
    with planted(["Sinh"], refusing):
        (finding,) = check(lambda x: tf.sinh(x) * x, 1.5).findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.place is not None
    assert (finding.kind, finding.diagnosis.cause) == (Kind.RAISES, Cause.RAISES)
    assert finding.diagnosis.evidence.startswith("the gradient of Sinh, which ran at test_check_diagnosis.py:")
    assert finding.diagnosis.remedy.endswith("with other operations, or give it a gradient with tf.custom_gradient")


def test_the_second_order() -> None:
    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.stop_gradient(tf.cos(x))

    (found,) = diagnosed(sine, 1.5, order=2)
    assert found[1:3] == (2, Cause.STOP_GRADIENT)


def test_none_that_is_right_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any) -> Any:
        raise KeyboardInterrupt("nothing was wrong")

    monkeypatch.setattr(check_diagnosis, "recorded", refused)
    assert check(lambda x, y: x**2 + 0.0 * tf.floor(y), 1.5, 2.5, order=2).verdict == "agree"
    with pytest.raises(KeyboardInterrupt, match="nothing was wrong"):
        check(lambda x: x * tf.stop_gradient(x), 1.5)


def test_nothing_is_left_changed() -> None:
    x, calls = tf.Variable(1.5, dtype=tf.float64), tf.Variable(0)

    def f() -> Any:
        calls.assign_add(1)
        return x * tf.stop_gradient(x)

    check(f, variables=[x])
    assert float(x) == 1.5


def test_where_all_operations_are_right_it_does_not_accuse_their_composition() -> None:
    """A pole 3e-7 beside the point, whose share of the slope is below the rounding of 1e6 one step away."""
    (finding,) = check(lambda x: 1e6 + x - 1.27e-15 / ((x - 1000.0) + 2.88e-7), 1000.0).findings
    diagnosis = finding.diagnosis
    assert diagnosis is not None
    assert diagnosis.cause == Cause.COMPOSITION
    assert diagnosis.evidence.endswith("none is wrong by itself" + check_diagnosis.UNSEEN)
    assert "autodiff is probably correct" in diagnosis.remedy
