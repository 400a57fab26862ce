"""Sparse and ragged tensors reshaped, masked, mapped and stacked (`sparse`, `ragged`): the values are the arguments."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.ragged import ragged_rows
from gradcheck.hunt.catalogue.shapes import at_least, nonempty_matrix
from gradcheck.hunt.catalogue.sparse import matrix
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Indices, Shapes

_of_values = partial(operation, "sparse", when=lambda shape: shape == (3,), starts=((3,),))
_in_dense = partial(_of_values, looped=True)
_ragged = partial(operation, "ragged", shapes=at_least(1), starts=((3,), (2,)))


def _factors(_values: Shape) -> Shapes:
    return [((2, inner), (inner, 3)) for inner in (2, 1)]


SPARSE_FORMS = (
    _in_dense(
        "sparse_expand_dims",
        lambda x, *, axis: tf.sparse.to_dense(tf.sparse.expand_dims(matrix(x), axis)),
        "SparseToDense",
        axis=(-1, 0, 1),
    ),
    _in_dense(
        "sparse_reshape",
        lambda x, *, shape: tf.sparse.to_dense(tf.sparse.reshape(matrix(x), shape)),
        "SparseToDense",
        shape=((3, 2), (6,)),
    ),
    _in_dense(
        "sparse_reset_shape",
        lambda x, *, shape: tf.sparse.to_dense(tf.sparse.reset_shape(matrix(x), shape)),
        "SparseToDense",
        shape=((3, 4), (2, 3), None),
    ),
    _of_values(
        "sparse_map_values",
        lambda x: tf.sparse.map_values(tf.sin, matrix(x)).values,
        "Sin",
        batched=lambda x: tf.sin(x),
    ),
    _of_values(
        "sparse_retain",
        lambda x, *, kept: tf.sparse.retain(matrix(x), [True, kept, True]).values,
        "GatherV2",
        batched=lambda x, *, kept: tf.gather(x, [0, 1, 2] if kept else [0, 2], axis=1),
        kept=BOOL,
    ),
    _of_values(
        "sparse_mask",
        lambda x, *, dropped: tf.sparse.mask(tf.IndexedSlices(x, [0, 4, 1]), [dropped, 7]).values,
        "GatherV2",
        batched=lambda x, *, dropped: tf.gather(
            x, [row for row, index in enumerate([0, 4, 1]) if index != dropped], axis=1
        ),
        dropped=(0, 4, 1),
    ),
    operation(
        "sparse",
        "sparse_from_dense",
        lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)),
        "GatherNd SparseToDense",
        batched=lambda x: x,
        shapes=nonempty_matrix,
        starts=((2, 2), (2, 3), (1, 2)),
    ),
    _in_dense(
        "sampled_addmm",
        lambda x, y, z, *, beta, alpha: tf.sparse.sampled_addmm(
            [[0, 0], [0, 2], [1, 0]], x, [2, 3], y, z, beta, alpha, tf.float64
        )[1],
        "GatherNd Mul Sum",
        others=_factors,
        alpha=(1.0, -2.0),
        beta=(1.0, 0.5),
    ),
)

RAGGED_FORMS = (
    operation(
        "ragged",
        "ragged_map_flat_values",
        lambda x: tf.ragged.map_flat_values(tf.sin, ragged_rows(x)).values,
        "Sin",
        batched=lambda x: tf.sin(x),
        shapes=at_least(3),
        when=lambda shape: shape == (3,),
        starts=((3,),),
    ),
    _ragged(
        "ragged_stack",
        lambda x, y: tf.ragged.stack([x, y, x]).values,
        "ConcatV2",
        batched=lambda x, y: tf.concat([x, y, x], axis=1),
        others=lambda _shape: [((2,),), ((1,),)],
    ),
    _ragged(
        "ragged_stack_dynamic_partitions",
        lambda x, *, rows: tf.ragged.stack_dynamic_partitions(x, rows, 3).to_tensor(1.0),
        "GatherV2 RaggedTensorToTensor",
        looped=True,
        rows=lambda shape: Indices(shape[0], 3),
    ),
    operation(
        "ragged",
        "ragged_boolean_mask",
        lambda x, *, dropped: (
            tf.ragged.boolean_mask(x, [[column != dropped for column in range(x.shape[1])]] * x.shape[0]).values
        ),
        "GatherV2",
        looped=True,
        shapes=at_least(1, 2),
        starts=((2, 2), (1, 2), (2, 3)),
        dropped=(0, 1),
    ),
)
