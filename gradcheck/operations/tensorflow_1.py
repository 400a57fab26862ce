"""Operations that only a graph of TensorFlow 1 makes: its control flow, its tensor arrays, and removed versions.

tf.gradients takes their derivatives, in a session each; differences are taken of what they compute, written anew. A
session takes no tensors of other graphs, so that none of them is drawn in modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

from gradcheck.operations.control_flow import ROWS
from gradcheck.operations.language import MADE_ONCE, float32, operation, tf
from gradcheck.operations.nn import per_channel
from gradcheck.operations.shapes import alike, at_least, vector
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Indices


@functools.lru_cache(maxsize=64)
def session_of_tensorflow_1(
    function: Callable[..., Any],
    attributes: tuple[tuple[str, Any], ...],
    specs: tuple[tuple[Any, tuple[int | None, ...] | None], ...],
    producer: int,
) -> tuple[Any, list[Any], Any]:
    """A session for the function of arguments with these dtypes and shapes in such a graph, the arguments, the results.

    It is kept, since making it takes a hundred times as long as running it.
    """
    modern = tf.compat.v1.control_flow_v2_enabled()
    tf.compat.v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            if producer:
                old = tf.compat.v1.GraphDef()
                old.versions.producer = producer
                tf.import_graph_def(old, name="")
            arguments = [tf.compat.v1.placeholder(*spec) for spec in specs]
            results = function(*arguments, **dict(attributes))
            return tf.compat.v1.Session(graph=graph), arguments, results
    finally:
        if modern:
            tf.compat.v1.enable_control_flow_v2()


MADE_ONCE.append(session_of_tensorflow_1)


@functools.cache
def derivatives_in_tensorflow_1(function: Callable[..., Any], count: int) -> Callable[..., list[tf.Tensor]]:
    """The function from `count` arguments and the cotangents of the results to the gradients, made once."""

    def derivatives(*both: tf.Tensor, **attributes: Any) -> list[tf.Tensor]:
        given, upstream = both[:count], both[count:]
        found = tf.gradients(function(*given, **attributes), given, upstream, unconnected_gradients="zero")
        return [tf.convert_to_tensor(gradient) for gradient in found]

    return derivatives


def in_tensorflow_1(
    function: Callable[..., Any], *values: tf.Tensor, known: str = "shape", producer: int = 0, **attributes: Any
) -> Any:
    """The function's value in a graph of TensorFlow 1, and its derivatives by tf.gradients in such graphs.

    Of the arguments such a graph knows the "shape", the "rank" or "nothing". `producer` is the version of the release
    that it is of, if it has operations that were removed since.
    """

    @tf.custom_gradient
    def evaluated(*values):  # type: ignore[no-untyped-def]
        given = [tf.convert_to_tensor(value).numpy() for value in values]
        specs = tuple((value.dtype, {"shape": value.shape, "rank": (None,) * value.ndim}.get(known)) for value in given)
        session, arguments, results = session_of_tensorflow_1(function, tuple(attributes.items()), specs, producer)
        found = session.run(results, dict(zip(arguments, given, strict=True)))
        return tf.nest.map_structure(tf.constant, found), lambda *upstream: in_tensorflow_1(
            derivatives_in_tensorflow_1(function, len(values)),
            *values,
            *map(tf.convert_to_tensor, upstream),
            known=known,
            producer=producer,
            **attributes,
        )

    return evaluated(*values)


def old_sum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.AccumulateNV2(inputs=[x, y, x], shape=x.shape)


def old_sine_or_square(x: tf.Tensor, *, flag: bool) -> tf.Tensor:
    return tf.compat.v1.cond(tf.constant(flag), lambda: tf.sin(x), lambda: x * x)


def old_rows_or_sine(x: tf.Tensor, *, flag: bool) -> tf.Tensor:
    """Two rows, of which the gradient is IndexedSlices, or a tensor."""
    return tf.compat.v1.cond(tf.constant(flag), lambda: tf.gather(x, [0, 0]), lambda: tf.sin(tf.stack([x[0], x[-1]])))


def old_times_the_sine(x: tf.Tensor, *, count: int) -> tf.Tensor:
    return tf.compat.v1.while_loop(lambda i, y: i < count, lambda i, y: (i + 1, y * tf.sin(x)), (0, x))[1]


def old_gather_of_loop(x: tf.Tensor, *, count: int, indices: tuple[int, ...]) -> tf.Tensor:
    return tf.gather(old_times_the_sine(x, count=count), indices)


def old_cosine_in_turn(x: tf.Tensor, *, count: int) -> tf.Tensor:
    """Every turn makes the loop's variable anew, whatever it was."""
    return tf.compat.v1.while_loop(lambda i, _: i < count, lambda i, _: (i + 1, tf.cos(x)), (0, x))[1]


