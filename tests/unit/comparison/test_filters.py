"""The false-positive filters: each one's own case, which has another verdict without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.comparison import filters
from gradcheck.comparison.aliasing import aliasing
from gradcheck.comparison.filters import FIRST_ORDER, GRADIENT_DIFFERENCES, SWING, VALUE_DIFFERENCES, filtered
from gradcheck.comparison.own_rounding import OwnRounding, Surroundings
from gradcheck.comparison.suspicion import Evidence
from gradcheck.comparison.tables import Comparison, Tolerance
from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.one_sided import Smoothness
from gradcheck.numerics.sampling import CONFIRM, sample
from gradcheck.result import Kind, OrderResult, Reason, Verdict
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
ONE = np.ones((1, 1))


def given(value: Any, slope: Any, curvature: Any) -> Any:
    """A function whose gradient is `slope`, and the derivative of that `curvature`, whatever its values are."""

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
    """It jumps by a part in 310,000 at 0.31, where 1e6 x is a whole number."""
    return x * tf.floor(1e6 * x)


def rough(right: Any) -> Any:
    """A derivative that has lost all its digits: it scatters from one input to the next."""
    return lambda x: right(x) * (1.0 + 0.5 * tf.sin(1e18 * x))


def bump(x: Any) -> Any:
    """A slope that is 1e-9 wide at 1, finer than a row of usual steps."""
    near = (x - 1.0) * 1e9
    return 1e-9 * near * tf.exp(-(near**2))


def bump_slope(x: Any) -> Any:
    near = (x - 1.0) * 1e9
    return (1 - 2 * near**2) * tf.exp(-(near**2))


def saddle(x: Any) -> Any:
    return tf.maximum(tf.minimum(x[0], x[1]), tf.minimum(-x[0], -x[1]))


@dataclass(frozen=True)
class Case:
    """A function at a point, what the verdict is, and what it is without the filter."""

    f: Callable[..., Any]
    x: Any
    verdict: Verdict
    reasons: tuple[Reason, ...]
    without: Verdict
    without_reasons: tuple[Reason, ...] = ()


def saturated(x: Any) -> Any:
    """In single precision tanh rounds to one, and its slope 1 - y**2 to nothing."""
    return tf.reduce_sum(tf.tanh(x)) - 1.0


SATURATED = np.array([9.0], np.float32)
ILL = (Reason.ILL_CONDITIONED,)
CASES = {
    ("FIRST_ORDER", "vacuous agreement"): Case(
        given(lambda x: x**2, rough(lambda x: 2 * x), lambda x: 2 + 0 * x), 1.0, INCONCLUSIVE, ILL, AGREE
    ),
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
    ("FIRST_ORDER", "small jump"): Case(small_stairs, 0.31, INCONCLUSIVE, (Reason.JUMP,), MISMATCH),
    ("FIRST_ORDER", "small kink"): Case(lambda x: tf.abs(x - 1e8 * x * x), 0.0, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "low precision"): Case(saturated, SATURATED, INCONCLUSIVE, ILL, MISMATCH),
    ("FIRST_ORDER", "hidden kink"): Case(saddle, [0.0, 0.0], INCONCLUSIVE, (Reason.COMPOSED_KINK,), MISMATCH),
    ("FIRST_ORDER", "edge of the domain"): Case(
        lambda x: tf.where(x == 0.5, x, tf.sqrt(-x * x)),
        *(0.5, INCONCLUSIVE, (Reason.NOT_FINITE,), INCONCLUSIVE, (Reason.JUMP,)),
    ),
    ("GRADIENT_DIFFERENCES", "vacuous agreement"): Case(
        given(lambda x: x**3, lambda x: 3 * x**2, rough(lambda x: 6 * x)), 1.0, INCONCLUSIVE, ILL, AGREE
    ),
    ("GRADIENT_DIFFERENCES", "cancelled terms"): Case(
        given(lambda x: 1e6 + 0 * x, tf.zeros_like, lambda x: 1e-12 + 0 * x), 1.0, AGREE, (), MISMATCH
    ),
    ("GRADIENT_DIFFERENCES", "low precision"): Case(saturated, SATURATED, INCONCLUSIVE, ILL, MISMATCH),
    ("GRADIENT_DIFFERENCES", "aliasing"): Case(
        given(lambda x: x**2 / 2, lambda x: x + bump(x), lambda x: 1 + bump_slope(x)), 1.0, INCONCLUSIVE, ILL, MISMATCH
    ),
    ("GRADIENT_DIFFERENCES", "staircase"): Case(
        given(tf.math.expm1, lambda x: tf.math.expm1(x) + 1.0, lambda x: tf.math.expm1(x) + 1.0),
        *(-35.75, INCONCLUSIVE, (Reason.STAIRCASE,), MISMATCH),
    ),
    ("GRADIENT_DIFFERENCES", "small jump"): Case(small_stairs, 0.31, INCONCLUSIVE, (Reason.JUMP,), MISMATCH),
    ("GRADIENT_DIFFERENCES", "small kink"): Case(lambda x: tf.abs(x - 1e8 * x * x), 0.0, INCONCLUSIVE, ILL, MISMATCH),
    ("GRADIENT_DIFFERENCES", "unresolved slope"): Case(
        given(lambda x: tf.sin(x) + tf.sin(1e14 * x), tf.cos, tf.sin), 1.0, INCONCLUSIVE, ILL, MISMATCH
    ),
    ("SWING", "hidden swing"): Case(lambda x: x**3 + 0.1 * tf.sin(x), 7e7, INCONCLUSIVE, ILL, MISMATCH),
    ("VALUE_DIFFERENCES", "cancelled terms"): Case(
        lambda x: tf.math.imag(tf.signal.rfft2d(x * x)), [[1.0, 2.0], [3.0, 5.0]], AGREE, (), MISMATCH
    ),
    ("VALUE_DIFFERENCES", "hidden swing"): Case(lambda x: 0.01 * tf.sin(x) + x**2, 3e6, AGREE, (), MISMATCH),
    ("VALUE_DIFFERENCES", "many small jumps"): Case(
        given(lambda x: x * stairs(x, 1e-7), lambda x: 1.2345 + 0 * x, tf.zeros_like), 1.2345, AGREE, (), MISMATCH
    ),
}
ELSEWHERE = {("VALUE_DIFFERENCES", "locally constant"), ("VALUE_DIFFERENCES", "low precision")}
"""The one has a test of its own below; the other is the filter of that name in the other lists."""


def order_result(case: Case, order: int) -> OrderResult:
    return check(case.f, np.array(case.x), order=order).orders[order]


def test_every_filter_has_a_case_and_a_reason() -> None:
    names = [(name, each.name) for name, whole in LISTS.items() for each in whole]
    assert len(set(names)) == len(names)
    assert {*CASES, *ELSEWHERE} == set(names)
    assert all((each.apply.__doc__ or "").split("\n")[0].endswith(".") for whole in LISTS.values() for each in whole)


@pytest.mark.sliced
@pytest.mark.parametrize(("name", "removed"), CASES)
def test_the_verdict_is_another_one_without_the_filter(
    name: str, removed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --exhaustive: the test command looks at the verdict, of which the filter is the reason."""
    case, whole = CASES[name, removed], LISTS[name]
    order = 1 if name == "FIRST_ORDER" else 2
    found = order_result(case, order)
    assert (found.verdict, found.reasons) == (case.verdict, case.reasons)
    if slices.whole:
        monkeypatch.setattr(filters, name, tuple(each for each in whole if each.name != removed))
        found = order_result(case, order)
        assert (found.verdict, found.reasons) == (case.without, case.without_reasons)


