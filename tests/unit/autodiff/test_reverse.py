"""First and second derivatives with nested tapes, against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    WrongShapeError,
    gradient_matrix,
    pullbacks,
    second_pullbacks,
)
from gradcheck.autodiff.sources import Source
from tests.verdicts import check


def c(value: Any) -> tf.Tensor:
    return tf.constant(value, tf.float64)


x, y = c([1.0, 2.0]), c(3.0)


def forward(sources: list[Any]) -> list[Any]:
    """x**2 y, and a constant that nothing depends on."""
    return [sources[0] ** 2 * sources[1], c(1.0)]


def test_a_pullback_a_cotangent() -> None:
    rows = pullbacks(forward, [x, y], [[c([1.0, 0.0]), c(1.0)], [c([0.0, 2.0]), c(0.0)]])
    np.testing.assert_allclose(rows[0][0], [6.0, 0.0])
    np.testing.assert_allclose(rows[0][1], 1.0)
    np.testing.assert_allclose(rows[1][0], [0.0, 24.0])
    np.testing.assert_allclose(rows[1][1], 8.0)


def test_no_connection_stays_none() -> None:
    assert pullbacks(lambda sources: [sources[0]], [x, y], [[c([1.0, 1.0])]])[0][1] is None


def test_second_pullbacks_are_products_with_the_hessian() -> None:
    directions = [[c([1.0, 0.0]), c(0.0)], [x * 0, c(1.0)]]
    gradient, products = second_pullbacks(forward, [x, y], [c([1.0, 1.0]), c(0.0)], directions)
    np.testing.assert_allclose(gradient[0], [6.0, 12.0])
    np.testing.assert_allclose(products[0][0], [6.0, 0.0])
    np.testing.assert_allclose(products[0][1], 2.0)
    np.testing.assert_allclose(products[1][0], [2.0, 4.0])
    assert products[1][1] is None or float(products[1][1]) == 0.0


def test_variables_are_watched_as_sources_only() -> None:
    v, w = tf.Variable(2.0), tf.Variable(5.0)
    ((gradient,),) = pullbacks(lambda sources: [sources[0] * w], [v], [[tf.constant(1.0)]])
    assert float(gradient) == 5.0


def test_the_slices_of_a_gather_have_a_second_derivative() -> None:
    table, ids = c([[1.0], [2.0], [3.0]]), [2, 0, 2]
    _, products = second_pullbacks(
        lambda sources: [tf.gather(sources[0], ids) ** 3], [table], [tf.ones((3, 1), tf.float64)], [[table * 0 + 1]]
    )
    np.testing.assert_allclose(tf.convert_to_tensor(products[0][0]), [[6.0], [0.0], [36.0]])


def test_a_backward_pass_that_throws() -> None:
    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            raise LookupError("nobody wrote it")

        return tf.sin(x), backward

    with pytest.raises(DerivativeRaisedError, match="LookupError: nobody wrote it") as caught:
        pullbacks(lambda sources: [f(sources[0])], [y], [[c(1.0)]])
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_forward_pass_that_throws_is_not_a_derivative() -> None:
    def f(sources: list[Any]) -> list[Any]:
        raise KeyError("forward")

    with pytest.raises(KeyError):
        pullbacks(f, [y], [[c(1.0)]])


def test_none_becomes_zero_in_the_matrix_and_is_remembered() -> None:
    sources = (Source("x", np.ones(2)), Source("z", np.ones((), complex)))
    matrix = gradient_matrix([[c([1.0, 2.0]), None], [None, tf.constant(3 + 4j, tf.complex128)]], sources)
    np.testing.assert_array_equal(matrix.values, [[1, 2, 0, 0], [0, 0, 3, 4]])
    np.testing.assert_array_equal(matrix.connected, [[True, True, False, False], [False, False, True, True]])
    np.testing.assert_array_equal(matrix.scaled(np.array([2.0, 0.0])).values, [[2, 4, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (tf.ones((2, 1)), r"of shape \(2, 1\); its source is of shape \(2,\)"),
        (tf.ones(2, tf.int32), "of dtype int32; its source is of dtype float64"),
        (tf.ones(2, tf.complex64), "of dtype complex64; its source is of dtype float64"),
    ],
)
def test_a_gradient_of_another_shape_or_dtype(part: Any, words: str) -> None:
    with pytest.raises(WrongShapeError, match=words) as caught:
        gradient_matrix([[part]], (Source("x", np.ones(2)),))
    assert caught.value.source == "x"


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "agree"), (2.0, "mismatch")])
def test_slices_that_do_not_know_their_shape_have_that_of_the_source(factor: float, verdict: str) -> None:
    @tf.custom_gradient
    def lookup(table: Any) -> Any:
        rows = tf.constant([0, 2, 2])
        return tf.gather(table, rows), lambda cotangent: tf.IndexedSlices(factor * cotangent, rows)

    table = np.ones((3, 2))
    assert check(lookup, table).verdict == verdict
    assert check(lambda x: lookup(x) ** 2, table, order=2).verdict == verdict
    given = tf.IndexedSlices(tf.fill((3, 2), factor), tf.constant([0, 2, 2]))
    assert check(lambda x: tf.gather(x, [0, 2, 2]), np.float32(table), gradient=given).verdict == verdict
