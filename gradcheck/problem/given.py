"""A gradient that the caller computed, in place of TensorFlow's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Gradients,
    Tensors,
    WrongShapeError,
    connected,
    dense,
    differentiate,
    pullbacks,
    taking_derivative,
)
from gradcheck.autodiff.sources import Source, listed_numbers, paths, with_arrays
from gradcheck.numerics.sampling import LinePoints
from gradcheck.problem.function import Function
from gradcheck.problem.mapped import Mapped
from gradcheck.typing import Array


@dataclass(frozen=True)
class GivenGradient(Function):
    """The sum of a function's outputs (of complex ones the real part), with the gradient that the caller computed.

    `given` maps the sources' tensors to one tensor or None per source. Where it returns the same in float64, its
    rounding is taken to be that of TensorFlow's gradient, which is `measured` on this function.
    """

    given: Callable[[Tensors], Tensors] = list
    measured: Function | None = None

    @staticmethod
    def of(function: Function, given: Callable[[Tensors], Tensors], *, called: bool = False) -> GivenGradient:
        """Return the sum of the outputs of `function`, and of those of its float64 form, with this gradient.

        A `called` gradient reads the variables themselves, in their precision: in float64 TensorFlow's takes its place.
        What low precision loses of a gradient is measured on TensorFlow's, if there is one: given values are the same
        in both.
        """
        held, inner, wide = function.held, function.inner, function.wide
        if wide is not None:
            by_tape = GivenGradient.by_tape(wide)
            reads = called and any(source.variable is not None for source in function.sources)
            beside = replace(GivenGradient.of(wide, given), plain=not called, noisy=by_tape.noisy)
            wide = by_tape if reads else beside
        measured = function if wide is not None and wide.plain else None
        return GivenGradient(
            function.f, function.arguments, function.results, wide, held, inner, given=given, measured=measured
        )

    @staticmethod
    def by_tape(function: Function) -> GivenGradient:
        """Return the sum of the outputs of `function`, with TensorFlow's gradient, if any, and its perturbations."""

        def noisy(draw: int) -> Function | None:
            perturbed = function.perturbed(draw)
            return None if perturbed is function else GivenGradient._taped(perturbed)

        taped = GivenGradient._taped(function)
        try:
            differentiable = any(row is not None for row in taped.given(taped.tensors(taped.point)))
        except DerivativeRaisedError:
            differentiable = False
        return replace(taped, noisy=noisy if differentiable else None)

    @staticmethod
    def _taped(function: Function) -> GivenGradient:
        """Return the sum of the outputs of `function`, with TensorFlow's gradient."""

        def taken(tensors: Tensors) -> Tensors:
            (row,) = pullbacks(function.call, tensors, [function.cotangent(function.ones)])
            return row

        # The formula differs from the given one: only its perturbations count, not the distance to it.
        return replace(GivenGradient.of(function, taken), plain=True)

    @property
    def outputs(self) -> int:
        return 1

    def values(self, points: Array | LinePoints) -> Array:
        return self._summed(super().values(points))

    def tables(self, cotangent: Array | None = None) -> list[tuple[LinePoints, Array]]:
        # Of gradients, none are remembered.
        return [(points, self._summed(table)) for points, table in super().tables()] if cotangent is None else []

    def _summed(self, values: Array) -> Array:
        if not self.ones.all():
            values = values[:, self.ones != 0]
        total: Array = values.sum(axis=1, keepdims=True)
        return total

    @cached_property
    def _sizes(self) -> Array:
        return np.array([self.terms])

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        taken = self._taken(point, len(cotangents), lambda tensors: [self.given(tensors)] * len(cotangents))
        return taken.scaled(cotangents[:, 0])

    def gaps(self, cotangents: Array, gradients: Array) -> Array | None:
        if self.measured is None:
            return super().gaps(cotangents, gradients)
        form = self.measured.wide
        if form is None or not form.same_gradients:
            return None
        try:
            low, wide = (GivenGradient._taped(one) for one in (replace(self.measured, wide=None), form))
            return np.asarray(low.gradients(cotangents).values - wide.gradients(cotangents).values)
        except (DerivativeRaisedError, WrongShapeError):
            return None

    @property
    def slope_roundoff(self) -> float:
        return self.precision

    def gradients_at(self, cotangent: Array, points: Array | LinePoints, left: LeftVectors | None = None) -> Array:
        # In the dtype that the gradient was written for.
        return np.asarray(cotangent[0] * self._gradients_at(points, self._mapped_gradients, left=left))

    @cached_property
    def _mapped_gradients(self) -> Mapped:
        return Mapped(lambda tensors: connected(self.given(self.placed(tensors)), tensors), self.precision)

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        vectors = [self.direction(row) for row in directions]
        taken = self._taken(point, len(directions), lambda tensors: differentiate(self.given, tensors, vectors)[1])
        return taken.scaled(np.full(len(directions), cotangent[0]))


