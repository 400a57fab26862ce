"""Derivatives that oscillate from neighbour to neighbour follow a term that the differences of the function miss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcheck.typing import Array
from gradcheck.verdict.tables import Comparison

TREND = 1e-3
SHIFTS = 12
APART = 0.05
SWINGS = 5
"""Of the neighbours at SHIFTS distances, at least SWINGS miss the parabola through the next ones by APART times the gap
if the derivative oscillates. Where a value changes on both sides, up to four do.
"""
STILL = 4
"""An oscillation misses one of the first STILL parabolas, which are the widest."""

PERIODS, NEAR, CHANGE = 100.0, 1e-4, 10.0
"""A term that the error bound hides may have any value where it has turned by PERIODS radians, and no nearer than NEAR
times the radius, times the gap over the size: a kernel may leave the term out. A smooth derivative has changed there by
at most CHANGE times its size, times that distance over the radius."""
SHARE, CHANCE = 1e-2, 1e-6
"""If that change is at most SHARE of the gap, neighbours at that distance tell the two apart: so many of them that the
probability of an oscillation being back within the change at all of them is below CHANCE."""
NEIGHBOURS = np.array([1.0, -0.83, 0.61])
"""The neighbours' places, in units of that distance."""


def swings(
    derivative: Callable[[Array], Array],
    point: Array,
    moves: Array,
    radius: Array,
    comparison: Comparison,
    suspects: Array,
) -> Array:
    """Which `suspects` (k, c) oscillate, by autodiff's `derivative` (k, c) at points (n,) along the lines in doubt.

    The lines move by at most `moves` (k, n); their estimates rest on the part `radius` (k, c) of that.
    """
    lines = suspects.any(axis=1)
    gap = np.abs(comparison.autodiff - comparison.difference)
    size = np.maximum(np.abs(comparison.autodiff), np.abs(comparison.difference))
    # Means of two neighbours lie on a parabola up to the fourth power of their distance.
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
    """Whether the derivatives of all suspects equal those at the point, within `slack` (k, c), at all of the points."""
    return all(bool((np.abs(derivative(point) - autodiff) <= slack)[suspects].all()) for point in points)
