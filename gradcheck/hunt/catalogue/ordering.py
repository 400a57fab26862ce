"""Selection by rank (family `nn`): they have kinks where values tie."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Attribute, Choice, OpSpec

Array = np.ndarray[Any, Any]


def _vectors(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape and shape[-1] else []


def _top_ties(x: Array, k: int) -> Array:
    falling = -np.sort(-x, axis=-1)
    return np.asarray(falling[..., :-1] - falling[..., 1:])[..., :k]


def _nth_ties(x: Array, n: int, reverse: bool) -> Array:
    rising = np.sort(x, axis=-1)
    place = x.shape[-1] - 1 - n if reverse else n
    steps = np.diff(rising, axis=-1)
    return np.asarray(steps[..., max(place - 1, 0) : place + 1])


def _pooling_ties(x: Array, decreasing: bool) -> Array:
    """Distances from the points where blocks of the pool-adjacent-violators solution merge or split."""
    rows = (-x if decreasing else x).reshape(-1, x.shape[-1])
    return np.array([distance for row in rows for distance in _block_margins(row)] or [np.inf])


def _block_margins(row: Array) -> list[float]:
    blocks: list[Array] = []
    for value in row:
        blocks.append(np.array([value]))
        while len(blocks) > 1 and blocks[-2].mean() > blocks[-1].mean():
            last = blocks.pop()
            blocks[-1] = np.concatenate([blocks[-1], last])
    between = [float(after.mean() - before.mean()) for before, after in itertools.pairwise(blocks)]
    within = [float(block[:cut].mean() - block[cut:].mean()) for block in blocks for cut in range(1, len(block))]
    return between + within


def _count(shape: Shape) -> Mapping[str, Attribute]:
    return {"k": Choice(tuple(range(1, shape[-1] + 1)))}


def _rank(shape: Shape) -> Mapping[str, Attribute]:
    return {"n": Choice(tuple(range(shape[-1]))), "reverse": BOOL}


OPERATIONS = (
    OpSpec(
        "top_k",
        "nn",
        "tf.math.top_k({0}, {k}).values",
        ("TopKV2",),
        shapes=_vectors,
        attributes=_count,
        kinks=lambda x, k: _top_ties(x, k),
    ),
    OpSpec(
        "nth_element",
        "nn",
        "tf.raw_ops.NthElement(input={0}, n={n}, reverse={reverse})",
        ("NthElement",),
        shapes=_vectors,
        attributes=_rank,
        kinks=lambda x, n, reverse: _nth_ties(x, n, reverse),
    ),
    OpSpec(
        "isotonic_regression",
        "nn",
        "tf.nn.isotonic_regression({0}, decreasing={decreasing})[0]",
        ("IsotonicRegression",),
        batched="tf.reshape(tf.nn.isotonic_regression(tf.reshape({0}, [-1, {0}.shape[-1]]), "
        "decreasing={decreasing})[0], {0}.shape)",
        shapes=_vectors,
        attributes=lambda shape: {"decreasing": BOOL},
        kinks=lambda x, decreasing: _pooling_ties(x, decreasing),
    ),
)
