"""Operations of the census's family `resource variable`.

A variable made of a tensor cuts the gradient, so a custom gradient joins the handle to the tensor; what lies behind the
handle, reading and gathering, is TensorFlow's own.
"""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Indices, OpSpec

FAMILY = "resource variable"
HANDLE = "tf.custom_gradient(lambda x: (lambda v: (v.handle, lambda d: tf.convert_to_tensor(d)))(tf.Variable(x)))({0})"


def _rows(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape and all(shape) else []


OPERATIONS = (
    OpSpec(
        "read_variable",
        FAMILY,
        f"tf.raw_ops.ReadVariableOp(resource={HANDLE}, dtype=tf.float64)",
        ("ReadVariableOp",),
    ),
    OpSpec(
        "resource_gather",
        FAMILY,
        f"tf.raw_ops.ResourceGather(resource={HANDLE}, indices={{indices}}, dtype=tf.float64)",
        ("ResourceGather",),
        batched="tf.gather({0}, {indices}, axis=1)",
        shapes=_rows,
        starts=((2,), (3,), (2, 2)),
        attributes=lambda shape: {"indices": Indices(3, shape[0])},
    ),
)
