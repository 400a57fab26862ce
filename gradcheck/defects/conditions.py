"""A fixed vocabulary of conditions on the elements of arguments, and of which elements count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.typing import Array

ZERO = 64 * np.finfo(np.float64).eps
"""A singular value that is this small relative to the largest may be 0."""


def _zeros(groups: Array) -> Array:
    return np.asarray(np.count_nonzero(groups == 0, axis=-1))


def _equal(groups: Array) -> bool:
    return groups.shape[-1] > 1 and bool(np.any(np.all(groups == groups[:, :1], axis=-1)))


def _below(groups: Array, limit: float) -> bool:
    """Whether all of several elements of a group are small, but not all 0: of a matrix, gaps between eigenvalues."""
    tiny = np.all(np.abs(groups) <= limit, axis=-1) & np.any(groups != 0, axis=-1)
    return groups.shape[-1] > 1 and bool(np.any(tiny))


def _cancels(groups: Array) -> bool:
    """Whether the elements, as they are or with alternating signs, add up to 0 up to rounding."""
    signs = np.resize([1.0, -1.0], groups.shape[-1])
    sums = np.minimum(np.abs(np.sum(groups, axis=-1)), np.abs(groups @ signs))
    return groups.shape[-1] > 1 and bool(np.any(sums <= ZERO * np.sum(np.abs(groups), axis=-1)))


def _ties_on_top(groups: Array) -> bool:
    return any(np.count_nonzero(group == np.max(group)) > 1 for group in groups if group.size)


def _singular(matrices: Array) -> bool:
    values = _singular_values(matrices)
    return bool(np.any(values[:, -1] <= ZERO * values[:, 0]))


def _equal_singular_values(matrices: Array) -> bool:
    """Whether two singular values are equal, and not 0, up to rounding."""
    values = _singular_values(matrices)
    return bool(np.any((-np.diff(values) <= 1e-6 * values[:, :1]) & (values[:, 1:] > ZERO * values[:, :1])))


def _close_singular_values(matrices: Array) -> bool:
    """Whether the squares of two singular values are so close that 1e-20 matters beside the square of their gap."""
    return bool(np.any(-np.diff(_singular_values(matrices) ** 2) <= 1e-5))


def _far_singular_values(matrices: Array) -> bool:
    """Whether the smallest singular value of a non-square matrix is lost beside the largest when squared."""
    values = _singular_values(matrices)
    return matrices.shape[-2] != matrices.shape[-1] and bool(np.any(values[:, -1] <= 1e-6 * values[:, 0]))


def _vanishing_singular_values(matrices: Array) -> bool:
    """Whether one singular value (two of a square matrix) vanishes beside others, so that 1e-20 matters beside z**2.

    For a matrix that is not square, z is the value itself; for two values, it is the difference of their squares.
    """
    values = _singular_values(matrices)
    if values.shape[-1] < 2:
        return False
    square = matrices.shape[-2] == matrices.shape[-1]
    gone = (values[:, -2] <= 1e-2) | (not square and values[:, -1] <= 1e-4)
    return bool(np.any(gone & (values[:, 0] > 1e-2)))


def _equal_eigenvalues(matrices: Array) -> bool:
    """Whether two eigenvalues of a square matrix are so close that 1e-20 matters beside the square of their gap z."""
    values = np.linalg.eigvals(matrices)
    first, second = np.triu_indices(values.shape[-1], 1)
    gaps = np.abs(values[:, first] - values[:, second])
    return bool(np.any(gaps <= 1e-5 * np.maximum(np.max(np.abs(values), axis=-1, keepdims=True), 1.0)))


def _singular_values(matrices: Array) -> Array:
    """The singular values of matrices, the largest first."""
    return np.asarray(np.linalg.svd(matrices, compute_uv=False))


def _monotone(groups: Array) -> bool:
    steps = np.diff(groups, axis=-1)
    return groups.shape[-1] > 1 and bool(np.any(np.all(steps > 0, axis=-1) | np.all(steps < 0, axis=-1)))


def around_pixels(image: Array, boxes: Array) -> Array:
    """The values of an image (rows, columns, channels) one pixel before, at and after each corner of boxes, (n, 3).

    For each edge (top, left, bottom, right, as fractions of the image's sides) that lies on a pixel, up to four
    roundings in float32, where the second edge is the first plus a difference. Outside, the image is zero.
    """
    found = [np.empty((0, 3))]
    for pixels, edges in ((image, boxes), (image.swapaxes(0, 1), boxes[:, [1, 0, 3, 2]])):
        height, width = pixels.shape[:2]
        padded = np.pad(pixels, ((1, 2), (1, 2), (0, 0)))
        for ends in edges * np.resize([height - 1.0, width - 1.0], 4):
            rows, columns = ends[::2], ends[1::2]
            on_pixels = np.abs(rows - np.round(rows)) <= 2.0**-22 * np.maximum.accumulate(np.abs(rows))
            for row in np.round(rows[on_pixels & (rows > -0.5) & (rows < height - 0.5)]).astype(int):
                for column in columns[(columns >= 0) & (columns <= width - 1)]:
                    whole, part = int(column), column % 1
                    left, right = (padded[row : row + 3, whole + place] for place in (1, 2))
                    found.append(((1 - part) * left + part * right).T)
    return np.concatenate(found)


CONDITIONS: dict[str, Callable[[Array], bool]] = {
    "always": lambda groups: True,
    "empty": lambda groups: groups.size == 0,
    "single": lambda groups: groups.shape[-1] == 1,
    "several": lambda groups: groups.shape[-1] > 1,
    "zero": lambda groups: bool(np.any(_zeros(groups) >= 1)),
    "2 zeros": lambda groups: bool(np.any(_zeros(groups) == 2)),
    "1 or 2 zeros of several": lambda groups: groups.shape[-1] > 1 and bool(np.any(np.isin(_zeros(groups), (1, 2)))),
    "zeros only": lambda groups: groups.shape[-1] > 0 and bool(np.any(_zeros(groups) == groups.shape[-1])),
    "not zero": lambda groups: bool(np.any(groups != 0)),
    "one": lambda groups: bool(np.any(groups == 1)),
    "monotone": _monotone,
    "tie": lambda groups: any(np.unique(group).size < group.size for group in groups),
    "equal": _equal,
    "equal in float32": lambda groups: _equal(groups.astype(np.float32)),
    "cancels": _cancels,
    "gaps": lambda groups: any(np.setdiff1d(np.arange(np.max(group, initial=0)), group).size for group in groups),
    "uneven": lambda groups: any(np.unique(np.unique(group, return_counts=True)[1]).size > 1 for group in groups),
    "not real": lambda groups: bool(np.any(groups.imag != 0)),
    "over 2, not real": lambda groups: groups.shape[-1] > 2 and bool(np.any(groups.imag != 0)),
    "largest twice": _ties_on_top,
    "several, not real": lambda groups: groups.shape[-1] > 1 and bool(np.any(groups.imag != 0)),
    "over 36": lambda groups: bool(np.any(np.abs(groups) > 36)),
    "over 88": lambda groups: bool(np.any(np.abs(groups) > 88)),
    "over 709": lambda groups: bool(np.any(np.abs(groups.imag if np.iscomplexobj(groups) else groups) > 709)),
    "over 5000": lambda groups: bool(np.any(np.abs(groups) > 5000)),
    "large": lambda groups: bool(np.any(np.abs(groups) >= 1e4)),
    "small": lambda groups: _below(groups, 1e-2),
    "minute": lambda groups: _below(groups, 1e-4),
}
"""Whether any of some groups, an array (groups, members), meets a condition; reports/README.md has examples."""

MATRIX_CONDITIONS: dict[str, Callable[[Array], bool]] = {
    "over 2 rows and columns": lambda matrices: min(matrices.shape[-2:]) > 2,
    "singular": _singular,
    "equal singular values": _equal_singular_values,
    "close singular values": _close_singular_values,
    "far singular values": _far_singular_values,
    "vanishing singular values": _vanishing_singular_values,
    "equal eigenvalues": _equal_eigenvalues,
}
"""Whether any of some finite matrices, an array (matrices, rows, columns) that has elements, meets a condition."""

PLACES: dict[str, Callable[[Array], Array]] = {
    "positive": lambda array: np.asarray(np.real(array) > 0),
    "negative": lambda array: np.asarray(np.real(array) < 0),
    "not zero": lambda array: np.asarray(array != 0),
    "zero": lambda array: np.asarray(array == 0),
}
"""Conditions on single elements of an argument; only elements beside those that meet them count."""

SPECIAL = {
    "empty": "no element",
    "zero": "zero",
    "tie": "tie",
    "one": "one",
    "single": "a single element",
}
"""The conditions looked for in the arguments of a finding, in this order, and their names in its description."""

ELEMENTS: dict[str, Callable[[Array], Array]] = {
    "all": lambda groups: groups,
    "all but the first": lambda groups: groups[..., 1:],
    "all but the last": lambda groups: groups[..., :-1],
    "running largest": lambda groups: np.maximum.accumulate(groups, axis=-1),
    "running largest from the last": lambda groups: np.maximum.accumulate(groups[..., ::-1], axis=-1),
}
"""Which elements of groups count, or what is computed from them."""


def special(arguments: Sequence[Any]) -> tuple[str, int] | None:
    """The first of the conditions `SPECIAL` that one of some arguments meets, and its number; None if none does.

    >>> special([np.array([1.5, 2.5]), np.array([0.0, 0.0])])
    ('zero', 1)
    """
    for condition in SPECIAL:
        for number, argument in enumerate(arguments):
            if CONDITIONS[condition](np.reshape(argument, (1, -1))):
                return condition, number
    return None


def describe(arguments: Sequence[Any]) -> str:
    """The special property of an operation's arguments, in a few words; "none" if there is none.

    >>> describe([np.array([1.5, 0.0])])
    'zero in argument 0'
    """
    found = special(arguments)
    return "none" if found is None else f"{SPECIAL[found[0]]} in argument {found[1]}"
