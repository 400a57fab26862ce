"""Convolutions and morphology (family `nn`). Images have no batch dimension: the points are the batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import added_up, multiples, operation, sum_of_squares, tf
from gradcheck.operations.pooling import (
    COUNTS,
    IMAGES,
    PADDINGS,
    STRIDES,
    VOLUMES,
    largest_margins,
    margins,
    on_images,
    on_volumes,
    one_a_window,
    unpooled,
    window_ties,
    windows_of,
)
from gradcheck.operations.shapes import at_least
from gradcheck.operations.spec import Shapes
from gradcheck.operations.special_sets import (
    NARROW_FILTER,
    OVER_256_IMAGES,
    OVER_256_PIXELS,
    OVER_256_ROWS,
    OVER_1024_PIXELS,
)
from gradcheck.typing import Array

_nn = partial(operation, "nn")
_biased = partial(
    _nn,
    batched=lambda x, bias: x + bias,
    broadcasts=True,
    when=lambda shape: len(shape) > 1,
    others=lambda shape: [(shape[-1:],)],
    starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)),
)


def _one_a_window_of_two_channels(image: Shape) -> Shapes:
    return [((*each[:-1], channels),) for (each,) in one_a_window(image) for channels in (1, 2)]


def around(padding: Any) -> Any:
    """Padding as convolutions of a batch of images take it; a pair of pairs is that of the rows and the columns."""
    return padding if isinstance(padding, str) else [[0, 0], *map(list, padding), [0, 0]]


def patches(x: tf.Tensor, stride: Any, padding: Any, rate: int = 1, edges: Sequence[int] = (2, 2, 2)) -> tf.Tensor:
    """The elements of all windows, behind one another in the last dimension."""
    space = len(x.shape) - 2
    sizes, steps = [1, *edges[:space], 1], [1, *([stride] * space if isinstance(stride, int) else stride), 1]
    if space == 3:
        return tf.compat.v1.extract_volume_patches(x, sizes, steps, padding)
    if not isinstance(padding, str):
        x, padding = tf.pad(x, around(padding)), "VALID"
    return tf.image.extract_patches(x, sizes, steps, [1, rate, rate, 1], padding)


def filtered(pieces: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """The products of the patches of every image with filters of its own."""
    place = "dhw"[5 - len(pieces.shape) :]
    rows = tf.reshape(filters, [filters.shape[0], -1, filters.shape[-1]])
    return tf.einsum(f"p{place}k,pko->p{place}o", pieces, rows)


def convolved_points(x: tf.Tensor, filters: tf.Tensor, *, stride: Any, padding: Any, count: int = 1) -> tf.Tensor:
    return filtered(patches(x, stride, padding, edges=filters.shape[1:-2]), filters) * sum_of_squares(count)


def filter_gradient_points(x: tf.Tensor, values: tf.Tensor, *, windows: tuple[int, str]) -> tf.Tensor:
    """The cotangent of a filter: the sum over all windows of their elements times the incoming cotangent."""
    pieces, edges = patches(x, *windows), len(x.shape) - 2
    rows = tf.einsum("p...k,p...o->p...ko", pieces, values)
    sums = tf.reduce_sum(rows, axis=tuple(range(1, 1 + edges)))
    return tf.reshape(sums, [x.shape[0], *[2] * edges, x.shape[-1], values.shape[-1]])


def depthwise_filter_gradient_points(x: tf.Tensor, values: tf.Tensor, *, windows: tuple[int, str]) -> tf.Tensor:
    pieces, channels = patches(x, *windows), x.shape[-1]
    pieces = tf.reshape(pieces, [*pieces.shape[:3], 4, channels])
    values = tf.reshape(values, [*values.shape[:3], channels, -1])
    return tf.reshape(tf.einsum("phwkc,phwcm->pkcm", pieces, values), [x.shape[0], 2, 2, channels, -1])


def depthwise_points(
    x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: Any, rate: int = 1, count: int = 1
) -> tf.Tensor:
    points, *_, channels, multiplier = filters.shape
    pieces = patches(x, stride, padding, rate)
    shape = pieces.shape[:3]
    pieces = tf.reshape(pieces, [*shape, 4, channels])
    rows = tf.reshape(filters, [points, 4, channels, multiplier])
    return tf.reshape(tf.einsum("phwkc,pkcm->phwcm", pieces, rows), [*shape, -1]) * sum_of_squares(count)


def transposed_points(x: tf.Tensor, filters: tf.Tensor, *, stride: Any, padding: Any) -> tf.Tensor:
    """The images spread by the stride, with zeros between and around, meet the filters upside down."""
    space = range(1, len(x.shape) - 1)
    for axis, step in zip(space, np.broadcast_to(stride, len(space)), strict=True):
        spread = tf.stack([x, *[tf.zeros_like(x)] * (step - 1)], axis + 1)
        x = tf.reshape(spread, [*x.shape[:axis], step * x.shape[axis], *x.shape[axis + 1 :]])
    upside_down = tf.experimental.numpy.swapaxes(tf.reverse(filters, [*space]), -1, -2)
    cut = [[1 - before, 1 - behind] for before, behind in largest_margins(padding, len(space))]
    padded = tf.pad(x, [[0, 0], *cut, [0, 0]])
    return filtered(patches(padded, 1, "VALID"), upside_down)


def depthwise_transposed_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    points, *_, channels, multiplier = filters.shape
    rows = tf.reshape(x, [*x.shape[:3], channels, multiplier])
    rows, own = (tf.experimental.numpy.moveaxis(each, 3, 1) for each in (rows, filters))
    rows, own = tf.reshape(rows, [-1, *x.shape[1:3], multiplier]), tf.reshape(own, [-1, 2, 2, 1, multiplier])
    spread = transposed_points(rows, own, stride=stride, padding=padding)
    by_channel = tf.reshape(spread, [points, channels, *spread.shape[1:3]])
    return tf.experimental.numpy.moveaxis(by_channel, 1, -1)


def dilation_points(
    x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str, rate: int = 1, count: int = 1
) -> tf.Tensor:
    """A dilation pads with minus infinity."""
    widths = [[0, 0], *margins(x.shape[1:3], stride, padding, rate), [0, 0]]
    points, *_, channels = filters.shape
    total = 0.0
    for factor in range(1, count + 1):
        padded = tf.pad(factor * x, widths, constant_values=-np.inf)
        pieces = patches(padded, stride, "VALID", rate)
        pieces = tf.reshape(pieces, [*pieces.shape[:3], 4, channels])
        total += factor * tf.reduce_max(pieces + tf.reshape(filters, [points, 1, 1, 4, channels]), 3)
    return total


def _ties_of_dilation(x: Array, filters: Array, count: int, **windows: Any) -> Array:
    return np.concatenate([window_ties(factor * x, added=filters, **windows) for factor in range(1, count + 1)])


def filters_of_two(shape: Shape) -> Shapes:
    return [((2,) * (len(shape) - 1) + (shape[-1], channels),) for channels in (1, 2)]


def _filters_of_any_edge(shape: Shape) -> Shapes:
    space, channels = len(shape) - 1, shape[-1]
    edges = [(2,) * space, (1,) * space, (*shape[:-2], 1), (1, *shape[1:-1])]
    return [((*each, channels, results),) for each in dict.fromkeys(edges) for results in (1, 2)]


_filter_gradient = partial(_nn, shapes=at_least(2, 2, 1), starts=IMAGES, windows=windows_of)

CONVOLUTIONS = (
    _biased(
        "bias_add",
        lambda x, bias: tf.nn.bias_add(x, bias),
        "BiasAdd",
        special=(OVER_256_ROWS,),
    ),
    _nn(
        "bias_add_channels_first",
        lambda x, bias: tf.nn.bias_add(x, bias, data_format="NCHW"),
        "BiasAdd",
        batched=lambda x, bias: x + bias[:, tf.newaxis, :, tf.newaxis, tf.newaxis],
        when=lambda shape: len(shape) == 4,
        others=lambda shape: [(shape[1:2],)],
        starts=((1, 2, 1, 1), (2, 2, 1, 3)),
        special=(OVER_256_IMAGES,),
    ),
    on_images(
        "conv2d",
        lambda x, filters, *, count, stride, padding: added_up(
            tf.nn.conv2d(multiples(x[tf.newaxis], count), filters, stride, around(padding)), count
        )[0],
        "Conv2D",
        batched=convolved_points,
        others=_filters_of_any_edge,
        stride=(*STRIDES, (2, 1), (1, 3)),
        padding=(*PADDINGS, ((1, 0), (0, 2))),
        count=COUNTS,
        special=(OVER_256_PIXELS,),
    ),
    _nn(
        "conv2d_grouped",
        lambda x, filters, *, padding: tf.nn.conv2d(x[tf.newaxis], filters, 1, padding)[0],
        "Conv2D",
        batched=lambda x, filters, *, padding: tf.concat(
            [
                convolved_points(images, own, stride=1, padding=padding)
                for images, own in zip(tf.split(x, 2, -1), tf.split(filters, 2, -1), strict=True)
            ],
            -1,
        ),
        shapes=at_least(2, 2, 2),
        when=lambda shape: shape[-1] % 2 == 0,
        others=lambda shape: [((2, 2, shape[-1] // 2, channels),) for channels in (2, 4)],
        starts=((2, 2, 2), (2, 3, 2)),
        padding=PADDINGS,
    ),
    _nn(
        "conv2d_dilated",
        lambda x, filters: tf.nn.conv2d(x[tf.newaxis], filters, 1, "SAME", dilations=2)[0],
        "Conv2D",
        batched=lambda x, filters: filtered(patches(x, 1, "SAME", rate=2), filters),
        shapes=at_least(2, 2, 1),
        others=filters_of_two,
        starts=((3, 3, 1), (3, 4, 2)),
    ),
    _nn(
        "conv2d_transpose",
        lambda x, filters, *, stride, padding: tf.nn.conv2d_transpose(
            x[tf.newaxis],
            filters,
            [*unpooled(x[tf.newaxis].shape, stride, padding)[:3], filters.shape[-2]],
            stride,
            around(padding),
        )[0],
        "Conv2DBackpropInput",
        batched=transposed_points,
        shapes=at_least(1, 1, 1),
        others=lambda shape: [((2, 2, channels, shape[-1]),) for channels in (1, 2)],
        starts=IMAGES,
        stride=(*STRIDES, (2, 1), (1, 3)),
        padding=("SAME", "VALID", ((1, 0), (0, 1))),
        special=(OVER_256_PIXELS,),
    ),
    on_images(
        "depthwise_conv2d",
        lambda x, filters, *, count, stride, padding: added_up(
            tf.nn.depthwise_conv2d(multiples(x[tf.newaxis], count), filters, [1, stride, stride, 1], around(padding)),
            count,
        )[0],
        "DepthwiseConv2dNative",
        batched=depthwise_points,
        others=filters_of_two,
        padding=(*PADDINGS, ((1, 0), (0, 2))),
        count=COUNTS,
        special=(OVER_1024_PIXELS, OVER_256_PIXELS),
    ),
    on_volumes(
        "conv3d",
        lambda x, filters, *, count, stride, padding: added_up(
            tf.nn.conv3d(multiples(x[tf.newaxis], count), filters, [1, *stride, 1], padding), count
        )[0],
        "Conv3D",
        batched=convolved_points,
        others=_filters_of_any_edge,
        stride=((1, 1, 1), (2, 2, 2), (2, 1, 1), (1, 2, 3)),
        padding=PADDINGS,
        count=COUNTS,
        special=(NARROW_FILTER, OVER_256_PIXELS),
    ),
    on_images(
        "dilation2d",
        lambda x, filters, *, count, stride, padding, rate: added_up(
            tf.nn.dilation2d(
                multiples(x[tf.newaxis], count), filters, [1, stride, stride, 1], padding, "NHWC", [1, rate, rate, 1]
            ),
            count,
        )[0],
        "Dilation2D",
        batched=dilation_points,
        others=lambda shape: [((2, 2, shape[-1]),)],
        starts=(*IMAGES, (3, 4, 1)),
        rate=lambda shape, _: (1, 2) if min(shape[:2]) > 2 else (1,),
        count=COUNTS,
        kinks=_ties_of_dilation,
        special=(OVER_256_PIXELS,),
    ),
    _biased(
        "bias_add_v1",
        lambda x, bias: tf.raw_ops.BiasAddV1(value=x, bias=bias),
    ),
    _nn(
        "bias_add_grad",
        lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x),
        batched=lambda x: tf.reduce_sum(x, axis=tuple(range(1, len(x.shape) - 1))),
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)),
    ),
    _nn(
        "bias_add_grad_channels_first",
        lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x, data_format="NCHW"),
        batched=lambda x: tf.reduce_sum(x, axis=[1, *range(3, len(x.shape))]),
        when=lambda shape: len(shape) > 2,
        starts=((2, 2, 2), (1, 2, 1, 1), (2, 2, 1, 3)),
    ),
    _filter_gradient(
        "conv2d_backprop_filter",
        lambda x, upstream, *, windows: tf.raw_ops.Conv2DBackpropFilter(
            input=x[tf.newaxis],
            filter_sizes=[2, 2, x.shape[-1], upstream.shape[-1]],
            out_backprop=upstream[tf.newaxis],
            strides=[1, windows[0], windows[0], 1],
            padding=windows[1],
        ),
        batched=filter_gradient_points,
        others=_one_a_window_of_two_channels,
    ),
    _filter_gradient(
        "conv3d_backprop_filter",
        lambda x, upstream, *, windows: tf.raw_ops.Conv3DBackpropFilterV2(
            input=x[tf.newaxis],
            filter_sizes=[2, 2, 2, x.shape[-1], upstream.shape[-1]],
            out_backprop=upstream[tf.newaxis],
            strides=[1, windows[0], windows[0], windows[0], 1],
            padding=windows[1],
        ),
        batched=filter_gradient_points,
        shapes=at_least(2, 2, 2, 1),
        starts=VOLUMES,
        others=_one_a_window_of_two_channels,
        special=(OVER_256_PIXELS,),
    ),
    _filter_gradient(
        "depthwise_conv2d_backprop_filter",
        lambda x, upstream, *, windows: tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
            input=x[tf.newaxis],
            filter_sizes=[2, 2, x.shape[-1], upstream.shape[-1] // x.shape[-1]],
            out_backprop=upstream[tf.newaxis],
            strides=[1, windows[0], windows[0], 1],
            padding=windows[1],
        ),
        batched=depthwise_filter_gradient_points,
        others=lambda image: [((*each[:-1], image[-1] * k),) for (each,) in one_a_window(image) for k in (1, 2)],
    ),
    _nn(
        "conv3d_transpose",
        lambda x, filters, *, stride, padding: tf.nn.conv3d_transpose(
            x[tf.newaxis],
            filters,
            [*unpooled(x[tf.newaxis].shape, stride, padding)[:4], filters.shape[-2]],
            stride,
            padding,
        )[0],
        "Conv3DBackpropInputV2",
        batched=transposed_points,
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [((2, 2, 2, channels, shape[-1]),) for channels in (1, 2)],
        starts=((1, 1, 1, 1), (1, 2, 2, 1), (2, 1, 1, 2)),
        stride=STRIDES,
        padding=PADDINGS,
        special=(OVER_256_PIXELS,),
    ),
    on_images(
        "depthwise_conv2d_backprop_input",
        lambda upstream, filters, *, stride, padding: tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
            input_sizes=[*unpooled(upstream[tf.newaxis].shape, stride, padding)[:3], filters.shape[-2]],
            filter=filters,
            out_backprop=upstream[tf.newaxis],
            strides=[1, stride, stride, 1],
            padding=padding,
        )[0],
        batched=depthwise_transposed_points,
        shapes=at_least(1, 1, 1),
        others=lambda shape: [((2, 2, shape[-1] // k, k),) for k in (1, 2) if shape[-1] % k == 0],
        special=(
            OVER_256_PIXELS,
            OVER_1024_PIXELS,
        ),
    ),
    _nn(
        "depthwise_conv2d_dilated",
        lambda x, filters, *, padding: tf.nn.depthwise_conv2d(
            x[tf.newaxis], filters, [1, 1, 1, 1], padding, dilations=[2, 2]
        )[0],
        "DepthwiseConv2dNative",
        batched=lambda x, filters, padding: depthwise_points(x, filters, stride=1, padding=padding, rate=2),
        shapes=at_least(3, 3, 1),
        others=filters_of_two,
        starts=((3, 3, 1), (3, 4, 2)),
        padding=PADDINGS,
        special=(OVER_256_PIXELS,),
    ),
)


SEQUENCES: tuple[Shape, ...] = ((2, 1), (3, 1), (3, 2))
LARGE: tuple[Shape, ...] = ((3, 3, 1), (3, 4, 2))

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
        special=(OVER_256_PIXELS,),
    ),
    _convolved(
        "convolution_of_sequence",
        lambda x, filters, *, stride, padding: tf.nn.convolution(x[tf.newaxis], filters, stride, padding)[0],
        "Conv2D",
        others=filters_of_two,
        special=(OVER_256_PIXELS,),
    ),
    _on_images(
        "convolution_of_image",
        lambda x, filters, *, stride, padding: tf.nn.convolution(x[tf.newaxis], filters, stride, padding)[0],
        "Conv2D",
        others=filters_of_two,
        special=(OVER_256_PIXELS,),
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
        special=(OVER_256_PIXELS,),
    ),
    _dilated(
        "atrous_conv2d",
        lambda x, filters, *, rate, padding: tf.nn.atrous_conv2d(x[tf.newaxis], filters, rate, padding)[0],
        "Conv2D",
        batched=lambda x, filters, *, padding, rate: over_windows(x, filters, 1, padding, (rate, rate)),
        others=filters_of_two,
        rate=(2, 1),
        special=(OVER_256_PIXELS,),
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
        special=(OVER_256_PIXELS,),
    ),
    _on_images(
        "separable_conv2d",
        lambda x, filters, pointwise, *, stride, padding: tf.nn.separable_conv2d(
            x[tf.newaxis], filters, pointwise, [1, stride, stride, 1], padding
        )[0],
        "DepthwiseConv2dNative Conv2D",
        batched=lambda x, filters, pointwise, *, stride, padding: separated(x, filters, pointwise, stride, padding),
        others=_separate_filters,
        special=(OVER_256_PIXELS, OVER_1024_PIXELS),
    ),
    _dilated(
        "separable_conv2d_dilated",
        lambda x, filters, pointwise, *, padding: tf.nn.separable_conv2d(
            x[tf.newaxis], filters, pointwise, [1, 1, 1, 1], padding, dilations=[2, 2]
        )[0],
        "DepthwiseConv2dNative Conv2D",
        batched=lambda x, filters, pointwise, *, padding: separated(x, filters, pointwise, 1, padding, (2, 2)),
        others=_separate_filters,
        special=(OVER_256_PIXELS,),
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
        special=(OVER_256_PIXELS,),
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
