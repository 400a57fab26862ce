from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.difference import Estimate, difference_quotient, first_difference
from gradcheck.numerics.sampling import CONFIRM, EPS64, FIRST, Sample, Stencil, coordinate_steps, sample
from gradcheck.numerics.tableau import vanishing

Array = np.ndarray[Any, Any]
EPS32 = 2.0**-24
STENCILS = pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])


def at(f: Callable[[Array], Array], x: float, stencil: Stencil = FIRST, **options: Any) -> Estimate:
    with np.errstate(all="ignore"):
        return first_difference(sample(f, np.array([x]), np.eye(1), stencil=stencil, **options))


def holds(estimate: Estimate, true: float, relative: float) -> None:
    """The estimate is conclusive, right, and at least as tight as `relative`."""
    assert estimate.value.shape == (1, 1)
    assert estimate.conclusive[0, 0]
    assert abs(estimate.value[0, 0] - true) <= estimate.bound[0, 0]
    assert estimate.bound[0, 0] <= relative * abs(true)


@STENCILS
def test_log_stays_in_its_domain(stencil: Stencil) -> None:
    for x in (1e-3, 1e-6, 1e-12, 1.0, 1e8):
        holds(at(np.log, x, stencil), 1 / x, 1e-9)


@STENCILS
def test_small_input_of_log_among_a_thousand(stencil: Stencil) -> None:
    x = np.ones(1000)
    x[17] = 1e-6
    estimate = first_difference(
        sample(lambda p: np.log(p).sum(axis=1, keepdims=True), x, np.eye(1000)[[17, 18]], stencil=stencil)
    )
    assert abs(estimate.value[0, 0] - 1e6) <= estimate.bound[0, 0] < 1e-8 * 1e6
    assert abs(estimate.value[1, 0] - 1.0) <= estimate.bound[1, 0] < 1e-8


@STENCILS
def test_steep(stencil: Stencil) -> None:
    for x in (-1.0, 0.3, 1.0):
        holds(at(lambda p: np.exp(100.0 * p), x, stencil), 100 * np.exp(100 * x), 1e-10)


@STENCILS
def test_oscillating(stencil: Stencil) -> None:
    for x in (0.1, 1.0, 2.3):
        holds(at(lambda p: np.sin(1e3 * p), x, stencil), 1e3 * np.cos(1e3 * x), 1e-9)


@STENCILS
def test_step_over_a_pole(stencil: Stencil) -> None:
    for distance, relative in ((0.1, 1e-10), (-0.03, 1e-10), (1e-3, 1e-9), (-1e-4, 1e-7)):
        pole = 1.0 + distance
        estimate = at(lambda p, pole=pole: 1.0 / (p - pole), 1.0, stencil)  # type: ignore[misc]
        holds(estimate, -1.0 / (1.0 - pole) ** 2, relative)


@STENCILS
def test_relu_near_its_kink(stencil: Stencil) -> None:
    for distance in (1e-5, 1e-3, 0.1):
        holds(at(lambda p: np.maximum(p - 1.0, 0.0), 1.0 + distance, stencil), 1.0, 1e-7)
        flat = at(lambda p: np.maximum(p - 1.0, 0.0), 1.0 - distance, stencil)
        assert flat.conclusive[0, 0]
        assert flat.value[0, 0] == 0.0
        assert flat.bound[0, 0] < 1e-12
    holds(at(lambda p: np.maximum(p, 0.0), 1e-5, stencil), 1.0, 1e-10)


@STENCILS
def test_kink_at_the_point_is_covered_by_the_bound(stencil: Stencil) -> None:
    for f, slope, jump in (
        (np.abs, 0.0, 1.0),
        (lambda p: np.maximum(p, 0.0), 0.5, 0.5),
        (lambda p: 1.0 + 3.0 * np.abs(p) + p, 1.0, 3.0),
    ):
        estimate = at(f, 0.0, stencil)
        assert not estimate.conclusive[0, 0]
        np.testing.assert_allclose(estimate.value[0, 0], slope, atol=1e-6)
        np.testing.assert_allclose(estimate.bound[0, 0], jump, rtol=1e-2)


