"""A derivative that the user's code took, as a Problem: replays give the values, its result is the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, from_coordinates, parts_of, to_coordinates
from gradcheck.autodiff.reverse import Gradients, WrongShapeError, along, dense
from gradcheck.autodiff.sources import Source
from gradcheck.numerics.probing import directions_at
from gradcheck.numerics.sampling import LinePoints
from gradcheck.problem.mapped import Mapped, Points, as_array
from gradcheck.problem.problem import Problem
from gradcheck.result import Verdict
from gradcheck.tracing.record import CallSource, CodeRecord, DerivativeCall
from gradcheck.tracing.replay import replayed, target_value
from gradcheck.tracing.state import state_restored
from gradcheck.typing import Array
from gradcheck.verdict.lines import Lines, slope_estimate, ulp_rounding
from gradcheck.verdict.probe_pairs import SMALL
from gradcheck.verdict.tables import Comparison, Tolerance, compare

FEW = 3
"""Number of random directions while the coordinates are few: errors rarely cancel along all of them."""


class UntraceableError(Exception):
    """A replay has no value, or cannot be traced."""


@dataclass(frozen=True)
class CallProblem(Problem):
    """The targets of a call as a function of sources `taken` from it: their sum for a gradient, each for a Jacobian."""

    taken: Sequence[CallSource]

    @property
    def record(self) -> CodeRecord:
        return self.taken[0].record

    @property
    def call(self) -> DerivativeCall:
        return self.taken[0].call

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(Source(one.name, np.asarray(one.value)) for one in self.taken)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        return parts_of([source.count for source in self.sources])

    @cached_property
    def point(self) -> Array:
        return np.concatenate([to_coordinates(source.value) for source in self.sources])

    @property
    def outputs(self) -> int:
        if self.call.method == "gradient":
            return 1
        return sum(math.prod(target.shape) for target in self.call.targets)

    @property
    def roundoff(self) -> float:
        names = [source.dtype for source in self.sources] + [target.dtype.name for target in self.call.targets]
        return max(ROUNDOFF.get(name, ROUNDOFF["float64"]) for name in names)

    def values(self, points: Array | LinePoints) -> Array:
        """The outputs (p, m) at points (p, n); NaN where the code raises or does not reach the call."""
        table = np.full((len(points), self.outputs), np.nan)
        moves = Points(len(points), lambda rows: self._deltas(points[rows]))
        with state_restored():
            for row, targets in self._replays.each(moves):
                value = None if targets is None else target_value(targets, self.call)
                table[row] = value if value is not None and value.shape == table[row].shape else np.nan
        return table

    @cached_property
    def _replays(self) -> Mapped:
        """The targets of replays, as a function of the displacement of each source."""

        def targets(deltas: Sequence[Any]) -> list[Any]:
            moves = list(zip(self.taken, deltas, strict=True))
            if not tf.inside_function():
                moves = [(one, delta) for one, delta in moves if np.any(as_array(delta) != 0)]
            elif any(one.moved_by_operations for one in self.taken):
                raise UntraceableError("operations can be observed only when they run eagerly")
            replay = replayed(self.record, self.call, moves)
            if replay.target is None:
                raise UntraceableError("the code did not reach the call") from replay.error
            return [tf.convert_to_tensor(target) for target in replay.target]

        return Mapped(targets, self.roundoff)

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The result of the call at the given inputs, or that of a replay at another point."""
        results: Any = self.call.results
        if point is not None:
            results = replayed(self.record, self.call, self.moves(point), with_results=True).results
        if results is None:
            return Gradients.undefined(len(cotangents), self.point.size)
        parts = [results[one.position] for one in self.taken]
        matrices = [self._matrix(part, source) for part, source in zip(parts, self.sources, strict=True)]
        connected = np.repeat([part is not None for part in parts], [source.count for source in self.sources])
        values = cotangents @ np.concatenate(matrices, axis=1)
        return Gradients(values, np.broadcast_to(connected, values.shape))

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """NaN: a second derivative that the code takes is a call of its own."""
        return Gradients.undefined(len(directions), self.point.size)

    def moves(self, point: Array) -> list[tuple[CallSource, Any]]:
        """The displacements of the sources that lead to a point (n,)."""
        pairs = zip(self.taken, self._deltas(point), strict=True)
        return [(one, tf.constant(delta)) for one, delta in pairs if np.any(delta != 0)]

    def _deltas(self, points: Array) -> list[Array]:
        """The displacement of each source at a point (n,), or at points (p, n)."""
        ends = np.cumsum([source.count for source in self.sources])[:-1]
        with np.errstate(invalid="ignore"):  # a source may hold infinity
            moved = np.split(points - self.point, ends, axis=-1)
        return [
            from_coordinates(delta, source.shape, tf.as_dtype(source.dtype).as_numpy_dtype)
            for source, delta in zip(self.sources, moved, strict=True)
        ]

    def _matrix(self, result: Any, source: Source) -> Array:
        """The result for one source, (m, its coordinates)."""
        if result is None:
            return np.zeros((self.outputs, source.count))
        value = np.asarray(dense(result, source).numpy())
        if self.call.method == "batch_jacobian":
            value = _whole_jacobian(value, source)
        expected = (() if self.call.method == "gradient" else tuple(self.call.targets[0].shape)) + source.shape
        if value.shape != expected:
            raise WrongShapeError(source.name, f"of shape {value.shape}", f"of shape {expected}")
        return np.reshape(to_coordinates(value), (self.outputs, -1))


def _whole_jacobian(value: Array, source: Source) -> Array:
    """A batch Jacobian (b, out..., in...) as a full one (b, out..., b, in...): rows do not depend on one another."""
    rows, rank = np.arange(len(value)), value.ndim - len(source.shape) + 1
    whole = np.zeros((*value.shape[:rank], len(value), *value.shape[rank:]), value.dtype)
    np.moveaxis(whole, rank, 1)[rows, rows] = value
    return whole


def plainly_agrees(problem: CallProblem, tolerance: Tolerance, probes: int) -> tuple[Comparison, Array] | None:
    """Return the comparison along random directions if all of them agree at once, else None. Raises WrongShapeError.

    Also returns, for each source, the smallest visible error relative to its largest derivative, or infinity where its
    derivatives are all 0.
    """
    count = FEW if problem.point.size <= SMALL else probes
    if problem.point.size <= FEW or problem.outputs > SMALL:
        return None
    cotangents = np.eye(problem.outputs)
    gradients = problem.gradients(cotangents).values
    if not np.isfinite(gradients).all():
        return None
    directions = directions_at(np.random.default_rng(0), count, problem.point)
    estimate = slope_estimate(Lines(problem, directions, cotangents, tolerance).sample())
    autodiff = along(directions, gradients)
    table = compare(autodiff, estimate, tolerance, ulp_rounding(autodiff, problem.precision), factor=1.0)
    if not table.where(Verdict.AGREE).all():
        return None
    products = np.abs(directions[:, None, :] * gradients[None, :, :])
    ends = np.cumsum([source.count for source in problem.sources])
    largest = [part.max(axis=2, initial=0.0) for part in np.split(products, ends[:-1], axis=2)]
    shares = [
        0.0 if source.count == 0 else _share(table.allowed, one)
        for source, one in zip(problem.sources, largest, strict=True)
    ]
    rows = tuple(range(problem.outputs))
    table = replace(table, coordinates=(None,) * count, outputs=rows, contribution=np.max(largest, axis=0))
    return table, np.array(shares)


def _share(allowed: Array, largest: Array) -> float:
    return float(np.min(allowed[largest > 0] / largest[largest > 0], initial=np.inf))
