"""Losses, normalizations and recurrent layers (family `nn`).

Normalizations, CTC and the LSTM kernels exist in single precision only: differences are taken of formulas in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.elementwise import LOGITS
from gradcheck.hunt.catalogue.language import float32, tf
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import POSITIVE, REALS, Choice, Interval, OpSpec, Rule, Shapes, alike, only_if

_nn: Callable[..., OpSpec] = partial(OpSpec, family="nn")
LOGIT_ROWS: tuple[Shape, ...] = ((1, 2), (2, 2), (2, 3), (1, 3))


def sequence_collapsing_to_label(x: tf.Tensor, *, label: int) -> tf.Tensor:
    """Minus the log of the probability that the classes collapse to one label; the last class is the blank.

    The label stands from step i to step j >= i, blanks before and after it.
    """
    log_p = tf.nn.log_softmax(x)
    gain = log_p[..., label] - log_p[..., -1]
    total = tf.cumsum(gain, -1)
    spans = total[..., tf.newaxis, :] - total[..., :, tf.newaxis] + gain[..., :, tf.newaxis]
    ordered = tf.linalg.band_part(tf.ones([x.shape[-2]] * 2), 0, -1) > 0
    return -tf.reduce_sum(log_p[..., -1], -1) - tf.reduce_logsumexp(tf.where(ordered, spans, -np.inf), [-2, -1])


LOSSES = (
    _nn(
        "l2_loss",
        "tf.nn.l2_loss({0})",
        ("L2Loss",),
        batched="tf.reduce_sum(tf.square({0}), axis=tuple(range(1, len({0}.shape)))) / 2",
    ),
    _nn(
        "softmax_cross_entropy",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax({0}), logits={1})",
        ("SoftmaxCrossEntropyWithLogits", "Softmax"),
        arity=2,
        shapes=only_if(lambda shape: len(shape) > 1 and shape[-1] > 0, alike(2)),
        starts=LOGIT_ROWS,
        domains=(LOGITS,),
    ),
    _nn(
        "softmax_cross_entropy_of_logits",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.broadcast_to("
        "tf.one_hot({label}, {0}.shape[-1], dtype=tf.float64), {0}.shape), logits={0})",
        ("SoftmaxCrossEntropyWithLogits",),
        shapes=only_if(lambda shape: len(shape) > 1 and shape[-1] > 0),
        starts=LOGIT_ROWS,
        attributes=lambda shape: {"label": Choice(tuple(range(shape[-1])))},
        domains=(LOGITS,),
    ),
    _nn(
        "sigmoid_cross_entropy",
        "tf.nn.sigmoid_cross_entropy_with_logits(labels={0}, logits={1})",
        ("Select", "Log1p", "Exp"),
        arity=2,
        shapes=alike(2),
    ),
    _nn(
        "ctc_loss",
        "tf.raw_ops.CTCLoss(inputs={0}[:, tf.newaxis], labels_indices=[[0, 0]], labels_values=[{label}], "
        "sequence_length=[{0}.shape[0]]).loss[0]",
        ("CTCLoss",),
        looped=True,
        shapes=only_if(lambda shape: len(shape) == 2 and shape[0] > 2 and shape[1] > 1),
        starts=((3, 2), (3, 3), (4, 3)),
        attributes=lambda shape: {"label": Choice(tuple(range(shape[1] - 1)))},
        reference=sequence_collapsing_to_label,
        rtol=1e-5,
        orders=(1,),  # the registered gradient refuses a second derivative
    ),
)


def trained_batch_norm(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """The normalized batch, its mean and its variance, in single precision."""
    return tf.compat.v1.nn.fused_batch_norm(*float32(x, scale, offset), epsilon=0.1, is_training=True)


def batch_norm_in_training(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    return tf.cast(trained_batch_norm(x, scale, offset)[0], tf.float64)


def batch_norm_mean(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(trained_batch_norm(x, tf.ones([x.shape[-1]]), tf.zeros([x.shape[-1]]))[1], tf.float64)


def batch_norm_variance(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(trained_batch_norm(x, tf.ones([x.shape[-1]]), tf.zeros([x.shape[-1]]))[2], tf.float64)


def batch_norm_in_use(
    x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    normalized, *_ = tf.compat.v1.nn.fused_batch_norm(
        *float32(x, scale, offset, mean, variance), epsilon=0.1, is_training=False
    )
    return tf.cast(normalized, tf.float64)


def batch_norm_frozen(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """With a mean of 0.5 and a variance of 2, as they are while a layer is fine-tuned."""
    return batch_norm_in_use(x, scale, offset, tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 2.0)


def per_channel(x: tf.Tensor) -> tf.Tensor:
    """A row of channels, to be combined with images of these channels."""
    return x[..., tf.newaxis, tf.newaxis, tf.newaxis, :]


def training_formula(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, [-4, -3, -2], keepdims=True)
    variance = tf.math.reduce_variance(x, [-4, -3, -2], keepdims=True)
    return centred * tf.math.rsqrt(variance + 0.1) * per_channel(scale) + per_channel(offset)


def inference_formula(
    x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    return (x - per_channel(mean)) * per_channel(tf.math.rsqrt(variance + 0.1) * scale) + per_channel(offset)


def frozen_formula(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    return inference_formula(x, scale, offset, tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 2.0)


def variance_formula(x: tf.Tensor) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, [-4, -3, -2], keepdims=True)
    return tf.reduce_sum(tf.square(centred), [-4, -3, -2]) / (np.prod(x.shape[-4:-1]) - 1.0)


def response_normalized_images(x: tf.Tensor, *, radius: int, beta: float) -> tf.Tensor:
    return tf.cast(tf.nn.local_response_normalization(tf.cast(x, tf.float32), radius, 1.0, 0.5, beta), tf.float64)


def response_normalized(x: tf.Tensor, *, radius: int, beta: float) -> tf.Tensor:
    return response_normalized_images(x[tf.newaxis], radius=radius, beta=beta)[0]


def response_formula(x: tf.Tensor, *, radius: int, beta: float) -> tf.Tensor:
    width = min(radius, x.shape[-1] - 1)
    near = tf.linalg.band_part(tf.ones([x.shape[-1]] * 2, tf.float64), width, width)
    return x / (1.0 + 0.5 * tf.einsum("...c,cd->...d", tf.square(x), near)) ** beta


def _with_channels(count: int) -> Rule:
    def shapes(shape: Shape) -> Shapes:
        return [(shape, *[shape[-1:]] * count)] if len(shape) == 4 and min(shape) else []

    return shapes


_batch_norm: Callable[..., OpSpec] = partial(
    _nn, gradients=("FusedBatchNormV3",), looped=True, starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)), rtol=1e-5
)

NORMALIZATIONS = (
    _batch_norm(
        "batch_norm_training", batch_norm_in_training, arity=3, shapes=_with_channels(2), reference=training_formula
    ),
    _batch_norm(
        "batch_norm_inference",
        batch_norm_in_use,
        arity=5,
        shapes=_with_channels(4),
        domains=(REALS, REALS, REALS, REALS, POSITIVE),
        reference=inference_formula,
    ),
    _batch_norm("batch_norm_frozen", batch_norm_frozen, arity=3, shapes=_with_channels(2), reference=frozen_formula),
    _batch_norm(
        "batch_norm_mean", batch_norm_mean, shapes=_with_channels(0), reference="tf.reduce_mean({0}, [-4, -3, -2])"
    ),
    _batch_norm(
        "batch_norm_variance",
        batch_norm_variance,
        shapes=only_if(lambda shape: len(shape) == 4 and all(shape) and max(shape[:3]) > 1),
        reference=variance_formula,
    ),
    _nn(
        "local_response_normalization",
        response_normalized,
        ("LRN",),
        batched=response_normalized_images,
        shapes=only_if(lambda shape: len(shape) == 3),
        starts=((1, 1, 2), (1, 1, 3), (2, 1, 4)),
        attributes=lambda shape: {"radius": Choice((1, 2, 0)), "beta": Choice((0.5, 1.0, 0.75))},
        reference=response_formula,
        rtol=1e-5,
        orders=(1,),  # LRNGrad has no registered gradient
    ),
)


def lstm_kernel(kernel: Callable[..., tf.Tensor], *arguments: tf.Tensor) -> tf.Tensor:
    """All results of an LSTM layer in one operation, in single precision: two steps, no peepholes."""
    x, w, b, h, c = float32(*arguments)
    flags = {"cell_clip": 0.0, "use_peephole": False}
    none = {"wci": [0.0], "wcf": [0.0], "wco": [0.0]}
    return kernel(seq_len_max=2, x=x, w=w, b=b, h_prev=h, cs_prev=c, **none, **flags)


def block_lstm(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).h, tf.float64)


def block_lstm_v2(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.cast(lstm_kernel(tf.raw_ops.BlockLSTMV2, x, w, b, h, c).h, tf.float64)


def block_lstm_state(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).cs, tf.float64)


def block_lstm_gate(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).o, tf.float64)


def lstm_steps(
    x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor, order: str = "igfo", forget_bias: float = 1.0
) -> list[tf.Tensor]:
    """Two steps of an LSTM with one unit: its outputs, its states and its output gates.

    `order` are the columns of the input gate, the candidate, the forget gate and the output gate.
    """
    steps = []
    for step in (0, 1):
        z = tf.concat([x[..., step, :, :], h], -1) @ w + b[..., tf.newaxis, :]
        gate = {name: z[..., column : column + 1] for column, name in enumerate(order)}
        c = tf.sigmoid(gate["f"] + forget_bias) * c + tf.sigmoid(gate["i"]) * tf.tanh(gate["g"])
        output = tf.sigmoid(gate["o"])
        h = output * tf.tanh(c)
        steps.append((h, c, output))
    return [tf.stack(kept, -3) for kept in zip(*steps, strict=True)]


def lstm_outputs(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return lstm_steps(x, w, b, h, c)[0]


def lstm_outputs_v2(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return lstm_steps(x, w, b, h, c, "ifgo", 0.0)[0]


def lstm_states(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return lstm_steps(x, w, b, h, c)[1]


def lstm_gates(x: tf.Tensor, w: tf.Tensor, b: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return lstm_steps(x, w, b, h, c)[2]


def _one_unit(shape: Shape) -> Shapes:
    if len(shape) != 3 or shape[0] != 2 or not all(shape):
        return []
    _, batch, features = shape
    return [(shape, (features + 1, 4), (4,), (batch, 1), (batch, 1))]


_lstm: Callable[..., OpSpec] = partial(
    _nn,
    arity=5,
    looped=True,
    shapes=_one_unit,
    starts=((2, 1, 1), (2, 1, 2), (2, 2, 1)),
    # Gates far from 0 and 1: their slopes s (1 - s) are differences, of which single precision keeps few digits there.
    domains=(Interval(-1.0, 1.0),),
    rtol=1e-5,
    orders=(1,),  # BlockLSTMGrad has no registered gradient
)

RECURRENT = (
    _lstm("block_lstm", block_lstm, ("BlockLSTM",), reference=lstm_outputs),
    _lstm("block_lstm_v2", block_lstm_v2, ("BlockLSTMV2",), reference=lstm_outputs_v2),
    _lstm("block_lstm_state", block_lstm_state, ("BlockLSTM",), reference=lstm_states),
    _lstm("block_lstm_gate", block_lstm_gate, ("BlockLSTM",), reference=lstm_gates),
)
