"""Sources whose gradients are small, or lost, beside larger ones in single precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Cause, Reason, explain
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


@pytest.mark.parametrize("traced", [True, False])
def test_what_rounding_hides_is_not_called_right(traced: bool) -> None:
    """In float64 it is seen, beside a derivative of which float32 may lose as much."""

    def code() -> Any:
        if not traced:
            read_by_python()
        u = tf.sin(v)
        with tf.GradientTape() as tape:
            loss = 1e7 * tf.reduce_sum(tf.sin(w)) + tf.reduce_sum(u + 0 * v)
        return tape.gradient(loss, [w, v])

    assert [source.right for source in explain(code).sources] == [True, False if traced else None]


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
    looked_at = source_comparison.looked_at

    def counted(problem: Any, *rest: Any) -> Any:
        taken.append([one.name for one in problem.taken])
        return looked_at(problem, *rest)

    monkeypatch.setattr(source_comparison, "looked_at", counted)
    none = tf.Variable(np.zeros(4, np.float32), name="none")

    def code() -> Any:
        read_by_python()
        with tf.GradientTape() as tape:
            loss = large() + tf.reduce_sum(v**2) + 0.0 * tf.reduce_sum(none)
        return tape.gradient(loss, [w, v, none])

    result = explain(code)
    assert [source.right for source in result.sources] == [True, True, True], str(result)
    assert taken == [["w", "v", "none"], ["none"], ["v"]]


def saturated(dtype: str, scale: float, traced: bool) -> Code:
    """The gradient of the mean sigmoid, nearly 1, of a layer whose inputs are 100 to 255, times a scale."""
    rows = tf.constant(np.random.default_rng(0).integers(100, 256, (8, 3)), dtype)
    kernel, bias = tf.Variable(tf.ones((3, 1), dtype), name="kernel"), tf.Variable(tf.zeros(1, dtype), name="bias")

    def mean() -> Any:
        return 1 - tf.reduce_mean(tf.sigmoid(-scale * (rows @ kernel) - bias))

    compute = tf.function(mean) if traced else mean

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = compute()
        return tape.gradient(loss, [kernel, bias])

    return code


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_gradient_that_is_smaller_than_the_errors_that_show_is_not_called_right(dtype: str, traced: bool) -> None:
    vanished = explain(saturated(dtype, 0.1, traced))
    assert [source.right for source in vanished.sources] == [None, None], str(vanished)
    assert vanished.orders[1].reasons == (Reason.TOO_COARSE,)
    (note,) = vanished.orders[1].notes
    assert note.startswith("the gradients of kernel, bias are so small beside what the target does there that errors ")
    assert note.endswith("look for what saturates, such as a sigmoid of inputs that were not scaled")
    scaled = explain(saturated(dtype, 1 / 255, traced))  # as the note says
    assert [source.right for source in scaled.sources] == [True, True]


@pytest.mark.parametrize("scale", [30.0, 35.0, 40.0])
def test_the_same_holds_for_a_single_number(scale: float) -> None:
    x = tf.Variable(1.0, dtype=tf.float64, name="x")

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.sigmoid(scale * x)
        return tape.gradient(loss, x)

    result = explain(code)
    (source,) = result.sources
    # Where TensorFlow rounds the sigmoid to 1, its derivative is 0.
    assert source.right is (True if scale == 40.0 else None), str(result)
    assert "%" not in str(result)


def test_the_same_holds_for_a_jacobian() -> None:
    v32 = tf.Variable(tf.ones(5), name="v")

    def code() -> Any:
        with tf.GradientTape() as tape:
            loss = 1000 + 1e-9 * tf.stack([tf.reduce_sum(v32), tf.reduce_sum(v32**2)])
        return tape.jacobian(loss, v32)

    result = explain(code)
    assert (result.verdict, result.orders[1].reasons) == ("inconclusive", (Reason.TOO_COARSE,))
