"""Other roundings of a backward pass: what they move, what they leave alone, and that nothing stays behind."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from gradcheck.autodiff.roundings import UNIT, moved, other_roundings


def slope(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sigmoid(x)
    return tape.gradient(y, x)


def entries() -> dict[str, object]:
    return {name: entry["type"] for name, entry in ops.gradient_registry._registry.items()}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.complex128])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_every_element_moves_by_a_unit_and_zeros_stay(shape: tuple[int, ...], dtype: tf.DType) -> None:
    unit = 1e-6
    value = tf.ones(shape, dtype)
    change = np.abs((moved(value, np.random.default_rng(0), unit) - value).numpy())
    np.testing.assert_allclose(change, np.full(shape, unit), rtol=0.1)
    assert not np.any(moved(0 * value, np.random.default_rng(0)))


@pytest.mark.parametrize("value", [tf.constant([1, 2]), tf.constant([True]), tf.constant("a"), None, 3.0])
def test_what_is_not_floating_stays(value: object) -> None:
    assert moved(value, np.random.default_rng(0)) is value


def test_digits_that_an_output_has_lost_show_up() -> None:
    x = tf.constant([34.0, 1.0], tf.float64)
    plain = slope(x)
    with other_roundings(0):
        rounded = slope(x)
    change = np.abs((rounded / plain - 1).numpy())
    assert change[0] > 0.01
    assert 0 < change[1] < 100 * UNIT


def test_parts_of_a_sum_that_cancel_show_up() -> None:
    def difference(x: tf.Tensor) -> np.ndarray:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = 1e9 * x - tf.exp(np.log(1e9) + tf.math.log(x))
        return tape.gradient(y, x).numpy()

    x = tf.constant([2.0], tf.float64)
    plain, change = difference(x), 0.0
    for seed in range(4):
        with other_roundings(seed):
            change = max(change, float(np.abs(difference(x) - plain)[0]))
    assert 1e-8 < change < 1e-4


def test_the_registry_is_put_back_whatever_happens() -> None:
    before = entries()

    def interrupted() -> None:
        with other_roundings(0):
            assert entries() != before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert entries() == before


def test_a_function_that_is_traced_meanwhile_keeps_nothing() -> None:
    traced = tf.function(slope)
    x = tf.constant([34.0], tf.float64)
    with other_roundings(0):
        inside = traced(x)
    np.testing.assert_array_equal(inside, slope(x))
    np.testing.assert_array_equal(traced(x), slope(x))
