"""Random-rounding perturbation of a backward pass: what it moves, and that it leaves nothing behind."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import op_def_registry, ops

from gradcheck.tracing.kernels import EXACT, NORMWISE, SELECTING
from gradcheck.tracing.perturbation import (
    UNIT,
    choices_of,
    perturbed,
    perturbed_gradients,
    perturbed_matrices,
    perturbed_operations,
    perturbing,
)


def slope(x: tf.Tensor, f: Callable[[tf.Tensor], tf.Tensor] = tf.sigmoid) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


def entries() -> dict[str, object]:
    return {name: entry["type"] for name, entry in ops.gradient_registry._registry.items()}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.complex128])
def test_every_element_moves_by_a_unit_and_zeros_stay(dtype: tf.DType) -> None:
    unit = 1e-6
    for shape in ((), (3,), (2, 3), (0,)):
        value = tf.ones(shape, dtype)
        moved = perturbed(value, np.random.default_rng(0), unit)
        assert moved.shape == shape
        change = np.abs((moved - value).numpy())
        np.testing.assert_allclose(change, np.full(shape, unit), rtol=0.1)
        assert not np.any(perturbed(0 * value, np.random.default_rng(0))), shape


def test_a_zero_keeps_the_sign_that_says_on_which_side_of_a_cut_a_number_lies() -> None:
    """TensorFlow's acos has a wrong derivative at 2 - 0j, and a right one at 2 + 0j."""
    value = tf.constant([complex(2.0, -0.0), complex(-0.0, 2.0), complex(2.0, 0.0)], tf.complex128)
    for seed in range(8):
        moved = perturbed(value, np.random.default_rng(seed)).numpy()
        np.testing.assert_array_equal(np.signbit(moved.imag), [True, False, False])
        np.testing.assert_array_equal(np.signbit(moved.real), [False, True, False])


def test_the_smaller_part_of_a_polar_number_moves_by_units_of_the_larger_one() -> None:
    value, unit = tf.constant([complex(1e-12, 1.0)], tf.complex128), 1e-6
    own, polar = (perturbed(value, np.random.default_rng(0), unit, polar=one) - value for one in (False, True))
    assert 0.9e-18 < abs(own.numpy()[0].real) < 1.1e-18
    assert 0.9e-6 < abs(polar.numpy()[0].real) < 1.1e-6


@pytest.mark.parametrize("value", [tf.constant([1, 2]), tf.constant([True]), tf.constant("a"), None, 3.0])
def test_what_is_not_floating_stays(value: object) -> None:
    assert perturbed(value, np.random.default_rng(0)) is value


def test_digits_that_an_output_has_lost_show_up() -> None:
    x = tf.constant([34.0, 1.0], tf.float64)
    plain = slope(x)
    with perturbed_gradients(0):
        rounded = slope(x)
    change = np.abs((rounded / plain - 1).numpy())
    assert change[0] > 0.01
    assert 0 < change[1] < 100 * UNIT


def test_parts_of_a_sum_that_cancel_show_up() -> None:
    def difference(x: tf.Tensor) -> tf.Tensor:
        return 1e9 * x - tf.exp(np.log(1e9) + tf.math.log(x))

    x = tf.constant([2.0], tf.float64)
    plain, change = slope(x, difference), 0.0
    for seed in range(4):
        with perturbed_gradients(seed):
            change = max(change, float(np.abs(slope(x, difference) - plain)[0]))
    assert 1e-8 < change < 1e-4


