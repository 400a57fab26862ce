"""Products of sparse matrices, one with another or with dense ones."""

from __future__ import annotations

import numpy as np

from gradcheck.hunt.catalogue.language import float32, tf, traced


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
