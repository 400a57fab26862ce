"""What a comparison needs of a function: values for the estimates, and the derivatives to compare with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.reverse import DerivativeRaisedError, Gradients, differentiate, gradient_matrix
from gradcheck.autodiff.sources import Source, paths


def given_gradient(function: Function, gradient: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """A callable from the sources' tensors to one gradient (tensor or None) a source.

    A callable `gradient` takes what `f` takes. Raises ValueError where the structure, a shape or a dtype does not fit,
    DerivativeRaisedError where the callable throws.
    """
    if not callable(gradient):
        fixed = _by_source(function, gradient)
        return lambda tensors: fixed

    def given(tensors: Sequence[Any]) -> list[Any]:
        free = [tensor for tensor, source in zip(tensors, function.sources, strict=True) if source.variable is None]
        try:
            result = gradient(*function.arguments.rebuilt(free))
        except Exception as error:
            raise DerivativeRaisedError(error) from error
        return _by_source(function, result)

    return given


def _by_source(function: Function, gradient: Any) -> list[Any]:
    """The gradients in the order of the sources.

    They may come in the structure of the inputs, or as one list for all sources (or for all inputs, None standing for
    those without a derivative), followed by those of `variables`. Raises ValueError.
    """
    arguments, sources = function.arguments, function.sources
    items = tf.nest.flatten(gradient)
    if len(items) == arguments.total:
        items = [items[position] for position in arguments.positions]
    elif len(items) == len(sources):
        places = sorted(arguments.positions)
        items = [items[places.index(position)] for position in arguments.positions]
    else:
        raise ValueError(
            f"gradient holds {len(items)} {'tensor' if len(items) == 1 else 'tensors'}, {len(sources)} expected, one "
            f"for each of {_listing(sources)}; give None where there is none"
        )
    _refuse_other_keys(arguments.structure, gradient)
    return [_tensor(item, source) for item, source in zip(items, sources, strict=True)]


def _listing(sources: Sequence[Source]) -> str:
    return ", ".join(f"{source.name} (shape {source.shape})" for source in sources)


def _refuse_other_keys(inputs: tuple[Any, ...], gradient: Any) -> None:
    given = _keys(gradient)
    expected = _keys(inputs)
    if given and given != expected:
        raise ValueError(
            f"gradient has the keys {', '.join(sorted(given))}, the inputs have "
            f"{', '.join(sorted(expected)) or 'none'}; give the gradients in the structure of the inputs"
        )


def _keys(structure: Any) -> set[str]:
    """The keys of all dicts in a nested structure."""
    parts = {part for path, _ in paths("", structure) for part in path.strip("[]").split("][")}
    return {part for part in parts if part and not part.isdigit()}


def _tensor(item: Any, source: Source) -> Any:
    if item is None:
        return None
    tensor = item if tf.is_tensor(item) or isinstance(item, tf.Variable) else _constant(item, source)
    tensor = tf.convert_to_tensor(tensor)
    if tuple(tensor.shape) != source.shape:
        raise ValueError(
            f"gradient for {source.name} has shape {tuple(tensor.shape)}, its source has shape {source.shape}; "
            "give the gradient of the sum of f's outputs, element by element"
        )
    complex_source = np.iscomplexobj(source.value)
    if tensor.dtype.is_complex != complex_source or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise ValueError(
            f"gradient for {source.name} has dtype {tensor.dtype.name}, its source has dtype {source.dtype}; "
            f"give {'complex' if complex_source else 'floating'} values"
        )
    return tensor


def _constant(item: Any, source: Source) -> Any:
    """Numbers that did not come from TensorFlow; whole ones count as floating."""
    array = np.asarray(item)
    if array.dtype.kind in "iuf" and np.iscomplexobj(source.value):
        return tf.constant(array, tf.complex128)
    return tf.constant(array, tf.float64) if array.dtype.kind in "iu" else tf.convert_to_tensor(item)


Array = np.ndarray[Any, Any]

CACHED = 2
"""So many tables of values are kept."""


class Problem(Protocol):
    """A function of n coordinates with m output coordinates, at a point.

    `roundoff` is that of `values`, `gradient_roundoff` that of `gradients_at`, `precision` that of the derivatives
    under test. `terms` is the largest magnitude that is known to go into a value: the scale of what may cancel.
    `smooth` promises that the function has no kink at the point, so that none is looked for.
    """

    @property
    def point(self) -> Array: ...

    @property
    def outputs(self) -> int: ...

    @property
    def roundoff(self) -> float: ...

    @property
    def precision(self) -> float: ...

    @property
    def gradient_roundoff(self) -> float: ...

    @property
    def terms(self) -> float: ...

    @property
    def smooth(self) -> bool: ...

    def perturbed(self, draw: int) -> Problem:
        """The same function with its inner values perturbed at random; itself where they are out of reach.

        Random-rounding perturbation (CESTAC; Vignes 1993): each value moves by a unit in the last place, up or down.
        """
        ...

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        """The largest `steps` (k,) along directions (k, n), smaller where an input would violate its constraint."""
        ...

    def values(self, points: Array) -> Array:
        """The outputs (p, m) at points (p, n)."""
        ...

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The gradients of <w, f> for cotangents w (k, m)."""
        ...

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        """The gradient of <w, f> for one cotangent (m,) at points (p, n); shape (p, n)."""
        ...

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """The second derivative of <w, f> applied to directions (k, n)."""
        ...

    def gap(self, cotangents: Array, point: Array) -> Array | None:
        """The gradients (k, n) in low precision less those of a float64 form of the function; None without one."""
        ...


