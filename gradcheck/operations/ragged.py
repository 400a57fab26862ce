"""Ragged tensors (family `ragged`): the values are the arguments, the lengths of the rows are constants."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import vector
from gradcheck.operations.spec import BOOL, Formula, Shapes

# The second row is empty; the leading dimension of points follows the values.
ragged_rows: Formula = lambda values: tf.RaggedTensor.from_row_splits(values, [0, 2, 2, 3])


def filled(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The default of every point in the shape of one of its values."""
    missing = len(values.shape) - 1 - len(default.shape)
    return tf.broadcast_to(tf.reshape(default, [-1, *[1] * missing, *default.shape[1:]]), tf.shape(values[:, 0]))


def padded_rows(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The dense form of `ragged_rows` at every point."""
    first, second, third = tf.unstack(values, axis=1)
    none = filled(values, default)
    rows = [[first, second], [none, none], [third, none]]
    return tf.stack([tf.stack(row, 1) for row in rows], 1)


ragged_matrices: Formula = lambda values: tf.RaggedTensor.from_nested_row_splits(values, ([0, 1, 1, 3], [0, 2, 2, 3]))
"""The second matrix is empty, and a row of the third."""


def in_variants(values: tf.Tensor, lists: bool, ragged: int) -> tf.Tensor:
    """The values there and back: as one variant of the whole, or as a list of those of its rows or matrices, if any."""
    splits = [np.array(each, np.int64) for each in ([], [[0, 2, 2, 3]], [[0, 1, 1, 2], [0, 2, 3]])[ragged]]
    lists = lists and ragged > 0
    variant = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=splits, rt_dense_values=values, batched_input=lists)
    return tf.raw_ops.RaggedTensorFromVariant(
        encoded_ragged=variant,
        input_ragged_rank=ragged - lists,
        output_ragged_rank=ragged,
        Tvalues=values.dtype,
        Tsplits=tf.int64,
    ).output_dense_values


def padded_matrices(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The dense form of `ragged_matrices` at every point."""
    first, second, third = tf.unstack(values, axis=1)
    none = filled(values, default)
    matrices = [[[first, second], [none] * 2], [[none] * 2] * 2, [[none] * 2, [third, none]]]
    return tf.stack([tf.stack([tf.stack(row, 1) for row in matrix], 1) for matrix in matrices], 1)


def _defaults(shape: Shape) -> Shapes:
    """A default as a value is, one for all of its elements, and one of size 1."""
    return [(other,) for other in dict.fromkeys([shape[1:], (), (1,) * len(shape[1:])])]


_ragged = partial(operation, "ragged", shapes=vector, when=lambda shape: shape[0] == 3, starts=((3,), (3, 2)))

RAGGED = (
    _ragged(
        "ragged_to_tensor",
        lambda values, default: ragged_rows(values).to_tensor(default),
        "RaggedTensorToTensor",
        batched=padded_rows,
        others=_defaults,
    ),
    _ragged(
        "ragged_gather",
        lambda values: tf.gather(ragged_rows(values), [0, 0, 2, 1]).values,
        "RaggedGather",
        batched=lambda values: tf.gather(values, [0, 1, 0, 1, 2], axis=1),
    ),
    _ragged(
        "ragged_gather_nested",
        lambda values, *, rows: tf.gather(ragged_matrices(values), rows).flat_values,
        "RaggedGather",
        batched=lambda values, *, rows: tf.gather(
            values, [at for row in rows for at in ([0, 1], [], [2])[row]], axis=1
        ),
        rows=((2, 0, 0, 1), (0, 2), (0,), (2, 2)),
    ),
    _ragged(
        "ragged_to_tensor_nested",
        lambda values, default: ragged_matrices(values).to_tensor(default),
        "RaggedTensorToTensor",
        batched=padded_matrices,
        others=_defaults,
    ),
    _ragged(
        "ragged_to_sparse",
        lambda values: ragged_rows(values).to_sparse().values,
        "RaggedTensorToSparse",
        batched=lambda values: tf.reshape(values, [values.shape[0], -1]),
    ),
    _ragged(
        "ragged_to_variant",
        lambda values, *, lists, ragged: in_variants(values, lists, ragged),
        "RaggedTensorToVariant RaggedTensorFromVariant",
        batched=lambda x, *, lists, ragged: x,
        lists=BOOL,
        ragged=(1, 2, 0),
    ),
    _ragged(
        "ragged_fill_empty_rows",
        lambda values, default: (
            tf.raw_ops.RaggedFillEmptyRows(
                value_rowids=np.array([0, 0, 2], np.int64), values=values, nrows=np.int64(3), default_value=default
            ).output_values
        ),
        "RaggedFillEmptyRows",
        when=lambda shape: shape == (3,),
        others=lambda _shape: [((),)],
        starts=((3,),),
        batched=lambda values, default: tf.concat([values[:, :2], default[:, tf.newaxis], values[:, 2:]], axis=1),
    ),
)
