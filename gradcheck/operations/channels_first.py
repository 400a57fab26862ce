"""Convolutions, pools and blocks whose channels come first (family `nn`).

On a CPU they have kernels only where XLA compiles them: what is differentiated is compiled, and the points of a batch
are taken with the channels last. In other modes they are what their forms with channels last are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.convolution import convolved_points, depthwise_points
from gradcheck.operations.language import compiled_by_xla, operation, tf
from gradcheck.operations.pooling import PADDINGS, STRIDES, largest_in_volumes, means_in_volumes, window_ties
from gradcheck.operations.shapes import at_least
from gradcheck.operations.spec import Shapes
from gradcheck.typing import Array


def channels_last(x: tf.Tensor) -> tf.Tensor:
    return tf.experimental.numpy.moveaxis(x, 1, -1)


def channels_first(x: tf.Tensor) -> tf.Tensor:
    return tf.experimental.numpy.moveaxis(x, -1, 1)


def single_max_pool(kernel: Callable[..., tf.Tensor], x: tf.Tensor, stride: int, **layout: Any) -> tf.Tensor:
    """In single precision: compiled, the gradient's gradient has no other kernel."""
    space = len(x.shape) - 2
    edges, steps = [1, 1] + [2] * space, [1, 1] + [stride] * space
    return tf.cast(kernel(input=tf.cast(x, tf.float32), ksize=edges, strides=steps, **layout), tf.float64)


def largest_in_windows(x: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    """The largest elements in images, with points in front of them or without."""
    last = tf.experimental.numpy.moveaxis(x, -3, -1)
    pooled = tf.nn.max_pool2d(tf.reshape(last, [-1, *last.shape[-3:]]), 2, stride, padding)
    return tf.experimental.numpy.moveaxis(tf.reshape(pooled, [*x.shape[:-3], *pooled.shape[1:]]), -1, -3)


def largest_in_cubes_of_channels(x: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    """The same in volumes."""
    last = tf.experimental.numpy.moveaxis(x, -4, -1)
    return tf.experimental.numpy.moveaxis(largest_in_volumes(last, stride=stride, padding=padding, count=1), -1, -4)


def _ties(x: Array, **windows: Any) -> Array:
    return window_ties(np.moveaxis(x, 0, -1), **windows)


def _filters(shape: Shape) -> Shapes:
    return [((2,) * (len(shape) - 1) + (shape[0], channels),) for channels in (1, 2)]


_by_xla = partial(operation, "nn", modes=())
_on_images = partial(_by_xla, shapes=at_least(1, 2, 2), starts=((1, 2, 2), (2, 3, 3), (2, 2, 3)), padding=PADDINGS)
_on_volumes = partial(_on_images, shapes=at_least(1, 2, 2, 2), starts=((1, 2, 2, 2), (2, 3, 2, 2)))


_largest_in_images = partial(
    _on_images,
    batched=largest_in_windows,
    reference=largest_in_windows,
    stride=STRIDES,
    kinks=_ties,
    rtol=1e-6,
)

CHANNELS_FIRST = (
    _on_images(
        "conv2d_channels_first",
        lambda x, filters, *, stride, padding: compiled_by_xla(tf.nn.conv2d)(
            x[tf.newaxis], filters, stride, padding, "NCHW"
        )[0],
        "Conv2D",
        batched=lambda x, filters, *, stride, padding: channels_first(
            convolved_points(channels_last(x), filters, stride=stride, padding=padding)
        ),
        others=_filters,
        stride=(*STRIDES, (2, 1)),
    ),
    _on_volumes(
        "conv3d_channels_first",
        lambda x, filters, *, stride, padding: compiled_by_xla(tf.nn.conv3d)(
            x[tf.newaxis], filters, [1, 1, *stride], padding, "NCDHW"
        )[0],
        "Conv3D",
        batched=lambda x, filters, *, stride, padding: channels_first(
            convolved_points(channels_last(x), filters, stride=stride, padding=padding)
        ),
        others=_filters,
        stride=((1, 1, 1), (2, 2, 2), (1, 2, 1)),
    ),
    _on_images(
        "depthwise_conv2d_channels_first",
        lambda x, filters, *, stride, padding: compiled_by_xla(tf.nn.depthwise_conv2d)(
            x[tf.newaxis], filters, [1, 1, stride, stride], padding, "NCHW"
        )[0],
        "DepthwiseConv2dNative",
        batched=lambda x, filters, *, stride, padding: channels_first(
            depthwise_points(channels_last(x), filters, stride=stride, padding=padding)
        ),
        others=_filters,
        stride=STRIDES,
    ),
    _on_images(
        "avg_pool2d_channels_first",
        lambda x, *, stride, padding: compiled_by_xla(tf.nn.avg_pool2d)(x[tf.newaxis], 2, stride, padding, "NCHW")[0],
        "AvgPool",
        batched=lambda x, *, stride, padding: channels_first(tf.nn.avg_pool2d(channels_last(x), 2, stride, padding)),
        stride=STRIDES,
    ),
    _on_volumes(
        "avg_pool3d_channels_first",
        lambda x, *, stride, padding: compiled_by_xla(tf.nn.avg_pool3d)(x[tf.newaxis], 2, stride, padding, "NCDHW")[0],
        "AvgPool3D",
        batched=lambda x, *, stride, padding: channels_first(
            means_in_volumes(channels_last(x), ksize=2, stride=stride, padding=padding, count=1)
        ),
        stride=STRIDES,
    ),
    _largest_in_images(
        "max_pool2d_channels_first",
        lambda x, *, stride, padding: compiled_by_xla(single_max_pool)(
            tf.raw_ops.MaxPool, x[tf.newaxis], stride, padding=padding, data_format="NCHW"
        )[0],
        "MaxPool",
    ),
    _largest_in_images(
        "max_pool_v2_channels_first",
        lambda x, *, stride, padding: compiled_by_xla(single_max_pool)(
            tf.raw_ops.MaxPoolV2, x[tf.newaxis], stride, padding=padding, data_format="NCHW"
        )[0],
        "MaxPoolV2",
    ),
    _on_volumes(
        "max_pool3d_channels_first",
        lambda x, *, stride, padding: compiled_by_xla(single_max_pool)(
            tf.raw_ops.MaxPool3D, x[tf.newaxis], stride, padding=padding, data_format="NCDHW"
        )[0],
        "MaxPool3D",
        batched=largest_in_cubes_of_channels,
        reference=largest_in_cubes_of_channels,
        stride=STRIDES,
        kinks=_ties,
        rtol=1e-6,
    ),
    _by_xla(
        "space_to_depth_channels_first",
        lambda x: compiled_by_xla(tf.nn.space_to_depth)(x[tf.newaxis], 2, "NCHW")[0],
        "SpaceToDepth",
        batched=lambda x: channels_first(tf.nn.space_to_depth(channels_last(x), 2)),
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[1] % 2 == shape[2] % 2 == 0,
        starts=((1, 2, 2), (1, 2, 4), (2, 2, 2)),
    ),
    _by_xla(
        "depth_to_space_channels_first",
        lambda x: compiled_by_xla(tf.nn.depth_to_space)(x[tf.newaxis], 2, "NCHW")[0],
        "DepthToSpace",
        batched=lambda x: channels_first(tf.nn.depth_to_space(channels_last(x), 2)),
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[0] % 4 == 0,
        starts=((4, 1, 1), (4, 1, 2)),
    ),
)