def wrong(autodiff: float, difference: float, bound: float) -> Comparison:
    table = Comparison.agreeing(autodiff * ONE, difference * ONE, bound * ONE, 10 * bound * ONE)
    return table.marked(ONE > 0, MISMATCH, Kind.WRONG_VALUE)


def evidence(**parts: Any) -> Evidence:
    """Evidence of these parts only."""
    blank = dict.fromkeys(Evidence.__dataclass_fields__, None)
    return Evidence(**{**blank, "lines": lines_with(lambda **_: None), **parts})


def lines_with(sample: Callable[..., Any]) -> Any:
    """Lines of a function that is smooth, with this for its samples."""
    return SimpleNamespace(
        problem=SimpleNamespace(smooth=True, in_float64=None, point=np.zeros(1)), directions=ONE, sample=sample
    )


def estimated(value: float, bound: float) -> Estimate:
    return Estimate(value * ONE, bound * ONE, ONE > 0, ONE)


def test_values_that_are_constant_around_the_point_have_no_curvature() -> None:
    values = sample(lambda p: np.where(np.abs(p) < 1e-3, 0.0, p**2), np.zeros(1), np.eye(1), stencil=CONFIRM)
    seen = evidence(
        samples=(values, values),
        estimate=lambda _: estimated(2.0, 0.1),
        lines=lines_with(lambda **_: values),
        residue=0 * ONE,
        beside=0 * ONE,
        own=SimpleNamespace(at=lambda *_: 0 * ONE),
    )
    found = filtered(wrong(0.0, 2.0, 0.1), seen, VALUE_DIFFERENCES)
    assert found.where(INCONCLUSIVE, Reason.STAIRCASE).all()
    less = tuple(each for each in VALUE_DIFFERENCES if each.name != "locally constant")
    assert filtered(wrong(0.0, 2.0, 0.1), seen, less).any(MISMATCH)