@STENCILS
def test_constant(stencil: Stencil) -> None:
    for constant in (0.0, 7.0, -1e-300, 1e300):
        estimate = at(lambda p, constant=constant: 0.0 * p + constant, 1.0, stencil)  # type: ignore[misc]
        assert estimate.conclusive[0, 0], constant
        assert estimate.value[0, 0] == 0.0, constant
        assert 0.0 < estimate.bound[0, 0] <= 1e-12 * abs(constant) + 1e-300


@STENCILS
def test_linear(stencil: Stencil) -> None:
    estimate = at(lambda p: 3.0 * p, 1.0, stencil)
    holds(estimate, 3.0, 1e-12)
    assert estimate.bound[0, 0] > 2.0**-53
    assert estimate.radius[0, 0] == coordinate_steps(np.array([1.0]))[0]


@STENCILS
@pytest.mark.parametrize("f", [lambda p: p * p, lambda p: p**3, np.cos, lambda p: p**4], ids=["x2", "x3", "cos", "x4"])
def test_zero_derivative_at_zero(f: Callable[[Array], Array], stencil: Stencil) -> None:
    estimate = at(f, 0.0, stencil)
    assert estimate.conclusive[0, 0]
    assert abs(estimate.value[0, 0]) <= estimate.bound[0, 0] < 1e-12
    assert estimate.bound[0, 0] > 0.0


@STENCILS
def test_nan_beyond_the_domain_disqualifies_only_those_steps(stencil: Stencil) -> None:
    holds(at(lambda p: np.sqrt(p - 0.999), 1.0, stencil), 0.5 / np.sqrt(1.0 - 0.999), 1e-8)
    holds(at(lambda p: np.arcsin(p), 0.9, stencil), 1 / np.sqrt(1 - 0.9**2), 1e-10)
    holds(at(lambda p: np.exp(p * p), 26.0, stencil), 52.0 * np.exp(26.0**2), 1e-9)


@STENCILS
@pytest.mark.parametrize("f", [lambda p: np.sqrt(p - 1.0), lambda p: p * np.nan, lambda p: p / (p - p)])
def test_nothing_is_left(f: Callable[[Array], Array], stencil: Stencil) -> None:
    estimate = at(f, 1.0, stencil)
    assert np.isnan(estimate.value[0, 0])
    assert estimate.bound[0, 0] == np.inf
    assert not estimate.conclusive[0, 0]
    assert estimate.radius[0, 0] == 0.0


@STENCILS
@pytest.mark.parametrize("x", [0.5, 1.0, 30.0])
def test_float32(x: float, stencil: Stencil) -> None:
    x = float(np.float32(x))
    for f, slope in ((np.log, 1 / x), (np.sqrt, 0.5 / np.sqrt(x)), (lambda p: p * p, 2 * x)):
        estimate = at(lambda p, f=f: f(p.astype(np.float32)), x, stencil, eps=EPS32)  # type: ignore[misc]
        holds(estimate, slope, 1e-3)
        assert estimate.bound[0, 0] > 1e-8 * slope


@STENCILS
def test_float32_taken_for_float64_is_seen_as_noise(stencil: Stencil) -> None:
    estimate = at(lambda p: np.sin(p.astype(np.float32)), 1.0, stencil)
    assert abs(estimate.value[0, 0] - np.cos(1.0)) <= estimate.bound[0, 0]
    assert estimate.bound[0, 0] > 1e-9


