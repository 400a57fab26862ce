"""What a verdict needs of a function: values for the differences, derivatives to hold against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gradcheck.autodiff.function import Function
from gradcheck.autodiff.gradients import Gradients, gradient_matrix
from gradcheck.autodiff.pullback import differentiate

Array = np.ndarray[Any, Any]

KEPT = 2
"""So many tables of values are remembered."""


class Problem(Protocol):
    """A function of n coordinates with m output coordinates, at a point.

    `roundoff` is that of `values`, `gradient_roundoff` that of `gradients_at`, `precision` that of the derivatives
    under test. `terms` is the largest magnitude that is known to go into a value: the scale of what may cancel.
    `smooth` promises that the function has no kink at the point, so that nobody needs to look for one.
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

    def rounded(self, draw: int) -> Problem:
        """The same function with other roundings of its inner values; itself where they are out of reach."""
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


@dataclass(frozen=True)
class TapeProblem:
    """Somebody's function under our tapes: derivatives of `function`, differences of its float64 form `wide` if any."""

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

    def rounded(self, draw: int) -> TapeProblem:
        """Itself: what somebody's function computes inside is its own."""
        return self

    def values(self, points: Array) -> Array:
        # Second order asks for the points of first order again, once for every cotangent.
        key = points.tobytes()
        if key not in self._latest:
            for old in list(self._latest)[: 1 - KEPT]:
                del self._latest[old]
            self._latest[key] = (self.wide or self.function).values(points)
        return self._latest[key]

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        return self._taken(lambda: self.function.pullbacks(cotangents, point), len(cotangents), point)

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        function = self.wide or self.function
        return np.concatenate(
            [
                self._taken(lambda at=point: function.pullbacks(cotangent[None, :], at), 1, point).values  # type: ignore[misc]
                for point in points
            ]
        )

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        second = self.function.second_pullbacks
        return self._taken(lambda: second(cotangent, directions, point).products, len(directions), point)

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

    def _taken(self, rows: Callable[[], list[list[Any]]], count: int, point: Array | None) -> Gradients:
        """Beside the inputs given, NaN where the function throws or a source leaves its set: outside of the domain."""
        outside = Gradients.undefined(count, self.point.size)
        if point is not None and not self.function.holds(point):
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
    """Differences of the sum of the function's outputs, a gradient of that sum which somebody else computed.

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

        return self._taken(rows, len(cotangents), point).scaled(cotangents[:, 0])

    def _wide_gradients(self, cotangents: Array, point: Array) -> Array:
        assert self.wide is not None
        row = gradient_matrix([self.given(self.wide.tensors(point))], self.function.sources)
        return row.values * cotangents[:, :1]

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        return np.concatenate([self.gradients(cotangent[None, :], point).values for point in points])

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        vectors = [self.function.direction(row) for row in directions]
        tensors = self.function.tensors(self.point if point is None else point)
        rows = differentiate(self.given, tensors, vectors).products
        return gradient_matrix(rows, self.function.sources).scaled(np.full(len(directions), cotangent[0]))
