"""Sparse and ragged tensors reshaped, masked, mapped and stacked (`sparse`, `ragged`): the values are the arguments."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.ragged import ROWS
from gradcheck.hunt.catalogue.shapes import at_least, nonempty_matrix
from gradcheck.hunt.catalogue.sparse import MATRIX
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
        f"tf.sparse.to_dense(tf.sparse.expand_dims({MATRIX}, {{axis}}))",
        "SparseToDense",
        axis=(-1, 0, 1),
    ),
    _in_dense(
        "sparse_reshape",
        f"tf.sparse.to_dense(tf.sparse.reshape({MATRIX}, {{shape}}))",
        "SparseToDense",
        shape=((3, 2), (6,)),
    ),
    _in_dense(
        "sparse_reset_shape",
        f"tf.sparse.to_dense(tf.sparse.reset_shape({MATRIX}, {{shape}}))",
        "SparseToDense",
        shape=((3, 4), (2, 3), None),
    ),
    _of_values("sparse_map_values", f"tf.sparse.map_values(tf.sin, {MATRIX}).values", "Sin", batched="tf.sin({0})"),
    _of_values(
        "sparse_retain",
        f"tf.sparse.retain({MATRIX}, [True, {{kept}}, True]).values",
        "GatherV2",
        batched="tf.gather({0}, [0, 1, 2] if {kept} else [0, 2], axis=1)",
        kept=BOOL,
    ),
    _of_values(
        "sparse_mask",
        "tf.sparse.mask(tf.IndexedSlices({0}, [0, 4, 1]), [{dropped}, 7]).values",
        "GatherV2",
        batched="tf.gather({0}, [row for row, index in enumerate([0, 4, 1]) if index != {dropped}], axis=1)",
        dropped=(0, 4, 1),
    ),
    operation(
        "sparse",
        "sparse_from_dense",
        "tf.sparse.to_dense(tf.sparse.from_dense({0}))",
        "GatherNd SparseToDense",
        batched="{0}",
        shapes=nonempty_matrix,
        starts=((2, 2), (2, 3), (1, 2)),
    ),
    _in_dense(
        "sampled_addmm",
        "tf.sparse.sampled_addmm([[0, 0], [0, 2], [1, 0]], {0}, [2, 3], {1}, {2}, {beta}, {alpha}, tf.float64)[1]",
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
        f"tf.ragged.map_flat_values(tf.sin, {ROWS}).values",
        "Sin",
        batched="tf.sin({0})",
        shapes=at_least(3),
        when=lambda shape: shape == (3,),
        starts=((3,),),
    ),
    _ragged(
        "ragged_stack",
        "tf.ragged.stack([{0}, {1}, {0}]).values",
        "ConcatV2",
        batched="tf.concat([{0}, {1}, {0}], axis=1)",
        others=lambda _shape: [((2,),), ((1,),)],
    ),
    _ragged(
        "ragged_stack_dynamic_partitions",
        "tf.ragged.stack_dynamic_partitions({0}, {rows}, 3).to_tensor(1.0)",
        "GatherV2 RaggedTensorToTensor",
        looped=True,
        rows=lambda shape: Indices(shape[0], 3),
    ),
    operation(
        "ragged",
        "ragged_boolean_mask",
        "tf.ragged.boolean_mask({0}, [[column != {dropped} for column in range({0}.shape[1])]] * {0}.shape[0]).values",
        "GatherV2",
        looped=True,
        shapes=at_least(1, 2),
        starts=((2, 2), (1, 2), (2, 3)),
        dropped=(0, 1),
    ),
)
