"""Linear operators, by what they make of vectors, by their inverses, matrices and determinants (`linalg`).

Their parameters are arguments, of which regular operators are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import norms, ties_of_extremes
from gradcheck.operations.language import operation, tf
from gradcheck.operations.linalg import positive_definite, regular
from gradcheck.operations.shapes import nonempty_matrix, square, vector
from gradcheck.operations.spec import (
    BOOL,
    REALS,
    Distances,
    Formula,
    Indices,
    Interval,
    OpSpec,
    Rule,
    SpecialSet,
    unary,
)
from gradcheck.operations.special_sets import (
    MANY_FACTORS_NOT_REAL,
    ONE_ELEMENT,
    ONE_OR_TWO_ZEROS,
    many_factors_in_block,
)
from gradcheck.typing import Array

ACTIONS = (
    *("matmul", "solve", "matmul of adjoint", "solve of adjoint"),
    *("matmul with rows", "solve with rows", "matmul of adjoint with rows", "solve of adjoint with rows"),
)
OWN_MEASURES = ("to_dense", "log_abs_determinant", "diag_part", "trace", "determinant", "inverse")
MEASURES = (*OWN_MEASURES, "adjoint")
INVERTING = {"inverse", "log_abs_determinant", *(action for action in ACTIONS if action.startswith("solve"))}
SHORTEST = 1e-6
"""Shorter vectors are not normalized by tf.nn.l2_normalize, whose squared norms are at least 1e-12."""
COMPLEX: dict[str, Any] = {"dtypes": ("complex128",), "result": "complex128"}
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 3), (2, 2, 2))
VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2))
SMALL = Interval(-2.0, 2.0)

full: Formula = lambda x: tf.linalg.LinearOperatorFullMatrix(regular(x))
triangular: Formula = lambda x: tf.linalg.LinearOperatorLowerTriangular(regular(x))


def acted(operator: Any, x: tf.Tensor, action: str) -> tf.Tensor:
    """The operator, its inverse, or the adjoint of either, applied to columns, or to rows whose adjoint they are."""
    act = operator.matmul if action.startswith("matmul") else operator.solve
    rows = action.endswith("rows")
    return act(tf.linalg.adjoint(x) if rows else x, adjoint="adjoint" in action, adjoint_arg=rows)


def measured(operator: Any, measure: str) -> tf.Tensor:
    """The result of the method of that name; an operator is returned as its matrix."""
    value = getattr(operator, measure)()
    return value.to_dense() if isinstance(value, tf.linalg.LinearOperator) else value


def toeplitz(x: tf.Tensor) -> Any:
    """An operator whose first column is dominated by its first element, and whose first row is that column squared."""
    first, rest = tf.sin(x[..., :1]) + 2.0 * x.shape[-1], tf.sin(x[..., 1:])
    column, row = (tf.concat([first, other], axis=-1) for other in (rest, tf.square(rest)))
    return tf.linalg.LinearOperatorToeplitz(column, row)


def updated(x: tf.Tensor, symmetric: bool) -> Any:
    """A dominant diagonal and a product of two small vectors, or of one with itself."""
    base = tf.linalg.LinearOperatorDiag(
        tf.sin(tf.linalg.diag_part(x)) + 2.0, is_self_adjoint=True, is_positive_definite=True
    )
    u, v = 0.25 * tf.sin(x[..., :1]), 0.25 * tf.sin(x[..., -1:])
    update = 1.0 + tf.square(tf.sin(x[..., 0, :1]))
    return tf.linalg.LinearOperatorLowRankUpdate(base, u, update, None if symmetric else v)


def from_singular(x: Array, *_columns: Array, **attributes: Any) -> Array:
    """A diagonal matrix is inverted, or the logarithm of its determinant is taken."""
    return np.abs(x) if INVERTING.intersection(attributes.values()) else np.full(x.shape, np.inf)


def _from_shortest(x: Array, *_columns: Array, **_attributes: Any) -> Array:
    """No vector is to be as long as the shortest that is normalized."""
    return np.abs(norms(x) - SHORTEST)


def _columns(rows: Callable[[Shape], int], rank: int) -> Rule:
    return lambda shape: [((*shape[: len(shape) - rank], rows(shape), count),) for count in (1, 2)]


def _entries(
    name: str,
    acting: Formula,
    measuring: Formula,
    gradients: str,
    *,
    of_measures: str = "",
    domain: Interval = REALS,
    rank: int = 2,
    rows: Callable[[Shape], int] = lambda shape: shape[-1],
    measures: tuple[str, ...] = MEASURES,
    inverted: Distances | None = None,
    special: tuple[SpecialSet, ...] = (),
    **fields: Any,
) -> tuple[OpSpec, OpSpec]:
    """The actions of an operator of a parameter, and its measures; `rank` is that of its parameter at least.

    `inverted` are the distances from where an inverse does not exist, `special` the special sets of the measures.
    """
    if inverted:
        fields["singular"] = inverted
    if rank == 2:
        fields = {"shapes": square, "starts": MATRICES, **fields}
    made: Callable[..., OpSpec] = partial(operation, "linalg", **{"shapes": vector, "starts": VECTORS, **fields})
    domains = (domain, REALS) if domain is not REALS else ()
    others = _columns(rows, rank)
    return (
        made(f"{name}_operator", acting, gradients, *domains, others=others, action=ACTIONS),
        made(
            f"{name}_operator_measure",
            measuring,
            of_measures or gradients,
            *domains[:1],
            measure=measures,
            special=special,
        ),
    )


def _operator(name: str, made: Formula, gradients: str, **fields: Any) -> tuple[OpSpec, OpSpec]:
    return _entries(
        name,
        lambda x, y, *, action: acted(made(x), y, action),
        lambda x, *, measure: measured(made(x), measure),
        gradients,
        **fields,
    )


# The adjoint of one of complex numbers is always an operator of complex64.
_spectrum = partial(
    _operator, gradients="Mul", rank=1, measures=OWN_MEASURES, dtypes=("complex128",), result="complex128", domain=SMALL
)
_diagonal = partial(
    _operator,
    made=lambda x: tf.linalg.LinearOperatorDiag(x),
    gradients="Mul",
    of_measures="MatrixDiagV3",
    rank=1,
    inverted=from_singular,
)
_householder = partial(
    _operator,
    made=lambda x: tf.linalg.LinearOperatorHouseholder(x),
    gradients="Rsqrt",
    rank=1,
    measures=("to_dense", "diag_part"),
    kinks=_from_shortest,
)

PARAMETERIZED = (
    *_diagonal("diagonal", measures=(*MEASURES, "eigvals"), special=(ONE_OR_TWO_ZEROS,)),
    *_diagonal("complex_diagonal", **COMPLEX, special=(MANY_FACTORS_NOT_REAL,)),
    *_operator("full_matrix", full, "MatrixSolve", of_measures="Sin"),
    *_operator(
        "positive_definite",
        lambda x: tf.linalg.LinearOperatorFullMatrix(
            positive_definite(x), is_self_adjoint=True, is_positive_definite=True
        ),
        "Cholesky",
        measures=(*MEASURES, "cholesky"),
    ),
    *_operator("lower_triangular", triangular, "MatrixBandPart", of_measures="MatrixDiagPartV3"),
    *_operator("adjoint", lambda x: tf.linalg.LinearOperatorAdjoint(full(x)), "MatrixSolve", of_measures="Sin"),
    *_operator("inversion", lambda x: tf.linalg.LinearOperatorInversion(full(x)), "MatrixSolve", of_measures="Sin"),
    *_operator(
        "composition", lambda x: tf.linalg.LinearOperatorComposition([full(x), triangular(x)]), "MatrixBandPart"
    ),
    *_operator(
        "block_diagonal",
        lambda x: tf.linalg.LinearOperatorBlockDiag([full(x), triangular(x)]),
        "MatrixBandPart",
        rows=lambda shape: 2 * shape[-1],
    ),
    *_operator(
        "block_lower_triangular",
        lambda x: tf.linalg.LinearOperatorBlockLowerTriangular(
            [[full(x)], [tf.linalg.LinearOperatorFullMatrix(x), triangular(x)]]
        ),
        "MatrixBandPart",
        rows=lambda shape: 2 * shape[-1],
    ),
    *_operator(
        "kronecker",
        lambda x: tf.linalg.LinearOperatorKronecker([full(x), triangular(x)]),
        "MatrixBandPart",
        rows=lambda shape: shape[-1] ** 2,
        starts=((2, 2), (1, 1)),
    ),
    *_entries(
        "updated",
        lambda x, y, *, symmetric, action: acted(updated(x, symmetric), y, action),
        lambda x, *, symmetric, measure: measured(updated(x, symmetric), measure),
        "Sin",
        symmetric=BOOL,
    ),
    *_householder("householder"),
    *_householder("complex_householder", **COMPLEX),
    *_operator(
        "scaled_identity",
        lambda x: tf.linalg.LinearOperatorScaledIdentity(2, x),
        "Mul",
        rank=0,
        measures=(*MEASURES, "eigvals"),
        inverted=from_singular,
        rows=lambda _shape: 2,
        shapes=unary,
        starts=((), (2,)),
    ),
    *_spectrum(
        "circulant",
        lambda x: tf.linalg.LinearOperatorCirculant(tf.exp(x), input_output_dtype=tf.complex128),
        special=(MANY_FACTORS_NOT_REAL,),
    ),
    *_spectrum(
        "circulant_2d",
        lambda x: tf.linalg.LinearOperatorCirculant2D(tf.exp(x), input_output_dtype=tf.complex128),
        rank=2,
        shapes=nonempty_matrix,
        rows=lambda shape: math.prod(shape[-2:]),
        starts=((2, 2), (1, 2)),
        special=(many_factors_in_block(2),),
    ),
    *_spectrum(
        "circulant_3d",
        lambda x: tf.linalg.LinearOperatorCirculant3D(tf.exp(x), input_output_dtype=tf.complex128),
        rank=3,
        shapes=nonempty_matrix,
        when=lambda shape: len(shape) == 3,
        rows=math.prod,
        starts=((1, 2, 2), (2, 1, 1)),
        special=(many_factors_in_block(3),),
    ),
    *_operator("toeplitz", toeplitz, "Sin", rank=1),
    *_operator(
        "tridiagonal",
        lambda x: tf.linalg.LinearOperatorTridiag(tf.sin(x) + np.array([[0.0], [3.0], [0.0]]), "compact"),
        "Sin",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] == 3,
        starts=((3, 2), (3, 3), (2, 3, 2)),
        special=(ONE_ELEMENT,),
    ),
    *_operator(
        "tridiagonal_matrix",
        lambda x: tf.linalg.LinearOperatorTridiag(regular(x), "matrix"),
        "Sin",
        when=lambda shape: shape[-1] > 1,
        starts=((2, 2), (3, 3), (2, 2, 2)),
    ),
)

_constant = partial(operation, "linalg", shapes=nonempty_matrix, starts=((2, 1), (2, 2), (3, 2), (2, 2, 2)))

LINEAR_OPERATORS = (
    *PARAMETERIZED,
    _constant(
        "identity_operator",
        lambda x, *, action: acted(tf.linalg.LinearOperatorIdentity(x.shape[-2], dtype=tf.float64), x, action),
        action=ACTIONS,
    ),
    _constant(
        "permutation_operator",
        lambda x, *, permutation, action: acted(
            tf.linalg.LinearOperatorPermutation(permutation, tf.float64), x, action
        ),
        "GatherV2",
        permutation=lambda shape: Indices(shape[-2], shape[-2], distinct=True),
        action=ACTIONS,
    ),
)


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
        special=(ONE_OR_TWO_ZEROS,),
    ),
    # Elements of 0, which other operators of triangles, multiples and products do not have.
    _determinant(
        "lower_triangular_operator_determinant",
        lambda x: tf.linalg.LinearOperatorLowerTriangular(tf.linalg.diag(x)).determinant(),
        special=(ONE_OR_TWO_ZEROS,),
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
