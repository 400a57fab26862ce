"""Activations and losses of Keras that have formulas of their own: one loss a row of predictions, and reductions."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import between, ties_of_largest
from gradcheck.hunt.catalogue.elementwise import LOGITS
from gradcheck.hunt.catalogue.language import operation, reduces_points
from gradcheck.hunt.catalogue.shapes import alike, at_least, vector
from gradcheck.hunt.opspec import BOOL, POSITIVE, REALS, Array, Indices, Interval

_nn = partial(operation, "nn")
_loss = partial(_nn, shapes=vector, others=alike, starts=((1, 2), (2, 2), (2,), (2, 1), (2, 3)))
_of_classes = partial(_loss, when=lambda shape: shape[-1] > 1, starts=((1, 2), (2, 2), (2,), (2, 3)))
_labelled = partial(
    _nn, shapes=at_least(1, 2), looped=True, labels=lambda shape: Indices(*shape), starts=((1, 2), (2, 2), (2, 3))
)

# Probabilities are cut off at 1e-7 and 1 - 1e-7. Where one is 0 or 1, that kink is closer than a step may be.
PROBABILITY = Interval(0.0, 1.0)
LABEL = Interval(-0.5, 1.5)
# Labels that all are 0 or 1 are taken for -1 and 1, with a jump.
MARGIN_LABEL = Interval(-2.0, 0.0)
SMOOTHING = (0.0, 0.1)


def _from_threshold(x: Array, slope: float, ceiling: float, threshold: float) -> Array:
    """Where relu jumps: above 0, its threshold is where the value does not begin."""
    return np.abs(x - threshold) if threshold else np.full(x.shape, np.inf)


def _from_bend(x: Array, slope: float, ceiling: float, threshold: float) -> Array:
    bends = [ceiling, *([] if threshold else [0.0])]
    return np.stack([np.abs(x - bend) for bend in bends])


KERAS_ACTIVATIONS = (
    _nn("keras_mish", "tf.keras.activations.mish({0})", "Softplus Tanh Mul"),
    _nn(
        "keras_relu",
        "tf.keras.activations.relu({0}, negative_slope={slope}, max_value={ceiling}, threshold={threshold})",
        slope=(0.0, 0.25),
        ceiling=(6.0, 2.0),
        threshold=(0.0, 1.0),
        kinks=_from_bend,
        singular=_from_threshold,
    ),
)


def _from_margin(labels: Array, predictions: Array) -> Array:
    return np.asarray(np.abs(1 - labels * predictions))


def _kinks_of_categorical_hinge(labels: Array, predictions: Array) -> Array:
    others = (1 - labels) * predictions
    margins = others.max(-1) - np.sum(labels * predictions, -1) + 1
    ties = np.where(margins[..., np.newaxis] > 0, ties_of_largest(others), np.inf)
    return np.concatenate([ties.ravel(), np.abs(margins).ravel()])


def _from_delta(labels: Array, predictions: Array, delta: float) -> Array:
    return np.asarray(np.abs(np.abs(labels - predictions) - delta))


def _from_unit_probability(*probabilities: Array) -> Array:
    return np.asarray(np.abs(np.stack(probabilities) - 1))


def _directions(labels: Array, predictions: Array) -> Array:
    """Lengths of rows: below 1e-7 they are not normalized."""
    return np.stack([np.linalg.norm(labels, axis=-1), np.linalg.norm(predictions, axis=-1)])


KERAS_LOSSES = (
    _loss("keras_mean_squared_error", "tf.keras.losses.mse({0}, {1})", "Mean Square Sub"),
    _loss("keras_mean_absolute_error", "tf.keras.losses.mae({0}, {1})", "Mean Abs Sub", kinks=between),
    # Percentages are of at least 1e-7, and kinks that close to 0 are closer than a step.
    _loss(
        "keras_mean_absolute_percentage_error",
        "tf.keras.losses.mape({0}, {1})",
        "Mean Abs Maximum RealDiv",
        POSITIVE,
        REALS,
        kinks=between,
    ),
    _loss(
        "keras_mean_squared_logarithmic_error",
        "tf.keras.losses.msle({0}, {1})",
        "Mean Square Log Maximum",
        POSITIVE,
    ),
    _loss(
        "keras_huber",
        "tf.keras.losses.huber({0}, {1}, delta={delta})",
        "Mean SelectV2 Square Abs",
        delta=(1.0, 0.5, 2.0),
        curvature_jumps=_from_delta,
    ),
    _loss("keras_log_cosh", "tf.keras.losses.logcosh({0}, {1})", "Mean Softplus Sub"),
    _loss("keras_poisson", "tf.keras.losses.poisson({0}, {1})", "Mean Log Mul", REALS, POSITIVE),
    _loss(
        "keras_kl_divergence",
        "tf.keras.losses.kld({0}, {1})",
        "Sum Log RealDiv",
        Interval(0.0, 1.5),
        kinks=_from_unit_probability,
    ),
    _loss(
        "keras_cosine_similarity",
        "tf.keras.losses.cosine_similarity({0}, {1})",
        "Sum Rsqrt Minimum",
        singular=_directions,
    ),
    _loss(
        "keras_hinge",
        "tf.keras.losses.hinge({0}, {1})",
        "Mean Maximum Mul",
        MARGIN_LABEL,
        REALS,
        kinks=_from_margin,
    ),
    _loss(
        "keras_squared_hinge",
        "tf.keras.losses.squared_hinge({0}, {1})",
        "Mean Maximum Square",
        MARGIN_LABEL,
        REALS,
        curvature_jumps=_from_margin,
    ),
    _of_classes(
        "keras_categorical_hinge",
        "tf.keras.losses.categorical_hinge({0}, {1})",
        "Maximum Max Sum",
        kinks=_kinks_of_categorical_hinge,
    ),
    _of_classes(
        "keras_categorical_crossentropy",
        "tf.keras.losses.categorical_crossentropy({0}, {1}, label_smoothing={smoothing})",
        "Sum Log RealDiv",
        REALS,
        POSITIVE,
        smoothing=SMOOTHING,
    ),
    _of_classes(
        "keras_categorical_crossentropy_of_logits",
        "tf.keras.losses.categorical_crossentropy("
        "tf.nn.softmax({0}), {1}, from_logits=True, label_smoothing={smoothing})",
        "SoftmaxCrossEntropyWithLogits Softmax",
        LOGITS,
        smoothing=SMOOTHING,
    ),
    _nn(
        "keras_categorical_crossentropy_of_label",
        "tf.keras.losses.categorical_crossentropy(tf.broadcast_to("
        "tf.one_hot({label}, {0}.shape[-1]), {0}.shape), {0}, from_logits=True, label_smoothing={smoothing})",
        "SoftmaxCrossEntropyWithLogits",
        LOGITS,
        shapes=vector,
        when=lambda shape: shape[-1] > 1,
        starts=((1, 2), (2, 2), (2,), (2, 3)),
        label=lambda shape: range(shape[-1]),
        smoothing=SMOOTHING,
    ),
    _of_classes(
        "keras_categorical_focal_crossentropy",
        "tf.keras.losses.categorical_focal_crossentropy({0}, {1}, gamma={gamma}, label_smoothing={smoothing})",
        "Sum Log RealDiv Pow",
        REALS,
        POSITIVE,
        gamma=(2.0, 1.0, 0.5, 0.0),
        smoothing=SMOOTHING,
    ),
    _of_classes(
        "keras_categorical_focal_crossentropy_of_logits",
        "tf.keras.losses.categorical_focal_crossentropy({0}, {1}, from_logits=True, gamma={gamma})",
        "Softmax Log Pow",
        REALS,
        LOGITS,
        gamma=(2.0, 1.0, 0.5),
    ),
    _loss(
        "keras_binary_crossentropy",
        "tf.keras.losses.binary_crossentropy({0}, {1}, label_smoothing={smoothing})",
        "Mean Log Sub",
        REALS,
        PROBABILITY,
        smoothing=SMOOTHING,
    ),
    _loss(
        "keras_binary_crossentropy_of_logits",
        "tf.keras.losses.binary_crossentropy({0}, {1}, from_logits=True, label_smoothing={smoothing})",
        "Mean Log1p Exp",
        smoothing=SMOOTHING,
    ),
    _loss(
        "keras_binary_focal_crossentropy",
        "tf.keras.losses.binary_focal_crossentropy({0}, {1}, apply_class_balancing={balanced}, gamma={gamma})",
        "Mean Log Pow",
        LABEL,
        PROBABILITY,
        balanced=BOOL,
        gamma=(2.0, 1.0, 0.0),
    ),
    _loss(
        "keras_binary_focal_crossentropy_of_logits",
        "tf.keras.losses.binary_focal_crossentropy({0}, {1}, from_logits=True, label_smoothing={smoothing})",
        "Mean Log1p Pow Sigmoid",
        LABEL,
        LOGITS,
        smoothing=SMOOTHING,
    ),
    _labelled(
        "keras_sparse_categorical_crossentropy",
        "tf.keras.losses.sparse_categorical_crossentropy(tf.constant({labels}), {0}, ignore_class={ignored})",
        "SparseSoftmaxCrossEntropyWithLogits Log",
        PROBABILITY,
        ignored=(None, 0),
    ),
    _labelled(
        "keras_sparse_categorical_crossentropy_of_logits",
        "tf.keras.losses.sparse_categorical_crossentropy("
        "tf.constant({labels}), {0}, from_logits=True, ignore_class={ignored})",
        "SparseSoftmaxCrossEntropyWithLogits",
        LOGITS,
        ignored=(None, 0),
    ),
    _labelled(
        "keras_categorical_generalized_cross_entropy",
        "tf.keras.losses.categorical_generalized_cross_entropy(tf.constant({labels}), {0}, {q})",
        "Pow Sum RealDiv",
        POSITIVE,
        q=(0.5, 0.7),
    ),
    # Rows are embeddings of length 1 at most, as far from each other that no weight is cut off.
    _labelled(
        "keras_circle",
        "tf.keras.losses.circle({labels}, {0}, gamma={gamma})",
        "Softplus Maximum",
        Interval(-0.4, 0.4),
        starts=((2, 2), (3, 2)),
        when=lambda shape: shape[0] in (2, 3) and shape[1] == 2,
        labels=lambda shape: Indices(shape[0], 2),
        gamma=(2.0, 80.0),
    ),
    *(
        _loss(
            f"keras_{name}",
            f"tf.keras.losses.{text}",
            "Sum RealDiv Mul",
            POSITIVE,
            batching=reduces_points,
            axis=lambda shape, _other: (None, -1, *((0,) if len(shape) > 1 else ())),
        )
        for name, text in (
            ("dice", "dice({0}, {1}, axis={axis})"),
            ("tversky", "tversky({0}, {1}, alpha=0.25, beta=2.0, axis={axis})"),
        )
    ),
    _loss(
        "keras_reduced_loss",
        "tf.keras.losses.MeanSquaredError(reduction={reduction}, dtype='float64')({0}, {1}, sample_weight={2})",
        "Square Sub Mul",
        REALS,
        REALS,
        POSITIVE,
        looped=True,
        starts=((1, 2), (2, 2), (2, 1)),
        when=lambda shape: len(shape) == 2,
        others=lambda shape: [(shape, shape[:1])],
        reduction=("sum_over_batch_size", "sum", "none", "mean", "mean_with_sample_weight"),
    ),
    _loss(
        "keras_huber_loss",
        "tf.keras.losses.Huber(delta=0.5, reduction={reduction}, dtype='float64')({0}, {1})",
        "Square SelectV2",
        looped=True,
        starts=((1, 2), (2, 2), (2, 1)),
        when=lambda shape: len(shape) == 2,
        reduction=("sum_over_batch_size", "mean"),
        curvature_jumps=lambda t, p, reduction: _from_delta(t, p, 0.5),
    ),
)
