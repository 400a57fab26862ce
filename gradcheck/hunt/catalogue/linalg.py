"""Factorisations, solvers, spectra and contractions of matrices (`linalg`), diagonals and bands (`array`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import tf
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    BOOL,
    Array,
    Choice,
    OpSpec,
    Shapes,
    alike,
    gaps_of_eigenvalues,
    gaps_of_singular_values,
    matmul,
    nonempty_matrix,
    of_rank,
    only_if,
    square,
    vector,
)

SQUARES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 3), (2, 2, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2))
RIDGES = Choice((1.0, 0.5))
SYMMETRIC = "({0} + tf.linalg.matrix_transpose({0})) / 2.0"
POSITIVE_DEFINITE = "{0} @ tf.linalg.matrix_transpose({0}) + 2.0 * tf.eye({0}.shape[-1], dtype=tf.float64)"
DOMINANT = "tf.tanh({0}) + {0}.shape[-1] * tf.eye({0}.shape[-1], dtype=tf.float64)"

_square: Callable[..., OpSpec] = partial(OpSpec, family="linalg", shapes=square, starts=SQUARES)
_matrix: Callable[..., OpSpec] = partial(OpSpec, family="linalg", shapes=nonempty_matrix, starts=MATRICES)


def positive_diagonal_qr(x: tf.Tensor, *, which: int) -> tf.Tensor:
    """Reflections choose signs, which jump; with a positive diagonal the factors are unique and smooth."""
    q, r = tf.linalg.qr(x)
    sign = tf.sign(tf.linalg.diag_part(r))
    return [r * sign[..., tf.newaxis], q * sign[..., tf.newaxis, :]][which]


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


LINALG = (
    _square("determinant", "tf.linalg.det({0})", ("MatrixDeterminant",)),
    _square("log_determinant", f"tf.linalg.slogdet({DOMINANT})[1]", ("LogMatrixDeterminant",)),
    _square(
        "inverse",
        f"tf.linalg.inv({DOMINANT}, adjoint={{adjoint}})",
        ("MatrixInverse",),
        attributes=lambda shape: {"adjoint": BOOL},
    ),
    _square("cholesky", f"tf.linalg.cholesky({POSITIVE_DEFINITE})", ("Cholesky",)),
    _square(
        "solve",
        f"tf.linalg.solve({DOMINANT}, {{1}}, adjoint={{adjoint}})",
        ("MatrixSolve",),
        arity=2,
        shapes=_with_right_sides,
        attributes=lambda *shapes: {"adjoint": BOOL},
    ),
    _square(
        "triangular_solve",
        f"tf.linalg.triangular_solve({DOMINANT}, {{1}}, lower={{lower}}, adjoint={{adjoint}})",
        ("MatrixTriangularSolve",),
        arity=2,
        shapes=_with_right_sides,
        attributes=lambda *shapes: {"lower": BOOL, "adjoint": BOOL},
    ),
    _matrix(
        "lstsq",
        "tf.linalg.lstsq({0}, {1}, l2_regularizer={ridge})",
        ("Cholesky", "MatrixTriangularSolve"),
        arity=2,
        shapes=_system,
        attributes=lambda *shapes: {"ridge": RIDGES},
    ),
    _matrix(
        "matrix_solve_ls",
        "tf.raw_ops.MatrixSolveLs(matrix={0}, rhs={1}, l2_regularizer=np.float64({ridge}), fast=True)",
        ("MatrixSolveLs",),
        arity=2,
        shapes=_system,
        attributes=lambda *shapes: {"ridge": RIDGES},
    ),
    _matrix(
        "qr",
        positive_diagonal_qr,
        ("Qr",),
        attributes=lambda shape: {"which": Choice((0, 1))},
        singular=_from_rank_deficiency,
    ),
    _matrix("singular_values", "tf.linalg.svd({0}, compute_uv=False)", ("Svd",), kinks=gaps_of_singular_values),
    _matrix(
        "singular_vectors",
        "tf.square(tf.linalg.svd({0})[{which}])",
        ("Svd",),
        attributes=lambda shape: {"which": Choice((1, 2))},
        singular=gaps_of_singular_values,
        # Of matrices that are not square, a vector of a small singular value has the condition of their ratio, and a
        # second derivative by autodiff of autodiff loses the square of it; square ones have 1e-15 (mpmath).
        orders=(1,),
    ),
    _square("eigenvalues", f"tf.linalg.eigvalsh({SYMMETRIC})", ("SelfAdjointEigV2",), kinks=gaps_of_eigenvalues),
    _square(
        "eigenvectors",
        f"tf.square(tf.linalg.eigh({SYMMETRIC})[1])",
        ("SelfAdjointEigV2",),
        singular=gaps_of_eigenvalues,
    ),
    _square(
        "spectral_abscissa",
        "tf.reduce_max(tf.math.real(tf.linalg.eigvals({0})), axis=-1)",
        ("Eig",),
        singular=_from_equal_eigenvalues,
    ),
    _square("matrix_square_root", f"tf.linalg.sqrtm({POSITIVE_DEFINITE})", ("MatrixSquareRoot",)),
    _square("matrix_exponential", "tf.linalg.expm(tf.tanh({0}))", ("MatrixSolve",)),
    _matrix(
        "tridiagonal_matmul",
        "tf.linalg.tridiagonal_matmul({0}, {1}, diagonals_format='compact')",
        ("TridiagonalMatMul",),
        arity=2,
        shapes=_three_diagonals,
        starts=((3, 2), (3, 3), (3, 1), (2, 3, 2)),
    ),
    _matrix(
        "tridiagonal_solve",
        "tf.linalg.tridiagonal_solve(tf.tanh({0}) + np.array([[0.0], [3.0], [0.0]]), {1}, "
        "diagonals_format='compact', partial_pivoting={pivoting})",
        ("TridiagonalSolve",),
        arity=2,
        shapes=_three_diagonals,
        starts=((3, 2), (3, 3), (3, 1), (2, 3, 2)),
        attributes=lambda *shapes: {"pivoting": BOOL},
    ),
    _matrix(
        "banded_triangular_solve",
        "tf.linalg.banded_triangular_solve(tf.tanh({0}) + np.array([[2.0 * {lower}], [2.0 - 2.0 * {lower}]]), "
        "{1}, lower={lower}, adjoint={adjoint})",
        ("BandedTriangularSolve",),
        arity=2,
        shapes=_bands,
        starts=((2, 2), (2, 3), (2, 2, 2)),
        attributes=lambda *shapes: {"lower": BOOL, "adjoint": BOOL},
    ),
    _matrix(
        "einsum", "tf.einsum('...ij,...jk->...ik', {0}, {1})", ("Einsum",), arity=2, broadcasts=True, shapes=matmul
    ),
    _square("einsum_trace", "tf.einsum('...ii->...', {0})", ("Einsum",)),
    _square("einsum_diagonal", "tf.einsum('...ii->...i', {0})", ("Einsum",)),
    _matrix(
        "einsum_pair",
        "tf.einsum({equation}, {0}, {1})",
        ("Einsum",),
        arity=2,
        shapes=only_if(nonempty_matrix, alike(2)),
        attributes=lambda *shapes: {
            "equation": Choice(("...ij,...ij->...", "...ij,...ij->...i", "...ij,...kj->...ik", "...ij,...ik->...kj"))
        },
    ),
)


VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2))
PLAIN_MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (3, 2), (2, 2, 2))

_of_vector: Callable[..., OpSpec] = partial(OpSpec, family="array", shapes=vector, starts=VECTORS)
_of_matrix: Callable[..., OpSpec] = partial(OpSpec, family="array", shapes=nonempty_matrix, starts=PLAIN_MATRICES)


def _with_diagonal(shape: Shape) -> Shapes:
    return [(shape, (*shape[:-2], min(shape[-2:])))] if len(shape) >= 2 and all(shape) else []


def _with_lower_diagonal(shape: Shape) -> Shapes:
    if len(shape) < 2 or not all(shape) or shape[-2] < 2:
        return []
    return [(shape, (*shape[:-2], min(shape[-2] - 1, shape[-1])))]


DIAGONALS = (
    _of_vector("matrix_diag", "tf.linalg.diag({0})", ("MatrixDiagV3",)),
    _of_vector(
        "matrix_diag_offset",
        "tf.linalg.diag({0}, k={k}, num_rows={0}.shape[-1] + 1, num_cols={0}.shape[-1] + 1)",
        ("MatrixDiagV3",),
        attributes=lambda shape: {"k": Choice((1, -1))},
    ),
    _of_matrix("matrix_diag_part", "tf.linalg.diag_part({0})", ("MatrixDiagPartV3",)),
    _of_matrix(
        "matrix_diag_part_band",
        "tf.linalg.diag_part({0}, k=(-1, 1), align={align})",
        ("MatrixDiagPartV3",),
        shapes=only_if(lambda shape: nonempty_matrix(shape) and min(shape[-2:]) > 1),
        attributes=lambda shape: {"align": Choice(("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"))},
    ),
    _of_matrix("matrix_set_diag", "tf.linalg.set_diag({0}, {1})", ("MatrixSetDiagV3",), arity=2, shapes=_with_diagonal),
    _of_matrix(
        "matrix_set_diag_below",
        "tf.linalg.set_diag({0}, {1}, k=-1)",
        ("MatrixSetDiagV3",),
        arity=2,
        shapes=_with_lower_diagonal,
    ),
    _of_matrix(
        "matrix_band_part",
        "tf.linalg.band_part({0}, {lower}, {upper})",
        ("MatrixBandPart",),
        attributes=lambda shape: {"lower": Choice((0, 1, -1)), "upper": Choice((-1, 0))},
    ),
    _of_vector("legacy_matrix_diag", "tf.raw_ops.MatrixDiag(diagonal={0})", ("MatrixDiag",)),
    _of_matrix("legacy_matrix_diag_part", "tf.raw_ops.MatrixDiagPart(input={0})", ("MatrixDiagPart",)),
    _of_matrix(
        "legacy_matrix_set_diag",
        "tf.raw_ops.MatrixSetDiag(input={0}, diagonal={1})",
        ("MatrixSetDiag",),
        arity=2,
        shapes=_with_diagonal,
    ),
    _of_vector(
        "tensor_diag",
        "tf.linalg.tensor_diag({0})",
        ("Diag",),
        batched="tf.linalg.diag({0})",
        shapes=of_rank(1),
        starts=((2,), (1,), (3,)),
    ),
    _of_matrix(
        "tensor_diag_part",
        "tf.linalg.tensor_diag_part({0})",
        ("DiagPart",),
        batched="tf.linalg.diag_part({0})",
        shapes=only_if(lambda shape: len(shape) == 2 and square(shape)),
        starts=((2, 2), (1, 1)),
    ),
)
