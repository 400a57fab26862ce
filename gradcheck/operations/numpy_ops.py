"""Functions of `tf.experimental.numpy` that have formulas of their own (families `math`, `array`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.operations.distances import at_zero, ties_of_extremes
from gradcheck.operations.keras_ops import before_nan, kronecker, polynomial, vandermonde
from gradcheck.operations.language import along_axis, operation, reduces_points, tf
from gradcheck.operations.reductions import STARTS
from gradcheck.operations.shapes import alike, axes, broadcasting, nonempty_matrix, reduced, vector
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Indices, Interval
from gradcheck.operations.special_sets import BOTH_ZERO, EQUAL_PAIR, ONE_OR_TWO_ZEROS

_math = partial(operation, "math")
_binary = partial(_math, broadcasts=True, shapes=broadcasting)
_along = partial(_math, shapes=vector, starts=STARTS, batching=along_axis, axis=axes)
_sequence = partial(
    _math, others=alike, starts=((), (2,), (1,), (2, 2)), batching=along_axis, endpoint=BOOL, axis=(0, -1)
)

NUMPY_ELEMENTWISE = (
    _math("numpy_cbrt", lambda x: tf.experimental.numpy.cbrt(x), "Abs Pow SelectV2", singular=at_zero),
    _math("numpy_sinc", lambda x: tf.experimental.numpy.sinc(x), "SelectV2 RealDiv Sin"),
    _math(
        "numpy_logarithm",
        lambda x, *, which: [tf.experimental.numpy.log2, tf.experimental.numpy.log10][which](x),
        "Log RealDiv",
        POSITIVE,
        which=(0, 1),
    ),
    _math("numpy_exp2", lambda x: tf.experimental.numpy.exp2(x), "Pow"),
    _math(
        "numpy_angle_unit",
        lambda x, *, which: [tf.experimental.numpy.deg2rad, tf.experimental.numpy.rad2deg][which](x),
        "Mul",
        which=(0, 1),
    ),
    _binary(
        "numpy_hypot",
        lambda x, y: tf.experimental.numpy.hypot(x, y),
        "Sqrt Square",
        kinks=np.hypot,
        special=(BOTH_ZERO,),
    ),
    _binary(
        "numpy_logaddexp",
        lambda x, y: tf.experimental.numpy.logaddexp(x, y),
        "Maximum Log1p Exp Abs SelectV2",
        special=(EQUAL_PAIR,),
    ),
    _binary(
        "numpy_logaddexp2",
        lambda x, y: tf.experimental.numpy.logaddexp2(x, y),
        "Maximum Log1p Pow Abs SelectV2",
        special=(EQUAL_PAIR,),
    ),
)

NUMPY_STATISTICS = (
    _along(
        "numpy_ptp",
        lambda x, *, axis, keepdims: tf.experimental.numpy.ptp(x, axis=axis, keepdims=keepdims),
        "Max Min Sub",
        batching=reduces_points,
        axis=reduced,
        keepdims=BOOL,
        kinks=ties_of_extremes,
    ),
    _along(
        "numpy_variance",
        lambda x, *, axis, count, keepdims: tf.experimental.numpy.var(
            x, axis=axis, dtype=np.float64, ddof=count, keepdims=keepdims
        ),
        "Sum Square RealDiv",
        when=lambda shape: all(size > 1 for size in shape),
        starts=((2,), (3,), (2, 2), (2, 3)),
        count=(1, -1),
        keepdims=BOOL,
    ),
    _along(
        "numpy_average",
        lambda x, y, *, axis: tf.experimental.numpy.average(x, axis=axis, weights=y),
        "RealDiv Sum Mul",
        REALS,
        POSITIVE,
        looped=True,
        others=lambda shape: [(shape,), (shape[-1:],)],
        axis=lambda shape, weights: (-1, None) if shape == weights else (-1,),
    ),
    _along(
        "numpy_nan_reduction",
        lambda x, *, which, axis, keepdims: [tf.experimental.numpy.nansum, tf.experimental.numpy.nanmean][which](
            before_nan(x, axis), axis=axis, keepdims=keepdims
        ),
        "SelectV2 Sum",
        which=(0, 1),
        keepdims=BOOL,
    ),
    _along(
        "numpy_nanprod",
        lambda x, *, axis, keepdims: tf.experimental.numpy.nanprod(before_nan(x, axis), axis=axis, keepdims=keepdims),
        "SelectV2 Prod",
        keepdims=BOOL,
        special=(ONE_OR_TWO_ZEROS,),
    ),
)

NUMPY_ARRAYS = (
    _sequence(
        "numpy_linspace",
        lambda x, y, *, count, endpoint, axis: tf.experimental.numpy.linspace(
            x, y, count, endpoint=endpoint, axis=axis
        ),
        "AddV2 Sub",
        count=(3, 2, 1),
    ),
    _sequence(
        "numpy_logspace",
        lambda x, y, *, count, endpoint, base, axis: tf.experimental.numpy.logspace(
            x, y, count, endpoint=endpoint, base=base, axis=axis
        ),
        "Pow",
        Interval(-8.0, 8.0),
        count=(3, 2),
        base=(10.0, 2.0, 0.5),
    ),
    _sequence(
        "numpy_geomspace",
        lambda x, y, *, sign, count, endpoint, axis: tf.experimental.numpy.geomspace(
            sign * x, sign * y, count, endpoint=endpoint, axis=axis
        ),
        "Pow Log",
        POSITIVE,
        sign=(1.0, -1.0),
        count=(3, 2),
    ),
    vandermonde(
        "numpy_vander", lambda x, *, count, increasing: tf.experimental.numpy.vander(x, count, increasing=increasing)
    ),
    polynomial(
        "numpy_polyval",
        lambda x, y: tf.experimental.numpy.polyval(x, y),
        "AddV2 Mul",
        others=lambda shape: [((),), ((2,),)],
    ),
    _along(
        "numpy_diff",
        lambda x, *, count, axis: tf.experimental.numpy.diff(x, n=count, axis=axis),
        "StridedSlice Sub",
        count=(1, 2, 0),
    ),
    _math(
        "numpy_take_along_axis",
        lambda x, *, places: tf.experimental.numpy.take_along_axis(x, np.array([places]), axis=-1),
        "GatherV2",
        looped=True,
        shapes=vector,
        when=lambda shape: len(shape) == 2,
        starts=((1, 2), (2, 2), (2, 3)),
        places=lambda shape: Indices(2, shape[-1]),
    ),
    _math(
        "numpy_triangle",
        lambda x, *, which, k: [tf.experimental.numpy.tril, tf.experimental.numpy.triu][which](x, k=k),
        "SelectV2",
        shapes=nonempty_matrix,
        starts=((2, 2), (1, 1), (2, 3), (3, 2)),
        which=(0, 1),
        k=(0, 1, -1),
    ),
    kronecker("math", "numpy_kron", lambda x, y: tf.experimental.numpy.kron(x, y)),
)
