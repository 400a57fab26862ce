"""Functions of `keras.ops.nn` and layers of `keras.layers` that have formulas of their own (family `nn`)."""

from __future__ import annotations

import functools
import random
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import at_zero, ties
from gradcheck.operations.images import SINGLE
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import at_least, square, vector
from gradcheck.operations.spec import BOOL, Interval, Shapes
from gradcheck.operations.special_sets import OVER_256_ROWS, ZERO_ON_SLOPE
from gradcheck.typing import Array

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
        special=(OVER_256_ROWS,),
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


@functools.cache
def built_layer(kind: Any, shape: Any, options: tuple[tuple[str, Any], ...]) -> Any:
    """A layer of this class and these options, built for the shape of its input, or a tuple of shapes."""
    state = random.getstate()  # Keras draws a seed from Python's generator, which belongs to Hypothesis or to the user
    try:
        with tf.init_scope():
            layer = kind(dtype="float64", **dict(options))
            layer.build(list(shape) if shape and isinstance(shape[0], tuple) else shape)
    finally:
        random.setstate(state)
    return layer


def weighted_layer(
    kind: Any, x: Any, weights: list[Any], called: dict[str, Any] | None = None, **options: Any
) -> tf.Tensor:
    """The output of a layer for x and weights; `called` are arguments of its call, `options` those of its class."""
    shape = tuple(tuple(one.shape) for one in x) if isinstance(x, list) else tuple(x.shape)
    layer = built_layer(kind, shape, tuple(sorted(options.items())))
    given = [tf.identity(weight) for weight in weights] or [one.value for one in layer.trainable_variables]
    kept = [one.value for one in layer.non_trainable_variables]
    return layer.stateless_call(given, kept, x, **(called or {}))[0]


def spread(*sizes: int) -> tf.Tensor:
    """Weights of this shape, between -1 and 1."""
    return tf.reshape(tf.sin(1.0 + tf.range(int(np.prod(sizes)), dtype=tf.float64)), sizes)


def all_steps_but(hidden: int, x: tf.Tensor) -> tf.Tensor:
    """Which steps of each sequence are to be seen."""
    return tf.broadcast_to(tf.range(x.shape[1]) != hidden, x.shape[:2])


_layer = partial(operation, "nn", looped=True)
_batch = partial(operation, "nn", in_batch=True)


def _of_features(shape: Shape) -> Shapes:
    return [((shape[-1],),) * 2]


def _from_threshold(x: Array, *, theta: float) -> Array:
    return np.asarray(np.abs(x - theta))


def _from_ties_of_extremes(x: Array) -> Array:
    """Of each channel the smallest and the largest are to be unique."""
    gaps = ties(x, axis=(0, 1))
    return np.stack([gaps[..., 0], gaps[..., -1]])


def _from_constant(x: Array) -> Array:
    """No channel is to be constant: it is left as it is, and stretched as soon as it is not."""
    return np.asarray(np.ptp(x, axis=(0, 1)))


_attention = partial(
    _batch,
    shapes=at_least(1, 1),
    others=lambda shape: [((2, shape[-1]),)],
    starts=((2, 1), (1, 2), (2, 2)),
    causal=BOOL,
)
_recurrent = partial(_batch, shapes=at_least(1, 1), starts=((2, 1), (1, 1), (3, 2)), sequences=BOOL)

