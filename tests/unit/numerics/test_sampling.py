from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.sampling import CONFIRM, joined, sample

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
    twice = joined(lines, lines.lines(slice(1, 2)))
    np.testing.assert_array_equal(twice.values[-1], lines.values[1])
    assert first_difference(twice).lines(slice(k, None)).turned.value.shape == (m, 1)
