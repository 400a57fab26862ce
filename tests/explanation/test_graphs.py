"""TF1-style graphs: the line and the operation at which a symbolic gradient is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Cause
from gradcheck.diagnosis.diagnosis import graph_diagnosis
from gradcheck.diagnosis.traced import graph_record
from gradcheck.diagnosis.wrong_gradient import LostPart

v1 = tf.compat.v1


def floored(x: Any) -> Any:
    y = 2.0 * x
    z = tf.floor(y)
    return z + 1.0


def stopped(x: Any) -> Any:
    y = x**2
    return tf.stop_gradient(y) * 3.0


def cast(x: Any) -> Any:
    return tf.cast(tf.cast(x, tf.int32), tf.float32)


def contrast(x: Any) -> Any:
    return tf.image.adjust_contrast(tf.reshape(x, [1, 1, 1]), 2.0)


def smooth(x: Any) -> Any:
    return tf.sin(x) * tf.exp(x)


def elsewhere(x: Any) -> Any:
    return tf.constant(1.0) * 2.0


CASES: list[tuple[Callable[[Any], Any], Cause | None, str | None]] = [
    (floored, Cause.NOT_DIFFERENTIABLE, "z = tf.floor(y)"),
    (stopped, Cause.STOP_GRADIENT, "return tf.stop_gradient(y) * 3.0"),
    (cast, Cause.NOT_DIFFERENTIABLE, "return tf.cast(tf.cast(x, tf.int32), tf.float32)"),
    (contrast, Cause.NO_GRADIENT, "return tf.image.adjust_contrast(tf.reshape(x, [1, 1, 1]), 2.0)"),
    (smooth, None, None),
    (elsewhere, None, None),
]


@pytest.mark.parametrize("resource", [False, True], ids=["reference variable", "resource variable"])
def test_a_path_in_a_graph(resource: bool, subtests: pytest.Subtests) -> None:
    for f, cause, code in CASES:
        with subtests.test(f.__name__):
            assert_path_in_a_graph(resource, f, cause, code)


def assert_path_in_a_graph(resource: bool, f: Callable[[Any], Any], cause: Cause | None, code: str | None) -> None:
    with tf.Graph().as_default() as graph:
        x = v1.get_variable("x", initializer=1.5, use_resource=resource)
        target = f(x)
        count = len(graph.get_operations())
        diagnosis = graph_diagnosis(target, x, "x", LostPart(None, 2.0))
        assert len(graph.get_operations()) == count
    if cause is None:
        assert diagnosis is None
        return
    assert diagnosis is not None
    assert diagnosis.place is not None
    assert (diagnosis.cause, diagnosis.place.code, diagnosis.lost) == (cause, code, 2.0)


def test_a_source_that_is_a_placeholder_and_what_state_hides() -> None:
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [], name="x")
        keeper = v1.get_variable("keeper", initializer=0.0, use_resource=True)
        with tf.control_dependencies([keeper.assign(x**2)]):
            target = 3.0 * keeper.read_value()
        assert v1.gradients(target, x) == [None]
        diagnosis = graph_diagnosis(target, x, "x", LostPart(None, 2.0))
    assert diagnosis is not None
    assert diagnosis.cause is Cause.STATE


def test_operations_come_in_order_with_their_lines() -> None:
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        floored(x)
    lines = {event.name: event.line for event in graph_record(graph).operations}
    assert lines["Floor"] == (__file__, floored.__code__.co_firstlineno + 2)
