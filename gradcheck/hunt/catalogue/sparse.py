"""Sparse and ragged tensors (families `sparse`, `ragged`): the values are the arguments, their places are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gradcheck.hunt.catalogue.elementwise import LOGITS
from gradcheck.hunt.catalogue.language import tf
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    REALS,
    Attribute,
    Form,
    Indices,
    Interval,
    OpSpec,
    Rule,
    between,
    nonempty_matrix,
    only_if,
    vector,
)

_sparse: Callable[..., OpSpec] = partial(OpSpec, family="sparse")
_three_rows = only_if(lambda shape: shape[:1] == (3,) and all(shape))
_ragged: Callable[..., OpSpec] = partial(OpSpec, family="ragged", shapes=_three_rows, starts=((3,), (3, 2)))

AWAY_FROM_ZERO = Interval(0.25, 8.0)
MATRIX = "tf.sparse.SparseTensor([[0, 0], [0, 2], [1, 0]], {0}, [2, 3])"
CSR = "tf.raw_ops.DenseToCSRSparseMatrix(dense_input={0}, indices=[[0, 0], [0, 2], [1, 0]])"


def place_of_each_value(points: int) -> tf.Tensor:
    return tf.where(tf.tile([[[1, 0, 1], [1, 0, 0]]], [points, 1, 1]))


def stacked(values: tf.Tensor) -> tf.SparseTensor:
    """The matrices of all points as one sparse tensor of rank 3."""
    points = values.shape[0]
    return tf.sparse.SparseTensor(place_of_each_value(points), tf.reshape(values, [-1]), [points, 2, 3])


def compressed(matrices: tf.Tensor) -> tf.Tensor:
    """The values of dense matrices at the pattern's places as a stack of compressed sparse rows."""
    places = place_of_each_value(matrices.shape[0])
    return tf.raw_ops.DenseToCSRSparseMatrix(dense_input=matrices, indices=places)


def _first(shape: Shape, *others: Shape) -> Rule:
    return lambda first: [(first, *others)] if first == shape else []


def _of_values(
    name: str,
    text: str,
    gradients: tuple[str, ...],
    *others: Shape,
    batched: Form | None = None,
    orders: tuple[int, ...] = (1, 2),
) -> OpSpec:
    """An operation on the sparse matrix `MATRIX` of three values; `batched` works on `stacked` matrices."""
    return _sparse(
        name,
        text.replace("MATRIX", MATRIX),
        gradients,
        arity=1 + len(others),
        batched=batched,
        shapes=_first((3,), *others),
        starts=((3,),),
        domains=(REALS,),
        orders=orders,
    )


def _segments(shape: Shape) -> Mapping[str, Attribute]:
    return {"indices": Indices(3, shape[0]), "segments": Indices(3, 3, sorted=True)}


def _segmented(name: str, function: str, gradient: str, last: str = "") -> OpSpec:
    """A sum of picked rows; batched, the points change places with the rows."""
    swapped = "tf.experimental.numpy.swapaxes({0}, 0, 1)"
    call = f"{function}({{0}}, {{indices}}, {{segments}}{last})"
    return _sparse(
        name,
        call,
        (gradient,),
        batched=swapped.replace("{0}", call.replace("{0}", swapped)),
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
        attributes=_segments,
        orders=(1,),  # the operations of the gradients, SparseSegmentSumGrad and the like, have no registered gradients
    )


SPARSE_SEGMENTS = (
    _segmented("sparse_segment_sum", "tf.sparse.segment_sum", "SparseSegmentSum"),
    _segmented("sparse_segment_mean", "tf.sparse.segment_mean", "SparseSegmentMean"),
    _segmented("sparse_segment_sqrt_n", "tf.sparse.segment_sqrt_n", "SparseSegmentSqrtN"),
    _segmented("sparse_segment_sum_of_4", "tf.sparse.segment_sum", "SparseSegmentSumWithNumSegments", ", 4"),
    _segmented("sparse_segment_mean_of_4", "tf.sparse.segment_mean", "SparseSegmentMeanWithNumSegments", ", 4"),
    _segmented("sparse_segment_sqrt_n_of_4", "tf.sparse.segment_sqrt_n", "SparseSegmentSqrtNWithNumSegments", ", 4"),
)

