from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.rounding import FACTOR, TAIL, confirmed, differences, lattice, scattered, value_noise
from gradcheck.numerics.sampling import sample

Array = np.ndarray[Any, Any]

NOTHING = np.zeros((1, 1))


def noisy(scale: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda at: np.sin(at) + scale * rng.standard_normal(at.shape)


def test_differences_annihilate_cubics_and_keep_the_variance() -> None:
    table = differences(9)
    assert table.shape == (5 + 4 + 3, 9)
    np.testing.assert_allclose(table @ np.arange(9.0) ** 3, 0.0, atol=1e-12)
    np.testing.assert_allclose((table**2).sum(axis=1), 1.0)


@pytest.mark.parametrize("scale", [1e-12, 1e-8, 1e-4])
def test_noise_is_estimated_within_a_factor_of_three(scale: float) -> None:
    for seed in range(5):
        lines = sample(noisy(scale, seed), np.array([1.0]), np.eye(1))
        level = value_noise(lines) / FACTOR
        assert level.shape == (1, 2, 1)
        seen = level[level > 0]
        assert seen.size
        assert np.all((seen > scale / 3) & (seen < 3 * scale)), seed


def test_a_kink_is_noise_to_the_table_but_is_not_confirmed() -> None:
    lines = sample(lambda at: np.maximum(at - 1.0, 0.0), np.array([1.00001]), np.eye(1))
    assert value_noise(lines).max() > 1e-7
    assert confirmed(lines, value_noise(lines), np.full((1, 1), 1e-16), NOTHING)[0, 0] == 1e-16
    assert confirmed(lines, value_noise(lines), np.full((1, 1), 1e-6), NOTHING)[0, 0] > 1e-6


def test_values_outside_the_domain_are_no_noise() -> None:
    lines = sample(lambda at: np.where(at > 1.0, np.nan, at), np.array([1.0]), np.eye(1))
    np.testing.assert_array_equal(value_noise(lines), 0.0)


@pytest.mark.parametrize("digits", [1e-4, 1e-5, 1e-6])
def test_a_staircase_is_noise_though_the_finest_differences_see_one_stair(digits: float) -> None:
    lines = sample(lambda at: digits * np.round(np.exp(at) / digits), np.array([1.0]), np.eye(1))
    assert confirmed(lines, value_noise(lines), np.zeros((1, 1)), NOTHING)[0, 0] > digits / 2


@pytest.mark.parametrize(
    "f", [lambda at: np.maximum(at - 1.0, 0.0), lambda at: np.maximum(np.abs(at - 1.0) - 1e-5, 0.0)]
)
def test_a_dead_zone_is_no_staircase(f: Any) -> None:
    lines = sample(f, np.array([1.0 - 1e-6]), np.eye(1))
    assert confirmed(lines, value_noise(lines), np.zeros((1, 1)), NOTHING)[0, 0] == 0.0


def test_noise_goes_up_and_down_past_equal_stairs_too() -> None:
    lines = sample(lambda at: np.sqrt(at + 1e6) - 1e3, np.array([547.1883540956637]), np.eye(1))
    assert confirmed(lines, value_noise(lines), np.full((1, 1), 1e-18), NOTHING)[0, 0] > 1e-13


def test_noise_scatters_over_all_samples_but_a_kink_and_a_jump_do_not() -> None:
    def seen(f: Any) -> float:
        lines = sample(f, np.array([1.00001]), np.eye(1))
        level = value_noise(lines)
        assert level.max() > 1e-12
        return float(scattered(lines, level, np.full((1, 1), 1e-15)).max())

    assert seen(lambda at: at**2 + 1e-11 * np.sin(1e17 * at)) > 1e-12
    assert seen(lambda at: at**2 + 1e-3 * np.abs(at - 1.0)) == 0.0
    assert seen(lambda at: at + 1e-8 * (at > 1.0)) == 0.0


def test_digits_that_no_value_has_are_lost() -> None:
    def seen(f: Any, x: float) -> float:
        lines = sample(f, np.array([x]), np.eye(1))
        return float(lattice(lines, np.full((1, 1), 1e-21), TAIL)[0, 0])

    assert seen(lambda at: at - np.sin(at), 0.0141925) == 2.0**-59
    assert seen(lambda at: (1e3 + at) - 1e3 + 2.1, 0.3) == 2.0**-43
    assert seen(lambda at: np.maximum(at - 1.0, 0.0), 0.9) == 0.0
    assert seen(np.floor, 3.3) == 0.0
    assert seen(np.exp, -40.0) == 0.0