@pytest.mark.parametrize(("residue", "verdict"), [(1e-15, AGREE), (1e-19, MISMATCH)])
def test_a_residue_of_large_terms_is_rounding(residue: float, verdict: Verdict) -> None:
    found = filters.cancelled_terms(wrong(1e-16, 0.0, 1e-300), evidence(residue=residue * ONE))
    assert found.any(verdict)
    assert found.allowed >= (residue if verdict == AGREE else 0)


@pytest.mark.parametrize(("off", "draws"), [(1.0, 1), (1e-9, 4), (0.0, 1)], ids=["far", "near", "inside"])
def test_what_is_far_off_needs_few_perturbed_values(off: float, draws: int) -> None:
    taken = []

    def derivative(*_: Any) -> Any:
        taken.append(1)
        return (1.0 + 1e-12 * len(taken)) * ONE

    problem: Any = SimpleNamespace(in_float64=None, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Surroundings(problem, derivative), ONE, 1e-16 * ONE)
    assert own.moved(off * ONE) == pytest.approx(draws * 1e-12, rel=1e-3)
    assert len(taken) == draws


def test_what_is_not_finite_is_no_residue() -> None:
    assert filters.cancelled_terms(wrong(np.nan, 0.0, 1.0), evidence(residue=ONE)).any(MISMATCH)


@pytest.mark.parametrize(
    ("slope", "finer", "bound", "verdict"),
    [
        (1.0, 5.0, 0.1, INCONCLUSIVE),
        (1.0, 1.05, 0.1, MISMATCH),
        (1.0, 2.0005, 3.0, INCONCLUSIVE),
        (1.0, 1.99, 3.0, MISMATCH),
        (0.0, 2.0005, 3.0, MISMATCH),
    ],
)
def test_a_finer_row_refutes_only_what_it_contradicts(
    slope: float, finer: float, bound: float, verdict: Verdict
) -> None:
    """Autodiff gives 2, the usual row 1; a finer one that meets autodiff counts whatever its bound, unless constant."""
    seen = beside_a_finer_row(lambda p: slope * p, estimated(finer, bound), autodiff=2.0 * ONE)
    assert aliasing(wrong(2.0, 1.0, 1e-9), seen).any(verdict)


