"""Intentionally wrong gradients: each is found, with its kind and element, and the right ones are not reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import Kind, assert_close, check

x = np.array([0.5, -1.25, 2.0])


def planted(forward: Any, backward: Any) -> Any:
    """`forward` with the backward pass `backward(upstream, *tensors)`."""

    @tf.custom_gradient
    def f(*tensors: tf.Tensor) -> Any:
        return forward(*tensors), lambda upstream: backward(upstream, *tensors)

    return f


def one_element(change: Any) -> Any:
    """tanh, whose derivative `change` alters at element 1."""
    spoilt = np.array([False, True, False])

    def backward(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        right = upstream * (1 - tf.tanh(x) ** 2)
        return tf.where(spoilt, change(right), right)

    return planted(tf.tanh, backward)


@pytest.mark.parametrize(
    "change",
    [lambda right: -right, lambda right: right * (1 + 1e-6), lambda right: 2 * right],
    ids=["sign", "factor 1 + 1e-6", "factor 2"],
)
def test_a_factor(change: Any) -> None:
    (finding,) = check(one_element(change), x).findings
    truth = 1 - np.tanh(x[1]) ** 2
    assert (finding.kind, finding.element, finding.output) == (Kind.WRONG_VALUE, "inputs[0][1]", 1)
    assert finding.difference == pytest.approx(truth, rel=1e-9)
    assert finding.autodiff == pytest.approx(change(truth), rel=1e-12)
    with pytest.raises(gradcheck.GradientWrongValue, match=r"inputs\[0\]\[1\]"):
        assert_close(one_element(change), x)


def test_a_transposed_jacobian() -> None:
    matrix = np.array([[2.0, 1.0, 0.0], [5.0, 3.0, -1.0], [0.0, -1.0, 4.0]])
    f = planted(lambda x: tf.linalg.matvec(matrix, x), lambda upstream, x: tf.linalg.matvec(matrix, upstream))
    (finding,) = check(f, x).findings
    # Only the entries (0, 1) and (1, 0) differ from their transposes.
    assert finding.kind is Kind.WRONG_VALUE
    places = {(f.element, f.output, f.autodiff, round(f.difference or 0.0, 9)) for f in check(f, x).findings}
    assert places <= {("inputs[0][1]", 0, 5.0, 1.0), ("inputs[0][0]", 1, 1.0, 5.0)}
    assert "2 entries are wrong" in finding.reason
    symmetric = matrix + matrix.T
    right = planted(lambda x: tf.linalg.matvec(symmetric, x), lambda up, x: tf.linalg.matvec(symmetric, up))
    assert check(right, x, order=2).verdict == "agree"


def test_a_missing_reduction_over_a_broadcast_axis() -> None:
    def add(value: tf.Tensor, bias: tf.Tensor) -> Any:
        f = planted(lambda value, bias: value + bias, lambda upstream, value, bias: (upstream, upstream))
        return f(value, bias)

    with pytest.raises(gradcheck.GradientWrongShape) as caught:
        assert_close(add, np.ones((2, 3)), x)
    (finding,) = caught.value.result.findings  # type: ignore[union-attr]
    assert finding.input == "bias"
    assert "of shape (2, 3); its source is of shape (3,)" in finding.reason
    assert "reduce over the axes" in str(caught.value)
    with pytest.raises(gradcheck.GradientWrongShape) as caught:
        assert_close(add, np.ones((2, 3)), x, order=2)
    first, second = caught.value.result.findings  # type: ignore[union-attr]
    assert (second.order, second.kind, second.reason) == (2, first.kind, first.reason)


def test_one_of_two_uses_dropped() -> None:
    f = planted(lambda x: x * tf.exp(x), lambda upstream, x: upstream * x * tf.exp(x))
    (finding,) = check(f, 0.5).findings
    assert finding.kind is Kind.WRONG_VALUE
    assert finding.autodiff == pytest.approx(0.5 * np.exp(0.5), rel=1e-12)
    assert finding.difference == pytest.approx(1.5 * np.exp(0.5), rel=1e-9)


def test_none() -> None:
    f = planted(lambda x, y: x * y, lambda upstream, x, y: (upstream * y, None))
    (finding,) = check(f, 2.0, 3.0).findings
    assert (finding.kind, finding.input, finding.autodiff) == (Kind.MISSING, "inputs[1]", None)
    assert finding.difference == pytest.approx(2.0, rel=1e-9)


def test_nan() -> None:
    (finding,) = check(one_element(lambda right: right * np.nan), x).findings
    assert (finding.kind, finding.element) == (Kind.NON_FINITE, "inputs[0][1]")


def test_an_absolute_error_of_1e_9_where_the_gradient_is_1e_7() -> None:
    scale = np.array([1.0, 1e-7, 1.0])

    def f(error: float) -> Any:
        return planted(lambda x: scale * tf.sin(x), lambda up, x: up * (scale * tf.cos(x) + error * (scale < 1)))

    (finding,) = check(f(1e-9), x).findings
    assert (finding.kind, finding.element, finding.output) == (Kind.WRONG_VALUE, "inputs[0][1]", 1)
    assert finding.difference == pytest.approx(1e-7 * np.cos(-1.25), rel=1e-6)
    assert check(f(0.0), x, order=2).verdict == "agree"


def test_right_first_order_with_wrong_second() -> None:
    f = planted(tf.sin, lambda upstream, x: upstream * tf.stop_gradient(tf.cos(x)))
    result = check(f, x, order=2)
    assert (result.orders[1].verdict, result.orders[2].verdict) == ("agree", "mismatch")
    assert {finding.order for finding in result.findings} == {2}
    assert {finding.kind for finding in result.findings} <= {Kind.WRONG_VALUE, Kind.MISSING}
    assert check(f, x).verdict == "agree"
    with pytest.raises(gradcheck.GradientMismatch, match="order 2"):
        assert_close(f, x, order=2)


def test_a_second_order_that_is_off_by_a_factor() -> None:
    @tf.custom_gradient
    def cosine(x: tf.Tensor) -> Any:
        return tf.cos(x), lambda upstream: -upstream * tf.sin(x) * (1 + 1e-6)

    f = planted(tf.sin, lambda upstream, x: upstream * cosine(x))
    result = check(f, np.array([0.5, 1.5]), order=2)
    assert (result.orders[1].verdict, result.orders[2].verdict) == ("agree", "mismatch")
    assert result.findings[0].kind is Kind.WRONG_VALUE


def test_a_derivative_that_throws() -> None:
    def backward(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        raise LookupError("nobody wrote it")

    (finding,) = check(planted(tf.sin, backward), x).findings
    assert (finding.kind, finding.reason) == (Kind.RAISES, "LookupError: nobody wrote it")


def test_an_asymmetric_hessian_of_a_given_gradient() -> None:
    def gradient(x: tf.Tensor) -> tf.Tensor:
        product = tf.reduce_prod(x) / x
        return tf.stack([product[0], tf.stop_gradient(product[1]), product[2]])

    result = check(tf.reduce_prod, x, gradient=gradient, order=2)
    assert (result.orders[1].verdict, result.orders[2].verdict) == ("agree", "mismatch")