MATRICES = (
    _of_values(
        "sparse_to_dense",
        "tf.sparse.to_dense(MATRIX)",
        ("SparseToDense",),
        batched=lambda x: tf.sparse.to_dense(stacked(x)),
    ),
    _of_values(
        "sparse_reduce_sum",
        "tf.sparse.reduce_sum(MATRIX, axis=-1)",
        ("SparseReduceSum",),
        batched=lambda x: tf.sparse.reduce_sum(stacked(x), axis=-1),
    ),
    _of_values(
        "sparse_softmax",
        "tf.sparse.softmax(MATRIX).values",
        ("SparseSoftmax",),
        batched=lambda x: tf.reshape(tf.sparse.softmax(stacked(x)).values, x.shape),
    ),
    _of_values(
        "sparse_reorder",
        "tf.sparse.reorder(tf.sparse.SparseTensor([[1, 0], [0, 2], [0, 0]], {0}, [2, 3])).values",
        ("SparseReorder",),
        batched="{0}[:, ::-1]",
    ),
    _of_values(
        "sparse_transpose",
        "tf.sparse.transpose(MATRIX).values",
        ("SparseReorder",),
        batched=lambda x: tf.reshape(tf.sparse.transpose(stacked(x), [0, 2, 1]).values, x.shape),
    ),
    _of_values(
        "sparse_slice",
        "tf.sparse.slice(MATRIX, [0, 0], [1, 3]).values",
        ("SparseSlice",),
        batched=lambda x: tf.reshape(
            tf.sparse.slice(stacked(x), [0, 0, 0], [x.shape[0], 1, 3]).values, [x.shape[0], 2]
        ),
        orders=(1,),  # SparseSliceGrad has no registered gradient
    ),
    _of_values(
        "sparse_fill_empty_rows",
        "tf.sparse.fill_empty_rows(tf.sparse.SparseTensor([[0, 0], [0, 2], [2, 0]], {0}, [3, 3]), {1})[0].values",
        ("SparseFillEmptyRows",),
        (),
        batched="tf.concat([{0}[:, :2], {1}[:, tf.newaxis], {0}[:, 2:]], axis=1)",
        orders=(1,),  # SparseFillEmptyRowsGrad has no registered gradient
    ),
    _of_values(
        "sparse_dense_matmul",
        "tf.sparse.sparse_dense_matmul(MATRIX, {1})",
        ("SparseTensorDenseMatMul",),
        (3, 2),
        batched=lambda x, y: tf.sparse.to_dense(stacked(x)) @ y,
    ),
    _of_values(
        "sparse_dense_add",
        "tf.sparse.add(MATRIX, {1})",
        ("SparseTensorDenseAdd",),
        (2, 3),
        batched=lambda x, y: tf.sparse.add(stacked(x), y),
    ),
    _of_values(
        "sparse_dense_mul",
        "(MATRIX * {1}).values",
        ("SparseDenseCwiseMul",),
        (2, 3),
        batched=lambda x, y: tf.reshape((stacked(x) * y).values, x.shape),
    ),
    _of_values(
        "sparse_add",
        "tf.sparse.add(MATRIX, tf.sparse.SparseTensor([[0, 2], [1, 1]], {1}, [2, 3])).values",
        ("SparseAdd",),
        (2,),
        batched="tf.stack([{0}[:, 0], {0}[:, 1] + {1}[:, 0], {0}[:, 2], {1}[:, 1]], axis=-1)",
    ),
)


