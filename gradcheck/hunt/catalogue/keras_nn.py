"""Normalizations, attention, pools and windows of `keras.ops` that have formulas of their own (family `nn`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import ties
from gradcheck.hunt.catalogue.language import in_batch, operation
from gradcheck.hunt.catalogue.shapes import at_least, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array, Shapes

# For one window along an axis Keras also takes one that is larger than the image, for an empty result: no graph can be
# traced with it, and MaxPoolGrad hands back memory that nobody has written, other numbers in every run.
WINDOWS = ((2, 2), (3, 2), (2, 3))

_nn = partial(operation, "nn")
_image = partial(_nn, batching=in_batch, shapes=at_least(2, 2, 1), starts=((2, 2, 1), (3, 3, 1), (2, 3, 2)))
_normalization = partial(_nn, shapes=vector, starts=((2,), (3,), (2, 2), (2, 3)), broadcasts=True, epsilon=(0.5, 1e-3))


def _two_steps(shape: Shape) -> Shapes:
    """Keys and values of two steps, whose heads serve one or two heads of the query."""
    heads = [shape[1], *([2] if shape[1] == 4 else [])]
    return [((2, count, shape[2]),) * 2 for count in heads]


def _from_ties_of_windows(x: Array, *, size: tuple[int, int], **_attributes: Any) -> Array:
    """The largest of each window is to be unique."""
    gaps = [np.full(1, np.inf)]
    starts = [
        [(k * length // count, -(-(k + 1) * length // count)) for k in range(count)]
        for length, count in zip(x.shape, size, strict=False)
    ]
    for top, bottom in starts[0]:
        for left, right in starts[1]:
            window = x[top:bottom, left:right].reshape(-1, x.shape[-1])
            gaps.append(ties(window, axis=0)[..., -1:].ravel())
    return np.concatenate(gaps)


KERAS_NN = (
    _normalization(
        "keras_layer_normalization",
        "tf.keras.ops.layer_normalization({0}, {1}, {2}, axis=-1, epsilon={epsilon})",
        "Rsqrt Mean Mul",
        others=lambda shape: [(shape[-1:],) * 2],
    ),
    _normalization(
        "keras_layer_normalization_of_deviation",
        "tf.keras.ops.layer_normalization({0}, {1}, axis=-1, epsilon={epsilon}, rms_scaling=True)",
        "Rsqrt Mean Mul",
        others=lambda shape: [(shape[-1:],)],
    ),
    _normalization(
        "keras_rms_normalization",
        "tf.keras.ops.rms_normalization({0}, {1}, axis=-1, epsilon={epsilon})",
        "Rsqrt Mean Square",
        others=lambda shape: [(shape[-1:],)],
    ),
    # Steps, heads, features.
    _nn(
        "keras_attention",
        "tf.keras.ops.dot_product_attention({0}[tf.newaxis], {1}[tf.newaxis], {2}[tf.newaxis], scale={scale}, "
        "is_causal={causal})[0]",
        "Einsum Softmax SelectV2",
        batched="tf.keras.ops.dot_product_attention({0}, {1}, {2}, scale={scale}, is_causal={causal})",
        shapes=at_least(1, 1, 1),
        others=_two_steps,
        starts=((2, 1, 2), (1, 2, 1), (2, 2, 2), (1, 4, 1)),
        scale=(None, 0.5),
        causal=BOOL,
    ),
    _nn(
        "keras_attention_of_bias",
        "tf.keras.ops.dot_product_attention({0}[tf.newaxis], {0}[tf.newaxis], {0}[tf.newaxis], bias={1}, "
        "mask=np.array([[[[True, {seen}]]]]))[0]",
        "Einsum Softmax SelectV2",
        looped=True,
        shapes=at_least(2, 1, 1),
        when=lambda shape: shape[0] == 2,
        others=lambda _: [((1, 1, 2, 2),)],
        starts=((2, 1, 2), (2, 2, 1)),
        seen=BOOL,
    ),
    _image(
        "keras_adaptive_average_pool",
        "tf.keras.ops.adaptive_average_pool({0}[tf.newaxis], {size}, data_format='channels_last')[0]",
        "AvgPool GatherV2",
        size=WINDOWS,
    ),
    _image(
        "keras_adaptive_max_pool",
        "tf.keras.ops.adaptive_max_pool({0}[tf.newaxis], {size}, data_format='channels_last')[0]",
        "MaxPool GatherV2",
        size=WINDOWS,
        kinks=_from_ties_of_windows,
    ),
    _nn(
        "keras_unfold",
        "tf.keras.ops.unfold({0}[tf.newaxis], {size}, dilation={dilation}, padding={padding}, stride={stride})[0]",
        "ExtractImagePatches Transpose",
        batching=in_batch,
        shapes=at_least(1, 3, 3),
        starts=((1, 3, 3), (2, 3, 3), (1, 3, 4)),
        size=(2, 1),
        dilation=(1, 2),
        padding=(0, 1),
        stride=(1, 2),
    ),
    _nn(
        "keras_depthwise_conv",
        "tf.keras.ops.depthwise_conv({0}[tf.newaxis], {1}, strides={stride}, padding={padding}, "
        "data_format='channels_last', dilation_rate={dilation})[0]",
        "DepthwiseConv2dNative StridedSlice",
        looped=True,
        shapes=at_least(3, 3, 1),
        others=lambda shape: [((2, 2, shape[-1], 1),), ((2, 1, shape[-1], 2),)],
        starts=((3, 3, 1), (3, 4, 2)),
        stride=(2, 1),
        padding=("valid", "same"),
        dilation=(2, 1),
    ),
    _nn(
        "keras_separable_conv",
        "tf.keras.ops.separable_conv({0}[tf.newaxis], {1}, {2}, strides={stride}, padding={padding}, "
        "data_format='channels_last', dilation_rate={dilation})[0]",
        "DepthwiseConv2dNative Conv2D",
        looped=True,
        shapes=at_least(3, 3, 1),
        others=lambda shape: [((2, 2, shape[-1], 1), (1, 1, shape[-1], 2))],
        starts=((3, 3, 1), (3, 4, 2)),
        stride=(2, 1),
        padding=("valid", "same"),
        dilation=(2, 1),
    ),
)
