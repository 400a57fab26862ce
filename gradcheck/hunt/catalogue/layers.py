"""Losses, normalizations and recurrent layers (family `nn`).

Normalizations, CTC and the LSTM kernels exist in single precision only: differences are taken of formulas in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import added_up, float32, in_batch, multiples, operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Interval, OpSpec, Shapes

_nn = partial(operation, "nn")
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
        "tf.nn.l2_loss({0})",
        "L2Loss",
        batched="tf.reduce_sum(tf.square({0}), axis=tuple(range(1, len({0}.shape)))) / 2",
    ),
    _logits(
        "softmax_cross_entropy",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax({0}), logits={1})",
        "SoftmaxCrossEntropyWithLogits Softmax",
        others=alike,
        terms=1.0,
    ),
    _logits(
        "softmax_cross_entropy_of_logits",
        "tf.nn.softmax_cross_entropy_with_logits(labels=tf.broadcast_to("
        "tf.one_hot({label}, {0}.shape[-1], dtype=tf.float64), {0}.shape), logits={0})",
        "SoftmaxCrossEntropyWithLogits",
        label=lambda shape: range(shape[-1]),
        terms=1.0,
    ),
    _nn(
        "sigmoid_cross_entropy",
        "tf.nn.sigmoid_cross_entropy_with_logits(labels={0}, logits={1})",
        "Select Log1p Exp",
        others=alike,
    ),
    _ctc(
        "ctc_loss",
        "tf.raw_ops.CTCLoss(inputs={0}[:, tf.newaxis], labels_indices=[[0, 0]], labels_values=[{label}], "
        "sequence_length=[{0}.shape[0]], preprocess_collapse_repeated={collapsed}, ctc_merge_repeated={merged}, "
        "ignore_longer_outputs_than_inputs={ignored}).loss[0]",
        collapsed=BOOL,
        merged=(True, False),
        ignored=BOOL,
    ),
    _ctc(
        "ctc_loss_dense",
        "tf.cast(tf.nn.ctc_loss([[{label}]], tf.cast({0}, tf.float32)[:, tf.newaxis], [1], [{0}.shape[0]], "
        "blank_index=-1)[0], tf.float64)",
        "Cast",
    ),
)


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
    """What comes back to the batch, the scale and the offset, as an operation; a batch in half precision stays so."""
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
    """What comes back to a batch that is its own cotangent: one tensor, given twice."""
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


def _of_version(version: str, name: str, *layouts: str) -> OpSpec:
    kernel = f"tf.raw_ops.FusedBatchNorm{version}"
    return _batch_norm(
        name,
        f"batch_norm_in_layout({{0}}, {{1}}, {{2}}, kernel={kernel}, layout={{layout}}, training={{training}}, "
        "epsilon={epsilon})",
        gradients=f"FusedBatchNorm{version}",
        others=_of_channels(2),
        layout=layouts,
        training=(True, False),
        epsilon=(0.1, 1.0),
        reference=batch_norm_formula,
    )


def _back_of_version(version: str, name: str) -> OpSpec:
    kernels = f"tf.raw_ops.FusedBatchNorm{version}, tf.raw_ops.FusedBatchNormGrad{version}"
    return _batch_norm(
        name,
        f"batch_norm_back({kernels}, {{0}}, {{1}}, {{2}})[{{part}}]",
        gradients=f"FusedBatchNormGrad{version}",
        others=lambda shape: [(shape[-1:], shape)],
        part=(0, 1, 2),
        reference=batch_norm_back_formula,
    )


CENTRED = "({0} - tf.reduce_mean({0}, [-4, -3, -2], keepdims=True))"
AS_WHILE_TUNED = "({0}, {1}, {2}, tf.zeros_like({1}) + 0.5, tf.zeros_like({1}) + 2.0)"
UNSCALED = "trained_batch_norm({0}, tf.ones([{0}.shape[-1]]), tf.zeros([{0}.shape[-1]]))"

NORMALIZATIONS = (
    _batch_norm(
        "batch_norm_training",
        "trained_batch_norm({0}, {1}, {2})[0]",
        others=_of_channels(2),
        reference=f"{CENTRED} * tf.math.rsqrt(tf.math.reduce_variance({{0}}, [-4, -3, -2], keepdims=True) + 0.1)"
        " * per_channel({1}) + per_channel({2})",
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
        f"frozen_batch_norm{AS_WHILE_TUNED}",
        others=_of_channels(2),
        reference=f"normalized{AS_WHILE_TUNED}",
    ),
    _batch_norm("batch_norm_mean", f"{UNSCALED}[1]", reference="tf.reduce_mean({0}, [-4, -3, -2])"),
    _batch_norm(
        "batch_norm_variance",
        f"{UNSCALED}[2]",
        when=lambda shape: max(shape[:3]) > 1,
        reference=f"tf.reduce_sum(tf.square({CENTRED}), [-4, -3, -2]) / (np.prod({{0}}.shape[-4:-1]) - 1.0)",
    ),
    _nn(
        "local_response_normalization",
        "tf.cast(added_up(tf.nn.local_response_normalization(tf.cast(multiples({0}[tf.newaxis], {count}), tf.float32), "
        "{radius}, {bias}, {alpha}, {beta}), {count})[0], tf.float64)",
        "LRN",
        batching=in_batch,
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
    _of_version("", "batch_norm_v1", "NHWC", "NCHW"),
    _of_version("V2", "batch_norm_v2", "NHWC", "NCHW"),
    _of_version("V3", "batch_norm_in_layout", "NHWC", "NCHW", "NDHWC", "NCDHW"),
    _batch_norm(
        "batch_norm_grad_of_itself",
        batch_norm_back_of_itself,
        gradients="FusedBatchNormGradV3",
        others=_of_channels(1),
        reference="batch_norm_back_formula({0}, {1}, {0}, part=0)",
    ),
    _back_of_version("", "batch_norm_grad_v1"),
    _back_of_version("V2", "batch_norm_grad_v2"),
    _back_of_version("V3", "batch_norm_grad"),
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
    name: str, kernel: str, kept: str, result: int, options: str = "", peepholes: int = 0, **fields: Any
) -> OpSpec:
    # The gates are kept far from 0 and 1: their slopes s (1 - s) are differences, of which single precision keeps few
    # digits there.
    given = ", ".join(f"{{{number}}}" for number in range(5 + peepholes))
    clip = ", clip={clip}" if "clip" in fields else ""
    return _nn(
        name,
        f"tf.cast(lstm_kernel(tf.raw_ops.{kernel}, {given}{clip}).{kept}, tf.float64)",
        kernel,
        Interval(-1.0, 1.0),
        looped=True,
        shapes=at_least(2, 1, 1),
        when=lambda shape: shape[0] == 2,
        others=lambda shape: [((shape[2] + 1, 4), (4,), (shape[1], 1), (shape[1], 1), *[(1,)] * peepholes)],
        starts=((2, 1, 1), (2, 1, 2), (2, 2, 1)),
        reference=f"lstm_steps({given}{options}{clip})[{result}]",
        rtol=1e-5,
        **fields,
    )


RECURRENT = (
    _lstm("block_lstm", "BlockLSTM", "h", 0),
    _lstm("block_lstm_v2", "BlockLSTMV2", "h", 0, ", order='ifgo', forget_bias=0.0"),
    _lstm("block_lstm_state", "BlockLSTM", "cs", 1),
    _lstm("block_lstm_gate", "BlockLSTM", "o", 2),
    _lstm("block_lstm_v2_peepholes", "BlockLSTMV2", "h", 0, ", order='ifgo', forget_bias=0.0", peepholes=3),
    _lstm("block_lstm_peepholes", "BlockLSTM", "cs", 1, peepholes=3),
    _lstm("block_lstm_clipped", "BlockLSTM", "h", 0, clip=(0.0625,)),
)
