"""The census's family `array`: diagonals and bands of matrices, blocks and patches of images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Choice, OpSpec
from gradcheck.hunt.shape_rules import Shapes, of_rank, only_if, vector

VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (3, 2), (2, 2, 2))

_vector: Callable[..., OpSpec] = partial(OpSpec, family="array", shapes=vector, starts=VECTORS)
_matrix: Callable[..., OpSpec] = partial(
    OpSpec, family="array", shapes=only_if(lambda shape: len(shape) >= 2 and all(shape)), starts=MATRICES
)


def _with_diagonal(shape: Shape) -> Shapes:
    return [(shape, (*shape[:-2], min(shape[-2:])))] if len(shape) >= 2 and all(shape) else []


def _with_lower_diagonal(shape: Shape) -> Shapes:
    if len(shape) < 2 or not all(shape) or shape[-2] < 2:
        return []
    return [(shape, (*shape[:-2], min(shape[-2] - 1, shape[-1])))]


OPERATIONS = (
    _vector("matrix_diag", source="tf.linalg.diag({0})", gradients=("MatrixDiagV3",)),
    _vector(
        "matrix_diag_offset",
        source="tf.linalg.diag({0}, k={k}, num_rows={0}.shape[-1] + 1, num_cols={0}.shape[-1] + 1)",
        gradients=("MatrixDiagV3",),
        attributes=lambda shape: {"k": Choice((1, -1))},
    ),
    _matrix("matrix_diag_part", source="tf.linalg.diag_part({0})", gradients=("MatrixDiagPartV3",)),
    _matrix(
        "matrix_diag_part_band",
        source="tf.linalg.diag_part({0}, k=(-1, 1), align={align})",
        gradients=("MatrixDiagPartV3",),
        shapes=only_if(lambda shape: len(shape) >= 2 and all(shape) and min(shape[-2:]) > 1),
        attributes=lambda shape: {"align": Choice(("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"))},
    ),
    _matrix(
        "matrix_set_diag",
        source="tf.linalg.set_diag({0}, {1})",
        gradients=("MatrixSetDiagV3",),
        arity=2,
        shapes=_with_diagonal,
    ),
    _matrix(
        "matrix_set_diag_below",
        source="tf.linalg.set_diag({0}, {1}, k=-1)",
        gradients=("MatrixSetDiagV3",),
        arity=2,
        shapes=_with_lower_diagonal,
    ),
    _matrix(
        "matrix_band_part",
        source="tf.linalg.band_part({0}, {lower}, {upper})",
        gradients=("MatrixBandPart",),
        attributes=lambda shape: {"lower": Choice((0, 1, -1)), "upper": Choice((-1, 0))},
    ),
    _vector("legacy_matrix_diag", source="tf.raw_ops.MatrixDiag(diagonal={0})", gradients=("MatrixDiag",)),
    _matrix("legacy_matrix_diag_part", source="tf.raw_ops.MatrixDiagPart(input={0})", gradients=("MatrixDiagPart",)),
    _matrix(
        "legacy_matrix_set_diag",
        source="tf.raw_ops.MatrixSetDiag(input={0}, diagonal={1})",
        gradients=("MatrixSetDiag",),
        arity=2,
        shapes=_with_diagonal,
    ),
    _vector(
        "tensor_diag",
        source="tf.linalg.tensor_diag({0})",
        gradients=("Diag",),
        batched="tf.linalg.diag({0})",
        shapes=of_rank(1),
        starts=((2,), (1,), (3,)),
    ),
    _matrix(
        "tensor_diag_part",
        source="tf.linalg.tensor_diag_part({0})",
        gradients=("DiagPart",),
        batched="tf.linalg.diag_part({0})",
        shapes=only_if(lambda shape: len(shape) == 2 and all(shape) and shape[0] == shape[1]),
        starts=((2, 2), (1, 1)),
    ),
    OpSpec(
        "space_to_depth",
        "array",
        "tf.nn.space_to_depth({0}[tf.newaxis], 2)[0]",
        ("SpaceToDepth",),
        batched="tf.nn.space_to_depth({0}, 2)",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[0] % 2 == shape[1] % 2 == 0),
        starts=((2, 2, 1), (2, 4, 1), (2, 2, 2)),
    ),
    OpSpec(
        "depth_to_space",
        "array",
        "tf.nn.depth_to_space({0}[tf.newaxis], 2)[0]",
        ("DepthToSpace",),
        batched="tf.nn.depth_to_space({0}, 2)",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[2] % 4 == 0),
        starts=((1, 1, 4), (1, 2, 4)),
    ),
    OpSpec(
        "extract_patches",
        "array",
        "tf.image.extract_patches({0}[tf.newaxis], [1, 2, 2, 1], [1, {stride}, 1, 1], [1, 1, {rate}, 1], {padding})[0]",
        ("ExtractImagePatches",),
        batched="tf.image.extract_patches({0}, [1, 2, 2, 1], [1, {stride}, 1, 1], [1, 1, {rate}, 1], {padding})",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[0] > 1 and shape[1] > 2),
        starts=((2, 3, 1), (3, 3, 1), (2, 3, 2)),
        attributes=lambda shape: {
            "stride": Choice((1, 2)),
            "rate": Choice((1, 2)),
            "padding": Choice(("VALID", "SAME")),
        },
    ),
    OpSpec(
        "extract_volume_patches",
        "array",
        "tf.raw_ops.ExtractVolumePatches(input={0}[tf.newaxis], ksizes=[1, 1, 2, 2, 1], strides=[1, 1, 1, 1, 1], "
        "padding={padding})[0]",
        ("ExtractVolumePatches",),
        batched="tf.raw_ops.ExtractVolumePatches(input={0}, ksizes=[1, 1, 2, 2, 1], strides=[1, 1, 1, 1, 1], "
        "padding={padding})",
        shapes=only_if(lambda shape: len(shape) == 4 and all(shape) and min(shape[1:3]) > 1),
        starts=((1, 2, 2, 1), (2, 2, 2, 1)),
        attributes=lambda shape: {"padding": Choice(("VALID", "SAME"))},
    ),
)
