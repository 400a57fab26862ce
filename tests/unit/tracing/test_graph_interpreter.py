"""A graph run operation by operation: the values and gradients of the function itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.tracing.graph_interpreter import GraphInterpreter, walkable

X = tf.constant([0.5, -0.25, 1.5], tf.float64)


@tf.custom_gradient
def doubled(x: Any) -> Any:
    y = tf.exp(x)
    return tf.sin(x) * y, lambda dy: 2 * dy * tf.cos(x) * y


@tf.function
def inner(x: Any) -> Any:
    return tf.exp(doubled(x))


COMPUTED: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: {"y": tf.tanh(x) * 3.0, "none": None},
    "a custom gradient": lambda x: tf.sin(doubled(x)),
    "a call, with a custom gradient": lambda x: tf.sin(inner(x)),
    "a loop": lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, doubled(y)), [0, x])[1],
    "branches": lambda x: [tf.cond(x[i] > 0, lambda: tf.sin(x), lambda: inner(x)) for i in range(2)],
}


def differentiated(run: Callable[[], Any]) -> tuple[Any, Any]:
    """The results of a run, and the derivative of their sum by X."""
    with tf.GradientTape() as tape:
        tape.watch(X)
        results = run()
        total = tf.add_n([tf.reduce_sum(one) for one in tf.nest.flatten(results) if one is not None])
    return results, tape.gradient(total, X)


@pytest.mark.parametrize("name", COMPUTED)
def test_it_has_the_values_and_gradients_of_the_function(name: str) -> None:
    function = tf.function(COMPUTED[name], autograph=False).get_concrete_function(X)
    graph, inputs = function.graph, [X, *(outer for outer, _ in function.graph.captures)]
    assert walkable(graph)
    before = list(graph.inputs)
    nodes: list[str] = []

    @contextmanager
    def inside(node: str) -> Iterator[None]:
        nodes.append(node)
        yield

    expected, derivative = differentiated(lambda: COMPUTED[name](X))
    for _ in range(2):  # as the graph is left unchanged
        found, given = differentiated(lambda: GraphInterpreter(inside).structured_outputs(graph, inputs))
        tf.nest.assert_same_structure(found, expected)
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            assert one is other is None or np.allclose(one, other, rtol=1e-14)
        np.testing.assert_allclose(given, derivative, rtol=1e-14)
        assert all(one is other for one, other in zip(graph.inputs, before, strict=True))
    assert all(node.startswith("the node ") for node in nodes)
    assert nodes


def test_what_is_not_a_single_operation_is_not_walkable() -> None:
    def chosen(x: Any) -> Any:
        return tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x, lambda: tf.sin(x)])

    assert not walkable(tf.function(chosen).get_concrete_function(X).graph)
