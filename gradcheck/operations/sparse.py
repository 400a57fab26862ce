"""Sparse tensors and products with them (family `sparse`): values are the arguments, their places are constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import between
from gradcheck.operations.language import behind_points, float32, operation, rows_first, tf, traced
from gradcheck.operations.ragged import ragged_rows
from gradcheck.operations.shapes import alike, at_least, nonempty_matrix, reduced, transpositions, vector
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Formula, Indices, OpSpec, Shapes
from gradcheck.operations.special_sets import SCALAR_FACTOR


def compressed_pattern(matrix: tf.Tensor) -> tf.Tensor:
    """The values at the pattern's places of a matrix (2, 3), or at the transposed pattern's of one (3, 2)."""
    wide = matrix.shape[0] == 2
    places = [[0, 0], [0, 2], [1, 0]] if wide else [[0, 0], [0, 1], [2, 0]]
    return tf.raw_ops.DenseToCSRSparseMatrix(dense_input=matrix, indices=places)


def multiplied(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    a, b = compressed_pattern(x), compressed_pattern(y)
    product = tf.raw_ops.SparseMatrixSparseMatMul(a=a, b=b, type=x.dtype, **dict.fromkeys(options, True))
    return tf.raw_ops.CSRSparseMatrixToDense(sparse_input=product, type=x.dtype)


def gradient_of_product(x: tf.Tensor, y: tf.Tensor, cotangent: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        product = multiplied(x, y, options=options)
    return tape.gradient(product, [x, y], cotangent)


def multiplied_in_function(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    """The product with a gradient that is taken inside of a function: elsewhere the registered one throws."""

    @tf.custom_gradient
    def product(x, y):  # type: ignore[no-untyped-def]
        def gradient(cotangent):  # type: ignore[no-untyped-def]
            return traced(gradient_of_product)(x, y, cotangent, options=options)

        return multiplied(x, y, options=options), gradient

    return product(x, y)


def products_of_patterns(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    """The dense products at all points."""
    pattern = np.array([[1, 0, 1], [1, 0, 0]])
    a, b = (dense * (pattern if dense.shape[1] == 2 else pattern.T) for dense in (x, y))
    return tf.matmul(a, b, **dict.fromkeys(options, True))


def multiplied_with_zeros(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    a, b = float32(x, y)
    return tf.cast(tf.raw_ops.SparseMatMul(a=a, b=b, **dict.fromkeys(options, True)), tf.float64)


def multiplied_dense(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    return tf.matmul(x, y, transpose_a="transpose_a" in options, transpose_b="transpose_b" in options)


matrix: Formula = lambda values: tf.sparse.SparseTensor([[0, 0], [0, 2], [1, 0]], values, [2, 3])
compressed_matrix: Formula = lambda x: tf.raw_ops.DenseToCSRSparseMatrix(
    dense_input=x, indices=[[0, 0], [0, 2], [1, 0]]
)
transposed: Formula = lambda x, conjugate, dtype: tf.raw_ops.CSRSparseMatrixToDense(
    sparse_input=tf.raw_ops.SparseMatrixTranspose(input=x, conjugate=conjugate, type=dtype), type=dtype
)

MATRICES = ((2, 3), (1, 2, 3), (2, 2, 3))

_sparse = partial(operation, "sparse")
_of_values = partial(_sparse, when=lambda shape: shape == (3,), starts=((3,),))
_of_matrix = partial(_sparse, when=lambda shape: shape == (2, 3), starts=((2, 3),))


def _segments(name: str, fold: Formula, gradient: str) -> OpSpec:
    return _sparse(
        f"sparse_segment_{name}",
        lambda x, *, indices, segments, sparse_gradient: fold(x, indices, segments, sparse_gradient),
        gradient,
        batching=rows_first,
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
        indices=lambda shape: Indices(3, shape[0]),
        segments=Indices(3, 3, sorted=True),
        sparse_gradient=BOOL,
    )


def _with(*shapes: Shape) -> Callable[[Shape], Shapes]:
    return lambda _first: [shapes]


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


def of_matrices(dense: tf.Tensor) -> tf.Tensor:
    """The other operand, with dimensions of size 1 inserted until it has the rank of a batch of matrices."""
    return tf.reshape(dense, [dense.shape[0], *[1] * (3 - len(dense.shape)), *dense.shape[1:]])


def rows_of_values(matrices: tf.SparseTensor) -> tf.Tensor:
    """The values of the matrices of all points, a row for each."""
    return tf.reshape(matrices.values, [matrices.shape[0], -1])


def _factors(shape: Shape) -> Shapes:
    rows, columns = shape
    return [(other,) for other in dict.fromkeys([(columns, rows), shape, (columns, 1), (1, rows)])]


def _zeros(shape: Shape, other: Shape) -> tuple[tuple[str, ...], ...]:
    """The transpositions for which the product exists, with the sides that are said to hold many zeros."""
    simplest_first = sorted(transpositions(shape, other), key=lambda factors: (len(factors), factors))
    turned = [tuple(f"transpose_{factor}" for factor in factors) for factors in simplest_first]
    sides = ((), ("a_is_sparse",), ("b_is_sparse",), ("a_is_sparse", "b_is_sparse"))
    return tuple((*one, *side) for one in turned for side in sides)


def _options(_shape: Shape, other: Shape) -> tuple[tuple[str, ...], ...]:
    one = (("transpose_a",), ("transpose_b",), ("adjoint_a",), ("adjoint_b",))
    none_or_both = [(), *((a, b) for a in ("transpose_a", "adjoint_a") for b in ("transpose_b", "adjoint_b"))]
    return one if other == (2, 3) else tuple(none_or_both)


def _adjoints(_shape: Shape, other: Shape) -> tuple[tuple[bool, bool], ...]:
    return ((True, False), (False, True)) if other == (2, 3) else ((False, False), (True, True))


def stacks_by_dense(x: tf.Tensor, y: tf.Tensor, *, options: tuple[str, ...]) -> tf.Tensor:
    """The products of the sparse matrices in the last two dimensions with dense ones."""
    a, b = compressed(tf.reshape(x, [-1, 2, 3])), tf.reshape(y, [-1, *y.shape[-2:]])
    products = tf.raw_ops.SparseMatrixMatMul(a=a, b=b, **dict.fromkeys(options, True))
    return tf.reshape(products, [*x.shape[:-2], *products.shape[-2:]])


def _options_with_output(shape: Shape, other: Shape) -> list[tuple[str, ...]]:
    outputs = ((), ("transpose_output",), ("conjugate_output",), ("transpose_output", "conjugate_output"))
    return [(*factors, *output) for output in outputs for factors in _options(shape, other)]


def _spread_over_matrix(_values: Shape) -> Shapes:
    return [((2, 3),), ((1, 3),), ((2, 1),), ((3,),), ((1, 1),), ((1,),), ((),)]


def _either(_first: Shape) -> Shapes:
    return [((3, 2),), ((2, 3),)]


_csr_product = partial(
    _sparse,
    gradients="SparseMatrixSparseMatMul CSRSparseMatrixToDense",
    batched=products_of_patterns,
    when=lambda shape: shape == (2, 3),
    others=_either,
    starts=((2, 3),),
    options=_options,
)

SPARSE = (
    _sparse(
        "sparse_matmul",
        multiplied_with_zeros,
        "SparseMatMul",
        shapes=nonempty_matrix,
        when=lambda shape: len(shape) == 2,
        others=_factors,
        batched=multiplied_dense,
        reference=multiplied_dense,
        starts=((1, 1), (2, 1), (2, 3)),
        rtol=1e-6,
        options=_zeros,
    ),
    _sparse(
        "sparse_softmax_cross_entropy",
        lambda x, *, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(labels, x.shape[:-1]), logits=x
        ),
        "SparseSoftmaxCrossEntropyWithLogits",
        shapes=nonempty_matrix,
        starts=((1, 2), (2, 2), (2, 3), (2, 1, 2)),
        labels=lambda shape: Indices(shape[-2], shape[-1]),
        terms=1.0,
    ),
    _segments(
        "sum",
        lambda x, indices, segments, sparse: tf.sparse.segment_sum(x, indices, segments, None, sparse_gradient=sparse),
        "SparseSegmentSum",
    ),
    _segments(
        "mean",
        lambda x, indices, segments, sparse: tf.sparse.segment_mean(x, indices, segments, None, sparse_gradient=sparse),
        "SparseSegmentMean",
    ),
    _segments(
        "sqrt_n",
        lambda x, indices, segments, sparse: tf.sparse.segment_sqrt_n(
            x, indices, segments, None, sparse_gradient=sparse
        ),
        "SparseSegmentSqrtN",
    ),
    _segments(
        "sum_of_4",
        lambda x, indices, segments, sparse: tf.sparse.segment_sum(x, indices, segments, 4, sparse_gradient=sparse),
        "SparseSegmentSumWithNumSegments",
    ),
    _segments(
        "mean_of_4",
        lambda x, indices, segments, sparse: tf.sparse.segment_mean(x, indices, segments, 4, sparse_gradient=sparse),
        "SparseSegmentMeanWithNumSegments",
    ),
    _segments(
        "sqrt_n_of_4",
        lambda x, indices, segments, sparse: tf.sparse.segment_sqrt_n(x, indices, segments, 4, sparse_gradient=sparse),
        "SparseSegmentSqrtNWithNumSegments",
    ),
    _of_values(
        "sparse_to_dense",
        lambda x, *, validated: tf.sparse.to_dense(matrix(x), validate_indices=validated),
        "SparseToDense",
        batched=lambda x, *, validated: tf.sparse.to_dense(stacked(x), validate_indices=validated),
        validated=(True, False),
    ),
    _of_values(
        "sparse_reduce_sum",
        lambda x, *, axis, keepdims: tf.sparse.reduce_sum(matrix(x), axis=axis, keepdims=keepdims),
        "SparseReduceSum",
        batched=lambda x, *, axis, keepdims: tf.sparse.reduce_sum(
            stacked(x), behind_points(axis, stacked(x)), keepdims
        ),
        axis=reduced((2, 3)),
        keepdims=BOOL,
    ),
    _of_values(
        "sparse_softmax",
        lambda x: tf.sparse.softmax(matrix(x)).values,
        "SparseSoftmax",
        batched=lambda x: rows_of_values(tf.sparse.softmax(stacked(x))),
    ),
    _of_values(
        "sparse_reorder",
        lambda x: tf.sparse.reorder(tf.sparse.SparseTensor([[1, 0], [0, 2], [0, 0]], x, [2, 3])).values,
        "SparseReorder",
        batched=lambda x: x[:, ::-1],
    ),
    _of_values(
        "sparse_transpose",
        lambda x: tf.sparse.transpose(matrix(x)).values,
        "SparseReorder",
        batched=lambda x: rows_of_values(tf.sparse.transpose(stacked(x), [0, 2, 1])),
    ),
    _of_values(
        "sparse_slice",
        lambda x: tf.sparse.slice(matrix(x), [0, 0], [1, 3]).values,
        "SparseSlice",
        batched=lambda x: rows_of_values(tf.sparse.slice(stacked(x), [0, 0, 0], [x.shape[0], 1, 3])),
    ),
    _of_values(
        "sparse_fill_empty_rows",
        lambda x, default: (
            tf.sparse.fill_empty_rows(tf.sparse.SparseTensor([[0, 0], [0, 2], [2, 0]], x, [3, 3]), default)[0].values
        ),
        "SparseFillEmptyRows",
        others=_with(()),
        batched=lambda x, default: tf.concat([x[:, :2], default[:, tf.newaxis], x[:, 2:]], axis=1),
    ),
    _of_values(
        "sparse_dense_matmul",
        lambda x, y, *, adjoints: tf.sparse.sparse_dense_matmul(matrix(x), y, *adjoints),
        "SparseTensorDenseMatMul",
        others=_either,
        batched=lambda x, y, *, adjoints: tf.matmul(tf.sparse.to_dense(stacked(x)), y, False, False, *adjoints),
        adjoints=_adjoints,
    ),
    _of_values(
        "sparse_dense_add",
        lambda x, y: tf.sparse.add(matrix(x), y),
        "SparseTensorDenseAdd",
        others=_with((2, 3)),
        batched=lambda x, y: tf.sparse.add(stacked(x), y),
    ),
    _of_values(
        "sparse_dense_mul",
        lambda x, y: (matrix(x) * y).values,
        "SparseDenseCwiseMul",
        others=_spread_over_matrix,
        batched=lambda x, y: rows_of_values(stacked(x) * of_matrices(y)),
        special=(SCALAR_FACTOR,),
    ),
    _of_values(
        "sparse_dense_cwise_add",
        lambda x, y: tf.raw_ops.SparseDenseCwiseAdd(
            sp_indices=matrix(x).indices, sp_values=x, sp_shape=[2, 3], dense=y
        ),
        others=_spread_over_matrix,
        batched=lambda x, y: x + rows_of_values(stacked(tf.ones_like(x)) * of_matrices(y)),
    ),
    _of_values(
        "sparse_add",
        lambda x, y: tf.sparse.add(matrix(x), tf.sparse.SparseTensor([[0, 2], [1, 1]], y, [2, 3])).values,
        "SparseAdd",
        others=_with((2,)),
        batched=lambda x, y: tf.stack([x[:, 0], x[:, 1] + y[:, 0], x[:, 2], y[:, 1]], axis=-1),
    ),
    _of_values(
        "sparse_dense_div",
        lambda x, y: (matrix(x) / y).values,
        "SparseDenseCwiseDiv",
        REALS,
        POSITIVE,
        others=_spread_over_matrix,
        batched=lambda x, y: rows_of_values(stacked(x) / of_matrices(y)),
        special=(SCALAR_FACTOR,),
    ),
    _of_matrix(
        "csr_matrix_to_dense",
        lambda x: tf.raw_ops.CSRSparseMatrixToDense(sparse_input=compressed_matrix(x), type=tf.float64),
        "DenseToCSRSparseMatrix CSRSparseMatrixToDense",
        batched=lambda x: tf.raw_ops.CSRSparseMatrixToDense(sparse_input=compressed(x), type=tf.float64),
    ),
    _sparse(
        "csr_matrix_matmul",
        lambda x, y, *, options: tf.raw_ops.SparseMatrixMatMul(
            a=compressed(x) if len(x.shape) == 3 else compressed_matrix(x), b=y, **dict.fromkeys(options, True)
        ),
        "SparseMatrixMatMul DenseToCSRSparseMatrix",
        when=lambda shape: shape in MATRICES,
        others=lambda shape: [((*shape[:-2], 3, 2),), (shape,)],
        batched=stacks_by_dense,
        starts=MATRICES,
        options=lambda shape, other: _options_with_output(shape, other[-2:]),
    ),
    _of_values(
        "sparse_maximum",
        lambda x, y: tf.sparse.maximum(matrix(x), matrix(y)).values,
        "SparseSparseMaximum",
        others=alike,
        batched=lambda x, y: tf.maximum(x, y),
        kinks=between,
    ),
    _of_values(
        "sparse_minimum",
        lambda x, y: tf.sparse.minimum(matrix(x), matrix(y)).values,
        "SparseSparseMinimum",
        others=alike,
        batched=lambda x, y: tf.minimum(x, y),
        kinks=between,
    ),
    _of_matrix(
        "csr_matrix_values",
        lambda x: tf.raw_ops.CSRSparseMatrixToSparseTensor(sparse_matrix=compressed_matrix(x), type=tf.float64).values,
        "CSRSparseMatrixToSparseTensor DenseToCSRSparseMatrix",
        batched=lambda x: tf.stack([x[:, 0, 0], x[:, 0, 2], x[:, 1, 0]], axis=1),
    ),
    _of_values(
        "csr_matrix_of_values",
        lambda x: tf.raw_ops.CSRSparseMatrixToDense(
            sparse_input=tf.raw_ops.SparseTensorToCSRSparseMatrix(
                indices=matrix(x).indices, values=x, dense_shape=matrix(x).dense_shape
            ),
            type=tf.float64,
        ),
        "SparseTensorToCSRSparseMatrix CSRSparseMatrixToDense",
        batched=lambda x: tf.sparse.to_dense(stacked(x)),
    ),
    _of_matrix(
        "csr_matrix_transpose",
        lambda x, *, conjugate: transposed(compressed_matrix(x), conjugate, tf.float64),
        "SparseMatrixTranspose",
        batched=lambda x, *, conjugate: transposed(compressed(x), conjugate, tf.float64),
        conjugate=(False,),
    ),
    _of_matrix(
        "csr_matrix_adjoint",
        lambda x, *, conjugate: transposed(compressed_matrix(x), conjugate, tf.complex128),
        "SparseMatrixTranspose",
        batched=lambda x, *, conjugate: transposed(compressed(x), conjugate, tf.complex128),
        conjugate=(True, False),
        dtypes=("complex128",),
        result="complex128",
    ),
    _csr_product("csr_matrix_product_in_function", multiplied_in_function),
    _csr_product(
        "csr_matrix_product_in_function_complex",
        multiplied_in_function,
        dtypes=("complex128",),
        result="complex128",
    ),
    _of_values(
        "sparse_to_dense_with_default",
        lambda x, default: tf.raw_ops.SparseToDense(
            sparse_indices=[[0, 0], [0, 2], [1, 0]], output_shape=[2, 3], sparse_values=x, default_value=default
        ),
        others=_with(()),
        batched=lambda x, default: (
            tf.sparse.to_dense(stacked(x - default[:, tf.newaxis])) + default[:, tf.newaxis, tf.newaxis]
        ),
    ),
)


_of_three_values = partial(operation, "sparse", when=lambda shape: shape == (3,), starts=((3,),))
_in_dense = partial(_of_three_values, looped=True)
_ragged = partial(operation, "ragged", shapes=at_least(1), starts=((3,), (2,)))


def _two_factors(_values: Shape) -> Shapes:
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
    _of_three_values(
        "sparse_map_values",
        lambda x: tf.sparse.map_values(tf.sin, matrix(x)).values,
        "Sin",
        batched=lambda x: tf.sin(x),
    ),
    _of_three_values(
        "sparse_retain",
        lambda x, *, kept: tf.sparse.retain(matrix(x), [True, kept, True]).values,
        "GatherV2",
        batched=lambda x, *, kept: tf.gather(x, [0, 1, 2] if kept else [0, 2], axis=1),
        kept=BOOL,
    ),
    _of_three_values(
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
        others=_two_factors,
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
