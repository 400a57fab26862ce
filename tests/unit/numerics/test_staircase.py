"""Staircases: functions that are constant on all steps, and the slope that shows when the steps are widened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.one_sided import constant, wide_slope, wide_slope_of_tilted
from gradcheck.numerics.sampling import sample

Array = np.ndarray[Any, Any]

ONE = np.ones(1)


def test_constant_looks_at_every_step_of_every_line_and_output() -> None:
    def f(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        return np.stack([np.round(x), x + 0.0 * y, 7.0 + 0.0 * x, np.full_like(x, np.nan)], axis=1)

    lines = sample(f, np.array([3.0, 1.0]), np.eye(2), step=np.array([0.25, 0.25]))
    np.testing.assert_array_equal(constant(lines), [[True, False, True, False], [True, True, True, False]])


def test_constant_sees_one_step_that_differs() -> None:
    lines = sample(lambda p: np.floor(p), np.array([0.5]), np.eye(1), step=np.array([0.5]))
    assert not constant(lines)[0, 0]


@pytest.mark.parametrize(
    ("name", "slope"),
    [("lost digits", 3.0), ("rounding", 10.0), ("integer cast", -2.0)],
)
def test_staircases_have_the_slope_of_what_was_meant(name: str, slope: float) -> None:
    stairs = {
        "lost digits": lambda p: (1e17 + 3.0 * p[:, 0]) - 1e17,
        "rounding": lambda p: 10.0 * np.round(p[:, 0] + 0.1),
        "integer cast": lambda p: -2.0 * p[:, 0].astype(np.int64).astype(np.float64),
    }
    found = wide_slope(stairs[name], np.array([0.3]), ONE, 0.01)
    assert found is not None
    value, spread = found
    assert abs(value - slope) <= spread
    assert spread <= 0.3 * abs(slope)


@pytest.mark.parametrize(("left", "right"), [(3.0, 1.0), (-1.0, 1.0), (0.5, 2.0)])
def test_beside_a_kink_on_the_flat_piece_the_slopes_of_both_sides_are_possible(left: float, right: float) -> None:
    def stairs_and_a_slope(p: Array) -> Array:
        x = p[:, 0]
        return np.where(x > 0, right * x, left * np.round(x))

    found = wide_slope(stairs_and_a_slope, np.array([-0.2]), ONE, 0.01)
    assert found is not None
    value, spread = found
    assert all(abs(value - slope) <= spread for slope in (left, right))
    assert spread < abs(left - right)


@pytest.mark.parametrize("height", [1e-3, 1e-6])
def test_so_have_stairs_that_are_tilted(height: float) -> None:
    def stairs(p: Array) -> Array:
        return 5.0 * p[:, 0] + height * np.round(3.0 * p[:, 0] / height) + p[:, 0] ** 2

    found = wide_slope_of_tilted(stairs, np.zeros(1), ONE, height / 100, 5.0, 1e-15)
    assert found is not None
    assert abs(found[0] - 8.0) <= found[1] < 1.0


@pytest.mark.parametrize(
    "smooth",
    [
        np.sin,
        lambda x: np.sin(x) + 3.0 * np.maximum(x - 3e-5, 0.0),
        lambda x: np.sin(x) + 3.0 * np.abs(x**2 - 1e-9),
        lambda x: np.sin(x) + (x > 3e-5),
    ],
    ids=["smooth", "a kink nearby", "two kinks", "a jump nearby"],
)
def test_what_is_smooth_kinked_or_jumps_beyond_a_straight_piece_has_no_stairs(smooth: Callable[[Array], Array]) -> None:
    assert wide_slope_of_tilted(lambda p: smooth(p[:, 0]), np.zeros(1), ONE, 2e-5, 1.0, 1e-14) is None


def test_close_to_the_edge_of_the_domain_fewer_steps_have_to_do() -> None:
    def rounded_below_twelve(p: Array) -> Array:
        return np.where(p[:, 0] < 12.0, np.round(p[:, 0]), np.inf)

    found = wide_slope(rounded_below_twelve, np.array([0.3]), ONE, 0.2)
    assert found is not None
    assert abs(found[0] - 1.0) <= found[1] < 1.0


def test_the_row_is_widened_until_it_shows_stairs_and_so_many_times_at_most() -> None:
    """Either outcome occurs one widening short of it: the first is by 4, the last by 4**24."""

    def rounded_within(p: Array) -> Array:
        return np.where(np.abs(p[:, 0]) < 13.2, np.round(p[:, 0]), np.inf)

    assert wide_slope(rounded_within, np.array([0.3]), ONE, 1.0) is not None
    for power, expected in ((24, True), (25, False)):
        found = wide_slope(lambda p: np.round(0.75 * p[:, 0]), np.zeros(1), ONE, 4.0**-power)
        assert (found is not None) is expected


def test_a_wrong_slope_does_not_agree_with_a_staircase() -> None:
    found = wide_slope(lambda p: np.round(p[:, 0]), np.array([0.3]), ONE, 0.01)
    assert found is not None
    value, spread = found
    assert abs(value - 1.0) <= spread < 0.3
    assert abs(value - 2.0) > spread


def test_flat_pieces_are_no_staircases() -> None:
    assert wide_slope(lambda p: np.maximum(p[:, 0], 0.0), np.array([-1.0]), ONE, 0.1) is None
    assert wide_slope(lambda p: np.clip(p[:, 0], -1.0, 1.0), np.array([3.0]), ONE, 0.1) is None
    assert wide_slope(lambda p: 0.0 * p[:, 0] + 2.0, np.array([3.0]), ONE, 0.1) is None


def test_a_function_that_is_not_finite_far_out_gives_nothing() -> None:
    def f(points: Array) -> Array:
        return np.where(np.abs(points[:, 0]) < 2.0, 5.0, np.nan)

    assert wide_slope(f, np.zeros(1), ONE, 0.1) is None