def given_gradient(function: Function, gradient: Any) -> Callable[[Tensors], Tensors]:
    """Return a callable from the sources' tensors to one gradient (tensor or None) per source.

    A callable `gradient` takes the arguments of `f`. Raises TypeError where it cannot, ValueError where the structure,
    a shape or a dtype does not fit, DerivativeRaisedError where the callable raises.
    """
    if not callable(gradient):
        fixed = _by_source(function, gradient)
        return lambda tensors: fixed

    _refuse_signature(gradient, function.arguments.structure)

    def given(tensors: Tensors) -> Tensors:
        with taking_derivative():
            function.held.put_back()
            result = gradient(*function.arguments.rebuilt(tensors))
        return _by_source(function, result)

    return given


def coarser(function: Function, given: Callable[[Tensors], Tensors]) -> str:
    """The note on a given gradient that is in less precision than its source; else empty."""
    try:
        pairs = list(zip(given(function.tensors(function.point)), function.sources, strict=True))
    except DerivativeRaisedError:  # reported when it is compared
        return ""
    told = [
        f"{part.dtype.name} for {source.name}, which is {source.dtype}"
        for part, source in pairs
        if part is not None and ROUNDOFF[part.dtype.name] > ROUNDOFF[source.dtype]
    ]
    advice = "its rounding counts as an error; compute it in the inputs' dtype, or set rtol="
    return f"gradient= is {', '.join(told)}: {advice}" if told else ""


def _refuse_signature(gradient: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """Raise TypeError for a callable that does not take as many arguments, if its signature is known."""
    try:
        signature = inspect.signature(gradient)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*inputs)
    except TypeError as error:
        count = len(inputs)
        raise TypeError(
            f"gradient takes {signature}, and cannot be called with the {count} input{'s' * (count != 1)} of f "
            f"({error}); a callable with the arguments of f was expected"
        ) from None


def _by_source(function: Function, gradient: Any) -> Tensors:
    """Return the gradients in the order of the sources.

    They may come in the structure of the inputs, or as one list for all sources (or for all inputs, with None for those
    without a derivative), followed by those of `variables`. A list of numbers is one tensor where that fits, as among
    the inputs. Raises ValueError.
    """
    arguments, sources = function.arguments, function.sources
    readings = [ordered for items in _readings(gradient) if (ordered := arguments.ordered(items)) is not None]
    if not readings:
        count = len(tf.nest.flatten(gradient))
        listing = ", ".join(f"{source.name} (shape {source.shape})" for source in sources)
        raise ValueError(
            f"gradient holds {count} {'tensor' if count == 1 else 'tensors'}, {len(sources) + len(arguments.fixed)} "
            f"expected, one for each of {listing}{' and the others' * bool(arguments.fixed)}; give None where there is "
            "none"
        )
    items = next((items for items in readings if len(readings) == 1 or _fits(items, sources)), readings[0])
    keys, expected = _keys(gradient), _keys(arguments.structure)
    if keys and keys != expected:
        raise ValueError(
            f"gradient has the keys {', '.join(sorted(keys))}, the inputs have "
            f"{', '.join(sorted(expected)) or 'none'}; give the gradients in the structure of the inputs"
        )
    return [_tensor(item, source) for item, source in zip(items, sources, strict=True)]


def _readings(gradient: Any) -> Iterator[Tensors]:
    """Yield the possible readings: each leaf a gradient, each list of numbers a gradient, or all one gradient."""
    yield tf.nest.flatten(gradient)
    parts = gradient if isinstance(gradient, (list, tuple)) else [gradient]
    arrays = [with_arrays(one, "fciu") for one in parts]
    if any(one is not other for one, other in zip(parts, arrays, strict=True)):
        yield tf.nest.flatten(arrays)
    if (whole := listed_numbers(gradient)) is not None:
        yield [whole]


def _fits(items: Tensors, sources: Sequence[Source]) -> bool:
    """Whether the gradients have the shapes of the sources."""
    pairs = zip(items, sources, strict=True)
    return all(item is None or tuple(getattr(item, "shape", ())) == source.shape for item, source in pairs)


def _keys(structure: Any) -> set[str]:
    """The keys of all dicts in a nested structure."""
    parts = {part for path, _ in paths("", structure) for part in path.strip("[]").split("][")}
    return {part for part in parts if part and not part.isdigit()}


def _tensor(item: Any, source: Source) -> Any:
    if item is None:
        return None
    is_complex = np.iscomplexobj(source.value)
    if not tf.is_tensor(item) and (array := np.asarray(item)).dtype.kind in "iuf":
        # Numbers from outside TensorFlow: integers count as floating, real ones as complex.
        item = array.astype(np.complex128 if is_complex else array.dtype if array.dtype.kind == "f" else np.float64)
    tensor = dense(item, source)
    if tensor.dtype.is_complex != is_complex or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise ValueError(
            f"gradient for {source.name} has dtype {tensor.dtype.name}, its source has dtype {source.dtype}; "
            f"give {'complex' if is_complex else 'floating'} values"
        )
    if tuple(tensor.shape) != source.shape:
        raise ValueError(
            f"gradient for {source.name} has shape {tuple(tensor.shape)}, its source has shape {source.shape}; "
            "give the gradient of the sum of f's outputs, element by element"
        )
    return tensor
