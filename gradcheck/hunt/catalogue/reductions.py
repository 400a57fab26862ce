"""Reductions, cumulative operations, products of matrices (family `math`), selection by rank (`nn`)."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import norms, ties, ties_of_largest, ties_of_smallest
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points, tf
from gradcheck.hunt.catalogue.shapes import (
    alike,
    axes,
    matmul,
    nonempty_matrix,
    ranked,
    reduced,
    transpositions,
    vector,
)
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array, Shapes

STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (2, 1, 2))

_row = partial(operation, "math", shapes=ranked, starts=(*STARTS, (0,)))
_accumulation = partial(_row, exclusive=BOOL, reverse=BOOL)
_scan = partial(
    operation,
    "math",
    shapes=ranked,
    starts=((2,), (3,), (2, 2), (2, 3), (2, 1, 2)),
    axis=lambda shape: (*axes(shape), *range(len(shape))),
    reverse=BOOL,
    batching=along_axis,
)
_nonempty = partial(operation, "math", shapes=vector, starts=STARTS)
_reduction = partial(_nonempty, axis=reduced, keepdims=BOOL, batching=reduces_points)
_matrix = partial(operation, "math", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (2, 3), (1, 2), (2, 2, 1)))


def _factors(shape: Shape) -> Shapes:
    """Other factors, of the shape and of its transpose."""
    return [(one,) for one in dict.fromkeys([shape, (*shape[:-2], *shape[:-3:-1])])]


FLAGS = ("transpose", "adjoint")


def _flags(one: Shape, other: Shape) -> list[tuple[str, ...]]:
    """Those of tf.matmul that transpose a factor, or that take its adjoint, too."""
    return [
        tuple(map("_".join, zip(kinds, factors, strict=True)))
        for factors in transpositions(one, other)
        for kinds in itertools.product(FLAGS, repeat=len(factors))
    ]


REDUCTIONS = (
    _row("reduce_sum", lambda x: tf.reduce_sum(x, axis=-1), "Sum"),
    _reduction("sum_over_axis", lambda x, *, axis, keepdims: tf.reduce_sum(x, axis=axis, keepdims=keepdims), "Sum"),
    _reduction("reduce_mean", lambda x, *, axis, keepdims: tf.reduce_mean(x, axis=axis, keepdims=keepdims), "Mean"),
    _reduction("reduce_prod", lambda x, *, axis, keepdims: tf.reduce_prod(x, axis=axis, keepdims=keepdims), "Prod"),
    _reduction(
        "reduce_max",
        lambda x, *, axis, keepdims: tf.reduce_max(x, axis=axis, keepdims=keepdims),
        "Max",
        kinks=ties_of_largest,
    ),
    _reduction(
        "reduce_min",
        lambda x, *, axis, keepdims: tf.reduce_min(x, axis=axis, keepdims=keepdims),
        "Min",
        kinks=ties_of_smallest,
    ),
    _reduction(
        "reduce_euclidean_norm",
        lambda x, *, axis, keepdims: tf.math.reduce_euclidean_norm(x, axis=axis, keepdims=keepdims),
        "EuclideanNorm",
        kinks=norms,
    ),
    _reduction(
        "reduce_logsumexp",
        lambda x, *, axis, keepdims: tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims),
        "Exp Log Sum",
        terms=1.0,
    ),
    _reduction(
        "reduce_variance",
        lambda x, *, axis, keepdims: tf.math.reduce_variance(x, axis=axis, keepdims=keepdims),
        "Mean Square Sub",
    ),
    _accumulation(
        "cumsum", lambda x, *, exclusive, reverse: tf.cumsum(x, axis=-1, exclusive=exclusive, reverse=reverse), "Cumsum"
    ),
    _accumulation(
        "cumprod",
        lambda x, *, exclusive, reverse: tf.math.cumprod(x, axis=-1, exclusive=exclusive, reverse=reverse),
        "Cumprod",
    ),
    _nonempty(
        "cumulative_logsumexp",
        lambda x, *, reverse: tf.math.cumulative_logsumexp(x, axis=-1, reverse=reverse),
        "CumulativeLogsumexp",
        reverse=BOOL,
    ),
    _matrix("matmul", lambda x, y: x @ y, "BatchMatMulV2 MatMul", broadcasts=True, shapes=matmul),
    _matrix(
        "matmul_transposed",
        lambda x, y, *, flags: tf.matmul(x, y, **dict.fromkeys(flags, True)),
        "BatchMatMulV2 MatMul",
        broadcasts=True,
        others=lambda shape: (*_factors(shape), *_factors(shape[-2:] if shape[:-2] else (2, *shape))),
        flags=_flags,
    ),
    _matrix(
        "batch_matmul",
        lambda x, y, *, adjoint: tf.raw_ops.BatchMatMul(x=x, y=y, adj_x="a" in adjoint, adj_y="b" in adjoint),
        others=_factors,
        adjoint=transpositions,
    ),
    _matrix(
        "batch_matmul_v3",
        lambda x, y, *, adjoint: tf.raw_ops.BatchMatMulV3(
            x=x, y=y, Tout=x.dtype, adj_x="a" in adjoint, adj_y="b" in adjoint
        ),
        others=_factors,
        adjoint=transpositions,
    ),
    _row(
        "cross",
        lambda x, y: tf.linalg.cross(x, y),
        "Cross",
        when=lambda shape: shape[-1] == 3,
        others=alike,
        starts=((3,), (2, 3)),
    ),
    _nonempty(
        "take_argmax",
        lambda x: tf.reduce_sum(x * tf.one_hot(tf.argmax(x, axis=-1), x.shape[-1], dtype=tf.float64), axis=-1),
        "Mul Sum",
        kinks=ties_of_largest,
    ),
    _scan(
        "cumsum_over_axis",
        lambda x, *, axis, exclusive, reverse: tf.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse),
        "Cumsum",
        exclusive=BOOL,
    ),
    _scan(
        "cumprod_over_axis",
        lambda x, *, axis, exclusive, reverse: tf.math.cumprod(x, axis=axis, exclusive=exclusive, reverse=reverse),
        "Cumprod",
        exclusive=BOOL,
    ),
    _scan(
        "cumulative_logsumexp_over_axis",
        lambda x, *, axis, reverse: tf.math.cumulative_logsumexp(x, axis=axis, reverse=reverse),
        "CumulativeLogsumexp",
        when=all,
    ),
    # Of no element the logarithm is that of 0, which is no number.
    _scan(
        "exclusive_logsumexp",
        lambda x, *, axis, reverse: tf.exp(tf.math.cumulative_logsumexp(x, axis=axis, exclusive=True, reverse=reverse)),
        "CumulativeLogsumexp Exp",
        when=all,
    ),
)


def _nth_ties(x: Array, n: int, reverse: bool) -> Array:
    place = x.shape[-1] - 1 - n if reverse else n
    return ties(x)[..., max(place - 1, 0) : place + 1]


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
    gaps = [float(after.mean() - before.mean()) for before, after in itertools.pairwise(blocks)]
    within = [float(block[:cut].mean() - block[cut:].mean()) for block in blocks for cut in range(1, len(block))]
    return gaps + within


_ordering = partial(operation, "nn", when=lambda shape: shape[-1:] > (0,))

ORDERING = (
    _ordering(
        "top_k",
        lambda x, *, k: tf.math.top_k(x, k).values,
        "TopKV2",
        k=lambda shape: range(1, shape[-1] + 1),
        kinks=lambda x, k: -np.diff(-np.sort(-x))[..., :k],
    ),
    # In no certain order, hence the sums.
    _ordering(
        "top_k_unsorted",
        lambda x, *, k: tf.reduce_sum(tf.math.top_k(x, k, sorted=False).values, -1),
        "TopKV2",
        k=lambda shape: range(1, shape[-1] + 1),
        kinks=lambda x, k: -np.diff(-np.sort(-x))[..., k - 1 : k],
    ),
    _ordering(
        "nth_element",
        lambda x, *, n, reverse: tf.raw_ops.NthElement(input=x, n=n, reverse=reverse),
        n=lambda shape: range(shape[-1]),
        reverse=BOOL,
        kinks=_nth_ties,
    ),
    _ordering(
        "isotonic_regression",
        lambda x, *, decreasing: tf.nn.isotonic_regression(x, decreasing=decreasing)[0],
        "IsotonicRegression",
        batched=lambda x, *, decreasing: tf.reshape(
            tf.nn.isotonic_regression(tf.reshape(x, [-1, x.shape[-1]]), decreasing=decreasing)[0], x.shape
        ),
        decreasing=BOOL,
        kinks=_pooling_ties,
    ),
)
