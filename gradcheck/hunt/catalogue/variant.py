"""Operations of the census's family `variant containers (TensorList/Map/Optional)`.

The gradients of TensorMap are registered by a module that `import tensorflow` does not load; they cannot be reached.
"""

from __future__ import annotations

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Choice, OpSpec

FAMILY = "variant containers (TensorList/Map/Optional)"
ELEMENTS = "element_shape={0}.shape, element_dtype=tf.float64"
EMPTY = "tf.raw_ops.EmptyTensorList(element_shape={0}.shape, max_num_elements=2, element_dtype=tf.float64)"
PUSHED = f"tf.raw_ops.TensorListPushBack(input_handle={EMPTY}, tensor={{0}})"


def _pair(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape, shape)]


def _rows(shape: Shape) -> list[tuple[Shape, ...]]:
    return [(shape,)] if shape and all(shape) else []


OPERATIONS = (
    OpSpec(
        "optional",
        FAMILY,
        "tf.raw_ops.OptionalGetValue(optional=tf.raw_ops.OptionalFromValue(components=[{0}]), "
        "output_types=[tf.float64], output_shapes=[{0}.shape])[0]",
        ("OptionalFromValue", "OptionalGetValue"),
    ),
    OpSpec(
        "tensor_list_push_pop",
        FAMILY,
        f"tf.raw_ops.TensorListPopBack(input_handle={PUSHED}, {ELEMENTS}).tensor",
        ("TensorListPushBack", "TensorListPopBack"),
    ),
    OpSpec(
        "tensor_list_stack",
        FAMILY,
        "tf.raw_ops.TensorListStack(input_handle=tf.raw_ops.TensorListPushBack("
        f"input_handle={PUSHED}, tensor={{1}}), {ELEMENTS}, num_elements=2)",
        ("TensorListPushBack", "TensorListStack"),
        arity=2,
        batched="tf.stack([{0}, {1}], axis=1)",
        shapes=_pair,
    ),
    OpSpec(
        "tensor_list_set_item",
        FAMILY,
        "tf.raw_ops.TensorListGetItem(input_handle=tf.raw_ops.TensorListSetItem("
        "input_handle=tf.raw_ops.TensorListReserve(element_shape={0}.shape, num_elements=2, element_dtype=tf.float64), "
        f"index=1, item={{0}}), index=1, {ELEMENTS})",
        ("TensorListSetItem", "TensorListGetItem"),
    ),
    OpSpec(
        "tensor_list_gather",
        FAMILY,
        "tf.raw_ops.TensorListGather(input_handle=tf.raw_ops.TensorListFromTensor(tensor={0}, "
        "element_shape={0}.shape[1:]), indices={indices}, element_shape={0}.shape[1:], element_dtype=tf.float64)",
        ("TensorListFromTensor", "TensorListGather"),
        batched="tf.gather({0}, {indices}, axis=1)",
        shapes=_rows,
        starts=((2,), (3,), (2, 2)),
        attributes=lambda shape: {"indices": Choice(((0, 0), (0, 1), (1, 0)) if shape[0] > 1 else ((0, 0), (0,)))},
    ),
    OpSpec(
        "tensor_list_concat",
        FAMILY,
        "tf.raw_ops.TensorListConcat(input_handle=tf.raw_ops.TensorListSplit(tensor={0}, "
        "element_shape=[-1, *{0}.shape[1:]], lengths=[1, {0}.shape[0] - 1]), element_dtype=tf.float64, "
        "element_shape=[-1, *{0}.shape[1:]])[0]",
        ("TensorListSplit", "TensorListConcat"),
        batched="{0}",
        shapes=_rows,
        starts=((2,), (3,), (2, 2)),
    ),
    OpSpec(
        "tensor_list_scatter",
        FAMILY,
        "tf.raw_ops.TensorListStack(input_handle=tf.raw_ops.TensorListScatterV2(tensor={0}, "
        "indices=range({0}.shape[0])[::-1], element_shape={0}.shape[1:], num_elements={0}.shape[0]), "
        "element_shape={0}.shape[1:], element_dtype=tf.float64)",
        ("TensorListScatterV2", "TensorListStack"),
        batched="{0}[:, ::-1]",
        shapes=_rows,
        starts=((2,), (3,), (2, 2)),
    ),
    OpSpec(
        "tensor_list_resize",
        FAMILY,
        f"tf.raw_ops.TensorListGetItem(input_handle=tf.raw_ops.TensorListResize(input_handle={PUSHED}, size=2), "
        f"index=0, {ELEMENTS})",
        ("TensorListResize", "TensorListGetItem"),
    ),
)
