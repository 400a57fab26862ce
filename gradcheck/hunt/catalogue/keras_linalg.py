"""Matrices and sequences of numbers in `keras.ops` that have formulas of their own (`linalg`, `math`, `array`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import ties, ties_of_smallest
from gradcheck.hunt.catalogue.language import along_axis, operation, tf
from gradcheck.hunt.catalogue.linalg import dominant
from gradcheck.hunt.catalogue.norms import from_kinks_of_power
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import alike, axes, nonempty_matrix, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, Array, Interval, Shapes

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
    ),
    _norm(
        "keras_normalize",
        lambda x, *, axis, order, epsilon: tf.keras.ops.normalize(x, axis=axis, order=order, epsilon=epsilon),
        "Rsqrt Minimum Maximum RealDiv",
        order=(2, 1, 3),
        epsilon=(0.5, 1e-3),
        kinks=_from_least_norm,
    ),
    _matrix(
        "keras_cdist", lambda x, y: tf.keras.ops.cdist(x, y), "Sqrt Sum Square", others=_one_point, kinks=_from_meeting
    ),
    _matrix(
        "keras_lstsq",
        lambda x, y: tf.keras.ops.lstsq(tf.identity(x), tf.identity(y)),
        "Svd SelectV2 MatMul",
        looped=True,
        when=lambda shape: len(shape) == 2,
        others=_right_sides,
        singular=_from_rank_deficiency,
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
