"""A bug of ours in the search for a cause: the verdict and the finding stay, and the result says what happened."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import (
    GradientMismatch,
    GradientWrongValue,
    MismatchWarning,
    UnconnectedWarning,
    assert_close,
    assert_step,
    check,
    explain,
)
from gradcheck.diagnosis import (
    check_diagnosis,
    diagnosis,
    internal_errors,
    known_defect,
    not_finite_value,
    source_comparison,
    unconnected,
)
from gradcheck.keras import GradientMonitor

NOTE = re.compile(r"the cause was not found: internal error KeyError: 'planted' at \w+\.py:\d+, please report")
PARTS = {
    check_diagnosis: "recorded",
    diagnosis: "blame",
    source_comparison: "diagnose",
    not_finite_value: "origin_of",
    unconnected: "dependence",
    known_defect: "known_defects",
}
"""Parts of the search, by the modules that call them."""


def planted(*arguments: Any, **named: Any) -> NoReturn:
    raise KeyError("planted")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Plants an error in a part of the search, handled as for users."""

    def plant(module: Any) -> None:
        monkeypatch.setattr(internal_errors, "raised", False)
        monkeypatch.setattr(module, PARTS[module], planted)

    return plant


def stopped(x: Any) -> Any:
    return tf.reduce_sum(x * tf.stop_gradient(x))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def wrong_sine(x: Any) -> Any:
    return tf.sin(x), lambda dy: 2.0 * dy * tf.cos(x)


def step_of(loss: Callable[[], Any], *variables: tf.Variable) -> Callable[[], Any]:
    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return value, tape.gradient(value, list(variables))

    return step


@pytest.mark.parametrize("module", [check_diagnosis, diagnosis])
def test_check_keeps_verdict_and_finding(module: Any, broken: Callable[[Any], None]) -> None:
    whole = check(wrong_sine, [0.5, 1.0], order=2)
    broken(module)
    result = check(wrong_sine, [0.5, 1.0], order=2)
    assert (result.verdict, len(result.findings)) == (whole.verdict, len(whole.findings))
    for number, order in result.orders.items():
        (finding, *_), (before, *_) = order.findings, whole.orders[number].findings
        assert (finding.kind, finding.element, finding.autodiff) == (before.kind, before.element, before.autodiff)
        assert NOTE.fullmatch(order.notes[-1])
    assert len(NOTE.findall(str(result))) == 2


def test_the_exception_says_it(broken: Callable[[Any], None]) -> None:
    broken(check_diagnosis)
    with pytest.raises(GradientMismatch) as caught:
        assert_close(stopped, [0.5, 1.0])
    assert NOTE.search(str(caught.value))
    x = tf.Variable([0.5, 1.0])
    with pytest.raises(GradientWrongValue) as caught:
        assert_step(step_of(lambda: tf.reduce_sum(wrong_sine(x)), x), variables=[x])
    assert NOTE.search(str(caught.value))


def test_an_inconclusive_check_says_it(broken: Callable[[Any], None]) -> None:
    broken(check_diagnosis)
    order = check(tf.sqrt, [0.0, 1.0]).orders[1]
    assert order.verdict == "inconclusive"
    assert any(map(NOTE.fullmatch, order.notes))


def test_explain_says_it(broken: Callable[[Any], None]) -> None:
    whole = explain(stopped, [0.5, 1.0])
    broken(source_comparison)
    result = explain(stopped, [0.5, 1.0])
    (source,), (before,) = result.sources, whole.sources
    assert (result.verdict, source.right, source.gradient) == (whole.verdict, before.right, before.gradient)
    assert source.diagnosis is None
    assert NOTE.search(str(result).splitlines()[-1])


def test_a_value_that_is_not_finite_is_refused_all_the_same(broken: Callable[[Any], None]) -> None:
    w = tf.Variable([-1.0])
    step = step_of(lambda: tf.reduce_sum(tf.math.log(w)), w)
    broken(not_finite_value)
    for refused in (lambda: check(tf.math.log, [-1.0]), lambda: assert_step(step, variables=[w])):
        with pytest.raises(ValueError, match=NOTE):
            refused()


def test_a_cause_that_was_found_is_not_lost_with_the_records(broken: Callable[[Any], None]) -> None:
    broken(known_defect)
    result = check(wrong_sine, [0.5, 1.0], order=2)
    assert all(finding.diagnosis is not None for finding in result.findings)


def test_assert_step_and_the_monitor_say_it(broken: Callable[[Any], None]) -> None:
    unused, used = tf.Variable(1.0, name="unused"), tf.Variable(2.0, name="used")
    broken(unconnected)
    with pytest.warns(UnconnectedWarning, match="unused is unconnected"):
        result = assert_step(step_of(lambda: used**2, used, unused), variables=[used, unused])
    assert any(map(NOTE.fullmatch, result.orders[1].notes))
    broken(diagnosis)
    model = keras.Sequential([keras.layers.Dense(1, activation=wrong_sine)])
    model.compile("sgd", "mse")
    model.build((None, 2))  # else the monitor waits for the second batch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(np.ones((4, 2)), np.ones(4), verbose=0, callbacks=[GradientMonitor()])
    (message,) = [str(one.message) for one in caught if one.category is MismatchWarning]
    assert NOTE.search(message)


def test_our_own_tests_see_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert internal_errors.raised, "tests/conftest.py sets it"
    monkeypatch.setattr(check_diagnosis, "recorded", planted)
    with pytest.raises(KeyError, match="planted"):
        check(stopped, [0.5, 1.0])


def test_what_the_code_itself_raises_is_no_internal_error() -> None:
    """As an internal error, it would be raised here."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def refusing(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            if np.all(dy == 1.0):
                raise OSError("not for 1")
            return 2.0 * dy

        return 1.0 * x, gradient

    order = check(refusing, [0.5]).orders[1]
    assert (order.verdict, order.notes) == ("mismatch", ())


def test_weights_that_fit_no_replay_are_no_internal_error() -> None:
    """Moved code selects other elements, for which its derivative has too many weights."""

    def chosen(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.boolean_mask(x, x > 0.5) * x[1]
        return tape.gradient(y, x, output_gradients=tf.constant([1.0, 2.0], tf.float64))

    assert explain(chosen, [0.501, 1.0]).verdict == "agree"
