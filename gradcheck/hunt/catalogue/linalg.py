"""The census's family `linalg`: factorisations, solvers, spectra, functions and contractions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.distances import gaps_of_eigenvalues, gaps_of_singular_values
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Array, Choice, OpSpec
from gradcheck.hunt.shape_rules import Shapes, alike, matmul, nonempty_matrix, only_if, square

SQUARES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 3), (2, 2, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2))
RIDGES = Choice((1.0, 0.5))
SYMMETRIC = "({0} + tf.linalg.matrix_transpose({0})) / 2.0"
POSITIVE_DEFINITE = "{0} @ tf.linalg.matrix_transpose({0}) + 2.0 * tf.eye({0}.shape[-1], dtype=tf.float64)"
DOMINANT = "tf.tanh({0}) + {0}.shape[-1] * tf.eye({0}.shape[-1], dtype=tf.float64)"
# Reflections choose signs, which jump; with a positive diagonal the factors are unique and smooth.
UNIQUE_QR = (
    "(lambda q, r: [r * tf.sign(tf.linalg.diag_part(r))[..., tf.newaxis], "
    "q * tf.sign(tf.linalg.diag_part(r))[..., tf.newaxis, :]][{which}])(*tf.linalg.qr({0}))"
)

_square: Callable[..., OpSpec] = partial(OpSpec, family="linalg", shapes=square, starts=SQUARES)
_matrix: Callable[..., OpSpec] = partial(OpSpec, family="linalg", shapes=nonempty_matrix, starts=MATRICES)


def _with_right_sides(shape: Shape) -> Shapes:
    return [(shape, (*shape[:-1], count)) for count in (1, 2)] if square(shape) else []


def _system(shape: Shape) -> Shapes:
    return [(shape, (*shape[:-1], count)) for count in (1, 2)] if nonempty_matrix(shape) else []


def _bands(shape: Shape) -> Shapes:
    if len(shape) < 2 or not all(shape) or shape[-2] != 2 or shape[-1] < 2:
        return []
    return [(shape, (*shape[:-2], shape[-1], count)) for count in (1, 2)]


def _three_diagonals(shape: Shape) -> Shapes:
    if len(shape) < 2 or not all(shape) or shape[-2] != 3:
        return []
    return [(shape, (*shape[:-2], shape[-1], count)) for count in (1, 2)]


def _from_rank_deficiency(x: Array, **_attributes: Any) -> Array:
    columns = min(x.shape[-2:])
    return np.asarray(np.linalg.svd(x[..., :columns], compute_uv=False)[..., -1])


def _from_equal_eigenvalues(x: Array, **_attributes: Any) -> Array:
    """How far real parts lie apart, or the two eigenvalues themselves where they are conjugate."""
    values = np.linalg.eigvals(x)
    first, second = np.triu_indices(values.shape[-1], 1)
    left, right = values[..., first], values[..., second]
    conjugate = (left.imag != 0) & (left == np.conj(right))
    return np.where(conjugate, np.abs(left - right), np.abs(left.real - right.real))


OPERATIONS = (
    _square("determinant", source="tf.linalg.det({0})", gradients=("MatrixDeterminant",)),
    _square("log_determinant", source=f"tf.linalg.slogdet({DOMINANT})[1]", gradients=("LogMatrixDeterminant",)),
    _square(
        "inverse",
        source=f"tf.linalg.inv({DOMINANT}, adjoint={{adjoint}})",
        gradients=("MatrixInverse",),
        attributes=lambda shape: {"adjoint": BOOL},
    ),
    _square("cholesky", source=f"tf.linalg.cholesky({POSITIVE_DEFINITE})", gradients=("Cholesky",)),
    _square(
        "solve",
        source=f"tf.linalg.solve({DOMINANT}, {{1}}, adjoint={{adjoint}})",
        gradients=("MatrixSolve",),
        arity=2,
        shapes=_with_right_sides,
        attributes=lambda *shapes: {"adjoint": BOOL},
    ),
    _square(
        "triangular_solve",
        source=f"tf.linalg.triangular_solve({DOMINANT}, {{1}}, lower={{lower}}, adjoint={{adjoint}})",
        gradients=("MatrixTriangularSolve",),
        arity=2,
        shapes=_with_right_sides,
        attributes=lambda *shapes: {"lower": BOOL, "adjoint": BOOL},
    ),
    _matrix(
        "lstsq",
        source="tf.linalg.lstsq({0}, {1}, l2_regularizer={ridge})",
        gradients=("Cholesky", "MatrixTriangularSolve"),
        arity=2,
        shapes=_system,
        attributes=lambda *shapes: {"ridge": RIDGES},
    ),
    _matrix(
        "matrix_solve_ls",
        source="tf.raw_ops.MatrixSolveLs(matrix={0}, rhs={1}, l2_regularizer=np.float64({ridge}), fast=True)",
        gradients=("MatrixSolveLs",),
        arity=2,
        shapes=_system,
        attributes=lambda *shapes: {"ridge": RIDGES},
    ),
    _matrix(
        "qr",
        source=UNIQUE_QR,
        gradients=("Qr",),
        attributes=lambda shape: {"which": Choice((0, 1))},
        singular=_from_rank_deficiency,
    ),
    _matrix(
        "singular_values",
        source="tf.linalg.svd({0}, compute_uv=False)",
        gradients=("Svd",),
        kinks=gaps_of_singular_values,
    ),
    _matrix(
        "singular_vectors",
        source="tf.square(tf.linalg.svd({0})[{which}])",
        gradients=("Svd",),
        attributes=lambda shape: {"which": Choice((1, 2))},
        singular=gaps_of_singular_values,
        # Of matrices that are not square, a vector of a small singular value has the condition of their ratio, and a
        # second derivative by autodiff of autodiff loses the square of it; square ones have 1e-15 (mpmath).
        orders=(1,),
    ),
    _square(
        "eigenvalues",
        source=f"tf.linalg.eigvalsh({SYMMETRIC})",
        gradients=("SelfAdjointEigV2",),
        kinks=gaps_of_eigenvalues,
    ),
    _square(
        "eigenvectors",
        source=f"tf.square(tf.linalg.eigh({SYMMETRIC})[1])",
        gradients=("SelfAdjointEigV2",),
        singular=gaps_of_eigenvalues,
    ),
    _square(
        "spectral_abscissa",
        source="tf.reduce_max(tf.math.real(tf.linalg.eigvals({0})), axis=-1)",
        gradients=("Eig",),
        singular=_from_equal_eigenvalues,
    ),
    _square("matrix_square_root", source=f"tf.linalg.sqrtm({POSITIVE_DEFINITE})", gradients=("MatrixSquareRoot",)),
    _square("matrix_exponential", source="tf.linalg.expm(tf.tanh({0}))", gradients=("MatrixSolve",)),
    _matrix(
        "tridiagonal_matmul",
        source="tf.linalg.tridiagonal_matmul({0}, {1}, diagonals_format='compact')",
        gradients=("TridiagonalMatMul",),
        arity=2,
        shapes=_three_diagonals,
        starts=((3, 2), (3, 3), (3, 1), (2, 3, 2)),
    ),
    _matrix(
        "tridiagonal_solve",
        source="tf.linalg.tridiagonal_solve(tf.tanh({0}) + np.array([[0.0], [3.0], [0.0]]), {1}, "
        "diagonals_format='compact', partial_pivoting={pivoting})",
        gradients=("TridiagonalSolve",),
        arity=2,
        shapes=_three_diagonals,
        starts=((3, 2), (3, 3), (3, 1), (2, 3, 2)),
        attributes=lambda *shapes: {"pivoting": BOOL},
    ),
    _matrix(
        "banded_triangular_solve",
        source="tf.linalg.banded_triangular_solve(tf.tanh({0}) + np.array([[2.0 * {lower}], [2.0 - 2.0 * {lower}]]), "
        "{1}, lower={lower}, adjoint={adjoint})",
        gradients=("BandedTriangularSolve",),
        arity=2,
        shapes=_bands,
        starts=((2, 2), (2, 3), (2, 2, 2)),
        attributes=lambda *shapes: {"lower": BOOL, "adjoint": BOOL},
    ),
    _matrix(
        "einsum",
        source="tf.einsum('...ij,...jk->...ik', {0}, {1})",
        gradients=("Einsum",),
        arity=2,
        broadcasts=True,
        shapes=matmul,
    ),
    _square("einsum_trace", source="tf.einsum('...ii->...', {0})", gradients=("Einsum",)),
    _square("einsum_diagonal", source="tf.einsum('...ii->...i', {0})", gradients=("Einsum",)),
    _matrix(
        "einsum_pair",
        source="tf.einsum({equation}, {0}, {1})",
        gradients=("Einsum",),
        arity=2,
        shapes=only_if(lambda shape: bool(nonempty_matrix(shape)), alike(2)),
        attributes=lambda *shapes: {
            "equation": Choice(("...ij,...ij->...", "...ij,...ij->...i", "...ij,...kj->...ik", "...ij,...ik->...kj"))
        },
    ),
)
