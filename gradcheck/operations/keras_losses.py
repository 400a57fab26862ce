"""The losses of `keras.losses` of numbers and of pairs (family `nn`). The prediction comes first, the label second.

The classes of losses take the mean of the functions' values. A loss that finds logits kept beside probabilities, as
Keras keeps them, takes those instead, which is another function; so its argument is copied first. So is the value of a
loss that keeps a mask beside it, by which classes of losses weigh it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.mode import MODES
from gradcheck.graph import Shape
from gradcheck.operations.distances import at, between, norms, ties_of_largest
from gradcheck.operations.language import along_axis, behind_points, operation, reduces_points, tf
from gradcheck.operations.shapes import alike, at_least, axes, reduced, vector
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Indices, Interval
from gradcheck.operations.special_sets import (
    CERTAIN_OF_LABEL,
    NULL_VECTOR,
    ONE_CLASS,
    SECOND_NULL_VECTOR,
    UNEQUAL_WEIGHTS,
)
from gradcheck.typing import Array

EPSILON = 1e-7
"""`keras.backend.epsilon()`, below which losses cut off what they take the logarithm of, or divide by."""
STARTS = ((2,), (1,), (2, 2), (2, 3), (1, 3))
REFERENCES = (0, 1, 0)
"""The labels of what vectors are compared with."""

_loss = partial(operation, "nn", shapes=vector, others=alike, starts=STARTS)
_of_labels = partial(operation, "nn", shapes=vector, starts=STARTS)


def _from_quadratic(x: Array, y: Array, *, delta: float) -> Array:
    return np.asarray(np.abs(np.abs(x - y) - delta))


def _from_margin(x: Array, *, label: float) -> Array:
    """Labels of 0 and 1 stand for -1 and 1."""
    return np.abs(1.0 - (-1.0 if label == 0 else label) * x)


def _from_margin_of_classes(x: Array, y: Array) -> Array:
    """The largest of the other classes is to be unique where it counts, and not to lie at the margin."""
    of_others = (1.0 - y) * x
    loss = of_others.max(-1) - (x * y).sum(-1) + 1.0
    gaps = ties_of_largest(of_others, axis=-1)
    return np.concatenate([np.where(loss[..., np.newaxis] > 0, gaps, np.inf).ravel(), np.abs(loss).ravel()])


def _from_least(_x: Array, y: Array) -> Array:
    """Errors are divided by what is right, or by EPSILON, with a slope of 1e7, where that is less."""
    return np.maximum(np.abs(y) - EPSILON, 0.0)


def _from_short(x: Array, y: Array, *, axis: int) -> Array:
    """Short vectors are divided by the least norm, so that they stay short."""
    return np.concatenate([np.abs(norms(each, axis=axis) - EPSILON).ravel() for each in (x, y)])


def _from_margins_of_pairs(
    x: Array, y: Array | None = None, *, labels: Any, margin: float, removed: bool = False, **_attributes: Any
) -> Array:
    """Beyond its margin a pair does not count; a row without one like it, or without a different one, has no loss."""
    alike_ones = np.equal.outer(labels, labels if y is None else REFERENCES)
    different = ~alike_ones
    if removed:
        alike_ones = alike_ones & ~np.eye(len(labels), dtype=bool)
    products = x @ (x if y is None else y).T
    rows = (different.any(axis=1) & alike_ones.any(axis=1))[:, np.newaxis]
    margins = np.concatenate([products[different & rows] + margin, 1.0 + margin - products[alike_ones & rows]])
    return np.asarray(np.abs(margins))


def _two_classes_or_one(shape: Shape) -> tuple[tuple[int, ...], ...]:
    size = shape[0]
    return (0,) * -(-size // 2) + (1,) * (size // 2), (0,) * size


KERAS_ERRORS = (
    _loss("keras_squared_error", lambda x, y: tf.keras.losses.MSE(y, x), "Square Mean"),
    _loss("keras_absolute_error", lambda x, y: tf.keras.losses.MAE(y, x), "Abs Mean", kinks=between),
    _loss(
        "keras_percentage_error",
        lambda x, y: tf.keras.losses.MAPE(y, x),
        "Abs Maximum RealDiv",
        kinks=between,
        singular=_from_least,
    ),
    _loss(
        "keras_squared_logarithmic_error",
        lambda x, y: tf.keras.losses.MSLE(y, x),
        "Maximum Log Square",
        REALS,
        Interval(0.25),  # below EPSILON a reference counts as EPSILON, as a prediction does
        kinks=at(EPSILON),
    ),
    _loss(
        "keras_huber",
        lambda x, y, *, delta: tf.keras.losses.huber(y, x, delta=delta),
        "Abs Square SelectV2",
        delta=(1.0, 0.5),
        curvature_jumps=_from_quadratic,
    ),
    _loss("keras_log_cosh", lambda x, y: tf.keras.losses.logcosh(y, x), "Softplus Mean"),
    _loss(
        "keras_cosine_similarity",
        lambda x, y, *, axis: tf.keras.losses.cosine_similarity(y, x, axis=axis),
        "Rsqrt Minimum Sum",
        batching=along_axis,
        axis=axes,
        singular=_from_short,
        special=(NULL_VECTOR, SECOND_NULL_VECTOR),
    ),
    _of_labels(
        "keras_hinge",
        lambda x, *, label: tf.keras.losses.hinge(tf.zeros_like(x) + label, x),
        "Maximum Mean",
        label=(1.0, 0.0, -1.0, 0.5),
        kinks=_from_margin,
    ),
    _of_labels(
        "keras_squared_hinge",
        lambda x, *, label: tf.keras.losses.squared_hinge(tf.zeros_like(x) + label, x),
        "Maximum Square",
        label=(1.0, 0.0, -1.0, 0.5),
        curvature_jumps=_from_margin,
    ),
    _loss(
        "keras_categorical_hinge",
        lambda x, y: tf.keras.losses.categorical_hinge(y, x),
        "Max Sum Maximum",
        kinks=_from_margin_of_classes,
    ),
    # Class and reduction: what of a loss is reported, and weights of samples.
    _loss(
        "keras_weighted_loss",
        lambda x, y, *, reduction: tf.keras.losses.MeanSquaredError(reduction=reduction, dtype="float64")(
            tf.zeros_like(x), x, sample_weight=y
        ),
        "Sum Square",
        REALS,
        POSITIVE,
        looped=True,
        others=lambda shape: [(shape[:-1],)],
        reduction=("sum_over_batch_size", "sum", "none", None, "mean", "mean_with_sample_weight"),
    ),
)

KERAS_PAIRS = (
    # Products below 1: no distance is cut off at 0. A margin may be negative (Sun et al. 2020, figure 4).
    operation(
        "nn",
        "keras_circle",
        lambda x, *, labels, removed, gamma, margin: tf.identity(
            tf.keras.losses.circle(np.array(labels), x, remove_diagonal=removed, gamma=gamma, margin=margin)
        ),
        "Softplus Maximum MatMul",
        Interval(-0.7, 0.7),
        looped=True,
        shapes=at_least(2, 1),
        when=lambda shape: shape[1] <= 2,
        starts=((3, 1), (2, 2), (3, 2), (4, 1)),
        labels=_two_classes_or_one,
        removed=BOOL,
        gamma=(1.0, 4.0),
        margin=(-0.25, -0.5, 0.4),
        special=(ONE_CLASS,),
        kinks=_from_margins_of_pairs,
    ),
    operation(
        "nn",
        "keras_circle_of_references",
        lambda x, y, *, labels, gamma, margin: tf.identity(
            tf.keras.losses.circle(
                np.array(labels),
                x,
                ref_labels=np.array([0, 1, 0]),
                ref_embeddings=y,
                remove_diagonal=False,
                gamma=gamma,
                margin=margin,
            )
        ),
        "Softplus Maximum MatMul",
        Interval(-0.7, 0.7),
        looped=True,
        shapes=at_least(1, 1),
        when=lambda shape: shape[1] <= 2,
        others=lambda shape: [((3, shape[-1]),)],
        starts=((2, 2), (1, 2), (2, 1)),
        labels=lambda shape, *_: Indices(shape[0], 2),
        gamma=(1.0, 4.0),
        margin=(-0.25, -0.5, 0.4),
        kinks=_from_margins_of_pairs,
    ),
)


PROBABILITY = Interval(0.0, 1.0)
CLASSES = ((1, 2), (2, 2), (2, 3), (1, 3), (1, 4))
SHARE = Interval(0.0, 1.0, closed=True)
SMOOTHING = (0.0, 0.25)

_classes = partial(operation, "nn", shapes=vector, when=lambda shape: len(shape) > 1 and shape[-1] > 1, starts=CLASSES)


def _from_cut(x: Array, y: Array) -> Array:
    """Both are cut off at 1 and near 0, where the logarithm of the prediction has a slope of 1e7."""
    return np.stack([np.abs(x - 1.0), np.abs(y - 1.0), np.abs(y - EPSILON)])


def _from_cut_of_share(x: Array, *_: Array, axis: int, **_attributes: Any) -> Array:
    """Shares of a sum are cut off near 0, with a slope of 1e7, and near 1, where all others are that small."""
    others = x.sum(axis, keepdims=True) - x
    odds = EPSILON / (1.0 - EPSILON)
    return np.stack([np.abs(x - odds * others), np.abs(others - odds * x)])


def _from_cut_of_softmax(x: Array, *_: Array, axis: int, **_attributes: Any) -> Array:
    """The softmax is cut off near 0 and near 1: logits are to stay away from where its logarithmic odds are large."""
    logits = np.moveaxis(x, axis, -1)
    own = np.eye(logits.shape[-1], dtype=bool)
    odds = logits - np.logaddexp.reduce(np.where(own, -np.inf, logits[..., np.newaxis, :]), axis=-1)
    return np.asarray(np.abs(np.abs(odds) - np.log(1.0 / EPSILON - 1.0)))


def _from_cut_of_label(x: Array, *, labels: Any, ignored: int | None) -> Array:
    """The probability of a label is cut off near 0, where its logarithm has a slope of 1e7."""
    return np.array([abs(row[label] - EPSILON) for row, label in zip(x, labels, strict=True) if label != ignored])


def _from_cut_of_classes(x: Array, *, labels: Any, ignored: int | None) -> Array:
    """Probabilities are cut off near 1, and those of other classes than the label near 0."""
    rows = [(row, np.delete(row, label)) for row, label in zip(x, labels, strict=True) if label != ignored]
    near_one, near_zero = ([abs(row - (1.0 - EPSILON)) for row, _ in rows], [abs(rest - EPSILON) for _, rest in rows])
    return np.concatenate([np.empty(0), *near_one, *near_zero])


def _labels(shape: Shape) -> Indices:
    return Indices(shape[0], shape[-1])


_labelled = partial(_classes, when=lambda shape: len(shape) == 2 and shape[-1] > 1, labels=_labels)


def _either(shape: Shape, *_others: Shape) -> tuple[int, ...]:
    return (-1, 0)


def tversky_of_points(
    x: tf.Tensor, y: tf.Tensor, *, alpha: float, beta: float, axis: int | tuple[int, ...] | None
) -> tf.Tensor:
    """The loss as it is documented, less what Keras' own differs from it at the unperturbed point.

    Alpha weighs what is said to be and is not, beta what is not said to be and is (Salehi, Erdogmus and Gholipour,
    "Tversky loss function for image segmentation", 2017, equation 3)."""
    over = behind_points(axis, x)
    both, too_much, too_little = (tf.reduce_sum(part, over) for part in (x * y, x * (1.0 - y), (1.0 - x) * y))
    loss = 1.0 - both / (both + alpha * too_much + beta * too_little + 1e-7)
    return tf.keras.losses.tversky(y[0], x[0], alpha=alpha, beta=beta, axis=axis) + loss - loss[:1]


_distribution = partial(_classes, others=alike, batching=along_axis, axis=_either)

KERAS_PROBABILITIES = (
    _loss("keras_poisson", lambda x, y: tf.keras.losses.poisson(y, x), "Log Mean", POSITIVE, REALS),
    _loss(
        "keras_kl_divergence",
        lambda x, y: tf.keras.losses.KLD(y, x),
        "Log RealDiv Maximum",
        SHARE,
        kinks=_from_cut,
        singular=at(EPSILON),
    ),
    _loss(
        "keras_binary_crossentropy",
        lambda x, y, *, smoothing, axis: tf.keras.losses.binary_crossentropy(
            y, tf.identity(x), label_smoothing=smoothing, axis=axis
        ),
        "Log Maximum",
        PROBABILITY,
        REALS,
        batching=along_axis,
        axis=axes,
        smoothing=SMOOTHING,
        singular=at(EPSILON, 1.0 - EPSILON),
    ),
    _loss(
        "keras_binary_crossentropy_of_logits",
        lambda x, y, *, smoothing, axis: tf.keras.losses.binary_crossentropy(
            y, x, from_logits=True, label_smoothing=smoothing, axis=axis
        ),
        "Log1p",
        batching=along_axis,
        axis=axes,
        smoothing=SMOOTHING,
    ),
    # What is left of 1 is taken to the power gamma, whose derivative is infinite at 0 below 1, the second one below 2.
    _loss(
        "keras_binary_focal_crossentropy",
        lambda x, y, *, balanced, gamma, smoothing: tf.keras.losses.binary_focal_crossentropy(
            y, tf.identity(x), apply_class_balancing=balanced, alpha=0.25, gamma=gamma, label_smoothing=smoothing
        ),
        "Log Pow Maximum",
        PROBABILITY,
        SHARE,
        balanced=BOOL,
        gamma=(2.0, 5.0),
        smoothing=SMOOTHING,
        singular=at(EPSILON, 1.0 - EPSILON),
    ),
    _loss(
        "keras_binary_focal_crossentropy_of_soft_labels",
        lambda x, y, *, gamma, smoothing: tf.keras.losses.binary_focal_crossentropy(
            y, tf.identity(x), gamma=gamma, label_smoothing=smoothing
        ),
        "Log Pow Maximum",
        PROBABILITY,
        PROBABILITY,
        gamma=(1.0, 0.5),
        smoothing=SMOOTHING,
        singular=at(EPSILON, 1.0 - EPSILON),
    ),
    _loss(
        "keras_binary_focal_crossentropy_of_logits",
        lambda x, y, *, balanced, gamma, smoothing: tf.keras.losses.binary_focal_crossentropy(
            y, x, apply_class_balancing=balanced, alpha=0.25, gamma=gamma, from_logits=True, label_smoothing=smoothing
        ),
        "Log1p Pow Sigmoid",
        REALS,
        SHARE,
        balanced=BOOL,
        gamma=(2.0, 5.0),
        smoothing=SMOOTHING,
    ),
    # Where the sigmoid rounds to its label, 1 - 1 is taken to the power: in less than float64, from 17, 8 or 6 on.
    _of_labels(
        "keras_binary_focal_crossentropy_of_hard_labels",
        lambda x, *, label, gamma: tf.keras.losses.binary_focal_crossentropy(
            tf.zeros_like(x) + label, x, gamma=gamma, from_logits=True
        ),
        "Log1p Pow Sigmoid",
        label=(1.0, 0.0),
        gamma=(1.0, 0.5),
        modes=MODES,
        special=(CERTAIN_OF_LABEL,),
    ),
    _distribution(
        "keras_categorical_crossentropy",
        lambda x, y, *, axis, smoothing: tf.keras.losses.categorical_crossentropy(
            tf.nn.softmax(y, axis=axis), tf.identity(x), label_smoothing=smoothing, axis=axis
        ),
        "Log Maximum RealDiv",
        POSITIVE,
        REALS,
        smoothing=SMOOTHING,
        singular=_from_cut_of_share,
    ),
    _distribution(
        "keras_categorical_crossentropy_of_logits",
        lambda x, y, *, axis, smoothing: tf.keras.losses.categorical_crossentropy(
            tf.nn.softmax(y, axis=axis), x, from_logits=True, label_smoothing=smoothing, axis=axis
        ),
        "SoftmaxCrossEntropyWithLogits",
        smoothing=SMOOTHING,
        terms=1.0,
    ),
    _distribution(
        "keras_categorical_focal_crossentropy",
        lambda x, y, *, gamma, smoothing, axis: tf.keras.losses.categorical_focal_crossentropy(
            y, x, alpha=0.25, gamma=gamma, label_smoothing=smoothing, axis=axis
        ),
        "Log Pow Maximum RealDiv",
        POSITIVE,
        SHARE,
        starts=((1, 2), (1, 3), (2, 2), (2, 3)),
        gamma=(2.0, 1.0, 0.5),
        smoothing=SMOOTHING,
        singular=_from_cut_of_share,
    ),
    _distribution(
        "keras_categorical_focal_crossentropy_of_logits",
        lambda x, y, *, gamma, smoothing, axis: tf.keras.losses.categorical_focal_crossentropy(
            y, x, alpha=0.25, gamma=gamma, from_logits=True, label_smoothing=smoothing, axis=axis
        ),
        "Softmax Log Pow Maximum",
        REALS,
        SHARE,
        gamma=(2.0, 1.0, 0.5),
        smoothing=SMOOTHING,
        kinks=_from_cut_of_softmax,
    ),
    _labelled(
        "keras_sparse_categorical_crossentropy",
        lambda x, *, labels, ignored: tf.identity(
            tf.keras.losses.sparse_categorical_crossentropy(
                np.broadcast_to(labels, x.shape[:-1]), tf.identity(x), ignore_class=ignored
            )
        ),
        "Log Maximum SparseSoftmaxCrossEntropyWithLogits",
        PROBABILITY,
        ignored=(None, 0, -1),
        kinks=_from_cut_of_classes,
        singular=_from_cut_of_label,
    ),
    _labelled(
        "keras_sparse_categorical_crossentropy_of_logits",
        lambda x, *, labels, ignored: tf.identity(
            tf.keras.losses.sparse_categorical_crossentropy(
                np.broadcast_to(labels, x.shape[:-1]), x, from_logits=True, ignore_class=ignored
            )
        ),
        "SparseSoftmaxCrossEntropyWithLogits",
        ignored=(None, 0, -1),
        terms=1.0,
    ),
    _labelled(
        "keras_generalized_cross_entropy",
        lambda x, *, labels, q: tf.keras.losses.categorical_generalized_cross_entropy(
            np.broadcast_to(labels, x.shape[:-1]), x, q=q
        ),
        "Pow Sum",
        PROBABILITY,
        q=(0.5, 0.25, 0.9),
    ),
    _loss(
        "keras_dice",
        lambda x, y, *, axis: tf.keras.losses.dice(y, x, axis=axis),
        "RealDiv Sum",
        PROBABILITY,
        SHARE,
        batching=reduces_points,
        axis=reduced,
    ),
    _loss(
        "keras_tversky",
        lambda x, y, *, alpha, beta, axis: tf.keras.losses.tversky(y, x, alpha=alpha, beta=beta, axis=axis),
        "RealDiv Sum",
        PROBABILITY,
        SHARE,
        batching=reduces_points,
        reference=tversky_of_points,
        special=(UNEQUAL_WEIGHTS,),
        alpha=(0.5, 0.25),
        beta=(0.5, 1.0),
        axis=reduced,
    ),
)
