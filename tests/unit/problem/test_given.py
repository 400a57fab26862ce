"""Gradients that the caller computed, in the order of the sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError
from gradcheck.numerics.sampling import QUICK
from gradcheck.problem.given import GivenGradient, given_gradient
from gradcheck.problem.opening import open_function
from tests import slices
from tests.verdicts import check

v = tf.Variable(2.0, dtype=tf.float64)


def arranged(f: Any, inputs: tuple[Any, ...], gradient: Any, variables: Any = None) -> list[Any]:
    function = open_function(f, inputs, variables)
    parts = given_gradient(function, gradient)(function.tensors(function.point))
    return [None if part is None else np.asarray(part).tolist() for part in parts]


def test_the_order_of_the_arguments_becomes_that_of_the_sources() -> None:
    # Sources: x, then the variables v (an input) and w (listed).
    w = tf.Variable(5.0, dtype=tf.float64)
    for gradient in ([1.0, 2.0, 3.0], lambda q, x: (1.0, 2.0, 3.0)):
        assert arranged(lambda q, x: q * x * w, (v, 3.0), gradient, [w]) == [2.0, 1.0, 3.0]


def test_integer_inputs_may_be_left_out_or_none() -> None:
    inputs = (np.array([0, 1]), np.array([1.0, 2.0]))
    for gradient in (np.array([3.0, 4.0]), [None, np.array([3.0, 4.0])]):
        assert arranged(lambda ids, x: tf.gather(x, ids), inputs, gradient) == [[3.0, 4.0]]


@pytest.mark.parametrize("gradient", [np.cos(np.ones(1, np.float32)), lambda x: tf.cos(tf.cast(x, tf.float32))])
def test_less_precision_than_that_of_the_inputs_is_said(gradient: Any) -> None:
    notes = check(tf.sin, np.ones(1), gradient=gradient).orders[1].notes
    assert notes[0].startswith("gradient= is float32 for x, which is float64: its rounding counts as an error; compute")
    assert not check(tf.sin, np.ones(1, "f"), gradient=gradient).orders[1].notes


def test_dicts_go_by_their_keys() -> None:
    assert arranged(lambda d: d["a"] * d["b"], ({"b": 1.0, "a": 2.0},), {"b": 2.0, "a": 1.0}) == [1.0, 2.0]


def test_whole_numbers_and_real_numbers_fit() -> None:
    assert arranged(tf.square, (3.0,), 6) == [6.0]
    assert arranged(tf.math.real, (3 + 1j,), 1.0) == [1 + 0j]
    assert arranged(lambda x: 0.1 * x, (3.0,), 0.1) == [0.1]


@pytest.mark.parametrize(
    ("inputs", "gradient", "expected"),
    [
        (([1.0, 2.0],), [3.0, 4.0], [[3.0, 4.0]]),
        (([1.0, 2.0],), [[3, 4]], [[3.0, 4.0]]),
        (([1.0],), [3.0], [[3.0]]),
        ((1.0,), [3.0], [3.0]),
        ((1.0, 2.0), [3.0, 4.0], [3.0, 4.0]),
        (([1.0, 2.0], [3.0, 4.0]), [[5.0, 6.0], [7.0, 8.0]], [[5.0, 6.0], [7.0, 8.0]]),
        (([1.0, 2.0], 3.0), ([5.0, 6.0], 7.0), [[5.0, 6.0], 7.0]),
        (([1.0, 2.0], 3.0), [[5.0, 6.0], tf.constant(7.0)], [[5.0, 6.0], 7.0]),
        (([1.0, 2.0], 3), [5.0, 6.0], [[5.0, 6.0]]),
        (({"a": [1.0, 2.0]},), {"a": [3.0, 4.0]}, [[3.0, 4.0]]),
        (({"a": ((1.0, 2.0), 3.0)},), {"a": ((3, 4), 5.0)}, [[3.0, 4.0], 5.0]),
    ],
    ids=str,
)
def test_a_list_of_numbers_is_one_tensor_where_it_is_one_among_the_inputs(
    inputs: tuple[Any, ...], gradient: Any, expected: Any
) -> None:
    def f(*inputs: Any) -> Any:
        return tf.add_n([tf.reduce_sum(tf.cast(one, tf.float64)) for one in tf.nest.flatten(inputs)])

    for given in (gradient, lambda *_: gradient):
        assert arranged(f, inputs, given) == expected


def test_slices_of_a_gather_become_dense() -> None:
    def gradient(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.gather(x, [2, 2])
        return tape.gradient(y, x)

    assert arranged(lambda x: tf.gather(x, [2, 2]), (np.ones(3),), gradient) == [[0.0, 0.0, 2.0]]


def test_what_the_callable_throws_is_distinguished_from_what_it_returns() -> None:
    with pytest.raises(DerivativeRaisedError, match="IndexError"):
        arranged(tf.sin, (1.0,), lambda x: [][1])
    with pytest.raises(ValueError, match="gradient holds 2 tensors, 1 expected"):
        arranged(tf.sin, (1.0,), lambda x: (x, x))


def test_a_given_gradient_is_that_of_the_sum() -> None:
    function = open_function(lambda x: (x**2, 3 * x), (np.array([1.0, 2.0]),), None)

    def gradient(x: Any) -> Any:
        return 2 * x + 3

    problem = GivenGradient.of(function, given_gradient(function, gradient))
    assert problem.outputs == 1
    np.testing.assert_array_equal(problem.values(np.array([[1.0, 2.0]])), [[14.0]])
    np.testing.assert_array_equal(problem.gradients(np.array([[1.0], [0.0]])).values, [[5.0, 7.0], [0.0, 0.0]])
    np.testing.assert_array_equal(problem.products(np.array([2.0]), np.array([[1.0, 3.0]])).values, [[4.0, 12.0]])


@slices.parametrized("seed", range(8), slices.every(8))
def test_second_derivatives_are_held_to_the_precision_that_the_gradient_is_given_in(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=4).astype(np.float32)
    assert check(tf.reduce_logsumexp, x, order=2, gradient=tf.nn.softmax).verdict == "agree"
    wrong = check(tf.reduce_logsumexp, x, order=2, gradient=lambda x: tf.nn.softmax(x) + 0.1 * tf.stop_gradient(x) * x)
    assert wrong.verdict == "mismatch"


@pytest.mark.usefixtures("graphs")
def test_an_expensive_gradient_is_taken_in_a_graph_where_it_is_compared_with() -> None:
    eager = []

    def gradient(x: tf.Tensor) -> tf.Tensor:
        eager.append(tf.executing_eagerly())
        return tf.cos(x)

    x = np.linspace(0.5, 1.0, 8)
    assert check(lambda x: tf.reduce_sum(tf.sin(x)), x, order=2, gradient=gradient).verdict == "agree"
    assert not all(eager)
    assert len(eager) < len(QUICK.offsets)
