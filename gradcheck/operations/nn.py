"""Normalizations, recurrent layers and losses of `tf.nn` (family `nn`).

Fused normalizations exist in single precision only: differences are taken of formulas in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import added_up, float32, multiples, operation, tf
from gradcheck.operations.shapes import alike, at_least
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Formula, Interval, OpSpec, Shapes
from gradcheck.operations.special_sets import FLOAT32_OVERFLOW

_nn = partial(operation, "nn")


def trained_batch_norm(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> list[tf.Tensor]:
    """The normalized batch, its mean and its variance."""
    results = tf.compat.v1.nn.fused_batch_norm(*float32(x, scale, offset), epsilon=0.1, is_training=True)
    return [tf.cast(result, tf.float64) for result in results]


def frozen_batch_norm(
    x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    arguments = float32(x, scale, offset, mean, variance)
    return tf.cast(tf.compat.v1.nn.fused_batch_norm(*arguments, epsilon=0.1, is_training=False)[0], tf.float64)


def per_channel(x: tf.Tensor) -> tf.Tensor:
    """A row of channels, to be combined with images of these channels."""
    return x[..., tf.newaxis, tf.newaxis, tf.newaxis, :]


def normalized(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    return (x - per_channel(mean)) * per_channel(tf.math.rsqrt(variance + 0.1) * scale) + per_channel(offset)


def at_most_single(x: tf.Tensor) -> tf.Tensor:
    """Another tensor of these values, in half precision if they are."""
    return tf.cast(x, tf.float32) if x.dtype == tf.float64 else tf.identity(x)


def raw_batch_norm(kernel: Callable[..., Any], x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
    """The normalized batch in single precision, its mean and variance, and what is kept for the gradient."""
    x, (scale, offset) = at_most_single(x), float32(scale, offset)
    return kernel(x=x, scale=scale, offset=offset, mean=[], variance=[], epsilon=0.1, is_training=True)


def batch_norm_back(
    kernel: Callable[..., Any], derivative: Callable[..., Any], x: tf.Tensor, scale: tf.Tensor, back: tf.Tensor
) -> list[tf.Tensor]:
    """Cotangents of the batch, the scale and the offset, by the gradient kernel; half precision is kept."""
    kept = raw_batch_norm(kernel, x, scale, tf.zeros_like(scale))[3:]
    return batch_norm_back_from(kept, derivative, at_most_single(x), scale, at_most_single(back))


def batch_norm_back_from(
    kept: tuple[tf.Tensor, ...], derivative: Callable[..., Any], x: tf.Tensor, scale: tf.Tensor, back: tf.Tensor
) -> list[tf.Tensor]:
    """The same from what the batch norm has kept, of tensors that the kernel takes as they are."""
    reserved = {f"reserve_space_{number}": each for number, each in enumerate(kept, 1)}
    results = derivative(y_backprop=back, x=x, scale=float32(scale)[0], epsilon=0.1, **reserved)
    return [tf.cast(result, tf.float64) for result in results[:3]]


def batch_norm_back_formula(x: tf.Tensor, scale: tf.Tensor, back: tf.Tensor, *, part: int) -> tf.Tensor:
    axes, stretch = [-4, -3, -2], per_channel(scale)
    centred = x - tf.reduce_mean(x, axes, keepdims=True)
    slope = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axes, keepdims=True) + 0.1)
    z = centred * slope
    to_x = (
        stretch
        * slope
        * (back - tf.reduce_mean(back, axes, keepdims=True) - z * tf.reduce_mean(back * z, axes, keepdims=True))
    )
    return [to_x, tf.reduce_sum(back * z, axes), tf.reduce_sum(back, axes)][part]


def batch_norm_back_of_itself(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """The cotangent of a batch that is its own incoming cotangent: one tensor, given twice."""
    kept = raw_batch_norm(tf.raw_ops.FusedBatchNormV3, x, scale, tf.zeros_like(scale))[3:]
    (single,) = float32(x)
    return batch_norm_back_from(kept, tf.raw_ops.FusedBatchNormGradV3, single, scale, single)[0]


def batch_norm_in_layout(
    x: tf.Tensor,
    scale: tf.Tensor,
    offset: tf.Tensor,
    *,
    kernel: Callable[..., Any],
    layout: str,
    training: bool,
    epsilon: float,
) -> tf.Tensor:
    """A batch that is brought into the layout, normalized, and brought back."""
    x, (scale, offset) = at_most_single(x), float32(scale, offset)
    x = x[:, tf.newaxis] if "D" in layout else x
    if layout[1] == "C":
        x = tf.experimental.numpy.moveaxis(x, -1, 1)
    given = [tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 2.0]
    mean, variance = [[], []] if training else given
    y = kernel(
        x=x,
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
        data_format=layout,
        is_training=training,
    ).y
    if layout[1] == "C":
        y = tf.experimental.numpy.moveaxis(y, 1, -1)
    return tf.cast(y[:, 0] if "D" in layout else y, tf.float64)


def batch_norm_formula(
    x: tf.Tensor,
    scale: tf.Tensor,
    offset: tf.Tensor,
    *,
    layout: str = "NHWC",
    training: bool = True,
    epsilon: float = 0.1,
) -> tf.Tensor:
    if not training:  # `normalized` adds 0.1 to the variance
        return normalized(x, scale, offset, tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 1.9 + epsilon)
    centred = x - tf.reduce_mean(x, [-4, -3, -2], keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), [-4, -3, -2], keepdims=True)
    return centred * tf.math.rsqrt(variance + epsilon) * per_channel(scale) + per_channel(offset)


def response_normalized(x: tf.Tensor, *, radius: int, bias: float, alpha: float, beta: float, count: int) -> tf.Tensor:
    width = min(radius, x.shape[-1] - 1)
    near = tf.linalg.band_part(tf.ones([x.shape[-1]] * 2, tf.float64), width, width)
    batch = multiples(x, count)
    return added_up(batch / (bias + alpha * tf.einsum("...c,cd->...d", tf.square(batch), near)) ** beta, count)


def _of_channels(count: int) -> Callable[[Shape], Shapes]:
    return lambda shape: [(shape[-1:],) * count]


_batch_norm = partial(
    _nn,
    gradients="FusedBatchNormV3",
    looped=True,
    shapes=at_least(1, 1, 1, 1),
    starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
    rtol=1e-5,
)
_in_layout = partial(_batch_norm, others=_of_channels(2), reference=batch_norm_formula)
_back = partial(
    _batch_norm, others=lambda shape: [(shape[-1:], shape)], part=(0, 1, 2), reference=batch_norm_back_formula
)

centred: Formula = lambda x: x - tf.reduce_mean(x, [-4, -3, -2], keepdims=True)
with_fixed_moments: Formula = lambda form, x, scale, offset: form(
    x, scale, offset, tf.zeros_like(scale) + 0.5, tf.zeros_like(scale) + 2.0
)
unscaled: Formula = lambda x: trained_batch_norm(x, tf.ones([x.shape[-1]]), tf.zeros([x.shape[-1]]))

NORMALIZATIONS = (
    _batch_norm(
        "batch_norm_training",
        lambda x, scale, offset: trained_batch_norm(x, scale, offset)[0],
        others=_of_channels(2),
        reference=lambda x, scale, offset: (
            centred(x)
            * tf.math.rsqrt(tf.math.reduce_variance(x, [-4, -3, -2], keepdims=True) + 0.1)
            * per_channel(scale)
            + per_channel(offset)
        ),
    ),
    _batch_norm(
        "batch_norm_inference",
        frozen_batch_norm,
        domains=(REALS, REALS, REALS, REALS, POSITIVE),
        others=_of_channels(4),
        reference=normalized,
    ),
    _batch_norm(
        "batch_norm_frozen",
        lambda x, scale, offset: with_fixed_moments(frozen_batch_norm, x, scale, offset),
        others=_of_channels(2),
        reference=lambda x, scale, offset: with_fixed_moments(normalized, x, scale, offset),
    ),
    _batch_norm(
        "batch_norm_mean",
        lambda x: unscaled(x)[1],
        reference=lambda x: tf.reduce_mean(x, [-4, -3, -2]),
    ),
    _batch_norm(
        "batch_norm_variance",
        lambda x: unscaled(x)[2],
        when=lambda shape: max(shape[:3]) > 1,
        reference=lambda x: tf.reduce_sum(tf.square(centred(x)), [-4, -3, -2]) / (np.prod(x.shape[-4:-1]) - 1.0),
    ),
    _nn(
        "local_response_normalization",
        lambda x, *, count, radius, bias, alpha, beta: tf.cast(
            added_up(
                tf.nn.local_response_normalization(tf.cast(multiples(x, count), tf.float32), radius, bias, alpha, beta),
                count,
            ),
            tf.float64,
        ),
        "LRN",
        in_batch=True,
        when=lambda shape: len(shape) == 3,
        starts=((1, 1, 2), (1, 1, 3), (2, 1, 4)),
        radius=(1, 2, 0),
        bias=(1.0, 2.0),
        alpha=(0.5, 1.0),
        beta=(0.5, 1.0, 0.75),
        count=(1, 2),
        reference=response_normalized,
        rtol=1e-5,
    ),
    _in_layout(
        "batch_norm_v1",
        lambda x, scale, offset, *, layout, training, epsilon: batch_norm_in_layout(
            x, scale, offset, kernel=tf.raw_ops.FusedBatchNorm, layout=layout, training=training, epsilon=epsilon
        ),
        gradients="FusedBatchNorm",
        layout=("NHWC", "NCHW"),
        training=(True, False),
        epsilon=(0.1, 1.0),
    ),
    _in_layout(
        "batch_norm_v2",
        lambda x, scale, offset, *, layout, training, epsilon: batch_norm_in_layout(
            x, scale, offset, kernel=tf.raw_ops.FusedBatchNormV2, layout=layout, training=training, epsilon=epsilon
        ),
        gradients="FusedBatchNormV2",
        layout=("NHWC", "NCHW"),
        training=(True, False),
        epsilon=(0.1, 1.0),
    ),
    _in_layout(
        "batch_norm_in_layout",
        lambda x, scale, offset, *, layout, training, epsilon: batch_norm_in_layout(
            x, scale, offset, kernel=tf.raw_ops.FusedBatchNormV3, layout=layout, training=training, epsilon=epsilon
        ),
        gradients="FusedBatchNormV3",
        layout=("NHWC", "NCHW", "NDHWC", "NCDHW"),
        training=(True, False),
        epsilon=(0.1, 1.0),
    ),
    _batch_norm(
        "batch_norm_grad_of_itself",
        batch_norm_back_of_itself,
        gradients="FusedBatchNormGradV3",
        others=_of_channels(1),
        reference=lambda x, scale: batch_norm_back_formula(x, scale, x, part=0),
    ),
    _back(
        "batch_norm_grad_v1",
        lambda x, scale, back, *, part: batch_norm_back(
            tf.raw_ops.FusedBatchNorm, tf.raw_ops.FusedBatchNormGrad, x, scale, back
        )[part],
        gradients="FusedBatchNormGrad",
    ),
    _back(
        "batch_norm_grad_v2",
        lambda x, scale, back, *, part: batch_norm_back(
            tf.raw_ops.FusedBatchNormV2, tf.raw_ops.FusedBatchNormGradV2, x, scale, back
        )[part],
        gradients="FusedBatchNormGradV2",
    ),
    _back(
        "batch_norm_grad",
        lambda x, scale, back, *, part: batch_norm_back(
            tf.raw_ops.FusedBatchNormV3, tf.raw_ops.FusedBatchNormGradV3, x, scale, back
        )[part],
        gradients="FusedBatchNormGradV3",
    ),
)


def lstm_kernel(kernel: Callable[..., tf.Tensor], *arguments: tf.Tensor, clip: float = 0.0) -> tf.Tensor:
    """All results of two steps of an LSTM layer in one operation, in single precision; maybe with peepholes."""
    x, w, b, h, c, *peepholes = float32(*arguments)
    wci, wcf, wco = peepholes or ([0.0], [0.0], [0.0])
    flags = {"cell_clip": clip, "use_peephole": bool(peepholes)}
    return kernel(seq_len_max=2, x=x, w=w, b=b, h_prev=h, cs_prev=c, wci=wci, wcf=wcf, wco=wco, **flags)


def lstm_steps(
    x: tf.Tensor,
    w: tf.Tensor,
    b: tf.Tensor,
    h: tf.Tensor,
    c: tf.Tensor,
    *peepholes: tf.Tensor,
    order: str = "igfo",
    forget_bias: float = 1.0,
    clip: float = np.inf,
) -> list[tf.Tensor]:
    """Two steps of an LSTM with one unit: its outputs, its states and its output gates.

    `order` are the columns of the input gate, the candidate, the forget gate and the output gate.
    """
    wci, wcf, wco = [one[..., tf.newaxis, :] for one in peepholes] or [0.0] * 3
    steps = []
    for step in (0, 1):
        z = tf.concat([x[..., step, :, :], h], -1) @ w + b[..., tf.newaxis, :]
        gate = {name: z[..., column : column + 1] for column, name in enumerate(order)}
        kept = tf.sigmoid(gate["f"] + forget_bias + wcf * c) * c
        c = tf.clip_by_value(kept + tf.sigmoid(gate["i"] + wci * c) * tf.tanh(gate["g"]), -clip, clip)
        output = tf.sigmoid(gate["o"] + wco * c)
        h = output * tf.tanh(c)
        steps.append((h, c, output))
    return [tf.stack(kept, -3) for kept in zip(*steps, strict=True)]


def _lstm(
    name: str, source: Formula, gradient: str, reference: Formula, *, peepholes: int = 0, **fields: Any
) -> OpSpec:
    # The gates are kept far from 0 and 1: their slopes s (1 - s) are differences, of which single precision keeps few
    # digits there.
    return _nn(
        name,
        source,
        gradient,
        Interval(-1.0, 1.0),
        looped=True,
        shapes=at_least(2, 1, 1),
        when=lambda shape: shape[0] == 2,
        others=lambda shape: [((shape[2] + 1, 4), (4,), (shape[1], 1), (shape[1], 1), *[(1,)] * peepholes)],
        starts=((2, 1, 1), (2, 1, 2), (2, 2, 1)),
        reference=reference,
        rtol=1e-5,
        **fields,
    )


RECURRENT = (
    _lstm(
        "block_lstm",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).h, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[0],
    ),
    _lstm(
        "block_lstm_v2",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTMV2, x, w, b, h, c).h, tf.float64),
        "BlockLSTMV2",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c, order="ifgo", forget_bias=0.0)[0],
    ),
    _lstm(
        "block_lstm_state",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).cs, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[1],
    ),
    _lstm(
        "block_lstm_gate",
        lambda x, w, b, h, c: tf.cast(lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c).o, tf.float64),
        "BlockLSTM",
        lambda x, w, b, h, c: lstm_steps(x, w, b, h, c)[2],
    ),
    _lstm(
        "block_lstm_v2_peepholes",
        lambda x, w, b, h, c, wci, wcf, wco: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTMV2, x, w, b, h, c, wci, wcf, wco).h, tf.float64
        ),
        "BlockLSTMV2",
        lambda x, w, b, h, c, wci, wcf, wco: lstm_steps(x, w, b, h, c, wci, wcf, wco, order="ifgo", forget_bias=0.0)[0],
        peepholes=3,
    ),
    _lstm(
        "block_lstm_peepholes",
        lambda x, w, b, h, c, wci, wcf, wco: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c, wci, wcf, wco).cs, tf.float64
        ),
        "BlockLSTM",
        lambda x, w, b, h, c, wci, wcf, wco: lstm_steps(x, w, b, h, c, wci, wcf, wco)[1],
        peepholes=3,
    ),
    _lstm(
        "block_lstm_clipped",
        lambda x, w, b, h, c, *, clip: tf.cast(
            lstm_kernel(tf.raw_ops.BlockLSTM, x, w, b, h, c, clip=clip).h, tf.float64
        ),
        "BlockLSTM",
        lambda x, w, b, h, c, *, clip: lstm_steps(x, w, b, h, c, clip=clip)[0],
        clip=(0.0625,),
    ),
)


_logits = partial(_nn, when=lambda shape: len(shape) > 1 and shape[-1] > 0, starts=((1, 2), (2, 2), (2, 3), (1, 3)))


def sequence_collapsing_to_label(x: tf.Tensor, *, label: int, merged: bool = True, **_ways: bool) -> tf.Tensor:
    """Minus the log of the probability that the classes collapse to one label; the last class is the blank.

    The label stands from step i to step j >= i, blanks before and after it; if repetitions are not merged, at i alone.
    """
    log_p = tf.nn.log_softmax(x)
    gain = log_p[..., label] - log_p[..., -1]
    total = tf.cumsum(gain, -1)
    spans = total[..., tf.newaxis, :] - total[..., :, tf.newaxis] + gain[..., :, tf.newaxis]
    ordered = tf.linalg.band_part(tf.ones([x.shape[-2]] * 2), 0, -1 if merged else 0) > 0
    return -tf.reduce_sum(log_p[..., -1], -1) - tf.reduce_logsumexp(tf.where(ordered, spans, -np.inf), [-2, -1])


_ctc = partial(
    _nn,
    looped=True,
    shapes=at_least(3, 2),
    starts=((3, 2), (3, 3), (4, 3)),
    label=lambda shape: range(shape[1] - 1),
    reference=sequence_collapsing_to_label,
    # Also of float64, logarithms of sums are taken in float32 (ctc_loss_util.h): a few units of 2**-24 a step.
    rtol=1e-6,
)

LOSSES = (
    _nn(
        "l2_loss",
        lambda x: tf.nn.l2_loss(x),
        "L2Loss",
        batched=lambda x: tf.reduce_sum(tf.square(x), axis=tuple(range(1, len(x.shape)))) / 2,
    ),
    _logits(
        "softmax_cross_entropy",
        lambda x, y: tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(x), logits=y),
        "SoftmaxCrossEntropyWithLogits Softmax",
        others=alike,
        terms=1.0,
    ),
    _logits(
        "softmax_cross_entropy_of_logits",
        lambda x, *, label: tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(tf.one_hot(label, x.shape[-1], dtype=tf.float64), x.shape), logits=x
        ),
        "SoftmaxCrossEntropyWithLogits",
        label=lambda shape: range(shape[-1]),
        terms=1.0,
    ),
    _nn(
        "sigmoid_cross_entropy",
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=y),
        "Select Log1p Exp",
        others=alike,
    ),
    _ctc(
        "ctc_loss",
        lambda x, *, label, collapsed, merged, ignored: tf.raw_ops.CTCLoss(
            inputs=x[:, tf.newaxis],
            labels_indices=[[0, 0]],
            labels_values=[label],
            sequence_length=[x.shape[0]],
            preprocess_collapse_repeated=collapsed,
            ctc_merge_repeated=merged,
            ignore_longer_outputs_than_inputs=ignored,
        ).loss[0],
        collapsed=BOOL,
        merged=(True, False),
        ignored=BOOL,
    ),
    _ctc(
        "ctc_loss_dense",
        lambda x, *, label: tf.cast(
            tf.nn.ctc_loss([[label]], tf.cast(x, tf.float32)[:, tf.newaxis], [1], [x.shape[0]], blank_index=-1)[0],
            tf.float64,
        ),
        "Cast",
        special=(FLOAT32_OVERFLOW,),
    ),
)