KERAS_LAYERS = (
    _layer(
        "keras_prelu",
        lambda x, alpha: weighted_layer(tf.keras.layers.PReLU, x[tf.newaxis], [alpha])[0],
        "Relu Mul",
        shapes=vector,
        others=lambda shape: [(shape,)],
        starts=((2,), (1,), (2, 2)),
        kinks=at_zero,
        special=(ZERO_ON_SLOPE,),
    ),
    _layer(
        "keras_thresholded_relu",
        lambda x, *, theta: weighted_layer(tf.keras.layers.ThresholdedReLU, x, [], theta=theta),
        "Mul",
        shapes=vector,
        starts=((2,), (1,), (2, 2)),
        theta=(1.0, 0.5),
        singular=_from_threshold,
    ),
    operation(
        "nn",
        "keras_masked_softmax",
        lambda x, *, hidden, axis: weighted_layer(
            tf.keras.layers.Softmax, x, [], {"mask": np.arange(x.shape[-1]) != hidden}, axis=axis
        ),
        "SelectV2 Exp Softmax",
        shapes=at_least(1, 2),
        starts=((1, 2), (2, 2), (2, 3)),
        hidden=(0, 1, -1),
        axis=(-1, (-2, -1)),
    ),
    _attention(
        "keras_additive_attention",
        lambda query, value, *, causal: weighted_layer(
            tf.keras.layers.AdditiveAttention, [query, value], [spread(query.shape[-1])], {"use_causal_mask": causal}
        ),
        "Tanh Softmax SelectV2",
    ),
    _attention(
        "keras_concat_attention",
        lambda query, value, *, causal: weighted_layer(
            tf.keras.layers.Attention,
            [query, value],
            [spread(), spread()],
            {"use_causal_mask": causal},
            use_scale=True,
            score_mode="concat",
        ),
        "Tanh Softmax SelectV2",
    ),
    _attention(
        "keras_dot_attention",
        lambda query, value, *, causal: weighted_layer(
            tf.keras.layers.Attention,
            [query, value],
            [spread()],
            {"use_causal_mask": causal},
            use_scale=True,
            score_mode="dot",
        ),
        "Softmax SelectV2 BatchMatMulV2",
    ),
    _layer(
        "keras_batch_normalization",
        lambda x, gamma, beta, *, masked: weighted_layer(
            tf.keras.layers.BatchNormalization,
            x,
            [gamma, beta],
            {"training": True, "mask": np.arange(x.shape[0]) > 0 if masked else None},
            epsilon=0.1,
        ),
        "Rsqrt Mean Sum",
        shapes=at_least(2, 1),
        others=_of_features,
        starts=((2, 1), (3, 2), (3, 1)),
        masked=BOOL,
    ),
    _layer(
        "keras_group_normalization",
        lambda x, gamma, beta, *, groups: weighted_layer(
            tf.keras.layers.GroupNormalization, x[tf.newaxis], [gamma, beta], groups=groups, epsilon=0.1
        )[0],
        "Rsqrt Mean",
        # A group of one element is its own mean.
        shapes=at_least(2, 2),
        when=lambda shape: shape[-1] % 2 == 0,
        others=_of_features,
        starts=((2, 2), (2, 4)),
        groups=(2, 1, -1),
    ),
    _recurrent(
        "keras_simple_rnn",
        # Rolled up, it is a while_loop.
        lambda x, *, sequences: weighted_layer(
            tf.keras.layers.SimpleRNN,
            x,
            [spread(x.shape[-1], 2), spread(2, 2), spread(2)],
            units=2,
            unroll=True,
            return_sequences=sequences,
        ),
        "Tanh MatMul",
    ),
    _recurrent(
        "keras_lstm",
        lambda x, *, hidden, sequences: weighted_layer(
            tf.keras.layers.LSTM,
            x,
            [spread(x.shape[-1], 4), spread(1, 4), spread(4)],
            {"mask": all_steps_but(hidden, x)},
            units=1,
            unroll=True,
            return_sequences=sequences,
        ),
        "Sigmoid Tanh MatMul",
        hidden=(-1, 1, 0),
    ),
    _recurrent(
        "keras_gru",
        lambda x, *, sequences: weighted_layer(
            tf.keras.layers.GRU,
            x,
            [spread(x.shape[-1], 3), spread(1, 3), spread(3)],
            units=1,
            unroll=True,
            return_sequences=sequences,
            reset_after=False,
        ),
        "Sigmoid Tanh MatMul",
    ),
    _recurrent(
        "keras_gru_reset_after",
        lambda x, *, sequences: weighted_layer(
            tf.keras.layers.GRU,
            x,
            [spread(x.shape[-1], 3), spread(1, 3), spread(2, 3)],
            units=1,
            unroll=True,
            return_sequences=sequences,
            reset_after=True,
            go_backwards=True,
        ),
        "Sigmoid Tanh MatMul",
    ),
    _batch(
        "keras_conv_lstm",
        lambda x: weighted_layer(
            tf.keras.layers.ConvLSTM1D,
            x,
            [spread(1, x.shape[-1], 4), spread(1, 1, 4), spread(4)],
            filters=1,
            kernel_size=1,
            recurrent_activation="sigmoid",
            unroll=True,
        ),
        "Conv2D Sigmoid Tanh",
        shapes=at_least(1, 1, 1),
        starts=((2, 1, 1), (2, 2, 1), (1, 2, 2)),
    ),
    operation(
        "nn",
        "keras_auto_contrast",
        lambda x: weighted_layer(tf.keras.layers.AutoContrast, x, [], value_range=(0.0, 1.0)),
        "Max Min RealDiv SelectV2",
        Interval(0.0, 1.0, closed=True),
        shapes=at_least(2, 1, 1),
        starts=((3, 1, 1), (2, 2, 1), (4, 1, 1), (3, 1, 2)),
        kinks=_from_ties_of_extremes,
        singular=_from_constant,
    ),
)

KERAS_UP_SAMPLING = (
    _batch(
        "keras_up_sampling",
        lambda x, *, size, how, layout: weighted_layer(
            tf.keras.layers.UpSampling2D, x, [], size=size, interpolation=how, data_format=layout
        ),
        "Cast",
        shapes=at_least(1, 1, 1),
        starts=((1, 1, 1), (2, 1, 2), (2, 3, 1)),
        size=(2, (1, 3)),
        how=("nearest", "bilinear", "bicubic"),
        layout=LAYOUTS,
        rtol=SINGLE,
        modes=(),  # in modes it is what resize_bilinear and resize_bicubic are there
    ),
)
