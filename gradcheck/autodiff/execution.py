"""Take derivatives in each mode: along a path, eagerly, in a `tf.function` or around one, compiled with XLA or not.

Each call traces again, in tens of milliseconds, because the function of a drawn graph is used once.
`get_concrete_function` traces without TensorFlow's warning of frequent retracing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.coordinates import WIDE
from gradcheck.autodiff.errors import summary, unavailable
from gradcheck.autodiff.forward import (
    forward_over_forward,
    forward_over_reverse,
    forward_pullbacks,
    reverse_over_forward,
)
from gradcheck.autodiff.mode import (
    ALONE,
    AROUND,
    COND,
    DIMENSIONS,
    FUNCTION,
    LOOP,
    NESTED,
    NUMBER_TYPES,
    PFOR,
    PLAIN,
    RANK,
    VARIABLES,
    VECTORIZED,
    WHILE,
    XLA,
    Mode,
)
from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Differentiate,
    Forward,
    SecondPullbacks,
    Tensors,
    dense,
    differentiate,
    differentiate_by_jacobian,
    differentiate_by_variables,
    differentiate_one_by_one,
    gradient_of,
    taking_derivative,
)


class ModeUnavailableError(Exception):
    """A mode cannot run the function itself, or documents that it has no such derivative; the cause is chained."""


Spec = Callable[[Any], tf.TensorSpec]
"""Maps a tensor to the spec with which it is traced."""


def static(tensor: Any) -> tf.TensorSpec:
    """The spec with a tensor's shape and dtype."""
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def ranked(tensor: Any) -> tf.TensorSpec:
    """The spec with a tensor's rank and dtype."""
    return tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)


def unranked(tensor: Any) -> tf.TensorSpec:
    """The spec with a tensor's dtype."""
    return tf.TensorSpec(None, tensor.dtype)


def concrete(
    function: Callable[..., Any], arguments: Sequence[Any], *, spec: Spec = static, jit: bool = False
) -> Callable[..., Any]:
    """Trace the function for tensors like the arguments, described by `spec`.

    >>> float(concrete(tf.sin, [tf.constant(0.0)])(tf.constant(0.0)))
    0.0
    """
    specs = [spec(argument) for argument in arguments]
    traced: Callable[..., Any] = tf.function(function, jit_compile=jit, autograph=False).get_concrete_function(*specs)
    return traced


def inside_function(
    take: Callable[..., Any], forward: Forward, sources: Tensors, *given: Any, spec: Spec = static, jit: bool = False
) -> Any:
    """Run `take` (a derivative) as one traced function of the sources, the cotangents and the directions.

    Raises ModeUnavailableError where the differentiated function cannot be traced or compiled, DerivativeRaisedError
    where only its derivative cannot.
    """
    arguments = (list(sources), *given)

    def body(*flat: Any) -> Any:
        return tf.nest.map_structure(dense, take(forward, *tf.nest.pack_sequence_as(arguments, flat)))

    try:
        with taking_derivative():
            flat = tf.nest.flatten(arguments)
            return concrete(body, flat, spec=spec, jit=jit)(*flat)
    except DerivativeRaisedError:
        traced_outputs(forward, sources, spec=spec, jit=jit)
        raise


def around_function(take: Callable[..., Any], forward: Forward, sources: Tensors, *given: Any) -> Any:
    """Run `take` (a derivative) eagerly on a traced function: a tape around a tf.function.

    Raises as `inside_function` does.
    """
    _, traced = traced_outputs(forward, sources)
    with taking_derivative():  # a recorded call builds its backward pass at once
        return take(lambda at: traced(*at), sources, *given)


def traced_outputs(
    forward: Forward, sources: Tensors, *, spec: Spec = static, jit: bool = False
) -> tuple[Tensors, Callable[..., Any]]:
    """Trace the function; return its outputs and the traced function. Raises ModeUnavailableError."""
    try:
        traced = concrete(lambda *at: forward(list(at)), sources, spec=spec, jit=jit)
        return traced(*sources), traced
    except Exception as error:  # from the function, or TensorFlow
        raise ModeUnavailableError(summary(error)) from error


def nested(forward: Forward, at: Tensors) -> Tensors:
    """Compute the outputs by a call of a tf.function."""
    outputs: Tensors = concrete(lambda *inner: forward(list(inner)), at)(*at)
    return outputs


def conditional(forward: Forward, at: Tensors) -> Tensors:
    """Compute the outputs in the taken branch of a tf.cond."""
    outputs = tf.cond(tf.size(at[0]) >= 0, lambda: forward(at), lambda: [-output for output in forward(at)])
    return list(tf.nest.flatten(outputs))


def looped(forward: Forward, at: Tensors) -> Tensors:
    """Compute the outputs in the only iteration of a tf.while_loop."""
    before = [tf.zeros_like(tf.stop_gradient(output)) for output in forward(at)]
    return list(tf.while_loop(lambda turn, *_: turn < 1, lambda turn, *_: [turn + 1, *forward(at)], [0, *before])[1:])


