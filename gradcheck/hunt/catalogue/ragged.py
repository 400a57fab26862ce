"""Ragged tensors (family `ragged`): the values are the arguments, the lengths of the rows are constants."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import vector
from gradcheck.hunt.opspec import BOOL

# The second row is empty; the leading dimension of points follows the values.
ROWS = "tf.RaggedTensor.from_row_splits({0}, [0, 2, 2, 3])"


def padded_rows(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The dense form of `ROWS` at every point."""
    rows = [[values[:, 0], values[:, 1]], [default, default], [values[:, 2], default]]
    return tf.stack([tf.stack(row, 1) for row in rows], 1)


NESTED = "tf.RaggedTensor.from_nested_row_splits({0}, ([0, 1, 1, 3], [0, 2, 2, 3]))"
"""The second matrix is empty, and a row of the third."""


def in_variants(values: tf.Tensor, lists: bool, ragged: int) -> tf.Tensor:
    """The values there and back: as one variant of the whole, or as a list of those of its rows or matrices."""
    splits = [[0, 2, 2, 3]] if ragged == 1 else [[0, 1, 1, 3], [0, 2, 2, 3]]
    rows = tf.RaggedTensor.from_nested_row_splits(values, splits)
    return tf.RaggedTensor._from_variant(rows._to_variant(lists), values.dtype, ragged, ragged - lists).flat_values


def padded_matrices(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The dense form of `NESTED` at every point."""
    for _missing in range(len(values.shape) - 1 - len(default.shape)):
        default = default[:, tf.newaxis]
    first, second, third, none = (*tf.unstack(values, axis=1), default + 0.0 * values[:, 0])
    matrices = [[[first, second], [none] * 2], [[none] * 2] * 2, [[none] * 2, [third, none]]]
    return tf.stack([tf.stack([tf.stack(row, 1) for row in matrix], 1) for matrix in matrices], 1)


_ragged = partial(operation, "ragged", shapes=vector, when=lambda shape: shape[0] == 3, starts=((3,), (3, 2)))

RAGGED = (
    _ragged(
        "ragged_to_tensor",
        f"{ROWS}.to_tensor({{1}})",
        "RaggedTensorToTensor",
        batched=padded_rows,
        others=lambda shape: [(shape[1:],)],
    ),
    _ragged(
        "ragged_gather",
        f"tf.gather({ROWS}, [0, 0, 2, 1]).values",
        "RaggedGather",
        batched="tf.gather({0}, [0, 1, 0, 1, 2], axis=1)",
    ),
    _ragged(
        "ragged_gather_nested",
        f"tf.gather({NESTED}, {{rows}}).flat_values",
        "RaggedGather",
        batched="tf.gather({0}, [at for row in {rows} for at in ([0, 1], [], [2])[row]], axis=1)",
        rows=((2, 0, 0, 1), (0, 2), (0,), (2, 2)),
    ),
    _ragged(
        "ragged_to_tensor_nested",
        f"{NESTED}.to_tensor({{1}})",
        "RaggedTensorToTensor",
        batched=padded_matrices,
        others=lambda shape: [(shape[1:],), ((),)],
    ),
    _ragged(
        "ragged_to_sparse",
        f"{ROWS}.to_sparse().values",
        "RaggedTensorToSparse",
        batched="tf.reshape({0}, [{0}.shape[0], -1])",
    ),
    # RaggedTensorToVariantGradient has no registered gradient.
    _ragged(
        "ragged_to_variant",
        "in_variants({0}, {lists}, {ragged})",
        "RaggedTensorToVariant RaggedTensorFromVariant",
        batched=lambda x, *, lists, ragged: x,
        lists=BOOL,
        ragged=(1, 2),
        orders=(1,),
    ),
    _ragged(
        "ragged_fill_empty_rows",
        "tf.raw_ops.RaggedFillEmptyRows(value_rowids=np.int64([0, 0, 2]), values={0}, nrows=np.int64(3), "
        "default_value={1}).output_values",
        "RaggedFillEmptyRows",
        when=lambda shape: shape == (3,),
        others=lambda _shape: [((),)],
        starts=((3,),),
        batched="tf.concat([{0}[:, :2], {1}[:, tf.newaxis], {0}[:, 2:]], axis=1)",
    ),
)
