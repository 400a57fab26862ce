"""Probe directions: their components, their scales, and the probability that errors cancel in them."""

from __future__ import annotations

import numpy as np

from gradcheck.numerics.probing import cotangents, directions_at, magnitudes, probe_directions
from gradcheck.numerics.sampling import MANY


def test_components_are_a_sign_times_a_magnitude_between_a_half_and_one() -> None:
    scale = np.array([1e-6, 1.0, 1e6])
    drawn = probe_directions(np.random.default_rng(0), 4000, scale) / scale
    assert drawn.shape == (4000, 3)
    assert np.abs(drawn).min() >= 0.5
    assert np.abs(drawn).max() <= 1.0
    np.testing.assert_allclose(np.mean(drawn > 0, axis=0), 0.5, atol=0.03)
    np.testing.assert_allclose(np.abs(drawn).mean(axis=0), 0.75, atol=0.01)


def test_equal_and_opposite_errors_hardly_ever_cancel() -> None:
    drawn = probe_directions(np.random.default_rng(1), 10_000, np.ones(2))
    assert np.mean(np.abs(drawn[:, 0] + drawn[:, 1]) < 1e-3) < 5e-3
    assert np.mean(np.abs(drawn[:, 0] - drawn[:, 1]) < 1e-3) < 5e-3


def test_same_seed_same_directions() -> None:
    first, second = (probe_directions(np.random.default_rng(7), 3, np.ones(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_directions_at_a_point_have_its_magnitudes_in_every_part() -> None:
    x = np.random.default_rng(3).normal(size=MANY + 3)
    x[::5] = 0.0
    drawn, beside = (np.random.default_rng(4) for _ in range(2))
    directions = directions_at(drawn, 2, x)
    np.testing.assert_array_equal(directions, probe_directions(beside, 2, magnitudes(x)))
    assert drawn.bit_generator.state == beside.bit_generator.state
    shares = np.abs(directions) / magnitudes(x)
    assert 0.5 * (1 - 1e-15) <= shares.min() < shares.max() <= 1.0 + 1e-15


def test_cotangents_make_outputs_weigh_the_same() -> None:
    scale = np.array([1e-8, 1.0, 1e8, 0.0])
    weights = np.abs(cotangents(np.random.default_rng(2), 50, scale) * np.where(scale == 0.0, 1.0, scale))
    assert weights.shape == (50, 4)
    assert weights.min() >= 0.5 * (1 - 1e-15)
    assert weights.max() <= 1.0 + 1e-15


def test_magnitudes() -> None:
    np.testing.assert_array_equal(magnitudes(np.array([[-3.0, 0.0], [5.0, 4.0]])), [[3.0, 4.0], [5.0, 4.0]])
    np.testing.assert_array_equal(magnitudes(np.array([0.0, -2.0])), [2.0, 2.0])
    np.testing.assert_array_equal(magnitudes(np.zeros(2)), [1.0, 1.0])
    assert magnitudes(np.array([1e-30], dtype=np.float32)).dtype == np.float64
