"""Pooling, convolutions and morphology (family `nn`). Images have no batch dimension: the points are the batch."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import in_batch, operation, tf
from gradcheck.hunt.catalogue.shapes import at_least
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Array, Shapes

IMAGES: tuple[Shape, ...] = ((2, 2, 1), (3, 3, 1), (2, 3, 2))
VOLUMES: tuple[Shape, ...] = ((2, 2, 2, 1), (3, 2, 2, 1), (2, 2, 3, 2))

STRIDES, PADDINGS = (1, 2), ("VALID", "SAME")

_nn = partial(operation, "nn")
_on_images = partial(_nn, shapes=at_least(2, 2, 1), starts=IMAGES, stride=STRIDES, padding=PADDINGS)
_pool = partial(_on_images, batching=in_batch)
_on_volumes = partial(_nn, shapes=at_least(2, 2, 2, 1), starts=VOLUMES, stride=STRIDES)


def _window_ties(values: Array, stride: int, padding: str, added: Array | None = None) -> Array:
    """How far the largest element of every window of edge 2 lies above the second, for values (*space, channels).

    `padding` is "SAME" or "VALID" as TensorFlow means it (padding never wins). `added` (2, ..., 2, channels) is added
    to every window first, as a dilation does.
    """
    axes = tuple(range(values.ndim - 1))
    missing = [max((-(-length // stride) - 1) * stride + 2 - length, 0) for length in values.shape[:-1]]
    margins = [(size // 2, size - size // 2) if padding == "SAME" else (0, 0) for size in missing]
    padded = np.pad(values, [*margins, (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2,) * len(axes), axis=axes)
    windows = windows[(slice(None, None, stride),) * len(axes)]
    raised = windows if added is None else windows + np.moveaxis(added, -1, 0)
    largest_two = np.sort(raised.reshape(-1, 2 ** len(axes)))[:, -2:]
    return np.diff(largest_two)


def cubes(x: tf.Tensor, stride: int) -> list[tf.Tensor]:
    """The eight corners of all windows of edge 2 in a volume."""
    cuts = [[slice(start, length - 1 + start, stride) for start in (0, 1)] for length in x.shape[-4:-1]]
    return [x[..., i, j, k, :] for i in cuts[0] for j in cuts[1] for k in cuts[2]]


POOLING = (
    _pool("avg_pool2d", "tf.nn.avg_pool2d({0}[tf.newaxis], 2, {stride}, {padding})[0]", "AvgPool"),
    _pool("max_pool2d", "tf.nn.max_pool2d({0}[tf.newaxis], 2, {stride}, {padding})[0]", "MaxPool", kinks=_window_ties),
    # MaxPoolGradWithArgmax has no registered gradient.
    _pool(
        "max_pool_with_argmax",
        "tf.nn.max_pool_with_argmax({0}[tf.newaxis], 2, {stride}, {padding})[0][0]",
        "MaxPoolWithArgmax",
        orders=(1,),
        kinks=_window_ties,
    ),
    _on_volumes(
        "avg_pool3d",
        "tf.cast(tf.nn.avg_pool3d(tf.cast({0}[tf.newaxis], tf.float32), 2, {stride}, 'VALID')[0], tf.float64)",
        "AvgPool3D",
        batching=in_batch,
        reference="tf.add_n(cubes({0}, {stride})) / 8",
        rtol=1e-6,
    ),
    _on_volumes(
        "max_pool3d",
        "tf.cast(tf.nn.max_pool3d(tf.cast({0}[tf.newaxis], tf.float32), 2, {stride}, 'VALID')[0], tf.float64)",
        "MaxPool3D",
        batching=in_batch,
        kinks=lambda x, stride: _window_ties(x, stride, "VALID"),
        reference="tf.reduce_max(cubes({0}, {stride}), axis=0)",
        rtol=1e-6,
    ),
)


def patches(x: tf.Tensor, stride: int, padding: str, rate: int = 1) -> tf.Tensor:
    return tf.image.extract_patches(x, [1, 2, 2, 1], [1, stride, stride, 1], [1, rate, rate, 1], padding)


def filtered(pieces: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """The products of the patches of every image with filters of its own."""
    place = "dhw"[5 - len(pieces.shape) :]
    rows = tf.reshape(filters, [filters.shape[0], -1, filters.shape[-1]])
    return tf.einsum(f"p{place}k,pko->p{place}o", pieces, rows)


def conv3d_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    steps = [1, stride, stride, stride, 1]
    return filtered(tf.compat.v1.extract_volume_patches(x, [1, 2, 2, 2, 1], steps, padding), filters)


def depthwise_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    points, *_, channels, multiplier = filters.shape
    pieces = patches(x, stride, padding)
    shape = pieces.shape[:3]
    pieces = tf.reshape(pieces, [*shape, 4, channels])
    rows = tf.reshape(filters, [points, 4, channels, multiplier])
    return tf.reshape(tf.einsum("phwkc,pkcm->phwcm", pieces, rows), [*shape, -1])


def transposed_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int) -> tf.Tensor:
    """The images spread by the stride, zeros between and one row and column before, meet the filters upside down."""
    points, height, width, channels = x.shape
    gap = [0, stride - 1]
    spread = tf.pad(x[:, :, tf.newaxis, :, tf.newaxis], [[0, 0], [0, 0], gap, [0, 0], gap, [0, 0]])
    spread = tf.reshape(spread, [points, stride * height, stride * width, channels])
    upside_down = tf.transpose(filters[:, ::-1, ::-1], [0, 1, 2, 4, 3])
    return filtered(patches(tf.pad(spread, [[0, 0], [1, 0], [1, 0], [0, 0]]), 1, "VALID"), upside_down)


def dilation_points(x: tf.Tensor, filters: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    """A dilation pads with minus infinity, behind the image only, as far as windows of two reach."""
    behind = [0, int(padding == "SAME")]
    padded = tf.pad(x, [[0, 0], behind, behind, [0, 0]], constant_values=-np.inf)
    points, *_, channels = filters.shape
    pieces = patches(padded, stride, "VALID")
    raised = tf.reshape(pieces, [*pieces.shape[:3], 4, channels]) + tf.reshape(filters, [points, 1, 1, 4, channels])
    return tf.reduce_max(raised, 3)


def _filters(shape: Shape) -> Shapes:
    return [((2,) * (len(shape) - 1) + (shape[-1], channels),) for channels in (1, 2)]


CONVOLUTIONS = (
    _nn(
        "bias_add",
        "tf.nn.bias_add({0}, {1})",
        "BiasAdd",
        batched="{0} + {1}",
        broadcasts=True,
        when=lambda shape: len(shape) > 1,
        others=lambda shape: [(shape[-1:],)],
        starts=((2, 2), (2, 3), (1, 3), (2, 1, 2)),
    ),
    _nn(
        "bias_add_channels_first",
        "tf.nn.bias_add({0}, {1}, data_format='NCHW')",
        "BiasAdd",
        batched="{0} + {1}[:, tf.newaxis, :, tf.newaxis, tf.newaxis]",
        when=lambda shape: len(shape) == 4,
        others=lambda shape: [(shape[1:2],)],
        starts=((1, 2, 1, 1), (2, 2, 1, 3)),
    ),
    _on_images(
        "conv2d",
        "tf.nn.conv2d({0}[tf.newaxis], {1}, {stride}, {padding})[0]",
        "Conv2D",
        batched=lambda x, filters, stride, padding: filtered(patches(x, stride, padding), filters),
        others=_filters,
    ),
    _nn(
        "conv2d_dilated",
        "tf.nn.conv2d({0}[tf.newaxis], {1}, 1, 'SAME', dilations=2)[0]",
        "Conv2D",
        batched=lambda x, filters: filtered(patches(x, 1, "SAME", rate=2), filters),
        shapes=at_least(2, 2, 1),
        others=_filters,
        starts=((3, 3, 1), (3, 4, 2)),
    ),
    _nn(
        "conv2d_transpose",
        "tf.nn.conv2d_transpose({0}[tf.newaxis], {1}, [1, {stride} * {0}.shape[0], {stride} * {0}.shape[1], "
        "{1}.shape[-2]], {stride}, 'SAME')[0]",
        "Conv2DBackpropInput",
        batched=transposed_points,
        shapes=at_least(1, 1, 1),
        others=lambda shape: [((2, 2, channels, shape[-1]),) for channels in (1, 2)],
        starts=IMAGES,
        stride=STRIDES,
    ),
    _on_images(
        "depthwise_conv2d",
        "tf.nn.depthwise_conv2d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, 1], {padding})[0]",
        "DepthwiseConv2dNative",
        batched=depthwise_points,
        others=_filters,
    ),
    _on_volumes(
        "conv3d",
        "tf.nn.conv3d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, {stride}, 1], {padding})[0]",
        "Conv3D",
        batched=conv3d_points,
        others=_filters,
        padding=PADDINGS,
    ),
    # Dilation2DBackpropInput and Dilation2DBackpropFilter have no registered gradients.
    _on_images(
        "dilation2d",
        "tf.nn.dilation2d({0}[tf.newaxis], {1}, [1, {stride}, {stride}, 1], {padding}, 'NHWC', [1, 1, 1, 1])[0]",
        "Dilation2D",
        batched=dilation_points,
        others=lambda shape: [((2, 2, shape[-1]),)],
        orders=(1,),
        kinks=lambda x, filters, stride, padding: _window_ties(x, stride, padding, filters),
    ),
)
