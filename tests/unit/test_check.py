"""The arguments and the report of check, and the state that it leaves unchanged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from gradcheck import Kind, check, spot_check
from tests import slices, verdicts


def c(value: Any) -> tf.Tensor:
    return tf.constant(value, tf.float64)


def test_both_orders_and_the_worst_of_them() -> None:
    @tf.custom_gradient
    def square(x: tf.Tensor) -> Any:
        return x * x, lambda upstream: upstream * tf.stop_gradient(2 * x)

    result = verdicts.check(square, 3.0, order=2)
    assert list(result.orders) == [1, 2]
    assert (result.orders[1].verdict, result.orders[2].verdict, result.verdict) == ("agree", "mismatch", "mismatch")
    assert [finding.order for finding in result.findings] == [2]
    assert list(check(tf.sin, 1.0).orders) == [1]


def test_printing_names_verdicts_resolution_and_findings() -> None:
    text = str(check(lambda x: x * tf.stop_gradient(x), np.array([2.0, 3.0])))
    assert text.startswith("gradcheck: mismatch\norder 1: mismatch (4 compared, 0 inconclusive)\n  resolution ")
    assert "wrong value at x[0]: autodiff gives 2, the finite-difference estimate is 4 (error at most " in text
    assert "2 entries are wrong, this is the worst relative to its error bound" in text
    assert "\n      cause     stop_gradient\n      where     " in text
    assert "\n      remedy    leave tf.stop_gradient out of `" in text


def test_a_result_is_neither_true_nor_false() -> None:
    result, spot = check(tf.sin, 1.0), spot_check(lambda: tf.sin(v) ** 2, [v := tf.Variable(0.5)])
    for one in (result, spot):
        with pytest.raises(TypeError, match=r"neither true nor false.*gradcheck\.assert_close.*\.verdict"):
            assert one


def test_rows_of_a_gradient_that_the_argument_does_not_have_are_raised() -> None:
    """tf.gather_nd ignores indices out of range, and its gradient is an IndexedSlices with such a row."""
    found = check(lambda x: tf.gather_nd(x, [[0], [2]], bad_indices_policy="IGNORE"), np.array([2.0, 3.0]))
    assert [finding.kind for finding in found.findings] == [Kind.RAISES]
    assert "out of range [0, 2)" in found.findings[0].reason


def test_an_exception_without_a_message_says_where_it_was_raised() -> None:
    @tf.custom_gradient
    def unfinished(x: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            raise AssertionError

        return x * x, gradient

    (finding,) = check(unfinished, 3.0).findings
    assert finding.kind is Kind.RAISES
    assert finding.reason.startswith("AssertionError: test_check.py:")
    assert finding.reason.endswith(": raise AssertionError")


def test_python_floats_and_numpy_stay_float64() -> None:
    seen: list[str] = []

    def f(*tensors: tf.Tensor) -> tf.Tensor:
        seen[:] = [tensor.dtype.name for tensor in tensors]
        return tf.add_n([tf.cast(tensor, tf.float64) for tensor in tensors])

    assert check(f, 1.0, np.float64(2.0), np.ones(()), np.float32(1.0)).verdict == "agree"
    assert seen[:3] == ["float64"] * 3
    assert check(tf.sin, 1.0).resolution[1] < 2e-11


def test_nested_inputs_and_outputs() -> None:
    def f(d: Any, pair: Any) -> Any:
        return {"y": d["a"] * d["b"][0], "z": [tf.reduce_sum(d["b"][1]) * pair[0], pair[1] ** 2]}

    inputs = {"a": 1.5, "b": [np.array([1.0, 2.0]), np.ones((1, 2))]}, (3.0, c([1.0, -2.0]))
    result = check(f, *inputs, order=2)
    assert result.verdict == "agree"
    assert result.orders[1].compared == 8 * 5
    wrong = verdicts.check(f, *inputs, gradient=[3.0, c([1.5, 1.5]), c([[3.0, 3.5]]), 2.0, c([2.0, -4.0])])
    assert [(finding.element, finding.autodiff) for finding in wrong.findings] == [("d['b'][1][0, 1]", 3.5)]


def test_integer_inputs_are_handed_through() -> None:
    ids = np.array([0, 2, 2])
    seen: list[Any] = []

    def embed(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
        seen.append((ids.dtype.name, ids.numpy().tolist()))
        return tf.gather(table, ids) ** 2

    result = check(embed, np.array([[0.5], [1.0], [-2.0]]), ids, order=2)
    assert result.verdict == "agree"
    assert {(name, tuple(values)) for name, values in seen} == {("int64", (0, 2, 2))}
    fixed = check(embed, np.array([[0.5], [1.0], [-2.0]]), ids, gradient=[np.array([[1.0], [0.0], [-8.0]]), None])
    assert fixed.verdict == "agree"


def test_integer_variables_are_handed_through_as_inputs() -> None:
    power, seen = tf.Variable(3), []

    def f(x: tf.Tensor, n: tf.Variable) -> tf.Tensor:
        seen.append(n)
        return x ** tf.cast(n, x.dtype)

    assert check(f, 2.0, power, order=2).verdict == "agree"
    assert all(one is power for one in seen)
    assert check(f, 2.0, power, gradient=[12.0, None]).verdict == "agree"


def test_variables_beside_inputs_without_inputs_and_as_inputs() -> None:
    v, w = tf.Variable([1.0, 2.0], dtype=tf.float64), tf.Variable(3.0, dtype=tf.float64)
    assert check(lambda x: x * v**2 * w, 1.5, variables=[v, w], order=2).verdict == "agree"
    assert check(lambda: v**3, variables=v, order=2).verdict == "agree"
    assert check(lambda q, x: q**3 * x, v, 2.0, order=2).verdict == "agree"
    # Sources are the tensors first; a given gradient still comes in the order of the arguments.
    assert check(lambda q, x: q**3 * x, v, 2.0, gradient=[c([6.0, 24.0]), 9.0]).verdict == "agree"


def test_keras_variables() -> None:
    v = keras.Variable(np.array([1.0, 2.0]), dtype="float64", name="kernel")
    assert check(lambda x: x * v**2, 1.5, variables=[v], order=2).verdict == "agree"
    (finding,) = verdicts.check(lambda x: x * tf.stop_gradient(v), 1.5, variables=[v]).findings
    assert (finding.kind, finding.input) == (Kind.MISSING, "variables[0] (kernel)")


def tape_gradient(f: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@slices.parametrized(
    ("f", "gradient"),
    [
        # L = the real part of the sum of f(z), as of a tape: its gradient is conj(f'(z)) for holomorphic f,
        # dL/dx + i dL/dy in general.
        (lambda z: z * z, lambda z: np.conj(2 * z)),
        (tf.exp, lambda z: np.conj(np.exp(z))),
        (tf.math.conj, lambda z: 1 + 0 * z),
        (lambda z: tf.abs(z) ** 2, lambda z: 2 * z),
        (tf.math.real, lambda z: 1 + 0 * z),
        (tf.math.imag, lambda z: 1j + 0 * z),
        (tf.math.angle, lambda z: (-z.imag + 1j * z.real) / abs(z) ** 2),
    ],
    slices.every(2),
)
def test_complex_inputs_by_tensorflows_convention(f: Any, gradient: Any) -> None:
    z = np.array([1.0 + 2.0j, -0.5 + 0.25j])
    assert check(f, z, order=2).verdict == "agree"
    assert check(f, z, gradient=gradient(z)).verdict == "agree"
    assert check(f, z, gradient=lambda z: tape_gradient(f, z), order=2).verdict == "agree"
    wrong = verdicts.check(f, z, gradient=np.conj(gradient(z)) + 1e-9)
    assert wrong.verdict == "mismatch"
    assert wrong.findings[0].input in ("z (real part)", "z (imaginary part)", "input (real part)", "x (real part)")


def test_a_complex_output_of_a_real_input() -> None:
    x = np.array([0.5, 1.5])
    assert check(lambda x: tf.complex(tf.sin(x), x**2), x, order=2).verdict == "agree"
    assert check(lambda x: tf.complex(tf.sin(x), x**2), x, gradient=np.cos(x)).verdict == "agree"


def test_none_and_zero_are_told_apart() -> None:
    none = check(lambda x, y: x * x, 1.0, 2.0, order=2)
    zero = check(lambda x, y: x * x + 0 * y, 1.0, 2.0, order=2)
    assert none.verdict == zero.verdict == "agree"
    assert "y has no gradient (None)" in none.orders[1].notes
    assert zero.orders[1].notes == ()


def test_a_constant_in_any_precision_agrees() -> None:
    result = check(lambda x: tf.constant(3.0), 1.0, order=2)
    assert result.verdict == "agree"
    assert result.orders[1].notes == ("x has no gradient (None)",)


def test_given_gradients_as_values_and_callables() -> None:
    x = np.array([0.5, 1.5])
    assert check(tf.sin, x, gradient=np.cos(x)).verdict == "agree"
    assert check(tf.sin, x, gradient=tf.cos, order=2).verdict == "agree"
    assert check(lambda x: x**2, 3.0, gradient=6).verdict == "agree"
    assert check(lambda x, y: x * y, 3.0, 2.0, gradient=lambda x, y: (y, x), order=2).verdict == "agree"
    wrong = verdicts.check(tf.sin, x, gradient=lambda x: tf.stop_gradient(tf.cos(x)), order=2)
    assert (wrong.orders[1].verdict, wrong.orders[2].verdict) == ("agree", "mismatch")
    (finding,) = check(tf.sin, x, gradient=np.cos(x) + np.array([0.0, 1e-9])).findings
    assert (finding.kind, finding.index) == (Kind.WRONG_VALUE, (1,))
    assert finding.reason.endswith(f"TensorFlow's own gradient of f is {np.cos(1.5):.10g}")


def test_a_list_of_numbers_is_one_gradient_where_it_is_one_input() -> None:
    assert check(tf.sin, [0.5, 1.5], gradient=[np.cos(0.5), np.cos(1.5)]).verdict == "agree"
    assert check(tf.square, [[1.0, 2.0], [3.0, 4.0]], gradient=[[2, 4], [6, 8]]).verdict == "agree"
    (finding,) = check(tf.sin, [0.5, 1.5], gradient=[np.cos(0.5), np.cos(1.5) + 1e-9]).findings
    assert (finding.input, finding.index) in (("x", (1,)), ("input", (1,)))


def test_a_given_gradient_that_throws_is_a_finding() -> None:
    def gradient(x: tf.Tensor) -> tf.Tensor:
        raise ZeroDivisionError("by zero")

    (finding,) = check(tf.sin, 1.0, gradient=gradient).findings
    assert (finding.kind, finding.reason) == (Kind.RAISES, "ZeroDivisionError: by zero")


def test_smaller_errors_than_the_tolerance_do_not_matter() -> None:
    x = np.array([1.0, 2.0])
    off = np.cos(x) * [1.0, 1 + 1e-5]
    assert verdicts.check(tf.sin, x, gradient=off).verdict == "mismatch"
    assert check(tf.sin, x, gradient=off, rtol=1e-4).verdict == "agree"
    assert check(tf.sin, x, gradient=off, atol=1e-4).verdict == "agree"
    (finding,) = verdicts.check(tf.sin, x, gradient=off, rtol=1e-6).findings
    assert finding.allowed == pytest.approx(1e-6 * abs(np.cos(2.0)), rel=1e-6)
    assert verdicts.check(tf.sin, x, gradient=off, rtol=0.0, atol=1e-7).verdict == "mismatch"


@pytest.mark.parametrize("size", [1, 9])
def test_the_tolerance_holds_beside_differences_of_values_too(size: int) -> None:
    """Differences of a wrong gradient agree with its derivative; second differences of values reveal the error."""

    @tf.custom_gradient
    def square(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x * x), lambda upstream: upstream * 2.02 * x

    x = np.linspace(1.0, 2.0, size)
    assert check(square, x, order=2, rtol=0.05).verdict == "agree"
    assert verdicts.check(square, x, order=2, rtol=0.005).orders[2].verdict == "mismatch"


def test_a_tolerance_decides_where_the_estimate_has_no_digit_of_a_small_derivative() -> None:
    def one(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x) ** 2 + tf.cos(x) ** 2 - 1.0

    assert check(one, 0.7).verdict == "inconclusive"
    assert check(one, 0.7, atol=1e-6).verdict == "agree"
    assert check(one, 0.7, atol=1e-20).verdict == "inconclusive"
    assert verdicts.check(one, 0.7, atol=1e-6, gradient=1e-5).verdict == "mismatch"


def test_a_tolerance_finer_than_the_resolution_is_inconclusive() -> None:
    assert check(tf.sin, 1.0, rtol=1e-15).verdict == "inconclusive"
    assert check(tf.sin, 1.0, atol=1e-15).verdict == "inconclusive"
    assert check(tf.sin, 1.0, rtol=0.0).verdict == "inconclusive"
    # A derivative of zero has no relative error, but an absolute one.
    assert check(tf.cos, 0.0, atol=1e-15).verdict == "inconclusive"
    assert check(tf.cos, 0.0, rtol=1e-6, atol=1e-15).verdict == "inconclusive"
    assert check(tf.cos, 0.0, atol=1e-9).verdict == check(tf.cos, 0.0, rtol=1e-15).verdict == "agree"
    # A mismatch far beyond the resolution is one at any tolerance.
    assert verdicts.check(tf.sin, 1.0, rtol=1e-15, gradient=0.5).verdict == "mismatch"
    big = np.linspace(1.0, 2.0, 40)
    assert check(tf.sin, big, rtol=1e-15).verdict == "inconclusive"
    assert check(tf.sin, big, rtol=1e-6).verdict == "agree"


def test_the_resolution_is_the_smallest_error_that_is_noticed() -> None:
    x = np.array([0.7])
    resolution = check(tf.sin, x).resolution[1]
    assert 0 < resolution < 1e-11
    assert verdicts.check(tf.sin, x, gradient=np.cos(x) + 3 * resolution).verdict == "mismatch"
    assert check(tf.sin, x, gradient=np.cos(x) + resolution / 30).verdict == "agree"


@pytest.fixture
def unseeded() -> Iterator[None]:
    before = context.global_seed()
    context.context()._set_global_seed(None)
    yield
    context.context()._set_global_seed(before)


def _disturb(x: tf.Tensor) -> None:
    random.random()
    np.random.uniform()
    tf.random.normal(())
    tf.random.get_global_generator().normal(())


def _state() -> tuple[Any, ...]:
    return (
        random.getstate(),
        np.random.get_state()[1].tolist(),  # type: ignore[index, union-attr]
        tf.random.get_global_generator().state.numpy().tolist(),
    )


def _next_numbers() -> list[float]:
    return [random.random(), float(np.random.uniform()), float(tf.random.normal(()))]


@pytest.mark.parametrize("throws", [None, ValueError, KeyboardInterrupt])
def test_nothing_of_the_users_is_changed(throws: type[BaseException] | None) -> None:
    weight = tf.Variable([1.0, 2.0], dtype=tf.float64)
    calls = []

    def f(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        if len(calls) <= 40:  # there are more than a thousand ValueErrors, which end a domain
            _disturb(x)
        if throws is not None and len(calls) > 6:
            raise throws("in the middle")
        return tf.sin(x) * weight

    tf.random.set_seed(5)
    random.seed(5)
    np.random.seed(5)
    expected = _next_numbers()
    tf.random.set_seed(5)
    random.seed(5)
    np.random.seed(5)
    before = _state()
    with pytest.raises(throws, match="in the middle") if throws else nullcontext():
        check(f, 1.0, variables=[weight], order=2)
    assert len(calls) > 6
    assert _state() == before
    assert _next_numbers() == expected
    np.testing.assert_array_equal(weight.numpy(), [1.0, 2.0])


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: tf.boolean_mask(x, tf.random.uniform([24]) < 0.5), np.ones(24)),
        (lambda x: x * tf.random.uniform([], 1, 2, tf.float64), 0.0),
    ],
    ids=["a random number of results", "the same values whatever is drawn"],
)
def test_randomness_is_held_fixed(f: Any, x: Any, unseeded: None) -> None:
    result = check(f, x)
    assert result.verdict == "agree"
    assert result.orders[1].compared > 0
    assert "so that all calls start from the same state: the generator of TensorFlow" in str(result)


def test_a_function_under_tf_function() -> None:
    weight = tf.Variable([1.0, 2.0], dtype=tf.float64)

    @tf.function
    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x * weight)

    assert check(f, c([0.5, -1.0]), variables=[weight], order=2).verdict == "agree"


def test_a_list_of_numbers_is_one_tensor_and_other_lists_are_structures() -> None:
    shapes = []

    def f(x: Any) -> Any:
        shapes.append(getattr(x, "shape", None))
        return tf.reduce_sum(x[0] * x[1])

    assert check(f, [0.5, -1.0]).verdict == "agree"
    assert shapes[0] == (2,)
    shapes.clear()
    assert check(f, [np.array(0.5), 3.0]).verdict == "agree"
    assert shapes[0] is None


def test_a_variable_that_f_assigns_is_named() -> None:
    kernel = tf.Variable([2.0, 3.0], dtype=tf.float64, name="kernel")

    def f(x: Any) -> Any:
        kernel.assign(kernel / tf.norm(kernel))
        return kernel * x

    result = verdicts.check(f, [0.5, 0.7], variables=[kernel])
    assert result.verdict == "mismatch"
    assert any("f assigns variables[0] (kernel:0) itself" in note for note in result.orders[1].notes)
    assert not any("assigns" in note for note in check(lambda x: kernel * x, 0.5, variables=[kernel]).orders[1].notes)


class _Looping(tf.Module):
    def __init__(self) -> None:
        self.factor = tf.Variable([0.5, 1.5], dtype=tf.float64)

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float64)])
    def looped(self, x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.sin(y) * self.factor), [tf.constant(0), x])[1]


def test_a_loop_of_a_saved_model_that_reads_a_variable(tmp_path: Path) -> None:
    """TensorFlow records it on a tape that is not persistent, and on no nested ones."""
    tf.saved_model.save(_Looping(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert check(loaded.looped, [1.0, 2.0], variables=[loaded.factor]).verdict == "agree"
    result = verdicts.check(loaded.looped, [1.0, 2.0], order=2)
    assert (result.orders[1].verdict, result.findings[0].kind) == ("agree", Kind.RAISES)
    assert "handle data" in result.findings[0].reason


def test_a_gradient_that_a_persistent_tape_gives_once_is_right() -> None:
    def sine_by_hand(x: Any) -> Any:
        return tf.py_function(lambda v: tf.sin(v) * v, [x], tf.float64)

    result = verdicts.check(sine_by_hand, [1.0, 2.0], order=2)
    assert (result.orders[1].verdict, result.orders[2].verdict) == ("agree", "mismatch")
    assert result.findings[0].kind == Kind.MISSING  # TensorFlow differentiates tf.py_function once