def vectorized(forward: Forward, at: Tensors) -> Tensors:
    """Compute the outputs as the last of two rows of a tf.vectorized_map. Raises ModeUnavailableError."""
    rows = [tf.stack([source, source]) for source in at]
    try:
        outputs = tf.vectorized_map(lambda row: forward(list(row)), rows, fallback_to_while_loop=False)
    except Exception as error:  # from the function, or TensorFlow
        raise ModeUnavailableError(summary(error)) from error
    return [output[-1] for output in tf.nest.flatten(outputs)]


def narrowed(number_type: str, forward: Forward, at: Tensors) -> Tensors:
    """Compute the outputs in a number type below float64, as float64 tensors. Raises ModeUnavailableError."""
    kinds = {"float64": number_type, "complex128": "complex64" if number_type == "float32" else None}
    try:
        outputs = forward([tf.cast(source, kinds.get(source.dtype.name, source.dtype)) for source in at])
    except Exception as error:  # from the function, or TensorFlow
        raise ModeUnavailableError(summary(error)) from error
    return [tf.cast(output, WIDE.get(output.dtype.name, output.dtype)) for output in outputs]


def _with(wrapped: Callable[[Forward, Tensors], Tensors], run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a runner of derivatives of the wrapped function."""
    return lambda take, forward, *given: run(take, partial(wrapped, forward), *given)


def _first(path: Callable[..., Any]) -> Callable[..., list[Tensors]]:
    return lambda forward, sources, cotangents: path(forward, sources, cotangents)[1]


def _second(path: Differentiate, inner: Differentiate = differentiate) -> Callable[..., SecondPullbacks]:
    def second(forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]) -> Any:
        return path(gradient_of(forward, cotangent, inner), sources, directions)

    return second


def _eagerly(take: Callable[..., Any], *given: Any) -> Any:
    return take(*given)


TAPES: dict[str, Differentiate] = {
    "reverse": differentiate,
    ALONE: differentiate_one_by_one,
    VARIABLES: differentiate_by_variables,
    PFOR: partial(differentiate_by_jacobian, pfor=True),
    LOOP: partial(differentiate_by_jacobian, pfor=False),
}

PATHS: dict[tuple[str, int], Callable[..., Any]] = {
    **{(name, 1): _first(path) for name, path in TAPES.items()},
    **{(name, 2): _second(path) for name, path in TAPES.items()},
    (ALONE, 2): _second(differentiate_one_by_one, differentiate_one_by_one),
    ("forward", 1): forward_pullbacks,
    ("forward over reverse", 2): forward_over_reverse,
    ("reverse over forward", 2): reverse_over_forward,
    ("forward over forward", 2): forward_over_forward,
}
"""The functions that take the derivative of an order along a path."""

RUNNERS: dict[str, Callable[..., Any]] = {
    "eager": _eagerly,
    FUNCTION: inside_function,
    AROUND: around_function,
    XLA: partial(inside_function, jit=True),
    DIMENSIONS: partial(inside_function, spec=ranked),
    RANK: partial(inside_function, spec=unranked),
    NESTED: _with(nested, inside_function),
    COND: _with(conditional, inside_function),
    WHILE: _with(looped, inside_function),
    VECTORIZED: _with(vectorized, _eagerly),
    **{mode: _with(partial(narrowed, name), _eagerly) for mode, name in NUMBER_TYPES.items()},
}
"""The runners of such functions by mode of execution."""


def pullbacks(mode: Mode, forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """Take `reverse.pullbacks` in a mode. Raises DerivativeRaisedError, and ModeUnavailableError.

    >>> import tensorflow as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> ((gradient,),) = pullbacks(Mode("forward"), lambda sources: [sources[0] ** 2], [x], [[tf.ones(2)]])
    >>> gradient.numpy().tolist()
    [2.0, 4.0]
    """
    rows: list[Tensors] = _taken(mode, 1, forward, sources, cotangents)
    return rows


def second_pullbacks(
    mode: Mode, forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """Take `reverse.second_pullbacks` in a mode. Raises DerivativeRaisedError, and ModeUnavailableError."""
    second: SecondPullbacks = _taken(mode, 2, forward, sources, cotangent, directions)
    return second


def values(mode: Mode, forward: Forward, sources: Tensors) -> Tensors:
    """Compute the outputs in a mode of execution. Raises ModeUnavailableError."""

    def outputs(at: Forward, sources: Tensors) -> Tensors:
        return at(sources)

    return list(RUNNERS[mode.mode](outputs, forward, sources))


def _taken(mode: Mode, order: int, *given: Any) -> Any:
    if order not in mode.orders:
        raise ValueError(f"order was {order}; the path {mode.path!r} has {mode.orders}")
    try:
        return RUNNERS[mode.mode](PATHS[mode.path, order], *given)
    except DerivativeRaisedError as error:
        if mode != PLAIN and unavailable(error.cause):  # what the plain mode cannot take is always a finding
            raise ModeUnavailableError(summary(error.cause)) from error
        raise
