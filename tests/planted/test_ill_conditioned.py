"""Errors that rounding excuses, compared with mpmath: right functions that lose digits, and errors planted in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from gradcheck.numerics.difference import EXCLUSION
from gradcheck.problem.opening import open_function
from gradcheck.result import Verdict
from gradcheck.verdict.first_order import compare_first
from gradcheck.verdict.tables import Comparison, Tolerance
from tests import slices
from tests.verdicts import check

Array = np.ndarray[Any, Any]

POINTS, SHARE = 12, 1 if slices.whole else 2
"""Points drawn for a formula, of which the test command takes one in SHARE."""


class Exact:
    """mpmath by TensorFlow's names."""

    exp, log, sin, cos, cosh, sinh, sqrt, tanh = (
        *(mpmath.exp, mpmath.log, mpmath.sin, mpmath.cos),
        *(mpmath.cosh, mpmath.sinh, mpmath.sqrt, mpmath.tanh),
    )
    asin = mpmath.asin

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mpmath.exp(-x))


class Lossy(NamedTuple):
    """A formula in a module of functions, and the range of magnitudes around a centre in which its points are drawn."""

    formula: Callable[[Any, Any], Any]
    low: float
    high: float
    centre: float = 0.0

    def points(self) -> Array:
        rng = np.random.default_rng(11)
        sizes = np.exp(rng.uniform(np.log(self.low), np.log(self.high), POINTS))
        points = self.centre + sizes * rng.choice([-1.0, 1.0], POINTS)
        return np.array(slices.sliced(points, slices.every(SHARE)))

    def tensors(self, x: Any) -> Any:
        return self.formula(tf.math, x)

    def slopes(self, x: Array) -> Array:
        """The exact derivatives of the formula at float64 points."""
        with mpmath.workdps(60):
            exact = [mpmath.diff(lambda t: self.formula(Exact, t), mpmath.mpf(float(value)), h=1e-25) for value in x]
            return np.array([float(slope) for slope in exact])


def expanded(_: Any, x: Any) -> Any:
    """(x - 1)**5, in a form that loses digits."""
    return x * (x * (x * (x * (x - 5.0) + 10.0) - 10.0) + 5.0) - 1.0


LOSSY = {
    "(exp(x) - 1) / x": Lossy(lambda m, x: (m.exp(x) - 1.0) / x, 1e-9, 1e-1),
    "x + 1e5 - 1e5 + sin x": Lossy(lambda m, x: (x + 1e5) - 1e5 + m.sin(x), 1e-3, 10),
    "1 - cos x": Lossy(lambda m, x: 1.0 - m.cos(x), 1e-6, 1),
    "(1 - cos x) / x^2": Lossy(lambda m, x: (1.0 - m.cos(x)) / (x * x), 1e-5, 1),
    "log(1 + x)": Lossy(lambda m, x: m.log(1.0 + x), 1e-9, 0.5),
    "cosh x - sinh x": Lossy(lambda m, x: m.cosh(x) - m.sinh(x), 1, 15),
    "sqrt(x + 1e6) - 1e3": Lossy(lambda m, x: m.sqrt(x + 1e6) - 1e3, 1e-3, 1e3),
    "x - sin x": Lossy(lambda m, x: x - m.sin(x), 1e-3, 1),
    "(x - 1)^5 expanded": Lossy(expanded, 1e-3, 0.5, centre=1.0),
    "x^2 - y^2 near a tie": Lossy(lambda m, x: (x * x - 1.0) * (x * x - 1.0) / (x - 1.0), 1e-7, 1e-2, centre=1.0),
    "asin(sigmoid(31 + x))": Lossy(lambda m, x: m.asin(m.sigmoid(31.0 + x)), 1e-3, 2),
    "log(sigmoid(30 + x))": Lossy(lambda m, x: m.log(m.sigmoid(30.0 + x)), 1e-3, 3),
    "log(exp(x) + exp(-x))": Lossy(lambda m, x: m.log(m.exp(x) + m.exp(-x)) - x, 1, 16),
    "1 - tanh^2": Lossy(lambda m, x: 1.0 - m.tanh(x) * m.tanh(x), 1, 12),
    "a product with zeros": Lossy(lambda m, x: (x - 1.0) * ((x + 1e3) - 1e3) * m.exp(x), 1e-8, 1, centre=1.0),
}


def compared(f: Callable[[Any], Any], x: Array) -> Comparison:
    """The entries of f at the points x, each with its own output."""
    each = np.eye(x.size)
    return compare_first(open_function(f, (x,), None), each, each, Tolerance())


@cache
def comparison_of(name: str) -> Comparison:
    """The comparison of a formula as it is, at its points."""
    return compared(LOSSY[name].tensors, LOSSY[name].points())


def entries(table: Comparison) -> tuple[Array, Array, Array]:
    """Which points agree, autodiff's values there, and their possible errors: a bound and a rounding each."""
    agree = np.diagonal(table.where(Verdict.AGREE))
    return agree, np.diagonal(table.autodiff)[agree], np.diagonal(table.allowed)[agree] / EXCLUSION


def with_error(lossy: Lossy, x: Array, error: Array) -> Callable[[Any], Any]:
    """The function with a slope that is wrong by `error` (n,), but only exactly at the points `x` (n,)."""

    @tf.custom_gradient
    def nothing(t: Any) -> Any:
        return tf.zeros_like(t), lambda upstream: upstream * tf.where(t == x, error, 0.0)

    return lambda t: lossy.tensors(t) + nothing(t)


