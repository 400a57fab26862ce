"""Losses (family `nn`)."""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Choice, Interval, OpSpec

# Beyond, a loss near zero loses its digits in the forward pass (the log of a sum near one; log1p would keep them): what
# a reciprocal or a logarithm behind it makes of that is a staircase. The gradients are right to 2**-53.
LOGITS = Interval(-8.0, 8.0)


def _pairs(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, shape)] if len(shape) > 1 and shape[-1] else []


OPERATIONS = (
    OpSpec(
        "l2_loss",
        "nn",
        "tf.nn.l2_loss({0})",
        ("L2Loss",),
        batched="tf.reduce_sum(tf.square({0}), axis=tuple(range(1, len({0}.shape)))) / 2",
    ),
    OpSpec(
        "softmax_cross_entropy",
        "nn",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax({0}), logits={1})",
        ("SoftmaxCrossEntropyWithLogits", "Softmax"),
        arity=2,
        shapes=_pairs,
        starts=((1, 2), (2, 2), (2, 3), (1, 3)),
        domains=(LOGITS,),
    ),
    OpSpec(
        "softmax_cross_entropy_of_logits",
        "nn",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.broadcast_to("
        "tf.one_hot({label}, {0}.shape[-1], dtype=tf.float64), {0}.shape), logits={0})",
        ("SoftmaxCrossEntropyWithLogits",),
        shapes=lambda shape: [(shape,)] if len(shape) > 1 and shape[-1] else [],
        starts=((1, 2), (2, 2), (2, 3), (1, 3)),
        attributes=lambda shape: {"label": Choice(tuple(range(shape[-1])))},
        domains=(LOGITS,),
    ),
    OpSpec(
        "sigmoid_cross_entropy",
        "nn",
        "tf.nn.sigmoid_cross_entropy_with_logits(labels={0}, logits={1})",
        ("Select", "Log1p", "Exp"),
        arity=2,
        shapes=lambda shape: [(shape, shape)],
    ),
    OpSpec(
        "ctc_loss",
        "nn",
        "tf.raw_ops.CTCLoss(inputs={0}[:, tf.newaxis], labels_indices=[[0, 0]], labels_values=[{label}], "
        "sequence_length=[{0}.shape[0]]).loss[0]",
        ("CTCLoss",),
        looped=True,
        shapes=lambda shape: [(shape,)] if len(shape) == 2 and shape[0] > 2 and shape[1] > 1 else [],
        starts=((3, 2), (3, 3), (4, 3)),
        attributes=lambda shape: {"label": Choice(tuple(range(shape[1] - 1)))},
        reference="(lambda p: (lambda c: -tf.reduce_sum(p[..., -1], -1) - tf.reduce_logsumexp(tf.where("
        "tf.linalg.band_part(tf.ones([{0}.shape[-2]] * 2), 0, -1) > 0, c[..., tf.newaxis, :] - c[..., :, tf.newaxis] "
        "+ (p[..., {label}] - p[..., -1])[..., :, tf.newaxis], -np.inf), [-2, -1]))("
        "tf.cumsum(p[..., {label}] - p[..., -1], -1)))(tf.nn.log_softmax({0}))",
        rtol=1e-5,
        orders=(1,),  # the registered gradient refuses a second derivative
    ),
)
