"""Functions of `keras.ops` that have formulas of their own: of each element, of two arguments, activations.

Those that only call TensorFlow's function of the same name are that function's operation.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at, at_zero, between, from_multiples
from gradcheck.hunt.catalogue.language import operation, reduces_points, tf
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
    _binary("keras_logaddexp", lambda x, y: tf.keras.ops.logaddexp(x, y), "Maximum Log1p Exp Abs"),
    _binary("keras_logaddexp2", lambda x, y: tf.keras.ops.logaddexp2(x, y), "Maximum Log1p Exp Abs"),
    _binary("keras_hypot", lambda x, y: tf.keras.ops.hypot(x, y), "Maximum Minimum DivNoNan Sqrt", kinks=np.hypot),
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
