"""Rows of tables that are looked up, alone or combined, and losses over samples of the classes (`nn`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import norms
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import at_least
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Indices, Shapes
from gradcheck.typing import Array

_table = partial(
    operation,
    "nn",
    shapes=at_least(2, 1),
    starts=((2, 2), (3, 1), (3, 2)),
    ids=lambda shape, *_: Indices(3, shape[0]),
)
_combined = partial(_table, combiner=("mean", "sum", "sqrtn"))
_sampled = partial(
    operation,
    "nn",
    looped=True,
    shapes=at_least(2, 1),
    starts=((2, 1), (3, 1)),
    labels=lambda shape, *_: Indices(2, shape[0]),
    remove=BOOL,
)


def in_rows(values: Any, last: int) -> tf.SparseTensor:
    """Two values in the first row, and one in the last; those between are empty."""
    return tf.sparse.SparseTensor([[0, 0], [0, 1], [last, 0]], values, [last + 1, 2])


def of_table(ids: tuple[int, ...]) -> tf.Tensor:
    return tf.constant(ids, tf.int64)


def shortened(rows: tf.Tensor) -> tf.Tensor:
    """The rows with a norm of at most 1."""
    return rows / tf.maximum(tf.norm(rows, axis=-1, keepdims=True), 1.0)


def combined(rows: tf.Tensor, weights: tf.Tensor, combiner: str, empty: tf.Tensor | None = None) -> tf.Tensor:
    """The first two rows of every point, weighted, together; what stands for none, if anything does; the last row."""
    together = []
    for several, own in ((rows[:, :2], weights[:, :2]), (rows[:, 2:], weights[:, 2:])):
        powers = {"sum": 0.0 * own[:, :1] + 1.0, "mean": own, "sqrtn": own**2}[combiner]
        size = tf.reduce_sum(powers, axis=1, keepdims=True)
        total = tf.einsum("pkd,pk->pd", several, own)
        together.append(total / (tf.sqrt(size) if combiner == "sqrtn" else size))
    first, last = together
    return tf.stack([first, last] if empty is None else [first, empty, last], axis=1)


def two_samples(count: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The first two classes as the sample, and how often the labels and they were expected in it."""
    return tf.constant([0, 1], tf.int64), tf.fill([count, 1], np.float64(0.5)), tf.constant([0.25, 0.75], tf.float64)


def _biases_and_inputs(shape: Shape) -> Shapes:
    return [((shape[0],), (2, shape[1]))]


def _from_largest_norm(x: Array, *, ids: tuple[int, ...], **_attributes: Any) -> Array:
    """The norms of the rows that are looked up are to differ from 1, the largest that is let through."""
    return np.abs(norms(x[list(ids)]) - 1.0)


EMBEDDINGS = (
    _table(
        "embedding_lookup",
        lambda params, *, ids: tf.nn.embedding_lookup(params, ids),
        "GatherV2",
        batched=lambda params, *, ids: tf.gather(params, ids, axis=1),
    ),
    _table(
        "embedding_lookup_of_norm",
        lambda params, *, ids: tf.nn.embedding_lookup(params, ids, max_norm=1.0),
        "GatherV2 Maximum",
        batched=lambda params, *, ids: shortened(tf.gather(params, ids, axis=1)),
        kinks=_from_largest_norm,
    ),
    _combined(
        "embedding_lookup_sparse",
        lambda params, *, ids, combiner, fast: tf.nn.embedding_lookup_sparse(
            params, in_rows(of_table(ids), 1), None, combiner, allow_fast_lookup=fast
        ),
        "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN",
        looped=True,
        fast=BOOL,
    ),
    _combined(
        "embedding_lookup_sparse_weighted",
        lambda params, weights, *, ids, combiner: tf.nn.embedding_lookup_sparse(
            params, in_rows(of_table(ids), 1), in_rows(weights, 1), combiner
        ),
        "SegmentSum GatherV2",
        REALS,
        POSITIVE,
        batched=lambda params, weights, *, ids, combiner: combined(tf.gather(params, ids, axis=1), weights, combiner),
        others=lambda _shape: [((3,),)],
    ),
    _combined(
        "embedding_lookup_sparse_of_norm",
        lambda params, weights, *, ids, combiner: tf.nn.embedding_lookup_sparse(
            params, in_rows(of_table(ids), 1), in_rows(weights, 1), combiner, 1.0
        ),
        "SegmentSum GatherV2 Maximum",
        REALS,
        POSITIVE,
        batched=lambda params, weights, *, ids, combiner: combined(
            shortened(tf.gather(params, ids, axis=1)), weights, combiner
        ),
        others=lambda _shape: [((3,),)],
        kinks=lambda x, _weights, **attributes: _from_largest_norm(x, **attributes),
    ),
    _combined(
        "safe_embedding_lookup_sparse",
        lambda params, weights, *, ids, combiner, default: tf.nn.safe_embedding_lookup_sparse(
            params, in_rows(of_table(ids), 2), in_rows(weights, 2), combiner, default
        ),
        "SegmentSum GatherV2",
        REALS,
        POSITIVE,
        batched=lambda params, weights, *, ids, combiner, default: combined(
            tf.gather(params, ids, axis=1),
            weights,
            combiner,
            0.0 * params[:, 0] if default is None else params[:, default],
        ),
        others=lambda _shape: [((3,),)],
        default=(None, 0, 1),
    ),
    _sampled(
        "nce_loss",
        lambda weights, biases, inputs, *, labels, remove: tf.nn.nce_loss(
            weights, biases, of_table(labels)[:, tf.newaxis], inputs, 2, weights.shape[0], 1, two_samples(2), remove
        ),
        "GatherV2 MatMul Log1p",
        others=_biases_and_inputs,
    ),
    _sampled(
        "sampled_softmax_loss",
        lambda weights, biases, inputs, *, labels, remove: tf.nn.sampled_softmax_loss(
            weights, biases, of_table(labels)[:, tf.newaxis], inputs, 2, weights.shape[0], 1, two_samples(2), remove
        ),
        "GatherV2 MatMul SoftmaxCrossEntropyWithLogits",
        others=_biases_and_inputs,
        terms=1.0,
    ),
    operation(
        "nn",
        "stateless_dropout",
        lambda x, *, rate: tf.nn.experimental.stateless_dropout(x, rate, [1, 2]),
        "Mul",
        batched=lambda x, *, rate: tf.nn.experimental.stateless_dropout(x, rate, [1, 2], noise_shape=[1, *x.shape[1:]]),
        rate=(0.5, 0.25, 0.0),
    ),
    operation(
        "nn",
        "general_dropout",
        lambda x, *, rate: tf.nn.experimental.general_dropout(
            x, rate, lambda shape, dtype: tf.random.stateless_uniform(shape, [1, 2], dtype=dtype)
        ),
        "Mul",
        batched=lambda x, *, rate: tf.nn.experimental.general_dropout(
            x, rate, lambda shape, dtype: tf.random.stateless_uniform(shape, [1, 2], dtype=dtype), [1, *x.shape[1:]]
        ),
        rate=(0.5, 0.25),
    ),
)
