"""Convolutions and pooling of any number of dimensions, dilated, transposed, separable (`nn`).

They are made of the operations for images, of reshapes, and of the exchange of space and batch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.convolution import dilation_points, filters_of_two, transposed_points
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.pooling import PADDINGS, STRIDES, margins, on_images, window_ties
from gradcheck.hunt.catalogue.shapes import at_least
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Array, Shapes

SEQUENCES: tuple[Shape, ...] = ((2, 1), (3, 1), (3, 2))
LARGE: tuple[Shape, ...] = ((3, 3, 1), (3, 4, 2))

_nn = partial(operation, "nn")
_sequence = partial(_nn, shapes=at_least(2, 1), starts=SEQUENCES, stride=STRIDES, padding=PADDINGS)
_convolved = partial(
    _sequence, batched=lambda x, filters, *, stride, padding: over_windows(x, filters, stride, padding)
)
_on_images = partial(
    on_images, batched=lambda x, filters, *, stride, padding: over_windows(x, filters, stride, padding)
)
_dilated = partial(_nn, shapes=at_least(3, 3, 1), starts=LARGE, padding=PADDINGS)


def _filters_back(shape: Shape) -> Shapes:
    return [((2,) * (len(shape) - 1) + (channels, shape[-1]),) for channels in (1, 2)]


def _separate_filters(shape: Shape) -> Shapes:
    channels = shape[-1]
    return [((2, 2, channels, multiplier), (1, 1, channels * multiplier, 2)) for multiplier in (1, 2)]


def shape_of(x: tf.Tensor, filters: tf.Tensor, stride: int, padding: str) -> list[int]:
    """The shape of one image or sequence from which a convolution makes one like this."""
    return [1, *(length * stride + (padding == "VALID") for length in x.shape[:-1]), filters.shape[-2]]


def over_windows(x: tf.Tensor, filters: tf.Tensor, stride: int, padding: str, rate: tuple[int, ...] = ()) -> tf.Tensor:
    """The convolution of every point with filters of its own, of edge 2, by products of slices."""
    space = x.shape[1:-1]
    rates = rate or (1,) * len(space)
    counts = [-(-(n - r * (padding == "VALID")) // stride) for n, r in zip(space, rates, strict=True)]
    x = tf.pad(x, [[0, 0], *margins(space, stride, padding, rates), [0, 0]])
    total = 0.0
    for corner in np.ndindex(*[2] * len(space)):
        starts = [place * r for place, r in zip(corner, rates, strict=True)]
        cuts = [slice(start, start + (k - 1) * stride + 1, stride) for start, k in zip(starts, counts, strict=True)]
        total += tf.einsum("p...c,pco->p...o", x[(slice(None), *cuts)], filters[(slice(None), *corner)])
    return total


def separated(
    x: tf.Tensor, depthwise: tf.Tensor, pointwise: tf.Tensor, stride: int, padding: str, rate: tuple[int, ...] = ()
) -> tf.Tensor:
    """A convolution of each channel alone, then one of points."""
    channels = range(x.shape[-1])
    parts = [over_windows(x[..., c : c + 1], depthwise[..., c : c + 1, :], stride, padding, rate) for c in channels]
    return tf.einsum("p...c,pco->p...o", tf.concat(parts, axis=-1), pointwise[:, 0, 0])


def erosion_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    return -dilation_points(-x, tf.reverse(filters, [1, 2]), stride=stride, padding=padding)


def _ties_of_pairs(x: Array, stride: int, **_attributes: Any) -> Array:
    """How far the elements of every window of two lie apart."""
    return np.abs(np.diff(x, axis=0))[::stride]


CONVOLUTION_FORMS = (
    _convolved(
        "conv1d",
        lambda x, filters, *, stride, padding: tf.nn.conv1d(x[tf.newaxis], filters, stride, padding)[0],
        "Conv2D",
        others=filters_of_two,
    ),
    _convolved(
        "convolution_of_sequence",
        lambda x, filters, *, stride, padding: tf.nn.convolution(x[tf.newaxis], filters, stride, padding)[0],
        "Conv2D",
        others=filters_of_two,
    ),
    _on_images(
        "convolution_of_image",
        lambda x, filters, *, stride, padding: tf.nn.convolution(x[tf.newaxis], filters, stride, padding)[0],
        "Conv2D",
        others=filters_of_two,
    ),
    _dilated(
        "convolution_dilated",
        lambda x, filters, *, padding, rate: tf.nn.convolution(x[tf.newaxis], filters, padding=padding, dilations=rate)[
            0
        ],
        "Conv2D",
        batched=lambda x, filters, *, padding, rate: over_windows(x, filters, 1, padding, rate),
        others=filters_of_two,
        rate=((2, 1), (1, 2), (2, 2)),
    ),
    _dilated(
        "atrous_conv2d",
        lambda x, filters, *, rate, padding: tf.nn.atrous_conv2d(x[tf.newaxis], filters, rate, padding)[0],
        "Conv2D",
        batched=lambda x, filters, *, padding, rate: over_windows(x, filters, 1, padding, (rate, rate)),
        others=filters_of_two,
        rate=(2, 1),
    ),
    _dilated(
        "atrous_conv2d_transpose",
        lambda x, filters, *, rate, padding: tf.nn.atrous_conv2d_transpose(
            x[tf.newaxis],
            filters,
            [1, x.shape[0] + rate * (padding == "VALID"), x.shape[1] + rate * (padding == "VALID"), filters.shape[-2]],
            rate,
            padding,
        )[0],
        "Conv2DBackpropInput",
        looped=True,
        others=_filters_back,
        rate=(2, 1),
    ),
    _convolved(
        "conv1d_transpose",
        lambda x, filters, *, stride, padding: tf.nn.conv1d_transpose(
            x[tf.newaxis], filters, shape_of(x, filters, stride, padding), stride, padding
        )[0],
        "Conv2DBackpropInput",
        batched=None,
        looped=True,
        others=_filters_back,
    ),
    _on_images(
        "conv_transpose",
        lambda x, filters, *, stride, padding: tf.nn.conv_transpose(
            x[tf.newaxis], filters, shape_of(x, filters, stride, padding), stride, padding
        )[0],
        "Conv2DBackpropInput",
        batched=transposed_points,
        others=_filters_back,
    ),
    _on_images(
        "separable_conv2d",
        lambda x, filters, pointwise, *, stride, padding: tf.nn.separable_conv2d(
            x[tf.newaxis], filters, pointwise, [1, stride, stride, 1], padding
        )[0],
        "DepthwiseConv2dNative Conv2D",
        batched=lambda x, filters, pointwise, *, stride, padding: separated(x, filters, pointwise, stride, padding),
        others=_separate_filters,
    ),
    _dilated(
        "separable_conv2d_dilated",
        lambda x, filters, pointwise, *, padding: tf.nn.separable_conv2d(
            x[tf.newaxis], filters, pointwise, [1, 1, 1, 1], padding, dilations=[2, 2]
        )[0],
        "DepthwiseConv2dNative Conv2D",
        batched=lambda x, filters, pointwise, *, padding: separated(x, filters, pointwise, 1, padding, (2, 2)),
        others=_separate_filters,
    ),
    _on_images(
        "erosion2d",
        lambda x, filters, *, stride, padding: tf.nn.erosion2d(
            x[tf.newaxis], filters, [1, stride, stride, 1], padding, "NHWC", [1, 1, 1, 1]
        )[0],
        "Dilation2D",
        batched=erosion_points,
        others=lambda shape: [((2, 2, shape[-1]),)],
        kinks=lambda x, filters, stride, padding: window_ties(-x, stride, padding, filters[::-1, ::-1]),
    ),
    _sequence(
        "avg_pool1d", lambda x, *, stride, padding: tf.nn.avg_pool1d(x, 2, stride, padding), "AvgPool", in_batch=True
    ),
    _sequence(
        "max_pool1d",
        lambda x, *, stride, padding: tf.nn.max_pool1d(x, 2, stride, padding),
        "MaxPool",
        in_batch=True,
        kinks=_ties_of_pairs,
    ),
    on_images(
        "pool_of_largest",
        lambda x, *, stride, padding: tf.nn.pool(x, [2, 2], "MAX", [stride, stride], padding),
        "MaxPool",
        in_batch=True,
        kinks=window_ties,
    ),
    _nn(
        "pool_of_means",
        lambda x, *, way: tf.nn.pool(x, [2, 2], "AVG", padding=way[1], dilations=[way[0], 1]),
        "AvgPool",
        in_batch=True,
        shapes=at_least(3, 3, 1),
        starts=LARGE,
        way=((1, "VALID"), (2, "VALID"), (1, "SAME")),
    ),
    _nn(
        "with_space_to_batch",
        lambda x: tf.nn.with_space_to_batch(
            x, [2, 1], "VALID", lambda x, *_: tf.nn.avg_pool2d(x, [2, 1], 1, "VALID"), [2, 1]
        ),
        "AvgPool SpaceToBatchND BatchToSpaceND",
        in_batch=True,
        shapes=at_least(3, 2, 1),
        starts=LARGE,
    ),
)
