"""Linear operators, by what they make of vectors, by their inverses, matrices and determinants (`linalg`).

Their parameters are arguments, of which regular operators are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import norms
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.linalg import POSITIVE_DEFINITE, REGULAR
from gradcheck.hunt.catalogue.shapes import nonempty_matrix, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, REALS, Array, Distances, Indices, Interval, OpSpec, Rule, unary

ACTIONS = ("matmul", "solve", "matmul of adjoint", "solve of adjoint")
MEASURES = ("to_dense", "log_abs_determinant", "diag_part", "trace")
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 1), (3, 3), (2, 2, 2))
VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2))
SMALL = Interval(-2.0, 2.0)

FULL = f"tf.linalg.LinearOperatorFullMatrix({REGULAR})"
TRIANGULAR = f"tf.linalg.LinearOperatorLowerTriangular({REGULAR})"


def acted(operator: Any, x: tf.Tensor, action: str) -> tf.Tensor:
    """What the operator, its inverse, or the adjoint of either makes of columns."""
    act = operator.matmul if action.startswith("matmul") else operator.solve
    return act(x, adjoint=action.endswith("adjoint"))


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


def _from_singular(x: Array, _columns: Array, *, action: str) -> Array:
    """A diagonal matrix is inverted."""
    return np.abs(x) if action.startswith("solve") else np.full_like(x, np.inf)


def _columns(rows: Callable[[Shape], int], rank: int) -> Rule:
    return lambda shape: [((*shape[: len(shape) - rank], rows(shape), count),) for count in (1, 2)]


def _operator(
    name: str,
    text: str,
    gradients: str,
    *,
    of_measures: str = "",
    domain: Interval = REALS,
    rank: int = 2,
    rows: Callable[[Shape], int] = lambda shape: shape[-1],
    measures: tuple[str, ...] = MEASURES,
    inverted: Distances | None = None,
    **fields: Any,
) -> tuple[OpSpec, OpSpec]:
    """The actions of an operator of a parameter, and its measures; `rank` is that of its parameter at least.

    `inverted` are the distances from where an inverse does not exist.
    """
    if rank == 2:
        fields = {"shapes": square, "starts": MATRICES, **fields}
    made: Callable[..., OpSpec] = partial(operation, "linalg", **{"shapes": vector, "starts": VECTORS, **fields})
    domains = (domain, REALS) if domain is not REALS else ()
    acting = made(
        f"{name}_operator",
        f"acted({text}, {{1}}, {{action}})",
        gradients,
        *domains,
        others=_columns(rows, rank),
        action=ACTIONS,
        **({"singular": inverted} if inverted else {}),
    )
    measured = made(
        f"{name}_operator_measure",
        f"getattr({text}, {{measure}})()",
        of_measures or gradients,
        *domains[:1],
        measure=measures,
    )
    return acting, measured


_spectrum = partial(_operator, gradients="Mul", rank=1, dtypes=("complex128",), result="complex128", domain=SMALL)
CIRCULANT = "(tf.exp({0}), input_output_dtype=tf.complex128)"

PARAMETERIZED = (
    *_operator(
        "diagonal", "tf.linalg.LinearOperatorDiag({0})", "Mul", of_measures="Sum", rank=1, inverted=_from_singular
    ),
    *_operator("full_matrix", FULL, "MatrixSolve", of_measures="Sin"),
    *_operator(
        "positive_definite",
        f"tf.linalg.LinearOperatorFullMatrix({POSITIVE_DEFINITE}, is_self_adjoint=True, is_positive_definite=True)",
        "Cholesky",
    ),
    *_operator("lower_triangular", TRIANGULAR, "MatrixBandPart", of_measures="MatrixDiagPartV3"),
    *_operator("adjoint", f"tf.linalg.LinearOperatorAdjoint({FULL})", "MatrixSolve", of_measures="Sin"),
    *_operator("inversion", f"tf.linalg.LinearOperatorInversion({FULL})", "MatrixSolve", of_measures="Sin"),
    *_operator("composition", f"tf.linalg.LinearOperatorComposition([{FULL}, {TRIANGULAR}])", "MatrixBandPart"),
    *_operator(
        "block_diagonal",
        f"tf.linalg.LinearOperatorBlockDiag([{FULL}, {TRIANGULAR}])",
        "MatrixBandPart",
        rows=lambda shape: 2 * shape[-1],
    ),
    *_operator(
        "block_lower_triangular",
        f"tf.linalg.LinearOperatorBlockLowerTriangular([[{FULL}], [tf.linalg.LinearOperatorFullMatrix({{0}}), "
        f"{TRIANGULAR}]])",
        "MatrixBandPart",
        rows=lambda shape: 2 * shape[-1],
    ),
    *_operator(
        "kronecker",
        f"tf.linalg.LinearOperatorKronecker([{FULL}, {TRIANGULAR}])",
        "MatrixBandPart",
        rows=lambda shape: shape[-1] ** 2,
        starts=((2, 2), (1, 1)),
    ),
    *_operator("updated", "updated({0}, {symmetric})", "Sin", symmetric=BOOL),
    *_operator(
        "householder",
        "tf.linalg.LinearOperatorHouseholder({0})",
        "Rsqrt",
        rank=1,
        measures=("to_dense", "diag_part"),
        singular=lambda x, *_, **_attributes: norms(x),
    ),
    *_operator(
        "scaled_identity",
        "tf.linalg.LinearOperatorScaledIdentity(2, {0})",
        "Mul",
        rank=0,
        inverted=_from_singular,
        rows=lambda _shape: 2,
        shapes=unary,
        starts=((), (2,)),
    ),
    *_spectrum("circulant", f"tf.linalg.LinearOperatorCirculant{CIRCULANT}"),
    *_spectrum(
        "circulant_2d",
        f"tf.linalg.LinearOperatorCirculant2D{CIRCULANT}",
        rank=2,
        shapes=nonempty_matrix,
        rows=lambda shape: math.prod(shape[-2:]),
        starts=((2, 2), (1, 2)),
    ),
    *_spectrum(
        "circulant_3d",
        f"tf.linalg.LinearOperatorCirculant3D{CIRCULANT}",
        rank=3,
        shapes=nonempty_matrix,
        when=lambda shape: len(shape) == 3,
        rows=math.prod,
        starts=((1, 2, 2), (2, 1, 1)),
    ),
    *_operator("toeplitz", "toeplitz({0})", "Sin", rank=1),
    *_operator(
        "tridiagonal",
        "tf.linalg.LinearOperatorTridiag(tf.sin({0}) + np.array([[0.0], [3.0], [0.0]]), 'compact')",
        "Sin",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] == 3,
        starts=((3, 2), (3, 3), (2, 3, 2)),
    ),
    *_operator(
        "tridiagonal_matrix",
        f"tf.linalg.LinearOperatorTridiag({REGULAR}, 'matrix')",
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
        "acted(tf.linalg.LinearOperatorIdentity({0}.shape[-2], dtype=tf.float64), {0}, {action})",
        action=ACTIONS,
    ),
    _constant(
        "permutation_operator",
        "acted(tf.linalg.LinearOperatorPermutation({permutation}, tf.float64), {0}, {action})",
        "GatherV2",
        permutation=lambda shape: Indices(shape[-2], shape[-2], distinct=True),
        action=ACTIONS,
    ),
)
