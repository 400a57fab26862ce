"""Derivatives inside and around of `tf.function`, compiled with XLA or not.

Each call traces anew, tens of milliseconds, for the function of a drawn graph is used once. `get_concrete_function`
traces without TensorFlow's warning of frequent retracing, which is about functions that are meant to be kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.pullback import DerivativeRaisedError, Forward, Second, Tensors, dense

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
        return Second(*taken) if order == 2 else taken

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
    if isinstance(taken, Second):
        return _plain(taken.gradient), _plain(taken.products)
    return [_plain(part) for part in taken] if isinstance(taken, list) else dense(taken)


def _cause(error: Exception) -> BaseException:
    chained = error.__cause__
    return chained if isinstance(error, DerivativeRaisedError) and chained is not None else error