def test_rows_of_a_gradient_show_up_in_second_derivatives() -> None:
    """The gradient of a gather is IndexedSlices, which no tape takes as the result of an operation."""

    def product(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_prod(tf.gather(tf.sin(x), [0, 1, 1]))

    x = tf.constant([0.3, 0.7], tf.float64)
    plain, changes = slope(x, lambda y: slope(y, product)), []
    for seed in range(4):
        with perturbed_gradients(seed):
            changes.append(np.abs(slope(x, lambda y: slope(y, product)) / plain - 1))
    assert (np.max(changes, axis=0) > 0).all()
    assert np.max(changes) < 100 * UNIT


SEGMENTS = tf.constant([0, 0, 1])
SELECTIONS = {
    "Max": tf.reduce_max,
    "Min": tf.reduce_min,
    "NthElement": lambda x: tf.raw_ops.NthElement(input=x, n=1),
    "SegmentMax": lambda x: tf.math.segment_max(x, SEGMENTS),
    "SegmentMin": lambda x: tf.math.segment_min(x, SEGMENTS),
    "TensorScatterMax": lambda x: tf.tensor_scatter_nd_max(x, [[0], [1]], x[1:]),
    "TensorScatterMin": lambda x: tf.tensor_scatter_nd_min(x, [[0], [1]], x[1:]),
    "UnsortedSegmentMax": lambda x: tf.math.unsorted_segment_max(x, SEGMENTS, 2),
    "UnsortedSegmentMin": lambda x: tf.math.unsorted_segment_min(x, SEGMENTS, 2),
}


@pytest.mark.parametrize("name", sorted(SELECTING))
def test_a_gradient_still_finds_what_was_selected(name: str) -> None:
    x = tf.constant([0.3, 0.1, 0.7], tf.float64)
    plain = slope(x, SELECTIONS[name]).numpy()
    assert plain.any()
    with perturbed_gradients(0):
        np.testing.assert_allclose(slope(x, SELECTIONS[name]), plain, rtol=100 * UNIT)


def test_every_gradient_that_compares_its_output_is_known_as_selecting() -> None:
    comparing = re.compile(r"equal\([^)]*op\.outputs|MinOrMaxGrad\(|equal\(\s*(y|gathered_outputs|output)\b")
    sources = {name: source(function) for name, function in entries().items()}
    found = {name for name, text in sources.items() if comparing.search(text)}
    assert found - {"Merge"} <= SELECTING  # which looks for the branch that ran
    assert {"Max", "TensorScatterMin", "UnsortedSegmentMax"} <= found


def source(function: object) -> str:
    """The text of a gradient function, empty if there is none."""
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def test_the_registry_is_put_back_whatever_happens() -> None:
    before, sine = entries(), ops.gradient_registry.lookup("Sin")

    def interrupted() -> None:
        with perturbed_gradients(0):
            assert ops.gradient_registry.lookup("Sin") is not sine
            assert ops.gradient_registry.lookup("Shape") is None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ops.gradient_registry.lookup("Sin") is sine
    assert entries() == before


def test_a_function_that_is_traced_meanwhile_keeps_nothing() -> None:
    traced = tf.function(slope)
    x = tf.constant([34.0], tf.float64)
    with perturbed_gradients(0):
        inside = traced(x)
    np.testing.assert_array_equal(inside, slope(x))
    np.testing.assert_array_equal(traced(x), slope(x))


def moved(f: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> float:
    """The relative change of a value when all operations are perturbed."""
    plain = f(x).numpy()
    with perturbed_operations(0):
        return float(np.max(np.abs(f(x).numpy() - plain) / np.max(np.abs(plain))))


@pytest.mark.parametrize("wrapped", [lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)])
def test_digits_that_operations_lose_show_up(wrapped: Callable[..., Any]) -> None:
    x = tf.constant([0.3, 0.7], tf.float64)
    assert 1e-11 < moved(wrapped(lambda x: tf.sin(x + 1e6) + 2.0), x) < 1e-9
    assert 0 < moved(wrapped(tf.sin), x) < 2 * UNIT
    assert 1e-8 < moved(wrapped(lambda x: tf.cast(tf.cast(x, tf.float32), tf.float64)), x) < 1e-6


def test_a_small_singular_value_moves_as_the_largest_element_rounds() -> None:
    x = tf.constant([[1e9, 1.0], [1.0, 3.0]], tf.float64)
    exactly = tf.linalg.svd(x, compute_uv=False).numpy()
    with perturbed_matrices(0):
        moved = tf.linalg.svd(x, compute_uv=False).numpy()
        stays = tf.exp(x[1]).numpy()
    assert 0 < abs(moved[1] - exactly[1]) <= 4 * UNIT * 1e9
    np.testing.assert_array_equal(stays, tf.exp(x[1]).numpy())


def test_a_gradient_goes_through_a_matrix_that_has_moved() -> None:
    x = tf.constant([[2.0, 1.0], [1.0, 3.0]], tf.float64)
    with perturbed_matrices(0):
        moved = slope(x, tf.linalg.det).numpy()
    np.testing.assert_allclose(moved, [[3.0, -1.0], [-1.0, 2.0]], rtol=1e-12)


def test_kernels_that_are_exact_by_the_largest_element_exist() -> None:
    assert {name for name in NORMWISE if op_def_registry.get(name) is None} == set()


def test_what_is_exact_stays() -> None:
    """A tie does not break, indices and counts stay, and a variable keeps its value."""
    x, held = tf.constant([3.0, -3.0], tf.float64), tf.Variable([1.5, 2.5], dtype=tf.float64)
    for f in (
        lambda x: tf.reduce_max(tf.abs(x)) + tf.nn.relu(x),
        lambda x: tf.gather(x, tf.cast(tf.floor(x[:1]), tf.int32) - 2),
        lambda x: tf.where(held == [1.5, 2.5], held[::-1], -x),
        lambda x: tf.one_hot(tf.argmax(x), 2, dtype=tf.float64),
    ):
        assert moved(f, x) <= 2 * UNIT
    assert all(op_def_registry.get(name) is not None for name in EXACT)


@pytest.mark.parametrize(
    "choose",
    [
        lambda t: tf.where(t < 1.0, 0.0, t),
        lambda t: tf.floor(t) * t,
        lambda t: tf.cast(tf.cast(t, tf.int32), t.dtype),
        lambda t: tf.cast(tf.argmax([t, tf.ones_like(t)]), t.dtype) + t,
    ],
    ids=["comparison", "floor", "cast", "argmax"],
)
def test_choices_are_those_of_an_unperturbed_run(choose: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """A value on an edge, as 1 is after a rounding, falls off it in half of the runs; that is not a rounding error."""

    def f() -> tf.Tensor:
        return choose(0.5 * x + 0.5)

    x = tf.constant(1.0, tf.float64)
    plain, choices = f(), choices_of(f)
    apart: list[list[float]] = [[], []]
    for seed in range(8):
        for held, given in zip(apart, ([], choices), strict=True):
            with perturbed_operations(seed, choices=given):
                held.append(float(abs(f() - plain)))
    assert max(apart[0]) > 0.5
    assert max(apart[1]) < 8 * UNIT


def test_custom_gradients_are_kept() -> None:
    @tf.custom_gradient
    def wrong(x: tf.Tensor) -> Any:
        return x**2, lambda upstream: 5.0 * upstream

    x = tf.constant([1.0, 2.0], tf.float64)
    with perturbed_operations(0):
        np.testing.assert_allclose(slope(x, wrong), 5.0, rtol=10 * UNIT)


def test_calls_are_put_back_whatever_happens() -> None:
    names = ("TFE_Py_FastPathExecute", "TFE_Py_Execute")
    before = [getattr(pywrap_tfe, name) for name in names]

    def interrupted() -> None:
        with perturbed_operations(0):
            assert tf.config.functions_run_eagerly()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [getattr(pywrap_tfe, name) for name in names] == before
    assert not tf.config.functions_run_eagerly()
    assert not perturbing()