@STENCILS
def test_lines_and_outputs_together_equal_one_by_one(stencil: Stencil) -> None:
    x = np.array([0.3, -2.0, 1e-4])
    directions = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5, -1.0, 1e-5]])

    def f(p: Array) -> Array:
        return np.stack([np.sin(p).sum(axis=1), np.log(np.abs(p)).sum(axis=1), np.abs(p[:, 0] - 0.3001)], axis=1)

    together = first_difference(sample(f, x, directions, stencil=stencil))
    for i, direction in enumerate(directions):
        for j in range(3):
            alone = first_difference(sample(lambda p, j=j: f(p)[:, [j]], x, direction[None], stencil=stencil))  # type: ignore[misc]
            np.testing.assert_allclose(together.value[i, j], alone.value[0, 0], rtol=1e-12)
            np.testing.assert_allclose(together.bound[i, j], alone.bound[0, 0], rtol=1e-3)
            assert together.radius[i, j] == alone.radius[0, 0]
            assert together.conclusive[i, j] == alone.conclusive[0, 0]


@STENCILS
def test_period_equal_to_a_step(stencil: Stencil) -> None:
    for row in (0, 1, 3, 6):
        frequency = 2 * np.pi / (coordinate_steps(np.array([1.0]))[0] * stencil.steps[row])
        estimate = at(lambda p, frequency=frequency: np.sin(frequency * (p - 1.0)), 1.0, stencil)  # type: ignore[misc]
        holds(estimate, frequency, 1e-6)


@STENCILS
def test_lost_digits_widen_the_bound(stencil: Stencil) -> None:
    clean = at(np.sin, 1.0, stencil)
    lossy = at(lambda p: (p + 1e5) - 1e5 + np.sin(p), 1.0, stencil)
    assert abs(lossy.value[0, 0] - 1.0 - np.cos(1.0)) <= lossy.bound[0, 0]
    assert lossy.bound[0, 0] > 100 * clean.bound[0, 0]


@pytest.mark.parametrize("x", [-0.020820255540196814, -0.011642953835570827])
def test_digits_lost_in_wide_stairs_are_noise(x: float) -> None:
    estimate = at(lambda p: np.tanh(p**4) - np.log(1.0 + p**8), x)
    true = 4 * x**3 / np.cosh(x**4) ** 2 - 8 * x**7 / (1 + x**8)
    assert abs(estimate.value[0, 0] - true) <= estimate.bound[0, 0]


def test_the_plain_quotient_at_one_step_at_several_along_lines_and_at_points() -> None:
    def f(points: Array) -> Array:
        return np.stack([points[:, 0] ** 2, points[:, 0] * points[:, 1]], axis=1)

    x, direction = np.array([3.0, 5.0]), np.array([1.0, 2.0])
    np.testing.assert_allclose(difference_quotient(f, x, direction, 0.5), [6.0, 11.0])
    np.testing.assert_allclose(difference_quotient(f, x, direction, np.array([0.5, 0.25])), [[6.0, 11.0]] * 2)
    np.testing.assert_allclose(difference_quotient(f, x, np.eye(2), 0.5), [[6.0, 5.0], [0.0, 3.0]])
    np.testing.assert_allclose(difference_quotient(f, np.stack([x, -x]), direction, 0.5), [[6.0, 11.0], [-6.0, -11.0]])
    assert difference_quotient(np.sin, np.zeros(0), np.eye(0), 0.5).shape == (0, 0)
    np.testing.assert_allclose(difference_quotient(np.sin, np.zeros(1), np.ones(1), 0.5), [2 * np.sin(0.5)])


def test_the_better_of_two_estimates_entry_by_entry() -> None:
    yes, no = True, False
    first = Estimate(
        *(np.array([row]) for row in ([1.0, 2.0, 3.0, 4.0], [0.1, 0.1, 0.3, 0.3], [yes, yes, no, no], [1] * 4, [0] * 4))
    )
    other = Estimate(
        *(np.array([row]) for row in ([5.0, 6.0, 7.0, 8.0], [0.2, 0.0, 0.5, 0.2], [yes, no, yes, no], [2] * 4, [0] * 4))
    )
    best = first.better(other)
    assert best.value.tolist() == [[1.0, 2.0, 7.0, 8.0]]
    assert best.bound.tolist() == [[0.1, 0.1, 0.5, 0.2]]
    assert best.radius.tolist() == [[1, 1, 2, 2]]
    nothing = Estimate(
        np.full((1, 4), np.nan), np.full((1, 4), np.inf), np.zeros((1, 4), bool), np.zeros((1, 4)), np.zeros((1, 4))
    )
    for one in (nothing.better(first), first.better(nothing)):
        np.testing.assert_array_equal(one.value, first.value)