@slices.parametrized("name", LOSSY, slices.every(2))
def test_what_is_granted_covers_the_true_error(name: str) -> None:
    lossy = LOSSY[name]
    x = lossy.points()
    table = comparison_of(name)
    agree, autodiff, granted = entries(table)
    assert not table.any(Verdict.MISMATCH)
    assert (np.abs(autodiff - lossy.slopes(x)[agree]) <= granted).all()
    assert check(lossy.tensors, x[: 4 // SHARE], order=2).verdict != Verdict.MISMATCH


@pytest.mark.sliced
def test_no_more_is_granted_than_the_values_ask_for() -> None:
    """Where digits are lost, the median allowance is less than 2,000 times the true error: 600 was observed."""
    ratios = []
    for name, lossy in LOSSY.items():
        agree, autodiff, granted = entries(comparison_of(name))
        error = np.abs(autodiff - lossy.slopes(lossy.points())[agree])
        lost = error > 4 * np.finfo(np.float64).eps * np.abs(autodiff)
        ratios += list(granted[lost] / error[lost])
    assert len(ratios) > 40 // SHARE
    assert np.median(ratios) < 2000


@slices.parametrized("name", LOSSY, slices.every(4))
def test_an_error_above_what_is_stated_never_agrees(name: str) -> None:
    table, error = spoilt(name, 3)
    assert not (np.diagonal(table.where(Verdict.AGREE)) & (np.diagonal(table.allowed) < error)).any()
    assert not np.diagonal(table.where(Verdict.MISMATCH))[error == 0].any()


@pytest.mark.sliced
def test_errors_above_what_is_stated_are_found() -> None:
    """At thirty times the stated resolution, 89 % are; the others are inconclusive, or agree within more than that."""
    found: list[bool] = []
    names = slices.sliced(LOSSY, lambda names: names[2::5])
    for name in names:
        table, error = spoilt(name, 30)
        found += list(np.diagonal(table.where(Verdict.MISMATCH))[error != 0])
    assert len(found) > 140 / SHARE * len(names) / len(LOSSY)
    assert np.mean(found) > 0.85


def spoilt(name: str, times: float) -> tuple[Comparison, Array]:
    """The comparison with errors of `times` the stated resolution, and these errors (0: no agreement)."""
    x = LOSSY[name].points()
    agree, _, granted = entries(comparison_of(name))
    error = np.zeros(x.size)
    error[agree] = times * EXCLUSION * granted
    return compared(with_error(LOSSY[name], x, error), x), error


ORDERS = (1, 2)


def beside_a_saturated_probability(x: tf.Tensor) -> tf.Tensor:
    """Its derivative by the larger logit is that of asinh, 2 / size, plus what the steps leave of terms of
    log(size)."""
    small, large = tf.unstack(tf.nn.log_softmax(x))
    return tf.asinh(small) * (2.0 + large)


@slices.parametrized("size", [1e4, 1e6, 1e8, 1e10, 1e12], slices.every(4))
def test_what_the_sum_of_a_row_leaves_is_as_exact_as_the_row(size: float) -> None:
    x = np.array([-size, 1.3 * size])
    with mpmath.workdps(60):
        exact = -2 / mpmath.sqrt(1 + mpmath.mpf(2.3 * size) ** 2)
    point = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        value = beside_a_saturated_probability(point)
    off = abs(float(tape.gradient(value, point)[1] / float(exact)) - 1)
    assert off > 1e-18 * size
    for order in slices.sliced(ORDERS, lambda _: ORDERS[-1:]):  # which checks the first as well
        assert check(beside_a_saturated_probability, x, order=order).verdict != Verdict.MISMATCH


@pytest.mark.parametrize("order", [1, 2])
def test_an_error_in_the_gradient_of_a_row_is_seen(order: int) -> None:
    @tf.custom_gradient
    def slightly_wrong(x: tf.Tensor) -> Any:
        return x, lambda upstream: upstream * (1 + 1e-6)

    wrong = check(lambda x: beside_a_saturated_probability(slightly_wrong(x)), np.array([-30.0, 1.0]), order=order)
    assert wrong.verdict == Verdict.MISMATCH


FLOAT32_ROWS: dict[str, Callable[[Any], Any]] = {
    "softmax": tf.nn.softmax,
    "exp of log_softmax": lambda x: tf.exp(tf.nn.log_softmax(x)),
    "exp of x - logsumexp": lambda x: tf.exp(x - tf.reduce_logsumexp(x)),
    "by hand": lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x)),
}


LARGEST = (5.0, 12.0, 20.0)


def behind_a_probability(name: str) -> Callable[[Any], Any]:
    return lambda x: tf.reduce_sum([1.14, 0.5, 0.44] * FLOAT32_ROWS[name](x)) - 1.0


@slices.parametrized(
    ("name", "largest", "order"),
    product(FLOAT32_ROWS, LARGEST, ORDERS),
    lambda _: zip(FLOAT32_ROWS, (*LARGEST, LARGEST[0]), ORDERS * 2, strict=True),
)
def test_what_single_precision_rounds_away_behind_a_probability_is_not_called_wrong(
    name: str, largest: float, order: int
) -> None:
    """Where one probability rounds to one, its slope p (1 - p) is lost around the point, in the backward pass alone."""
    x = np.array([largest, 3.0, -1.0], np.float32)
    assert check(behind_a_probability(name), x, order=order).verdict != Verdict.MISMATCH


@slices.parametrized(
    ("name", "order"),
    product(FLOAT32_ROWS, ORDERS),
    lambda cases: cases[1:5:3],  # each order once
)
def test_an_error_of_a_hundredth_behind_a_probability_is(name: str, order: int) -> None:
    @tf.custom_gradient
    def wrong(x: tf.Tensor) -> Any:
        return x, lambda upstream: 1.01 * upstream

    x = np.array([3.5, 3.0, -1.0], np.float32)
    assert check(lambda x: behind_a_probability(name)(wrong(x)), x, order=order).verdict == Verdict.MISMATCH
