"""A function under tapes as a problem: values remembered, gradients outside of the domain, given gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import CACHED, open_function, with_float64_form
from gradcheck.autodiff.given import GivenGradient, given_gradient


def test_the_same_points_are_evaluated_once() -> None:
    calls = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(float(x))
        return x**2

    problem = open_function(f, (3.0,), None)
    tables = [np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]]), np.array([[4.0], [5.0]])]
    calls.clear()
    for points in tables[:CACHED] * 2:
        np.testing.assert_array_equal(problem.values(points), points**2)
    assert len(calls) == 2 * CACHED
    for points in tables:
        np.testing.assert_array_equal(problem.values(points), points**2)
    assert len(problem._latest) == CACHED


def test_gradients_beside_the_domain_are_nan() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        if float(x) > 3.5:
            raise ValueError("too far")
        return x**2

    problem = open_function(f, (3.0,), None)
    np.testing.assert_array_equal(problem.gradients_at(np.ones(1), np.array([[1.0], [4.0]])), [[2.0], [np.nan]])
    np.testing.assert_array_equal(problem.products(np.ones(1), np.ones((1, 1)), np.array([4.0])).values, [[np.nan]])


def test_a_given_gradient_is_that_of_the_sum() -> None:
    function = open_function(lambda x: (x**2, 3 * x), (np.array([1.0, 2.0]),), None)

    def gradient(x: Any) -> Any:
        return 2 * x + 3

    problem = GivenGradient.of(function, given_gradient(function, gradient))
    assert problem.outputs == 1
    np.testing.assert_array_equal(problem.values(np.array([[1.0, 2.0]])), [[14.0]])
    np.testing.assert_array_equal(problem.gradients(np.array([[1.0], [0.0]])).values, [[5.0, 7.0], [0.0, 0.0]])
    np.testing.assert_array_equal(problem.products(np.array([2.0]), np.array([[1.0, 3.0]])).values, [[4.0, 12.0]])


def test_the_gap_to_the_float64_form() -> None:
    x = np.array([0.1], np.float32)

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return x * 1.0, lambda upstream: upstream * (2.0 if x.dtype == tf.float32 else 1.0)

    function = open_function(f, (x,), None)
    assert function.gap(np.ones((1, 1)), function.point) is None
    gap = with_float64_form(function).gap(np.ones((1, 1)), function.point)
    np.testing.assert_array_equal(gap, [[1.0]])
