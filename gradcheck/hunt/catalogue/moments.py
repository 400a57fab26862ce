"""Moments, normalization by given moments, and losses that are made of other operations (family `nn`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least, nonempty_matrix, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Shapes


def _sets_of_axes(shape: Shape, *_others: Shape) -> Iterable[tuple[int, ...]]:
    """The last axis, all of them, the first, the last two."""
    rank = len(shape)
    return dict.fromkeys([(-1,), tuple(range(rank)), (0,), tuple(range(rank))[-2:]])


def _weights(shape: Shape) -> Shapes:
    """Of the elements, of the last axis, of all axes but the last."""
    return [(other,) for other in dict.fromkeys([shape, shape[-1:], (*shape[:-1], 1)])]


_nn = partial(operation, "nn")
_moments = partial(
    _nn,
    shapes=vector,
    starts=((2,), (3,), (2, 2), (2, 3), (2, 1, 2)),
    batching=reduces_points,
    axis=_sets_of_axes,
)
_normalized = partial(_nn, broadcasts=True, shapes=vector, starts=((2,), (1,), (2, 2), (2, 3), (1, 2, 2)))
_loss = partial(_nn, others=alike)

GIVEN = (REALS, REALS, POSITIVE)
"""A value, a mean and a variance."""

MOMENTS = (
    _moments(
        "moments",
        lambda x, *, axis, keepdims, which: tf.nn.moments(x, axis, keepdims=keepdims)[which],
        "Mean",
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "moments_shifted",
        lambda x, *, axis, keepdims, which: tf.compat.v1.nn.moments(x, axis, shift=2.0, keep_dims=keepdims)[which],
        "Mean",
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "weighted_moments",
        lambda x, y, *, axis, keepdims, which: tf.nn.weighted_moments(x, axis, y, keepdims=keepdims)[which],
        "Sum Mul",
        REALS,
        POSITIVE,
        others=_weights,
        broadcasts=True,
        which=(1, 0),
        keepdims=BOOL,
    ),
    _moments(
        "sufficient_statistics",
        lambda x, *, axis, keepdims, which: tf.nn.sufficient_statistics(
            x, axis, shift=np.float64(2.0), keepdims=keepdims
        )[which],
        "Sum",
        which=(2, 1),
        keepdims=BOOL,
    ),
    _nn(
        "normalize_moments",
        lambda x, y, z, *, shift, which: tf.nn.normalize_moments(x, y, z, shift)[which],
        "Mul Reciprocal",
        POSITIVE,
        REALS,
        REALS,
        others=lambda shape: [(shape, shape)],
        shift=(None, 2.0),
        which=(1, 0),
    ),
    _normalized(
        "batch_normalization",
        lambda x, y, z, u, v, *, epsilon: tf.nn.batch_normalization(x, y, z, u, v, epsilon),
        "Rsqrt Mul",
        *(*GIVEN, REALS, REALS),
        others=lambda shape: [(shape[-1:],) * 4, ((*shape[:-1], 1),) * 4],
        epsilon=(0.001, 0.5),
    ),
    _normalized(
        "batch_normalization_unscaled",
        lambda x, y, z: tf.nn.batch_normalization(x, y, z, None, None, 0.5),
        "Rsqrt Mul",
        *GIVEN,
        others=lambda shape: [(shape[-1:],) * 2, (shape,) * 2],
    ),
    _normalized(
        "batch_normalization_global",
        lambda x, y, z, u, v, *, scaled: tf.nn.batch_norm_with_global_normalization(x, y, z, u, v, 0.5, scaled),
        "Rsqrt Mul",
        *(*GIVEN, REALS, REALS),
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [(shape[-1:],) * 4],
        starts=((1, 1, 1, 2), (2, 1, 2, 1)),
        scaled=BOOL,
    ),
    _loss("log_poisson_loss", lambda x, y: tf.nn.log_poisson_loss(x, y), "Exp Mul"),
    _loss(
        "log_poisson_loss_full",
        lambda x, y: tf.nn.log_poisson_loss(x, y, compute_full_loss=True),
        "Exp Mul Log",
        POSITIVE,
        REALS,
        singular=at(1.0),
    ),
    _loss(
        "weighted_cross_entropy",
        lambda x, y, *, weight: tf.nn.weighted_cross_entropy_with_logits(x, y, weight),
        "Log1p Exp Relu",
        weight=(1.0, 0.5, 3.0),
    ),
    _loss(
        "weighted_cross_entropy_of_weights",
        lambda x, y, *, label: tf.nn.weighted_cross_entropy_with_logits(tf.zeros_like(x) + label, x, y),
        "Log1p Exp Relu",
        label=(1.0, 0.0, 0.5),
    ),
    _loss(
        "compute_average_loss",
        lambda x, y, *, size: tf.nn.compute_average_loss(x, sample_weight=y, global_batch_size=size),
        "Sum Mul Cast",
        looped=True,
        shapes=vector,
        when=lambda shape: len(shape) == 1,
        starts=((2,), (3,)),
        size=(1, 4),
        reference=lambda x, y, *, size: tf.reduce_sum(x * y, axis=-1) / size,
        rtol=1e-6,
    ),
    _nn("scale_regularization_loss", lambda x: tf.nn.scale_regularization_loss(x), "Sum", looped=True),
    _nn("log_sigmoid", lambda x: tf.math.log_sigmoid(x), "Softplus Neg"),
    _nn(
        "softmax_cross_entropy_over_axis",
        lambda x, y, *, axis: tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.nn.softmax(x, axis=axis), logits=y, axis=axis
        ),
        "SoftmaxCrossEntropyWithLogits",
        shapes=nonempty_matrix,
        others=alike,
        starts=((2, 2), (2, 3), (2, 1, 2)),
        batching=along_axis,
        axis=lambda shape, *_: (0, len(shape) - 2, -1),
        terms=1.0,
    ),
)