@pytest.mark.parametrize("x", [547.1883540956637, 828.3549991842293, 969.6661969195939])
def test_lost_digits_in_step_with_the_row_widen_the_bound(x: float) -> None:
    """There h f' is a multiple of the last digit of sqrt(x + 1e6), so that the finest differences are equal."""
    holds(at(lambda p: np.sqrt(p + 1e6) - 1e3, x), 0.5 / np.sqrt(x + 1e6), 0.1)


@STENCILS
def test_the_bound_holds_where_the_row_steps_over_a_kink_of_the_slope(stencil: Stencil) -> None:
    distances = 10.0 ** np.random.default_rng(3).uniform(-7.0, -1.0, 500)
    x = np.concatenate([[1.000001], 1.0 + distances, 1.0 - distances])
    values = coordinate_steps(x, typical=1.0)[:, None] * stencil.offsets + x[:, None] - 1.0
    lines = Sample(stencil, coordinate_steps(x), (values / (1 + np.abs(values)))[:, :, None], x, EPS64)
    estimate = first_difference(lines)
    error = np.abs(estimate.value[:, 0] - (1 + np.abs(x - 1.0)) ** -2.0)
    assert estimate.conclusive.sum() > 500
    assert not (estimate.conclusive[:, 0] & (error > estimate.bound[:, 0])).any()


@pytest.mark.parametrize("power", [3, 4, 6])
@pytest.mark.parametrize("side", [0.0, 1.0])
def test_a_power_that_vanishes_to_both_sides_has_a_slope_of_zero(power: int, side: float) -> None:
    estimate = at(lambda p: np.where(p < 0, side, 1.0) * np.abs(p) ** power, 0.0, FIRST)
    assert estimate.conclusive[0, 0]
    assert abs(estimate.value[0, 0]) <= estimate.bound[0, 0] < 1e-8


def test_differences_that_end_on_a_stair_do_not_vanish() -> None:
    """Differences of a power fall down to the last step; those of a function with few digits are suddenly zero."""
    steps = FIRST.steps[:, None, None]
    power, resolved = 1e3 * steps**2, np.ones((FIRST.count, 1), bool)
    for sizes, bounded in ((power, True), (np.where(power > 1e-3, power, 0.0), False)):
        bound, widest = vanishing(sizes, np.full(sizes.shape, 1e-14), resolved, FIRST)
        assert np.isfinite(bound[0, 0]) == bounded
        assert not bounded or widest[0, 0] == 0


def noisy(f: Callable[[Array], Array], scale: float, seed: int) -> Callable[[Array], Array]:
    rng = np.random.default_rng(seed)
    return lambda p: f(p) + scale * rng.standard_normal(p.shape)


def test_what_is_conclusive_among_noise_is_right_to_a_tenth() -> None:
    for scale in 10.0 ** np.arange(-5.0, -1.0, 0.5):
        estimates = [at(noisy(np.sin, scale, seed), 1.0) for seed in range(20)]
        decided = [estimate for estimate in estimates if estimate.conclusive[0, 0]]
        assert all(abs(estimate.value[0, 0] - np.cos(1.0)) <= 0.1 * np.cos(1.0) for estimate in decided), scale
        assert len(decided) == 20 or scale > 2e-4  # where the bound is a few hundredths of the slope


def test_a_slope_of_zero_is_decided_though_digits_are_lost() -> None:
    estimates = [at(noisy(np.cos, 3e-9, seed), 0.0) for seed in range(10)]
    assert all(
        estimate.conclusive[0, 0] and abs(estimate.value[0, 0]) <= estimate.little[0, 0] for estimate in estimates
    )
