"""Derivatives that swing from neighbour to neighbour follow a term of the function that its differences do not show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcheck.typing import Array
from gradcheck.verdict.tables import Comparison

TREND = 1e-3
SHIFTS = 12
APART = 0.05
SWINGS = 5
"""Of neighbours at so many distances, so many miss the parabola through the next ones by this part of the gap. Where a
value changes on both sides, up to four do.
"""
STILL = 4
"""What swings misses one of the first so many, which are the farthest."""

PERIODS, NEAR, CHANGE = 100.0, 1e-4, 10.0
"""Where a term that an error bound hides has turned by so many radians it may have any value, and no nearer than this
part of the radius, times the gap over the size: a kernel may leave the term out. A smooth derivative has changed there
by at most so many times what its size over the radius would be."""
SHARE, CHANCE = 1e-2, 1e-6
"""If that is no larger part of the gap than this, neighbours there tell both apart: as many as bring the chance that
what swings is back within this part at all of them below a millionth."""
NEIGHBOURS = np.array([1.0, -0.83, 0.61])
"""Where they lie."""


def swings(
    derivative: Callable[[Array], Array],
    point: Array,
    moves: Array,
    radius: Array,
    comparison: Comparison,
    suspects: Array,
) -> Array:
    """Which of the `suspects` (k, c) swing: autodiff's `derivative` (k, c) at points (n,) along the lines in doubt.

    The lines move by at most `moves` (k, n); their estimates rest on the part `radius` (k, c) of that.
    """
    lines = suspects.any(axis=1)
    gap = np.abs(comparison.autodiff - comparison.difference)
    size = np.maximum(np.abs(comparison.autodiff), np.abs(comparison.difference))
    # Means of two neighbours lie on a parabola but for the fourth power of their distance.
    reach = np.min(radius * (TREND * gap / size) ** 0.25, where=suspects, initial=1.0)
    shifts = reach * 8.0 ** -np.linspace(0.0, 1.0, SHIFTS)
    rng, some = np.random.default_rng(2), np.count_nonzero(lines)
    move = (rng.uniform(0.5, 1.0, some) * rng.choice([-1.0, 1.0], some)) @ moves[lines]
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = NEAR * np.min(radius * gap / size, where=suspects, initial=1.0)
        near = np.max(PERIODS * comparison.bound * radius / gap, where=suspects, initial=reached)
        share = np.max(CHANGE * near / radius * size / gap, where=suspects, initial=0.0)
    if share <= SHARE:
        count = int(np.ceil(np.log(CHANCE) / np.log(max(share, CHANCE))))
        points = point + near * move * NEIGHBOURS[:count, None]
        if _stays(derivative, points, comparison.autodiff, share * gap, suspects):
            return np.zeros(gap.shape, bool)
    square, means = shifts**2, []
    missed = np.zeros(gap.shape, int)
    for left, shift in zip(reversed(range(SHIFTS)), shifts, strict=True):
        means.append((derivative(point + shift * move) + derivative(point - shift * move)) / 2)
        if len(means) > 2:
            wide, middle, fine = square[len(means) - 3 : len(means)]
            part = (middle - fine) / (wide - fine)
            missed += np.abs(means[-2] - (part * means[-3] + (1 - part) * means[-1])) > APART * gap
        unsettled = suspects & (missed < SWINGS) & (missed + left >= SWINGS)
        if len(means) - 2 >= STILL:
            unsettled &= missed > 0
        if not unsettled.any():
            break
    return np.asarray(suspects & (missed >= SWINGS))


def _stays(derivative: Callable[[Array], Array], points: Array, autodiff: Array, slack: Array, suspects: Array) -> bool:
    """Whether the derivatives of all suspects are those at the point, within `slack` (k, c), at all of some points."""
    return all(bool((np.abs(derivative(point) - autodiff) <= slack)[suspects].all()) for point in points)
