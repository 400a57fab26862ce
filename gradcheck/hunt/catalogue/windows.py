"""Sliding windows in NumPy: how near a pooling stands to a tie."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def gaps(values: Array, size: int, stride: int, padding: str, *, added: Array | None = None) -> Array:
    """How far the largest element of every window lies above the second, for `values` of shape (*space, channels).

    A window is a cube of edge `size`; `padding` is "SAME" or "VALID" as TensorFlow means it (padding never wins).
    `added`, of shape (size, ..., size, channels), is added to every window first, as a dilation does.
    """
    space = values.shape[:-1]
    starts = [_starts(length, size, stride, padding) for length in space]
    distances = [
        _lead(values, corner, size, added, channel)
        for corner in itertools.product(*starts)
        for channel in range(values.shape[-1])
    ]
    return np.array(distances, dtype=np.float64)


def _starts(length: int, size: int, stride: int, padding: str) -> range:
    if padding == "VALID":
        return range(0, length - size + 1, stride)
    count = -(-length // stride)
    before = max((count - 1) * stride + size - length, 0) // 2
    return range(-before, count * stride - before, stride)


def _lead(values: Array, corner: tuple[int, ...], size: int, added: Array | None, channel: int) -> float:
    inside = sorted(
        values[(*position, channel)] + (0.0 if added is None else added[(*offset, channel)])
        for offset in itertools.product(range(size), repeat=len(corner))
        if _within(position := tuple(map(sum, zip(corner, offset, strict=True))), values.shape)
    )
    return float(inside[-1] - inside[-2]) if len(inside) > 1 else np.inf


def _within(position: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= place < length for place, length in zip(position, shape, strict=False))
