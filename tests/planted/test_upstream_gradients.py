"""Custom gradients that are right only for an incoming cotangent of 1 are wrong, and reported as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import check
from gradcheck.result import Cause, Kind, Verdict

POINT = np.array([2.0, 3.0])


@tf.custom_gradient
def forgets(x: Any) -> Any:
    return tf.reduce_sum(x**2), lambda _upstream: 2 * x


@tf.custom_gradient
def of_the_sign(x: Any) -> Any:
    return x**2, lambda upstream: 2 * x * tf.sign(upstream)


@tf.custom_gradient
def squared(x: Any) -> Any:
    return x**2, lambda upstream: 2 * x * upstream**2


@tf.custom_gradient
def guided(x: Any) -> Any:
    return tf.nn.relu(x), lambda upstream: tf.nn.relu(upstream) * tf.cast(x > 0, x.dtype)


@tf.custom_gradient
def clipped(x: Any) -> Any:
    return tf.identity(x), lambda upstream: tf.clip_by_value(upstream, -1.0, 1.0)


WRONG: list[Callable[..., Any]] = [forgets, of_the_sign, squared, guided, clipped]


@pytest.mark.parametrize("function", WRONG, ids=lambda function: function.__name__)
@pytest.mark.parametrize("size", [2, 30])
def test_what_is_no_multiple_of_the_upstream_gradient_is_wrong(function: Callable[..., Any], size: int) -> None:
    point = np.linspace(1.0, 2.0, size)
    result = check(lambda x: tf.reduce_sum(function(x)), point)
    assert result.verdict is Verdict.MISMATCH
    found = result.orders[1].findings[0]
    assert found.kind is Kind.WRONG_VALUE
    assert found.diagnosis is not None
    assert found.diagnosis.cause is Cause.CUSTOM_GRADIENT
    assert f"the function {function.__name__} under tf.custom_gradient" in found.diagnosis.evidence
    assert found.diagnosis.remedy.startswith("multiply by the upstream gradient")
    assert found.diagnosis.place is not None
    assert found.diagnosis.place.file.endswith("test_upstream_gradients.py")


def test_both_upstream_gradients_are_told() -> None:
    found = check(forgets, POINT).orders[1].findings[0]
    assert found.diagnosis is not None
    assert "for an upstream gradient of 1 it is 4, and 4 for one of -2" in found.diagnosis.evidence


def test_a_wrong_factor_is_no_matter_of_the_upstream_gradient() -> None:
    twice = tf.custom_gradient(lambda x: (x**2, lambda upstream: 4 * x * upstream))
    found = check(twice, POINT).orders[1].findings[0]
    assert found.diagnosis is not None
    assert "upstream" not in found.diagnosis.evidence


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda x: x * 1e308, np.array([1.0])),  # twice as much is beyond the largest number
        (lambda x: x * tf.constant(4e4, tf.float16), np.array([1.0], np.float16)),
        (lambda x: x * tf.constant(2e38, tf.float32), np.array([1.0], np.float32)),
        (tf.nn.relu, np.array([0.0, 1.0])),
    ],
)
def test_right_gradients_stay_right(function: Callable[..., Any], point: Any) -> None:
    assert check(function, point).verdict is Verdict.AGREE
