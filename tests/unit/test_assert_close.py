"""assert_close: the exceptions, the warnings, and their texts."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import GradientInconclusive, InconclusiveWarning, assert_close
from gradcheck.result import Kind
from gradcheck.verdict.failure import FAILURES

x = np.array([0.5, 1.5])


@tf.custom_gradient
def throws(x: tf.Tensor) -> Any:
    def backward(upstream: tf.Tensor) -> tf.Tensor:
        raise LookupError("no gradient defined")

    return tf.sin(x), backward


@tf.custom_gradient
def steep_abs(x: tf.Tensor) -> Any:
    return tf.abs(x), lambda upstream: upstream * 1.5


def lost_part(x: tf.Tensor) -> tf.Tensor:
    early = tf.sin(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        late = early + x**2
    return tape.gradient(late, x)


@pytest.mark.parametrize(
    ("error", "f", "point", "options"),
    [
        (gradcheck.GradientRaises, throws, x, {}),
        (gradcheck.GradientMissing, lambda x: tf.constant(x.numpy()), x, {}),
        (gradcheck.GradientPartial, lambda x: tf.sin(x) + x**2, x, {"gradient": lost_part}),
        (gradcheck.GradientNonFinite, tf.sin, x, {"gradient": np.array([np.nan, 0.0])}),
        (gradcheck.GradientWrongValue, lambda x: x * tf.stop_gradient(x), x, {}),
        (gradcheck.GradientOutsideSubdifferential, steep_abs, np.array([0.0]), {}),
    ],
)
def test_each_kind_has_its_exception(error: type, f: Any, point: Any, options: dict[str, Any]) -> None:
    with pytest.raises(gradcheck.GradientMismatch) as caught:
        assert_close(f, point, **options)
    assert type(caught.value) is error
    assert issubclass(error, AssertionError)
    assert FAILURES[caught.value.result.findings[0].kind] is error  # type: ignore[union-attr]
    assert caught.value.__suppress_context__


def test_every_kind_is_known() -> None:
    assert set(FAILURES) == set(Kind)
    assert len(set(FAILURES.values())) == len(Kind)


def test_the_most_severe_kind_decides_and_all_are_listed() -> None:
    with pytest.raises(gradcheck.GradientMissing) as caught:
        assert_close(lambda x, y: x * tf.stop_gradient(x) * y.numpy(), 2.0, 3.0)
    assert caught.value.result is not None
    assert [finding.kind for finding in caught.value.result.findings] == [Kind.MISSING, Kind.WRONG_VALUE]
    text = str(caught.value)
    assert text.index("order 1, missing") < text.index("order 1, wrong value")
    assert "cause        went through NumPy or Python numbers" in text
    assert "cause        stop_gradient" in text


def test_agreement_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert assert_close(tf.tanh, x, order=2) is None  # type: ignore[func-returns-value]


def test_inconclusive_everywhere_raises() -> None:
    with pytest.raises(GradientInconclusive, match="the check of the gradient of floor is inconclusive") as caught:
        assert_close(tf.floor, 1.0)
    assert not isinstance(caught.value, gradcheck.GradientMismatch)
    assert "because: jump or infinite slope" in str(caught.value)
    with pytest.warns(InconclusiveWarning, match="jump or infinite slope"):
        assert_close(tf.floor, 1.0, inconclusive="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(tf.floor, 1.0, inconclusive="ignore")


def test_partly_inconclusive_warns_at_the_callers_line() -> None:
    with pytest.warns(InconclusiveWarning) as caught:
        assert_close(tf.floor, np.array([1.0, 1.5]))
    assert caught[0].filename == __file__
    with pytest.raises(GradientInconclusive):
        assert_close(tf.floor, np.array([1.0, 1.5]), inconclusive="raise")


def test_inconclusive_only_at_second_order_warns() -> None:
    assert_close(tf.nn.relu, 0.0)
    with pytest.warns(InconclusiveWarning, match="kink of higher order"):
        assert_close(tf.nn.relu, 0.0, order=2)
    with pytest.raises(GradientInconclusive):
        assert_close(tf.nn.relu, 0.0, order=2, inconclusive="raise")


def test_a_mismatch_is_raised_whatever_is_inconclusive() -> None:
    with pytest.raises(gradcheck.GradientWrongValue):
        assert_close(lambda x: x * tf.stop_gradient(x), 2.0, inconclusive="ignore")


def test_the_traceback_ends_at_the_callers_line_for_pytest() -> None:
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_close(lambda x: x * tf.stop_gradient(x), 2.0)
    (frame,) = [frame for frame, _ in traceback.walk_tb(caught.tb) if frame.f_code.co_name == "assert_close"]
    assert frame.f_locals["__tracebackhide__"] is True
    assert caught.traceback.filter(caught)[-1].path == Path(__file__)


def square(x: tf.Tensor) -> tf.Tensor:
    return x * tf.stop_gradient(x)


@pytest.mark.parametrize(
    ("kind", "gradient", "advice"),
    [
        ("raises", lambda x: [][0], "gradient= raised this; it is called with the arguments of f"),
        ("missing", lambda x: None, "gradient= is None for this input"),
        ("non-finite", np.array([np.nan, np.cos(1.5)]), "gradient= contains NaN or infinity"),
        ("wrong value", np.array([0.0, 1.0]), "correct gradient=, which has to be the gradient of the sum of f's"),
    ],
)
def test_what_to_do_about_a_gradient_of_ones_own(kind: str, gradient: Any, advice: str) -> None:
    with pytest.raises(gradcheck.GradientMismatch) as caught:
        assert_close(tf.sin, x, gradient=gradient)
    (told,) = re.findall(r"What to do \((.*?)\): (.*)", str(caught.value))
    assert told[0] == kind
    assert advice in told[1]
    assert "TensorFlow saw no path" not in str(caught.value)


LINE = square.__code__.co_firstlineno + 1
HERE = "test_assert_close.py"
MESSAGE = f"""\
the gradient of square is wrong

  order 1, wrong value: the derivative of output element 1 with respect to x[1]
    autodiff     3
    estimate     6   (error at most #)
    off by       3   (allowed #)
    cause        stop_gradient
    where        {os.path.relpath(__file__)}:{LINE}: return x * tf.stop_gradient(x)
    evidence     3 of 6 is lost at x[1]: tf.stop_gradient at {HERE}:{LINE} lets the value through, not the gradient; \
no other operation is wrong by itself (1 operation looked at)
    remedy       leave tf.stop_gradient out of `return x * tf.stop_gradient(x)` ({HERE}:{LINE}); if that \
was its purpose, nothing is wrong, and intended="{HERE}:{LINE}" compares the rest

order 1: mismatch, 4 compared, 0 inconclusive"""


def test_the_whole_message() -> None:
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_close(square, np.array([0.0, 3.0]))
    assert re.sub(r"\d\.\de-\d\d", "#", str(caught.value)) == MESSAGE


def test_the_second_order_says_which_estimate_stands_alone() -> None:
    @tf.custom_gradient
    def sine(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.stop_gradient(tf.cos(x))

    with pytest.raises(gradcheck.GradientMismatch) as caught:
        assert_close(sine, x, order=2)
    assert "order 2, " in str(caught.value)
    assert "the second derivative of output element 0 with respect to x[0]" in str(caught.value)
    assert "the other derivative is taken along x[0]" in str(caught.value)
    assert "the one that disagrees with the other two estimates: autodiff of autodiff" in str(caught.value)


def test_numbers_that_differ_late_are_told_apart() -> None:
    gradient = np.exp(1.0) * (1 + 4e-11)
    with pytest.raises(gradcheck.GradientMismatch) as caught:
        assert_close(tf.exp, 1.0, gradient=gradient)
    numbers = re.findall(r"^ +(?:given|estimate) +(2\.71828182\d+)", str(caught.value), re.MULTILINE)
    assert len(numbers) == 2
    assert float(numbers[0]) / float(numbers[1]) == pytest.approx(1 + 4e-11, abs=1e-12)


def test_a_given_gradient_is_called_so() -> None:
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_close(tf.sin, x, gradient=np.array([0.0, 1.0]))
    text = str(caught.value)
    assert "    given        " in text
    assert "autodiff" not in text
    assert "output element" not in text
    assert "TensorFlow's own gradient of f is 0.0707372" in text


def test_what_tensorflow_makes_of_a_given_gradient_is_called_so() -> None:
    """At second order TensorFlow differentiates the gradient that was given."""
    with pytest.raises(gradcheck.GradientWrongValue) as caught:
        assert_close(tf.sin, x, order=2, gradient=lambda x: tf.cos(tf.stop_gradient(x)) + 0 * x)
    text = str(caught.value)
    assert "  order 2, wrong value: " in text
    assert "    autodiff     0\n" in text
    assert "    given " not in text
    assert "autodiff gives 0, " in str(caught.value.result)


DOUBT = """\
the check of the gradient of floor is inconclusive

order 1: inconclusive
    because: jump or infinite slope
    x has no gradient (None)

What to do: check at another point or in float64, give rtol= or atol=, or pass inconclusive="ignore"."""


def test_the_whole_doubt() -> None:
    with pytest.raises(GradientInconclusive) as caught:
        assert_close(tf.floor, 1.0)
    assert str(caught.value) == DOUBT


@pytest.mark.parametrize("size", [2, 30])
def test_a_tolerance_that_is_too_fine_for_float32(size: int) -> None:
    with pytest.raises(GradientInconclusive) as caught:
        assert_close(tf.sin, np.linspace(1, 2, size, dtype="f"), rtol=1e-6, inconclusive="raise")
    text = str(caught.value)
    assert "because: tolerance finer than can be seen\n" in text
    assert "ill-conditioned" not in text
    assert "    with rtol=1e-06, " in text
    assert "give a larger rtol= or atol=, check in float64, or pass inconclusive=" in text
