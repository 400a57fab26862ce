"""Operations around values: identity, control flow, resource variables and variant containers.

Run eagerly, `tf.cond` and `tf.while_loop` are Python; their gradients act in graphs, so they are traced, once. The
gradients of TensorMap are registered by a module that `import tensorflow` does not load; they cannot be reached.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.language import operation, rows_first, tf
from gradcheck.hunt.catalogue.shapes import alike, nonempty, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, Indices

_identity = partial(operation, "identity/debug/script")


def identity_of_two(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    first, second = tf.identity_n([x, y])
    return first * tf.sin(second)


def python_function(x: tf.Tensor) -> tf.Tensor:
    return tf.py_function(lambda value: value * tf.sin(value), [x], tf.float64)


IDENTITY = (
    _identity("identity", "tf.identity({0})", "Identity"),
    _identity("identity_n", identity_of_two, "IdentityN", others=alike),
    _identity("check_numerics", "tf.debugging.check_numerics({0}, 'not finite')", "CheckNumerics"),
    _identity("ensure_shape", "tf.ensure_shape({0}, {0}.shape)", "EnsureShape"),
    _identity("py_function", python_function, "EagerPyFunc"),
)

_control = partial(operation, "control flow")
ROWS: tuple[Shape, ...] = ((2,), (3,), (2, 2))


def sine_or_square(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    return tf.cond(flag, lambda: tf.sin(x), lambda: x * x)


def plus_or_minus_the_sum(x: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x + tf.reduce_sum(x), lambda: x - tf.reduce_sum(x))


def one_of_three(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    return tf.switch_case(branch, [lambda: tf.sin(x), lambda: x * x, lambda: tf.exp(x)])


def times_the_sine(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * tf.sin(x)), (0, x))[1]


def running_sines(x: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda state, element: tf.sin(state) + element, x)


CONTROL_FLOW = (
    _control("placeholder_with_default", "tf.raw_ops.PlaceholderWithDefault(input={0}, shape={0}.shape)"),
    _control("cond", "traced(sine_or_square)({0}, tf.constant({flag}))", "StatelessIf", flag=BOOL),
    _control(
        "cond_on_value",
        "traced(plus_or_minus_the_sum)({0})",
        "StatelessIf",
        looped=True,
        shapes=nonempty,
        kinks=lambda x: np.abs(np.sum(x)),
    ),
    _control("switch_case", "traced(one_of_three)({0}, tf.constant({branch}))", "StatelessCase", branch=(0, 1, 2)),
    _control("while_loop", "traced(times_the_sine)({0}, tf.constant({count}))", "StatelessWhile", count=(1, 2, 3, 0)),
    _control(
        "scan",
        "traced(running_sines)({0})",
        "StatelessWhile TensorListFromTensor TensorListGetItem TensorListSetItem TensorListStack",
        batching=rows_first,
        shapes=vector,
        starts=ROWS,
    ),
)

_resource = partial(operation, "resource variable")


def variable_handle(x: tf.Tensor) -> tf.Tensor:
    """The handle of a variable with this value. A variable cuts the gradient; here the handle's goes to the value."""

    @tf.custom_gradient
    def handle(value):  # type: ignore[no-untyped-def]
        variable = tf.Variable(value)
        return variable.handle, lambda cotangent: tf.convert_to_tensor(cotangent)

    return handle(x)


RESOURCES = (
    _resource("read_variable", "tf.raw_ops.ReadVariableOp(resource=variable_handle({0}), dtype=tf.float64)"),
    _resource(
        "resource_gather",
        "tf.raw_ops.ResourceGather(resource=variable_handle({0}), indices={indices}, dtype=tf.float64)",
        batched="tf.gather({0}, {indices}, axis=1)",
        shapes=vector,
        starts=ROWS,
        indices=lambda shape: Indices(3, shape[0]),
    ),
)

_variant = partial(operation, "variant containers (TensorList/Map/Optional)")
_rows_variant = partial(_variant, shapes=vector, starts=ROWS)


def optional_value(x: tf.Tensor) -> tf.Tensor:
    optional = tf.raw_ops.OptionalFromValue(components=[x])
    return tf.raw_ops.OptionalGetValue(optional=optional, output_types=[tf.float64], output_shapes=[x.shape])[0]


def list_of_one(x: tf.Tensor) -> tf.Tensor:
    empty = tf.raw_ops.EmptyTensorList(element_shape=x.shape, max_num_elements=2, element_dtype=tf.float64)
    return tf.raw_ops.TensorListPushBack(input_handle=empty, tensor=x)


def list_item(handle: tf.Tensor, index: int, shape: tf.TensorShape) -> tf.Tensor:
    return tf.raw_ops.TensorListGetItem(input_handle=handle, index=index, element_shape=shape, element_dtype=tf.float64)


def pushed_and_popped(x: tf.Tensor) -> tf.Tensor:
    popped = tf.raw_ops.TensorListPopBack(input_handle=list_of_one(x), element_shape=x.shape, element_dtype=tf.float64)
    return popped.tensor


def stacked_list(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    both = tf.raw_ops.TensorListPushBack(input_handle=list_of_one(x), tensor=y)
    return tf.raw_ops.TensorListStack(
        input_handle=both, element_shape=x.shape, element_dtype=tf.float64, num_elements=2
    )


def set_list_item(x: tf.Tensor) -> tf.Tensor:
    reserved = tf.raw_ops.TensorListReserve(element_shape=x.shape, num_elements=2, element_dtype=tf.float64)
    return list_item(tf.raw_ops.TensorListSetItem(input_handle=reserved, index=1, item=x), 1, x.shape)


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


VARIANTS = (
    _variant("optional", optional_value, "OptionalFromValue OptionalGetValue"),
    _variant("tensor_list_push_pop", pushed_and_popped, "TensorListPushBack TensorListPopBack"),
    _variant(
        "tensor_list_stack",
        stacked_list,
        "TensorListPushBack TensorListStack",
        batched="tf.stack([{0}, {1}], axis=1)",
        others=alike,
    ),
    _variant("tensor_list_set_item", set_list_item, "TensorListSetItem TensorListGetItem"),
    _rows_variant(
        "tensor_list_gather",
        gathered_from_list,
        "TensorListFromTensor TensorListGather",
        batched="tf.gather({0}, {indices}, axis=1)",
        indices=lambda shape: ((0, 0), (0, 1), (1, 0)) if shape[0] > 1 else ((0, 0), (0,)),
    ),
    _rows_variant("tensor_list_concat", split_and_concatenated, "TensorListSplit TensorListConcat", batched="{0}"),
    _rows_variant(
        "tensor_list_scatter", scattered_to_list, "TensorListScatterV2 TensorListStack", batched="{0}[:, ::-1]"
    ),
    _variant(
        "tensor_list_resize",
        "list_item(tf.raw_ops.TensorListResize(input_handle=list_of_one({0}), size=2), 0, {0}.shape)",
        "TensorListResize TensorListGetItem",
    ),
)
