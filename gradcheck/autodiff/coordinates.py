"""Real coordinates of tensors: a complex element counts as two coordinates, its real and its imaginary part.

TensorFlow's gradient of a real L with respect to a complex z is dL/dRe z + i dL/dIm z, and the cotangent of a complex
output acts as L = Re(conj(w) y); both are plain inner products in these coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradcheck.typing import Array

ROUNDOFF = {
    "float64": 2.0**-53,
    "complex128": 2.0**-53,
    "float32": 2.0**-24,
    "complex64": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}


def is_complex(dtype: Any) -> bool:
    """Whether an element of this dtype has two coordinates."""
    return bool(np.dtype(dtype).kind == "c")


def coordinate_count(shape: Sequence[int], dtype: Any) -> int:
    """The number of real coordinates of a tensor."""
    return math.prod(shape) * (2 if is_complex(dtype) else 1)


def to_coordinates(value: Array) -> Array:
    """A tensor's coordinates, float64, shape (count,)."""
    if is_complex(value.dtype):
        return np.ascontiguousarray(value.reshape(-1), dtype=np.complex128).view(np.float64)
    return value.reshape(-1).astype(np.float64, copy=False)


def from_coordinates(flat: Array, shape: Sequence[int], dtype: Any) -> Array:
    """The tensor (or, for `flat` of shape (points, count), a batch of tensors) with these coordinates."""
    leading = flat.shape[:-1]
    if is_complex(dtype):
        return np.ascontiguousarray(flat).view(np.complex128).astype(dtype, copy=False).reshape((*leading, *shape))
    return flat.astype(dtype, copy=False).reshape((*leading, *shape))


def element_of(coordinate: int, shape: Sequence[int], dtype: Any) -> tuple[tuple[int, ...], str]:
    """The index of a coordinate's element and, for complex tensors, its part (" (real part)")."""
    part = ""
    if is_complex(dtype):
        coordinate, imaginary = divmod(coordinate, 2)
        part = " (imaginary part)" if imaginary else " (real part)"
    return tuple(int(i) for i in np.unravel_index(coordinate, tuple(shape))) if shape else (), part


def farthest(one: Array, other: Array) -> float:
    """The largest difference of two arrays; NaN is 0 from NaN, and infinitely far from a number."""
    if np.array_equal(one, other):  # the usual case: one pass, and little memory
        return 0.0
    if one.shape != other.shape:
        return np.inf
    first, second = (array.astype(np.result_type(array, np.float64), copy=False) for array in (one, other))
    with np.errstate(invalid="ignore"):
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        apart = np.abs(first - second)
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), where=~same, initial=0.0))


def parts_of(counts: Sequence[int]) -> tuple[slice, ...]:
    """The slices of the coordinates of several tensors in one concatenated vector.

    >>> parts_of([2, 3])
    (slice(0, 2, None), slice(2, 5, None))
    """
    ends = np.cumsum([0, *counts])
    return tuple(slice(int(start), int(end)) for start, end in pairwise(ends))
