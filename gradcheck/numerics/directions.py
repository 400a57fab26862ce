"""Directions for derivatives: the axes, random probes that lose no single entry, and the scales they are drawn at."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck.numerics.step import typical_magnitude

Array = np.ndarray[Any, Any]


def axes(n: int) -> Array:
    """The n unit vectors, shape (n, n)."""
    return np.eye(n, dtype=np.float64)


def probe_directions(rng: np.random.Generator, count: int, scale: Array) -> Array:
    """Random directions, shape (count, n): a random sign times a magnitude uniform in [1/2, 1], times `scale` (n,).

    Plain signs make two wrong entries of equal size cancel with probability 1/2; unit-normalised directions lose a
    single wrong entry as n grows.

    >>> np.abs(probe_directions(np.random.default_rng(0), 2, np.array([1.0, 100.0]))) >= [0.5, 50.0]
    array([[ True,  True],
           [ True,  True]])
    """
    scale = np.asarray(scale, dtype=np.float64)
    shape = (count, *scale.shape)
    return np.asarray(rng.choice([-1.0, 1.0], size=shape) * rng.uniform(0.5, 1.0, size=shape) * scale)


def cotangents(rng: np.random.Generator, count: int, scale: Array) -> Array:
    """Random cotangents for m outputs, shape (count, m): `probe_directions`, divided by the outputs' magnitudes.

    Dividing by `scale` (m,) makes every output weigh the same in w . f, whatever its own magnitude; a scale of 0
    counts as 1.
    """
    scale = np.asarray(scale, dtype=np.float64)
    return probe_directions(rng, count, 1.0 / np.where(scale == 0.0, 1.0, scale))


def magnitudes(x: Array, typical: float | None = None) -> Array:
    """Each coordinate's own magnitude, in the shape of x, float64; zeros get `typical`.

    By default that is `typical_magnitude`: the median of the others within [1e-4, 100], or 1 where all are zero.
    """
    size = np.abs(np.asarray(x, dtype=np.float64))
    return np.where(size > 0.0, size, typical_magnitude(size) if typical is None else typical)
