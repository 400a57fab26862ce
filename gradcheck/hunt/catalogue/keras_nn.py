"""Normalizations, attention, pools and windows of `keras.ops` that have formulas of their own (family `nn`)."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from gradcheck.hunt.catalogue.distances import ties
from gradcheck.hunt.catalogue.images import SINGLE
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import at_least, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array, Shapes

# For one window along an axis Keras also takes one that is larger than the image, for an empty result: no graph can be
# traced with it, and MaxPoolGrad hands back memory that nobody has written, other numbers in every run.
WINDOWS = ((2, 2), (3, 2), (2, 3))
LAYOUTS = ("channels_last", "channels_first")

_nn = partial(operation, "nn")
_normalization = partial(_nn, shapes=vector, starts=((2,), (3,), (2, 2), (2, 3)), broadcasts=True, epsilon=(0.5, 1e-3))


def _two_steps(shape: Shape) -> Shapes:
    """Keys and values of two steps, whose heads serve one or two heads of the query."""
    heads = [shape[1], *([2] if shape[1] == 4 else [])]
    return [((2, count, shape[2]),) * 2 for count in heads]


def _from_ties_of_windows(x: Array, *, size: tuple[int, ...], layout: str) -> Array:
    """The largest of each window is to be unique."""
    last = x if layout == LAYOUTS[0] else np.moveaxis(x, 0, -1)
    gaps = [np.full(1, np.inf)]
    windows = [
        [slice(k * length // count, -(-(k + 1) * length // count)) for k in range(count)]
        for length, count in zip(last.shape, size, strict=False)
    ]
    for window in product(*windows):
        gaps.append(ties(last[window].reshape(-1, last.shape[-1]), axis=0)[..., -1:].ravel())
    return np.concatenate(gaps)


_pool = partial(_nn, in_batch=True, layout=LAYOUTS)
# Images stand for the others in modes.
_of_sequence = partial(
    _pool, shapes=at_least(2, 2), starts=((2, 2), (3, 3), (4, 3), (3, 5)), size=((2,), (3,)), modes=()
)
_of_image = partial(_pool, shapes=at_least(2, 2, 2), starts=((2, 2, 2), (3, 3, 2), (2, 3, 3)), size=WINDOWS)
# No kernel takes volumes of double precision.
_of_volume = partial(
    _pool,
    shapes=at_least(2, 2, 2, 2),
    starts=((2, 2, 2, 2), (3, 2, 2, 2), (2, 3, 2, 3)),
    size=((2, 2, 2), (2, 3, 2), (3, 2, 2)),
    rtol=SINGLE,
    modes=(),
)


def _from_right_angles(x: Array, *, mode: str) -> Array:
    vectors = 3.0 * np.eye(len(x)) + np.sin(x if mode == "rows" else x.T)
    return np.abs(vectors @ vectors.T)[np.triu_indices(len(x), 1)]


KERAS_NN = (
    _normalization(
        "keras_layer_normalization",
        lambda x, scale, offset, *, epsilon: tf.keras.ops.layer_normalization(
            x, scale, offset, axis=-1, epsilon=epsilon
        ),
        "Rsqrt Mean Mul",
        others=lambda shape: [(shape[-1:],) * 2],
    ),
    _normalization(
        "keras_layer_normalization_of_deviation",
        lambda x, scale, *, epsilon: tf.keras.ops.layer_normalization(
            x, scale, axis=-1, epsilon=epsilon, rms_scaling=True
        ),
        "Rsqrt Mean Mul",
        others=lambda shape: [(shape[-1:],)],
    ),
    _normalization(
        "keras_rms_normalization",
        lambda x, scale, *, epsilon: tf.keras.ops.rms_normalization(x, scale, axis=-1, epsilon=epsilon),
        "Rsqrt Mean Square",
        others=lambda shape: [(shape[-1:],)],
    ),
    # Steps, heads, features.
    _nn(
        "keras_attention",
        lambda query, value, key, *, scale, causal: tf.keras.ops.dot_product_attention(
            query, value, key, scale=scale, is_causal=causal
        ),
        "Einsum Softmax SelectV2",
        in_batch=True,
        shapes=at_least(1, 1, 1),
        others=_two_steps,
        starts=((2, 1, 2), (1, 2, 1), (2, 2, 2), (1, 4, 1)),
        scale=(None, 0.5),
        causal=BOOL,
    ),
    _nn(
        "keras_attention_of_bias",
        lambda x, bias, *, seen: tf.keras.ops.dot_product_attention(
            x[tf.newaxis], x[tf.newaxis], x[tf.newaxis], bias=bias, mask=np.array([[[[True, seen]]]])
        )[0],
        "Einsum Softmax SelectV2",
        looped=True,
        shapes=at_least(2, 1, 1),
        when=lambda shape: shape[0] == 2,
        others=lambda _: [((1, 1, 2, 2),)],
        starts=((2, 1, 2), (2, 2, 1)),
        seen=BOOL,
    ),
    _of_sequence(
        "keras_adaptive_average_pool1d",
        lambda x, *, size, layout: tf.keras.ops.adaptive_average_pool(x, size, data_format=layout),
        "AvgPool GatherV2",
    ),
    _of_sequence(
        "keras_adaptive_max_pool1d",
        lambda x, *, size, layout: tf.keras.ops.adaptive_max_pool(x, size, data_format=layout),
        "MaxPool GatherV2",
        kinks=_from_ties_of_windows,
    ),
    _of_image(
        "keras_adaptive_average_pool",
        lambda x, *, size, layout: tf.keras.ops.adaptive_average_pool(x, size, data_format=layout),
        "AvgPool GatherV2",
    ),
    _of_image(
        "keras_adaptive_max_pool",
        lambda x, *, size, layout: tf.keras.ops.adaptive_max_pool(x, size, data_format=layout),
        "MaxPool GatherV2",
        kinks=_from_ties_of_windows,
    ),
    _of_volume(
        "keras_adaptive_average_pool3d",
        lambda x, *, size, layout: tf.cast(
            tf.keras.ops.adaptive_average_pool(tf.cast(x, tf.float32), size, data_format=layout), tf.float64
        ),
        "AvgPool3D GatherV2",
    ),
    _of_volume(
        "keras_adaptive_max_pool3d",
        lambda x, *, size, layout: tf.cast(
            tf.keras.ops.adaptive_max_pool(tf.cast(x, tf.float32), size, data_format=layout), tf.float64
        ),
        "MaxPool3D GatherV2",
        kinks=_from_ties_of_windows,
    ),
    # Fewer sizes than of images: at others the backward pass of MaxPool3D ends the process (TensorFlow 2.21, oneDNN).
    _nn(
        "keras_unfold",
        lambda x, *, size, dilation, padding, stride: tf.keras.ops.unfold(
            x, size, dilation=dilation, padding=padding, stride=stride
        ),
        "ExtractImagePatches Transpose",
        in_batch=True,
        shapes=at_least(1, 3, 3),
        starts=((1, 3, 3), (2, 3, 3), (1, 3, 4)),
        size=(2, 1),
        dilation=(1, 2),
        padding=(0, 1),
        stride=(1, 2),
    ),
    _nn(
        "keras_depthwise_conv",
        lambda x, filters, *, stride, padding, dilation: tf.keras.ops.depthwise_conv(
            x[tf.newaxis], filters, strides=stride, padding=padding, data_format="channels_last", dilation_rate=dilation
        )[0],
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
        lambda x, filters, pointwise, *, stride, padding, dilation: tf.keras.ops.separable_conv(
            x[tf.newaxis],
            filters,
            pointwise,
            strides=stride,
            padding=padding,
            data_format="channels_last",
            dilation_rate=dilation,
        )[0],
        "DepthwiseConv2dNative Conv2D",
        looped=True,
        shapes=at_least(3, 3, 1),
        others=lambda shape: [((2, 2, shape[-1], 1), (1, 1, shape[-1], 2))],
        starts=((3, 3, 1), (3, 4, 2)),
        stride=(2, 1),
        padding=("valid", "same"),
        dilation=(2, 1),
    ),
    _nn(
        "keras_orthogonal_regularizer",
        # A factor of Python's is a number in single precision, which matrices in double precision refuse.
        lambda x, *, mode: tf.keras.regularizers.OrthogonalRegularizer(np.float64(0.5), mode)(
            3.0 * tf.eye(x.shape[0], dtype=tf.float64) + tf.sin(x)
        ),
        "Abs MatMul Rsqrt",
        looped=True,
        shapes=square,
        when=lambda shape: len(shape) == 2 and shape[0] > 1,
        starts=((2, 2), (3, 3)),
        mode=("rows", "columns"),
        kinks=_from_right_angles,
    ),
)
