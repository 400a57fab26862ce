"""Reductions, moments, norms, cumulative operations, products of matrices (`math`), selection by rank (`nn`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import at, norms, ties, ties_of_largest, ties_of_smallest
from gradcheck.operations.language import along_axis, operation, reduces_points, tf
from gradcheck.operations.shapes import (
    alike,
    at_least,
    axes,
    matmul,
    nonempty_matrix,
    ranked,
    reduced,
    transpositions,
    vector,
)
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Shapes
from gradcheck.operations.special_sets import (
    ALL_ZERO,
    CLOSE_SINGULAR_VALUES,
    CUMULATIVE_PRODUCT,
    EQUAL_ELEMENTS,
    LARGE_RUNNING_LARGEST,
    MANY_ALONG_AXIS,
    MANY_FACTORS_NOT_REAL,
    NULL_MATRIX,
    NULL_VECTOR,
    ONE_ELEMENT,
    ONE_OR_TWO_ZEROS,
)
from gradcheck.typing import Array

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
    _reduction(
        "reduce_prod",
        lambda x, *, axis, keepdims: tf.reduce_prod(x, axis=axis, keepdims=keepdims),
        "Prod",
        special=(ONE_OR_TWO_ZEROS, MANY_FACTORS_NOT_REAL),
    ),
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
        special=(NULL_VECTOR,),
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
        "cumsum",
        lambda x, *, exclusive, reverse: tf.cumsum(x, axis=-1, exclusive=exclusive, reverse=reverse),
        "Cumsum",
        special=MANY_ALONG_AXIS,
    ),
    _accumulation(
        "cumprod",
        lambda x, *, exclusive, reverse: tf.math.cumprod(x, axis=-1, exclusive=exclusive, reverse=reverse),
        "Cumprod",
        special=(*CUMULATIVE_PRODUCT, *MANY_ALONG_AXIS),
    ),
    _nonempty(
        "cumulative_logsumexp",
        lambda x, *, reverse: tf.math.cumulative_logsumexp(x, axis=-1, reverse=reverse),
        "CumulativeLogsumexp",
        reverse=BOOL,
        special=(LARGE_RUNNING_LARGEST,),
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
        special=MANY_ALONG_AXIS,
    ),
    _scan(
        "cumprod_over_axis",
        lambda x, *, axis, exclusive, reverse: tf.math.cumprod(x, axis=axis, exclusive=exclusive, reverse=reverse),
        "Cumprod",
        exclusive=BOOL,
        special=(*CUMULATIVE_PRODUCT, *MANY_ALONG_AXIS),
    ),
    _scan(
        "cumulative_logsumexp_over_axis",
        lambda x, *, axis, reverse: tf.math.cumulative_logsumexp(x, axis=axis, reverse=reverse),
        "CumulativeLogsumexp",
        when=all,
        special=(LARGE_RUNNING_LARGEST,),
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


def _sets_of_axes(shape: Shape, *_others: Shape) -> Iterable[tuple[int, ...]]:
    """The last axis, all of them, the first, the last two."""
    rank = len(shape)
    return dict.fromkeys([(-1,), tuple(range(rank)), (0,), tuple(range(rank))[-2:]])


def _weights(shape: Shape) -> Shapes:
    """Of the elements, of the last axis, of all axes but the last."""
    return [(other,) for other in dict.fromkeys([shape, shape[-1:], (*shape[:-1], 1)])]


_nn = partial(operation, "nn")
_moments = partial(
    _nn,
    shapes=vector,
    starts=((2,), (3,), (2, 2), (2, 3), (2, 1, 2)),
    batching=reduces_points,
    axis=_sets_of_axes,
)
_normalized = partial(_nn, broadcasts=True, shapes=vector, starts=((2,), (1,), (2, 2), (2, 3), (1, 2, 2)))
_loss = partial(_nn, others=alike)

GIVEN = (REALS, REALS, POSITIVE)
"""A value, a mean and a variance."""

MOMENTS = (
    _moments(
        "moments",
        lambda x, *, axis, keepdims, which: tf.nn.moments(x, axis, keepdims=keepdims)[which],
        "Mean",
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "moments_shifted",
        lambda x, *, axis, keepdims, which: tf.compat.v1.nn.moments(x, axis, shift=2.0, keep_dims=keepdims)[which],
        "Mean",
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "weighted_moments",
        lambda x, y, *, axis, keepdims, which: tf.nn.weighted_moments(x, axis, y, keepdims=keepdims)[which],
        "Sum Mul",
        REALS,
        POSITIVE,
        others=_weights,
        broadcasts=True,
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "sufficient_statistics",
        lambda x, *, axis, keepdims, which: tf.nn.sufficient_statistics(
            x, axis, shift=np.float64(2.0), keepdims=keepdims
        )[which],
        "Sum",
        which=(2, 1),
        keepdims=BOOL,
    ),
    _nn(
        "normalize_moments",
        lambda x, y, z, *, shift, which: tf.nn.normalize_moments(x, y, z, shift)[which],
        "Mul Reciprocal",
        POSITIVE,
        REALS,
        REALS,
        others=lambda shape: [(shape, shape)],
        shift=(None, 2.0),
        which=(1, 0),
    ),
    _normalized(
        "batch_normalization",
        lambda x, y, z, u, v, *, epsilon: tf.nn.batch_normalization(x, y, z, u, v, epsilon),
        "Rsqrt Mul",
        *(*GIVEN, REALS, REALS),
        others=lambda shape: [(shape[-1:],) * 4, ((*shape[:-1], 1),) * 4],
        epsilon=(0.001, 0.5),
    ),
    _normalized(
        "batch_normalization_unscaled",
        lambda x, y, z: tf.nn.batch_normalization(x, y, z, None, None, 0.5),
        "Rsqrt Mul",
        *GIVEN,
        others=lambda shape: [(shape[-1:],) * 2, (shape,) * 2],
    ),
    _normalized(
        "batch_normalization_global",
        lambda x, y, z, u, v, *, scaled: tf.nn.batch_norm_with_global_normalization(x, y, z, u, v, 0.5, scaled),
        "Rsqrt Mul",
        *(*GIVEN, REALS, REALS),
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [(shape[-1:],) * 4],
        starts=((1, 1, 1, 2), (2, 1, 2, 1)),
        scaled=BOOL,
    ),
    _loss("log_poisson_loss", lambda x, y: tf.nn.log_poisson_loss(x, y), "Exp Mul"),
    _loss(
        "log_poisson_loss_full",
        lambda x, y: tf.nn.log_poisson_loss(x, y, compute_full_loss=True),
        "Exp Mul Log",
        POSITIVE,
        REALS,
        singular=at(1.0),
    ),
    _loss(
        "weighted_cross_entropy",
        lambda x, y, *, weight: tf.nn.weighted_cross_entropy_with_logits(x, y, weight),
        "Log1p Exp Relu",
        weight=(1.0, 0.5, 3.0),
    ),
    _loss(
        "weighted_cross_entropy_of_weights",
        lambda x, y, *, label: tf.nn.weighted_cross_entropy_with_logits(tf.zeros_like(x) + label, x, y),
        "Log1p Exp Relu",
        label=(1.0, 0.0, 0.5),
    ),
    _loss(
        "compute_average_loss",
        lambda x, y, *, size: tf.nn.compute_average_loss(x, sample_weight=y, global_batch_size=size),
        "Sum Mul Cast",
        looped=True,
        shapes=vector,
        when=lambda shape: len(shape) == 1,
        starts=((2,), (3,)),
        size=(1, 4),
        reference=lambda x, y, *, size: tf.reduce_sum(x * y, axis=-1) / size,
        rtol=1e-6,
    ),
    _nn("scale_regularization_loss", lambda x: tf.nn.scale_regularization_loss(x), "Sum", looped=True),
    _nn("log_sigmoid", lambda x: tf.math.log_sigmoid(x), "Softplus Neg"),
    _nn(
        "softmax_cross_entropy_over_axis",
        lambda x, y, *, axis: tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.nn.softmax(x, axis=axis), logits=y, axis=axis
        ),
        "SoftmaxCrossEntropyWithLogits",
        shapes=nonempty_matrix,
        others=alike,
        starts=((2, 2), (2, 3), (2, 1, 2)),
        batching=along_axis,
        axis=lambda shape, *_: (0, len(shape) - 2, -1),
        terms=1.0,
    ),
)


def _either_axis(shape: Shape) -> tuple[int, ...]:
    return (*axes(shape), *range(len(shape)))


def from_kinks_of_power(x: Array, *, power: int, axis: int, **_attributes: Any) -> Array:
    """At zero a sum of magnitudes has a kink for each element, the other norms for the vector."""
    return np.abs(x) if power == 1 else norms(x, axis=axis)


def _from_kinks_of_largest(x: Array, *, axis: int, **_attributes: Any) -> Array:
    """The largest magnitude is to be unique, and not to vanish."""
    largest = np.max(np.abs(x), axis=axis)
    gaps = ties_of_largest(np.abs(x), axis=axis)
    return np.concatenate([largest.ravel(), gaps.ravel()])


def _from_kinks_of_sums(x: Array, *, power: int | str, **_attributes: Any) -> Array:
    """The largest sum of magnitudes, of columns or rows, is to be unique and to have no zeros."""
    lines = np.abs(x if power == "rows" else np.swapaxes(x, -1, -2))
    sums = lines.sum(-1)
    of_largest = np.take_along_axis(lines, np.argmax(sums, axis=-1)[..., None, None], axis=-2)
    return np.concatenate([of_largest.ravel(), ties(sums)[..., -1:].ravel()])


def _from_kinks_of_spectral_norm(x: Array, **_attributes: Any) -> Array:
    """The largest singular value is to be unique, and not to vanish."""
    values = np.linalg.svd(x, compute_uv=False)
    return np.concatenate([values[..., :1], -np.diff(values)[..., :1]], axis=-1)


def from_equal(x: Array, *, axis: Any, **_attributes: Any) -> Array:
    """Not all of several elements along the axes are to be equal; the deviation of a single one is 0 throughout."""
    distances = norms(x - np.mean(x, axis=axis, keepdims=True), axis=axis)
    return np.full_like(distances, np.inf) if distances.size == x.size else distances


def _from_bound(x: Array, *, bound: float, axis: Any = None, **_attributes: Any) -> Array:
    """The norm is to differ from the bound, above which something is divided by it."""
    return np.abs(norms(x, axis=axis) - bound)


_norm = partial(operation, "linalg", shapes=vector, starts=STARTS, batching=along_axis, axis=_either_axis)
_of_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (2, 3), (3, 2), (2, 2, 2)))
_scaling = partial(operation, "math", shapes=vector, starts=STARTS)
_in_two = partial(_scaling, looped=True, when=lambda shape: shape[0] > 1)

NORMS = (
    _norm(
        "norm",
        lambda x, *, power, axis, keepdims: tf.norm(x, ord=power, axis=axis, keepdims=keepdims),
        "Sum Abs",
        power=(1, 3),
        keepdims=BOOL,
        kinks=from_kinks_of_power,
        special=(NULL_VECTOR,),
    ),
    _norm(
        "norm_euclidean",
        lambda x, *, power, axis, keepdims: tf.norm(x, ord=power, axis=axis, keepdims=keepdims),
        "Sqrt Sum Mul",
        power=("euclidean", 2),
        keepdims=BOOL,
        kinks=norms,
        special=(NULL_VECTOR,),
    ),
    _norm(
        "norm_largest", lambda x, *, axis: tf.norm(x, ord=np.inf, axis=axis), "Max Abs", kinks=_from_kinks_of_largest
    ),
    _scaling(
        "norm_of_all",
        lambda x: tf.norm(x, axis=None),
        "Sqrt Sum Mul",
        batched=lambda x: tf.norm(tf.reshape(x, [x.shape[0], -1]), axis=-1),
        kinks=lambda x: norms(x, axis=None),
        special=(ALL_ZERO,),
    ),
    _of_matrix(
        "norm_frobenius",
        lambda x, *, power, keepdims: tf.norm(x, ord=power, axis=(-2, -1), keepdims=keepdims),
        "Sqrt Sum Mul",
        power=("fro", "euclidean"),
        keepdims=BOOL,
        kinks=lambda x, **_: norms(x, axis=(-2, -1)),
        special=(NULL_MATRIX,),
    ),
    _of_matrix(
        "norm_of_columns",
        lambda x, *, power: tf.norm(x, ord=1 if power == "columns" else np.inf, axis=(-2, -1)),
        "Max Sum Abs",
        power=("columns", "rows"),
        kinks=_from_kinks_of_sums,
    ),
    _of_matrix(
        "norm_spectral",
        lambda x, *, keepdims: tf.norm(x, ord=2, axis=(-2, -1), keepdims=keepdims),
        "Svd Max",
        keepdims=BOOL,
        kinks=_from_kinks_of_spectral_norm,
        special=(CLOSE_SINGULAR_VALUES,),
    ),
    _norm(
        "normalize",
        lambda x, *, axis, which: tf.linalg.normalize(x, axis=axis)[which],
        "RealDiv Sqrt",
        which=(0, 1),
        singular=norms,
    ),
    _norm(
        "normalize_of_power",
        lambda x, *, power, axis, which: tf.linalg.normalize(x, ord=power, axis=axis)[which],
        "RealDiv Sum Abs",
        power=(1, 3),
        which=(0, 1),
        kinks=from_kinks_of_power,
        singular=norms,
    ),
    _norm(
        "normalize_by_largest",
        lambda x, *, axis, which: tf.linalg.normalize(x, ord=np.inf, axis=axis)[which],
        "RealDiv Max Abs",
        which=(0, 1),
        kinks=_from_kinks_of_largest,
        singular=norms,
    ),
    _scaling(
        "l2_normalize",
        lambda x, *, axis, bound: tf.nn.l2_normalize(x, axis=axis, epsilon=bound**2),
        "Maximum Rsqrt Sum",
        batching=reduces_points,
        axis=reduced,
        bound=(1.0, 0.01),
        kinks=_from_bound,
    ),
    _scaling(
        "clip_by_norm",
        lambda x, *, bound, axis: tf.clip_by_norm(x, bound, axes=axis),
        "Maximum RealDiv",
        batching=reduces_points,
        axis=reduced,
        bound=(1.0, 0.5, 4.0),
        kinks=_from_bound,
    ),
    _in_two(
        "clip_by_global_norm",
        lambda x, *, bound, which: tf.clip_by_global_norm([x[:1], x[1:]], bound)[0][which],
        "L2Loss Sqrt Minimum",
        bound=(1.0, 0.5, 4.0),
        which=(0, 1),
        kinks=_from_bound,
        special=(ALL_ZERO,),
    ),
    _in_two(
        "global_norm",
        lambda x: tf.linalg.global_norm([x[:1], x[1:]]),
        "L2Loss Sqrt",
        kinks=lambda x: norms(x, axis=None),
        special=(ALL_ZERO,),
    ),
    _scaling(
        "reduce_std",
        lambda x, *, axis, keepdims: tf.math.reduce_std(x, axis=axis, keepdims=keepdims),
        "Sqrt Mean Square",
        batching=reduces_points,
        axis=reduced,
        keepdims=BOOL,
        kinks=from_equal,
        special=(EQUAL_ELEMENTS, ONE_ELEMENT),
    ),
)
