"""Functions of `keras.ops` on arrays that have formulas of their own: statistics, products, rearrangements, signals."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import Axes, norms, ties, ties_of_largest, ties_of_smallest
from gradcheck.hunt.catalogue.language import operation, reduces_points, tf
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import alike, at_least, axes, nonempty_matrix, reduced, several, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array, Shapes

_nonempty = partial(operation, "math", shapes=vector, starts=STARTS)
_reduction = partial(_nonempty, axis=reduced, keepdims=BOOL, batching=reduces_points)
_of_rows = partial(_nonempty, looped=True)
_matrix = partial(operation, "math", shapes=at_least(1, 1), starts=((2, 2), (1, 1), (2, 3), (3, 2)), looped=True)


def with_a_gap(x: tf.Tensor) -> tf.Tensor:
    """Rows that end with a NaN."""
    return tf.concat([x, tf.zeros_like(x[..., :1]) + np.nan], -1)


def _place(q: float, count: int, method: str) -> tuple[int, int, bool]:
    """The first and the last of the sorted elements that a quantile is made of, and whether both count alike."""
    place = q * (count - 1)
    low, high = math.floor(place), math.ceil(place)
    single = {"lower": low, "higher": high, "nearest": round(place)}
    if method in single:
        return single[method], single[method], True
    return low, high, method == "midpoint" or place - low == 0.5


def _ties_of_quantile(x: Array, q: float, axis: Axes, method: str = "linear", **_attributes: object) -> Array:
    """Distances of the elements that a quantile is made of from their neighbours, where it makes a difference."""
    gaps = ties(x, axis=axis)
    low, high, alike_weights = _place(q, gaps.shape[-1] + 1, method)
    inner = gaps[..., low:high] if not alike_weights else gaps[..., :0]
    before = gaps[..., low - 1 : low] if low else gaps[..., :0]
    return np.concatenate([before, inner, gaps[..., high : high + 1]], -1)


def _ties_of_median(x: Array, axis: Axes, **_attributes: object) -> Array:
    return _ties_of_quantile(x, 0.5, axis)


def _ties_of_extremes(x: Array, axis: Axes, **_attributes: object) -> Array:
    return np.concatenate([ties_of_largest(x, axis=axis), ties_of_smallest(x, axis=axis)], -1)


def _kinks_above_one_half(x: Array, axis: Axes, **_attributes: object) -> Array:
    largest = np.max(x, axis=axis, keepdims=True)
    ties_above = ties_of_largest(np.where(largest >= 0.5, x, np.arange(x.size).reshape(x.shape)), axis=axis)
    return np.concatenate([ties_above.ravel(), np.abs(largest - 0.5).ravel()])


def _deviations(x: Array, axis: Axes, **_attributes: object) -> Array:
    """The norms of what is left of each group without its mean."""
    along = None if axis is None else axis
    return norms(x - x.mean(axis=along, keepdims=True), axis=axis)


LAST_OR_ALL = (-1, None)

KERAS_STATISTICS = (
    _reduction("keras_mean", "tf.keras.ops.mean({0}, axis={axis}, keepdims={keepdims})", "Mean"),
    _reduction("keras_var", "tf.keras.ops.var({0}, axis={axis}, keepdims={keepdims})", "Mean Square Sub"),
    _reduction(
        "keras_std",
        "tf.keras.ops.std({0}, axis={axis}, keepdims={keepdims})",
        "Mean Square Sub Sqrt",
        axis=lambda shape: [axis for axis in reduced(shape) if axis != ()],
        when=lambda shape: all(size > 1 for size in shape),
        kinks=_deviations,
    ),
    _reduction(
        "keras_ptp",
        "tf.keras.ops.ptp({0}, axis={axis}, keepdims={keepdims})",
        "Max Min",
        when=lambda shape: all(size > 1 for size in shape),
        axis=lambda shape: [axis for axis in reduced(shape) if axis != ()],
        kinks=_ties_of_extremes,
    ),
    _reduction(
        "keras_max_initial",
        "tf.keras.ops.max({0}, axis={axis}, keepdims={keepdims}, initial=0.5)",
        "Max Maximum",
        kinks=_kinks_above_one_half,
    ),
    _reduction(
        "keras_quantile",
        "tf.keras.ops.quantile({0}, {q}, axis={axis}, method={method}, keepdims={keepdims})",
        "GatherV2 TopKV2",
        axis=lambda shape: [axis for axis in reduced(shape) if axis != ()],
        q=(0.5, 0.3, 0.0, 1.0, 0.75),
        method=("linear", "lower", "higher", "nearest", "midpoint"),
        kinks=_ties_of_quantile,
    ),
    _reduction(
        "keras_median",
        "tf.keras.ops.median({0}, axis={axis}, keepdims={keepdims})",
        "GatherV2 TopKV2",
        axis=lambda shape: [axis for axis in reduced(shape) if axis != ()],
        kinks=_ties_of_median,
    ),
    *(
        _reduction(
            f"keras_{name}",
            f"tf.keras.ops.{name}(with_a_gap({{0}}), axis={{axis}}, keepdims={{keepdims}})",
            gradients,
            axis=LAST_OR_ALL,
            **declared,
        )
        for name, gradients, declared in (
            ("nansum", "Sum SelectV2", {}),
            ("nanmean", "Sum SelectV2 RealDiv", {}),
            ("nanprod", "Prod SelectV2", {}),
            ("nanvar", "Square SelectV2 RealDiv", {}),
            ("nanstd", "Square SelectV2 Sqrt", {"when": lambda shape: shape[-1] > 1, "kinks": _deviations}),
            ("nanmax", "Max SelectV2", {"kinks": ties_of_largest}),
            ("nanmin", "Min SelectV2", {"kinks": ties_of_smallest}),
        )
    ),
    _nonempty("keras_nan_to_num", "tf.keras.ops.nan_to_num(with_a_gap({0}), nan=2.0)", "SelectV2"),
    _nonempty("keras_nancumsum", "tf.keras.ops.nancumsum(with_a_gap({0}), axis=-1)", "Cumsum SelectV2"),
    _nonempty("keras_nancumprod", "tf.keras.ops.nancumprod(with_a_gap({0}), axis=-1)", "Cumprod SelectV2"),
    _nonempty(
        "keras_average",
        "tf.keras.ops.average({0}, axis=-1, weights={1})",
        "Sum Mul RealDiv",
        REALS,
        POSITIVE,
        others=alike,
    ),
    operation(
        "math",
        "keras_average_of_rows",
        "tf.keras.ops.average({0}, axis=0, weights={1})",
        "RealDiv Sum",
        REALS,
        POSITIVE,
        looped=True,
        shapes=at_least(1, 1),
        others=lambda shape: [(shape[:1],)],
        starts=((2, 2), (1, 2), (3, 1)),
    ),
    _nonempty(
        "keras_trapezoid",
        "tf.keras.ops.trapezoid({0}, x={1}, axis=-1)",
        "StridedSlice Mul Sum",
        when=several,
        others=alike,
    ),
    _nonempty(
        "keras_trapezoid_of_axis",
        "tf.keras.ops.trapezoid({0}, dx=0.5, axis={axis})",
        "StridedSlice Transpose Sum",
        looped=True,
        axis=lambda shape: (-1, *range(len(shape))),
    ),
    _nonempty(
        "keras_moments_mean", "tf.keras.ops.moments({0}, axes=[-1], keepdims={keepdims})[0]", "Mean", keepdims=BOOL
    ),
    _nonempty(
        "keras_moments_variance",
        "tf.keras.ops.moments({0}, axes=[-1], keepdims={keepdims})[1]",
        "Mean SquaredDifference",
        keepdims=BOOL,
    ),
    _matrix(
        "keras_corrcoef",
        "tf.keras.ops.corrcoef({0})",
        "RealDiv Sqrt MatMul",
        when=lambda shape: shape[-1] > 2,
        starts=((2, 3), (2, 4), (1, 3)),
        singular=lambda x: norms(x - x.mean(-1, keepdims=True)),
    ),
)


def _second_last(shape: Shape) -> Shapes:
    """Another array whose last but one dimension is the last of the first."""
    return [((shape[-1],),), ((shape[-1], 2),)]


KERAS_PRODUCTS = (
    _of_rows(
        "keras_matmul",
        "tf.keras.ops.matmul({0}, {1})",
        "Reshape",
        others=lambda shape: [((shape[-1], 2),), ((shape[-1],),)],
        starts=((2, 2), (2,), (2, 1, 2)),
    ),
    _of_rows("keras_dot", "tf.keras.ops.dot({0}, {1})", "Reshape", others=_second_last),
    _of_rows("keras_inner", "tf.keras.ops.inner({0}, {1})", "Reshape", others=lambda s: [(s[-1:],), ((2, s[-1]),)]),
    _of_rows("keras_vdot", "tf.keras.ops.vdot({0}, {1})", "Reshape", others=alike),
    _of_rows("keras_outer", "tf.keras.ops.outer({0}, {1})", "Reshape Mul", others=lambda shape: [((2,),), (shape,)]),
    _of_rows(
        "keras_tensordot",
        "tf.keras.ops.tensordot({0}, {1}, axes={count})",
        "Reshape",
        starts=((2,), (2, 2), (2, 3)),
        others=lambda shape: [(shape[::-1],)] if len(set(shape)) == 1 else [],
        count=lambda shape, _other: range(1, 1 + len(shape)),
    ),
    _of_rows(
        "keras_kron",
        "tf.keras.ops.kron({0}, {1})",
        "Reshape Mul",
        when=lambda shape: math.prod(shape) < 7,
        others=lambda shape: [((2,),), ((2, 1),), (shape,)],
    ),
    _of_rows(
        "keras_cross",
        "tf.keras.ops.cross({0}, {1}, axis={axis})",
        "Cross",
        starts=((3,), (2,), (2, 3), (3, 2)),
        when=lambda shape: shape[-1] in (2, 3) and shape[0] in (2, 3),
        others=alike,
        axis=lambda shape, _other: (-1, 0),
    ),
    _of_rows(
        "keras_cross_of_2_and_3",
        "tf.keras.ops.cross({0}, {1})",
        "Cross Pad",
        starts=((2,), (3,), (2, 2)),
        when=lambda shape: shape[-1] in (2, 3),
        others=lambda shape: [((5 - shape[-1],),)],
    ),
    _of_rows(
        "keras_correlate",
        "tf.keras.ops.correlate({0}, {1}, mode={mode})",
        "Conv2D",
        shapes=at_least(2),
        starts=((2,), (3,), (4,)),
        others=lambda shape: [((2,),), ((1,),)],
        mode=("valid", "full", "same"),
    ),
    _matrix(
        "keras_einsum",
        "tf.keras.ops.einsum({equation}, {0}, {1})",
        "Einsum MatMul",
        others=lambda shape: [(shape,)] if shape[0] == shape[1] else [],
        equation=("ab,bc->ac", "ij,kj->ik", "ij,ij->", "ij,ji->i", "ij,kl->ijkl"),
    ),
    operation(
        "math",
        "keras_einsum_of_heads",
        "tf.keras.ops.einsum({equation}, {0}, {1})",
        "BatchMatMulV2 Transpose",
        looped=True,
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [(shape,)],
        starts=((1, 2, 2, 2), (1, 1, 1, 2)),
        equation=("aecd,abcd->acbe", "abcd,aecd->aceb", "BTNH,BSNH->BNTS"),
    ),
    operation(
        "math",
        "keras_cdist",
        "tf.keras.ops.cdist({0}, {1})",
        "Sqrt Square Sub Sum",
        shapes=nonempty_matrix,
        others=lambda shape: [((*shape[:-2], 1, shape[-1]),)],
        starts=((2, 2), (1, 2), (2, 1)),
        kinks=lambda x, y: np.linalg.norm(x - y, axis=-1),
    ),
    operation(
        "math",
        "keras_psnr",
        "tf.keras.ops.psnr({0}, {1}, {largest})",
        "Log Mean Square",
        looped=True,
        shapes=vector,
        starts=((2,), (2, 2)),
        others=alike,
        largest=(1.0, 255.0),
        singular=lambda x, y, largest: np.linalg.norm(x - y),
    ),
)


def _kinks_of_norm(x: Array, order: int, axis: int, **_attributes: object) -> Array:
    groups = norms(x, axis=axis).ravel()
    return np.concatenate([groups, np.abs(x).ravel()]) if order == 1 else groups


def _ties_of_sums(x: Array, order: int, **_attributes: object) -> Array:
    """Zeros, and columns (1, -1) whose sums of magnitudes meet, if the norm is the largest (1) or the smallest sum."""
    pick = ties_of_largest if order > 0 else ties_of_smallest
    return np.concatenate([np.abs(x).ravel(), pick(np.abs(x).sum(-2)).ravel()])


def _singular_values(x: Array, order: str | int, **_attributes: object) -> Array:
    """Zero singular values of the sum; of the largest and the smallest, their neighbours."""
    values = np.linalg.svd(x, compute_uv=False)
    if order == "nuc":
        return values
    return ties_of_largest(values) if order == 2 else np.concatenate([ties_of_smallest(values), values[..., -1:]], -1)


_norm = partial(operation, "linalg", shapes=vector, starts=STARTS)
_matrix_norm = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 2), (2, 3), (2, 1, 2)))

KERAS_NORMS = (
    _norm(
        "keras_norm",
        "tf.keras.ops.norm({0}, ord={order}, axis={axis}, keepdims={keepdims})",
        "Abs Pow Sqrt",
        order=(2, 1, 3),
        axis=axes,
        keepdims=BOOL,
        kinks=_kinks_of_norm,
    ),
    _norm(
        "keras_norm_of_all",
        "tf.keras.ops.norm({0})",
        "Sqrt Sum Mul",
        starts=((2,), (1,), (3,), (2, 2)),
        when=lambda shape: len(shape) < 3,
        batched="tf.norm(tf.reshape({0}, [{0}.shape[0], -1]), axis=-1)",
        kinks=lambda x: norms(x, axis=None),
    ),
    _norm(
        "keras_norm_largest",
        "tf.keras.ops.norm({0}, ord=np.inf, axis={axis})",
        "Abs Max",
        axis=axes,
        kinks=lambda x, axis: np.concatenate(
            [norms(x, axis=axis).ravel(), ties_of_largest(np.abs(x), axis=axis).ravel()]
        ),
    ),
    _norm(
        "keras_norm_smallest",
        "tf.keras.ops.norm({0}, ord=-np.inf, axis={axis})",
        "Abs Min",
        axis=axes,
        kinks=lambda x, axis: np.concatenate(
            [np.abs(x).min(axis=axis).ravel(), ties_of_smallest(np.abs(x), axis=axis).ravel()]
        ),
    ),
    _matrix_norm(
        "keras_frobenius_norm",
        "tf.keras.ops.norm({0}, ord='fro', axis=(-2, -1), keepdims={keepdims})",
        "Sqrt Sum Mul",
        keepdims=BOOL,
        kinks=lambda x, keepdims: norms(x, axis=(-2, -1)),
    ),
    _matrix_norm(
        "keras_norm_of_sums",
        "tf.keras.ops.norm({0}, ord={order}, axis=(-2, -1), keepdims={keepdims})",
        "Abs Sum Max Min",
        keepdims=BOOL,
        order=(1, -1),
        kinks=_ties_of_sums,
    ),
    _matrix_norm(
        "keras_spectral_norm",
        "tf.keras.ops.norm({0}, ord={order}, axis=(-2, -1))",
        "Svd",
        order=(2, "nuc", -2),
        kinks=_singular_values,
    ),
    _norm(
        "keras_normalize",
        "tf.keras.ops.normalize({0}, axis={axis}, order={order}, epsilon={epsilon})",
        "Rsqrt Minimum Mul RealDiv",
        axis=axes,
        order=(2, 3),
        epsilon=(0.5, 2.0),
        kinks=lambda x, axis, order, epsilon: np.abs(np.linalg.norm(x, order, axis=axis) - epsilon),
    ),
)
