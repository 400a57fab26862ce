"""Functions that a single term of verdicts decides: without it, they have another verdict."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.result import OrderResult, Reason, Verdict
from gradcheck.verdict import terms
from gradcheck.verdict.terms import FIRST_ORDER, GRADIENT_DIFFERENCES, SWING, VALUE_DIFFERENCES, Term, Terms
from tests import slices
from tests.planting import planted
from tests.verdicts import check

AGREE, INCONCLUSIVE, MISMATCH = Verdict

LISTS = {
    "FIRST_ORDER": FIRST_ORDER,
    "GRADIENT_DIFFERENCES": GRADIENT_DIFFERENCES,
    "SWING": SWING,
    "VALUE_DIFFERENCES": VALUE_DIFFERENCES,
}


def given(value: Any, slope: Any, curvature: Any) -> Any:
    """A function with the gradient `slope`, whose derivative is `curvature`, whatever its values are."""

    @tf.custom_gradient
    def gradient(x: Any) -> Any:
        return slope(x), lambda upstream: upstream * curvature(x)

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return value(x), lambda upstream: upstream * gradient(x)

    return f


def stairs(x: Any, width: float) -> Any:
    return tf.floor(x / width) * width


def small_stairs(x: Any) -> Any:
    """A function that jumps by a part in 310,000 at 0.31, where 1e6 x is a whole number."""
    return x * tf.floor(1e6 * x)


def rough(right: Any) -> Any:
    """A derivative that has lost all of its digits: it scatters from one input to the next."""
    return lambda x: right(x) * (1.0 + 0.5 * tf.sin(1e18 * x))


def bump(x: Any) -> Any:
    """A slope that is 1e-9 wide at 1, narrower than the usual steps."""
    near = (x - 1.0) * 1e9
    return 1e-9 * near * tf.exp(-(near**2))


def bump_slope(x: Any) -> Any:
    near = (x - 1.0) * 1e9
    return (1 - 2 * near**2) * tf.exp(-(near**2))


def untraceable_square(x: Any) -> Any:
    """A square in single precision without a form in float64."""
    return tf.numpy_function(lambda value: np.float32(np.float64(value) ** 2), [x], np.float32)


def saddle(x: Any) -> Any:
    return tf.maximum(tf.minimum(x[0], x[1]), tf.minimum(-x[0], -x[1]))


def corner(x: Any) -> Any:
    """A function whose second derivative by either coordinate jumps in the first quadrant alone."""
    return tf.maximum(tf.minimum(x[0], x[1]), 0) ** 2


@dataclass(frozen=True)
class Case:
    """A function at a point, the verdict, and the verdict without the term."""

    f: Callable[..., Any]
    x: Any
    verdict: Verdict
    reasons: tuple[Reason, ...]
    without: Verdict
    without_reasons: tuple[Reason, ...] = ()
    options: dict[str, float] = field(default_factory=dict)


def saturated(x: Any) -> Any:
    """In single precision tanh rounds to one, and its slope 1 - y**2 to zero."""
    return tf.reduce_sum(tf.tanh(x)) - 1.0


SATURATED = np.array([9.0], np.float32)

ILL, COARSE, HIGHER = (Reason.ILL_CONDITIONED,), (Reason.TOO_COARSE,), (Reason.HIGHER_KINK,)

CASES = {
    ("FIRST_ORDER", "cancelled terms"): Case(
        lambda x: tf.math.imag(tf.signal.rfft2d(x)), [[1.0, 2.0], [3.0, 5.0]], AGREE, (), MISMATCH
    ),
    ("FIRST_ORDER", "aliasing"): Case(lambda x: x + bump(x), 1.0, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "hidden swing"): Case(lambda x: tf.sin(x) + x**2, 2e7, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "smooth on finer rows"): Case(
        lambda x: x * tf.tanh(1e10 * x) + x, 0.0, AGREE, (), INCONCLUSIVE, ILL
    ),
    ("FIRST_ORDER", "curvature jump"): Case(lambda x: x * tf.abs(x), 0.0, AGREE, (), INCONCLUSIVE, ILL),
    ("FIRST_ORDER", "kink"): Case(tf.nn.relu, 0.0, AGREE, (), INCONCLUSIVE, ILL),
    ("FIRST_ORDER", "doubtful kink"): Case(
        lambda x: 1.62 + 3e-12 * tf.maximum(x, 0.6), 0.6, INCONCLUSIVE, ILL, MISMATCH
    ),
    ("FIRST_ORDER", "staircase"): Case(
        given(tf.round, tf.ones_like, tf.zeros_like), 0.3, INCONCLUSIVE, (Reason.STAIRCASE,), MISMATCH
    ),
    ("FIRST_ORDER", "small jump"): Case(small_stairs, 0.31, INCONCLUSIVE, (Reason.JUMP,), INCONCLUSIVE, ILL),
    ("FIRST_ORDER", "small kink"): Case(lambda x: tf.abs(x - 1e8 * x * x), 0.0, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "digits lost in low precision"): Case(saturated, SATURATED, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "hidden kink"): Case(saddle, [0.0, 0.0], INCONCLUSIVE, (Reason.COMPOSED_KINK,), MISMATCH),
    ("FIRST_ORDER", "edge of the domain"): Case(
        lambda x: tf.where(x == 0.5, x, tf.sqrt(-x * x)),
        *(0.5, INCONCLUSIVE, (Reason.NOT_FINITE,), INCONCLUSIVE, (Reason.JUMP,)),
    ),
    ("FIRST_ORDER", "no number"): Case(
        lambda x: tf.sqrt(tf.abs(x)), 0.0, Verdict.MISMATCH, (), INCONCLUSIVE, (Reason.JUMP,)
    ),
    ("FIRST_ORDER", "beyond the tolerance"): Case(
        given(lambda x: 0 * x, lambda x: 1e-17 + 0 * x, tf.zeros_like),
        *(1.0, INCONCLUSIVE, (Reason.TOLERANCE,), AGREE),
        options={"atol": 1e-20},
    ),
    ("FIRST_ORDER", "beyond a first look"): Case(
        given(untraceable_square, lambda x: 2 * x * (1 + 1e-3 * tf.sin(1e8 * x)), tf.ones_like),
        *(np.float32(1.3), INCONCLUSIVE, ILL, AGREE),
    ),
    ("FIRST_ORDER", "wrong in float64"): Case(
        given(tf.tanh, lambda x: (1 + 3e-5) * (1 - tf.tanh(x) ** 2), tf.ones_like),
        *(np.float32(3.0), MISMATCH, (), INCONCLUSIVE, ILL),
    ),
    ("GRADIENT_DIFFERENCES", "cancelled terms"): Case(
        given(lambda x: 1e6 + 0 * x, tf.zeros_like, lambda x: 1e-12 + 0 * x), 1.0, AGREE, (), MISMATCH
    ),
    ("GRADIENT_DIFFERENCES", "digits lost in low precision"): Case(saturated, SATURATED, INCONCLUSIVE, ILL, MISMATCH),
    ("GRADIENT_DIFFERENCES", "aliasing"): Case(
        given(lambda x: x**2 / 2, lambda x: x + bump(x), lambda x: 1 + bump_slope(x)), 1.0, INCONCLUSIVE, ILL, MISMATCH
    ),
    ("GRADIENT_DIFFERENCES", "curvature jump"): Case(
        lambda x: tf.where(x < 0.0, tf.zeros_like(x), x**3 * (x * (x * 6 - 15) + 10)), 0.0, AGREE, (), INCONCLUSIVE, ILL
    ),
    ("GRADIENT_DIFFERENCES", "staircase"): Case(
        given(tf.math.expm1, lambda x: tf.math.expm1(x) + 1.0, lambda x: tf.math.expm1(x) + 1.0),
        *(-35.75, INCONCLUSIVE, (Reason.STAIRCASE,), MISMATCH),
    ),
    ("GRADIENT_DIFFERENCES", "small jump"): Case(small_stairs, 0.31, INCONCLUSIVE, (Reason.JUMP,), MISMATCH),
    ("GRADIENT_DIFFERENCES", "small kink"): Case(lambda x: tf.abs(x - 1e8 * x * x), 0.0, INCONCLUSIVE, ILL, MISMATCH),
    ("GRADIENT_DIFFERENCES", "hidden kink of a gradient"): Case(corner, [0.0, 0.0], INCONCLUSIVE, HIGHER, MISMATCH),
    ("GRADIENT_DIFFERENCES", "unresolved slope"): Case(
        given(lambda x: tf.sin(x) + tf.sin(1e14 * x), tf.cos, tf.sin), 1.0, INCONCLUSIVE, ILL, MISMATCH
    ),
    ("SWING", "hidden swing"): Case(lambda x: x**3 + 0.1 * tf.sin(x), 7e7, INCONCLUSIVE, ILL, MISMATCH),
    ("VALUE_DIFFERENCES", "cancelled terms"): Case(
        lambda x: tf.math.imag(tf.signal.rfft2d(x * x)), [[1.0, 2.0], [3.0, 5.0]], AGREE, (), MISMATCH
    ),
    ("VALUE_DIFFERENCES", "hidden swing"): Case(lambda x: 0.01 * tf.sin(x) + x**2, 3e6, AGREE, (), MISMATCH),
    ("VALUE_DIFFERENCES", "hidden curvature jump"): Case(corner, [0.0, 0.0], INCONCLUSIVE, HIGHER, MISMATCH),
    ("VALUE_DIFFERENCES", "many small jumps"): Case(
        given(lambda x: x * stairs(x, 1e-7), lambda x: 1.2345 + 0 * x, tf.zeros_like), 1.2345, AGREE, (), MISMATCH
    ),
}

ELSEWHERE = {("VALUE_DIFFERENCES", "locally constant"), ("VALUE_DIFFERENCES", "digits lost in low precision")}

"""One has a test of its own below; the other is the term of that name in the other lists."""


def order_result(case: Case, order: int) -> OrderResult:
    return check(case.f, np.array(case.x), order=order, **case.options).orders[order]


def all_of(whole: Terms) -> tuple[Term, ...]:
    return (*whole.estimates, *whole.allowances, *whole.doubts, *whole.reviews)


def test_every_term_has_a_case_and_a_reason() -> None:
    names = [(name, each.name) for name, whole in LISTS.items() for each in all_of(whole)]
    assert len(set(names)) == len(names)
    assert {*CASES, *ELSEWHERE} == set(names)
    assert all(
        (each.of.__doc__ or "").split("\n")[0].endswith(".") for whole in LISTS.values() for each in all_of(whole)
    )


def changed(whole: Terms, change: Callable[[tuple[Term, ...]], tuple[Term, ...]]) -> Terms:
    return Terms(change(whole.estimates), change(whole.allowances), change(whole.doubts), change(whole.reviews))


ONCE = [
    *(case for case in CASES if case[0] in ("FIRST_ORDER", "SWING")),
    *(("GRADIENT_DIFFERENCES", "unresolved slope"), ("VALUE_DIFFERENCES", "many small jumps")),
]
"""Each term that has a case, in one of the lists that contain it."""


@slices.parametrized("name, removed", CASES, lambda _: ONCE)
def test_the_verdict_is_another_one_without_the_term(name: str, removed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --exhaustive: the test command only checks the verdict, for which the term is the reason."""
    case, whole = CASES[name, removed], LISTS[name]
    order = 1 if name == "FIRST_ORDER" else 2
    found = order_result(case, order)
    assert (found.verdict, found.reasons) == (case.verdict, case.reasons)
    if slices.whole:
        monkeypatch.setattr(
            terms, name, changed(whole, lambda kind: tuple(each for each in kind if each.name != removed))
        )
        found = order_result(case, order)
        assert (found.verdict, found.reasons) == (case.without, case.without_reasons)


