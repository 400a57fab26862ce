"""Norms of vectors and matrices, and what is divided or clipped by them (families `linalg`, `math`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import norms, ties, ties_of_largest
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import axes, nonempty_matrix, reduced, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array


def _all_of_point(source: str) -> str:
    """The text of an operation on all elements, for points."""
    return source.replace("{0}", "tf.reshape({0}, [{0}.shape[0], -1])").replace("axis=None", "axis=-1")


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
        "tf.norm({0}, ord={power}, axis={axis}, keepdims={keepdims})",
        "Sum Abs",
        power=(1, 3),
        keepdims=BOOL,
        kinks=from_kinks_of_power,
    ),
    _norm(
        "norm_euclidean",
        "tf.norm({0}, ord={power}, axis={axis}, keepdims={keepdims})",
        "Sqrt Sum Mul",
        power=("euclidean", 2),
        keepdims=BOOL,
        kinks=norms,
    ),
    _norm("norm_largest", "tf.norm({0}, ord=np.inf, axis={axis})", "Max Abs", kinks=_from_kinks_of_largest),
    _scaling(
        "norm_of_all",
        "tf.norm({0}, axis=None)",
        "Sqrt Sum Mul",
        batching=_all_of_point,
        kinks=lambda x: norms(x, axis=None),
    ),
    _matrix(
        "norm_frobenius",
        "tf.norm({0}, ord={power}, axis=(-2, -1), keepdims={keepdims})",
        "Sqrt Sum Mul",
        power=("fro", "euclidean"),
        keepdims=BOOL,
        kinks=lambda x, **_: norms(x, axis=(-2, -1)),
    ),
    _matrix(
        "norm_of_columns",
        "tf.norm({0}, ord=1 if {power} == 'columns' else np.inf, axis=(-2, -1))",
        "Max Sum Abs",
        power=("columns", "rows"),
        kinks=_from_kinks_of_sums,
    ),
    _matrix(
        "norm_spectral",
        "tf.norm({0}, ord=2, axis=(-2, -1), keepdims={keepdims})",
        "Svd Max",
        keepdims=BOOL,
        kinks=_from_kinks_of_spectral_norm,
    ),
    _norm(
        "normalize",
        "tf.linalg.normalize({0}, axis={axis})[{which}]",
        "RealDiv Sqrt",
        which=(0, 1),
        singular=norms,
    ),
    _norm(
        "normalize_of_power",
        "tf.linalg.normalize({0}, ord={power}, axis={axis})[{which}]",
        "RealDiv Sum Abs",
        power=(1, 3),
        which=(0, 1),
        kinks=from_kinks_of_power,
        singular=norms,
    ),
    _norm(
        "normalize_by_largest",
        "tf.linalg.normalize({0}, ord=np.inf, axis={axis})[{which}]",
        "RealDiv Max Abs",
        which=(0, 1),
        kinks=_from_kinks_of_largest,
        singular=norms,
    ),
    _scaling(
        "l2_normalize",
        "tf.nn.l2_normalize({0}, axis={axis}, epsilon={bound} ** 2)",
        "Maximum Rsqrt Sum",
        batching=reduces_points,
        axis=reduced,
        bound=(1.0, 0.01),
        kinks=_from_bound,
    ),
    _scaling(
        "clip_by_norm",
        "tf.clip_by_norm({0}, {bound}, axes={axis})",
        "Maximum RealDiv",
        batching=reduces_points,
        axis=reduced,
        bound=(1.0, 0.5, 4.0),
        kinks=_from_bound,
    ),
    _in_two(
        "clip_by_global_norm",
        "tf.clip_by_global_norm([{0}[:1], {0}[1:]], {bound})[0][{which}]",
        "L2Loss Sqrt Minimum",
        bound=(1.0, 0.5, 4.0),
        which=(0, 1),
        kinks=_from_bound,
    ),
    _in_two(
        "global_norm",
        "tf.linalg.global_norm([{0}[:1], {0}[1:]])",
        "L2Loss Sqrt",
        kinks=lambda x: norms(x, axis=None),
    ),
    _scaling(
        "reduce_std",
        "tf.math.reduce_std({0}, axis={axis}, keepdims={keepdims})",
        "Sqrt Mean Square",
        batching=reduces_points,
        axis=reduced,
        keepdims=BOOL,
        kinks=from_equal,
    ),
)
