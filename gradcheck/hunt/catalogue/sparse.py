"""Operations of the census's family `sparse`. The values are the argument; the indices are constants or attributes."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck.hunt.catalogue.losses import LOGITS
from gradcheck.hunt.distances import between
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import REALS, Attribute, Indices, Interval, OpSpec
from gradcheck.hunt.shape_rules import Rule

AWAY_FROM_ZERO = Interval(0.25, 8.0)
MATRIX = "tf.sparse.SparseTensor([[0, 0], [0, 2], [1, 0]], {0}, [2, 3])"
STACK = (
    "tf.sparse.SparseTensor(tf.where(tf.tile([[[1, 0, 1], [1, 0, 0]]], [{0}.shape[0], 1, 1])), tf.reshape({0}, [-1]), "
    "[{0}.shape[0], 2, 3])"
)
CSR = "tf.raw_ops.DenseToCSRSparseMatrix(dense_input={0}, indices=[[0, 0], [0, 2], [1, 0]])"
CSR_STACK = (
    "tf.raw_ops.DenseToCSRSparseMatrix(dense_input={0}, "
    "indices=tf.where(tf.tile([[[1, 0, 1], [1, 0, 0]]], [{0}.shape[0], 1, 1])))"
)


def _first(shape: Shape, *others: Shape) -> Rule:
    return lambda first: [(first, *others)] if first == shape else []


def _of_values(
    name: str,
    text: str,
    gradients: tuple[str, ...],
    *others: Shape,
    batched: str | None = None,
    orders: tuple[int, ...] = (1, 2),
) -> OpSpec:
    """An operation on the sparse matrix `MATRIX` of three values; `batched` is the text for the stack of matrices."""
    return OpSpec(
        name,
        "sparse",
        text.replace("MATRIX", MATRIX),
        gradients,
        arity=1 + len(others),
        batched=batched and batched.replace("STACK", STACK),
        looped=batched is None,
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
    return OpSpec(
        name,
        "sparse",
        call,
        (gradient,),
        batched=swapped.replace("{0}", call.replace("{0}", swapped)),
        shapes=lambda shape: [(shape,)] if shape and all(shape) else [],
        starts=((2,), (3,), (2, 2)),
        attributes=_segments,
        orders=(1,),  # the operations of the gradients, SparseSegmentSumGrad and the like, have no registered gradients
    )


SEGMENTS = (
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
        batched="tf.sparse.to_dense(STACK)",
    ),
    _of_values(
        "sparse_reduce_sum",
        "tf.sparse.reduce_sum(MATRIX, axis=-1)",
        ("SparseReduceSum",),
        batched="tf.sparse.reduce_sum(STACK, axis=-1)",
    ),
    _of_values(
        "sparse_softmax",
        "tf.sparse.softmax(MATRIX).values",
        ("SparseSoftmax",),
        batched="tf.reshape(tf.sparse.softmax(STACK).values, {0}.shape)",
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
        batched="tf.reshape(tf.sparse.transpose(STACK, [0, 2, 1]).values, {0}.shape)",
    ),
    _of_values(
        "sparse_slice",
        "tf.sparse.slice(MATRIX, [0, 0], [1, 3]).values",
        ("SparseSlice",),
        batched="tf.reshape(tf.sparse.slice(STACK, [0, 0, 0], [{0}.shape[0], 1, 3]).values, [{0}.shape[0], 2])",
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
        batched="tf.sparse.to_dense(STACK) @ {1}",
    ),
    _of_values(
        "sparse_dense_add",
        "tf.sparse.add(MATRIX, {1})",
        ("SparseTensorDenseAdd",),
        (2, 3),
        batched="tf.sparse.add(STACK, {1})",
    ),
    _of_values(
        "sparse_dense_mul",
        "(MATRIX * {1}).values",
        ("SparseDenseCwiseMul",),
        (2, 3),
        batched="tf.reshape((STACK * {1}).values, {0}.shape)",
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
    return OpSpec(
        name,
        "sparse",
        f"tf.sparse.{name.removeprefix('sparse_')}({MATRIX}, {MATRIX.replace('{0}', '{1}')}).values",
        (gradient,),
        arity=2,
        batched=f"tf.{name.removeprefix('sparse_')}({{0}}, {{1}})",
        shapes=_first((3,), (3,)),
        starts=((3,),),
        kinks=between,
    )


OPERATIONS = (
    OpSpec(
        "sparse_softmax_cross_entropy",
        "sparse",
        "tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.broadcast_to({labels}, {0}.shape[:-1]), logits={0})",
        ("SparseSoftmaxCrossEntropyWithLogits",),
        shapes=lambda shape: [(shape,)] if len(shape) > 1 and all(shape) else [],
        starts=((1, 2), (2, 2), (2, 3), (2, 1, 2)),
        attributes=lambda shape: {"labels": Indices(shape[-2], shape[-1])},
        domains=(LOGITS,),
    ),
    *SEGMENTS,
    *MATRICES,
    OpSpec(
        "sparse_dense_div",
        "sparse",
        f"({MATRIX} / {{1}}).values",
        ("SparseDenseCwiseDiv",),
        arity=2,
        batched=f"tf.reshape(({STACK} / {{1}}).values, {{0}}.shape)",
        shapes=_first((3,), (2, 3)),
        starts=((3,),),
        domains=(REALS, AWAY_FROM_ZERO),
    ),
    OpSpec(
        "csr_matrix_to_dense",
        "sparse",
        f"tf.raw_ops.CSRSparseMatrixToDense(sparse_input={CSR}, type=tf.float64)",
        ("DenseToCSRSparseMatrix", "CSRSparseMatrixToDense"),
        batched=f"tf.raw_ops.CSRSparseMatrixToDense(sparse_input={CSR_STACK}, type=tf.float64)",
        shapes=_first((2, 3)),
        starts=((2, 3),),
    ),
    OpSpec(
        "csr_matrix_matmul",
        "sparse",
        f"tf.raw_ops.SparseMatrixMatMul(a={CSR}, b={{1}})",
        ("SparseMatrixMatMul", "DenseToCSRSparseMatrix"),
        arity=2,
        batched=f"tf.raw_ops.SparseMatrixMatMul(a={CSR_STACK}, b={{1}})",
        shapes=_first((2, 3), (3, 2)),
        starts=((2, 3),),
    ),
    _extreme("sparse_maximum", "SparseSparseMaximum"),
    _extreme("sparse_minimum", "SparseSparseMinimum"),
)
