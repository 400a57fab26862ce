"""Derivatives inside and around of `tf.function`, compiled with XLA or not.

Each call traces anew, tens of milliseconds, for the function of a drawn graph is used once. `get_concrete_function`
traces without TensorFlow's warning of frequent retracing, which is about functions that are meant to be kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.forward import forward_over_reverse, forward_pullbacks, reverse_over_forward
from gradcheck.autodiff.jacobian import jacobian_pullbacks, jacobian_second
from gradcheck.autodiff.mode import AROUND, FUNCTION, LOOP, PFOR, PLAIN, XLA, Mode
from gradcheck.autodiff.reverse import DerivativeRaisedError, Forward, SecondPullbacks, Tensors, dense
from gradcheck.autodiff.reverse import pullbacks as plain_pullbacks
from gradcheck.autodiff.reverse import second_pullbacks as plain_second_pullbacks

NO_KERNEL = re.compile(r"(\w+) \(No registered '\w+' OpKernel for XLA")


class ModeUnavailableError(Exception):
    """The function itself, or its derivative as documented, cannot be had in a mode; the cause is chained."""


def told(error: BaseException) -> str:
    """What an error says, on one line; of what XLA cannot compile, the operations alone.

    >>> told(ValueError("no such shape\\nin line 3"))
    'ValueError: no such shape'
    """
    kernels = sorted(set(NO_KERNEL.findall(str(error))))
    first = str(error).strip().partition("\n")[0]
    return f"no XLA kernel for {', '.join(kernels)}" if kernels else f"{type(error).__name__}: {first}"


def concrete(function: Callable[..., Any], arguments: Sequence[Any], *, jit: bool = False) -> Callable[..., Any]:
    """The traced form of a function of tensors, for the shapes and dtypes of these.

    >>> float(concrete(tf.sin, [tf.constant(0.0)])(tf.constant(0.0)))
    0.0
    """
    specs = [tf.TensorSpec(argument.shape, argument.dtype) for argument in arguments]
    traced: Callable[..., Any] = tf.function(function, jit_compile=jit, autograph=False).get_concrete_function(*specs)
    return traced


def inside(take: Callable[..., Any], *, order: int, jit: bool) -> Callable[..., Any]:
    """The derivative-taking function, run as one traced function of the sources, the cotangents and the directions.

    Raises ModeUnavailableError where the function to be differentiated cannot be traced or compiled,
    DerivativeRaisedError where only its derivative cannot.
    """

    def run(forward: Forward, sources: Tensors, *given: Any) -> Any:
        arguments = (list(sources), *given)

        def body(*flat: Any) -> Any:
            taken = take(forward, *tf.nest.pack_sequence_as(arguments, flat))
            return _plain(taken)

        try:
            flat = tf.nest.flatten(arguments)
            taken = concrete(body, flat, jit=jit)(*flat)
        except Exception as error:
            called(forward, sources, jit=jit)
            cause = _cause(error)
            raise DerivativeRaisedError(order, cause) from cause
        return SecondPullbacks(*taken) if order == 2 else taken

    return run


def around(take: Callable[..., Any], *, order: int) -> Callable[..., Any]:
    """The derivative-taking function run eagerly on a function that is traced: a tape around a tf.function.

    Raises as `inside` does.
    """

    def run(forward: Forward, sources: Tensors, *given: Any) -> Any:
        _, traced = called(forward, sources, jit=False)
        try:
            return take(lambda at: traced(*at), sources, *given)
        except DerivativeRaisedError:
            raise
        except Exception as error:
            # A recorded call builds its backward pass at once, and what that raises.
            raise DerivativeRaisedError(order, error) from error

    return run


def called(forward: Forward, sources: Tensors, *, jit: bool) -> tuple[Tensors, Callable[..., Any]]:
    """The outputs, computed by the traced function, and that; raises ModeUnavailableError."""
    try:
        traced = concrete(lambda *at: forward(list(at)), sources, jit=jit)
        return traced(*sources), traced
    except Exception as error:
        raise ModeUnavailableError(told(error)) from error


def _plain(taken: Any) -> Any:
    """Lists of tensors and None, which a traced function may return."""
    if isinstance(taken, SecondPullbacks):
        return _plain(taken.gradient), _plain(taken.products)
    return [_plain(part) for part in taken] if isinstance(taken, list) else dense(taken)


def _cause(error: Exception) -> BaseException:
    chained = error.__cause__
    return chained if isinstance(error, DerivativeRaisedError) and chained is not None else error


PATHS: dict[tuple[str, int], Callable[..., Any]] = {
    ("reverse", 1): plain_pullbacks,
    ("reverse", 2): plain_second_pullbacks,
    ("forward", 1): forward_pullbacks,
    ("forward over reverse", 2): forward_over_reverse,
    ("reverse over forward", 2): reverse_over_forward,
    (PFOR, 1): partial(jacobian_pullbacks, pfor=True),
    (PFOR, 2): partial(jacobian_second, pfor=True),
    (LOOP, 1): partial(jacobian_pullbacks, pfor=False),
    (LOOP, 2): partial(jacobian_second, pfor=False),
}
"""What takes the derivative of an order along a path."""

EXECUTIONS: dict[str, Callable[..., Callable[..., Any]]] = {
    "eager": lambda take, order: take,
    FUNCTION: lambda take, order: inside(take, order=order, jit=False),
    AROUND: lambda take, order: around(take, order=order),
    XLA: lambda take, order: inside(take, order=order, jit=True),
}
"""What runs it."""

DOCUMENTED = (LookupError, NotImplementedError)
"""What TensorFlow raises for derivatives that it documents as not available: no gradient is registered, or its author
says that it is not implemented."""

REFUSED = re.compile(
    r"Detected unsupported operations when trying to compile graph|must be a compile-time constant"
    r"|XLA compilation requires a fixed tensor list size"
    r"|No pfor vectorization defined for|No converter defined for"
    r"|Output subscripts contain a label appearing more than once"
    r"|of a variable without handle data"
)
"""What it says of a kernel that XLA has not, of a loop in XLA without a largest number of iterations, of an operation
that pfor does not vectorise (jacobian documents a ValueError then, as for the diagonal that an einsum puts back), and
of the handle of a variable that is made inside, as the catalogue's are."""


def pullbacks(mode: Mode, forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """As `pullback.pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError.

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
    """As `pullback.second_pullbacks`. Raises DerivativeRaisedError, and ModeUnavailableError."""
    second: SecondPullbacks = _taken(mode, 2, forward, sources, cotangent, directions)
    return second


def values(mode: Mode, forward: Forward, sources: Tensors) -> Tensors:
    """The outputs, as they are computed in the mode. Raises ModeUnavailableError."""
    return forward(sources) if mode.mode == "eager" else called(forward, sources, jit=mode.mode == XLA)[0]


def _taken(mode: Mode, order: int, *given: Any) -> Any:
    if order not in mode.orders:
        raise ValueError(f"order was {order}; the path {mode.path!r} has {mode.orders}")
    take = EXECUTIONS[mode.mode](PATHS[mode.path, order], order)
    if mode == PLAIN:  # what it cannot take is always a finding
        return take(*given)
    try:
        return take(*given)
    except DerivativeRaisedError as error:
        cause = error.__cause__ or error
        if isinstance(cause, DOCUMENTED) or any(REFUSED.search(str(one)) for one in _chain(cause)):
            raise ModeUnavailableError(told(cause)) from error
        raise


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was raised from: pfor wraps those of the operations that it converts."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
