"""Derivatives that swing from neighbour to neighbour follow a term of the function that its differences do not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck.comparison.tables import Comparison

Array = np.ndarray[Any, Any]

TREND = 1e-3
SHIFTS = 12
APART = 0.05
SWINGS = 5
"""Of neighbours at so many distances, so many miss the parabola through the next ones by this part of the gap. Where a
value changes on both sides, up to four do.
"""
STILL = 4
"""What swings misses one of the first so many, which are the farthest."""

NEAR, STAYS = 1e-4, 1e-3
"""Neighbours that lie within this part of the radius, times the gap over the size, where a smooth derivative has
changed by about as much of the gap, say that it does not swing if they all keep within this part of the gap."""
NEIGHBOURS = np.array([1.0, -0.83, 0.61, -0.47])
"""Where they lie."""
PERIODS = 100.0
"""A term that turns by fewer radians over the largest of these distances is too large to hide in the error bound."""


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
    rng, count = np.random.default_rng(2), np.count_nonzero(lines)
    move = (rng.uniform(0.5, 1.0, count) * rng.choice([-1.0, 1.0], count)) @ moves[lines]
    near = NEAR * np.min(radius * gap / size, where=suspects, initial=1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shown = near * gap >= PERIODS * comparison.bound * radius
    if shown[suspects].all() and _stays(derivative, point, near * move, comparison.autodiff, STAYS * gap, suspects):
        return np.zeros(gap.shape, bool)
    square, means = shifts**2, []
    missed = np.zeros(gap.shape, int)
    for left, shift in zip(reversed(range(SHIFTS)), shifts, strict=True):
        means.append((derivative(point + shift * move) + derivative(point - shift * move)) / 2)
        if len(means) > 2:
            wide, middle, fine = square[len(means) - 3 : len(means)]
            share = (middle - fine) / (wide - fine)
            missed += np.abs(means[-2] - (share * means[-3] + (1 - share) * means[-1])) > APART * gap
        unsettled = suspects & (missed < SWINGS) & (missed + left >= SWINGS)
        if len(means) - 2 >= STILL:
            unsettled &= missed > 0
        if not unsettled.any():
            break
    return np.asarray(suspects & (missed >= SWINGS))


def _stays(
    derivative: Callable[[Array], Array], point: Array, move: Array, autodiff: Array, slack: Array, suspects: Array
) -> bool:
    """Whether the derivatives of all suspects at a few neighbours are those at the point, up to the first that is not.

    A term that swings, and whose amplitude an error bound hides, has gone through many periods up to each of them.
    """
    return all(
        bool((np.abs(derivative(point + shift * move) - autodiff) <= slack)[suspects].all()) for shift in NEIGHBOURS
    )
