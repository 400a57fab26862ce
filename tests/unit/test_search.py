"""`assert_close` in Hypothesis examples: the cause is searched only where its message is shown or read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Verbosity, control, example, find, given, settings
from hypothesis import strategies as st

import gradcheck
from gradcheck import GradientWrongValue, assert_close
from gradcheck.check import NOT_LOOKED_FOR
from gradcheck.diagnosis import check_diagnosis
from gradcheck.result import Verdict
from gradcheck.runtime import example_under_way
from gradcheck.tracing import recorder
from tests import slices

DRAWN = settings(deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
CAUSE = r"(?s)cause .*wrong custom gradient.*remedy"
calls: Counter[str] = Counter()


@tf.custom_gradient
def own_square(x: Any) -> Any:
    return x * x, lambda upstream: upstream * tf.where(tf.abs(x) > 1, 3 * x, 2 * x)


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counts the records that diagnoses are made from, one each."""
    recorded = recorder.recorded

    def counting(*given: Any) -> Any:
        calls["diagnosis"] += 1
        return recorded(*given)

    calls.clear()
    monkeypatch.setattr(check_diagnosis, "recorded", counting)
    yield
    calls.clear()


def failing(checked: Any) -> Any:
    """A test of a function that counts its failures, with drawn numbers."""

    @given(st.sampled_from((0.5, 2.0, 3.0)))
    @DRAWN
    def test(x: float) -> None:
        try:
            checked(np.array(x))
        except GradientWrongValue:
            calls["failure"] += 1
            raise

    return test


@slices.parametrized("order", [1, 2], slices.every(2))
def test_what_fails_is_diagnosed_once_and_its_message_is_that_of_the_example_alone(order: int) -> None:
    drawn = []

    def checked(x: Any) -> None:
        drawn.append(x)
        assert_close(own_square, x, order=order)

    with pytest.raises(GradientWrongValue, match=CAUSE) as told:
        failing(checked)()
    assert calls["failure"] > 2
    diagnosed, calls["diagnosis"] = calls["diagnosis"], 0
    with pytest.raises(GradientWrongValue, match=CAUSE) as alone:
        assert_close(own_square, drawn[-1], order=order)
    assert diagnosed == calls["diagnosis"] == order
    assert str(told.value) == str(alone.value)
    assert told.value.result == alone.value.result


def test_outside_of_hypothesis_the_cause_is_looked_for_before_the_exception_is_raised() -> None:
    seen = []

    def counted() -> None:
        try:
            assert_close(own_square, np.array([2.0]))
        finally:
            seen.append(calls["diagnosis"])

    with pytest.raises(GradientWrongValue, match=CAUSE):
        counted()
    assert seen == [calls["diagnosis"]] == [1]


def test_a_message_or_a_result_that_an_example_reads_itself_is_complete() -> None:
    @given(st.sampled_from((2.0, 3.0)))
    @DRAWN
    def reads(x: float) -> None:
        with pytest.raises(GradientWrongValue, match=CAUSE) as caught:
            assert_close(own_square, x)
        assert caught.value.result is not None
        assert caught.value.result.findings[0].diagnosis is not None
        (message,) = caught.value.args
        assert NOT_LOOKED_FOR not in message

    reads()
    assert calls["diagnosis"] > 1


def test_a_message_that_is_read_when_its_example_is_over_says_what_is_missing() -> None:
    kept: list[GradientWrongValue] = []

    def keeps(x: float) -> bool:
        try:
            assert_close(own_square, x)
        except GradientWrongValue as error:
            kept.append(error)
            return True
        return False

    assert find(st.sampled_from((0.5, 2.0, 3.0)), keeps, settings=DRAWN) == 2.0
    *early, last = kept
    assert early
    assert calls["diagnosis"] == 1
    assert NOT_LOOKED_FOR not in str(last)
    assert all(str(one).endswith(NOT_LOOKED_FOR) for one in early)
    assert all(one.result is not None and one.result.verdict == Verdict.MISMATCH for one in early)
    assert calls["diagnosis"] == 1


def test_explicit_examples_and_printed_ones_are_told_with_their_cause() -> None:
    @example(2.0)
    @given(st.just(0.5))
    @DRAWN
    def explicit(x: float) -> None:
        assert_close(own_square, x)

    with pytest.raises(GradientWrongValue, match=CAUSE):
        explicit()
    assert calls["diagnosis"] == 1

    @settings(DRAWN, verbosity=Verbosity.verbose)
    @given(st.just(2.0))
    def printed(x: float) -> None:
        assert_close(own_square, x)

    calls.clear()
    with pytest.raises(GradientWrongValue, match=CAUSE):
        printed()
    assert calls["diagnosis"] > 1


def test_where_hypothesis_does_not_tell_every_failure_is_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> Any:
        raise AttributeError("not there any more")

    monkeypatch.setattr(control, "current_build_context", moved)
    with pytest.raises(GradientWrongValue, match=CAUSE):
        failing(lambda x: assert_close(own_square, x))()
    assert calls["diagnosis"] == calls["failure"] > 2


def test_a_gradient_that_is_given_is_diagnosed_each_time_as_its_cause_decides_about_the_class() -> None:
    def outside(x: Any) -> Any:
        early = tf.sin(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            late = early + x**2
        return tape.gradient(late, x)

    seen = set()

    @given(st.sampled_from((0.5, 1.5)))
    @DRAWN
    def test(x: float) -> None:
        try:
            assert_close(lambda x: tf.sin(x) + x**2, x, gradient=outside)
        except gradcheck.GradientMismatch as error:
            seen.add(type(error))
            raise

    with pytest.raises(gradcheck.GradientPartial):
        test()
    assert seen == {gradcheck.GradientPartial}


def test_what_raises_is_a_failure_of_the_same_class_with_its_cause() -> None:
    @tf.custom_gradient
    def throws(x: Any) -> Any:
        def gradient(_: Any) -> Any:
            raise LookupError("no gradient here")

        return tf.sin(x), gradient

    @given(st.sampled_from((0.5, 1.5)))
    @DRAWN
    def test(x: float) -> None:
        assert_close(throws, x)

    with pytest.raises(gradcheck.GradientRaises, match="no gradient here"):
        test()
    assert calls["diagnosis"] == 1


def test_nothing_is_under_way_outside_of_an_example_or_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    assert example_under_way() is None
    seen = []

    @given(st.just(1))
    @settings(DRAWN, max_examples=1)
    def test(_: int) -> None:
        seen.append(example_under_way())
        with monkeypatch.context() as patched:
            patched.delitem(sys.modules, "hypothesis.control")
            seen.append(example_under_way())

    test()
    assert seen[0] is not None
    assert seen[1] is None
