"""Somebody's function in real coordinates: values at points, pullbacks of cotangents, second pullbacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, WIDE, coordinate_count, from_coordinates, to_coordinates
from gradcheck.autodiff.reverse import SecondPullbacks, pullbacks, second_pullbacks
from gradcheck.autodiff.sources import Arguments, Source, parse_arguments

Array = np.ndarray[Any, Any]

HALVINGS = 40
"""So many times a step is halved before the point counts as lying on the edge of its set."""


@dataclass(frozen=True)
class Output:
    """One tensor that the function returns."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Function:
    """`f` of the arguments' sources; `wide` evaluates it on float64 copies of low-precision inputs."""

    f: Callable[..., Any]
    arguments: Arguments
    outputs: tuple[Output, ...]
    wide: bool = False

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it is differentiated with respect to."""
        return self.arguments.sources

    @cached_property
    def point(self) -> Array:
        """The coordinates of all sources, shape (n,)."""
        return np.concatenate([source.coordinates(source.value) for source in self.sources])

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Where each source's coordinates lie."""
        return _slices([source.count for source in self.sources])

    @cached_property
    def output_parts(self) -> tuple[slice, ...]:
        """Where each output's coordinates lie."""
        return _slices([coordinate_count(output.shape, output.dtype) for output in self.outputs])

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the arithmetic that evaluates the function."""
        names = [self._dtype(source) for source in self.sources] + [output.dtype for output in self.outputs]
        return max(ROUNDOFF[name] for name in names)

    def values(self, points: Array) -> Array:
        """The outputs' coordinates at points of shape (p, n), one call a point; shape (p, m).

        NaN outside of the domain: where a constraint is violated, and where `f` throws or returns another size.
        """
        return np.stack([self._value_or_nan(point) for point in points])

    def value(self, point: Array) -> Array:
        """The outputs' coordinates at one point, shape (m,)."""
        return _flat(self.call(self.tensors(point)))

    def _value_or_nan(self, point: Array) -> Array:
        outside = np.full(self.output_parts[-1].stop, np.nan)
        if not self.contains(point):
            return outside
        try:
            value = self.value(point)
        except Exception:  # whatever f throws, it has no value here
            return outside
        return value if value.shape == outside.shape else outside

    def contains(self, point: Array) -> bool:
        """Whether every source keeps its constraint at a point."""
        return all(source.contains(point[part]) for part, source in zip(self.parts, self.sources, strict=True))

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        """The steps (k,) along directions (k, n), halved until both ends of every line keep the constraints.

        The sets are convex. A step that is still too long after HALVINGS stays as it was.
        """
        if not any(source.constrained for source in self.sources):
            return steps
        return np.array([self._feasible_step(*line) for line in zip(directions, steps, strict=True)])

    def _feasible_step(self, direction: Array, step: float) -> float:
        for shorter in step * 0.5 ** np.arange(HALVINGS):
            ends = self.point + shorter * direction, self.point - shorter * direction
            if all(map(self.contains, ends)):
                return float(shorter)
        return float(step)

    def pullbacks(self, cotangents: Array, point: Array | None = None) -> list[list[Any]]:
        """For cotangents (k, m): one list a cotangent, of a tensor or None a source. Raises DerivativeRaisedError."""
        sources = self.tensors(self.point if point is None else point)
        return pullbacks(self.call, sources, [self.cotangent(row) for row in cotangents])

    def second_pullbacks(self, cotangent: Array, directions: Array, point: Array | None = None) -> SecondPullbacks:
        """The gradient for one cotangent (m,), and its pullbacks along directions (k, n).

        Raises DerivativeRaisedError.
        """
        vectors = [self.direction(row) for row in directions]
        sources = self.tensors(self.point if point is None else point)
        return second_pullbacks(self.call, sources, self.cotangent(cotangent), vectors)

    def cotangent(self, row: Array) -> list[Any]:
        """Coordinates (m,) as tensors of the outputs' shapes and dtypes."""
        return [
            tf.constant(from_coordinates(row[part], output.shape, tf.as_dtype(output.dtype).as_numpy_dtype))
            for part, output in zip(self.output_parts, self.outputs, strict=True)
        ]

    def direction(self, row: Array) -> list[Any]:
        """How the sources move along coordinates (n,), as tensors of their shapes and dtypes."""
        return self._tensors(
            [source.displacement(row[part]) for part, source in zip(self.parts, self.sources, strict=True)]
        )

    def tensors(self, point: Array) -> list[Any]:
        """The sources at a point; variables are assigned, which the caller undoes."""
        tensors = self._tensors([source.at(point[part]) for part, source in zip(self.parts, self.sources, strict=True)])
        for position, source in enumerate(self.sources):
            if source.variable is not None:
                source.variable.assign(tensors[position])
                tensors[position] = source.variable
        return tensors

    def coordinates(self, tensors: Sequence[Any]) -> Array:
        """The coordinates (n,) of tensors of the sources."""
        return np.concatenate(
            [source.coordinates(tensor.numpy()) for tensor, source in zip(tensors, self.sources, strict=True)]
        )

    def _tensors(self, arrays: Sequence[Array]) -> list[Any]:
        return [
            tf.constant(array.astype(tf.as_dtype(self._dtype(source)).as_numpy_dtype, copy=False))
            for array, source in zip(arrays, self.sources, strict=True)
        ]

    def _dtype(self, source: Source) -> str:
        return WIDE.get(source.dtype, source.dtype) if self.wide else source.dtype

    def call(self, sources: list[Any]) -> list[Any]:
        """The outputs, flat, for tensors (and the variables themselves) in the order of the sources."""
        perturbed = [tensor for tensor, source in zip(sources, self.sources, strict=True) if source.variable is None]
        result: list[Any] = tf.nest.flatten(self.f(*self.arguments.rebuilt(perturbed)))
        return result


def _slices(counts: Sequence[int]) -> tuple[slice, ...]:
    ends = np.cumsum([0, *counts])
    return tuple(slice(int(start), int(end)) for start, end in pairwise(ends))


def _flat(outputs: list[Any]) -> Array:
    return np.concatenate([to_coordinates(_array(output)) for output in outputs] or [np.zeros(0)])


def _array(output: Any) -> Array:
    # bfloat16 tensors have no __array__ that NumPy accepts.
    return np.asarray(output.numpy() if tf.is_tensor(output) else output)


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
    arguments = parse_arguments(inputs, variables, parameter_names(f))
    tensors = [tf.constant(s.value) for s in arguments.sources if s.variable is None]
    result = _called(f, arguments.rebuilt(tensors))
    return Function(f, arguments, tuple(_output(name, value) for name, value in _results(result)))


def widened(function: Function) -> Function | None:
    """The same function on float64 copies of its inputs, where it accepts them; None otherwise.

    It is compared with the low-precision values: a function that computes something else in float64 is not used.
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
