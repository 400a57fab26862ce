from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.execution import ModeUnavailableError, pullbacks, second_pullbacks
from gradcheck.autodiff.mode import MODES, PLAIN, VECTORIZED, XLA, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError
from tests import slices

FIRST = [mode for mode in MODES if 1 in mode.orders]
SECOND = [mode for mode in MODES if 2 in mode.orders]
X, Y = tf.constant([1.0, 2.0, -0.5], tf.float64), tf.constant(0.75, tf.float64)
Z = tf.constant([1 + 2j, 3 - 1j], tf.complex128)


def real(sources: list[Any]) -> list[Any]:
    x, y = sources[:2]
    return [tf.sin(x) * y, tf.reduce_sum(x * x) * y]


def holomorphic(sources: list[Any]) -> list[Any]:
    return [tf.signal.fft(sources[0]) * sources[0] * sources[0]]


REAL = [[tf.constant([1.0, -2.0, 0.5], tf.float64), tf.constant(3.0, tf.float64)]]
COMPLEX = [[tf.constant([0.3 + 1j, 2 - 1j], tf.complex128)], [tf.constant([1j, 1 + 0j], tf.complex128)]]


def assert_equal(taken: list[Any], plain: list[Any]) -> None:
    for one, other in zip(taken, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, strict=True)


@pytest.mark.sliced
@pytest.mark.parametrize("mode", FIRST, ids=str)
def test_first_derivatives_are_those_of_a_plain_tape(mode: Mode) -> None:
    assert_equal(pullbacks(mode, real, [X, Y], REAL)[0], pullbacks(PLAIN, real, [X, Y], REAL)[0])
    if mode in slices.sliced(FIRST, slices.every(2)):
        found, right = (pullbacks(one, holomorphic, [Z], COMPLEX) for one in (mode, PLAIN))
        for taken, plain in zip(found, right, strict=True):
            assert_equal(taken, plain)


@pytest.mark.sliced
@pytest.mark.parametrize("mode", SECOND, ids=str)
def test_second_derivatives_are_those_of_plain_tapes(mode: Mode) -> None:
    few = slices.sliced(SECOND, slices.every(8))
    directions = [[X + 1.0, Y], [X * 0.0, Y * 2.0]][: 2 if mode in few else 1]
    taken, plain = (second_pullbacks(one, real, [X, Y], REAL[0], directions) for one in (mode, PLAIN))
    assert_equal(taken[0], plain[0])
    for row, other in zip(taken[1], plain[1], strict=True):
        assert_equal(row, other)
    if mode in few:
        taken, plain = (second_pullbacks(one, holomorphic, [Z], COMPLEX[0], [COMPLEX[1]]) for one in (mode, PLAIN))
        assert_equal(taken[1][0], plain[1][0])


@pytest.mark.parametrize("mode", FIRST, ids=str)
def test_none_stays_none(mode: Mode) -> None:
    cotangent = [tf.ones(3, tf.float64)]
    assert pullbacks(mode, lambda sources: [tf.exp(sources[0])], [X, Y], [cotangent])[0][1] is None


@slices.parametrized("mode", SECOND, slices.every(3), ids=str)
def test_none_stays_none_at_second_order(mode: Mode) -> None:
    ones = tf.ones(3, tf.float64)
    gradient, products = second_pullbacks(mode, lambda sources: [tf.exp(sources[0])], [X, Y], [ones], [[ones, Y]])
    assert gradient[1] is None
    assert products[0][1] is None


def test_what_has_no_kernel_cannot_run() -> None:
    with pytest.raises(ModeUnavailableError, match=r"^no XLA kernel for SegmentMax$"):
        pullbacks(Mode("reverse", XLA), lambda s: [tf.math.segment_max(s[0], [0, 0, 1])], [X], [[X[:2]]])


def test_what_has_no_gradient_of_the_next_order_cannot_run() -> None:
    image = tf.ones([1, 2, 2, 1], tf.float32)

    def bicubic(sources: list[Any]) -> list[Any]:
        return [tf.raw_ops.ResizeBicubic(images=sources[0], size=[3, 3])]

    with pytest.raises(ModeUnavailableError, match=r"LookupError.*ResizeBicubicGrad"):
        pullbacks(Mode("forward"), bicubic, [image], [[tf.ones([1, 3, 3, 1])]])


def raising(error: Exception) -> Callable[[Any], Any]:
    @tf.custom_gradient
    def identity(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            raise error

        return tf.identity(x), gradient

    return identity


# tf.vectorized_map ignores tf.custom_gradient: its converter passes on the tensor that the override is attached to.
@pytest.mark.parametrize("mode", [mode for mode in FIRST if mode.mode != VECTORIZED], ids=str)
def test_a_derivative_that_raises_is_distinguished_from_one_that_cannot_run(mode: Mode) -> None:
    for error in (ValueError("no gradient"), IndexError("a list of shapes"), KeyError("name")):
        faulty = raising(error)
        with pytest.raises(DerivativeRaisedError, match=type(error).__name__):
            pullbacks(mode, lambda s, faulty=faulty: [faulty(s[0])], [X], [[X]])  # type: ignore[misc]


@pytest.mark.parametrize("mode", [mode for mode in FIRST if "tf.function" in mode.mode or mode.mode == XLA], ids=str)
def test_a_function_that_cannot_be_traced_cannot_run(mode: Mode) -> None:
    with pytest.raises(ModeUnavailableError, match="AttributeError"):
        pullbacks(mode, lambda s: [s[0] * float(s[0].numpy()[0])], [X], [[X]])


def test_what_the_function_raises_is_not_called_a_raising_derivative() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        pullbacks(Mode("forward"), lambda s: [tf.reshape(s[0], [2])], [X], [[X]])


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'sideways', 'eager'; expected one of reverse, forward"):
        Mode("sideways")
    with pytest.raises(ValueError, match=r"order was 2; the path 'forward' has \(1,\)"):
        second_pullbacks(Mode("forward"), real, [X, Y], REAL[0], [])
