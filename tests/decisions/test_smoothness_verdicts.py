"""Points that are not smooth: the verdict at both orders for every example of the design."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import Kind, Reason, Result, Verdict
from tests.verdicts import check

relu = tf.nn.relu


def verdicts(result: Result) -> tuple[str, str]:
    return result.orders[1].verdict, result.orders[2].verdict


def kinks(result: Result) -> bool:
    return any("at a kink" in note for note in result.orders[1].notes)


@pytest.mark.parametrize(
    ("f", "point"),
    [
        (relu, [0.0]),
        (tf.abs, [0.0]),
        (tf.maximum, [1.0, 1.0]),
        (tf.minimum, [-2.0, -2.0]),
        (tf.reduce_max, [np.array([1.0, 1.0, 0.5])]),
        (lambda x: relu(x - 1.0), [1.0]),
        (lambda x: tf.abs(x) + x**2, [0.0]),
    ],
)
def test_kinks_agree_at_first_order_and_have_no_second(f: Any, point: list[Any]) -> None:
    result = check(f, *point, order=2)
    assert verdicts(result) == ("agree", "inconclusive")
    assert kinks(result)
    assert result.orders[2].reasons == (Reason.HIGHER_KINK,)


@pytest.mark.parametrize("slope", [-1.0001, 1.0001, 3.0, np.nan, np.inf])
def test_outside_of_the_slopes_at_a_kink(slope: float) -> None:
    result = check(tf.abs, 0.0, gradient=slope)
    (finding,) = result.findings
    assert finding.kind is Kind.SUBDIFFERENTIAL
    assert "the one-sided slopes lie between -1 and 1" in finding.reason


@pytest.mark.parametrize("slope", [-1.0, -0.3, 0.0, 1.0])
def test_every_subgradient_is_accepted(slope: float) -> None:
    assert check(tf.abs, 0.0, gradient=slope).verdict == "agree"


def test_slopes_that_one_row_only_takes_for_those_of_a_kink_allow_nothing() -> None:
    """|x| (2 + sin(2 pi log4 |x|)) has no one-sided slopes at 0; steps of ratio 4 see |x| times a number."""

    def wavy(x: tf.Tensor) -> tf.Tensor:
        size = tf.abs(x)
        turns = tf.math.log(tf.where(size > 0, size, 1.0)) / np.log(4.0)
        return size * (2.0 + tf.sin(2 * np.pi * turns))

    assert check(wavy, 0.0, gradient=15.0).verdict == "inconclusive"


def test_missing_at_a_kink() -> None:
    (finding,) = check(lambda x: tf.abs(x) + 3 * x, 0.0, gradient=[None]).findings
    assert finding.kind is Kind.MISSING


def test_the_slopes_are_looked_at_per_output_and_not_after_a_projection() -> None:
    # The sum of both outputs is smooth and its derivative right; each output by itself is outside of its slopes.
    @tf.custom_gradient
    def split(x: tf.Tensor) -> Any:
        return (relu(x), -relu(-x)), lambda one, two: 2 * one - two

    found = check(split, 0.0).findings
    assert {finding.kind for finding in found} == {Kind.SUBDIFFERENTIAL}


def test_an_infinite_curvature_is_checked_at_first_order_and_is_not_nan() -> None:
    result = check(lambda x: tf.abs(x) ** 1.5, 0.0, order=2)
    assert [(one.order, one.kind) for one in result.findings] == [(2, Kind.NON_FINITE)]


@pytest.mark.parametrize("f", [lambda x: x * tf.abs(x), lambda x: relu(x) ** 2])
def test_curvature_jumps_are_checked_at_first_order_only(f: Any) -> None:
    result = check(f, 0.0, order=2)
    assert verdicts(result) == ("agree", "inconclusive")
    assert not kinks(result)
    assert result.orders[2].reasons == (Reason.HIGHER_KINK,)
    assert check(f, 0.0, gradient=1e-3).verdict == "mismatch"


def test_a_jump() -> None:
    result = check(tf.floor, 1.0, order=2)
    assert verdicts(result) == ("inconclusive", "inconclusive")
    assert result.orders[1].reasons == (Reason.JUMP,)


def test_beside_a_jump() -> None:
    assert verdicts(check(tf.floor, 1.5, order=2)) == ("agree", "agree")


def test_an_infinite_slope() -> None:
    result = check(tf.sqrt, 0.0, order=2)
    assert verdicts(result) == ("inconclusive", "inconclusive")
    assert result.orders[1].reasons == (Reason.JUMP,)


@pytest.mark.parametrize(
    ("f", "x"), [(lambda x: relu(x - 1.0), 1.00001), (lambda x: relu(1.0 - x), 1.00001), (relu, 1e-5)]
)
def test_near_a_kink_is_smooth(f: Any, x: float) -> None:
    result = check(f, x, order=2)
    assert verdicts(result) == ("agree", "agree")
    assert not kinks(result)
    assert check(f, x, gradient=0.5).findings[0].kind is Kind.WRONG_VALUE


def test_flat_along_both_axes_but_not_between_them() -> None:
    def saddle(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.maximum(tf.minimum(x, y), tf.minimum(-x, -y))

    result = check(saddle, 0.0, 0.0, order=2)
    assert verdicts(result) == ("inconclusive", "inconclusive")
    assert Reason.COMPOSED_KINK in result.orders[1].reasons


@pytest.mark.parametrize(
    ("size", "signs"), [*((3, signs) for signs in [(1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1)]), (30, (1, -1, 1))]
)
def test_a_kink_in_a_single_orthant_is_no_mismatch(size: int, signs: tuple[int, ...]) -> None:
    """At zero a subgradient of either is right, while the function is flat, or smooth, along all axes."""
    signed = np.resize(signs, size).astype(float)

    def of_three(x: Any) -> Any:
        first, second, third = tf.unstack((signed * x)[-3:])
        return tf.maximum(tf.minimum(tf.minimum(first, second), third), 0)

    def of_all(x: Any) -> Any:
        return tf.maximum(tf.reduce_min(signed * x), 0) + tf.reduce_sum(tf.sin(x))

    for f in (of_three, of_all):
        result = check(f, np.zeros(size)).orders[1]
        assert (result.verdict, result.reasons) == (Verdict.INCONCLUSIVE, (Reason.COMPOSED_KINK,))


def test_a_curvature_that_jumps_in_a_single_octant_is_no_mismatch() -> None:
    for least in (tf.reduce_min, lambda x: tf.minimum(tf.minimum(x[0], x[1]), x[2])):
        result = check(lambda x, least=least: tf.maximum(least(x), 0) ** 2, np.zeros(3), order=2)
        assert result.orders[1].verdict == Verdict.AGREE
        assert (result.orders[2].verdict, result.orders[2].reasons) == (Verdict.INCONCLUSIVE, (Reason.HIGHER_KINK,))


def test_a_wrong_gradient_beside_such_a_kink_is_still_a_mismatch() -> None:
    def wrong(x: Any) -> Any:
        return tf.maximum(tf.reduce_min(x[:3]), 0) + 1.1 * x[3] ** 2 - tf.stop_gradient(0.1 * x[3] ** 2)

    result = check(wrong, np.array([0.0, 0.0, 0.0, 1.0])).orders[1]
    assert {finding.element for finding in result.findings} == {"x[3]"}


@pytest.mark.parametrize(
    "kinked",
    [
        lambda a, b: tf.maximum(0.0 * a, tf.minimum(a, b)),
        lambda a, b: tf.minimum(tf.abs(a), tf.abs(b)),
        lambda a, b: tf.sqrt(tf.minimum(tf.abs(a), tf.abs(b))),
    ],
)
def test_a_kink_of_other_coordinates_is_no_excuse(kinked: Any) -> None:
    @tf.custom_gradient
    def steeper(x: tf.Tensor) -> Any:
        return tf.sin(x), lambda upstream: 1.3 * upstream * tf.cos(x)

    findings = check(lambda x: kinked(x[0], x[1]) + steeper(x[2]), [0.0, 0.0, 1.0]).findings
    assert "x[2]" in {finding.element for finding in findings if finding.kind is Kind.WRONG_VALUE}


def test_a_smooth_composition_of_kinks_is_no_excuse() -> None:
    (finding,) = check(lambda x: relu(x) - relu(-x), 0.0).findings
    assert finding.kind is Kind.WRONG_VALUE
    assert finding.autodiff == 0.0
    assert finding.difference == pytest.approx(1.0, abs=1e-12)


def test_a_smooth_sum_of_ties_is_no_excuse() -> None:
    def f(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.maximum(x, y) + tf.minimum(x, y)

    with tf.GradientTape() as tape:
        x, y = tf.constant(1.0, tf.float64), tf.constant(1.0, tf.float64)
        tape.watch([x, y])
        z = f(x, y)
    assert [float(part) for part in tape.gradient(z, [x, y])] == [2.0, 0.0]
    found = check(f, 1.0, 1.0).findings
    assert [(finding.input, finding.kind, finding.autodiff) for finding in found] == [
        ("x", Kind.WRONG_VALUE, 2.0),
        ("y", Kind.WRONG_VALUE, 0.0),
    ]


def test_a_root_of_a_power_is_smooth() -> None:
    (finding,) = check(lambda x: tf.sqrt(x**4), 0.0).findings
    assert finding.kind is Kind.NON_FINITE


def test_nan_from_the_branch_that_where_did_not_take() -> None:
    # sin(x) / x is smooth at 0, with derivative 0 and second derivative -1/3.
    def sinc(x: tf.Tensor) -> tf.Tensor:
        return tf.where(x == 0, 1.0 - x**2 / 6, tf.sin(x) / x)

    def safe(x: tf.Tensor) -> tf.Tensor:
        inner = tf.where(x == 0, tf.ones_like(x), x)
        return tf.where(x == 0, 1.0 - x**2 / 6, tf.sin(inner) / inner)

    found = check(sinc, np.array([1.0, 0.0])).findings
    assert {(finding.kind, finding.element) for finding in found} == {(Kind.NON_FINITE, "x[1]")}
    assert str(found[0].autodiff) == "nan"
    assert found[0].difference == pytest.approx(0.0, abs=1e-9)
    assert check(safe, np.array([1.0, 0.0]), order=2).verdict == "agree"


@tf.custom_gradient
def straight_through(x: tf.Tensor) -> Any:
    return tf.round(4 * x) / 4, lambda upstream: upstream


@pytest.mark.parametrize("x", [1.3, 0.2, -3.1])
def test_a_straight_through_estimator_is_a_staircase(x: float) -> None:
    result = check(straight_through, x)
    assert result.verdict == "inconclusive"
    assert result.orders[1].reasons == (Reason.STAIRCASE,)


@pytest.mark.parametrize("x", [1.3, 2.7, 0.4])
def test_lost_digits_are_no_staircase_of_the_function(x: float) -> None:
    result = check(lambda x: (x + 1e16) - 1e16, x)
    assert result.verdict == "inconclusive"
    assert result.orders[1].reasons == (Reason.ILL_CONDITIONED,)


@pytest.mark.parametrize("wrapped", [lambda f: f, tf.function])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "agree"), (1.0 + 1e-4, "mismatch")])
def test_a_term_that_is_a_staircase_of_rounding(wrapped: Any, factor: float, verdict: str) -> None:
    """The phase is rounded to 1e-10: between its steps only the square varies, whose slope alone would look exact."""

    @tf.custom_gradient
    def scaled(x: tf.Tensor) -> Any:
        return x, lambda upstream: factor * upstream

    result = check(wrapped(lambda x: scaled(tf.sin(1.86e-4 * x + 6e5) * 0.0018 + x**2)), 0.005, order=2)
    assert result.orders[1].verdict == verdict
    assert result.orders[2].verdict != "mismatch" or factor != 1.0


def test_a_flat_function_is_no_staircase() -> None:
    @tf.custom_gradient
    def dead(x: tf.Tensor) -> Any:
        return relu(x), lambda upstream: upstream

    @tf.custom_gradient
    def shrunk(x: tf.Tensor) -> Any:
        return tf.sign(x) * relu(tf.abs(x) - 0.5), lambda upstream: upstream

    assert check(dead, -1.0).findings[0].kind is Kind.WRONG_VALUE
    assert [finding.index for finding in check(shrunk, [0.0, 1.5]).findings] == [(0,)]
    assert check(straight_through, 1.3, gradient=2.0).findings[0].kind is Kind.WRONG_VALUE


def test_many_inputs_some_at_a_kink() -> None:
    x = np.random.default_rng(0).normal(size=100)
    x[::9] = 0.0
    result = check(relu, x)
    assert result.verdict == "agree"
    assert kinks(result)
    assert result.orders[1].inconclusive == 0


def test_one_wrong_input_among_many_at_a_kink() -> None:
    wrong = np.zeros(60)
    wrong[31] = 0.25

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return relu(x), lambda upstream: upstream * (tf.cast(x > 0, x.dtype) + wrong)

    x = np.random.default_rng(0).normal(size=60)
    x[::9] = 0.0
    x[31] = -0.7
    found = check(f, x).findings
    assert [(finding.element, finding.output, finding.kind) for finding in found] == [("x[31]", 31, Kind.WRONG_VALUE)]


@pytest.mark.parametrize(
    ("f", "slope", "wrong"),
    [(lambda x: tf.tanh(1e10 * x), 1e10, 2e10), (lambda x: x * tf.tanh(1e10 * x), 0.0, 0.5)],
    ids=["a steep tanh is no jump", "a rounded corner is no kink"],
)
def test_what_a_finer_row_shows_to_be_smooth_excuses_nothing(f: Any, slope: float, wrong: float) -> None:
    zero = np.zeros(1)
    assert check(f, zero, gradient=np.array([slope])).verdict == "agree"
    result = check(f, zero, gradient=np.array([wrong]))
    assert result.verdict == "mismatch"
    assert result.findings[0].kind is Kind.WRONG_VALUE


def test_a_branch_that_a_rounding_would_leave_hides_no_wrong_derivative() -> None:
    """The difference of two arc tangents at x y = -1, where its formula divides by zero and a constant is selected."""

    def difference(x: Any, y: Any) -> Any:
        product, sign = x * y, tf.sign(x - y)
        edge = tf.equal(product, -1.0)
        angle = tf.atan((x - y) / tf.where(edge, tf.ones_like(x), 1 + product))
        angle += tf.where(product < -1.0, sign * np.pi, tf.zeros_like(x))
        return tf.where(edge, sign * np.pi / 2, angle)

    order = check(difference, 2.0, -0.5).orders[1]
    assert [(one.input, one.kind, one.autodiff) for one in order.findings] == [
        ("x", Kind.WRONG_VALUE, 0.0),
        ("y", Kind.WRONG_VALUE, 0.0),
    ]
    assert [one.difference for one in order.findings] == pytest.approx([0.2, -0.8], rel=1e-9)
