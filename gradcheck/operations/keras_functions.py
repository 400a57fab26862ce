"""Functions of `keras.ops` that take functions, or whose derivative is compared with that of what they are to be.

Where Keras computes another function than it documents, the reference stands on its value at the unperturbed point
(row 0), and moves from there as the documented function, which is written in other operations.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.images import SINGLE
from gradcheck.operations.keras_nn import spread
from gradcheck.operations.language import along_axis, operation, rows_first, tf, traced
from gradcheck.operations.shapes import alike, at_least, axes, vector
from gradcheck.operations.spec import BOOL
from gradcheck.operations.special_sets import COLUMN_AS_ROW, SEVERAL_IN_SUPPORT
from gradcheck.typing import Array


def keras_scanned(x: tf.Tensor, reverse: bool) -> tf.Tensor:
    """Every state is the sine of the one before, plus a row; what is stacked is the state's product with the row."""

    def step(state: tf.Tensor, row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.sin(state) + row, state * row

    return tf.keras.ops.scan(step, tf.zeros_like(x[0]) + 0.5, x, reverse=reverse)[1]


def _ways(shape: Shape) -> tuple[tuple[int, int, int], ...]:
    """Dilation, padding and stride at which an image of 3 x 3 has so many windows of 2 x 2."""
    return {1: ((2, 0, 1), (1, 0, 2)), 4: ((1, 0, 1), (1, 1, 2)), 16: ((1, 1, 1),)}[shape[-1]]


def simplex_projection(x: tf.Tensor) -> tf.Tensor:
    """The nearest point with elements of at least 0 that add up to 1.

    It is x less a threshold, cut off at 0: the largest of those at which the k largest elements would add up to 1
    (Martins and Astudillo, "From softmax to sparsemax", 2016, proposition 1).
    """
    ordered = tf.sort(x, direction="DESCENDING")
    thresholds = (tf.cumsum(ordered, axis=-1) - 1.0) / tf.range(1.0, x.shape[-1] + 1.0, dtype=tf.float64)
    return tf.nn.relu(x - tf.reduce_max(thresholds, axis=-1, keepdims=True))


def _from_ends_of_support(x: Array) -> Array:
    """No element is to lie at the threshold, where it is about to vanish."""
    ordered = np.sort(x, axis=-1)[..., ::-1]
    thresholds = (np.cumsum(ordered, axis=-1) - 1.0) / np.arange(1, x.shape[-1] + 1)
    return np.asarray(np.abs(x - np.max(thresholds, axis=-1, keepdims=True)))


def affine_image(y: tf.Tensor) -> tf.Tensor:
    """The first pixels of an image, taken from places (column, row) about a quarter of a pixel further on."""
    matrix = tf.concat([tf.constant([1.0, 0.0, 0.25, 0.0, 1.0, 0.25], tf.float64) + 0.05 * tf.sin(y), [0.0, 0.0]], 0)
    moved = tf.keras.ops.image.affine_transform(
        tf.cast(spread(3, 3, 1), tf.float32), tf.cast(matrix, tf.float32), data_format="channels_last"
    )
    return tf.cast(moved[:2, :2, 0], tf.float64)


def affine_image_of_points(y: tf.Tensor) -> tf.Tensor:
    """The pixels around each place, each with a share that falls with its distance along rows and columns."""
    matrix = tf.constant([1.0, 0.0, 0.25, 0.0, 1.0, 0.25], tf.float64) + 0.05 * tf.sin(y)
    a, b, c, d, e, f = (part[..., tf.newaxis, tf.newaxis] for part in tf.unstack(matrix, axis=-1))
    rows, columns = tf.constant([[0.0], [1.0]], tf.float64), tf.constant([[0.0, 1.0]], tf.float64)
    across, down = a * columns + b * rows + c, d * columns + e * rows + f
    pixels = tf.range(3, dtype=tf.float64)
    shares = (tf.nn.relu(1.0 - tf.abs(places[..., tf.newaxis] - pixels)) for places in (down, across))
    return tf.einsum("...abr,...abc,rc->...ab", *shares, spread(3, 3))


_activated = partial(
    operation,
    "nn",
    looped=True,
    shapes=vector,
    when=lambda shape: len(shape) == 2 and shape[-1] > 1,
    starts=((1, 2), (2, 2), (1, 3), (2, 3)),
)


def activated(x: tf.Tensor, how: str) -> tf.Tensor:
    """The probabilities of an activation of Keras, which keeps x beside them."""
    return tf.keras.ops.sigmoid(x) if how == "sigmoid" else tf.keras.ops.softmax(x, axis=-1 if how == "softmax" else 0)


def binary_loss(x: tf.Tensor, label: float, how: str) -> tf.Tensor:
    return tf.keras.losses.binary_crossentropy(label * spread(*x.shape) ** 2, activated(x, how))


def binary_loss_of_points(x: tf.Tensor, label: float, how: str) -> tf.Tensor:
    labels = label * spread(*x.shape[1:]) ** 2
    if how == "sigmoid":
        return tf.reduce_mean(tf.nn.softplus(x) - labels * x, axis=-1)
    one, other = tf.nn.log_softmax(x), tf.math.log1p(-tf.nn.softmax(x))
    return -tf.reduce_mean(labels * one + (1.0 - labels) * other, axis=-1)


def loss_of_classes(x: tf.Tensor, label: float, how: str) -> tf.Tensor:
    return tf.keras.losses.categorical_crossentropy(tf.nn.softmax(label * spread(*x.shape)), activated(x, how))


def loss_of_classes_of_points(x: tf.Tensor, label: float, how: str) -> tf.Tensor:
    """Shares are divided by their sum."""
    labels = tf.nn.softmax(label * spread(*x.shape[1:]))
    shares = tf.math.log_sigmoid(x) if how == "sigmoid" else tf.nn.log_softmax(x, axis=-1 if how == "softmax" else 1)
    return -tf.reduce_sum(labels * tf.nn.log_softmax(shares), axis=-1)


KERAS_FUNCTIONS = (
    # Of an unknown length Keras nests 48 branches, whose gradient takes minutes to be traced.
    operation(
        "control flow",
        "keras_associative_scan",
        lambda x, *, reverse, axis: tf.keras.ops.associative_scan(lambda a, b: a * b, x, reverse=reverse, axis=axis),
        "Mul StridedSlice ConcatV2",
        batching=along_axis,
        shapes=vector,
        starts=((2,), (3,), (1,), (4,), (5,), (2, 2), (3, 2)),
        reverse=BOOL,
        axis=axes,
        modes=(),
    ),
    operation(
        "control flow",
        "keras_scan",
        lambda x, *, reverse: traced(keras_scanned)(x, reverse),
        "StatelessWhile TensorListFromTensor TensorListGetItem TensorListSetItem TensorListStack",
        batching=rows_first,
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
        reverse=BOOL,
    ),
    operation(
        "math",
        "keras_jvp",
        lambda x, y: tf.keras.ops.jvp(lambda z: z * tf.sin(z), (x,), (y,))[1],
        "Sin Cos Mul",
        others=alike,
    ),
    operation(
        "math",
        "keras_view_as_complex",
        lambda x: tf.cast(tf.keras.ops.view_as_complex(x), tf.complex128),
        "Cast Mul StridedSlice",
        shapes=vector,
        when=lambda shape: shape[-1] == 2,
        starts=((2,), (2, 2), (1, 2)),
        result="complex128",
        rtol=SINGLE,
        modes=(),
    ),
    operation(
        "array",
        "keras_fold",
        lambda x, *, way: tf.keras.ops.fold(x, 3, 2, dilation=way[0], padding=way[1], stride=way[2]),
        "TensorScatterAdd Reshape",
        in_batch=True,
        shapes=at_least(4, 1),
        when=lambda shape: shape[0] % 4 == 0 and shape[1] in (1, 4, 16),
        starts=((4, 1), (4, 4), (8, 1)),
        way=_ways,
        expensive=(1, 2),
        modes=(),
    ),
    operation(
        "math",
        "keras_add",
        lambda x, y: tf.keras.ops.add(x, y),
        "AddV2 BiasAdd",
        looped=True,
        shapes=at_least(1, 1),
        others=lambda shape: [((shape[0], 1),), ((1, shape[1]),), (shape,)],
        starts=((2, 2), (2, 3), (3, 3), (2, 1)),
        reference=lambda x, y: tf.keras.ops.add(x[0], y[0]) + (x + y) - (x[:1] + y[:1]),
        special=(COLUMN_AS_ROW,),
    ),
    operation(
        "nn",
        "keras_sparsemax",
        lambda x: tf.keras.ops.sparsemax(x),
        "Maximum SelectV2 Sum Cumsum TopKV2",
        shapes=vector,
        starts=((2,), (1,), (3,), (2, 2)),
        reference=lambda x: tf.keras.ops.sparsemax(x[0]) + simplex_projection(x) - simplex_projection(x[:1]),
        kinks=_from_ends_of_support,
        special=(SEVERAL_IN_SUPPORT,),
    ),
    # Whatever the matrix, no place comes close to a pixel, where there is a kink.
    operation(
        "image",
        "keras_affine_transform_of_matrix",
        lambda y: affine_image(y),
        "ImageProjectiveTransformV3",
        looped=True,
        when=lambda shape: shape == (6,),
        starts=((6,),),
        reference=affine_image_of_points,
        rtol=SINGLE,
        modes=(),
    ),
    _activated(
        "keras_binary_crossentropy_of_activation",
        lambda x, *, label, how: binary_loss(x, label, how),
        "Log1p",
        reference=lambda x, *, label, how: (
            binary_loss(x[0], label, how)
            + binary_loss_of_points(x, label, how)
            - binary_loss_of_points(x[:1], label, how)
        ),
        label=(1.0, 0.5),
        how=("sigmoid", "softmax"),
    ),
    _activated(
        "keras_categorical_crossentropy_of_activation",
        lambda x, *, label, how: loss_of_classes(x, label, how),
        "SoftmaxCrossEntropyWithLogits",
        reference=lambda x, *, label, how: (
            loss_of_classes(x[0], label, how)
            + loss_of_classes_of_points(x, label, how)
            - loss_of_classes_of_points(x[:1], label, how)
        ),
        label=(1.0, 4.0),
        how=("softmax", "sigmoid", "softmax over rows"),
    ),
)