@slices.parametrized("name, removed", CASES, lambda _: ONCE)
def test_the_order_of_terms_of_one_kind_changes_no_verdict(
    name: str, removed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, rng = CASES[name, removed], random.Random(removed)
    drawn = changed(LISTS[name], lambda kind: tuple(rng.sample(kind, len(kind))))
    monkeypatch.setattr(terms, name, drawn)
    found = order_result(case, 1 if name == "FIRST_ORDER" else 2)
    assert found.verdict == case.verdict


@pytest.mark.parametrize(("autodiff", "verdict"), [(3e-12, INCONCLUSIVE), (6e-12, MISMATCH), (-3e-12, MISMATCH)])
def test_a_kink_that_rounding_hides_on_most_steps_excuses_what_lies_between(autodiff: float, verdict: Verdict) -> None:
    kinked = given(lambda x: 1.62 + 3e-12 * tf.maximum(x, 0.6), lambda x: autodiff + 0 * x, tf.zeros_like)
    assert check(kinked, 0.6).verdict == verdict


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_kink_that_only_some_oblique_directions_show_is_no_mismatch(sign: float) -> None:
    """The function is zero in two opposite quadrants, and min(|x|, |y|) in the others."""
    result = check(lambda x: tf.maximum(saddle(tf.stack([x[0], sign * x[1]])), 0.0), [0.0, 0.0])
    assert (result.verdict, result.orders[1].reasons) == (INCONCLUSIVE, (Reason.COMPOSED_KINK,))


def test_what_a_decomposition_loses_of_small_elements_beside_large_ones_is_no_mismatch() -> None:
    x = np.array([[-1.0, 1e7, 0.0], [1.0, 1e7, 2.0]])
    assert check(lambda x: tf.square(tf.linalg.svd(x)[2]), x).verdict != MISMATCH
    with planted(["Svd"], lambda right: lambda op, *upstream: 2 * right(op, *upstream)):
        assert check(lambda x: tf.square(tf.linalg.svd(x)[2]), x).verdict == MISMATCH


def test_a_power_beside_its_singular_point_is_no_mismatch() -> None:
    """The derivative of x ** w * w by x and w at w = 0 is 0 within 1e-9 of x = 1e-9j; the usual steps lie beyond."""
    result = check(lambda x, w: x**w * w, np.array([1e-9j, -4j, -9j]), np.array(0j), order=2).orders[2]
    assert (result.verdict, result.reasons) == (INCONCLUSIVE, ILL)


def test_the_digits_that_a_complex_result_has_lost_are_lost_to_its_gradient() -> None:
    """tanh(log x) is -1 + 2 x ** 2 near 0, and the gradient of tanh is 1 - y * y, where y is -1 up to 2e-11."""
    x = np.array([16j, 6.28j, -3.1e-6j])
    assert not check(lambda x: tf.tanh(tf.math.log(x)), x, order=2).findings
    faulty = given(lambda x: tf.tanh(tf.math.log(x)), lambda x: 4.01 * x / (1 + x * x) ** 2, tf.ones_like)
    assert check(faulty, x).verdict == MISMATCH


@pytest.mark.parametrize("order", [1, 2])
def test_what_the_usual_row_steps_over_is_no_mismatch(order: int) -> None:
    """The derivative by x[0] is -8e-11, from a transition of width 3e-9 within the finest step, 6e-9."""
    result = check(lambda x: tf.math.erf((2.6 - 1e9 * x[0]) ** 2) * x[1], [0.0, 1.0], order=order).orders[order]
    assert (result.verdict, result.reasons, result.inconclusive) == (INCONCLUSIVE, ILL, 1)


def test_a_fast_wave_is_never_a_mismatch() -> None:
    assert check(lambda x: tf.sin(x) + x, [2e7, 0.3]).verdict != "mismatch"


def test_a_wrong_gradient_of_a_small_function_is_still_wrong() -> None:
    @tf.custom_gradient
    def small(x: Any) -> Any:
        return 1e-20 * tf.sin(x), lambda d: d * 2e-20 * tf.cos(x)

    assert check(small, [0.5, 1.0]).verdict == "mismatch"


@slices.parametrized(("place", "square"), [(0.3, 0.09), (0.1, 0.01)], slices.every(2))
def test_a_finer_row_on_which_inner_values_lose_their_digits_excuses_nothing(place: float, square: float) -> None:
    """The Matern 5/2 kernel of an expanded square, at a distance of zero, where autodiff gives 0 instead of -5/3."""

    def kernel(x: tf.Tensor) -> tf.Tensor:
        distance = tf.sqrt(tf.maximum(x * x + square - 2 * x * place, 1e-36)) * 5**0.5
        return (1 + distance + distance**2 / 3) * tf.exp(-distance)

    assert check(kernel, place, order=2).verdict == "mismatch"
    assert check(kernel, place + 1e-3, order=2).verdict == "agree"


def test_a_derivative_that_has_lost_all_its_digits_does_not_agree() -> None:
    first = given(lambda x: x**2, rough(lambda x: 2 * x), lambda x: 2 + 0 * x)
    second = given(lambda x: x**3, lambda x: 3 * x**2, rough(lambda x: 6 * x))
    for f, order, reasons in ((first, 1, ILL), (second, 2, COARSE)):
        found = check(f, 1.0, order=order).orders[order]
        assert (found.verdict, found.reasons) == (INCONCLUSIVE, reasons)
