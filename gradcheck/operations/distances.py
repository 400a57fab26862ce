"""How far an operation's arguments lie from where it is not smooth.

Those that the catalogue calls take the arguments by position and the attributes as keywords.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gradcheck.operations.spec import Distances
from gradcheck.typing import Array

Axes: TypeAlias = int | tuple[int, ...] | None

MOVED = 16 * float(np.finfo(np.float64).eps)
"""Computed eigenvalues are exact for a matrix that differs by this share of the norm."""


def at_zero(x: Array, *_: Array, **_attributes: Any) -> Array:
    """The elements of the first argument are to stay away from 0."""
    return np.abs(x)


def second_at_zero(_x: Array, y: Array, *_: Array, **_attributes: Any) -> Array:
    """The elements of the second argument are to stay away from 0."""
    return np.abs(y)


def at(*points: complex) -> Distances:
    """The elements of the first argument are to stay away from any of these points.

    >>> float(at(0.0, 6.0)(np.array([1.0, 6.0])).min())
    0.0
    """
    return lambda x, *_, **_attributes: np.stack([np.abs(x - point) for point in points])


def at_each(*points_of: Sequence[complex]) -> Distances:
    """The elements of each argument are to stay away from its points.

    >>> at_each((0.0,), (1.0, 2.0))(np.array([3.0]), np.array([2.0])).tolist()
    [3.0, 1.0, 0.0]
    """

    def distances(*values: Array, **_attributes: Any) -> Array:
        pairs = zip(values, points_of, strict=True)
        return np.concatenate([np.abs(np.ravel(value) - point) for value, points in pairs for point in points])

    return distances


def at_integers(x: Array, *_: Array, **_attributes: Any) -> Array:
    """The elements of the first argument are to stay away from whole numbers."""
    return np.asarray(np.abs(x - np.round(x)))


def from_multiples(x: Array, y: Array, **_attributes: Any) -> Array:
    """The first argument is to stay away from multiples of the second, which are all numbers where that is 0."""
    with np.errstate(all="ignore"):
        return np.where(y == 0, 0.0, np.abs(x - np.round(x / y) * y))


def from_negative_reals(x: Array, *_: Array, **_attributes: Any) -> Array:
    """The elements of the first argument are to stay away from 0 and the negative real axis, where logarithms jump."""
    return np.where(x.real > 0, np.abs(x), np.abs(x.imag))


def from_cuts(towards: complex) -> Distances:
    """The elements of the first argument are to stay away from two branch cuts, of asin or one of its relatives.

    They lead from the points `towards` and `-towards`, of magnitude 1, away from 0 to infinity.

    >>> float(from_cuts(1j)(np.array([0.5, -3j])).min())
    0.0
    """
    return lambda x, *_, **_attributes: np.stack([from_negative_reals(1 + sign * x / towards) for sign in (-1, 1)])


def between(x: Array, y: Array, *_: Array, **_attributes: Any) -> Array:
    """The first argument is to differ from the second, element by element after broadcasting."""
    return np.asarray(np.abs(x - y))


def norms(x: Array, *_: Array, axis: Axes = -1, **_attributes: Any) -> Array:
    """No vector along the axes of the first argument is to vanish."""
    return np.asarray(np.linalg.norm(groups(x, axis), axis=-1))


def ties(x: Array, *_: Array, axis: Axes = -1, **_attributes: Any) -> Array:
    """No two elements along the axes of the first argument are to be equal; those axes come last, as one."""
    return np.diff(np.sort(groups(x, axis), axis=-1), axis=-1)


def groups(x: Array, axis: Axes) -> Array:
    """The elements that are reduced together, flattened into the last axis."""
    reduced = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    last = np.moveaxis(x, reduced, range(-len(reduced), 0))
    kept = last.shape[: x.ndim - len(reduced)]
    return last.reshape(*kept, math.prod(last.shape[len(kept) :]))


def ties_of_largest(x: Array, *_: Array, axis: Axes = -1, **_attributes: Any) -> Array:
    """The largest element along the axes of the first argument is to be unique."""
    return ties(x, axis=axis)[..., -1:]


def ties_of_smallest(x: Array, *_: Array, axis: Axes = -1, **_attributes: Any) -> Array:
    """The smallest element along the axes of the first argument is to be unique."""
    return ties(x, axis=axis)[..., :1]


def ties_of_extremes(x: Array, *_: Array, axis: Axes = -1, **_attributes: Any) -> Array:
    """The largest and the smallest element along the axes of the first argument are to be unique; one is both."""
    return np.concatenate([ties_of_largest(x, axis=axis).ravel(), ties_of_smallest(x, axis=axis).ravel()])


def ties_within(pick: Distances) -> Distances:
    """The distance `pick`, taken within each segment of the first dimension that the attribute `ids` names."""

    def distances(x: Array, *_: Array, ids: Sequence[int], **_attributes: Any) -> Array:
        segments = [x[np.equal(ids, segment)] for segment in sorted(set(ids)) if segment >= 0]
        return np.concatenate([pick(segment, axis=0).ravel() for segment in segments])

    return distances


def gaps_of_eigenvalues(x: Array, *_: Array, **_attributes: Any) -> Array:
    """No two eigenvalues of the Hermitian part of the first argument are to be equal."""
    return ties(np.linalg.eigvalsh((x + np.conj(np.swapaxes(x, -1, -2))) / 2))


def gaps_of_singular_values(x: Array, *_: Array, **_attributes: Any) -> Array:
    """No two singular values of the first argument are to be equal, and none is to vanish."""
    values = np.linalg.svd(x, compute_uv=False)
    return np.concatenate([values, ties(values)], axis=-1)


def gap_of_abscissa(x: Array) -> Array:
    """How far the eigenvalue with the largest real part is from the others, or, of real matrices, its conjugate.

    Equal ones are computed as far apart as rounding moves them: by what the matrix is off, over the cosine between the
    right and the left eigenvector (Wilkinson 1965, "The Algebraic Eigenvalue Problem", chapter 2, section 8).
    """
    values, vectors = np.linalg.eig(x)
    order = np.argsort(-values.real, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    first, others = ordered[..., :1], ordered[..., 1:]
    conjugate = (first.imag != 0) & (first == np.conj(others)) & (not np.iscomplexobj(x))
    gaps = np.where(conjugate, np.abs(first - others), np.abs(first.real - others.real))
    left_values, left = np.linalg.eig(np.conj(np.swapaxes(x, -1, -2)))
    own = order[..., :1], np.argmin(np.abs(np.conj(left_values) - first), axis=-1, keepdims=True)
    pair = [np.take_along_axis(v, at[..., None, :], axis=-1) for v, at in zip((vectors, left), own, strict=True)]
    cosine = np.abs(np.sum(np.conj(pair[1]) * pair[0], axis=-2))
    moved = MOVED * np.linalg.norm(x, axis=(-2, -1))[..., None]
    return np.asarray(np.where(gaps * cosine <= moved, 0.0, gaps))
