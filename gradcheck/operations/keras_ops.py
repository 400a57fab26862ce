"""Functions of `keras.ops` that have formulas of their own: of each element, of matrices, statistics, activations.

Those that only call TensorFlow's function of the same name are that function's operation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import (
    Axes,
    at,
    at_zero,
    between,
    from_multiples,
    norms,
    ties,
    ties_of_extremes,
    ties_of_largest,
    ties_of_smallest,
)
from gradcheck.operations.language import along_axis, operation, reduces_points, tf
from gradcheck.operations.linalg import dominant
from gradcheck.operations.reductions import STARTS, from_equal, from_kinks_of_power
from gradcheck.operations.shapes import (
    alike,
    axes,
    broadcasting,
    nonempty,
    nonempty_matrix,
    reduced,
    several,
    square,
    vector,
)
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Formula, Interval, Shapes
from gradcheck.operations.special_sets import (
    CLOSE_SINGULAR_VALUES,
    COINCIDING_POINTS,
    EQUAL_ELEMENTS,
    EQUAL_MAGNITUDES,
    EQUAL_PAIR,
    EQUAL_SINGULAR_VALUES,
    FAR_SINGULAR_VALUES,
    MANY_ALONG_AXIS,
    NULL_VECTOR,
    ONE_ELEMENT,
    ONE_OR_TWO_ZEROS,
    SMALL_ENTRIES,
    ZERO_FACTOR,
)
from gradcheck.typing import Array

_math = partial(operation, "math")
_binary = partial(_math, broadcasts=True, shapes=broadcasting)
_nn = partial(operation, "nn")
_over = partial(
    _nn,
    batching=reduces_points,
    shapes=vector,
    starts=((2,), (3,), (2, 2), (2, 3), (2, 1, 2)),
    axis=lambda shape: [axis for axis in reduced(shape) if axis not in (None, ())],
    epsilon=(0.5, 1e-3),
)


def _from_threshold(x: Array, threshold: float) -> Array:
    return np.abs(np.abs(x) - threshold)


def _from_jump(x: Array, threshold: float, default: float) -> Array:
    return np.abs(x - threshold) if threshold != default else np.full(x.shape, np.inf)


def _from_kink(x: Array, threshold: float, default: float) -> Array:
    return np.abs(x - threshold) if threshold == default else np.full(x.shape, np.inf)


KERAS_ELEMENTWISE = (
    _math("keras_cbrt", lambda x: tf.keras.ops.cbrt(x), "Abs Pow", singular=at_zero),
    _math("keras_sinc", lambda x: tf.keras.ops.sinc(x), "SelectV2 RealDiv Sin"),
    _math("keras_log10", lambda x: tf.keras.ops.log10(x), "Log RealDiv", POSITIVE),
    _math("keras_log2", lambda x: tf.keras.ops.log2(x), "Log RealDiv", POSITIVE),
    _math("keras_exp2", lambda x: tf.keras.ops.exp2(x), "Pow"),
    _math("keras_deg2rad", lambda x: tf.keras.ops.deg2rad(x), "Mul"),
    _math("keras_rad2deg", lambda x: tf.keras.ops.rad2deg(x), "Mul"),
    _math(
        "keras_ldexp", lambda x, *, exponent: tf.keras.ops.ldexp(x, exponent), "Mul SelectV2", exponent=(1, 3, 0, -2)
    ),
    _nn(
        "keras_celu",
        lambda x, *, alpha: tf.keras.ops.celu(x, alpha=alpha),
        "Maximum Minimum Expm1",
        alpha=(1.0, 0.5, 2.0),
        curvature_jumps=at_zero,
    ),
    _nn(
        "keras_elu",
        lambda x, *, alpha: tf.keras.ops.elu(x, alpha=alpha),
        "Elu SelectV2",
        alpha=(0.5, 2.0),
        kinks=at_zero,
    ),
    _nn("keras_sparse_sigmoid", lambda x: tf.keras.ops.sparse_sigmoid(x), "SelectV2", kinks=at(-1.0, 1.0)),
    _nn("keras_sparse_plus", lambda x: tf.keras.ops.sparse_plus(x), "SelectV2 Pow", curvature_jumps=at(-1.0, 1.0)),
    _nn("keras_tanh_shrink", lambda x: tf.keras.ops.tanh_shrink(x), "Tanh Sub", terms=1.0),
    _nn(
        "keras_soft_shrink",
        lambda x, *, threshold: tf.keras.ops.soft_shrink(x, threshold=threshold),
        "SelectV2",
        threshold=(0.5, 2.0),
        kinks=_from_threshold,
    ),
    _nn(
        "keras_hard_shrink",
        lambda x, *, threshold: tf.keras.ops.hard_shrink(x, threshold=threshold),
        "SelectV2",
        threshold=(0.5, 2.0),
        singular=_from_threshold,
    ),
    _nn(
        "keras_threshold",
        lambda x, *, threshold, default: tf.keras.ops.threshold(x, threshold, default),
        "SelectV2",
        threshold=(0.5, -1.0),
        default=(-1.0, 2.0),
        singular=_from_jump,
        kinks=_from_kink,
    ),
    _nn("keras_hard_sigmoid", lambda x: tf.keras.ops.hard_sigmoid(x), "Relu6 RealDiv", kinks=at(-3.0, 3.0)),
    _nn("keras_hard_silu", lambda x: tf.keras.ops.hard_silu(x), "Relu6 Mul", kinks=at(-3.0, 3.0)),
    _nn("keras_log_sigmoid", lambda x: tf.keras.ops.log_sigmoid(x), "Softplus Neg"),
    _nn("keras_squareplus", lambda x, *, b: tf.keras.ops.squareplus(x, b=b), "Sqrt Square", b=(4.0, 0.5, 1.0)),
    _nn(
        "keras_glu",
        lambda x, *, axis: tf.keras.ops.glu(x, axis=axis),
        "Split Sigmoid Mul",
        shapes=nonempty,
        when=lambda shape: any(size % 2 == 0 for size in shape),
        starts=((2,), (4,), (2, 2), (2, 3), (1, 4)),
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] % 2 == 0],
    ),
    # Keras keeps the logits beside the probabilities, and losses take those instead; the identity lets go of them.
    _nn(
        "keras_softmax_of_all",
        lambda x: tf.identity(tf.keras.ops.softmax(x, axis=None)),
        "Softmax Reshape",
        batched=lambda x: tf.reshape(tf.nn.softmax(tf.reshape(x, [x.shape[0], -1])), x.shape),
        shapes=nonempty,
        starts=((2,), (1,), (3,), (2, 2), (2, 3)),
    ),
    # Without parameters. With them, over the last axis, they stand in keras_nn.
    _over(
        "keras_layer_normalization_over_axis",
        lambda x, *, axis, epsilon: tf.keras.ops.layer_normalization(x, axis=axis, epsilon=epsilon),
        "Rsqrt Mean Mul",
    ),
    _over(
        "keras_rms_normalization_over_axis",
        lambda x, *, axis, epsilon: tf.keras.ops.rms_normalization(x, axis=axis, epsilon=epsilon),
        "Rsqrt Mean Square",
    ),
)


def _from_nonzero_multiples(x: Array, y: Array) -> Array:
    return np.where(np.abs(x) < np.abs(y) / 2, np.inf, from_multiples(x, y))


KERAS_BINARY = (
    _binary(
        "keras_logaddexp", lambda x, y: tf.keras.ops.logaddexp(x, y), "Maximum Log1p Exp Abs", special=(EQUAL_PAIR,)
    ),
    _binary(
        "keras_logaddexp2", lambda x, y: tf.keras.ops.logaddexp2(x, y), "Maximum Log1p Exp Abs", special=(EQUAL_PAIR,)
    ),
    _binary(
        "keras_hypot",
        lambda x, y: tf.keras.ops.hypot(x, y),
        "Maximum Minimum DivNoNan Sqrt",
        kinks=np.hypot,
        special=(EQUAL_MAGNITUDES,),
    ),
    _binary(
        "keras_fmod",
        lambda x, y: tf.keras.ops.fmod(x, y),
        "FloorMod Abs",
        singular=_from_nonzero_multiples,
    ),
    _binary("keras_fmax", lambda x, y: tf.keras.ops.fmax(x, y), "Maximum SelectV2", kinks=between),
    _binary("keras_fmin", lambda x, y: tf.keras.ops.fmin(x, y), "Minimum SelectV2", kinks=between),
)


def _from_start(x: Array, threshold: float, **_attributes: float) -> Array:
    """Where relu jumps: its threshold is where the value does not begin, unless it is 0."""
    return np.abs(x - threshold) if threshold else np.full(x.shape, np.inf)


def _from_bend(x: Array, slope: float, ceiling: float, threshold: float) -> Array:
    bends = [ceiling, *([] if threshold else [0.0])]
    return np.stack([np.abs(x - bend) for bend in bends])


KERAS_ACTIVATIONS = (
    _nn("keras_mish", lambda x: tf.keras.activations.mish(x), "Softplus Tanh Mul"),
    _nn(
        "keras_relu",
        lambda x, *, slope, ceiling, threshold: tf.keras.activations.relu(
            x, negative_slope=slope, max_value=ceiling, threshold=threshold
        ),
        slope=(0.0, 0.25),
        ceiling=(6.0, 2.0),
        threshold=(0.0, 1.0),
        kinks=_from_bend,
        singular=_from_start,
    ),
    _nn(
        "keras_relu_unbounded",
        lambda x, *, slope, threshold: tf.keras.activations.relu(x, negative_slope=slope, threshold=threshold),
        "SelectV2 Relu",
        slope=(0.0, 0.25),
        threshold=(1.0, -0.5),
        singular=_from_start,
    ),
)


# Along another axis than the first, Keras multiplies by signs of another shape.
GEOMSPACE = lambda x, y, *, sign, count, endpoint: tf.keras.ops.geomspace(
    sign * x, sign * y, count, endpoint=endpoint, dtype="float64"
)

_norm = partial(operation, "linalg", shapes=vector, starts=STARTS, batching=along_axis, axis=axes)
_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (2, 3), (3, 2)))
_square = partial(operation, "linalg", shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2)))
# Where an argument is a tf.Variable, Keras may ask for its ndim, which it has not: hence the tf.identity of some.
polynomial = partial(
    operation, "math", looped=True, shapes=vector, when=lambda shape: len(shape) == 1, starts=((2,), (1,), (3,))
)
vandermonde = partial(polynomial, gradients="Pow", count=(3, 2, 1), increasing=BOOL)
kronecker = partial(
    operation,
    gradients="Mul",
    looped=True,
    shapes=vector,
    others=lambda shape: [(shape,), ((2,),), ((2, 1),)],
    starts=((2,), (2, 2), (1, 3)),
)
_sequence = partial(operation, "math", others=alike, starts=((), (2,), (1,), (2, 2)))


def _from_kinks_of_smallest(x: Array, *, axis: int, **_attributes: Any) -> Array:
    """The smallest magnitude is to be unique, and not to vanish."""
    gaps = ties_of_smallest(np.abs(x), axis=axis)
    return np.concatenate([np.min(np.abs(x), axis=axis).ravel(), gaps.ravel()])


def _from_kinks_of_smallest_sum(x: Array, *, power: int | str, **_attributes: Any) -> Array:
    """The smallest sum of magnitudes, of columns or rows, is to be unique and to have no zeros."""
    lines = np.abs(x if power == "rows" else np.swapaxes(x, -1, -2))
    sums = lines.sum(-1)
    of_smallest = np.take_along_axis(lines, np.argmin(sums, axis=-1)[..., None, None], axis=-2)
    return np.concatenate([of_smallest.ravel(), ties(sums)[..., :1].ravel()])


def _from_kinks_of_singular_values(x: Array, *, power: Any, **_attributes: Any) -> Array:
    """None is to vanish; the smallest is to be unique, of a sum it may be twice the same."""
    values = np.linalg.svd(x, compute_uv=False)
    return values if power == "nuc" else np.concatenate([values[..., -1:], -np.diff(values)[..., -1:]], axis=-1)


def _from_least_norm(x: Array, *, axis: int, order: int, epsilon: float) -> Array:
    """The norm is to differ from the least one that is divided by; a sum of magnitudes has no smooth zeros."""
    lengths = np.linalg.norm(x, ord=order, axis=axis, keepdims=True)
    from_bound = np.abs(lengths - epsilon)
    return np.asarray(
        np.where(lengths > epsilon, np.minimum(from_bound, np.abs(x)), from_bound) if order == 1 else from_bound
    )


def _from_meeting(x: Array, y: Array) -> Array:
    """No two points, one of each set, are to be the same."""
    return np.asarray(np.linalg.norm(x[..., :, np.newaxis, :] - y[..., np.newaxis, :, :], axis=-1))


def _from_rank_deficiency(x: Array, *_: Array) -> Array:
    return np.asarray(np.linalg.svd(x, compute_uv=False)[..., -1])


def _one_point(shape: Shape) -> Shapes:
    return [((*shape[:-2], 1, shape[-1]),)]


def _right_sides(shape: Shape) -> Shapes:
    return [((shape[0],),), ((shape[0], 2),)]


KERAS_LINALG = (
    _norm(
        "keras_norm",
        lambda x, *, power, axis, keepdims: tf.keras.ops.norm(x, ord=power, axis=axis, keepdims=keepdims),
        "Pow Sum Abs",
        power=(3, 1, 4),
        keepdims=BOOL,
        kinks=from_kinks_of_power,
        special=(NULL_VECTOR,),
    ),
    _norm(
        "keras_norm_smallest",
        lambda x, *, axis, keepdims: tf.keras.ops.norm(x, ord=-np.inf, axis=axis, keepdims=keepdims),
        "Min Abs",
        keepdims=BOOL,
        kinks=_from_kinks_of_smallest,
    ),
    _matrix(
        "keras_norm_of_columns",
        lambda x, *, power, keepdims: tf.keras.ops.norm(
            x, ord=-1 if power == "columns" else -np.inf, axis=(-2, -1), keepdims=keepdims
        ),
        "Min Sum Abs",
        power=("columns", "rows"),
        keepdims=BOOL,
        kinks=_from_kinks_of_smallest_sum,
    ),
    _matrix(
        "keras_norm_nuclear",
        lambda x, *, power: tf.keras.ops.norm(tf.identity(x), ord=power, axis=(-2, -1)),
        "Svd Sum Min",
        power=("nuc", -2),
        kinks=_from_kinks_of_singular_values,
        special=(EQUAL_SINGULAR_VALUES, SMALL_ENTRIES, CLOSE_SINGULAR_VALUES, FAR_SINGULAR_VALUES),
    ),
    _norm(
        "keras_normalize",
        lambda x, *, axis, order, epsilon: tf.keras.ops.normalize(x, axis=axis, order=order, epsilon=epsilon),
        "Rsqrt Minimum Maximum RealDiv",
        order=(2, 1, 3),
        epsilon=(0.5, 1e-3),
        kinks=_from_least_norm,
        special=(NULL_VECTOR,),
    ),
    _matrix(
        "keras_cdist",
        lambda x, y: tf.keras.ops.cdist(x, y),
        "Sqrt Sum Square",
        others=_one_point,
        kinks=_from_meeting,
        special=(COINCIDING_POINTS,),
    ),
    _matrix(
        "keras_lstsq",
        lambda x, y: tf.keras.ops.lstsq(tf.identity(x), tf.identity(y)),
        "Svd SelectV2 MatMul",
        looped=True,
        when=lambda shape: len(shape) == 2,
        others=_right_sides,
        singular=_from_rank_deficiency,
        special=(EQUAL_SINGULAR_VALUES, SMALL_ENTRIES, CLOSE_SINGULAR_VALUES),
    ),
    _square(
        "keras_cholesky_inverse",
        lambda x, *, upper: tf.keras.ops.cholesky_inverse(dominant(x), upper=upper),
        "MatrixTriangularSolve BatchMatMulV2",
        upper=BOOL,
    ),
    kronecker("linalg", "keras_kron", lambda x, y: tf.keras.ops.kron(x, y)),
    _matrix(
        "keras_inner",
        lambda x, y: tf.keras.ops.inner(x, y),
        "MatMul Reshape",
        looped=True,
        shapes=vector,
        others=alike,
        starts=((2,), (2, 2), (1, 3)),
    ),
    _matrix("keras_tril", lambda x, *, k: tf.keras.ops.tril(x, k=k), "SelectV2", k=(-1, -2)),
    _matrix("keras_triu", lambda x, *, k: tf.keras.ops.triu(x, k=k), "SelectV2", k=(1, 2)),
    _matrix(
        "keras_trace",
        lambda x, *, offset: tf.keras.ops.trace(tf.identity(x), offset=offset, axis1=-2, axis2=-1),
        "SelectV2 Sum",
        offset=(0, 1, -1),
    ),
)

KERAS_SEQUENCES = (
    vandermonde("keras_vander", lambda x, *, count, increasing: tf.keras.ops.vander(x, count, increasing=increasing)),
    operation(
        "math",
        "keras_correlate",
        lambda x, y, *, mode: tf.keras.ops.correlate(x, y, mode=mode),
        "Conv2D",
        looped=True,
        shapes=vector,
        when=lambda shape: len(shape) == 1,
        others=lambda shape: [(shape,), ((1,),)],
        starts=((3,), (2,), (1,)),
        mode=("valid", "same", "full"),
    ),
    _sequence(
        "keras_linspace",
        lambda x, y, *, count, endpoint, axis: tf.keras.ops.linspace(x, y, count, endpoint=endpoint, axis=axis),
        "AddV2 Sub",
        batching=along_axis,
        count=(3, 2, 1),
        endpoint=BOOL,
        axis=(0, -1),
    ),
    _sequence(
        "keras_logspace",
        lambda x, y, *, count, endpoint, base, axis: tf.keras.ops.logspace(
            x, y, count, endpoint=endpoint, base=base, axis=axis
        ),
        "Pow",
        Interval(-8.0, 8.0),
        batching=along_axis,
        count=(3, 2),
        endpoint=BOOL,
        base=(10.0, 2.0, 0.5),
        axis=(0, -1),
    ),
    _sequence(
        "keras_geomspace",
        GEOMSPACE,
        "Pow Log Abs",
        POSITIVE,
        batched=lambda x, y, *, sign, count, endpoint: tf.experimental.numpy.moveaxis(
            tf.keras.ops.geomspace(sign * x, sign * y, count, endpoint=endpoint, dtype="float64"), 0, 1
        ),
        sign=(1.0, -1.0),
        count=(3, 2),
        endpoint=BOOL,
    ),
)


_statistic = partial(operation, "math", shapes=vector, starts=STARTS)
_along = partial(_statistic, batching=along_axis, axis=axes)
_over_axes = partial(_statistic, batching=reduces_points, axis=reduced)

before_nan: Formula = lambda x, axis: tf.concat([x, tf.zeros_like(x) + np.nan], axis=axis)


def _from_ties_of_extreme(x: Array, *, axis: Axes, which: int, **_attributes: Any) -> Array:
    return (ties_of_largest, ties_of_smallest)[which](x, axis=axis)


def from_ties_of_quantile(x: Array, *, q: float, axis: Axes, method: str, **_attributes: Any) -> Array:
    """No two neighbours in order are to be equal whose weights in the quantile differ."""
    gaps = ties(x, axis=axis)
    # Rows with ones from the first, the second, ... element on: their quantiles are sums of weights.
    steps = np.triu(np.ones([1 + gaps.shape[-1]] * 2))
    weights = -np.diff(np.quantile(steps, q, axis=-1, method=method), append=0.0)  # type: ignore[call-overload]
    return np.where(np.abs(np.diff(weights)) > 1e-14, gaps, np.inf)


def _from_element(x: Array, q: Array) -> Array:
    """A quantile bends where it is an element."""
    place = q * (x.shape[-1] - 1)
    ordered = from_ties_of_quantile(x, q=float(q), axis=-1, method="linear")
    return np.concatenate([ordered, np.abs(place - np.round(place)).ravel()])


def _either(shape: Shape) -> tuple[int | tuple[int, ...] | None, ...]:
    return tuple(axis for axis in reduced(shape) if axis != ())


def _weights(shape: Shape) -> Shapes:
    return [(shape,), (shape[-1:],)]


KERAS_STATISTICS = (
    _over_axes(
        "keras_ptp",
        lambda x, *, axis, keepdims: tf.keras.ops.ptp(x, axis=axis, keepdims=keepdims),
        "Max Min Sub",
        keepdims=BOOL,
        kinks=ties_of_extremes,
    ),
    _statistic(
        "keras_quantile",
        lambda x, *, q, axis, method, keepdims: tf.keras.ops.quantile(
            x, q, axis=axis, method=method, keepdims=keepdims
        ),
        "TopKV2 GatherV2",
        batching=reduces_points,
        q=(0.5, 0.25, 0.9, 0.0, 1.0),
        axis=_either,
        method=("linear", "lower", "higher", "midpoint", "nearest"),
        keepdims=BOOL,
        kinks=from_ties_of_quantile,
    ),
    _statistic(
        "keras_quantile_of_level",
        lambda x, y: tf.keras.ops.quantile(x, y, axis=-1),
        "TopKV2 GatherV2 Sub",
        REALS,
        Interval(0.5, 1.0),  # of equal elements the median is odd: no line shows its kink
        looped=True,
        when=lambda shape: len(shape) == 1 and several(shape),
        others=lambda _: [((),)],
        starts=((3,), (2,), (4,)),
        kinks=_from_element,
    ),
    _statistic(
        "keras_average",
        lambda x, y, *, axis: tf.keras.ops.average(x, axis=axis, weights=y),
        "RealDiv Sum Mul",
        REALS,
        POSITIVE,
        looped=True,
        others=_weights,
        axis=lambda shape, weights: (-1, None) if shape == weights else (-1,),
    ),
    _statistic(
        "keras_corrcoef",
        lambda x: tf.keras.ops.corrcoef(x),
        "RealDiv Sqrt MatrixDiagPartV3 Maximum",
        looped=True,
        shapes=nonempty_matrix,
        when=lambda shape: len(shape) == 2 and several(shape),
        starts=((2, 3), (1, 2), (3, 4)),
        singular=lambda x: from_equal(x, axis=-1),
    ),
    _statistic(
        "keras_psnr",
        lambda x, y, *, ceiling: tf.keras.ops.psnr(x, y, ceiling),
        "Log Mean Square",
        looped=True,
        others=alike,
        ceiling=(1.0, 255.0),
        singular=lambda x, y, **_: norms(x - y, axis=None),
    ),
    # Keras asks for a rank that variables do not have; of the axes counted from the end it takes the last one only.
    _statistic(
        "keras_trapezoid",
        lambda x, y, *, axis: tf.keras.ops.trapezoid(x, tf.identity(y), axis=axis),
        "StridedSlice Sum Mul",
        batching=along_axis,
        axis=lambda shape, _: (-1, *range(len(shape))),
        others=alike,
    ),
    _along(
        "keras_diff",
        lambda x, *, count, axis: tf.keras.ops.diff(tf.identity(x), n=count, axis=axis),
        "StridedSlice Sub",
        count=(1, 2, 0),
    ),
    _along(
        "keras_nan_reduction",
        lambda x, *, which, axis, keepdims: [tf.keras.ops.nansum, tf.keras.ops.nanmean, tf.keras.ops.nanvar][which](
            before_nan(x, axis), axis=axis, keepdims=keepdims
        ),
        "SelectV2 Sum",
        which=(0, 1, 2),
        keepdims=BOOL,
    ),
    _along(
        "keras_nanstd",
        lambda x, *, axis, keepdims: tf.keras.ops.nanstd(before_nan(x, axis), axis=axis, keepdims=keepdims),
        "SelectV2 Sqrt",
        keepdims=BOOL,
        kinks=from_equal,
        special=(EQUAL_ELEMENTS, ONE_ELEMENT),
    ),
    _along(
        "keras_nan_extreme",
        lambda x, *, which, axis, keepdims: [tf.keras.ops.nanmax, tf.keras.ops.nanmin][which](
            before_nan(x, axis), axis=axis, keepdims=keepdims
        ),
        "SelectV2 Max Min",
        which=(0, 1),
        keepdims=BOOL,
        kinks=_from_ties_of_extreme,
    ),
    _along(
        "keras_nanprod",
        lambda x, *, axis, keepdims: tf.keras.ops.nanprod(before_nan(x, axis), axis=axis, keepdims=keepdims),
        "SelectV2 Prod",
        keepdims=BOOL,
        special=(ONE_OR_TWO_ZEROS,),
    ),
    _along(
        "keras_nan_accumulation",
        lambda x, *, which, axis: [tf.keras.ops.nancumsum, tf.keras.ops.nancumprod][which](
            before_nan(x, axis), axis=axis
        ),
        "SelectV2 Cumsum Cumprod",
        which=(0, 1),
        special=(ZERO_FACTOR, *MANY_ALONG_AXIS),
    ),
)