@pytest.mark.parametrize(("finer", "verdict"), [(2.2, INCONCLUSIVE), (2.3, MISMATCH), (1.2, MISMATCH)])
def test_a_finer_row_that_excludes_the_difference_and_allows_autodiff_need_not_be_conclusive(
    finer: float, verdict: Verdict
) -> None:
    """Its bound is a quarter; granted the digits that look lost on the usual row, it says nothing."""
    close = replace(estimated(finer, 0.25), conclusive=ONE < 0)
    seen = beside_a_finer_row(lambda p: p, close, autodiff=2.0 * ONE)
    granted = replace(close, bound=np.inf * ONE)
    seen = replace(seen, estimate=lambda row: granted if np.any(row.floor > 0) else close)
    assert aliasing(wrong(2.0, 1.0, 1e-9), seen).any(verdict)


def beside_a_finer_row(f: Any, estimate: Estimate, autodiff: Any, gradients: bool = False) -> Evidence:
    """Evidence of which every row samples `f` at 1, and every estimate is this one."""
    values = sample(f, np.ones(1), np.eye(1))
    lines = SimpleNamespace(
        problem=SimpleNamespace(smooth=True),
        sample=lambda *_, **__: values,
        tolerance=Tolerance(),
        gradients=gradients,
    )
    own = SimpleNamespace(autodiff=autodiff, beside=lambda *_: 0 * ONE)
    return evidence(estimate=lambda _: estimate, samples=(values, values), lines=lines, own=own)


@pytest.mark.parametrize(
    ("gradients", "bound", "left"), [(True, 1e3, 0), (True, 0.5, 1), (False, 1e3, 1)], ids=["", "seen", "outputs"]
)
def test_what_one_entry_of_a_gradient_aliases_is_aliased_for_those_that_cannot_tell(
    gradients: bool, bound: float, left: int
) -> None:
    """The finer row contradicts the first entry, 1, and of the second leaves open whether it is 1 or autodiff's 2."""
    both = np.ones((1, 2))
    finer = Estimate(np.array([[5.0, 1.0]]), np.array([[0.1, bound]]), both > 0, both)
    seen = beside_a_finer_row(lambda p: p * both, finer, 2 * both, gradients)
    table = Comparison.agreeing(2 * both, both, 1e-9 * both, 1e-8 * both).marked(both > 0, MISMATCH, Kind.WRONG_VALUE)
    assert aliasing(table, seen).where(MISMATCH).sum() == left


@pytest.mark.parametrize(("autodiff", "verdict"), [(1.0, INCONCLUSIVE), (1.5, MISMATCH)])
def test_a_kink_that_only_a_finer_row_of_the_slope_shows_excuses_what_lies_between(
    autodiff: float, verdict: Verdict
) -> None:
    smooth, kinked = (sample(f, np.zeros(1), np.eye(1)) for f in (lambda p: p / 3, np.abs))
    own = SimpleNamespace(beside=lambda *_: 0 * ONE)
    seen = evidence(samples=(smooth, smooth), lines=lines_with(lambda *_, **__: kinked), own=own)
    vars(seen)["nearest"] = np.full((1, 1), Smoothness.UNKNOWN)
    assert filters.small_kink(wrong(autodiff, 1 / 3, 1e-9), seen).any(verdict)


@pytest.mark.parametrize(("autodiff", "verdict"), [(4.6e-8, INCONCLUSIVE), (4.7e-8, MISMATCH), (-1e-8, MISMATCH)])
@pytest.mark.parametrize("side", [1, -1])
def test_a_kink_of_values_that_have_lost_digits_excuses_what_lies_between(
    side: int, autodiff: float, verdict: Verdict
) -> None:
    """Its side of slope 4.64e-8 is in stairs of 1e-13, and both are flat on the finest steps."""

    def row(*_: Any, shrink: float = 1.0, **__: Any) -> Any:
        def kinked(p: Any) -> Any:
            return 831.0 + 4.64e-8 * np.maximum(side * p, 0.0) - 829.0

        return sample(kinked, np.zeros(1), np.eye(1), step=0.4 * shrink * np.ones(1))

    own = SimpleNamespace(beside=lambda *_: 0 * ONE)
    seen = evidence(samples=(row(), row()), lines=lines_with(row), own=own)
    vars(seen)["nearest"] = np.full((1, 1), Smoothness.SMOOTH)
    assert filters.small_kink(wrong(side * autodiff, 0.0, 1e-9), seen).any(verdict)


