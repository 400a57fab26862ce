"""Taking derivatives in each mode: along a path, eagerly, in a `tf.function` or around one, compiled with XLA or not.

Each call traces again, in tens of milliseconds, because the function of a drawn graph is used once.
`get_concrete_function` traces without TensorFlow's warning of frequent retracing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.forward import forward_over_reverse, forward_pullbacks, reverse_over_forward
from gradcheck.autodiff.mode import AROUND, FUNCTION, LOOP, PFOR, PLAIN, XLA, Mode
from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Forward,
    SecondPullbacks,
    Tensors,
    dense,
    differentiate,
    differentiate_by_jacobian,
    gradient_of,
    taking_derivative,
)

NO_KERNEL = re.compile(r"(\w+) \(No registered '\w+' OpKernel for XLA")


class ModeUnavailableError(Exception):
    """A mode cannot run the function itself, or documents that it has no such derivative; the cause is chained."""


def one_line(error: BaseException) -> str:
    """The type and first line of an error; for what XLA cannot compile, the operations alone.

    >>> one_line(ValueError("no such shape\\nin line 3"))
    'ValueError: no such shape'
    """
    kernels = sorted(set(NO_KERNEL.findall(str(error))))
    first = str(error).strip().partition("\n")[0]
    return f"no XLA kernel for {', '.join(kernels)}" if kernels else f"{type(error).__name__}: {first}"


def concrete(function: Callable[..., Any], arguments: Sequence[Any], *, jit: bool = False) -> Callable[..., Any]:
    """The function traced for tensors of the shapes and dtypes of the arguments.

    >>> float(concrete(tf.sin, [tf.constant(0.0)])(tf.constant(0.0)))
    0.0
    """
    specs = [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
    traced: Callable[..., Any] = tf.function(function, jit_compile=jit, autograph=False).get_concrete_function(*specs)
    return traced


def inside_function(take: Callable[..., Any], forward: Forward, sources: Tensors, *given: Any, jit: bool) -> Any:
    """`take` (a derivative) as one traced function of the sources, the cotangents and the directions.

    Raises ModeUnavailableError where the function to be differentiated cannot be traced or compiled,
    DerivativeRaisedError where only its derivative cannot.
    """
    arguments = (list(sources), *given)

    def body(*flat: Any) -> Any:
        return tf.nest.map_structure(dense, take(forward, *tf.nest.pack_sequence_as(arguments, flat)))

    try:
        with taking_derivative():
            flat = tf.nest.flatten(arguments)
            return concrete(body, flat, jit=jit)(*flat)
    except DerivativeRaisedError:
        traced_outputs(forward, sources, jit=jit)
        raise


def around_function(take: Callable[..., Any], forward: Forward, sources: Tensors, *given: Any) -> Any:
    """`take` (a derivative) run eagerly on a traced function: a tape around a tf.function.

    Raises as `inside_function` does.
    """
    _, traced = traced_outputs(forward, sources, jit=False)
    with taking_derivative():  # a recorded call builds its backward pass at once
        return take(lambda at: traced(*at), sources, *given)


def traced_outputs(forward: Forward, sources: Tensors, *, jit: bool) -> tuple[Tensors, Callable[..., Any]]:
    """The outputs of the traced function, and the traced function. Raises ModeUnavailableError."""
    try:
        traced = concrete(lambda *at: forward(list(at)), sources, jit=jit)
        return traced(*sources), traced
    except Exception as error:
        raise ModeUnavailableError(one_line(error)) from error


def _first(path: Callable[..., Any]) -> Callable[..., list[Tensors]]:
    return lambda forward, sources, cotangents: path(forward, sources, cotangents)[1]


def _second(path: Callable[..., Any]) -> Callable[..., SecondPullbacks]:
    return lambda forward, sources, cotangent, directions: path(gradient_of(forward, cotangent), sources, directions)


TAPES: dict[str, Callable[..., Any]] = {
    "reverse": differentiate,
    PFOR: partial(differentiate_by_jacobian, pfor=True),
    LOOP: partial(differentiate_by_jacobian, pfor=False),
}

PATHS: dict[tuple[str, int], Callable[..., Any]] = {
    **{(name, 1): _first(path) for name, path in TAPES.items()},
    **{(name, 2): _second(path) for name, path in TAPES.items()},
    ("forward", 1): forward_pullbacks,
    ("forward over reverse", 2): forward_over_reverse,
    ("reverse over forward", 2): reverse_over_forward,
}
"""The functions that take the derivative of an order along a path."""

RUNNERS: dict[str, Callable[..., Any]] = {
    "eager": lambda take, *given: take(*given),
    FUNCTION: partial(inside_function, jit=False),
    AROUND: around_function,
    XLA: partial(inside_function, jit=True),
}
"""What runs such a function in a mode of execution."""

DOCUMENTED = (LookupError, NotImplementedError)
"""What TensorFlow raises for derivatives that it documents as unavailable: no gradient is registered or implemented."""

UNSUPPORTED = re.compile(
    r"Detected unsupported operations when trying to compile graph|must be a compile-time constant"
    r"|XLA compilation requires a fixed tensor list size"
    r"|No pfor vectorization defined for|No converter defined for"
    r"|Output subscripts contain a label appearing more than once"
    r"|of a variable without handle data"
)
"""Messages about operations without an XLA kernel, loops without a static bound in XLA, operations that pfor cannot
vectorize (tape.jacobian documents a ValueError then), and handles of variables that are made inside."""


def pullbacks(mode: Mode, forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """As `reverse.pullbacks`, in a mode. Raises DerivativeRaisedError, and ModeUnavailableError.

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
    """As `reverse.second_pullbacks`, in a mode. Raises DerivativeRaisedError, and ModeUnavailableError."""
    second: SecondPullbacks = _taken(mode, 2, forward, sources, cotangent, directions)
    return second


def values(mode: Mode, forward: Forward, sources: Tensors) -> Tensors:
    """The outputs in a mode of execution. Raises ModeUnavailableError."""
    return forward(sources) if mode.mode == "eager" else traced_outputs(forward, sources, jit=mode.mode == XLA)[0]


def _taken(mode: Mode, order: int, *given: Any) -> Any:
    if order not in mode.orders:
        raise ValueError(f"order was {order}; the path {mode.path!r} has {mode.orders}")
    try:
        return RUNNERS[mode.mode](PATHS[mode.path, order], *given)
    except DerivativeRaisedError as error:
        if mode != PLAIN and _unavailable(error.cause):  # what the plain mode cannot take is always a finding
            raise ModeUnavailableError(one_line(error.cause)) from error
        raise


def _unavailable(error: BaseException | None) -> bool:
    """Whether TensorFlow documents that there is no such derivative; pfor wraps the errors of what it converts."""
    documented = isinstance(error, DOCUMENTED)
    while error is not None and not documented:
        documented = UNSUPPORTED.search(str(error)) is not None
        error = error.__cause__ or error.__context__
    return documented
