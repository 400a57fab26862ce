"""Methods that single classes of linear operators have for themselves (family `linalg`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import ties_of_extremes
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.linear_operators import MATRICES, MEASURES, VECTORS, from_singular, measured
from gradcheck.hunt.catalogue.shapes import nonempty_matrix, square, vector
from gradcheck.hunt.opspec import Array, unary

SELF_ADJOINT = (
    *("diagonal", "lower_triangular", "block_lower_triangular", "adjoint", "inversion"),
    *("block_diagonal", "kronecker"),
)
VIEWS = ("operator", "adjoint", "inverse")


def condition(operator: Any, view: str) -> tf.Tensor:
    """The condition number of an operator, of its adjoint, or of its inverse, which is the same."""
    return (operator if view == "operator" else getattr(operator, view)()).cond()


def apart(x: tf.Tensor) -> tf.Tensor:
    """Matrices whose singular values lie around 2, 4, 6, … (Weyl 1912): the kinks are those of `singular_values`."""
    size = x.shape[-1]
    return tf.sin(x) / (2.0 * size) + np.diag(2.0 * np.arange(1, size + 1))


def self_adjoint(x: tf.Tensor, form: str) -> Any:
    """A positive definite operator made of a matrix and of a diagonal whose eigenvalues stay apart."""
    half, hints = apart(x) / 2.0, {"is_self_adjoint": True, "is_positive_definite": True}
    full = tf.linalg.LinearOperatorFullMatrix(half + tf.linalg.adjoint(half), **hints)
    diagonal = tf.linalg.LinearOperatorDiag(full.diag_part() + 2.0 * x.shape[-1], **hints)
    if form == "diagonal":
        return diagonal
    if form == "lower_triangular":
        return tf.linalg.LinearOperatorLowerTriangular(diagonal.to_dense(), **hints)
    if form == "block_lower_triangular":
        zeros = tf.linalg.LinearOperatorZeros(x.shape[-1], dtype=x.dtype)
        return tf.linalg.LinearOperatorBlockLowerTriangular([[full], [zeros, diagonal]], **hints)
    if form in ("adjoint", "inversion"):
        return tf.linalg.LinearOperatorAdjoint(full) if form == "adjoint" else tf.linalg.LinearOperatorInversion(full)
    made = {"block_diagonal": tf.linalg.LinearOperatorBlockDiag, "kronecker": tf.linalg.LinearOperatorKronecker}
    return made[form]([full, diagonal], **hints)


def gram(x: tf.Tensor) -> Any:
    """A triangular operator times its adjoint, which is known to have the triangular one for a Cholesky factor."""
    lower = tf.linalg.LinearOperatorLowerTriangular(x)
    return tf.linalg.LinearOperatorComposition(
        [lower, lower.adjoint()], is_self_adjoint=True, is_positive_definite=True
    )


def _from_no_sign(x: Array, **_attributes: Any) -> Array:
    """The diagonal of a Cholesky factor is positive: columns change their sign with it."""
    return np.asarray(np.abs(np.diagonal(x, axis1=-2, axis2=-1)))


def _from_extreme_ties(x: Array, depth: int = 1, **_attributes: Any) -> Array:
    """The largest and the smallest magnitude are to be unique."""
    return ties_of_extremes(np.abs(x), axis=tuple(range(-depth, 0)))


def _smallest(x: Array, depth: int = 1, **_attributes: Any) -> Array:
    return np.asarray(np.min(np.abs(x), axis=tuple(range(-depth, 0))))


_of_matrix = partial(operation, "linalg", shapes=square, starts=MATRICES)
_of_vector = partial(operation, "linalg", shapes=vector, starts=VECTORS)
_condition_of_spectrum = partial(
    _of_vector, gradients="Max Min", kinks=_from_extreme_ties, singular=_smallest, view=VIEWS
)
_determinant = partial(_of_vector, gradients="Prod")

OPERATOR_METHODS = (
    # Other operators add their matrix.
    _of_vector(
        "diagonal_operator_added",
        lambda x, y: tf.linalg.LinearOperatorDiag(x).add_to_tensor(y),
        "MatrixSetDiagV3",
        others=lambda shape: [((*shape, shape[-1]),)],
    ),
    _of_vector(
        "scaled_identity_operator_added",
        lambda x, y: tf.linalg.LinearOperatorScaledIdentity(2, x).add_to_tensor(y),
        "MatrixSetDiagV3",
        shapes=unary,
        others=lambda shape: [((*shape, 2, 2),)],
        starts=((), (2,)),
    ),
    _of_matrix(
        "adjoint_operator_added",
        lambda x, y: tf.linalg.LinearOperatorAdjoint(tf.linalg.LinearOperatorFullMatrix(x)).add_to_tensor(y),
        "Transpose",
        others=lambda shape: [(shape,)],
    ),
    _condition_of_spectrum(
        "diagonal_operator_condition", lambda x, *, view: condition(tf.linalg.LinearOperatorDiag(x), view)
    ),
    _condition_of_spectrum(
        "circulant_operator_condition",
        lambda x, *, view: condition(tf.linalg.LinearOperatorCirculant(x, input_output_dtype=tf.complex128), view),
    ),
    _condition_of_spectrum(
        "circulant_2d_operator_condition",
        lambda x, *, view: condition(tf.linalg.LinearOperatorCirculant2D(x, input_output_dtype=tf.complex128), view),
        shapes=nonempty_matrix,
        starts=((2, 2), (1, 2)),
        kinks=partial(_from_extreme_ties, depth=2),
        singular=partial(_smallest, depth=2),
    ),
    _of_matrix(
        "full_matrix_operator_condition",
        lambda x, *, view: condition(tf.linalg.LinearOperatorFullMatrix(apart(x)), view),
        "Svd",
        view=VIEWS,
    ),
    _of_matrix(
        "self_adjoint_operator_measure",
        lambda x, *, form, measure: measured(self_adjoint(x, form), measure),
        "Sin",
        form=SELF_ADJOINT,
        measure=("eigvals", "cond", "determinant", "log_abs_determinant", "cholesky", "inverse"),
        starts=((2, 2), (1, 1), (2, 2, 2)),
    ),
    _of_matrix(
        "composition_operator_cholesky",
        lambda x: gram(x).cholesky().to_dense(),
        "MatrixBandPart",
        singular=_from_no_sign,
    ),
    _of_vector(
        "circulant_operator_of_real",
        lambda x, *, measure: tf.cast(
            measured(tf.linalg.LinearOperatorCirculant(x, input_output_dtype=tf.complex128), measure), tf.complex128
        ),
        "Cast",
        result="complex128",
        singular=from_singular,
        measure=(*MEASURES, "eigvals"),
    ),
    # Elements of 0, which other operators of triangles, multiples and products do not have.
    _determinant(
        "lower_triangular_operator_determinant",
        lambda x: tf.linalg.LinearOperatorLowerTriangular(tf.linalg.diag(x)).determinant(),
    ),
    # Of one element its powers are first powers, as is that of an identity of one row.
    _determinant(
        "kronecker_operator_determinant",
        lambda x: tf.linalg.LinearOperatorKronecker([tf.linalg.LinearOperatorDiag(x)] * 2).determinant(),
        when=lambda shape: shape[-1] > 1,
        starts=((2,), (3,), (2, 2)),
    ),
    _of_vector(
        "scaled_identity_operator_determinant",
        lambda x, *, size: tf.linalg.LinearOperatorScaledIdentity(size, x).determinant(),
        "Pow",
        shapes=unary,
        starts=((), (2,)),
        size=(2, 1, 3),
    ),
)
