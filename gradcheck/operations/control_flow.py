"""Operations around values: identity, control flow, maps, resource variables and containers.

Run eagerly, `tf.cond` and `tf.while_loop` are Python; their gradients act in graphs, so they are traced, once. A branch
with an effect, such as a check, makes them other operations than one without.
"""

from __future__ import annotations

import functools
from functools import partial

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import at_integers
from gradcheck.operations.language import operation, points_last, rows_first, tf, traced
from gradcheck.operations.shapes import alike, nonempty_matrix, vector
from gradcheck.operations.spec import BOOL, Indices

_identity = partial(operation, "identity/debug/script")


def identity_of_two(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    first, second = tf.identity_n([x, y])
    return first * tf.sin(second)


def python_function(x: tf.Tensor) -> tf.Tensor:
    return tf.py_function(lambda value: value * tf.sin(value), [x], tf.float64)


def python_function_of_rows(x: tf.Tensor) -> tf.Tensor:
    """A Python function of ragged rows, the first elements in one, the last in another: other rows, and a number."""
    rows = tf.RaggedTensor.from_row_lengths(x, [x.shape[0] - 1, 1])
    spec = tf.RaggedTensorSpec([2, *[None] * len(x.shape)], tf.float64, 1)
    sines, cosine = tf.py_function(
        lambda given: [given.with_flat_values(tf.sin(given.flat_values)), tf.cos(given.flat_values[0])],
        [rows],
        [spec, tf.float64],
    )
    return sines.flat_values * cosine


def checked(x: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.CheckNumericsV2(tensor=x, message="not finite")


IDENTITY = (
    _identity("identity", lambda x: tf.identity(x), "Identity"),
    _identity("identity_n", identity_of_two, "IdentityN", others=alike),
    _identity("check_numerics", lambda x: tf.debugging.check_numerics(x, "not finite"), "CheckNumerics"),
    _identity("ensure_shape", lambda x: tf.ensure_shape(x, x.shape), "EnsureShape"),
    _identity("py_function", python_function, "EagerPyFunc"),
    _identity(
        "py_function_of_rows",
        python_function_of_rows,
        "EagerPyFunc",
        batched=lambda x: tf.sin(x) * tf.cos(x[:, :1]),
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
    ),
    _identity("check_numerics_v2", lambda x: checked(x), "CheckNumericsV2"),
    # Of 0 messages, none is printed.
    _identity("print", lambda x: tf.raw_ops.Print(input=x, data=[x, x], first_n=0)),
    _identity("debug_identity", lambda x: tf.raw_ops.DebugIdentityV2(input=x)),
)

_control = partial(operation, "control flow")
ROWS: tuple[Shape, ...] = ((2,), (3,), (2, 2))
_of_rows = partial(_control, batching=rows_first, shapes=vector, starts=ROWS)


def sine_or_square(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    return tf.cond(flag, lambda: tf.sin(x), lambda: x * x)


def plus_or_minus_the_sum(x: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x + tf.reduce_sum(x), lambda: x - tf.reduce_sum(x))


def one_of_three(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    return tf.switch_case(branch, [lambda: tf.sin(x), lambda: x * x, lambda: tf.exp(x)])


def times_the_sine(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * tf.sin(x)), (0, x))[1]


def growing(x: tf.Tensor, count: tf.Tensor, limit: int) -> tf.Tensor:
    """Rows to which the sine of the last is appended `count` times, but not more often than `limit`."""
    return tf.while_loop(
        lambda i, rows: i < count,
        lambda i, rows: (i + 1, tf.concat([rows, tf.sin(rows[-1:])], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]).concatenate(x.shape[1:])),
        maximum_iterations=limit,
    )[1]


def recurrence(x: tf.Tensor, y: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Of the loop's variables one is the result, one stays as it is, and one takes no part; y comes from outside."""
    return tf.while_loop(
        lambda i, *_: i < count,
        lambda i, state, weight, rest: (i + 1, state * tf.sin(y) + weight, weight, tf.cos(rest)),
        (0, x, x * y, y),
    )[1]


def sine_or_other(x: tf.Tensor, y: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    """Each branch takes one of the arguments alone."""
    return tf.cond(flag, lambda: tf.sin(x), lambda: y * y)


def up_or_down(x: tf.Tensor, y: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    """No branch has a gradient by y."""
    return tf.cond(flag, lambda: x * tf.floor(y), lambda: x * x - tf.floor(y))


def one_of_these(x: tf.Tensor, y: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    return tf.switch_case(branch, [lambda: tf.sin(x), lambda: x * y, lambda: tf.exp(y), lambda: tf.ones_like(x)])


def one_of_rows(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    """Two elements, of which the gradient is IndexedSlices, with indices of either type, or a tensor."""
    repeated = tf.constant([0, 0], tf.int64)
    return tf.switch_case(branch, [lambda: tf.gather(x, [0, 2]), lambda: tf.gather(x, repeated), lambda: tf.sin(x[:2])])


def sums_of_gathers(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Every turn gathers rows of x, the last one first: the gradients of the loop's body and of its result are
    IndexedSlices."""
    last_first = tf.range(tf.shape(x)[0])[::-1]
    rows = tf.while_loop(
        lambda i, y: i < count,
        lambda i, y: (i + 1, tf.sin(y) + tf.gather(x, last_first)),
        (0, tf.zeros_like(x)),
    )[1]
    return tf.gather(rows, tf.concat([last_first, last_first], 0))


def running_sines(x: tf.Tensor, reverse: bool) -> tf.Tensor:
    return tf.scan(lambda state, element: tf.sin(state) + element, x, reverse=reverse)


def running_sines_from(x: tf.Tensor, y: tf.Tensor, reverse: bool) -> tf.Tensor:
    """The sums of two states that every row makes of those of the row before; the first are y and ones."""
    return tf.add_n(
        tf.scan(
            lambda states, row: (tf.sin(states[1]) + row, states[0] * row),
            x,
            initializer=(y, tf.ones_like(y)),
            reverse=reverse,
        )
    )


def checked_sine_or_square(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    return tf.cond(flag, lambda: checked(tf.sin(x)), lambda: x * x)


def checked_one_of_three(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    return tf.switch_case(branch, [lambda: tf.sin(x), lambda: checked(x * x), lambda: tf.exp(x)])


def checked_times_the_sine(x: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, checked(y * tf.sin(x))), (0, x))[1]


CONTROL_FLOW = (
    _control("placeholder_with_default", lambda x: tf.raw_ops.PlaceholderWithDefault(input=x, shape=x.shape)),
    _control("cond", lambda x, *, flag: traced(sine_or_square)(x, tf.constant(flag)), "StatelessIf", flag=BOOL),
    _control(
        "cond_on_value",
        lambda x: traced(plus_or_minus_the_sum)(x),
        "StatelessIf",
        looped=True,
        shapes=vector,  # of a number, Grappler makes the value an empty tensor of single precision
        kinks=lambda x: np.abs(np.sum(x)),
    ),
    _control(
        "switch_case",
        lambda x, *, branch: traced(one_of_three)(x, tf.constant(branch)),
        "StatelessCase",
        branch=(0, 1, 2),
    ),
    _control(
        "cond_of_either",
        lambda x, y, *, flag: traced(sine_or_other)(x, y, tf.constant(flag)),
        "StatelessIf",
        others=alike,
        flag=BOOL,
    ),
    _control(
        "cond_without_one",
        lambda x, y, *, flag: traced(up_or_down)(x, y, tf.constant(flag)),
        "StatelessIf Floor",
        others=alike,
        singular=lambda x, y, flag: at_integers(y),
        flag=BOOL,
    ),
    _control(
        "switch_case_of_either",
        lambda x, y, *, branch: traced(one_of_these)(x, y, tf.constant(branch)),
        "StatelessCase",
        others=alike,
        branch=(0, 1, 2, 3),
    ),
    _control(
        "while_loop",
        lambda x, *, count: traced(times_the_sine)(x, tf.constant(count)),
        "StatelessWhile",
        count=(1, 2, 3, 0),
    ),
    _control(
        "recurrence",
        lambda x, y, *, count: traced(recurrence)(x, y, tf.constant(count)),
        "StatelessWhile",
        others=alike,
        count=(1, 2, 3, 0),
    ),
    _control(
        "switch_case_of_rows",
        lambda x, *, branch: traced(one_of_rows)(x, tf.constant(branch)),
        "StatelessCase GatherV2",
        looped=True,
        # Traced for one shape only: for several shapes, a function is traced once more without them.
        when=lambda shape: shape == (3,),
        starts=((3,),),
        branch=(0, 1, 2),
    ),
    _of_rows(
        "loop_of_gathers",
        lambda x, *, count: traced(sums_of_gathers)(x, tf.constant(count)),
        "StatelessWhile GatherV2",
        count=(1, 2, 3, 0),
    ),
    _of_rows(
        "growing_loop",
        lambda x, *, count, limit: traced(growing)(x, tf.constant(count), limit),
        "StatelessWhile ConcatV2",
        count=(1, 2, 3, 0),
        limit=(5, 2),
    ),
    _of_rows(
        "scan",
        lambda x, *, reverse: traced(running_sines)(x, reverse),
        "StatelessWhile TensorListFromTensor TensorListGetItem TensorListSetItem TensorListStack",
        reverse=BOOL,
    ),
    _control(
        "scan_from",
        lambda x, y, *, reverse: traced(running_sines_from)(x, y, reverse),
        "StatelessWhile TensorListFromTensor TensorListGetItem TensorListSetItem TensorListStack",
        batched=lambda x, y, *, reverse: tf.experimental.numpy.swapaxes(
            traced(running_sines_from)(tf.experimental.numpy.swapaxes(x, 0, 1), y, reverse), 0, 1
        ),
        shapes=vector,
        starts=ROWS,
        others=lambda shape: [(shape[1:],)],
        reverse=BOOL,
    ),
    _control(
        "cond_with_effect", lambda x, *, flag: traced(checked_sine_or_square)(x, tf.constant(flag)), "If", flag=BOOL
    ),
    _control(
        "switch_case_with_effect",
        lambda x, *, branch: traced(checked_one_of_three)(x, tf.constant(branch)),
        "Case",
        branch=(0, 1, 2),
    ),
    _control(
        "while_loop_with_effect",
        lambda x, *, count: traced(checked_times_the_sine)(x, tf.constant(count)),
        "While",
        count=(1, 2, 3, 0),
    ),
)

_resource = partial(operation, "resource variable")
_gather = partial(
    operation,
    batched=lambda x, *, indices: tf.gather(x, indices, axis=1),
    shapes=vector,
    starts=ROWS,
    indices=lambda shape: Indices(3, shape[0]),
)


def variable_handle(x: tf.Tensor) -> tf.Tensor:
    """The handle of a variable with this value. A variable cuts the gradient; here the handle's goes to the value."""

    @tf.custom_gradient
    def handle(value):  # type: ignore[no-untyped-def]
        variable = tf.Variable(value)
        return variable.handle, lambda cotangent: tf.convert_to_tensor(cotangent)

    return handle(x)


RESOURCES = (
    _resource("read_variable", lambda x: tf.raw_ops.ReadVariableOp(resource=variable_handle(x), dtype=tf.float64)),
    _gather(
        "resource variable",
        "resource_gather",
        lambda x, *, indices: tf.raw_ops.ResourceGather(resource=variable_handle(x), indices=indices, dtype=tf.float64),
    ),
    _gather(
        "resource variable",
        "resource_gather_nd_of_rows",
        lambda x, *, indices: tf.raw_ops.ResourceGatherNd(
            resource=variable_handle(x), indices=tf.expand_dims(indices, -1), dtype=tf.float64
        ),
    ),
    operation(
        "resource variable",
        "resource_gather_nd",
        lambda x, *, rows, columns: tf.raw_ops.ResourceGatherNd(
            resource=variable_handle(x), indices=tf.stack([rows, columns], axis=-1), dtype=tf.float64
        ),
        batched=points_last(lambda x, *, rows, columns: tf.gather_nd(x, tf.stack([rows, columns], axis=-1))),
        shapes=nonempty_matrix,
        starts=((2, 2), (1, 2), (2, 3), (2, 2, 2)),
        rows=lambda shape: Indices(2, shape[0]),
        columns=lambda shape: Indices(2, shape[1]),
    ),
)


_rows = partial(_control, shapes=vector, starts=ROWS)
_each = partial(_rows, batched=lambda x: x * tf.sin(x))
_folded = partial(_rows, batched=lambda x: fold_points(tf.unstack(x, axis=1)))


def mapped(x: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda row: row * tf.sin(row), x)


def mapped_at_once(x: tf.Tensor) -> tf.Tensor:
    return tf.vectorized_map(lambda row: row * tf.sin(row), x)


def folded(x: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda state, row: tf.sin(state) * row + state, x)


def fold_points(rows: list[tf.Tensor]) -> tf.Tensor:
    """The fold of the rows of every point."""
    return functools.reduce(lambda state, row: tf.sin(state) * row + state, rows)


def folded_back(x: tf.Tensor) -> tf.Tensor:
    return tf.foldr(lambda state, row: tf.sin(state) * row + state, x)


def first_case(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
    return tf.case([(flag, lambda: tf.sin(x)), (~flag, lambda: x * x)], default=lambda: tf.exp(x))


def recomputed(x: tf.Tensor) -> tf.Tensor:
    return tf.recompute_grad(lambda value: value * tf.sin(value))(x)


MAPPING = (
    _each("map_fn", lambda x: mapped(x), "Sin Mul"),
    _each("map_fn_traced", lambda x: traced(mapped)(x), "StatelessWhile"),
    _each("vectorized_map", lambda x: mapped_at_once(x), "Sin Mul"),
    _folded("foldl", lambda x: folded(x), "Sin Mul"),
    _folded("foldl_traced", lambda x: traced(folded)(x), "StatelessWhile"),
    _folded("foldr", lambda x: folded_back(x), "Sin Mul", batched=lambda x: fold_points(tf.unstack(x, axis=1)[::-1])),
    _control("case", lambda x, *, flag: traced(first_case)(x, tf.constant(flag)), "StatelessIf", flag=(True, False)),
    _control("recompute_grad", lambda x: traced(recomputed)(x), "Sin Mul"),
)


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
    """The last element of a list, or, with `left`, the one that remains of a list of two."""
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
    """The batched form of `scattered_into_list`."""
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
