"""Functions that compute in less than float64, built again in float64: the same function, or none."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from gradcheck.problem.float64_form import LONGEST, with_float64_form
from gradcheck.problem.function import Function
from gradcheck.problem.observed_call import observed_call
from gradcheck.problem.opening import open_function
from gradcheck.tracing.state import observe_operations
from tests import slices
from tests.verdicts import check

SINGLE, DOUBLE = 2.0**-24, 2.0**-53
W = np.array([1.14, 0.5, 0.44])


def formed(f: Callable[..., Any], *inputs: Any, variables: Any = None) -> Function:
    return with_float64_form(open_function(f, inputs, variables))


def cast_softmax(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(W * tf.cast(tf.nn.softmax(tf.cast(x, tf.float32)), tf.float64))


def looped(x: tf.Tensor) -> tf.Tensor:
    steps = tf.TensorArray(x.dtype, 3)
    for step in tf.range(3):
        x = tf.sin(x)
        steps = steps.write(step, x)
    return steps.stack()


LOW: dict[str, tuple[Callable[..., Any], Any, Callable[[Any], Any]]] = {
    "constants inside": (lambda x: x * tf.constant(0.1), np.float32(0.7), lambda x: x * float(np.float32(0.1))),
    "a cast to less": (lambda x: tf.cast(tf.sin(x), tf.float32), np.float32(0.7), np.sin),
    "a cast of the input": (lambda x: tf.cast(tf.sin(tf.cast(x, tf.bfloat16)), tf.float64), 0.7, np.sin),
    "nested casts": (
        lambda x: tf.exp(tf.cast(tf.cast(tf.sin(x), tf.float16), tf.float32)),
        *(0.7, lambda x: np.exp(np.sin(x))),
    ),
    "a list of types": (lambda x: tf.identity_n([tf.sin(tf.cast(x, tf.float32)), x])[0], 0.7, np.sin),
    "a loop": (
        tf.function(looped),
        np.float32(0.7),
        lambda x: [np.sin(x), np.sin(np.sin(x)), np.sin(np.sin(np.sin(x)))],
    ),
    "a branch": (
        tf.function(lambda x: tf.cond(x > 0, lambda: tf.cast(tf.sin(tf.cast(x, tf.float16)), tf.float64), lambda: x)),
        *(0.7, np.sin),
    ),
    "a call": (lambda x: tf.function(tf.sin)(tf.cast(x, tf.float32)), 0.7, np.sin),
    "random numbers": (
        lambda x: x * tf.cast(tf.random.stateless_uniform([], [1, 2]), tf.float32),
        *(np.float32(0.7), lambda x: x * float(tf.random.stateless_uniform([], [1, 2]))),
    ),
    "complex numbers": (lambda z: tf.exp(z) * 1j, np.complex64(0.3 + 0.1j), lambda z: np.exp(z) * 1j),
}


@pytest.mark.parametrize("name", LOW)
def test_the_form_has_all_digits(name: str) -> None:
    f, x, meant = LOW[name]
    function = formed(f, x)
    assert function.wide is not None
    assert (function.roundoff, function.precision > DOUBLE) == (DOUBLE, True)
    expected = np.atleast_1d(meant(np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64)))
    expected = expected.astype(np.complex128).view(np.float64) if np.iscomplexobj(x) else expected
    np.testing.assert_allclose(function.wide.value(function.point), expected, rtol=1e-14)


APART: dict[str, tuple[Callable[[Any], Any], Any, float]] = {
    "a mask": (lambda x: x * tf.cast(tf.random.stateless_uniform([3], [1, 2]) > 0.5, x.dtype), W, DOUBLE),
    "a constant": (lambda x: x * tf.cast(tf.constant(0.5) * 3.0, tf.float64), W, DOUBLE),
    "a constant, zeros among the inputs": (lambda x: x * tf.cast(tf.sqrt(2.0), tf.float64), 0 * W, DOUBLE),
    "a cast of the input": (lambda x: tf.cast(tf.cast(x, tf.float32), tf.float64), W, SINGLE),
    "digits that are all hidden": (lambda x: tf.cast(tf.tanh(tf.cast(x, tf.float32)), tf.float64), 100 * W, SINGLE),
    "a step through NumPy": (lambda x: x * tf.cast(tf.constant(x.numpy().astype("f4")) * 2.0, tf.float64), W, SINGLE),
    "a function": (lambda x: tf.function(cast_softmax)(x), W, SINGLE),
    "a function of a constant": (lambda x: x * tf.function(cast_softmax)(tf.constant(W)), W, DOUBLE),
    "what cannot be called beside the point": (
        lambda x: tf.debugging.assert_equal(x, W) or x * tf.cast(tf.sqrt(2.0), tf.float64),
        *(W, SINGLE),
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_coarse_counts_where_it_depends_on_the_inputs(name: str) -> None:
    f, x, expected = APART[name]
    assert max(observed_call(open_function(f, (x,), None)).roundoff, DOUBLE) == expected


def test_so_does_what_depends_on_variables_that_are_inputs() -> None:
    scale, fixed = tf.Variable(W), tf.Variable(W)
    f = lambda x: x * tf.cast(tf.cast(scale, tf.float32), tf.float64)  # noqa: E731
    assert observed_call(open_function(f, (W,), [scale])).roundoff == SINGLE
    assert observed_call(open_function(f, (W,), [fixed])).roundoff <= DOUBLE


def test_what_was_assigned_depends_on_what_it_was() -> None:
    kept = tf.Variable(np.zeros(3, np.float32))

    def f(x: tf.Tensor) -> tf.Tensor:
        kept.assign(tf.cast(x, tf.float32))
        return x + tf.cast(kept, x.dtype)

    assert observed_call(open_function(f, (W,), None)).roundoff == SINGLE


STRAIGHT = {*LOW} - {"a loop", "a branch", "a call"}


@pytest.mark.parametrize("name", LOW)
def test_short_forms_without_functions_run_as_lists_of_operations(name: str) -> None:
    f, x, _ = LOW[name]
    wide = formed(f, x).wide
    assert wide is not None
    assert wide.straight == (name in STRAIGHT and wide.f is not f)  # float64 inputs may suffice for it
    called: list[str] = []
    observe_operations(lambda: wide.value(wide.point), lambda name, *_: called.append(name))
    assert not wide.straight or all(map(op_def_registry.get, called))


def test_other_forms_are_graphs() -> None:
    def repeated(count: int) -> Callable[[Any], Any]:
        return lambda x: reduce(lambda y, _: tf.sin(y), range(count), x) * tf.constant(2.0)

    x = np.array([0.3, 0.7], np.float32)
    for f, expected in (
        *((repeated(LONGEST - 1), True), (repeated(LONGEST), False)),
        (lambda x: scaled_slope(x) * tf.constant(2.0), False),
        (lambda x: tf.boolean_mask(x, x > 0) * tf.constant(2.0), False),  # of a size that depends on the values
    ):
        wide = formed(f, x).wide
        assert wide is not None
        assert wide.straight == expected


def test_what_makes_a_variable_at_every_call_has_none() -> None:
    function = formed(lambda x: x * tf.Variable([2.0, 3.0]), np.array([0.3, 0.7], np.float32))
    assert (function.wide, function.roundoff) == (None, SINGLE)


def test_functions_in_float64_have_none() -> None:
    counted = tf.Variable(0.0)  # single precision that the result does not depend on

    def f(x: tf.Tensor) -> tf.Tensor:
        counted.assign_add(1.0)
        return tf.sin(x) * tf.cast(tf.cast(x > 0, tf.float32), tf.float64)

    for function in (formed(tf.sin, 1.0), formed(f, 1.0)):
        assert function.wide is None
        assert (function.precision, function.roundoff) == (DOUBLE, DOUBLE)


OTHER: dict[str, tuple[Callable[..., Any], Any]] = {
    "another function in float64": (
        lambda x: x * 1.0 if x.dtype == tf.float32 else tf.cast(x * 2.0, tf.float32),
        np.array([0.3], np.float32),
    ),
    "bits": (lambda x: tf.bitcast(tf.bitcast(x, tf.int32), tf.float32), np.float32(0.3)),
    "NumPy inside": (lambda x: tf.cast(np.sin(x.numpy().astype(np.float32)), tf.float64) * x, 0.3),
}


def test_what_is_not_the_same_function_is_not_used() -> None:
    for name, (f, x) in OTHER.items():
        function = formed(f, x)
        if name == "another function in float64":
            assert function.wide is not None  # the trace in float32, not the call with float64
            np.testing.assert_allclose(function.wide.value(function.point), x)
        else:
            assert (name, function.wide) == (name, None)
            assert function.roundoff >= SINGLE


def test_what_throws_beside_the_point_is_compared_at_the_point() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_less_equal(x, tf.ones_like(x))
        return x * x

    edge = np.full(8, 0.99, np.float32)
    assert formed(f, edge).wide is not None
    assert check(f, edge, order=2).verdict == "agree"


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (lambda x: tf.acos(tf.cos(x)), 1e-4, 1.0),
        (lambda x: tf.sqrt(1 - tf.tanh(x) ** 2), 10.0, -np.sinh(10) / np.cosh(10) ** 2),
    ],
)
def test_a_rounding_that_leaves_the_domain_is_no_bad_input(f: Callable[..., Any], x: float, slope: float) -> None:
    (finding,) = check(f, np.float32(x)).findings  # float32 divides by zero there; the function is smooth
    assert finding.kind == "non-finite"
    assert finding.difference == pytest.approx(slope, rel=1e-5)


def test_variables_are_inputs_or_keep_their_values() -> None:
    listed, other = tf.Variable([2.0, 3.0]), tf.Variable([0.1, 0.2])
    function = formed(lambda x: x * listed * other, np.array([1.0, 2.0], np.float32), variables=listed)
    assert function.wide is not None
    np.testing.assert_array_equal(function.wide.point, [1, 2, 2, 3])
    moved = np.array([1.0, 2.0, 2.5, 3.5])
    np.testing.assert_array_equal(function.wide.value(moved), np.array([2.5, 7.0]) * np.array([0.1, 0.2], np.float32))


@pytest.mark.parametrize("added", [False, True])
def test_what_is_assigned_is_disconnected(added: bool) -> None:
    state = tf.Variable(1.0)

    def f(x: tf.Tensor) -> tf.Tensor:
        state.assign(0.0 * x if added else x * 2.0)
        if added:
            state.assign_add(x * 2.0)
        return x * state

    wide = formed(f, np.float32(3.0)).wide
    assert wide is not None
    assert wide.value(np.array([3.0])) == 18.0
    assert wide.gradients(np.ones((1, 1))).values == 6.0


def test_perturbed_forms_move_as_the_low_precision_rounds() -> None:
    wide = formed(tf.nn.softmax, np.array([20.0, 3.0], np.float32)).wide
    assert wide is not None
    values = np.array([wide.perturbed(draw).value(wide.point) for draw in range(8)])
    moves = np.abs(values / wide.value(wide.point) - 1)
    np.testing.assert_allclose(moves, 2 * SINGLE, rtol=1e-6)
    # The slope p (1 - p) of a probability that rounds to one moves by as much as all of it.
    slopes = [wide.perturbed(draw).gradients(np.array([[1.0, 0.0]])).values for draw in range(8)]
    assert np.ptp(slopes, axis=0).max() > SINGLE


@tf.custom_gradient
def scaled_slope(x: tf.Tensor) -> Any:
    """The hyperbolic tangent, with a gradient that is 2 % too large."""
    y = tf.tanh(x)
    return y, lambda upstream: upstream * (1 - y * y) * tf.cast(1.02, x.dtype)


@tf.custom_gradient
def weighted(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A product, whose gradient forgets the second factor."""
    return x * y, lambda upstream: (upstream * y, None)


