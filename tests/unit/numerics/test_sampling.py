"""Stencils, the steps of lines, and samples."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.sampling import (
    CONFIRM,
    FIRST,
    LinePoints,
    coordinate_steps,
    joined,
    largest_steps,
    same_points,
    sample,
    typical_magnitude,
)


def test_first_stencil_takes_47_evaluations() -> None:
    assert FIRST.ratio == 4.0
    assert FIRST.count == 14
    assert FIRST.offsets.size == 47


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM])
def test_offsets_are_centre_then_row_to_both_sides_then_noise(stencil) -> None:  # type: ignore[no-untyped-def]
    count = stencil.count
    assert stencil.offsets[0] == 0.0
    np.testing.assert_allclose(stencil.offsets[1 : 1 + count], stencil.ratio ** -np.arange(count), rtol=1e-15)
    np.testing.assert_array_equal(stencil.offsets[1 + count : 1 + 2 * count], -stencil.steps)
    noise = stencil.offsets[1 + 2 * count :].reshape(len(stencil.noise_spacings), stencil.noise_points)
    np.testing.assert_allclose(np.diff(noise), np.broadcast_to(np.diff(noise)[:, :1], np.diff(noise).shape))
    np.testing.assert_allclose(noise.sum(axis=1), 0.0, atol=1e-18)


def test_ratios_are_unrelated() -> None:
    exponent = math.log(FIRST.ratio) / math.log(CONFIRM.ratio)
    assert all(abs(exponent * q - round(exponent * q)) > 0.05 for q in range(1, 5))
    shared = np.min(np.abs(np.log(FIRST.steps[1:, None] / CONFIRM.steps[None, 1:])))
    assert shared > 0.01


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


X = np.array([1.0, -2.0, 0.0])
DIRECTIONS = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, -2.0]])


def itself(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return points


def test_points_are_the_centre_then_the_lines() -> None:
    asked = []
    lines = sample(lambda at: asked.append(at) or at, X, DIRECTIONS, step=np.array([0.25, 0.5]))  # type: ignore[func-returns-value]
    (got,) = asked
    assert got.shape == (1 + 2 * 46, 3)
    np.testing.assert_array_equal(got[0], X)
    np.testing.assert_array_equal(got[1], [1.25, -2.0, 0.0])
    np.testing.assert_array_equal(got[47], [1.0, -1.75, -1.0])
    np.testing.assert_array_equal(got[47 + 14], [1.0, -2.25, 1.0])
    np.testing.assert_array_equal(lines.values[1, 1:], got[47:])


def test_every_line_has_the_shared_centre() -> None:
    values = np.arange(2.0 * (1 + 3 * 46)).reshape(-1, 2)
    got = sample(lambda at: values, X, np.eye(3)).values
    assert got.shape == (3, 47, 2)
    np.testing.assert_array_equal(got[:, 0], np.broadcast_to(values[0], (3, 2)))
    np.testing.assert_array_equal(got[1, 1:], values[47 : 47 + 46])


def test_magnitude_is_the_largest_over_moving_coordinates() -> None:
    np.testing.assert_array_equal(sample(itself, X, DIRECTIONS).magnitude, [1.0, 4.0])
    np.testing.assert_array_equal(sample(itself, X, np.zeros((1, 3))).magnitude, [0.0])


def test_sample_calls_the_function_once_with_all_points() -> None:
    calls = []

    def f(at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(at.shape)
        return np.stack([at.sum(axis=1), at.prod(axis=1)], axis=1)

    lines = sample(f, X, DIRECTIONS, stencil=CONFIRM, eps=2.0**-24, step=np.array([1.0, 2.0]))
    assert calls == [(1 + 2 * 54, 3)]
    assert lines.values.shape == (2, 55, 2)
    assert lines.stencil is CONFIRM
    assert lines.eps == 2.0**-24
    np.testing.assert_array_equal(lines.step, [1.0, 2.0])
    np.testing.assert_array_equal(lines.values[:, 0, 0], [-1.0, -1.0])
    np.testing.assert_array_equal(lines.values[:, 1, 0], [0.0, -4.0])


def test_outputs_apart_and_samples_joined_have_the_differences_that_they_had() -> None:
    lines = sample(lambda p: np.stack([np.sin(p[:, 0] * p[:, 1]), np.exp(p[:, 1] + p[:, 2])], axis=1), X, DIRECTIONS)
    apart = lines.apart()
    k, _, m = lines.values.shape
    assert apart.values.shape == (k * m, lines.values.shape[1], 1)
    np.testing.assert_array_equal(apart.values[m, :, 0], lines.values[1, :, 0])
    whole, each = first_difference(lines), first_difference(apart)
    np.testing.assert_allclose(each.value.reshape(k, m), whole.value, rtol=1e-14)
    twice = joined(lines, lines[1:2])
    np.testing.assert_array_equal(twice.values[-1], lines.values[1])
    assert first_difference(twice)[k:].turned.value.shape == (m, 1)


def test_points_on_lines_are_made_when_they_are_asked_for() -> None:
    x, directions = np.linspace(0.5, 1.5, 4), np.random.default_rng(0).normal(size=(3, 4))
    offsets = np.random.default_rng(1).normal(size=(3, 5))
    points = LinePoints.on(x, directions, offsets)
    expected = np.concatenate([x[None], (x + offsets[..., None] * directions[:, None]).reshape(15, 4)])
    assert len(points) == 16
    assert points.nbytes < expected.nbytes
    np.testing.assert_array_equal(points[:], expected)
    np.testing.assert_array_equal(points[3:7], expected[3:7])
    np.testing.assert_array_equal(points[[0, 9, 15]], expected[[0, 9, 15]])
    np.testing.assert_array_equal(list(points), expected)
    np.testing.assert_array_equal(sample(np.sin, x, directions).values[:, 0], np.sin(x)[None].repeat(3, axis=0))


def test_the_same_points_are_those_of_equal_arrays_or_lines() -> None:
    x, directions, offsets = np.ones(2), np.eye(2), np.array([[0.5], [0.25]])
    points = LinePoints.on(x, directions, offsets)
    assert same_points(points, LinePoints.on(x.copy(), directions.copy(), offsets.copy()))
    assert same_points(points[:], points[:])
    others = [(x + 1, directions, offsets), (x, -directions, offsets), (x, directions, 2 * offsets)]
    assert not any(same_points(points, LinePoints.on(*other)) for other in others)
    assert not any(same_points(points[:], LinePoints.on(*other)[:]) for other in others)
    assert not same_points(points[:], points[:2])
    assert not same_points(points, points[:])


def test_steps_of_millions_of_coordinates_take_little_memory() -> None:
    x = np.random.default_rng(0).normal(size=2**21)
    tracemalloc.start()
    largest_steps(x, x[None], FIRST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= x.nbytes / 16