def old_sines_of_rows(x: tf.Tensor, *, count: int) -> tf.Tensor:
    """Every turn adds rows of x, the last one first, whose gradient is IndexedSlices."""
    last_first = tf.range(tf.shape(x)[0])[::-1]
    return tf.compat.v1.while_loop(
        lambda i, y: i < count, lambda i, y: (i + 1, tf.sin(y) + tf.gather(x, last_first)), (0, tf.zeros_like(x))
    )[1]


def sines_of_rows(x: tf.Tensor, *, count: int) -> tf.Tensor:
    y = tf.zeros_like(x)
    for _ in range(count):
        y = tf.sin(y) + x[:, ::-1]
    return y


def old_recurrence(x: tf.Tensor, y: tf.Tensor, *, count: int) -> tf.Tensor:
    """Of the loop's variables one is the result, one stays as it is, and one takes no part; y comes from outside."""
    return tf.compat.v1.while_loop(
        lambda i, *_: i < count,
        lambda i, state, weight, rest: (i + 1, state * tf.sin(y) + weight, weight, tf.cos(rest)),
        (0, x, x * y, y),
    )[1]


def recurrence_in_turn(x: tf.Tensor, y: tf.Tensor, *, count: int) -> tf.Tensor:
    state = x
    for _ in range(count):
        state = state * tf.sin(y) + x * y
    return state


def old_square_and_sines(x: tf.Tensor, *, count: int) -> tf.Tensor:
    """A square in the first turn, sines in the others; x comes from outside of both contexts."""
    return tf.compat.v1.while_loop(
        lambda i, y: i < count,
        lambda i, y: (i + 1, sum(tf.compat.v1.cond(i > 0, lambda: (tf.sin(y) * x, y), lambda: (y * x, x)))),
        (0, x),
    )[1]


def square_and_sines(x: tf.Tensor, *, count: int) -> tf.Tensor:
    y = x
    for turn in range(count):
        y = tf.sin(y) * x + y if turn else y * x + x
    return y


def old_rows_of_array(x: tf.Tensor) -> tf.Tensor:
    """Rows of a tensor array, each written and read by itself, the last one read first."""
    rows = range(x.shape[0])
    array = tf.TensorArray(x.dtype, len(rows), clear_after_read=False)
    for row in rows:
        array = array.write(row, tf.sin(x[row]) * x[0])
    return tf.stack([array.read(row) for row in reversed(rows)])


def old_gathered_array(x: tf.Tensor, *, indices: tuple[int, ...]) -> tf.Tensor:
    """Elements of a tensor array into which rows were scattered, the last one first."""
    array = tf.TensorArray(x.dtype, x.shape[0], clear_after_read=False)
    return array.scatter(tf.range(x.shape[0])[::-1], tf.sin(x)).gather(indices)


def old_parts_of_array(x: tf.Tensor) -> tf.Tensor:
    """The parts of a tensor array, the first row and the others, one behind the other."""
    array = tf.TensorArray(x.dtype, 2, infer_shape=False)
    return tf.reshape(array.split(tf.sin(x), [1, x.shape[0] - 1]).concat(), x.shape)


def old_written_in_turn(x: tf.Tensor) -> tf.Tensor:
    """A loop of which every turn writes a row."""
    array = tf.TensorArray(x.dtype, x.shape[0])
    return tf.compat.v1.while_loop(
        lambda i, array: i < x.shape[0],
        lambda i, array: (i + 1, array.write(i, tf.sin(x[i]) * x[0])),
        (0, array),
    )[1].stack()


def old_batch_norm(*inputs: tf.Tensor, scaled: bool) -> tf.Tensor:
    results = tf.raw_ops.BatchNormWithGlobalNormalization(
        **dict(zip(("t", "m", "v", "beta", "gamma"), float32(*inputs), strict=True)),
        variance_epsilon=0.1,
        scale_after_normalization=scaled,
    )
    return tf.cast(results, tf.float64)


_old = partial(operation, modes=())
_of_rows = partial(_old, shapes=vector, starts=ROWS)
# What a graph knows of the arguments: where it does not know the shape, gradients take it from the session.
KNOWN = ("shape", "rank", "nothing")
_control = partial(_old, "control flow", known=KNOWN)
_control_of_rows = partial(_of_rows, "control flow", known=KNOWN)
_array = partial(_of_rows, "tensor_array (v1)")
IN_LOOPS = "Enter Exit Merge NextIteration Switch"
_loop = partial(_control, gradients=IN_LOOPS, count=(1, 2, 3, 0))
_loop_of_rows = partial(_control_of_rows, gradients=IN_LOOPS, count=(1, 2, 3, 0))