CUSTOM = {
    "called": (scaled_slope, False),
    "twice": (lambda x: scaled_slope(2.0 * scaled_slope(x)), False),
    "of two": (lambda x: weighted(x, tf.sin(x)), False),
    "between casts": (lambda x: tf.cast(scaled_slope(tf.cast(x, tf.float64)), tf.float32), False),
    "in a function that was traced before": (tf.function(scaled_slope), True),
}


@slices.parametrized("name", CUSTOM, slices.every(2))
def test_the_form_keeps_custom_gradients_or_says_that_it_did_not(name: str) -> None:
    f, plain = CUSTOM[name]
    x = np.array([0.3, -0.8], np.float32)
    variable = tf.Variable(x)
    function = formed(lambda: f(variable), variables=[variable])
    assert function.wide is not None
    assert function.wide.plain == plain
    own, wide = (one.gradients(np.ones((1, 2))).values for one in (function, function.wide))
    assert np.allclose(own, wide, rtol=2e-3, atol=0) != plain
    assert check(lambda: f(variable), variables=[variable]).verdict == "mismatch"


def test_the_module_that_registers_a_gradient_can_be_loaded_again() -> None:
    """As %autoreload and importlib.reload do; TensorFlow's registry lives on, and takes no name twice."""
    spec = find_spec("gradcheck.tracing.retraced")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))
