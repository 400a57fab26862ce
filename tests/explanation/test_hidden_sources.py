"""Sources whose gradients are small, or lost, beside larger ones in single precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, explain
from gradcheck.diagnosis import source_comparison

Code = Callable[[], Any]

w, v = tf.Variable([1.0, 2.0, 3.0, 4.0], name="w"), tf.Variable([0.3, 0.5, 0.7], name="v")
START = w.numpy()


def large() -> Any:
    return 1e4 * tf.reduce_sum(tf.sin(w - START))


def lost() -> Any:
    u = tf.sin(v)
    with tf.GradientTape() as tape:
        loss = large() + tf.reduce_sum(u + 0 * v)
    return tape.gradient(loss, [w, v])


def halved() -> Any:
    half = 0.5 * tf.reduce_sum(v**2)
    with tf.GradientTape() as tape:
        loss = large() + half + 0.5 * tf.reduce_sum(v**2)
    return tape.gradient(loss, [w, v])


@pytest.mark.parametrize(("code", "line"), [(lost, "u = tf.sin(v)"), (halved, "half = 0.5 * tf.reduce_sum(v**2)")])
def test_what_is_lost_of_a_small_source_is_seen_without_the_large_one(code: Code, line: str) -> None:
    big, small = explain(code).sources
    assert (big.right, small.right) == (True, False)
    assert small.diagnosis is not None
    assert small.diagnosis.place is not None
    assert (small.diagnosis.cause, small.diagnosis.place.code) == (Cause.OUTSIDE_TAPE, line)


def test_what_rounding_hides_is_not_called_right() -> None:
    def code() -> Any:
        u = tf.sin(v)
        with tf.GradientTape() as tape:
            loss = 1e7 * tf.reduce_sum(tf.sin(w)) + tf.reduce_sum(u + 0 * v)
        return tape.gradient(loss, [w, v])

    result = explain(code)
    assert result.verdict == "inconclusive"
    assert [source.right for source in result.sources] == [True, None]


def read_by_python() -> None:
    """Keep the code from being traced, and with it from having a form in float64."""
    assert float(w[0]) < 1e9


@pytest.mark.parametrize("traced", [True, False])
def test_a_small_source_that_cannot_be_seen_is_not_called_right(traced: bool) -> None:
    """By itself it agrees, but only within more than its own size; in float64 it is seen."""
    many = tf.Variable(np.linspace(0.1, 1.0, 8, dtype=np.float32), name="many")

    def code() -> Any:
        if not traced:
            read_by_python()
        with tf.GradientTape() as tape:
            loss = 1e7 * tf.reduce_sum(tf.sin(w)) + 1e-2 * tf.reduce_sum(many**2)
        return tape.gradient(loss, [w, many])

    result = explain(code)
    assert [source.right for source in result.sources] == [True, True if traced else None]
    assert [source.right for source in explain(code, atol=1e5).sources] == [True, True]


def test_right_sources_that_are_zero_or_small_take_a_comparison_more(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[str]] = []
    plainly_agrees = source_comparison.plainly_agrees

    def counted(problem: Any, *rest: Any) -> Any:
        taken.append([one.name for one in problem.taken])
        return plainly_agrees(problem, *rest)

    monkeypatch.setattr(source_comparison, "plainly_agrees", counted)
    none = tf.Variable(np.zeros(4, np.float32), name="none")

    def code() -> Any:
        read_by_python()
        with tf.GradientTape() as tape:
            loss = large() + tf.reduce_sum(v**2) + 0.0 * tf.reduce_sum(none)
        return tape.gradient(loss, [w, v, none])

    result = explain(code)
    assert [source.right for source in result.sources] == [True, True, True], str(result)
    assert taken == [["w", "v", "none"], ["none"], ["v"]]
