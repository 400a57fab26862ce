"""Containers of tensors in one variant tensor: lists, maps, optionals and ragged rows."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.control_flow import ROWS
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, vector
from gradcheck.hunt.opspec import BOOL, Indices

_variant = partial(operation, "variant containers (TensorList/Map/Optional)")
_rows_variant = partial(_variant, shapes=vector, starts=ROWS)


def optional_value(x: tf.Tensor) -> tf.Tensor:
    optional = tf.raw_ops.OptionalFromValue(components=[x])
    return tf.raw_ops.OptionalGetValue(optional=optional, output_types=[tf.float64], output_shapes=[x.shape])[0]


def element_shape_of(x: tf.Tensor) -> tf.Tensor | tf.TensorShape:
    """The shape as TensorFlow knows it before it runs, or as it will be."""
    return x.shape if x.shape.is_fully_defined() else tf.shape(x)


def list_of_one(x: tf.Tensor) -> tf.Tensor:
    empty = tf.raw_ops.EmptyTensorList(element_shape=element_shape_of(x), max_num_elements=2, element_dtype=tf.float64)
    return tf.raw_ops.TensorListPushBack(input_handle=empty, tensor=x)


def list_item(handle: tf.Tensor, index: int, shape: tf.Tensor | tf.TensorShape) -> tf.Tensor:
    return tf.raw_ops.TensorListGetItem(input_handle=handle, index=index, element_shape=shape, element_dtype=tf.float64)


def pushed_and_popped(x: tf.Tensor, *, left: bool) -> tf.Tensor:
    """What is taken from a list, or from what is left of a longer one."""
    items, shape = list_of_one(x), element_shape_of(x)
    if left:
        items = tf.raw_ops.TensorListPushBack(input_handle=items, tensor=tf.sin(x))
    popped = tf.raw_ops.TensorListPopBack(input_handle=items, element_shape=shape, element_dtype=tf.float64)
    return list_item(popped.output_handle, 0, shape) if left else popped.tensor


def stacked_list(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    both = tf.raw_ops.TensorListPushBack(input_handle=list_of_one(x), tensor=y)
    return tf.raw_ops.TensorListStack(
        input_handle=both, element_shape=element_shape_of(x), element_dtype=tf.float64, num_elements=2
    )


def set_list_item(x: tf.Tensor, *, resized: bool) -> tf.Tensor:
    """The last item of a list that had it before, or becomes longer by it."""
    count = 1 if resized else 2
    reserved = tf.raw_ops.TensorListReserve(
        element_shape=element_shape_of(x), num_elements=count, element_dtype=tf.float64
    )
    written = tf.raw_ops.TensorListSetItem(
        input_handle=reserved, index=1, item=x, resize_if_index_out_of_bounds=resized
    )
    return list_item(written, 1, element_shape_of(x))


def gathered_from_list(x: tf.Tensor, *, indices: tuple[int, ...]) -> tf.Tensor:
    rows = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=x.shape[1:])
    return tf.raw_ops.TensorListGather(
        input_handle=rows, indices=indices, element_shape=x.shape[1:], element_dtype=tf.float64
    )


def split_and_concatenated(x: tf.Tensor) -> tf.Tensor:
    shape = [-1, *x.shape[1:]]
    pieces = tf.raw_ops.TensorListSplit(tensor=x, element_shape=shape, lengths=[1, x.shape[0] - 1])
    return tf.raw_ops.TensorListConcat(input_handle=pieces, element_dtype=tf.float64, element_shape=shape)[0]


def scattered_to_list(x: tf.Tensor) -> tf.Tensor:
    count, shape = x.shape[0], x.shape[1:]
    reversed_rows = tf.raw_ops.TensorListScatterV2(
        tensor=x, indices=range(count)[::-1], element_shape=shape, num_elements=count
    )
    return tf.raw_ops.TensorListStack(input_handle=reversed_rows, element_shape=shape, element_dtype=tf.float64)


def concatenated_list(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    both = tf.raw_ops.TensorListPushBack(input_handle=list_of_one(x), tensor=y)
    shape = [-1, *x.shape[1:]]
    return tf.raw_ops.TensorListConcatV2(
        input_handle=both, element_shape=shape, leading_dims=tf.constant([], tf.int64), element_dtype=tf.float64
    )[0]


def scattered_to_new_list(x: tf.Tensor) -> tf.Tensor:
    count, shape = x.shape[0], x.shape[1:]
    reversed_rows = tf.raw_ops.TensorListScatter(tensor=x, indices=range(count)[::-1], element_shape=shape)
    return tf.raw_ops.TensorListStack(input_handle=reversed_rows, element_shape=shape, element_dtype=tf.float64)


def scattered_into_list(x: tf.Tensor, y: tf.Tensor, *, indices: tuple[int, ...]) -> tf.Tensor:
    rows = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=x.shape[1:])
    changed = tf.raw_ops.TensorListScatterIntoExistingList(input_handle=rows, tensor=y, indices=indices)
    return tf.raw_ops.TensorListStack(input_handle=changed, element_shape=x.shape[1:], element_dtype=tf.float64)


def scattered_rows(x: tf.Tensor, y: tf.Tensor, *, indices: tuple[int, ...]) -> tf.Tensor:
    """What `scattered_into_list` makes of every point."""
    return tf.stack([y[:, indices.index(row)] if row in indices else x[:, row] for row in range(x.shape[1])], axis=1)


def ragged_in_variant(x: tf.Tensor) -> tf.Tensor:
    from tensorflow.python.ops import composite_tensor_ops

    ragged = tf.RaggedTensor.from_row_lengths(x, [1, x.shape[0] - 1])
    encoded = composite_tensor_ops.composite_tensor_to_variants(ragged)
    return composite_tensor_ops.composite_tensor_from_variant(encoded, tf.type_spec_from_value(ragged)).values


def map_of_two(x: tf.Tensor, y: tf.Tensor, keys: tuple[str, str]) -> tf.Tensor:
    """A map of x and y under these keys, the second of which may be the first; its gradients are registered here."""
    from tensorflow.python.ops import map_ops

    one = map_ops.tensor_map_insert(map_ops.empty_tensor_map(), keys[0], x)
    return map_ops.tensor_map_insert(one, keys[1], y)


def looked_up(x: tf.Tensor, y: tf.Tensor, *, keys: tuple[str, str]) -> tf.Tensor:
    held = map_of_two(x, y, keys)
    first, second = (tf.raw_ops.TensorMapLookup(input_handle=held, key=key, value_dtype=tf.float64) for key in keys)
    return first * tf.sin(second)


def looked_up_after_erasing(x: tf.Tensor, y: tf.Tensor, *, erased: str) -> tf.Tensor:
    rest = tf.raw_ops.TensorMapErase(input_handle=map_of_two(x, y, ("a", "b")), key=erased, value_dtype=tf.float64)
    return tf.raw_ops.TensorMapLookup(input_handle=rest, key="b" if erased == "a" else "a", value_dtype=tf.float64)


VARIANTS = (
    _variant("optional", optional_value, "OptionalFromValue OptionalGetValue"),
    _variant("tensor_list_push_pop", pushed_and_popped, "TensorListPushBack TensorListPopBack", left=BOOL),
    _variant(
        "tensor_list_stack",
        stacked_list,
        "TensorListPushBack TensorListStack",
        batched=lambda x, y: tf.stack([x, y], axis=1),
        others=alike,
    ),
    _variant("tensor_list_set_item", set_list_item, "TensorListSetItem TensorListGetItem", resized=BOOL),
    _rows_variant(
        "tensor_list_gather",
        gathered_from_list,
        "TensorListFromTensor TensorListGather",
        batched=lambda x, *, indices: tf.gather(x, indices, axis=1),
        indices=lambda shape: ((0, 0), (0, 1), (1, 0)) if shape[0] > 1 else ((0, 0), (0,)),
    ),
    _rows_variant(
        "tensor_list_concat", split_and_concatenated, "TensorListSplit TensorListConcat", batched=lambda x: x
    ),
    _rows_variant(
        "tensor_list_scatter", scattered_to_list, "TensorListScatterV2 TensorListStack", batched=lambda x: x[:, ::-1]
    ),
    _variant(
        "tensor_list_resize",
        lambda x: list_item(tf.raw_ops.TensorListResize(input_handle=list_of_one(x), size=2), 0, element_shape_of(x)),
        "TensorListResize TensorListGetItem",
    ),
    _rows_variant(
        "tensor_list_concat_v2",
        concatenated_list,
        "TensorListConcatV2 TensorListPushBack",
        batched=lambda x, y: tf.concat([x, y], axis=1),
        others=alike,
    ),
    _rows_variant(
        "legacy_tensor_list_scatter",
        scattered_to_new_list,
        "TensorListScatter TensorListStack",
        batched=lambda x: x[:, ::-1],
    ),
    _rows_variant(
        "tensor_list_scatter_into_existing",
        scattered_into_list,
        "TensorListScatterIntoExistingList TensorListFromTensor TensorListStack",
        batched=scattered_rows,
        others=lambda shape: [((count, *shape[1:]),) for count in (1, 2) if count <= shape[0]],
        indices=lambda shape, updates: Indices(updates[0], below=shape[0], distinct=True),
    ),
    _rows_variant(
        "composite_tensor_variant",
        ragged_in_variant,
        "CompositeTensorVariantFromComponents CompositeTensorVariantToComponents",
        batched=lambda x: x,
    ),
    _variant(
        "tensor_map",
        looked_up,
        "TensorMapInsert TensorMapLookup",
        batched=lambda x, y, *, keys: [x, y][keys[0] == keys[1]] * tf.sin(y),
        others=alike,
        keys=(("a", "b"), ("a", "a")),
    ),
    _variant(
        "tensor_map_erase",
        looked_up_after_erasing,
        "TensorMapErase TensorMapInsert TensorMapLookup",
        batched=lambda x, y, *, erased: x if erased == "b" else y,
        others=alike,
        erased=("a", "b"),
    ),
)
