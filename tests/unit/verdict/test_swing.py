"""Derivatives that oscillate by a term hidden in the error bound, and derivatives that are wrong by as much around."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.result import Verdict
from gradcheck.verdict.doubts import swings
from gradcheck.verdict.tables import Comparison
from tests import slices
from tests.verdicts import check

Array = np.ndarray

SMOOTH = 3.0


def judged(
    derivative: Callable[[float], float], bound: float, radius: float, step: float = 1.0
) -> tuple[bool, list[float]]:
    """Whether a derivative oscillates at 0 beside a smooth one of size SMOOTH, and where it was evaluated."""
    taken: list[float] = []

    def noted(point: Array) -> Array:
        taken.append(float(point[0]))
        return np.array([[derivative(taken[-1])]])

    entry = Comparison.agreeing(*(np.array([[one]]) for one in (derivative(0.0), SMOOTH, bound, bound)))
    found = swings(noted, np.zeros(1), np.array([[step]]), np.array([[radius]]), entry, np.ones((1, 1), bool))
    return bool(found), taken


def swinging(size: float, frequency: float, phase: float) -> Callable[[float], float]:
    """A smooth derivative plus an oscillating term of this size."""
    return lambda t: SMOOTH * np.cos(t) + size * np.cos(frequency * t + phase)


@pytest.mark.sliced
@pytest.mark.parametrize("bound", [1e-13, 1e-11, 1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize("size", [0.1, 1.0, 100.0])
def test_a_term_that_the_bound_hides_is_seen(size: float, bound: float) -> None:
    rng, radius, missed = np.random.default_rng(0), 0.3, 0
    for _ in slices.sliced(range(300), slices.every(10)):
        phase, faster = rng.uniform(0, 2 * np.pi), 10 ** rng.uniform(0, 3)
        swing = size * np.cos(phase)
        if abs(swing) < 100 * bound:  # no mismatch
            continue
        frequency = faster * size / (bound * radius)
        found, _ = judged(swinging(size, frequency, phase), bound, radius)
        missed += not found
    assert missed == 0


def test_a_term_that_the_kernel_leaves_out_is_seen() -> None:
    """For large arguments tf.math.special.fresnel_sin is constant to the last digit; its derivative is a sine."""
    assert judged(swinging(1.0, 1e7, 0.3), 1e-20, 0.3)[0]
    for f in (tf.math.special.fresnel_sin, tf.math.special.fresnel_cos):
        assert check(f, np.array([7128563.730378016])).verdict == Verdict.INCONCLUSIVE


@pytest.mark.parametrize("gap", [1e-5, 1e-3, 0.1, 10.0, -2.0])
def test_a_value_that_is_wrong_around_the_point_does_not_swing(gap: float) -> None:
    assert not judged(lambda t: SMOOTH * np.cos(t) + t + gap, 1e-11, 0.3)[0]


def test_the_larger_the_gap_the_fewer_neighbours_are_asked() -> None:
    """Two or three, which an oscillation passes once in a million times; for small gaps pairs at six distances."""
    asked = [len(judged(swinging(gap, 0.0, 0.0), 1e-11, 0.3)[1]) for gap in (10.0, 0.03, 3e-3, 1e-4)]
    assert asked == [2, 2, 3, 12]
