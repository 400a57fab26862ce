"""A derivative that somebody's code took, as a problem: replays give the values, its answer is the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count, from_coordinates, to_coordinates
from gradcheck.autodiff.gradients import Gradients, WrongShapeError
from gradcheck.autodiff.precision import ROUNDOFF
from gradcheck.autodiff.source import Source
from gradcheck.diagnosis.origins import Origin
from gradcheck.diagnosis.record import Derivative
from gradcheck.diagnosis.replay import Code, Move, replayed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CallProblem:
    """The targets of `call` as a function of its sources; the sum of them where it is a gradient, each for a Jacobian.

    `sources` (with their `origins`) are those with a floating or complex dtype, each once, and `places` their positions
    among the sources of the call.
    """

    code: Code
    call: Derivative
    sources: tuple[Source, ...]
    origins: tuple[Origin, ...]
    places: tuple[int, ...]

    @cached_property
    def point(self) -> Array:
        return np.concatenate([to_coordinates(source.value) for source in self.sources])

    @property
    def outputs(self) -> int:
        if self.call.method == "gradient":
            return 1
        return int(sum(coordinate_count(t.shape, t.dtype.as_numpy_dtype) for t in self.call.targets))

    @cached_property
    def roundoff(self) -> float:
        names = [source.dtype for source in self.sources] + [target.dtype.name for target in self.call.targets]
        return max(ROUNDOFF.get(name, ROUNDOFF["float64"]) for name in names)

    @property
    def precision(self) -> float:
        return self.roundoff

    @property
    def gradient_roundoff(self) -> float:
        return self.roundoff

    @cached_property
    def terms(self) -> float:
        return float(np.max(np.abs(self.values(self.point[None, :])), initial=0.0))

    @property
    def smooth(self) -> bool:
        return False

    def rounded(self, draw: int) -> CallProblem:
        """Itself: what somebody's code computes inside is its own."""
        return self

    def values(self, points: Array) -> Array:
        """The outputs (p, m) at points (p, n); NaN where the code throws or does not come to the call."""
        return np.stack([self._value(point) for point in points])

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The answer of the call at the inputs given, or that of a replay at another point."""
        results: Any = self.call.results
        if point is not None:
            results = replayed(self.code, self.call, self.moves(point), answer=True).results
        if results is None:
            shape = (len(cotangents), self.point.size)
            return Gradients(np.full(shape, np.nan), np.ones(shape, bool))
        parts = [self._matrix(results[place], source) for place, source in zip(self.places, self.sources, strict=True)]
        connected = np.concatenate(
            [np.full(p.shape[1], results[i] is not None) for p, i in zip(parts, self.places, strict=True)]
        )
        return Gradients(
            cotangents @ np.concatenate(parts, axis=1), np.broadcast_to(connected, (len(cotangents), self.point.size))
        )

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        """The gradient of <w, f> for one cotangent (m,) at points (p, n); shape (p, n)."""
        return np.concatenate([self.gradients(cotangent[None, :], point).values for point in points])

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """Second derivatives are calls of their own."""
        raise NotImplementedError

    def moves(self, point: Array) -> list[Move]:
        """How far each source has to be moved to come to a point (n,)."""
        found, start = [], 0
        for source, origin in zip(self.sources, self.origins, strict=True):
            part = slice(start, start + source.count)
            start += source.count
            delta = point[part] - self.point[part]
            value = from_coordinates(delta, source.shape, tf.as_dtype(source.dtype).as_numpy_dtype)
            found.append(Move(origin, tf.constant(value) if np.any(delta != 0) else None))
        return found

    def _value(self, point: Array) -> Array:
        replay = replayed(self.code, self.call, self.moves(point))
        outside = np.full(self.outputs, np.nan)
        if replay.target is None:
            return outside
        value = flat_target(replay.target, self.call)
        return value if value.shape == outside.shape else outside

    def _matrix(self, result: Any, source: Source) -> Array:
        """The answer for one source, (m, its coordinates)."""
        if result is None:
            return np.zeros((self.outputs, source.count))
        value = np.asarray(tf.convert_to_tensor(result).numpy())
        if self.call.method == "batch_jacobian":
            value = _spread(value, source)
        expected = self._target_shape() + source.shape
        if value.shape != expected:
            raise WrongShapeError(source.name, f"of shape {value.shape}", f"of shape {expected}")
        return np.reshape(to_coordinates(value), (self.outputs, -1))

    def _target_shape(self) -> tuple[int, ...]:
        return () if self.call.method == "gradient" else tuple(self.call.targets[0].shape)


def flat_target(targets: Sequence[Any], call: Derivative) -> Array:
    """The coordinates of the targets, (m,), or for a gradient their sum, weighted by its output_gradients, (1,)."""
    values = [np.asarray(tf.convert_to_tensor(target).numpy()) for target in targets]
    if call.method != "gradient":
        return np.concatenate([to_coordinates(value) for value in values])
    total = 0.0
    for position, value in enumerate(values):
        weight = None if call.weights is None else call.weights[position]
        weights = np.ones_like(value) if weight is None else np.asarray(tf.convert_to_tensor(weight).numpy())
        total += float(to_coordinates(weights.astype(value.dtype)) @ to_coordinates(value))
    return np.array([total])


def _spread(value: Array, source: Source) -> Array:
    """A batch Jacobian (b, out..., in...) as a whole one (b, out..., b, in...): rows do not depend on one another."""
    count = len(value)
    rank = value.ndim - len(source.shape) + 1
    whole = np.zeros((*value.shape[:rank], count, *value.shape[rank:]), value.dtype)
    for row in range(count):
        np.moveaxis(whole[row], rank - 1, 0)[row] = value[row]
    return whole
