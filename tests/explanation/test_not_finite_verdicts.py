"""Below float64, too, explain says the same about NaN as check."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import check, explain
from gradcheck.diagnosis import source_comparison
from gradcheck.result import Cause, Kind, Result, Verdict
from tests import slices

CASES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "log in the unused branch": (lambda x: tf.reduce_sum(tf.where(x > 0.5, tf.math.log(x), 0.0)), [0.0, 1.0, 2.0]),
    "a power of zero": (lambda x: tf.reduce_sum(x**0.0), [0.0, 1.0]),
    "a square root of a square": (lambda x: tf.reduce_sum(tf.sqrt(x * x)), [0.0, 1.0, 2.0]),
}


def explained(f: Callable[[Any], Any], x: Any) -> Result:
    """The result of explain for a training step with this loss."""
    variable = tf.Variable(x, name="x")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = f(variable)
        return tape.gradient(loss, variable)

    return explain(step)


DTYPES = ("float64", "float32", "float16")


@slices.parametrized(("name", "dtype"), product(CASES, DTYPES), lambda _: zip(CASES, DTYPES[::-1], strict=True))
def test_explain_and_check_say_the_same(name: str, dtype: str) -> None:
    f, values = CASES[name]
    x = tf.constant(values, dtype)
    told, checked = explained(f, x), check(f, x)
    assert (told.verdict, checked.verdict) == (Verdict.MISMATCH, Verdict.MISMATCH)
    (source,), (finding,) = told.sources, checked.findings
    assert source.finding is not None
    assert source.finding.kind is finding.kind
    assert source.diagnosis is not None
    assert source.diagnosis.cause in (Cause.NOT_FINITE, Cause.KNOWN_DEFECT)


def test_where_the_slope_is_endless_nan_is_no_mismatch() -> None:
    x = tf.constant([0.0, 1.0])
    told = explained(lambda x: tf.reduce_sum(tf.sqrt(x + 0.0 * tf.math.log(x + 1.0))), x)
    assert (told.verdict, told.sources[0].right) == (Verdict.INCONCLUSIVE, None)


def test_beside_finite_values_it_is_wrong_without_a_float64_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_comparison, "first_order_in_float64", lambda *arguments: None)
    f, values = CASES["log in the unused branch"]
    (source,) = explained(f, tf.constant(values)).sources
    assert source.right is False
    assert source.finding is not None
    assert source.finding.kind is Kind.NON_FINITE


@pytest.mark.parametrize("f", [tf.sin, tf.abs, lambda x: x * tf.abs(x)])
def test_nan_is_no_second_derivative_of_what_is_finite_with_its_gradient(f: Any) -> None:
    @tf.custom_gradient
    def gradient(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = f(x)
        return tape.gradient(value, x), lambda dy: dy * float("nan")

    @tf.custom_gradient
    def once(x: tf.Tensor) -> Any:
        return f(x), lambda dy: dy * gradient(x)

    result = check(once, 0.0, order=2)
    assert [(one.order, one.kind) for one in result.findings] == [(2, Kind.NON_FINITE)]
