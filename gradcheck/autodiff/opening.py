"""From a callable and its inputs to a Function: called once, and refused early where it cannot be checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.function import Function, Output
from gradcheck.autodiff.precision import ROUNDOFF, WIDE
from gradcheck.autodiff.sources import take_apart

WANTED = "f has to return a floating or complex tensor, or a nested structure of them"


def open_function(f: Callable[..., Any], inputs: tuple[Any, ...], variables: Any) -> Function:
    """Call `f` once and record what it takes and returns.

    Raises TypeError for an `f` that is not callable or returns something that is no floating tensor, ValueError for
    inputs that cannot be differentiated or a result that is not finite, RuntimeError where `f` itself throws.
    """
    if not callable(f):
        raise TypeError(
            f"f is of type {type(f).__name__}, a callable was expected: gradcheck.check(f, x) checks the gradient "
            "of f at x; to compare two arrays use numpy.testing.assert_allclose"
        )
    if not inputs and variables is None:
        raise ValueError(
            "no inputs were given; pass the tensors to differentiate with respect to, gradcheck.check(f, x), "
            "or variables=[...]"
        )
    arguments = take_apart(inputs, variables, parameter_names(f))
    tensors = [tf.constant(s.value) for s in arguments.sources if s.variable is None]
    result = _called(f, arguments.rebuilt(tensors))
    return Function(f, arguments, tuple(_output(name, value) for name, value in _results(result)))


def widened(function: Function) -> Function | None:
    """The same function on float64 copies of its inputs, where it accepts them; None otherwise.

    It is held against the low-precision values: a function that computes something else in float64 is not used.
    """
    if not any(source.dtype in WIDE for source in function.sources):
        return None
    if any(source.variable is not None for source in function.sources):
        return None
    candidate = replace(function, wide=True)
    try:
        results = _results(function.f(*function.arguments.rebuilt(candidate.tensors(function.point))))
        outputs = tuple(_output(name, value) for name, value in results)
    except Exception:  # any refusal of float64, for whatever reason, means: stay with the dtype given
        return None
    if any(output.dtype in WIDE for output in outputs) or len(outputs) != len(function.outputs):
        return None
    candidate = replace(candidate, outputs=outputs)
    low, high = function.value(function.point), candidate.value(function.point)
    slack = min(1e3 * function.roundoff, 0.1) * max(1.0, float(np.max(np.abs(high), initial=0.0)))
    return candidate if low.shape == high.shape and bool(np.all(np.abs(low - high) <= slack)) else None


def parameter_names(f: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters, as far as they can be known."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def _called(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return f(*arguments)
    except Exception as error:
        shapes = ", ".join(_described(item) for item in tf.nest.flatten(arguments)) or "no arguments"
        raise RuntimeError(
            f"f raised {type(error).__name__} when called with {shapes}: {error}; "
            "f has to run before its gradient can be checked"
        ) from error


def _described(item: Any) -> str:
    return f"{item.dtype.name}{tuple(item.shape)}" if hasattr(item, "shape") else type(item).__name__


def _results(result: Any) -> list[tuple[str, Any]]:
    flat = tf.nest.flatten(result)
    if not flat:
        raise TypeError(f"f returned {result!r}, which holds no tensor; {WANTED}")
    if len(flat) == 1:
        return [("the result", flat[0])]
    return [(f"output {position}", value) for position, value in enumerate(flat)]


def _output(name: str, value: Any) -> Output:
    if value is None:
        raise TypeError(f"{name} of f is None; {WANTED} (is a return statement missing?)")
    if not tf.is_tensor(value):
        raise TypeError(
            f"{name} of f is of type {type(value).__name__}, not a tensor; {WANTED} "
            "(NumPy and Python numbers cut the gradient)"
        )
    if value.dtype.name not in ROUNDOFF:
        raise TypeError(
            f"{name} of f has dtype {value.dtype.name}; {WANTED} (cast it, or return the part that has a gradient)"
        )
    coordinates = to_coordinates(value.numpy())
    if not np.all(np.isfinite(coordinates)):
        bad = int(np.sum(~np.isfinite(coordinates)))
        raise ValueError(
            f"{name} of f is NaN or Inf in {bad} of {coordinates.size} coordinates at the inputs given; "
            "a derivative exists only where f is finite, give other inputs"
        )
    return Output(name, tuple(value.shape), value.dtype.name)