@pytest.mark.parametrize(("autodiff", "verdict"), [(3e-12, INCONCLUSIVE), (6e-12, MISMATCH), (-3e-12, MISMATCH)])
def test_a_kink_that_rounding_hides_on_most_steps_excuses_what_lies_between(autodiff: float, verdict: Verdict) -> None:
    kinked = given(lambda x: 1.62 + 3e-12 * tf.maximum(x, 0.6), lambda x: autodiff + 0 * x, tf.zeros_like)
    assert check(kinked, 0.6).verdict == verdict


def test_what_a_decomposition_loses_of_small_elements_beside_large_ones_is_no_mismatch() -> None:
    x = np.array([[-1.0, 1e7, 0.0], [1.0, 1e7, 2.0]])
    assert check(lambda x: tf.square(tf.linalg.svd(x)[2]), x).verdict != MISMATCH
    with planted(["Svd"], lambda right: lambda op, *upstream: 2 * right(op, *upstream)):
        assert check(lambda x: tf.square(tf.linalg.svd(x)[2]), x).verdict == MISMATCH


def test_a_power_beside_its_singular_point_is_no_mismatch() -> None:
    """Of x ** w * w, by x and w at w = 0, the derivative is 0 within 1e-9 of x = 1e-9j; the usual row lies beyond."""
    result = check(lambda x, w: x**w * w, np.array([1e-9j, -4j, -9j]), np.array(0j), order=2).orders[2]
    assert (result.verdict, result.reasons) == (INCONCLUSIVE, ILL)


def test_the_digits_that_a_complex_result_has_lost_are_lost_to_its_gradient() -> None:
    """tanh(log x) is -1 + 2 x ** 2 near 0, and the gradient of tanh is 1 - y * y, of a y that is -1 but for 2e-11."""
    x = np.array([16j, 6.28j, -3.1e-6j])
    assert not check(lambda x: tf.tanh(tf.math.log(x)), x, order=2).findings
    faulty = given(lambda x: tf.tanh(tf.math.log(x)), lambda x: 4.01 * x / (1 + x * x) ** 2, tf.ones_like)
    assert check(faulty, x).verdict == MISMATCH


@pytest.mark.parametrize("order", [1, 2])
def test_what_the_usual_row_steps_over_is_no_mismatch(order: int) -> None:
    """The derivative by x[0] is -8e-11, of a transition 3e-9 wide before the finest step, 6e-9."""
    result = check(lambda x: tf.math.erf((2.6 - 1e9 * x[0]) ** 2) * x[1], [0.0, 1.0], order=order).orders[order]
    assert (result.verdict, result.reasons, result.inconclusive) == (INCONCLUSIVE, ILL, 1)


def test_filters_for_kinks_are_not_asked_of_smooth_functions() -> None:
    asked = []

    def note(comparison: Comparison, _: Evidence) -> Comparison:
        asked.append(comparison)
        return comparison

    everywhere = tuple(replace(each, apply=note) for each in FIRST_ORDER)
    filtered(wrong(2.0, 1.0, 1e-9), evidence(), everywhere)
    assert len(asked) == sum(each.on in (None, MISMATCH) and not each.nonsmooth for each in FIRST_ORDER)


def test_a_fast_wave_is_never_a_mismatch() -> None:
    assert check(lambda x: tf.sin(x) + x, [2e7, 0.3]).verdict != "mismatch"


def test_a_wrong_gradient_of_a_small_function_is_still_wrong() -> None:
    @tf.custom_gradient
    def small(x: Any) -> Any:
        return 1e-20 * tf.sin(x), lambda d: d * 2e-20 * tf.cos(x)

    assert check(small, [0.5, 1.0]).verdict == "mismatch"
