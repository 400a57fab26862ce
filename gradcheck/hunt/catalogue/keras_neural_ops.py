"""Functions of `keras.ops` for neural networks (family `nn`): normalization, pooling, convolution, attention, images.

Images have no batch dimension: they are a batch of one.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.shapes import at_least, axes, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array, Interval, Rule, Shapes

_nn = partial(operation, "nn", looped=True)
_row = partial(operation, "nn", shapes=vector, starts=((2,), (3,), (2, 2), (2, 3)))
_image = partial(_nn, shapes=at_least(1, 1, 1), starts=((2, 2, 1), (3, 2, 1), (3, 3, 2)))
LAYOUT = ("channels_last", "channels_first")
PADDING = ("valid", "same")


KERAS_NORMALIZATIONS = (
    _row(
        "keras_rms_normalization",
        "tf.keras.ops.rms_normalization({0}, axis={axis}, epsilon={epsilon})",
        "Rsqrt Mean Square Mul",
        axis=axes,
        epsilon=(0.1, 1e-3),
    ),
    _nn(
        "keras_layer_normalization",
        "tf.keras.ops.layer_normalization({0}, {1}, {2}, axis={axis}, epsilon={epsilon})",
        "Rsqrt Mean SquaredDifference Mul",
        shapes=at_least(1, 1),
        starts=((2, 2), (1, 3), (3, 2)),
        others=lambda shape: [(shape[-1:],) * 2],
        axis=(-1,),
        epsilon=(0.1, 1e-3),
    ),
    _nn(
        "keras_batch_normalization",
        "tf.keras.ops.batch_normalization({0}, {1}, {2}, {axis}, offset={3}, scale={4}, epsilon={epsilon})",
        "Rsqrt Mul Sub",
        REALS,
        REALS,
        POSITIVE,
        REALS,
        REALS,
        shapes=at_least(1, 1),
        starts=((2, 2), (1, 2), (3, 1)),
        others=lambda shape: [(shape[-1:],) * 4],
        axis=(-1, 1),
        epsilon=(0.1, 1e-3),
    ),
)


def _window_gaps(x: Array, windows: list[tuple[slice, ...]]) -> Array:
    """How far the largest element of each window lies above the second, channel by channel."""
    gaps = [np.diff(np.sort(x[window].reshape(-1, x.shape[-1]), axis=0)[-2:], axis=0) for window in windows]
    return np.concatenate([np.ravel(gap) for gap in gaps] + [np.full(1, np.inf)])


def _adaptive_windows(shape: Shape, size: int) -> list[tuple[slice, ...]]:
    """The windows of adaptive pooling to `size` along each dimension but the last."""
    cuts = [
        [slice(place * length // size, -(-(place + 1) * length // size)) for place in range(size)]
        for length in shape[:-1]
    ]
    return [(first, second) for first in cuts[0] for second in cuts[1]]


def _adaptive_ties(x: Array, size: int, layout: str) -> Array:
    last = np.moveaxis(x, 0, -1) if layout == "channels_first" else x
    return _window_gaps(last, _adaptive_windows(last.shape, size))


_pool = partial(_image, layout=LAYOUT, when=lambda shape: shape[2] > 1, starts=((2, 2, 2), (3, 2, 2), (2, 3, 3)))

KERAS_POOLING = (
    _pool(
        "keras_average_pool",
        "tf.keras.ops.average_pool({0}[tf.newaxis], 2, {stride}, {padding}, {layout})[0]",
        "AvgPool",
        stride=(1, 2, None),
        padding=PADDING,
    ),
    _nn(
        "keras_average_pool_of_rows",
        "tf.keras.ops.average_pool({0}[tf.newaxis], {size}, 1, {padding}, {layout})[0]",
        "AvgPool",
        shapes=at_least(2, 2),
        starts=((2, 2), (3, 2)),
        size=(2, 1),
        padding=PADDING,
        layout=LAYOUT,
    ),
    _pool(
        "keras_adaptive_average_pool",
        "tf.keras.ops.adaptive_average_pool({0}[tf.newaxis], {size}, {layout})[0]",
        "AvgPool GatherV2",
        size=(1, 2),
    ),
    _pool(
        "keras_adaptive_max_pool",
        "tf.keras.ops.adaptive_max_pool({0}[tf.newaxis], {size}, {layout})[0]",
        "MaxPool GatherV2",
        size=(1, 2),
        kinks=_adaptive_ties,
    ),
)


def _kernels(*sizes: int) -> Rule:
    """Kernels of a size for the channels of the first argument, in and out."""

    def others(shape: Shape) -> Shapes:
        return [((*sizes, shape[-1], out),) for out in (1, 2)]

    return others


_conv = partial(_nn, padding=PADDING, stride=(1, 2))

KERAS_CONVOLUTIONS = (
    _conv(
        "keras_conv",
        "tf.keras.ops.conv({0}[tf.newaxis], {1}, {stride}, {padding}, dilation_rate={dilation})[0]",
        "Conv2D",
        shapes=at_least(3, 3, 1),
        starts=((3, 3, 1), (3, 3, 2)),
        others=_kernels(2, 2),
        stride=(1, 2),
        dilation=(1,),
    ),
    _conv(
        "keras_conv_of_rows",
        "tf.keras.ops.conv({0}[tf.newaxis], {1}, {stride}, {padding})[0]",
        "Conv2D",
        shapes=at_least(2, 1),
        starts=((2, 1), (3, 2), (4, 1)),
        others=_kernels(2),
    ),
    _conv(
        "keras_depthwise_conv",
        "tf.keras.ops.depthwise_conv({0}[tf.newaxis], {1}, {stride}, {padding}, {layout})[0]",
        "DepthwiseConv2dNative",
        shapes=at_least(2, 2, 2),
        starts=((2, 2, 2), (3, 3, 3)),
        when=lambda shape: len(set(shape)) == 1,
        others=_kernels(2, 2),
        layout=LAYOUT,
    ),
    _conv(
        "keras_depthwise_conv_dilated",
        "tf.keras.ops.depthwise_conv({0}[tf.newaxis], {1}, {stride}, {padding}, dilation_rate={dilation})[0]",
        "DepthwiseConv2dNative",
        shapes=at_least(3, 3, 1),
        starts=((3, 3, 1), (4, 3, 1)),
        others=_kernels(2, 2),
        dilation=(1, 2),
    ),
    _conv(
        "keras_separable_conv",
        "tf.keras.ops.separable_conv({0}[tf.newaxis], {1}, {2}, {stride}, {padding})[0]",
        "DepthwiseConv2dNative Conv2D",
        shapes=at_least(2, 2, 1),
        starts=((2, 2, 1), (3, 2, 2)),
        others=lambda shape: [((2, 2, shape[-1], 1), (1, 1, shape[-1], 2))],
    ),
    _conv(
        "keras_conv_transpose",
        "tf.keras.ops.conv_transpose({0}[tf.newaxis], {1}, {stride}, {padding})[0]",
        "Conv2DBackpropInput",
        shapes=at_least(1, 1, 1),
        starts=((2, 2, 1), (1, 2, 2)),
        when=lambda shape: shape[0] < 4 and shape[1] < 4,
        others=lambda shape: [((2, 2, 1, shape[-1]),)],
    ),
)

_heads = partial(
    _nn,
    shapes=at_least(1, 1, 1),
    starts=((2, 1, 2), (1, 1, 2), (2, 2, 1), (2, 2, 2)),
    when=lambda shape: np.prod(shape) < 13,
)


KERAS_ATTENTION_AND_IMAGES = (
    _heads(
        "keras_dot_product_attention",
        "tf.keras.ops.dot_product_attention("
        "{0}[tf.newaxis], {1}[tf.newaxis], {2}[tf.newaxis], is_causal={causal}, scale={scale})[0]",
        "Einsum Softmax Mul",
        Interval(-4.0, 4.0),
        others=lambda shape: [(shape, shape)],
        causal=BOOL,
        scale=(None, 0.5),
    ),
    _heads(
        "keras_attention_masked",
        "tf.keras.ops.dot_product_attention({0}[tf.newaxis], {1}[tf.newaxis], {2}[tf.newaxis], "
        "bias={3}[tf.newaxis, tf.newaxis], mask=tf.sequence_mask([[[{length}]]], {0}.shape[0]))[0]",
        "Einsum Softmax SelectV2",
        Interval(-4.0, 4.0),
        others=lambda shape: [(shape, shape, (shape[0],) * 2)],
        length=(1, 2, 0),
    ),
    _image(
        "keras_unfold",
        "tf.keras.ops.unfold({0}[tf.newaxis], {size}, dilation={dilation}, padding={padding}, stride={stride})[0]",
        "ExtractImagePatches Transpose",
        starts=((1, 3, 3), (2, 3, 3)),
        shapes=at_least(1, 3, 3),
        when=lambda shape: shape[0] < 3,
        size=(2, (1, 2)),
        dilation=(1, 2),
        padding=(0, 1),
        stride=(1, 2),
    ),
    *(
        _image(
            f"keras_{name}",
            f"tf.keras.ops.{name}({{0}}[tf.newaxis], 2, data_format={{layout}})[0]",
            gradient,
            when=condition,
            starts=starts,
            layout=LAYOUT,
        )
        for name, gradient, condition, starts in (
            ("depth_to_space", "DepthToSpace", lambda s: s in ((4, 2, 4), (4, 1, 4)), ((4, 2, 4), (4, 1, 4))),
            ("space_to_depth", "SpaceToDepth", lambda s: not any(n % 2 for n in s), ((2, 2, 2), (2, 4, 2))),
        )
    ),
)
