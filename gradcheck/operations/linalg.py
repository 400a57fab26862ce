"""Factorisations, solvers, spectra and functions of matrices (`linalg`), products and contractions (`math`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import gap_of_abscissa, gaps_of_eigenvalues, gaps_of_singular_values, ties
from gradcheck.operations.language import of_unknown_dimensions, operation, tf, traced
from gradcheck.operations.shapes import alike, matmul, nonempty_matrix, restacked, square, vector
from gradcheck.operations.spec import BOOL, REALS, Formula, Indices, Interval, Shapes
from gradcheck.operations.special_sets import (
    CLOSE_SINGULAR_VALUES,
    CONSTANT_ROW_OR_COLUMN,
    EQUAL_EIGENVALUES,
    EQUAL_SINGULAR_VALUES,
    FAR_SINGULAR_VALUES,
    OVER_256_ROWS,
    OVER_1024_ROWS,
    OVER_TWO_ROWS,
    SINGULAR,
    SMALL_ENTRIES,
    TINY_ENTRIES,
    VANISHING_SINGULAR_VALUES,
)
from gradcheck.typing import Array

symmetric: Formula = lambda x: (x + tf.linalg.adjoint(x)) / 2.0
positive_definite: Formula = lambda x: x @ tf.linalg.adjoint(x) + 2.0 * tf.eye(x.shape[-1], dtype=x.dtype)
bounded: Formula = lambda x: 0.5 * x / tf.sqrt(1.0 + x * tf.math.conj(x))
"""For real and for complex numbers."""
triangular_bands: Formula = lambda x, lower: bounded(x) + np.array([[2.0 * lower], [2.0 - 2.0 * lower]])
dominant: Formula = lambda x: tf.tanh(x) + (1 + x.shape[-1]) * tf.eye(x.shape[-1], dtype=x.dtype)
sine: Formula = lambda x: 0.5 * tf.sin(x)
full_rank: Formula = lambda x: sine(x) + max(x.shape[-2:]) * tf.eye(*x.shape[-2:], dtype=x.dtype)
rooted: Formula = lambda x: bounded(x) + x.shape[-1] * tf.eye(x.shape[-1], dtype=x.dtype)
"""Eigenvalues have positive real parts (Gershgorin), real and complex ones."""
regular: Formula = lambda x: sine(x) + x.shape[-1] * tf.eye(x.shape[-1], dtype=x.dtype)

UP_TO_STACKS_OF_STACKS: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 3), (2, 2, 2), (2, 1, 2, 2))
_square = partial(operation, "linalg", shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2)))
_matrix = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2)))


def positive_diagonal_qr(x: tf.Tensor, *, which: int, full: bool = False) -> tf.Tensor:
    """Reflections choose signs, which jump; with a positive diagonal the factors are unique and smooth.

    The diagonal is real as it is; of a sign that is complex the derivative would hide that of the phase.
    """
    q, r = tf.linalg.qr(x, full_matrices=full)
    sign = tf.cast(tf.sign(tf.math.real(tf.linalg.diag_part(r))), x.dtype)
    return [r * sign[..., tf.newaxis], q * sign[..., tf.newaxis, :]][which]


def squares(x: tf.Tensor) -> tf.Tensor:
    """The squared magnitudes of elements of unit vectors, whose signs and phases are arbitrary."""
    return tf.math.real(x * tf.math.conj(x))


def least_squares(x: tf.Tensor, y: tf.Tensor, *, ridge: float) -> tf.Tensor:
    return tf.raw_ops.MatrixSolveLs(matrix=x, rhs=y, l2_regularizer=np.float64(ridge), fast=True)


def bands(x: tf.Tensor, layout: str) -> tf.Tensor | list[tf.Tensor]:
    """The diagonals of tridiagonal matrices in rows, one by one, or in their places."""
    if layout == "compact":
        return x
    return tf.linalg.diag(x, k=(-1, 1), align="LEFT_RIGHT") if layout == "matrix" else tf.unstack(x, axis=-2)


def _layouts(shape: Shape, *_others: Shape) -> tuple[str, ...]:
    """A matrix of one element has no place for the diagonals beside it."""
    return ("compact", "sequence", "matrix") if shape[-1] > 1 else ("compact", "sequence")


def right_sides(shape: Shape) -> Shapes:
    return [((*shape[:-1], count),) for count in (1, 2)]


def right_sides_of_bands(shape: Shape) -> Shapes:
    return [((*shape[:-2], shape[-1], count),) for count in (1, 2)]


def _broadcast_right_sides(shape: Shape) -> Shapes:
    """Those of a stack of other shape, too, which broadcasts."""
    return [*right_sides(shape), *restacked((shape[-2], 1), shape)]


_system = partial(_square, others=right_sides)
_least_squares = partial(_matrix, others=right_sides, ridge=(1.0, 0.5))
_tridiagonal = partial(
    _matrix, when=lambda shape: shape[-2] == 3, others=right_sides_of_bands, starts=((3, 2), (3, 3), (3, 1), (2, 3, 2))
)


def _from_rank_deficiency(x: Array, **_attributes: Any) -> Array:
    columns = min(x.shape[-2:])
    return np.asarray(np.linalg.svd(x[..., :columns], compute_uv=False)[..., -1])


def _from_vectors_that_are_not_unique(x: Array, which: int, **_attributes: Any) -> Array:
    """How far singular values are from each other, and from 0 where more vectors than one belong to 0.

    Those are the vectors of the longer side. On the other, and of a square matrix, the last one is unique but for its
    sign.
    """
    values = np.linalg.svd(x, compute_uv=False)
    rows, columns = x.shape[-2:]
    vanish = values[..., -1:] if (rows, columns)[which - 1] > min(rows, columns) else values[..., :0]
    return np.concatenate([vanish, ties(values)], axis=-1)


def _full(shape: Shape) -> tuple[bool, ...]:
    """Of two more vectors than there are singular values neither is unique, and there is no gradient."""
    return (False, True) if abs(shape[-2] - shape[-1]) == 1 else (False,)


def _lost_by_squaring(value: Array, x: Array) -> Array:
    """Squaring as often as the norm was halved loses as many digits (Al-Mohy, Higham 2009, section 1: overscaling)."""
    norm = np.sum(np.abs(x), axis=-2, keepdims=True).max(axis=-1, keepdims=True)
    largest = np.max(np.abs(value), axis=(-2, -1), keepdims=True)
    return np.broadcast_to(np.finfo(np.float64).eps * norm * largest, value.shape)


def _lost_by_normal_equations(value: Array, matrix: Array, right: Array, ridge: float) -> Array:
    """The condition of A^T A + ridge counts, the square of that of A (Higham 2002, section 20.4).

    Its elements absorb what is small beside the largest. No other A has what the kernel rounds there.
    """
    widest = np.linalg.norm(matrix, axis=(-2, -1), keepdims=True)
    least = np.linalg.svd(matrix, compute_uv=False)[..., -1:, None]
    largest, smallest = widest**2 + ridge, least**2 + ridge
    solved, given = (np.linalg.norm(one, axis=-2, keepdims=True) for one in (value, right))
    size = solved + widest * given / largest
    relative = sum(matrix.shape[-2:]) * np.finfo(np.float64).eps * largest / smallest
    return np.broadcast_to(relative * size, value.shape)


LINALG = (
    _square("determinant", lambda x: tf.linalg.det(x), "MatrixDeterminant", special=(SINGULAR,)),
    _square("log_determinant", lambda x: tf.linalg.slogdet(dominant(x))[1], "LogMatrixDeterminant"),
    _square(
        "inverse", lambda x, *, adjoint: tf.linalg.inv(dominant(x), adjoint=adjoint), "MatrixInverse", adjoint=BOOL
    ),
    _square(
        "cholesky",
        lambda x: tf.linalg.cholesky(positive_definite(x)),
        "Cholesky",
        starts=UP_TO_STACKS_OF_STACKS,
    ),
    _system(
        "solve", lambda x, y, *, adjoint: tf.linalg.solve(dominant(x), y, adjoint=adjoint), "MatrixSolve", adjoint=BOOL
    ),
    _square(
        "triangular_solve",
        lambda x, y, *, lower, adjoint: tf.linalg.triangular_solve(dominant(x), y, lower=lower, adjoint=adjoint),
        "MatrixTriangularSolve",
        broadcasts=True,
        others=_broadcast_right_sides,
        lower=BOOL,
        adjoint=BOOL,
    ),
    _least_squares(
        "lstsq", lambda x, y, *, ridge: tf.linalg.lstsq(x, y, l2_regularizer=ridge), "Cholesky MatrixTriangularSolve"
    ),
    _least_squares(
        "matrix_solve_ls",
        lambda x, y, *, ridge: tf.raw_ops.MatrixSolveLs(matrix=x, rhs=y, l2_regularizer=np.float64(ridge), fast=True),
        loses=_lost_by_normal_equations,
    ),
    _least_squares(
        "matrix_solve_ls_of_unknown_dimensions",
        lambda x, y, *, ridge: of_unknown_dimensions(least_squares, x, y, ridge=ridge),
        "MatrixSolveLs",
        loses=_lost_by_normal_equations,
    ),
    _matrix(
        "lstsq_of_full_rank",
        lambda x, y: tf.linalg.lstsq(full_rank(x), y),
        "Cholesky MatrixTriangularSolve",
        others=right_sides,
    ),
    _matrix(
        "matrix_solve_ls_of_full_rank",
        lambda x, y: tf.raw_ops.MatrixSolveLs(matrix=full_rank(x), rhs=y, l2_regularizer=np.float64(0.0), fast=True),
        others=right_sides,
    ),
    _matrix(
        "qr",
        lambda x, *, which: positive_diagonal_qr(x, which=which),
        "Qr",
        which=(0, 1),
        singular=_from_rank_deficiency,
    ),
    # Of a tall matrix this has no gradient.
    _matrix(
        "qr_of_full_matrices",
        lambda x, *, which: positive_diagonal_qr(x, which=which, full=True),
        "Qr",
        when=lambda shape: shape[-2] <= shape[-1],
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 2)),
        which=(0, 1),
        singular=_from_rank_deficiency,
    ),
    _matrix(
        "singular_values",
        lambda x: tf.linalg.svd(x, compute_uv=False),
        "Svd",
        kinks=gaps_of_singular_values,
        special=(SMALL_ENTRIES, CLOSE_SINGULAR_VALUES, FAR_SINGULAR_VALUES, OVER_TWO_ROWS),
    ),
    _matrix(
        "singular_vectors",
        lambda x, *, full, which: squares(tf.linalg.svd(x, full_matrices=full)[which]),
        "Svd",
        which=(1, 2),
        full=_full,
        singular=_from_vectors_that_are_not_unique,
        special=(SMALL_ENTRIES, CLOSE_SINGULAR_VALUES, FAR_SINGULAR_VALUES, CONSTANT_ROW_OR_COLUMN, OVER_TWO_ROWS),
    ),
    _square(
        "eigenvalues",
        lambda x: tf.linalg.eigvalsh(symmetric(x)),
        "SelfAdjointEigV2",
        kinks=gaps_of_eigenvalues,
        special=(TINY_ENTRIES, OVER_TWO_ROWS),
    ),
    _square(
        "eigenvectors",
        lambda x: squares(tf.linalg.eigh(symmetric(x))[1]),
        "SelfAdjointEigV2",
        singular=gaps_of_eigenvalues,
        special=(TINY_ENTRIES, OVER_TWO_ROWS),
    ),
    _square(
        "spectral_abscissa",
        lambda x: tf.reduce_max(tf.math.real(tf.linalg.eigvals(x)), axis=-1),
        "Eig",
        singular=gap_of_abscissa,
        special=(TINY_ENTRIES, EQUAL_EIGENVALUES),
    ),
    _square(
        "matrix_square_root", lambda x: tf.linalg.sqrtm(rooted(x)), "MatrixSquareRoot", starts=UP_TO_STACKS_OF_STACKS
    ),
    _square("matrix_exponential", lambda x: tf.linalg.expm(x), "MatrixSolve", loses=_lost_by_squaring),
    _tridiagonal(
        "tridiagonal_matmul",
        lambda x, y, *, layout: tf.linalg.tridiagonal_matmul(bands(x, layout), y, diagonals_format=layout),
        "TridiagonalMatMul",
        layout=_layouts,
    ),
    _tridiagonal(
        "tridiagonal_solve",
        lambda x, y, *, layout, turned, conjugated, pivoting, perturbed: tf.linalg.tridiagonal_solve(
            bands(tf.tanh(x) + np.array([[0.0], [3.0], [0.0]]), layout),
            tf.linalg.matrix_transpose(y) if turned else y,
            layout,
            turned,
            conjugated,
            partial_pivoting=pivoting or perturbed,
            perturb_singular=perturbed,
        ),
        "TridiagonalSolve",
        layout=_layouts,
        pivoting=BOOL,
        perturbed=BOOL,
        turned=BOOL,
        conjugated=BOOL,
    ),
    _matrix(
        "banded_triangular_solve",
        lambda x, y, *, lower, adjoint: tf.linalg.banded_triangular_solve(
            triangular_bands(x, lower), y, lower=lower, adjoint=adjoint
        ),
        "BandedTriangularSolve",
        when=lambda shape: shape[-2] == 2 and shape[-1] > 1,
        broadcasts=True,
        others=lambda shape: [*right_sides_of_bands(shape), *restacked((shape[-1], 1), shape)],
        starts=((2, 2), (2, 3), (2, 2, 2)),
        lower=BOOL,
        adjoint=BOOL,
    ),
)


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
        special=(EQUAL_SINGULAR_VALUES, SMALL_ENTRIES, CLOSE_SINGULAR_VALUES, VANISHING_SINGULAR_VALUES),
    ),
    _square("largest_eigenvector", largest_eigenvector, "Eig", singular=gap_of_abscissa, special=(EQUAL_EIGENVALUES,)),
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


def of_points(equation: str) -> str:
    """The equation for operands that all carry one more leading dimension, as has the result.

    What is implied of the result is said, for the points would be summed over: the labels that occur once, sorted.
    """
    operands, arrow, result = equation.partition("->")
    if not arrow:
        labels = "".join(sorted(label for label in operands if label.isalpha() and operands.count(label) == 1))
        result = "..." * ("..." in operands) + labels
    return ",".join("P" + operand for operand in operands.split(",")) + "->P" + result


def _admits(equation: str, *shapes: Shape) -> bool:
    """Whether operands of these shapes fit: the ranks, the sizes of labels, and what the ellipses stand for."""
    sizes: dict[str, int] = {}
    stacks = []
    for operand, shape in zip(equation.partition("->")[0].split(","), shapes, strict=True):
        before, ellipsis, behind = operand.partition("...")
        left = len(shape) - len(before + behind)
        if left < 0 or (left > 0 and not ellipsis):
            return False
        stacks.append(shape[len(before) : len(before) + left])
        labelled = (*shape[: len(before)], *shape[len(before) + left :])
        if any(sizes.setdefault(label, size) != size for label, size in zip(before + behind, labelled, strict=True)):
            return False
    return all(len({1, *column}) <= 2 for column in _columns(stacks))


def _columns(stacks: list[Shape]) -> list[tuple[int, ...]]:
    rank = max(map(len, stacks))
    return list(zip(*((1,) * (rank - len(stack)) + stack for stack in stacks), strict=True))


def _that_fit(*equations: str) -> Callable[..., list[str]]:
    return lambda *shapes: [equation for equation in equations if _admits(equation, *shapes)]


def _with_points(form: Formula) -> Formula:
    return lambda *operands, equation: form(*operands, equation=of_points(equation))


# The gradient takes an ellipsis, whose dots repeat, for repeated labels, and has another way for equations without.
CONTRACTIONS = (
    _matrix(
        "einsum",
        lambda x, y: tf.einsum("...ij,...jk->...ik", x, y),
        "Einsum",
        broadcasts=True,
        shapes=matmul,
        special=(OVER_256_ROWS, OVER_1024_ROWS),
    ),
    _square("einsum_trace", lambda x: tf.einsum("...ii->...", x), "Einsum"),
    _square("einsum_diagonal", lambda x: tf.einsum("...ii->...i", x), "Einsum"),
    _matrix(
        "einsum_reduced",
        lambda x, *, equation: tf.einsum(equation, x),
        "Einsum",
        batching=_with_points,
        starts=((2, 2), (1, 1), (3, 2), (2, 3), (2, 2, 2), (1, 2, 3), (2, 3, 3)),
        equation=_that_fit(
            *("...ij->...i", "ij->i", "ij->j", "...ij->...j", "ij->", "ij", "ji", "ij->ji", "...ij->...", "i...->..."),
            *("i...j->j...", "i...j->...", "...i->...", "ii->", "...ii", "ijk->ik", "ijk->ki", "ijk->j", "ijj->i"),
            *("ijj->ji", "iji->j", "iij->ji", "iij->", "ij...->...j"),
        ),
    ),
    _matrix(
        "einsum_pair",
        lambda x, y, *, equation: tf.einsum(equation, x, y),
        "Einsum",
        batching=_with_points,
        others=lambda shape: [(shape,), *restacked(shape[-2:], shape)],
        equation=_that_fit(
            *("...ij,...ij->...", "...ij,...ij->...i", "...ij,...kj->...ik", "...ij,...ik->...kj"),
            *("...ij,...ik->...j", "...ij,...kl->...lj", "...ij,kj->...ik", "ij,...kj->k...i", "i...j,kj->...ik"),
            *("ij,ij->i", "ij,ij->", "ij,ik", "ij,kj->", "ij,kl->j", "ij,kl->li", "...ii,...jk->...ij"),
            *("ii,ij->j", "...ii,...jj->...", "...ii,...ij->...ij", "i...j,i...k->kj...", "ij,...k->...jik"),
        ),
    ),
    _square(
        "einsum_chain",
        lambda x, y, *, equation: tf.einsum(equation, x, y, x),
        "Einsum",
        batching=_with_points,
        others=alike,
        equation=lambda shape, other: _that_fit(
            *("...ij,...jk,...kl->...il", "ij,jk,kl->il", "...ij,...jk,...ki->...", "ij,jk,kl", "ij,ij,ij->i"),
            *("...ij,...kl,...jl->...k", "ii,ij,kj->k"),
        )(shape, other, shape),
    ),
)
