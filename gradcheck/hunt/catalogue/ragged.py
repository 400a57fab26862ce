"""Operations of the census's family `ragged`. The flat values are the argument; the row splits are constants."""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import OpSpec

# The second row is empty; the leading dimension of points follows the values.
ROWS = "tf.RaggedTensor.from_row_splits({0}, [0, 2, 2, 3])"


def _three(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape[:1] == (3,) and all(shape) else []


def _with_default(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, shape[1:])] if shape[:1] == (3,) and all(shape) else []


OPERATIONS = (
    OpSpec(
        "ragged_to_tensor",
        "ragged",
        f"{ROWS}.to_tensor({{1}})",
        ("RaggedTensorToTensor",),
        arity=2,
        batched="tf.stack([tf.stack([{0}[:, 0], {0}[:, 1]], 1), tf.stack([{1}, {1}], 1), "
        "tf.stack([{0}[:, 2], {1}], 1)], 1)",
        shapes=_with_default,
        starts=((3,), (3, 2)),
    ),
    OpSpec(
        "ragged_gather",
        "ragged",
        f"tf.gather({ROWS}, [0, 0, 2, 1]).values",
        ("RaggedGather",),
        batched="tf.gather({0}, [0, 1, 0, 1, 2], axis=1)",
        shapes=_three,
        starts=((3,), (3, 2)),
    ),
    OpSpec(
        "ragged_to_sparse",
        "ragged",
        f"{ROWS}.to_sparse().values",
        ("RaggedTensorToSparse",),
        batched="tf.reshape({0}, [{0}.shape[0], -1])",
        shapes=_three,
        starts=((3,), (3, 2)),
    ),
    OpSpec(
        "ragged_to_variant",
        "ragged",
        f"tf.RaggedTensor._from_variant({ROWS}._to_variant(), tf.float64, 1, 1).flat_values",
        ("RaggedTensorToVariant", "RaggedTensorFromVariant"),
        batched="{0}",
        shapes=_three,
        starts=((3,), (3, 2)),
        orders=(1,),  # RaggedTensorToVariantGradient has no registered gradient
    ),
)
