"""Functions of `keras.ops` that have formulas of their own: of each element, of two arguments, activations.

Those that only call TensorFlow's function of the same name are that function's operation.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at, at_zero, between, from_multiples
from gradcheck.hunt.catalogue.language import operation, reduces_points
from gradcheck.hunt.catalogue.shapes import axes, broadcasting, nonempty, reduced, vector
from gradcheck.hunt.opspec import POSITIVE, Array

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
    _math("keras_cbrt", "tf.keras.ops.cbrt({0})", "Abs Pow", singular=at_zero),
    _math("keras_sinc", "tf.keras.ops.sinc({0})", "SelectV2 RealDiv Sin"),
    _math("keras_log10", "tf.keras.ops.log10({0})", "Log RealDiv", POSITIVE),
    _math("keras_log2", "tf.keras.ops.log2({0})", "Log RealDiv", POSITIVE),
    _math("keras_exp2", "tf.keras.ops.exp2({0})", "Pow"),
    _math("keras_deg2rad", "tf.keras.ops.deg2rad({0})", "Mul"),
    _math("keras_rad2deg", "tf.keras.ops.rad2deg({0})", "Mul"),
    _math("keras_ldexp", "tf.keras.ops.ldexp({0}, {exponent})", "Mul SelectV2", exponent=(1, 3, 0, -2)),
    _nn(
        "keras_celu",
        "tf.keras.ops.celu({0}, alpha={alpha})",
        "Maximum Minimum Expm1",
        alpha=(1.0, 0.5, 2.0),
        curvature_jumps=at_zero,
    ),
    _nn("keras_elu", "tf.keras.ops.elu({0}, alpha={alpha})", "Elu SelectV2", alpha=(0.5, 2.0), kinks=at_zero),
    _nn("keras_sparse_sigmoid", "tf.keras.ops.sparse_sigmoid({0})", "SelectV2", kinks=at(-1.0, 1.0)),
    _nn("keras_sparse_plus", "tf.keras.ops.sparse_plus({0})", "SelectV2 Pow", curvature_jumps=at(-1.0, 1.0)),
    _nn("keras_tanh_shrink", "tf.keras.ops.tanh_shrink({0})", "Tanh Sub", terms=1.0),
    _nn(
        "keras_soft_shrink",
        "tf.keras.ops.soft_shrink({0}, threshold={threshold})",
        "SelectV2",
        threshold=(0.5, 2.0),
        kinks=_from_threshold,
    ),
    _nn(
        "keras_hard_shrink",
        "tf.keras.ops.hard_shrink({0}, threshold={threshold})",
        "SelectV2",
        threshold=(0.5, 2.0),
        singular=_from_threshold,
    ),
    _nn(
        "keras_threshold",
        "tf.keras.ops.threshold({0}, {threshold}, {default})",
        "SelectV2",
        threshold=(0.5, -1.0),
        default=(-1.0, 2.0),
        singular=_from_jump,
        kinks=_from_kink,
    ),
    _nn("keras_hard_sigmoid", "tf.keras.ops.hard_sigmoid({0})", "Relu6 RealDiv", kinks=at(-3.0, 3.0)),
    _nn("keras_hard_silu", "tf.keras.ops.hard_silu({0})", "Relu6 Mul", kinks=at(-3.0, 3.0)),
    _nn("keras_log_sigmoid", "tf.keras.ops.log_sigmoid({0})", "Softplus Neg"),
    _nn("keras_squareplus", "tf.keras.ops.squareplus({0}, b={b})", "Sqrt Square", b=(4.0, 0.5, 1.0)),
    _nn(
        "keras_glu",
        "tf.keras.ops.glu({0}, axis={axis})",
        "Split Sigmoid Mul",
        shapes=nonempty,
        when=lambda shape: any(size % 2 == 0 for size in shape),
        starts=((2,), (4,), (2, 2), (2, 3), (1, 4)),
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] % 2 == 0],
    ),
    # Keras keeps the logits beside the probabilities, and losses take those instead; the identity lets go of them.
    _nn(
        "keras_softmax_of_all",
        "tf.identity(tf.keras.ops.softmax({0}, axis=None))",
        "Softmax Reshape",
        batched="tf.reshape(tf.nn.softmax(tf.reshape({0}, [{0}.shape[0], -1])), {0}.shape)",
        shapes=nonempty,
        starts=((2,), (1,), (3,), (2, 2), (2, 3)),
    ),
    # Without parameters. With them, over the last axis, they stand in keras_nn.
    _over(
        "keras_layer_normalization_over_axis",
        "tf.keras.ops.layer_normalization({0}, axis={axis}, epsilon={epsilon})",
        "Rsqrt Mean Mul",
    ),
    _over(
        "keras_rms_normalization_over_axis",
        "tf.keras.ops.rms_normalization({0}, axis={axis}, epsilon={epsilon})",
        "Rsqrt Mean Square",
    ),
)


def _from_nonzero_multiples(x: Array, y: Array) -> Array:
    return np.where(np.abs(x) < np.abs(y) / 2, np.inf, from_multiples(x, y))


KERAS_BINARY = (
    _binary("keras_logaddexp", "tf.keras.ops.logaddexp({0}, {1})", "Maximum Log1p Exp Abs"),
    _binary("keras_logaddexp2", "tf.keras.ops.logaddexp2({0}, {1})", "Maximum Log1p Exp Abs"),
    _binary("keras_hypot", "tf.keras.ops.hypot({0}, {1})", "Maximum Minimum DivNoNan Sqrt", kinks=np.hypot),
    _binary(
        "keras_fmod",
        "tf.keras.ops.fmod({0}, {1})",
        "FloorMod Abs",
        singular=_from_nonzero_multiples,
    ),
    _binary("keras_fmax", "tf.keras.ops.fmax({0}, {1})", "Maximum SelectV2", kinks=between),
    _binary("keras_fmin", "tf.keras.ops.fmin({0}, {1})", "Minimum SelectV2", kinks=between),
)


def _from_start(x: Array, threshold: float, **_attributes: float) -> Array:
    """Where relu jumps: its threshold is where the value does not begin, unless it is 0."""
    return np.abs(x - threshold) if threshold else np.full(x.shape, np.inf)


def _from_bend(x: Array, slope: float, ceiling: float, threshold: float) -> Array:
    bends = [ceiling, *([] if threshold else [0.0])]
    return np.stack([np.abs(x - bend) for bend in bends])


KERAS_ACTIVATIONS = (
    _nn("keras_mish", "tf.keras.activations.mish({0})", "Softplus Tanh Mul"),
    _nn(
        "keras_relu",
        "tf.keras.activations.relu({0}, negative_slope={slope}, max_value={ceiling}, threshold={threshold})",
        slope=(0.0, 0.25),
        ceiling=(6.0, 2.0),
        threshold=(0.0, 1.0),
        kinks=_from_bend,
        singular=_from_start,
    ),
    _nn(
        "keras_relu_unbounded",
        "tf.keras.activations.relu({0}, negative_slope={slope}, threshold={threshold})",
        "SelectV2 Relu",
        slope=(0.0, 0.25),
        threshold=(1.0, -0.5),
        singular=_from_start,
    ),
)
