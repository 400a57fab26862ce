"""Diagonals and bands of matrices (family `array`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import of_unknown_dimensions, operation, tf
from gradcheck.hunt.catalogue.shapes import at_least, nonempty_matrix, several, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Shapes


def diagonals_set(x: tf.Tensor, y: tf.Tensor, *, kernel: str, k: int) -> tf.Tensor:
    return getattr(tf.raw_ops, kernel)(input=x, diagonal=y, k=k)


def diagonals_of(x: tf.Tensor, *, k: int) -> tf.Tensor:
    return tf.raw_ops.MatrixDiagPartV2(input=x, k=k, padding_value=np.float64(2.0))


_of_vector = partial(operation, "array", shapes=vector, starts=((2,), (1,), (3,), (2, 2)))
_of_matrix = partial(operation, "array", shapes=nonempty_matrix, starts=((2, 2), (1, 2), (2, 3), (3, 2), (2, 2, 2)))


def _diagonal(shape: Shape) -> Shapes:
    return [((*shape[:-2], min(shape[-2:])),)]


def _two_diagonals(shape: Shape) -> Shapes:
    return [((*shape[:-2], 2, shape[-1]),)]


def _bands(shape: Shape) -> Iterable[tuple[int, int]]:
    """The main diagonal, and bands above it, below it and around it, as far as there are any."""
    below, above = (-int(shape[-2] > 1), int(shape[-1] > 1))
    return dict.fromkeys([(0, 0), (0, above), (below, 0), (below, above)])


def _lengths_beside(shape: Shape) -> dict[int, int]:
    """The lengths of the diagonals above and below the main one, by their numbers; there is not always one."""
    rows, columns = shape[-2:]
    return {k: n for k, n in ((1, min(rows, columns - 1)), (-1, min(rows - 1, columns))) if n}


ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")

_of_bands = partial(
    _of_matrix,
    when=lambda shape: shape[-2] == 2,
    starts=((2, 2), (2, 1), (2, 3), (2, 2, 2)),
    k=((0, 1), (-1, 0)),
)

DIAGONALS_IN = lambda x, *, k: tf.raw_ops.MatrixDiagV2(
    diagonal=x, k=k, num_rows=-1, num_cols=-1, padding_value=np.float64(2.0)
)
DIAGONALS_SET = lambda x, y, *, k: tf.raw_ops.MatrixSetDiagV2(input=x, diagonal=y, k=k)
DIAGONALS_OF = lambda x, *, k: tf.raw_ops.MatrixDiagPartV2(input=x, k=k, padding_value=np.float64(2.0))

DIAGONALS = (
    _of_vector("matrix_diag", lambda x: tf.linalg.diag(x), "MatrixDiagV3"),
    _of_vector(
        "matrix_diag_offset",
        lambda x, *, k: tf.linalg.diag(x, k=k, num_rows=x.shape[-1] + 1, num_cols=x.shape[-1] + 1),
        "MatrixDiagV3",
        k=(1, -1),
    ),
    _of_matrix("matrix_diag_part", lambda x: tf.linalg.diag_part(x), "MatrixDiagPartV3"),
    _of_matrix(
        "matrix_diag_part_band",
        lambda x, *, align: tf.linalg.diag_part(x, k=(-1, 1), align=align),
        "MatrixDiagPartV3",
        when=lambda shape: min(shape[-2:]) > 1,
        align=ALIGNMENTS,
    ),
    _of_matrix("matrix_set_diag", lambda x, y: tf.linalg.set_diag(x, y), "MatrixSetDiagV3", others=_diagonal),
    _of_matrix(
        "matrix_set_diag_below",
        lambda x, y: tf.linalg.set_diag(x, y, k=-1),
        "MatrixSetDiagV3",
        when=lambda shape: shape[-2] > 1,
        others=lambda shape: [((*shape[:-2], min(shape[-2] - 1, shape[-1])),)],
    ),
    _of_matrix(
        "matrix_set_diag_band",
        lambda x, y, *, k, align: tf.linalg.set_diag(x, y, k=k, align=align),
        "MatrixSetDiagV3",
        shapes=square,
        when=several,
        others=_two_diagonals,
        starts=((2, 2), (3, 3), (2, 2, 2)),
        k=((0, 1), (-1, 0)),
        align=ALIGNMENTS,
    ),
    _of_matrix(
        "matrix_band_part",
        lambda x, *, lower, upper: tf.linalg.band_part(x, lower, upper),
        "MatrixBandPart",
        lower=(0, 1, -1),
        upper=(-1, 0),
    ),
    _of_vector("legacy_matrix_diag", lambda x: tf.raw_ops.MatrixDiag(diagonal=x)),
    _of_matrix("legacy_matrix_diag_part", lambda x: tf.raw_ops.MatrixDiagPart(input=x)),
    _of_matrix("legacy_matrix_set_diag", lambda x, y: tf.raw_ops.MatrixSetDiag(input=x, diagonal=y), others=_diagonal),
    _of_vector(
        "tensor_diag",
        lambda x: tf.linalg.tensor_diag(x),
        "Diag",
        batched=lambda x: tf.linalg.diag(x),
        shapes=at_least(1),
        starts=((2,), (1,), (3,)),
    ),
    _of_matrix(
        "tensor_diag_part",
        lambda x: tf.linalg.tensor_diag_part(x),
        "DiagPart",
        batched=lambda x: tf.linalg.diag_part(x),
        shapes=square,
        when=lambda shape: len(shape) == 2,
        starts=((2, 2), (1, 1)),
    ),
    _of_vector(
        "legacy_matrix_diag_offset",
        DIAGONALS_IN,
        k=(1, -1, 0),
    ),
    _of_bands("legacy_matrix_diag_band", DIAGONALS_IN),
    _of_matrix("legacy_matrix_diag_part_band", DIAGONALS_OF, when=lambda shape: shape[-2] < shape[-1], k=_bands),
    _of_matrix("legacy_matrix_diag_part_band_tall", DIAGONALS_OF, when=lambda shape: shape[-2] >= shape[-1], k=_bands),
    _of_matrix(
        "legacy_matrix_set_diag_offset",
        DIAGONALS_SET,
        when=several,
        others=lambda shape: [((*shape[:-2], min(shape[-2], shape[-1] - 1)),)],
        k=(1,),
    ),
    _of_matrix(
        "legacy_matrix_set_diag_band",
        DIAGONALS_SET,
        shapes=square,
        when=several,
        others=_two_diagonals,
        starts=((2, 2), (3, 3), (2, 2, 2)),
        k=((0, 1), (-1, 0)),
    ),
    _of_matrix(
        "matrix_set_diag_of_unknown_dimensions",
        lambda x, y, *, kernel, k: of_unknown_dimensions(diagonals_set, x, y, kernel=kernel, k=k),
        "MatrixSetDiagV2 MatrixSetDiagV3",
        when=several,
        others=lambda shape: [((*shape[:-2], length),) for length in dict.fromkeys(_lengths_beside(shape).values())],
        kernel=("MatrixSetDiagV2", "MatrixSetDiagV3"),
        k=lambda shape, diagonal: [k for k, length in _lengths_beside(shape).items() if length == diagonal[-1]],
    ),
    _of_matrix(
        "matrix_diag_part_of_unknown_dimensions",
        lambda x, *, k: of_unknown_dimensions(diagonals_of, x, k=k),
        "MatrixDiagPartV2",
        # Gradients of bands raise, as they do wherever dimensions are not known.
        k=((0, 0),),
    ),
    _of_bands(
        "matrix_diag_band", lambda x, *, k, align: tf.linalg.diag(x, k=k, align=align), "MatrixDiagV3", align=ALIGNMENTS
    ),
)
