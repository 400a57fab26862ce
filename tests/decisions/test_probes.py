"""Large inputs: random probes from both sides find a single wrong entry, and locate it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientInconclusive, Kind, Reason, assert_close
from gradcheck.numerics.probing import directions_at
from gradcheck.problem.function import Function
from gradcheck.verdict import probes
from gradcheck.verdict.suspicion import WIDE
from tests import slices
from tests.verdicts import check


def nearly_identity(size: int, output: int, coordinate: int, error: float) -> Any:
    """y = x with a backward pass whose Jacobian has one wrong entry."""

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            return upstream + tf.one_hot(coordinate, size, dtype=upstream.dtype) * error * upstream[output]

        return tf.identity(x), backward

    return f


@pytest.mark.sliced
@pytest.mark.parametrize("size", [100, 300])
def test_one_wrong_entry_in_an_identity_is_caught_and_located(size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.uniform(0.5, 2.0, size) * rng.choice([-1.0, 1.0], size)
    for _ in range(len(slices.sliced(range(8 if size == 100 else 4), slices.every(4)))):
        output, coordinate = (int(place) for place in rng.integers(size, size=2))
        (finding,) = check(nearly_identity(size, output, coordinate, 1.0), x).findings
        assert (finding.output, finding.index) == (output, (coordinate,))
        assert finding.kind is Kind.WRONG_VALUE
        assert finding.autodiff == float(output == coordinate) + 1.0
        assert "at least this entry is wrong" in finding.reason


def test_probes_that_fail_of_the_wrong_entry_that_was_found_are_in_no_doubt() -> None:
    order = check(nearly_identity(30, 3, 7, 1.0), np.linspace(0.5, 2.0, 30)).orders[1]
    assert (order.verdict, order.compared, order.inconclusive, order.reasons) == ("mismatch", 900, 0, ())
    assert "inconclusive:" not in str(order)


def test_the_right_identity_agrees() -> None:
    x = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    result = check(nearly_identity(300, 0, 0, 0.0), x)
    assert result.verdict == "agree"
    assert result.orders[1].relative_resolution < 1e-8


def scaled_log(factor: Any) -> Any:
    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.math.log(x), lambda upstream: upstream / x * factor

    return f


def test_a_tiny_input_among_a_thousand() -> None:
    x = np.random.default_rng(0).uniform(1.0, 2.0, 1000)
    x[17] = 1e-6
    result = check(tf.math.log, x)
    assert result.verdict == "agree"
    assert result.orders[1].relative_resolution < 2e-7
    factor = np.ones(1000)
    factor[17] = 1 + 1e-7
    (finding,) = check(scaled_log(factor), x).findings
    assert (finding.index, finding.output) == ((17,), 17)
    assert finding.bound is not None
    assert finding.bound < 1e-8 * 1e6
    assert finding.difference == pytest.approx(1e6, rel=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_gradient_that_is_not_finite_among_many(bad: float) -> None:
    factor = np.ones(100)
    factor[61] = bad
    x = np.linspace(1.0, 2.0, 100)
    found = check(scaled_log(factor), x).findings
    assert [(finding.kind, finding.element, finding.output) for finding in found] == [(Kind.NON_FINITE, "x[61]", 61)]
    found = check(lambda x: tf.reduce_sum(scaled_log(factor)(x)), x).findings
    assert [(finding.kind, finding.element) for finding in found] == [(Kind.NON_FINITE, "x[61]")]


def test_a_gradient_without_a_finite_entry_is_wrong_at_those_that_are_looked_at() -> None:
    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.reduce_sum(tf.sin(x)), lambda upstream: upstream * tf.fill(tf.shape(x), tf.constant(np.nan, x.dtype))

    result = check(f, np.linspace(0.5, 2.0, 30))
    assert [finding.kind for finding in result.findings] == [Kind.NON_FINITE]
    assert result.orders[1].reasons == (Reason.TOO_EXPENSIVE,)


def test_infinite_slopes_among_many_are_inconclusive() -> None:
    x = np.linspace(1.0, 2.0, 100)
    x[40] = 0.0
    result = check(lambda x: tf.reduce_sum(tf.sqrt(x)), x)
    assert result.verdict == "inconclusive"
    assert result.orders[1].reasons == (Reason.JUMP,)
    assert result.orders[1].compared > 0


def test_missing_among_many() -> None:
    def f(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return x**2 + tf.stop_gradient(y) * 3.0

    found = check(f, np.linspace(1.0, 2.0, 40), np.linspace(-1.0, 1.0, 40)).findings
    assert [(finding.kind, finding.input) for finding in found] == [(Kind.MISSING, "y")]


def test_few_inputs_many_outputs_and_the_reverse() -> None:
    matrix = np.random.default_rng(1).normal(size=(100, 3))
    skewed = matrix.copy()
    skewed[70, 1] += 1e-6

    @tf.custom_gradient
    def wide(x: tf.Tensor) -> Any:
        return tf.linalg.matvec(matrix, x), lambda upstream: tf.linalg.matvec(skewed, upstream, transpose_a=True)

    @tf.custom_gradient
    def tall(x: tf.Tensor) -> Any:
        return tf.linalg.matvec(matrix.T, x), lambda upstream: tf.linalg.matvec(skewed.T, upstream, transpose_a=True)

    assert check(lambda x: tf.linalg.matvec(matrix, x), np.ones(3)).verdict == "agree"
    assert check(lambda x: tf.linalg.matvec(matrix.T, x), np.ones(100)).verdict == "agree"
    (finding,) = check(wide, np.ones(3)).findings
    assert (finding.output, finding.index) == (70, (1,))
    (finding,) = check(tall, np.ones(100)).findings
    assert (finding.output, finding.index) == (1, (70,))


def test_tolerance_over_probes() -> None:
    x = np.linspace(1.0, 2.0, 100)
    factor = np.ones(100)
    factor[5] = 1 + 1e-5
    assert check(scaled_log(factor), x).verdict == "mismatch"
    assert check(scaled_log(factor), x, rtol=1e-4).verdict == "agree"
    (finding,) = check(scaled_log(factor), x, rtol=1e-7).findings
    assert finding.index == (5,)


def test_no_measured_rounding_excuses_a_probe_that_is_off_by_the_largest_term(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = SimpleNamespace(beside=lambda low, _: np.full(low.shape, 1e6), lost=0.0)
    monkeypatch.setattr(probes, "slope_rounding", lambda *_: measured)

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        wrong = tf.constant(np.where(np.arange(100) == 7, 2.0, 1.0))
        return tf.reduce_sum(tf.sin(x)), lambda upstream: upstream * wrong * tf.cos(x)

    (finding,) = check(f, np.linspace(0.1, 0.5, 100)).findings
    assert finding.index == (7,)


def test_float32_among_many() -> None:
    x = np.random.default_rng(0).normal(size=60).astype(np.float32)
    assert check(tf.nn.softmax, x).verdict == "agree"

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda upstream: upstream * tf.cos(x) * (1 + 0.01 * tf.one_hot(41, 60, dtype=x.dtype))

    (finding,) = check(f, x).findings
    assert (finding.output, finding.index) == (41, (41,))


def test_a_smooth_sum_of_ties_among_many_is_no_excuse() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.maximum(x, 1.0) + tf.minimum(x, 1.0))

    x = np.linspace(1.5, 2.0, 40)
    assert check(f, x).verdict == "agree"
    x[7] = 1.0
    (finding,) = check(f, x).findings
    assert (finding.element, finding.autodiff) == ("x[7]", 2.0)


def test_too_many_kinked_outputs_are_left_and_said_so() -> None:
    result = check(tf.nn.relu, np.zeros(100))
    assert result.verdict == "inconclusive"
    assert Reason.TOO_EXPENSIVE in result.orders[1].reasons


def powers(error: float = 0.0, place: int = 0) -> Any:
    """Squares, with a backward pass that has a relative error in one entry."""

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        factor = 1 + error * tf.one_hot(place, x.shape[0], dtype=x.dtype)
        return tf.square(x), lambda upstream: upstream * 2 * x * factor

    return f


@pytest.mark.sliced
def test_a_dozen_inputs_are_looked_at_together_first() -> None:
    x = np.linspace(0.5, 2.0, 12)
    order = check(powers(), x).orders[1]
    assert (order.verdict, order.compared) == ("agree", 144)
    assert order.notes == ("144 entries were compared together, in 1 random combination",)
    for place in slices.sliced(range(12), lambda places: (0, 5, 11)):
        result = check(powers(1e-8, place), x)
        assert [finding.index for finding in result.findings] == [(place,)]
        assert result.orders[1].notes == ()


def test_what_is_faint_beside_the_others_is_looked_at_by_itself() -> None:
    def total(error: float = 0.0) -> Any:
        return lambda x: tf.reduce_sum(powers(error)(x))

    x = np.geomspace(1e-4, 1.0, 12)
    order = check(total(), x).orders[1]
    assert (order.verdict, order.compared, order.notes) == ("agree", 12, ())
    (finding,) = check(total(1e-3), x).findings
    assert finding.index == (0,)
    faint = np.ones((12, 4)) * [1.0, 1.0, 1.0, 1e-8]

    @tf.custom_gradient
    def four(x: tf.Tensor) -> Any:
        wrong = tf.constant(faint * [1, 1, 1, 1 + 1e-4])
        return tf.linalg.matvec(faint.T, x), lambda upstream: tf.linalg.matvec(wrong, upstream)

    assert {finding.output for finding in check(four, np.linspace(0.5, 2.0, 12)).findings} == {3}


def test_a_derivative_that_is_lost_at_a_tiny_input_is_found() -> None:
    @tf.custom_gradient
    def total(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x), lambda upstream: upstream * tf.constant([1.0] * 8 + [0.0], x.dtype)

    x = np.append(np.linspace(0.5, 2.0, 8), 1e-12)
    (finding,) = check(total, x).findings
    assert finding.index == (8,)


@slices.parametrized("seed", range(6), slices.every(6))
def test_a_fault_in_bfloat16_is_found_whichever_combinations_cancel(seed: int) -> None:
    x = tf.cast(np.random.default_rng(seed).normal(size=(1, 3, 3, 1)), "bfloat16")
    layer = tf.keras.layers.UpSampling2D(interpolation="bilinear", dtype="bfloat16")

    @tf.custom_gradient
    def wrong(y: tf.Tensor) -> Any:
        return tf.identity(y), lambda upstream: -4.0 * upstream

    assert check(lambda x: wrong(layer(x)), x).verdict == "mismatch"


def test_a_first_look_at_a_large_function_takes_its_outputs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gradient, whose inputs are not drawn a second time for second order; errors are still found."""
    cotangents: list[int] = []
    draws: list[Any] = []
    gradients = Function.gradients

    def counted(self: Function, weights: Any, point: Any = None) -> Any:
        cotangents.append(len(weights))
        return gradients(self, weights, point)

    def drawn(*arguments: Any) -> Any:
        draws.append(arguments)
        return directions_at(*arguments)

    monkeypatch.setattr(Function, "gradients", counted)
    monkeypatch.setattr("gradcheck.problem.problem.directions_at", drawn)
    x = np.random.default_rng(0).uniform(0.5, 2.0, WIDE + 1)

    def f(x: Any) -> Any:
        return tf.stack([tf.reduce_sum(tf.sin(x) * x), tf.reduce_sum(x**3), tf.reduce_mean(tf.exp(x))])

    assert check(f, x, order=2).verdict == "agree"
    assert cotangents == [1, 1]  # the first of the sum, which says what is connected
    assert len(draws) == 2  # the direction, and the left vector
    assert check(f, x.astype(np.float32)).verdict == "agree"
    assert cotangents[2:] == [1, 3]  # and none of the float64 form

    @tf.custom_gradient
    def planted(x: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return 3 * x**2 * upstream[0] + upstream[1] * (1 + 0.5 * tf.one_hot(7, WIDE + 1, dtype=x.dtype))

        return tf.stack([tf.reduce_sum(x**3), tf.reduce_sum(x)]), backward

    (finding,) = check(planted, x).findings
    assert (finding.output, finding.index) == (1, (7,))


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [25, 24, 30])
def test_outputs_that_jump_are_not_compared_by_combinations_without_them(size: int) -> None:
    with pytest.raises(GradientInconclusive) as caught:
        assert_close(lambda x: tf.reduce_sum(tf.where(x >= 0, x + 1.0, x)), np.zeros(size))
    assert caught.value.result is not None
    jumps = caught.value.result.orders[1]
    assert (jumps.verdict, jumps.compared, jumps.reasons) == ("inconclusive", 0, (Reason.JUMP,))


@pytest.mark.parametrize(("error", "verdict"), [(0.3, "mismatch"), (0.05, "agree")])
def test_a_tolerance_is_for_single_entries_not_for_their_sum(error: float, verdict: str) -> None:
    size = 10_000

    @tf.custom_gradient
    def total(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x), lambda dy: dy * (1 + error * tf.one_hot(7, size, dtype=x.dtype))

    assert check(total, np.ones(size), rtol=0.1).verdict == verdict
