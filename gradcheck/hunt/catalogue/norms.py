"""Norms of vectors and matrices, and what is divided or clipped by them (families `linalg`, `math`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import norms, ties, ties_of_largest
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points, tf
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import axes, nonempty_matrix, reduced, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array


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
_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (2, 3), (3, 2), (2, 2, 2)))
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
    ),
    _norm(
        "norm_euclidean",
        lambda x, *, power, axis, keepdims: tf.norm(x, ord=power, axis=axis, keepdims=keepdims),
        "Sqrt Sum Mul",
        power=("euclidean", 2),
        keepdims=BOOL,
        kinks=norms,
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
    ),
    _matrix(
        "norm_frobenius",
        lambda x, *, power, keepdims: tf.norm(x, ord=power, axis=(-2, -1), keepdims=keepdims),
        "Sqrt Sum Mul",
        power=("fro", "euclidean"),
        keepdims=BOOL,
        kinks=lambda x, **_: norms(x, axis=(-2, -1)),
    ),
    _matrix(
        "norm_of_columns",
        lambda x, *, power: tf.norm(x, ord=1 if power == "columns" else np.inf, axis=(-2, -1)),
        "Max Sum Abs",
        power=("columns", "rows"),
        kinks=_from_kinks_of_sums,
    ),
    _matrix(
        "norm_spectral",
        lambda x, *, keepdims: tf.norm(x, ord=2, axis=(-2, -1), keepdims=keepdims),
        "Svd Max",
        keepdims=BOOL,
        kinks=_from_kinks_of_spectral_norm,
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
    ),
    _in_two(
        "global_norm",
        lambda x: tf.linalg.global_norm([x[:1], x[1:]]),
        "L2Loss Sqrt",
        kinks=lambda x: norms(x, axis=None),
    ),
    _scaling(
        "reduce_std",
        lambda x, *, axis, keepdims: tf.math.reduce_std(x, axis=axis, keepdims=keepdims),
        "Sqrt Mean Square",
        batching=reduces_points,
        axis=reduced,
        keepdims=BOOL,
        kinks=from_equal,
    ),
)
