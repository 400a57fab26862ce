from __future__ import annotations

import numpy as np
import pytest

from gradcheck.numerics.sampling import FIRST, coordinate_steps, largest_steps, typical_magnitude

EPS32 = 2.0**-24


def test_every_coordinate_follows_its_own_magnitude() -> None:
    x = np.array([1e-6, 1.0, -3.0, 1e8])
    steps = coordinate_steps(x)
    assert np.all((steps > 0.21 * np.abs(x)) & (steps < 0.43 * np.abs(x)))


def test_steps_are_no_powers_of_two() -> None:
    mantissas = np.frexp(coordinate_steps(np.array([1e-6, 1.0, 0.75, 1e8])))[0]
    assert np.all((mantissas > 0.55) & (mantissas < 0.95))


@pytest.mark.parametrize(
    ("x", "typical"), [([0.0, 0.0], 1.0), ([0.0, 2.0, -4.0], 3.0), ([0.0, 1e-30], 1e-4), ([0.0, 1e30], 100.0)]
)
def test_typical_magnitude_is_the_median_within_limits(x: list[float], typical: float) -> None:
    assert typical_magnitude(np.array(x)) == typical


def test_zero_takes_the_typical_magnitude() -> None:
    steps = coordinate_steps(np.array([0.0, 0.01, 0.01]))
    assert steps[0] == steps[1]
    assert coordinate_steps(np.array([0.0]), typical=16.0)[0] == coordinate_steps(np.array([16.0]))[0]


def test_tiny_coordinates_step_at_least_a_part_of_sqrt_eps() -> None:
    assert coordinate_steps(np.array([1e-300]), typical=1.0)[0] > 1e-10
    assert coordinate_steps(np.array([1e-300]), eps=EPS32, typical=1.0)[0] > 1e-6


def test_lines_stop_at_their_first_coordinate() -> None:
    x = np.array([1e-3, 1.0])
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1e-3, 0.5], [0.0, 0.0]])
    own = coordinate_steps(x)
    expected = [own[0], own[1], own[0], min(own[0] / 1e-3, own[1] / 0.5), 1.0]
    np.testing.assert_allclose(largest_steps(x, directions, FIRST), expected)


def test_float32_rows_start_wider() -> None:
    x = np.array([1.0])
    assert largest_steps(x, np.eye(1), FIRST, eps=EPS32) > largest_steps(x, np.eye(1), FIRST)
    assert largest_steps(x, np.eye(1), FIRST, eps=EPS32) < 1.0
