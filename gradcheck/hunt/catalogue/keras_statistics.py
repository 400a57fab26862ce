"""Statistics of `keras.ops`: order statistics, averages, and reductions that leave out what is missing (`math`).

What is missing is NaN, which stands behind the other elements along the axis.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import Axes, norms, ties, ties_of_extremes, ties_of_largest, ties_of_smallest
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points, tf
from gradcheck.hunt.catalogue.norms import from_equal
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import alike, axes, nonempty_matrix, reduced, several, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array, Formula, Interval, Shapes

_math = partial(operation, "math", shapes=vector, starts=STARTS)
_along = partial(_math, batching=along_axis, axis=axes)
_over = partial(_math, batching=reduces_points, axis=reduced)

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
    _over(
        "keras_ptp",
        lambda x, *, axis, keepdims: tf.keras.ops.ptp(x, axis=axis, keepdims=keepdims),
        "Max Min Sub",
        keepdims=BOOL,
        kinks=ties_of_extremes,
    ),
    _math(
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
    _math(
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
    _math(
        "keras_average",
        lambda x, y, *, axis: tf.keras.ops.average(x, axis=axis, weights=y),
        "RealDiv Sum Mul",
        REALS,
        POSITIVE,
        looped=True,
        others=_weights,
        axis=lambda shape, weights: (-1, None) if shape == weights else (-1,),
    ),
    _math(
        "keras_corrcoef",
        lambda x: tf.keras.ops.corrcoef(x),
        "RealDiv Sqrt MatrixDiagPartV3 Maximum",
        looped=True,
        shapes=nonempty_matrix,
        when=lambda shape: len(shape) == 2 and several(shape),
        starts=((2, 3), (1, 2), (3, 4)),
        singular=lambda x: from_equal(x, axis=-1),
    ),
    _math(
        "keras_psnr",
        lambda x, y, *, ceiling: tf.keras.ops.psnr(x, y, ceiling),
        "Log Mean Square",
        looped=True,
        others=alike,
        ceiling=(1.0, 255.0),
        singular=lambda x, y, **_: norms(x - y, axis=None),
    ),
    # Keras asks for a rank that variables do not have; of the axes counted from the end it takes the last one only.
    _math(
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
    ),
    _along(
        "keras_nan_accumulation",
        lambda x, *, which, axis: [tf.keras.ops.nancumsum, tf.keras.ops.nancumprod][which](
            before_nan(x, axis), axis=axis
        ),
        "SelectV2 Cumsum Cumprod",
        which=(0, 1),
    ),
)
