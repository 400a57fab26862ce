"""Functions of `tf.experimental.numpy` that have formulas of their own (family `math`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import Axes, at_zero, norms, ties_of_largest, ties_of_smallest
from gradcheck.hunt.catalogue.keras_ops import NEAR
from gradcheck.hunt.catalogue.language import operation, reduces_points
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import alike, at_least, broadcasting, reduced, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array

_math = partial(operation, "math")
_binary = partial(_math, broadcasts=True, shapes=broadcasting)
_nonempty = partial(_math, shapes=vector, starts=STARTS)
_reduction = partial(_nonempty, axis=reduced, keepdims=BOOL, batching=reduces_points)
_looped = partial(_nonempty, looped=True)
_matrix = partial(_math, shapes=at_least(1, 1), starts=((2, 2), (1, 1), (2, 3), (3, 2)), looped=True)


def _some_axes(shape: Shape, *_others: Shape) -> list[int | tuple[int, ...] | None]:
    return [axis for axis in reduced(shape) if axis != ()]


def _spread(x: Array, axis: Axes, **_attributes: object) -> Array:
    """The norms of what is left of each group without its mean."""
    return norms(x - x.mean(axis=axis, keepdims=True), axis=axis)


def _extremes(x: Array, axis: Axes, **_attributes: object) -> Array:
    return np.concatenate([ties_of_largest(x, axis=axis), ties_of_smallest(x, axis=axis)], -1)


NUMPY_FUNCTIONS = (
    _math("numpy_sinc", "tf.experimental.numpy.sinc({0})", "SelectV2 RealDiv Sin"),
    _math("numpy_cbrt", "tf.experimental.numpy.cbrt({0})", "SelectV2 Pow Abs", singular=at_zero),
    _math("numpy_exp2", "tf.experimental.numpy.exp2({0})", "Pow"),
    _math("numpy_log2", "tf.experimental.numpy.log2({0})", "Log", POSITIVE),
    _math("numpy_log10", "tf.experimental.numpy.log10({0})", "Log", POSITIVE),
    _math("numpy_deg2rad", "tf.experimental.numpy.deg2rad({0})", "Mul"),
    _math("numpy_rad2deg", "tf.experimental.numpy.rad2deg({0})", "Mul"),
    _binary("numpy_hypot", "tf.experimental.numpy.hypot({0}, {1})", "Sqrt Square AddV2", singular=np.hypot),
    _binary("numpy_logaddexp", "tf.experimental.numpy.logaddexp({0}, {1})", "Maximum Log1p Exp Abs", NEAR),
    _binary("numpy_logaddexp2", "tf.experimental.numpy.logaddexp2({0}, {1})", "Maximum Log1p Pow Abs", NEAR),
    _binary("numpy_float_power", "tf.experimental.numpy.float_power({0}, {1})", "Pow", POSITIVE, REALS),
    _reduction("numpy_mean", "tf.experimental.numpy.mean({0}, axis={axis}, keepdims={keepdims})", "Mean"),
    _reduction("numpy_var", "tf.experimental.numpy.var({0}, axis={axis}, keepdims={keepdims})", "Mean"),
    _reduction(
        "numpy_std",
        "tf.experimental.numpy.std({0}, axis={axis}, keepdims={keepdims})",
        "Mean Sqrt",
        axis=_some_axes,
        when=lambda shape: all(size > 1 for size in shape),
        kinks=_spread,
    ),
    _reduction(
        "numpy_ptp",
        "tf.experimental.numpy.ptp({0}, axis={axis}, keepdims={keepdims})",
        "Max Min",
        axis=_some_axes,
        when=lambda shape: all(size > 1 for size in shape),
        kinks=_extremes,
    ),
    *(
        _reduction(
            f"numpy_{name}",
            f"tf.experimental.numpy.{name}(with_a_gap({{0}}), axis={{axis}}, keepdims={{keepdims}})",
            gradients,
            axis=(-1, None),
        )
        for name, gradients in (
            ("nansum", "Sum SelectV2"),
            ("nanmean", "Sum SelectV2 RealDiv"),
            ("nanprod", "Prod SelectV2"),
        )
    ),
    _nonempty(
        "numpy_average",
        "tf.experimental.numpy.average({0}, axis=-1, weights={1})",
        "Sum Mul RealDiv",
        REALS,
        POSITIVE,
        others=alike,
    ),
    _looped(
        "numpy_polyval",
        "tf.experimental.numpy.polyval({0}, {1})",
        "Mul AddV2",
        shapes=at_least(1),
        starts=((2,), (1,), (3,)),
        others=lambda shape: [((2,),), ((),), ((1, 2),)],
    ),
    _looped(
        "numpy_vander",
        "tf.experimental.numpy.vander({0}, N={count}, increasing={increasing})",
        "Pow",
        shapes=at_least(1),
        starts=((2,), (1,), (3,)),
        count=(3, 1, 2),
        increasing=BOOL,
    ),
    _looped(
        "numpy_kron",
        "tf.experimental.numpy.kron({0}, {1})",
        "Mul Reshape",
        when=lambda shape: np.prod(shape) < 7,
        others=lambda shape: [((2,),), ((2, 1),)],
    ),
    _looped(
        "numpy_cross",
        "tf.experimental.numpy.cross({0}, {1})",
        "Cross",
        starts=((3,), (2,), (2, 3)),
        when=lambda shape: shape[-1] in (2, 3),
        others=lambda shape: [(shape,), ((5 - shape[-1],),)],
    ),
    _looped("numpy_outer", "tf.experimental.numpy.outer({0}, {1})", "Mul", others=lambda shape: [((2,),), (shape,)]),
    _looped(
        "numpy_inner", "tf.experimental.numpy.inner({0}, {1})", "Reshape", others=lambda s: [(s[-1:],), ((2, s[-1]),)]
    ),
    _looped("numpy_vdot", "tf.experimental.numpy.vdot({0}, {1})", "Reshape", others=alike),
    _looped(
        "numpy_dot",
        "tf.experimental.numpy.dot({0}, {1})",
        "Reshape",
        others=lambda shape: [((shape[-1],),), ((shape[-1], 2),)],
    ),
    _looped(
        "numpy_matmul",
        "tf.experimental.numpy.matmul({0}, {1})",
        "MatMul",
        starts=((2, 2), (2,), (2, 1, 2)),
        others=lambda shape: [((shape[-1], 2),), ((shape[-1],),)],
    ),
    _matrix(
        "numpy_trace",
        "tf.experimental.numpy.trace({0}, offset={offset})",
        "Sum",
        offset=lambda shape: sorted(range(1 - shape[0], shape[1]), key=abs),
    ),
    _matrix("numpy_tril", "tf.experimental.numpy.tril({0}, k={offset})", "SelectV2", offset=(0, 1, -1)),
    _matrix("numpy_triu", "tf.experimental.numpy.triu({0}, k={offset})", "SelectV2", offset=(0, 1, -1)),
    _matrix("numpy_rot90", "tf.experimental.numpy.rot90({0}, k={turns})", "Transpose ReverseV2", turns=(1, 2, 3)),
    _looped(
        "numpy_diff",
        "tf.experimental.numpy.diff({0}, n={n}, axis={axis})",
        "Sub StridedSlice",
        when=lambda shape: all(size > 1 for size in shape),
        axis=lambda shape: (-1, 0),
        n=lambda shape: range(1, min(shape)),
    ),
    _looped(
        "numpy_linspace",
        "tf.experimental.numpy.linspace({0}, {1}, num={count}, endpoint={closed})",
        "Mul",
        others=alike,
        when=lambda shape: np.prod(shape) < 7,
        count=(3, 2),
        closed=BOOL,
    ),
    _looped(
        "numpy_geomspace",
        "tf.experimental.numpy.geomspace({0}, {1}, num={count})",
        "Pow Log",
        POSITIVE,
        others=alike,
        when=lambda shape: np.prod(shape) < 7,
        count=(3, 2),
    ),
    _looped(
        "numpy_take_along_axis",
        "tf.experimental.numpy.take_along_axis({0}, np.array({indices}), axis={axis})",
        "GatherV2",
        starts=((2, 2), (2, 3)),
        when=lambda shape: shape == (2, 2),
        axis=(-1, 0),
        indices=lambda shape: [((0, 1), (1, 1)), ((0,), (1,)), ((1, 0),)],
    ),
)
