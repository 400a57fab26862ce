"""Normalisations (family `nn`): kernels in float32 only, so differences are taken of formulas in float64."""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import POSITIVE, REALS, Choice, OpSpec
from gradcheck.hunt.shape_rules import Rule

ROUNDING = 1e-5
STATISTICS = (
    "tf.cast(tf.compat.v1.nn.fused_batch_norm(tf.cast({0}, tf.float32), tf.ones([{0}.shape[-1]]), "
    "tf.zeros([{0}.shape[-1]]), epsilon=0.1, is_training=True)"
)


INFERENCE = (
    "tf.cast(tf.compat.v1.nn.fused_batch_norm(tf.cast({0}, tf.float32), tf.cast({1}, tf.float32), "
    "tf.cast({2}, tf.float32), tf.cast({3}, tf.float32), tf.cast({4}, tf.float32), epsilon=0.1, "
    "is_training=False)[0], tf.float64)"
)
INFERENCE_REFERENCE = (
    "({0} - {3}[..., tf.newaxis, tf.newaxis, tf.newaxis, :]) * (tf.math.rsqrt({4} + 0.1) * {1})[..., "
    "tf.newaxis, tf.newaxis, tf.newaxis, :] + {2}[..., tf.newaxis, tf.newaxis, tf.newaxis, :]"
)


def _frozen(text: str) -> str:
    """The text with a mean of 0.5 and a variance of 2, as they are while a layer is fine-tuned."""
    return text.replace("{3}", "(tf.zeros_like({1}) + 0.5)").replace("{4}", "(tf.zeros_like({1}) + 2.0)")


def _scaled(count: int) -> Rule:
    def shapes(shape: Shape) -> list[tuple[Shape, ...]]:
        return [(shape, *[shape[-1:]] * count)] if len(shape) == 4 and min(shape) else []

    return shapes


OPERATIONS = (
    OpSpec(
        "batch_norm_training",
        "nn",
        "tf.cast(tf.compat.v1.nn.fused_batch_norm(tf.cast({0}, tf.float32), tf.cast({1}, tf.float32), "
        "tf.cast({2}, tf.float32), epsilon=0.1, is_training=True)[0], tf.float64)",
        ("FusedBatchNormV3",),
        arity=3,
        looped=True,
        shapes=_scaled(2),
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        reference="({0} - tf.reduce_mean({0}, [-4, -3, -2], keepdims=True)) * tf.math.rsqrt("
        "tf.math.reduce_variance({0}, [-4, -3, -2], keepdims=True) + 0.1) "
        "* {1}[..., tf.newaxis, tf.newaxis, tf.newaxis, :] + {2}[..., tf.newaxis, tf.newaxis, tf.newaxis, :]",
        rtol=ROUNDING,
    ),
    OpSpec(
        "batch_norm_inference",
        "nn",
        INFERENCE,
        ("FusedBatchNormV3",),
        arity=5,
        looped=True,
        shapes=_scaled(4),
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        domains=(REALS, REALS, REALS, REALS, POSITIVE),
        reference=INFERENCE_REFERENCE,
        rtol=ROUNDING,
    ),
    OpSpec(
        "batch_norm_frozen",
        "nn",
        _frozen(INFERENCE),
        ("FusedBatchNormV3",),
        arity=3,
        looped=True,
        shapes=_scaled(2),
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        reference=_frozen(INFERENCE_REFERENCE),
        rtol=ROUNDING,
    ),
    OpSpec(
        "batch_norm_mean",
        "nn",
        STATISTICS + "[1], tf.float64)",
        ("FusedBatchNormV3",),
        looped=True,
        shapes=_scaled(0),
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        reference="tf.reduce_mean({0}, [-4, -3, -2])",
        rtol=ROUNDING,
    ),
    OpSpec(
        "batch_norm_variance",
        "nn",
        STATISTICS + "[2], tf.float64)",
        ("FusedBatchNormV3",),
        looped=True,
        shapes=lambda shape: [(shape,)] if len(shape) == 4 and all(shape) and max(shape[:3]) > 1 else [],
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        reference="tf.reduce_sum(tf.square({0} - tf.reduce_mean({0}, [-4, -3, -2], keepdims=True)), [-4, -3, -2]) "
        "/ (np.prod({0}.shape[-4:-1]) - 1.0)",
        rtol=ROUNDING,
    ),
    OpSpec(
        "local_response_normalization",
        "nn",
        "tf.cast(tf.nn.local_response_normalization(tf.cast({0}[tf.newaxis], tf.float32), {radius}, 1.0, 0.5, "
        "{beta})[0], tf.float64)",
        ("LRN",),
        batched="tf.cast(tf.nn.local_response_normalization(tf.cast({0}, tf.float32), {radius}, 1.0, 0.5, {beta}), "
        "tf.float64)",
        shapes=lambda shape: [(shape,)] if len(shape) == 3 else [],
        starts=((1, 1, 2), (1, 1, 3), (2, 1, 4)),
        attributes=lambda shape: {"radius": Choice((1, 2, 0)), "beta": Choice((0.5, 1.0, 0.75))},
        reference="{0} / (1.0 + 0.5 * tf.einsum('...c,cd->...d', tf.square({0}), tf.linalg.band_part("
        "tf.ones([{0}.shape[-1]] * 2, tf.float64), *[min({radius}, {0}.shape[-1] - 1)] * 2))) ** {beta}",
        rtol=ROUNDING,
        orders=(1,),  # LRNGrad has no registered gradient
    ),
)