def _extreme(name: str, gradient: str) -> OpSpec:
    """The larger or the smaller of two sparse matrices of one pattern, place by place."""
    return _sparse(
        name,
        f"tf.sparse.{name.removeprefix('sparse_')}({MATRIX}, {MATRIX.replace('{0}', '{1}')}).values",
        (gradient,),
        arity=2,
        batched=f"tf.{name.removeprefix('sparse_')}({{0}}, {{1}})",
        shapes=_first((3,), (3,)),
        starts=((3,),),
        kinks=between,
    )


SPARSE = (
    _sparse(
        "sparse_softmax_cross_entropy",
        "tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.broadcast_to({labels}, {0}.shape[:-1]), logits={0})",
        ("SparseSoftmaxCrossEntropyWithLogits",),
        shapes=nonempty_matrix,
        starts=((1, 2), (2, 2), (2, 3), (2, 1, 2)),
        attributes=lambda shape: {"labels": Indices(shape[-2], shape[-1])},
        domains=(LOGITS,),
    ),
    *SPARSE_SEGMENTS,
    *MATRICES,
    _sparse(
        "sparse_dense_div",
        f"({MATRIX} / {{1}}).values",
        ("SparseDenseCwiseDiv",),
        arity=2,
        batched=lambda x, y: tf.reshape((stacked(x) / y).values, x.shape),
        shapes=_first((3,), (2, 3)),
        starts=((3,),),
        domains=(REALS, AWAY_FROM_ZERO),
    ),
    _sparse(
        "csr_matrix_to_dense",
        f"tf.raw_ops.CSRSparseMatrixToDense(sparse_input={CSR}, type=tf.float64)",
        ("DenseToCSRSparseMatrix", "CSRSparseMatrixToDense"),
        batched=lambda x: tf.raw_ops.CSRSparseMatrixToDense(sparse_input=compressed(x), type=tf.float64),
        shapes=_first((2, 3)),
        starts=((2, 3),),
    ),
    _sparse(
        "csr_matrix_matmul",
        f"tf.raw_ops.SparseMatrixMatMul(a={CSR}, b={{1}})",
        ("SparseMatrixMatMul", "DenseToCSRSparseMatrix"),
        arity=2,
        batched=lambda x, y: tf.raw_ops.SparseMatrixMatMul(a=compressed(x), b=y),
        shapes=_first((2, 3), (3, 2)),
        starts=((2, 3),),
    ),
    _extreme("sparse_maximum", "SparseSparseMaximum"),
    _extreme("sparse_minimum", "SparseSparseMinimum"),
)

# The second row is empty; the leading dimension of points follows the values.
ROWS = "tf.RaggedTensor.from_row_splits({0}, [0, 2, 2, 3])"


def padded_rows(values: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """The dense form of `ROWS` at every point."""
    rows = [[values[:, 0], values[:, 1]], [default, default], [values[:, 2], default]]
    return tf.stack([tf.stack(row, 1) for row in rows], 1)


RAGGED = (
    _ragged(
        "ragged_to_tensor",
        f"{ROWS}.to_tensor({{1}})",
        ("RaggedTensorToTensor",),
        arity=2,
        batched=padded_rows,
        shapes=only_if(_three_rows, lambda shape: [(shape, shape[1:])]),
    ),
    _ragged(
        "ragged_gather",
        f"tf.gather({ROWS}, [0, 0, 2, 1]).values",
        ("RaggedGather",),
        batched="tf.gather({0}, [0, 1, 0, 1, 2], axis=1)",
    ),
    _ragged(
        "ragged_to_sparse",
        f"{ROWS}.to_sparse().values",
        ("RaggedTensorToSparse",),
        batched="tf.reshape({0}, [{0}.shape[0], -1])",
    ),
    _ragged(
        "ragged_to_variant",
        f"tf.RaggedTensor._from_variant({ROWS}._to_variant(), tf.float64, 1, 1).flat_values",
        ("RaggedTensorToVariant", "RaggedTensorFromVariant"),
        batched="{0}",
        orders=(1,),  # RaggedTensorToVariantGradient has no registered gradient
    ),
)
