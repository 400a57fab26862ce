"""Gradients of several cotangents as one matrix, with what was connected kept apart from what is zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.source import Source

Array = np.ndarray[Any, Any]


class WrongShapeError(Exception):
    """A derivative has another shape or dtype than its source."""

    def __init__(self, source: str, given: str, expected: str) -> None:
        super().__init__(f"the derivative with respect to {source} is {given}; its source is {expected}")
        self.source = source


@dataclass(frozen=True)
class Gradients:
    """`values` (k, n): zero where TensorFlow said None; `connected` (k, n): False there."""

    values: Array
    connected: Array

    @staticmethod
    def undefined(count: int, size: int) -> Gradients:
        """What there is of `count` gradients where the function is not defined: NaN."""
        return Gradients(np.full((count, size), np.nan), np.ones((count, size), bool))

    def scaled(self, factors: Array) -> Gradients:
        """The rows multiplied by factors (k,)."""
        return Gradients(self.values * factors[:, None], self.connected)


def gradient_matrix(rows: Sequence[Sequence[Any]], sources: Sequence[Source]) -> Gradients:
    """Stack the gradients of k cotangents, each a tensor or None a source. Raises WrongShapeError."""
    values = [[_coordinates(part, source) for part, source in zip(row, sources, strict=True)] for row in rows]
    seen = np.array([[part is not None for part in row] for row in rows])
    counts = [source.count for source in sources]
    return Gradients(np.stack([np.concatenate(parts) for parts in values]), np.repeat(seen, counts, axis=1))


def _coordinates(part: Any, source: Source) -> Array:
    if part is None:
        return np.zeros(source.count)
    tensor = tf.convert_to_tensor(part)
    if tuple(tensor.shape) != source.shape:
        raise WrongShapeError(source.name, f"of shape {tuple(tensor.shape)}", f"of shape {source.shape}")
    if tensor.dtype.is_complex != np.iscomplexobj(source.value) or not (
        tensor.dtype.is_floating or tensor.dtype.is_complex
    ):
        raise WrongShapeError(source.name, f"of dtype {tensor.dtype.name}", f"of dtype {source.dtype}")
    return source.pulled(tensor.numpy())
