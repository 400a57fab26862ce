"""Normalizations, attention, pools and windows of `keras.ops` that have formulas of their own (family `nn`)."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import ties
from gradcheck.hunt.catalogue.images import SINGLE
from gradcheck.hunt.catalogue.language import in_batch, operation
from gradcheck.hunt.catalogue.shapes import at_least, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array, OpSpec, Shapes

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


def _pool(kind: str, gradients: str, *, dimensions: int = 2, **fields: Any) -> OpSpec:
    """A pool whose windows are as many as `size` says, in both layouts of the channels.

    That of images stands for the others in modes.
    """
    name = f"keras_adaptive_{kind}_pool" + (f"{dimensions}d" if dimensions != 2 else "")
    text = f"tf.keras.ops.adaptive_{kind}_pool({{0}}[tf.newaxis], {{size}}, data_format={{layout}})[0]"
    if dimensions == 3:  # no kernel takes volumes of double precision
        text = f"tf.cast({text.replace('{0}[', 'tf.cast({0}, tf.float32)[')}, tf.float64)"
        fields["rtol"] = SINGLE
    kinks = _from_ties_of_windows if kind == "max" else None
    modes = None if dimensions == 2 else ()
    return _nn(name, text, gradients, batching=in_batch, layout=LAYOUTS, kinks=kinks, modes=modes, **fields)


_of_sequence = partial(
    _pool, dimensions=1, shapes=at_least(2, 2), starts=((2, 2), (3, 3), (4, 3), (3, 5)), size=((2,), (3,))
)
_of_image = partial(_pool, shapes=at_least(2, 2, 2), starts=((2, 2, 2), (3, 3, 2), (2, 3, 3)), size=WINDOWS)
_of_volume = partial(
    _pool,
    dimensions=3,
    shapes=at_least(2, 2, 2, 2),
    starts=((2, 2, 2, 2), (3, 2, 2, 2), (2, 3, 2, 3)),
    size=((2, 2, 2), (2, 3, 2), (3, 2, 2)),
)


def _from_right_angles(x: Array, *, mode: str) -> Array:
    vectors = 3.0 * np.eye(len(x)) + np.sin(x if mode == "rows" else x.T)
    return np.abs(vectors @ vectors.T)[np.triu_indices(len(x), 1)]


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
    _of_sequence("average", "AvgPool GatherV2"),
    _of_sequence("max", "MaxPool GatherV2"),
    _of_image("average", "AvgPool GatherV2"),
    _of_image("max", "MaxPool GatherV2"),
    _of_volume("average", "AvgPool3D GatherV2"),
    _of_volume("max", "MaxPool3D GatherV2"),
    # Fewer sizes than of images: at others the backward pass of MaxPool3D ends the process (TensorFlow 2.21, oneDNN).
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
    _nn(
        "keras_orthogonal_regularizer",
        # A factor of Python's is a number in single precision, which matrices in double precision refuse.
        "tf.keras.regularizers.OrthogonalRegularizer(np.float64(0.5), {mode})("
        "3.0 * tf.eye({0}.shape[0], dtype=tf.float64) + tf.sin({0}))",
        "Abs MatMul Rsqrt",
        looped=True,
        shapes=square,
        when=lambda shape: len(shape) == 2 and shape[0] > 1,
        starts=((2, 2), (3, 3)),
        mode=("rows", "columns"),
        kinks=_from_right_angles,
    ),
)