TENSORFLOW_1 = (
    _old(
        "math",
        "accumulate_n",
        lambda x, y: in_tensorflow_1(old_sum, x, y),
        "AccumulateNV2",
        batched=lambda x, y: 2.0 * x + y,
        others=alike,
    ),
    _control(
        "cond_of_tensorflow_1",
        lambda x, *, flag, known: in_tensorflow_1(old_sine_or_square, x, known=known, flag=flag),
        "Merge Switch",
        batched=lambda x, *, flag, **_: tf.sin(x) if flag else x * x,
        flag=BOOL,
    ),
    _control_of_rows(
        "cond_of_rows_of_tensorflow_1",
        lambda x, *, flag, known: in_tensorflow_1(old_rows_or_sine, x, known=known, flag=flag),
        "Merge Switch",
        batched=lambda x, *, flag, **_: (
            tf.gather(x, [0, 0], axis=1) if flag else tf.sin(tf.gather(x, [0, x.shape[1] - 1], axis=1))
        ),
        flag=BOOL,
    ),
    _loop(
        "while_loop_of_tensorflow_1",
        lambda x, *, count, known: in_tensorflow_1(old_times_the_sine, x, known=known, count=count),
        batched=lambda x, *, count, **_: x * tf.sin(x) ** count,
    ),
    _loop(
        "replaced_loop_variable_of_tensorflow_1",
        lambda x, *, count, known: in_tensorflow_1(old_cosine_in_turn, x, known=known, count=count),
        batched=lambda x, *, count, **_: tf.cos(x) if count else x,
    ),
    _loop(
        "recurrence_of_tensorflow_1",
        lambda x, y, *, count, known: in_tensorflow_1(old_recurrence, x, y, known=known, count=count),
        batched=lambda x, y, *, count, **_: recurrence_in_turn(x, y, count=count),
        others=alike,
    ),
    _loop_of_rows(
        "loop_of_gathers_of_tensorflow_1",
        lambda x, *, count, known: in_tensorflow_1(old_sines_of_rows, x, known=known, count=count),
        batched=lambda x, *, count, **_: sines_of_rows(x, count=count),
    ),
    _loop_of_rows(
        "gather_of_loop_of_tensorflow_1",
        lambda x, *, count, indices, known: in_tensorflow_1(
            old_gather_of_loop, x, known=known, count=count, indices=indices
        ),
        batched=lambda x, *, count, indices, **_: tf.gather(x * tf.sin(x) ** count, indices, axis=1),
        indices=lambda shape: Indices(2, shape[0]),
    ),
    _loop(
        "cond_in_loop_of_tensorflow_1",
        lambda x, *, count, known: in_tensorflow_1(old_square_and_sines, x, known=known, count=count),
        batched=lambda x, *, count, **_: square_and_sines(x, count=count),
    ),
    _array(
        "tensor_array",
        lambda x: in_tensorflow_1(old_rows_of_array, x),
        "TensorArrayReadV3 TensorArrayWriteV3",
        batched=lambda x: (tf.sin(x) * x[:, :1])[:, ::-1],
    ),
    _array(
        "tensor_array_gather",
        lambda x, *, indices: in_tensorflow_1(old_gathered_array, x, indices=indices),
        "TensorArrayGatherV3 TensorArrayScatterV3",
        batched=lambda x, *, indices: tf.gather(tf.sin(x)[:, ::-1], indices, axis=1),
        indices=lambda shape: Indices(2, shape[0]),
    ),
    _array(
        "tensor_array_concat",
        lambda x: in_tensorflow_1(old_parts_of_array, x),
        "TensorArrayConcatV3 TensorArraySplitV3",
        batched=lambda x: tf.sin(x),
    ),
    _array(
        "tensor_array_in_loop",
        lambda x: in_tensorflow_1(old_written_in_turn, x),
        f"TensorArrayGatherV3 TensorArrayWriteV3 {IN_LOOPS}",
        batched=lambda x: tf.sin(x) * x[:, :1],
    ),
    _old(
        "nn",
        "batch_norm_with_global_normalization",
        lambda x, y, z, u, v, *, scaled: in_tensorflow_1(old_batch_norm, x, y, z, u, v, producer=8, scaled=scaled),
        "BatchNormWithGlobalNormalization",
        *(REALS, REALS, POSITIVE, REALS, REALS),
        shapes=at_least(1, 1, 1, 1),
        others=lambda shape: [(shape[-1:],) * 4],
        starts=((2, 1, 1, 1), (2, 1, 2, 1), (2, 1, 1, 2)),
        reference=lambda x, y, z, u, v, *, scaled: (
            (x - per_channel(y)) * per_channel(tf.math.rsqrt(z + 0.1) * (v if scaled else 1.0)) + per_channel(u)
        ),
        scaled=BOOL,
        looped=True,
        rtol=1e-5,
    ),
)
