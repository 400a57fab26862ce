"""Reductions, cumulative operations, products of matrices (family `math`), selection by rank (`nn`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    BOOL,
    Array,
    Attribute,
    Choice,
    OpSpec,
    alike,
    matmul,
    nonempty_matrix,
    norms,
    only_if,
    ranked,
    ties_of_largest,
    ties_of_smallest,
    vector,
)

_math: Callable[..., OpSpec] = partial(OpSpec, family="math")
_nn: Callable[..., OpSpec] = partial(OpSpec, family="nn")
STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (2, 1, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (2, 3), (1, 2), (2, 2, 1))


def _axes(shape: Shape) -> Mapping[str, Attribute]:
    return {"axis": Choice(tuple(range(-1, -len(shape) - 1, -1)))}


def _reduced(shape: Shape) -> Mapping[str, Attribute]:
    return {**_axes(shape), "keepdims": BOOL}


def _cumulative(_shape: Shape) -> Mapping[str, Attribute]:
    return {"exclusive": BOOL, "reverse": BOOL}


_reduction: Callable[..., OpSpec] = partial(OpSpec, family="math", shapes=vector, starts=STARTS, attributes=_reduced)
_accumulation: Callable[..., OpSpec] = partial(
    OpSpec, family="math", shapes=ranked, starts=(*STARTS, (0,)), attributes=_cumulative
)

REDUCTIONS = (
    _math("reduce_sum", "tf.reduce_sum({0}, axis=-1)", ("Sum",), shapes=ranked, starts=(*STARTS, (0,))),
    _reduction("sum_over_axis", "tf.reduce_sum({0}, axis={axis}, keepdims={keepdims})", ("Sum",)),
    _reduction("reduce_mean", "tf.reduce_mean({0}, axis={axis}, keepdims={keepdims})", ("Mean",)),
    _reduction("reduce_prod", "tf.reduce_prod({0}, axis={axis}, keepdims={keepdims})", ("Prod",)),
    _reduction("reduce_max", "tf.reduce_max({0}, axis={axis}, keepdims={keepdims})", ("Max",), kinks=ties_of_largest),
    _reduction("reduce_min", "tf.reduce_min({0}, axis={axis}, keepdims={keepdims})", ("Min",), kinks=ties_of_smallest),
    _reduction(
        "reduce_euclidean_norm",
        "tf.math.reduce_euclidean_norm({0}, axis={axis}, keepdims={keepdims})",
        ("EuclideanNorm",),
        kinks=norms,
    ),
    _reduction("reduce_logsumexp", "tf.reduce_logsumexp({0}, axis={axis}, keepdims={keepdims})", ("Exp", "Log", "Sum")),
    _reduction(
        "reduce_variance", "tf.math.reduce_variance({0}, axis={axis}, keepdims={keepdims})", ("Mean", "Square", "Sub")
    ),
    _accumulation("cumsum", "tf.cumsum({0}, axis=-1, exclusive={exclusive}, reverse={reverse})", ("Cumsum",)),
    _accumulation("cumprod", "tf.math.cumprod({0}, axis=-1, exclusive={exclusive}, reverse={reverse})", ("Cumprod",)),
    _math(
        "cumulative_logsumexp",
        "tf.math.cumulative_logsumexp({0}, axis=-1, reverse={reverse})",
        ("CumulativeLogsumexp",),
        shapes=vector,
        starts=STARTS,
        attributes=lambda shape: {"reverse": BOOL},
    ),
    _math("matmul", "{0} @ {1}", ("BatchMatMulV2", "MatMul"), arity=2, broadcasts=True, shapes=matmul, starts=MATRICES),
    _math(
        "matmul_transposed",
        "tf.matmul({0}, {1}, transpose_a={transpose}, transpose_b=not {transpose})",
        ("BatchMatMulV2", "MatMul"),
        arity=2,
        shapes=only_if(nonempty_matrix, alike(2)),
        starts=MATRICES,
        attributes=lambda *shapes: {"transpose": BOOL},
    ),
    _math(
        "batch_matmul",
        "tf.raw_ops.BatchMatMul(x={0}, y=tf.math.conj({0}), adj_y=True)",
        ("BatchMatMul",),
        shapes=nonempty_matrix,
        starts=MATRICES,
    ),
    _math(
        "batch_matmul_v3",
        "tf.raw_ops.BatchMatMulV3(x={0}, y={0}, Tout=tf.float64, adj_x=True)",
        ("BatchMatMulV3",),
        shapes=nonempty_matrix,
        starts=MATRICES,
    ),
    _math(
        "cross",
        "tf.linalg.cross({0}, {1})",
        ("Cross",),
        arity=2,
        shapes=only_if(lambda shape: shape[-1:] == (3,), alike(2)),
        starts=((3,), (2, 3)),
    ),
    _reduction(
        "take_argmax",
        "tf.reduce_sum({0} * tf.one_hot(tf.argmax({0}, axis=-1), {0}.shape[-1], dtype=tf.float64), axis=-1)",
        ("Mul", "Sum"),
        attributes=lambda shape: {},
        kinks=ties_of_largest,
    ),
)


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


ORDERING = (
    _nn(
        "top_k",
        "tf.math.top_k({0}, {k}).values",
        ("TopKV2",),
        shapes=only_if(lambda shape: shape[-1:] > (0,)),
        attributes=_count,
        kinks=_top_ties,
    ),
    _nn(
        "nth_element",
        "tf.raw_ops.NthElement(input={0}, n={n}, reverse={reverse})",
        ("NthElement",),
        shapes=only_if(lambda shape: shape[-1:] > (0,)),
        attributes=_rank,
        kinks=_nth_ties,
    ),
    _nn(
        "isotonic_regression",
        "tf.nn.isotonic_regression({0}, decreasing={decreasing})[0]",
        ("IsotonicRegression",),
        batched="tf.reshape(tf.nn.isotonic_regression(tf.reshape({0}, [-1, {0}.shape[-1]]), "
        "decreasing={decreasing})[0], {0}.shape)",
        shapes=only_if(lambda shape: shape[-1:] > (0,)),
        attributes=lambda shape: {"decreasing": BOOL},
        kinks=_pooling_ties,
    ),
)
