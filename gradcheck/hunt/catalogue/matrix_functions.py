"""Functions of matrices that are made of other operations: solvers by factors, traces, pseudo-inverses (`linalg`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import gap_of_abscissa, ties
from gradcheck.hunt.catalogue.language import operation, tf, traced
from gradcheck.hunt.catalogue.linalg import positive_definite, regular, right_sides
from gradcheck.hunt.catalogue.shapes import alike, nonempty_matrix, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, REALS, Array, Formula, Indices, Interval, Shapes

_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2)))
_square = partial(operation, "linalg", shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2)))
_factored = partial(_square, permutation=lambda shape, *_: Indices(shape[-1], shape[-1], distinct=True))

each_permuted: Formula = lambda x, permutation: tf.broadcast_to(permutation, x.shape[:-1])
"""The permutation of every matrix."""


def largest_eigenvector(x: tf.Tensor) -> tf.Tensor:
    """The squared magnitudes of the eigenvector whose eigenvalue has the largest real part; phases are arbitrary."""
    values, vectors = tf.linalg.eig(x)
    largest = tf.argmax(tf.math.real(values), axis=-1)
    vector = tf.gather(vectors, largest, axis=-1, batch_dims=len(x.shape) - 2)
    return tf.square(tf.math.real(vector)) + tf.square(tf.math.imag(vector))


def eigenvalues_of_bands(diagonal: tf.Tensor, beside: tf.Tensor, select: str, size: int) -> tf.Tensor:
    """The eigenvalues of a symmetric tridiagonal matrix; the size is to be known in a graph."""
    diagonal, beside = tf.ensure_shape(diagonal, [size]), tf.ensure_shape(beside, [size - 1])
    wanted = {"a": None, "i": (0, 0), "v": (-32.0, 32.0)}[select]
    return tf.linalg.eigh_tridiagonal(diagonal, beside, select=select, select_range=wanted)


def _vectors(shape: Shape) -> Shapes:
    return [((*shape[:-2], shape[-1]),)]


def _from_cutoff(x: Array, *, rcond: float | None) -> Array:
    """No singular value is to be as small as those that count as zero."""
    values = np.linalg.svd(x, compute_uv=False)
    return np.abs(values - (rcond or 0.0) * values[..., :1])


def _gaps_of_bands(diagonal: Array, beside: Array, **_attributes: Any) -> Array:
    """No two eigenvalues of the symmetric tridiagonal matrix are to be equal."""
    return ties(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)))


MATRIX_FUNCTIONS = (
    _square("trace", lambda x: tf.linalg.trace(x), "MatrixDiagPartV3 Sum"),
    _matrix(
        "adjoint", lambda x: tf.linalg.adjoint(x), "ConjugateTranspose", dtypes=("complex128",), result="complex128"
    ),
    _matrix("matvec", lambda x, y: tf.linalg.matvec(x, y), "BatchMatMulV2", others=_vectors),
    _square(
        "matvec_transposed",
        lambda x, y, *, transpose: tf.linalg.matvec(x, y, transpose_a=transpose, adjoint_a=not transpose),
        "BatchMatMulV2",
        others=_vectors,
        transpose=BOOL,
    ),
    _square(
        "tensordot",
        lambda x, y, *, axes: tf.tensordot(x, y, axes=axes),
        "MatMul",
        looped=True,
        when=lambda shape: len(shape) == 2,
        others=alike,
        starts=((2, 2), (1, 1)),
        axes=(1, 2, 0, ((0,), (1,)), ((1, 0), (0, 1))),
    ),
    _square("logdet", lambda x: tf.linalg.logdet(positive_definite(x)), "Cholesky Log"),
    _square(
        "cholesky_solve",
        lambda x, y: tf.linalg.cholesky_solve(regular(x), y),
        "MatrixTriangularSolve",
        others=right_sides,
    ),
    _factored(
        "lu_solve",
        lambda x, y, *, permutation: tf.linalg.lu_solve(regular(x), each_permuted(x, permutation), y),
        "MatrixTriangularSolve",
        others=right_sides,
    ),
    _factored(
        "lu_matrix_inverse",
        lambda x, *, permutation: tf.linalg.lu_matrix_inverse(regular(x), each_permuted(x, permutation)),
        "MatrixTriangularSolve",
    ),
    _factored(
        "lu_reconstruct", lambda x, *, permutation: tf.linalg.lu_reconstruct(x, each_permuted(x, permutation)), "MatMul"
    ),
    _matrix(
        "pinv",
        lambda x, *, rcond: tf.linalg.pinv(x, rcond=rcond),
        "Svd",
        rcond=(None, 0.25),
        singular=_from_cutoff,
    ),
    _square("largest_eigenvector", largest_eigenvector, "Eig", singular=gap_of_abscissa),
    operation(
        "linalg",
        "eigh_tridiagonal",
        lambda x, y, *, select: traced(eigenvalues_of_bands)(x, y, select, x.shape[0]),
        "StatelessWhile",
        Interval(-8.0, 8.0),
        REALS,
        looped=True,
        shapes=vector,
        when=lambda shape: len(shape) == 1 and shape[0] > 1,
        others=lambda shape: [((shape[0] - 1,),)],
        starts=((2,), (3,)),
        select=("a", "i", "v"),
        kinks=_gaps_of_bands,
    ),
)
