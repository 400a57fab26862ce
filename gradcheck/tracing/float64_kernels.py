"""The kernels that TensorFlow has in single precision only, as the same functions in float64.

Each takes the traced operation and its inputs, floating ones in float64, and returns the operation's outputs, with None
for outputs that only its own gradient reads. Raises NotImplementedError for unsupported cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

LARGEST = 2**24
"""The largest number of elements in the matrix of a linear kernel."""


def _channels_last(op: Any) -> None:
    if not op.get_attr("data_format").endswith(b"C"):
        raise NotImplementedError(op.get_attr("data_format"))


def _single_pixels(op: Any, images: Any) -> tuple[list[int], Any]:
    """The sizes of images (batch, …, channels), and one image of one channel per pixel, in which that pixel is one."""
    sizes = images.shape[1:-1].as_list()
    if None in sizes or int(np.prod(sizes)) ** 2 > LARGEST:
        raise NotImplementedError(f"{op.type} of images of {sizes}")
    count = int(np.prod(sizes))
    return sizes, tf.constant(np.eye(count + 1, count, dtype=np.float32).reshape(count + 1, *sizes, 1))


def linear(op: Any, inputs: list[Any]) -> list[Any]:
    """Kernels that are linear in the pixels of images, from their results for each single pixel."""
    images, *rest = inputs
    sizes, single = _single_pixels(op, images)
    names = [argument.name for argument in op.op_def.input_arg]
    given = {attribute.name: op.get_attr(attribute.name) for attribute in op.op_def.attr if attribute.name != "T"}
    rest = [tf.cast(one, traced.dtype) for one, traced in zip(rest, list(op.inputs)[1:], strict=True)]
    results = getattr(tf.raw_ops, op.type)(**dict(zip(names, [single, *rest], strict=True)), **given)
    flat = tf.reshape(images, [-1, int(np.prod(sizes)), tf.shape(images)[-1]])
    return [tf.einsum("p...,bpc->b...c", tf.cast(results[:-1, ..., 0], tf.float64), flat)]


def cropped(op: Any, inputs: list[Any]) -> list[Any]:
    """CropAndResize, which is linear in the images; pixels outside have a value of their own."""
    images, boxes, indices, size = inputs
    sizes, single = _single_pixels(op, images)
    count, crops = single.shape[0], tf.shape(boxes)[0]
    results = tf.raw_ops.CropAndResize(
        image=single,
        boxes=tf.repeat(tf.cast(boxes, tf.float32), count, axis=0),
        box_ind=tf.tile(tf.range(count), [crops]),
        crop_size=size,
        method=op.get_attr("method"),
        extrapolation_value=op.get_attr("extrapolation_value"),
    )
    weights = tf.cast(tf.reshape(results, [crops, count, size[0], size[1]]), tf.float64)
    outside = weights[:, -1:]
    flat = tf.gather(tf.reshape(images, [-1, int(np.prod(sizes)), tf.shape(images)[-1]]), indices)
    inside = tf.einsum("kphw,kpc->khwc", weights[:, :-1] - outside, flat)
    return [inside + outside[:, 0, :, :, tf.newaxis]]


def normalized(op: Any, inputs: list[Any]) -> list[Any]:
    """FusedBatchNorm, all versions: normalizes the batch with its biased variance, and returns the unbiased one."""
    _channels_last(op)
    x, scale, offset, mean, variance = inputs
    kept = [mean, variance]
    if op.get_attr("is_training"):
        axes = list(range(x.shape.rank - 1))
        count = tf.cast(tf.size(x) / tf.size(scale), tf.float64)
        old, share = kept, tf.constant(op.get_attr("exponential_avg_factor"), tf.float64)
        mean, variance = tf.reduce_mean(x, axes), tf.math.reduce_variance(x, axes)
        kept = [mean, variance * (count / tf.maximum(count - 1, 1))]
        if op.get_attr("exponential_avg_factor") != 1.0:
            kept = [(1 - share) * before + share * now for before, now in zip(old, kept, strict=True)]
    y = (x - mean) * (tf.math.rsqrt(variance + op.get_attr("epsilon")) * scale) + offset
    return [y, *kept, *[None] * (len(op.outputs) - 3)]


def response_normalized(op: Any, inputs: list[Any]) -> list[Any]:
    """LRN: x divided by a power of the sum of squares over the neighbouring channels."""
    (x,) = inputs
    radius = min(op.get_attr("depth_radius"), x.shape[-1] - 1)
    near = tf.linalg.band_part(tf.ones([x.shape[-1]] * 2, tf.float64), radius, radius)
    squares = tf.einsum("...c,cd->...d", tf.square(x), near)
    return [x / (op.get_attr("bias") + op.get_attr("alpha") * squares) ** op.get_attr("beta")]


def pooled(op: Any, inputs: list[Any]) -> list[Any]:
    """AvgPool3D and MaxPool3D: pooled within planes, then across them, since windows are boxes."""
    _channels_last(op)
    (x,) = inputs
    pool = tf.nn.avg_pool2d if op.type == "AvgPool3D" else tf.nn.max_pool2d
    (_, deep, *window, _), (_, step, *strides, _) = op.get_attr("ksize"), op.get_attr("strides")
    padding, (depth, *plane) = op.get_attr("padding").decode(), x.shape[1:].as_list()
    planes = pool(tf.reshape(x, [-1, *plane]), window, strides, padding)
    high, wide, channels = planes.shape[1:]
    columns = pool(tf.reshape(planes, [-1, depth, high * wide, channels]), [deep, 1], [step, 1], padding)
    return [tf.reshape(columns, [-1, columns.shape[1], high, wide, channels])]


def lstm(op: Any, inputs: list[Any]) -> list[Any]:
    """BlockLSTM and BlockLSTMV2, all steps of a layer; they differ in the order of their gates."""
    length, x, state, h, w, *peepholes, b = inputs
    order, bias = ("ifgo", 0.0) if op.type == "BlockLSTMV2" else ("igfo", op.get_attr("forget_bias"))
    into_i, into_f, into_o = peepholes if op.get_attr("use_peephole") else [tf.zeros([], tf.float64)] * 3
    clip, steps = op.get_attr("cell_clip"), []
    for step in range(x.shape[0]):
        gate = dict(zip(order, tf.split(tf.concat([x[step], h], 1) @ w + b, 4, axis=1), strict=True))
        i, f = tf.sigmoid(gate["i"] + state * into_i), tf.sigmoid(gate["f"] + bias + state * into_f)
        candidate = tf.tanh(gate["g"])
        state = f * state + i * candidate
        state = tf.clip_by_value(state, -clip, clip) if clip > 0 else state
        o, inner = tf.sigmoid(gate["o"] + state * into_o), tf.tanh(state)
        h = o * inner
        steps.append([tf.where(step < length, one, 0.0) for one in (i, state, f, o, candidate, inner, h)])
    return [tf.stack(kept) for kept in zip(*steps, strict=True)]


def multiplied(op: Any, inputs: list[Any]) -> list[Any]:
    """SparseMatMul, of dense matrices with many zeros."""
    return [tf.matmul(*inputs, op.get_attr("transpose_a"), op.get_attr("transpose_b"))]


IN_FLOAT64: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    **dict.fromkeys(("ResizeBilinear", "ResizeBicubic", "ScaleAndTranslate"), linear),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), normalized),
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2"), lstm),
    "CropAndResize": cropped,
    "LRN": response_normalized,
    **dict.fromkeys(("AvgPool3D", "MaxPool3D"), pooled),
    "SparseMatMul": multiplied,
}
"""The float64 forms by operation type."""