@dataclass(frozen=True)
class TapeProblem:
    """A user's function: derivatives of `function` with tapes, values of its float64 form `wide` if it has one."""

    function: Function
    wide: Function | None = None
    smooth: bool = False
    _latest: dict[bytes, Array] = field(default_factory=dict, compare=False, repr=False)

    @property
    def point(self) -> Array:
        return self.function.point

    @property
    def outputs(self) -> int:
        return self.function.output_parts[-1].stop if self.function.outputs else 0

    @property
    def roundoff(self) -> float:
        return (self.wide or self.function).roundoff

    @property
    def precision(self) -> float:
        return self.function.roundoff

    @property
    def gradient_roundoff(self) -> float:
        return (self.wide or self.function).roundoff

    @property
    def terms(self) -> float:
        return float(np.max(np.abs(self.values(self.point[None, :])), initial=0.0))

    def perturbed(self, draw: int) -> TapeProblem:
        """Itself: what a user's function computes inside is out of reach."""
        return self

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        return self.function.feasible_steps(directions, steps)

    def values(self, points: Array) -> Array:
        # Second order asks for the points of first order again, once for every cotangent.
        key = points.tobytes()
        if key not in self._latest:
            for old in list(self._latest)[: 1 - CACHED]:
                del self._latest[old]
            self._latest[key] = (self.wide or self.function).values(points)
        return self._latest[key]

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        return self._or_undefined(lambda: self.function.pullbacks(cotangents, point), len(cotangents), point)

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        function = self.wide or self.function
        return np.concatenate(
            [
                self._or_undefined(lambda at=point: function.pullbacks(cotangent[None, :], at), 1, point).values  # type: ignore[misc]
                for point in points
            ]
        )

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        second = self.function.second_pullbacks
        return self._or_undefined(lambda: second(cotangent, directions, point)[1], len(directions), point)

    def gap(self, cotangents: Array, point: Array) -> Array | None:
        """The gradients (k, n) in the dtype given less those of the float64 form; None where there is none.

        Both are taken at the point (n,) rounded to the dtype given.
        """
        if self.wide is None:
            return None
        rounded = self.function.coordinates(self.function.tensors(point))
        gap: Array = self.gradients(cotangents, rounded).values - self._wide_gradients(cotangents, rounded)
        return gap

    def _wide_gradients(self, cotangents: Array, point: Array) -> Array:
        assert self.wide is not None
        return gradient_matrix(self.wide.pullbacks(cotangents, point), self.function.sources).values

    def _or_undefined(self, rows: Callable[[], list[list[Any]]], count: int, point: Array | None) -> Gradients:
        """The gradients; NaN where a constraint is violated or where, other than at the inputs given, `f` throws."""
        outside = Gradients.undefined(count, self.point.size)
        if point is not None and not self.function.contains(point):
            return outside
        try:
            taken = rows()
        except Exception:
            if point is None:
                raise
            return outside
        return gradient_matrix(taken, self.function.sources)


@dataclass(frozen=True)
class GivenProblem(TapeProblem):
    """The sum of the function's outputs, and a gradient of that sum which the caller computed.

    `given` maps the sources' tensors to one tensor or None a source.
    """

    given: Callable[[Sequence[Any]], list[Any]] = list

    @property
    def outputs(self) -> int:
        return 1

    def values(self, points: Array) -> Array:
        total: Array = super().values(points).sum(axis=1, keepdims=True)
        return total

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        def rows() -> list[list[Any]]:
            row = self.given(self.function.tensors(self.point if point is None else point))
            return [row for _ in cotangents]

        return self._or_undefined(rows, len(cotangents), point).scaled(cotangents[:, 0])

    def _wide_gradients(self, cotangents: Array, point: Array) -> Array:
        assert self.wide is not None
        row = gradient_matrix([self.given(self.wide.tensors(point))], self.function.sources)
        return row.values * cotangents[:, :1]

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        return np.concatenate([self.gradients(cotangent[None, :], point).values for point in points])

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        vectors = [self.function.direction(row) for row in directions]
        tensors = self.function.tensors(self.point if point is None else point)
        rows = differentiate(self.given, tensors, vectors)[1]
        return gradient_matrix(rows, self.function.sources).scaled(np.full(len(directions), cotangent[0]))
