"""float32, float16, bfloat16: differences in float64 if possible, and the derivative's own rounding is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Kind
from gradcheck.problem.float64_form import with_float64_form
from gradcheck.problem.opening import open_function
from tests import slices
from tests.verdicts import check

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def f(x: tf.Tensor) -> tf.Tensor:
    return tf.sin(x) * x


def exact(x: float) -> float:
    return float(np.cos(x) * x + np.sin(x))


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_differences_are_taken_in_float64(dtype: str) -> None:
    x = tf.constant([0.5, 1.5], dtype)
    result = check(f, x, order=2)
    assert result.verdict == "agree"
    # What remains is the rounding of the low-precision derivative itself.
    assert result.resolution[1] <= 400 * ROUNDOFF[dtype] * exact(1.5)
    off = check(f, x, gradient=tf.constant([exact(0.5), exact(1.5) * (1 + 200 * ROUNDOFF[dtype])], tf.float64))
    assert [(finding.index, finding.kind) for finding in off.findings] == [((1,), Kind.WRONG_VALUE)]
    assert off.findings[0].difference == pytest.approx(exact(1.5), rel=1e-9)
    assert off.findings[0].bound is not None
    assert off.findings[0].bound < 1e-9


def test_what_refuses_float64_is_built_in_it_from_its_trace() -> None:
    def in_float32(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) * tf.constant([2.0, 3.0])

    result = check(in_float32, np.array([0.5, 1.5], np.float32))
    assert result.verdict == "agree"
    assert result.resolution[1] < 5e-5
    exact32 = np.cos(np.array([0.5, 1.5], np.float32).astype(float)) * [2.0, 3.0]
    assert (
        check(in_float32, np.array([0.5, 1.5], np.float32), gradient=exact32 + 3 * result.resolution[1]).verdict
        == "mismatch"
    )
    assert check(in_float32, np.array([0.5, 1.5], np.float32), rtol=1e-6).verdict == "inconclusive"


def test_float32_variables_stay_float32() -> None:
    weight = tf.Variable([1.0, 2.0])
    result = check(lambda: tf.reduce_sum(weight**3), variables=[weight])
    assert result.verdict == "agree"
    assert 1e-5 < result.resolution[1] < 0.5
    assert weight.numpy().tolist() == [1.0, 2.0]


def test_a_function_that_computes_something_else_in_float64_is_not_widened() -> None:
    def by_dtype(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) if x.dtype == tf.float64 else tf.cos(x)

    function = with_float64_form(open_function(by_dtype, (np.float32(1.0),), None))
    assert function.values(np.array([[1.0]])) == pytest.approx(np.cos(1.0), rel=1e-12)
    assert check(by_dtype, np.float32(1.0)).verdict == "agree"
    assert check(by_dtype, np.float32(1.0), gradient=-np.sin(1.0) * 1.001).verdict == "mismatch"


def test_what_can_neither_be_copied_nor_traced_is_compared_in_its_own_precision() -> None:
    def through_numpy(x: tf.Tensor) -> tf.Tensor:
        if x.dtype == tf.float64:
            raise TypeError("float32 was expected")
        return x * tf.constant(np.sign(x.numpy()))

    assert check(through_numpy, np.float32(1.5)).verdict == "agree"
    assert check(through_numpy, np.float32(1.5), gradient=1.01).verdict == "mismatch"


def test_a_float64_form_without_a_gradient_gives_the_values_alone() -> None:
    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) * tf.constant(1.0, tf.float32)

    assert check(f, np.array([0.3, 0.5], np.float32), order=2).verdict == "agree"


def test_something_else_in_float64_that_cannot_be_traced_is_not_used() -> None:
    def by_dtype(x: tf.Tensor) -> tf.Tensor:
        return x * tf.constant(np.sign(x.numpy()) * (2 if x.dtype == tf.float64 else 1))

    assert check(by_dtype, np.float32(1.5)).verdict == "agree"


def test_float16_is_decided_by_the_float64_form_of_its_trace() -> None:
    f, x = lambda x: tf.sin(x) * tf.constant(2.0, tf.float16), np.float16(1.5)
    assert check(f, x).verdict == "agree"
    assert check(f, x, gradient=2 * np.cos(1.5) * 1.5).verdict == "mismatch"


@tf.custom_gradient
def versine(x: tf.Tensor) -> Any:
    """Its backward pass computes 1 - cos(x)**2 for sin(x)**2, which near 0 loses most of the digits of a float32."""
    return (x - tf.sin(x) * tf.cos(x)) / 2, lambda upstream: upstream * (1 - tf.cos(x) ** 2)


def test_the_rounding_of_the_derivative_is_measured() -> None:
    x = np.array([0.01, 0.011, 0.0123, 0.0137], np.float32)
    with tf.GradientTape() as tape:
        tensor = tf.constant(x)
        tape.watch(tensor)
        y = versine(tensor)
    error = np.abs(tape.gradient(y, tensor).numpy() / np.sin(x.astype(float)) ** 2 - 1)
    assert error.max() > 1e-4  # a thousand units in the last place
    result = check(versine, x)
    assert result.verdict == "agree"
    assert result.orders[1].relative_resolution > error.max()


@pytest.mark.parametrize("error", [1e-4, 1e-2])
def test_an_error_of_the_low_precision_formula_is_no_rounding(error: float) -> None:
    # In float64 the backward pass is right: a kernel that is wrong for one dtype only.
    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        factor = 1.0 + (error if x.dtype == tf.float32 else 0.0)
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) * factor

    found = check(f, np.array([0.5, 1.25], np.float32)).findings
    assert [finding.kind for finding in found] == [Kind.WRONG_VALUE]
    assert check(f, np.array([0.5, 1.25])).verdict == "agree"


@pytest.mark.parametrize("beside", [False, True])
def test_a_large_output_excuses_no_error_of_another(beside: bool) -> None:
    @tf.custom_gradient
    def square(x: tf.Tensor) -> Any:
        return x * x, lambda upstream: upstream * (2 * x + 3e-3)

    def both(x: tf.Tensor) -> tf.Tensor:
        return tf.stack([1000.0 * tf.exp(x), square(x)])

    assert check(both if beside else square, np.float32(0.5)).verdict == "mismatch"


def test_a_derivative_that_is_all_rounding_agrees_with_zero() -> None:
    result = check(lambda x: tf.reduce_sum(tf.nn.softmax(x)), np.array([0.5, -1.0, 2.0], np.float32))
    assert result.verdict == "agree"
    assert result.resolution[1] < 1e-4


def test_complex64() -> None:
    z = np.array([1.0 + 2.0j], np.complex64)
    result = check(lambda z: z * z, z)
    assert result.verdict == "agree"
    assert result.resolution[1] < 1e-4


@pytest.mark.parametrize("factor", [0.98, 0.5])
def test_a_wrong_given_gradient_of_a_float32_variable_is_wrong_where_the_right_one_varies_much(factor: float) -> None:
    w = tf.Variable(1.0)
    assert check(lambda: tf.sin(100 * w), variables=[w], gradient=lambda: 100 * tf.cos(100 * w)).verdict == "agree"
    wrong = check(lambda: tf.sin(100 * w), variables=[w], gradient=lambda: factor * 100 * tf.cos(100 * w))
    assert wrong.verdict == "mismatch"


@pytest.mark.parametrize("held", [False, True], ids=["input", "variable"])
def test_what_a_given_gradient_loses_in_float32_is_no_error(held: bool) -> None:
    """1 - tanh(x) ** 2 at -8.3 is 0 in float32 instead of 3e-7."""

    def verdict(values: list[float], factor: float) -> str:
        x = (tf.Variable if held else tf.constant)(np.array(values, np.float32))

        def gradient(*given: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(given)
                y = tf.reduce_sum(tf.tanh(x if held else given[0]))
            return [factor * tape.gradient(y, x if held else given[0])]

        if held:
            return str(check(lambda: tf.reduce_sum(tf.tanh(x)), variables=[x], gradient=gradient).verdict)
        return str(check(lambda x: tf.reduce_sum(tf.tanh(x)), x, gradient=gradient).verdict)

    assert verdict([-8.274022, 27.558075, 10.412432, -7.8142405], 1.0) == "inconclusive"
    assert [verdict([-1.274, 0.558, 0.4124, -0.8142], factor) for factor in (1.0, 1.0001)] == ["agree", "mismatch"]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "agree"), (1.1, "mismatch"), (0.0, "mismatch")])
@pytest.mark.parametrize("size", [3, 100])
def test_given_values_in_float32_are_granted_what_tensorflow_loses_and_no_more(
    size: int, factor: float, verdict: str
) -> None:
    """The value is 1e3 times the derivatives, but does not affect their digits."""
    w = tf.Variable(np.linspace(0.5, 1.5, size).astype(np.float32))
    given = [factor * tf.cos(w)]
    assert check(lambda: 1e3 + tf.reduce_sum(tf.sin(w)), variables=[w], gradient=given).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "agree"), (1.1, "mismatch")])
def test_given_values_may_be_more_precise_than_tensorflow_s(factor: float, verdict: str) -> None:
    """1 - tanh(x) ** 2 at 3 has lost three digits in float32, 1 / cosh(x) ** 2 none."""
    w = tf.Variable(np.linspace(2.0, 4.0, 100).astype(np.float32))
    given = [(factor / np.cosh(w.numpy().astype(np.float64)) ** 2).astype(np.float32)]
    assert check(lambda: tf.reduce_sum(tf.tanh(w)), variables=[w], gradient=given).verdict == verdict


@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_a_wrong_given_gradient_is_not_made_up_for_by_the_rounding_of_the_others(factor: float) -> None:
    """exp(0.3) rounds up in bfloat16 300 times, together by a tenth of the derivative of v."""
    u, v, w = (tf.Variable(np.full(size, value, np.float32)) for size, value in ((30, 0.37), (4, 0.5), (300, 0.3)))
    signs = np.resize([100.0, -100.0], 30).astype(np.float32)

    def half(operation: Any, x: tf.Variable) -> tf.Tensor:
        return tf.cast(operation(tf.cast(x, tf.bfloat16)), tf.float32)

    def f() -> tf.Tensor:
        large = tf.reduce_sum(signs * half(tf.exp, u))
        return large + tf.reduce_sum(half(tf.exp, w)) + tf.reduce_sum(half(lambda v: 1.25 * v, v))

    given = [signs * half(tf.exp, u), factor * 1.25 * tf.ones(4), half(tf.exp, w)]
    assert check(f, variables=[u, v, w], gradient=given).verdict == ("agree" if factor == 1 else "inconclusive")


def cast_softmax(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum([1.14, 0.5, 0.44] * tf.cast(tf.nn.softmax(tf.cast(x, tf.float32)), tf.float64))


@pytest.mark.sliced
def test_digits_that_a_cast_hides_are_no_alarm() -> None:
    """In single precision, the change of the large probability is lost, and that of the small one is not."""
    x = [10.0, 0.0, -10.0]
    formed_well = (cast_softmax, lambda x: cast_softmax(x) - 1.14, lambda x: 1e6 * (cast_softmax(x) - 1.14))
    for f in slices.sliced(formed_well, lambda functions: functions[1:2]):
        assert check(f, x, order=2).verdict != "mismatch"

    def hidden(x: tf.Tensor) -> tf.Tensor:
        return tf.numpy_function(lambda x: cast_softmax(tf.constant(x)).numpy(), [x], tf.float64)

    @tf.custom_gradient
    def untraced(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = cast_softmax(x)
        gradient = tape.gradient(y, x)
        return tf.constant(y.numpy()), lambda upstream: upstream * gradient

    def read(x: tf.Tensor) -> tf.Tensor:
        return cast_softmax(x) - 1.14 if float(x[0]) > 0 else x[0]

    for f in slices.sliced((untraced, read, lambda x: untraced(x) - 1.14), lambda functions: functions[1:2]):
        assert with_float64_form(open_function(f, (x,), None)).wide is None
        assert check(f, x, order=2 if slices.whole else 1).verdict != "mismatch"
