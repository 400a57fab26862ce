"""Losses of logits and of sequences (family `nn`).

CTC adds logarithms in single precision: differences are taken of a formula in float64.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.opspec import BOOL

_nn = partial(operation, "nn")
_logits = partial(_nn, when=lambda shape: len(shape) > 1 and shape[-1] > 0, starts=((1, 2), (2, 2), (2, 3), (1, 3)))


def sequence_collapsing_to_label(x: tf.Tensor, *, label: int, merged: bool = True, **_ways: bool) -> tf.Tensor:
    """Minus the log of the probability that the classes collapse to one label; the last class is the blank.

    The label stands from step i to step j >= i, blanks before and after it; if repetitions are not merged, at i alone.
    """
    log_p = tf.nn.log_softmax(x)
    gain = log_p[..., label] - log_p[..., -1]
    total = tf.cumsum(gain, -1)
    spans = total[..., tf.newaxis, :] - total[..., :, tf.newaxis] + gain[..., :, tf.newaxis]
    ordered = tf.linalg.band_part(tf.ones([x.shape[-2]] * 2), 0, -1 if merged else 0) > 0
    return -tf.reduce_sum(log_p[..., -1], -1) - tf.reduce_logsumexp(tf.where(ordered, spans, -np.inf), [-2, -1])


_ctc = partial(
    _nn,
    looped=True,
    shapes=at_least(3, 2),
    starts=((3, 2), (3, 3), (4, 3)),
    label=lambda shape: range(shape[1] - 1),
    reference=sequence_collapsing_to_label,
    # Also of float64, logarithms of sums are taken in float32 (ctc_loss_util.h): a few units of 2**-24 a step.
    rtol=1e-6,
)

LOSSES = (
    _nn(
        "l2_loss",
        lambda x: tf.nn.l2_loss(x),
        "L2Loss",
        batched=lambda x: tf.reduce_sum(tf.square(x), axis=tuple(range(1, len(x.shape)))) / 2,
    ),
    _logits(
        "softmax_cross_entropy",
        lambda x, y: tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(x), logits=y),
        "SoftmaxCrossEntropyWithLogits Softmax",
        others=alike,
        terms=1.0,
    ),
    _logits(
        "softmax_cross_entropy_of_logits",
        lambda x, *, label: tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(tf.one_hot(label, x.shape[-1], dtype=tf.float64), x.shape), logits=x
        ),
        "SoftmaxCrossEntropyWithLogits",
        label=lambda shape: range(shape[-1]),
        terms=1.0,
    ),
    _nn(
        "sigmoid_cross_entropy",
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=y),
        "Select Log1p Exp",
        others=alike,
    ),
    _ctc(
        "ctc_loss",
        lambda x, *, label, collapsed, merged, ignored: tf.raw_ops.CTCLoss(
            inputs=x[:, tf.newaxis],
            labels_indices=[[0, 0]],
            labels_values=[label],
            sequence_length=[x.shape[0]],
            preprocess_collapse_repeated=collapsed,
            ctc_merge_repeated=merged,
            ignore_longer_outputs_than_inputs=ignored,
        ).loss[0],
        collapsed=BOOL,
        merged=(True, False),
        ignored=BOOL,
    ),
    _ctc(
        "ctc_loss_dense",
        lambda x, *, label: tf.cast(
            tf.nn.ctc_loss([[label]], tf.cast(x, tf.float32)[:, tf.newaxis], [1], [x.shape[0]], blank_index=-1)[0],
            tf.float64,
        ),
        "Cast",
    ),
)
