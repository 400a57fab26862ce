"""Losses of `keras.losses` of probabilities and of classes (family `nn`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.mode import MODES
from gradcheck.hunt.catalogue.distances import at
from gradcheck.hunt.catalogue.keras_losses import EPSILON, STARTS
from gradcheck.hunt.catalogue.language import along_axis, operation, reduces_points, tf
from gradcheck.hunt.catalogue.shapes import alike, axes, reduced, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array, Indices, Interval

PROBABILITY = Interval(0.0, 1.0)
CLASSES = ((1, 2), (2, 2), (2, 3), (1, 3), (1, 4))
SHARE = Interval(0.0, 1.0, closed=True)
SMOOTHING = (0.0, 0.25)

_loss = partial(operation, "nn", shapes=vector, others=alike, starts=STARTS)
_of_labels = partial(operation, "nn", shapes=vector, starts=STARTS)
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
        alpha=(0.5, 0.25),
        beta=(0.5, 1.0),
        axis=reduced,
    ),
)
