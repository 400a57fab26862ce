"""The user's function in real coordinates: its values at many points, and TensorFlow's derivatives of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, coordinate_count, from_coordinates, parts_of, to_coordinates
from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Gradients,
    Tensors,
    WrongShapeError,
    connected,
    gradient_matrix,
    pullbacks,
    second_pullbacks,
    seen,
    wrong_shape_first,
)
from gradcheck.autodiff.sources import Arguments, Source
from gradcheck.numerics.probing import FEW_INPUTS
from gradcheck.numerics.sampling import QUICK, LinePoints, same_points
from gradcheck.problem.mapped import Mapped, Points, Rows, Values, as_array
from gradcheck.problem.problem import Problem
from gradcheck.progress import counted
from gradcheck.tracing.perturbation import computed_from, perturbing
from gradcheck.tracing.state import UNCHANGED, ChangedState
from gradcheck.typing import Array

HALVINGS = 40
"""Number of times a step is halved before the point counts as lying on the edge of its set."""

MOVED_BYTES = 2**18
"""Points that take more memory (bytes) are computed in TensorFlow, from tensors of the point and the direction."""

TABLE_BYTES = 2**22
"""Larger tables of gradients (bytes) keep only the requested products: new memory is slow to touch."""

UPSTREAM = -2.0
"""Gradients are taken for this multiple of a cotangent, and divided by it. A gradient that ignores the incoming
cotangent, or is not linear in its sign or size, is correct for 1 only. A power of two changes no digit."""

LINES, ROWS, VALUES = 6, 2, len(QUICK.offsets) - 1
"""The values, or gradients, of a check lie on one line for each of up to LINES coordinates, else on ROWS lines; at
least VALUES on each line."""


CACHED_BYTES = 2**25
"""Tables and their points are kept until they take more memory (bytes) than this."""


@dataclass(frozen=True)
class Remembered:
    """The latest tables of a function, each with its name (a cotangent, or none) and its points."""

    latest: list[tuple[bytes, Array | LinePoints, Array]] = field(default_factory=list)

    def on_lines(self, name: bytes) -> list[tuple[LinePoints, Array]]:
        """The tables of this name whose points lie on lines, with these."""
        return [
            (points, table) for other, points, table in self.latest if other == name and isinstance(points, LinePoints)
        ]

    def table(self, name: bytes, points: Array | LinePoints, taken: Callable[[], Array]) -> Array:
        """Return the table of this name at these points, from memory or from `taken()`."""
        if points.nbytes > CACHED_BYTES or perturbing():  # a function may take gradients itself
            return taken()
        for other, kept, table in self.latest:
            if other == name and same_points(kept, points):
                return table
        table = taken()
        self.latest.append((name, points, table))
        while sum(kept.nbytes + table.nbytes for _, kept, table in self.latest) > CACHED_BYTES:
            del self.latest[0]
        return table


@dataclass(frozen=True)
class Function(Problem):
    """`f` with the sources of its arguments, the specs of its `results`, and its float64 form `wide`, if it has one.

    Other state that a call changes, `held`, is put back before every call. `inner` is the unit roundoff of the coarsest
    arithmetic inside, if that is coarser than the inputs and results. `noisy(draw)`, if given, is the function with its
    inner values perturbed. `plain`: a float64 form without the custom gradients; `straight`: the same operations run at
    all points. `seconds`, if known, is the processor time of a call, and `opened` the value (m,) of the very first one.
    """

    f: Callable[..., Any]
    arguments: Arguments
    results: tuple[tf.TensorSpec, ...]
    wide: Function | None = None
    held: ChangedState = UNCHANGED
    inner: float = 0.0
    noisy: Callable[[int], Function | None] | None = None
    plain: bool = False
    straight: bool = False
    seconds: float | None = None
    opened: Array | None = field(default=None, compare=False, repr=False)
    _remembered: Remembered = field(default_factory=Remembered, init=False, compare=False, repr=False)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that it is differentiated with respect to."""
        return self.arguments.sources

    @cached_property
    def point(self) -> Array:
        return np.concatenate([source.coordinates(source.value) for source in self.sources])

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """The slice of each source's coordinates."""
        return parts_of([source.count for source in self.sources])

    @cached_property
    def result_parts(self) -> tuple[slice, ...]:
        """The slice of each result's coordinates."""
        return parts_of([coordinate_count(one.shape, one.dtype.as_numpy_dtype) for one in self.results])

    @property
    def outputs(self) -> int:
        return int(self.result_parts[-1].stop)

    @cached_property
    def ones(self) -> Array:
        """The cotangent (m,) that `tape.gradient` starts from: that of the real part of the sum of the results."""
        return flat([np.ones(one.shape, one.dtype.as_numpy_dtype) for one in self.results])

    def terms_of(self, cotangents: Array) -> Array:
        return np.asarray(np.max(np.abs(cotangents) * self._sizes, axis=1, initial=0.0))

    @cached_property
    def _sizes(self) -> Array:
        """The magnitudes of the outputs, (m,): both parts of a complex one are rounded together."""
        values = self.values(self.point[None, :])[0]
        results = zip(self.results, self.result_parts, strict=True)
        sizes = [
            np.repeat(np.hypot(*values[part].reshape(-1, 2).T), 2) if one.dtype.is_complex else np.abs(values[part])
            for one, part in results
        ]
        return np.concatenate(sizes)

    @cached_property
    def precision(self) -> float:
        names = [source.dtype for source in self.sources] + [result.dtype.name for result in self.results]
        return max(self.inner, *(ROUNDOFF[name] for name in names))

    @property
    def roundoff(self) -> float:
        return (self.wide or self).precision

    @property
    def slope_roundoff(self) -> float:
        return self._for_gradients.precision

    @cached_property
    def _for_gradients(self) -> Function:
        """The float64 form, unless it has no gradient: some kernels' gradients run compiled only."""
        if self.wide is None:
            return self
        try:
            self.wide.gradients(np.ones((1, self.outputs)))
        except (DerivativeRaisedError, WrongShapeError):
            return self
        return self.wide

    @property
    def in_float64(self) -> Function | None:
        return self.wide

    @property
    def same_gradients(self) -> bool:
        return not self.plain

    @property
    def rounds_inside(self) -> bool:
        return self.noisy is not None

    @property
    def expensive(self) -> bool:
        return self.point.size > FEW_INPUTS and (self.wide or self)._mapped_results.untraceable

    def perturbed(self, draw: int) -> Function:
        return (self.noisy and self.noisy(draw)) or self

    def values(self, points: Array | LinePoints) -> Array:
        """The outputs (p, m) at points (p, n), of the float64 form if there is one.

        NaN outside of the domain: where a constraint is violated, and where `f` raises or returns another size.
        """
        # Second order asks for the points of first order again, once for every cotangent.
        return self._remembered.table(b"", points, partial((self.wide or self)._values, points))

    def tables(self, cotangent: Array | None = None) -> list[tuple[LinePoints, Array]]:
        return self._remembered.on_lines(b"" if cotangent is None else cotangent.tobytes())

    def _values(self, points: Array | LinePoints) -> Array:
        table = np.full((len(points), self.result_parts[-1].stop), np.nan)
        for row, results in self._taken_at(points, self._mapped_results):
            found = flat(results or ())
            table[row] = found if found.shape == table[row].shape else np.nan
        return table

    def _taken_at(
        self, points: Array | LinePoints, mapped: Mapped, shared: Sequence[Any] = ()
    ) -> Iterator[tuple[int, Values]]:
        """Yield (row, values) of `mapped` at those points that satisfy the constraints."""
        if isinstance(points, LinePoints) and self._moves_inside and not perturbing():
            yield from self._taken_along(points, mapped.along(len(self.sources)), shared)
            return
        inside = np.arange(len(points))
        if self.constrained:
            inside = np.array([row for row, point in enumerate(points) if self.contains(point)], int)

        def at(rows: Rows) -> list[Array]:
            kept = points[rows] if len(inside) == len(points) else points[list(inside[rows])]
            return [source.stacked(kept[:, part]) for part, source in zip(self.parts, self.sources, strict=True)]

        for place, values in mapped.each(Points(len(inside), at), shared):
            yield int(inside[place]), values

    @cached_property
    def _moves_inside(self) -> bool:
        """Whether the sources are many coordinates that TensorFlow moves exactly as NumPy does."""
        plain = all(source.dtype == "float64" and not source.constrained for source in self.sources)
        return plain and self.point.nbytes > MOVED_BYTES

    def _taken_along(self, points: LinePoints, mapped: Mapped, shared: Sequence[Any]) -> Iterator[tuple[int, Values]]:
        """The same line by line, by the distance of each point along the line."""
        start = self._split(points.x)
        for line, direction in enumerate(points.directions):
            rows = np.flatnonzero(points.lines == line)
            moves = Points.of([points.moves[rows]], self.point.nbytes)
            for place, values in mapped.each(moves, [*start, *self._split(direction), *shared]):
                yield int(rows[place]), values

    def _split(self, point: Array) -> Tensors:
        """Return a point as new tensors of the sources' shapes; no variable is assigned.

        A function may cache what it computed for a tensor, as bijectors do, and reuse it for the same tensor.
        """
        return list(map(tf.identity, self._given)) if point is self.point else self._tensors(point)

    @cached_property
    def _given(self) -> Tensors:
        return self._tensors(self.point)

    def _tensors(self, point: Array) -> Tensors:
        pairs = zip(self.parts, self.sources, strict=True)
        return [source.tensor(source.at(point[part])) for part, source in pairs]

    @cached_property
    def _mapped_results(self) -> Mapped:
        return Mapped(lambda tensors: self.call(self.placed(tensors)), self.precision, self._expected, self.seconds)

    @cached_property
    def _mapped_gradients(self) -> Mapped:
        def gradient(tensors: Tensors, *weights: Any) -> Tensors:
            (row,) = pullbacks(self.call, self.placed(tensors), [list(weights)])
            return connected(row, tensors)

        return Mapped(gradient, self.precision, self._expected, function=self._mapped_results, straight=self.straight)

    @property
    def _expected(self) -> int:
        """The number of points that a check asks for at least."""
        return VALUES * (self.point.size if self.point.size <= LINES else ROWS)

    def value(self, point: Array) -> Array:
        """The coordinates of the results at one point, shape (m,), in the given precision. Raises what `f` raises."""
        return self.value_of(self.tensors(point))

    def value_of(self, tensors: Tensors) -> Array:
        """The same for tensors in the order of the sources."""
        return flat(list(map(as_array, self.call(tensors))))

    def call(self, tensors: Tensors) -> Tensors:
        """Call `f` with tensors (and the variables themselves) in the order of the sources; results are flat."""
        self.held.put_back()
        if perturbing():
            computed_from(tensors)
        return tensors_of(self.f(*self.arguments.rebuilt(tensors)))

    @cached_property
    def constrained(self) -> bool:
        """Whether any source has a constraint."""
        return any(source.constrained for source in self.sources)

    def contains(self, point: Array) -> bool:
        """Whether every source satisfies its constraint at a point."""
        return all(source.contains(point[part]) for part, source in zip(self.parts, self.sources, strict=True))

    def feasible_steps(self, directions: Array, steps: Array) -> Array:
        """The steps (k,) along directions (k, n), halved until both ends of every line satisfy the constraints.

        The sets are convex. A step that is still too long after HALVINGS is left unchanged.
        """
        feasible = steps.copy()
        if not self.constrained:
            return feasible
        for line, direction in enumerate(directions):
            for step in steps[line] * 0.5 ** np.arange(HALVINGS):
                if self.contains(self.point + step * direction) and self.contains(self.point - step * direction):
                    feasible[line] = step
                    break
        return feasible

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        if point is None and len(cotangents) == 1 and (cotangents == 1).all() and not perturbing():
            return self._gradient_of_sum
        return self._gradients(cotangents, point)

    @cached_property
    def _gradient_of_sum(self) -> Gradients:
        return self._gradients(np.ones((1, self.outputs)))

    def _gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        taken = self.gradients_of(UPSTREAM * cotangents, point)
        if not np.isfinite(taken.values).all():  # twice a cotangent may overflow
            return self.gradients_of(cotangents, point)
        return Gradients(taken.values / UPSTREAM, taken.connected)

    def gradients_of(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The same for these very cotangents, without the factor UPSTREAM."""
        weights = [self.cotangent(row) for row in cotangents]
        return self._taken(point, len(weights), lambda tensors: pullbacks(self.call, tensors, weights))

    def gradients_at(self, cotangent: Array, points: Array | LinePoints, left: LeftVectors | None = None) -> Array:
        function = self._for_gradients

        def taken(left: LeftVectors | None = None) -> Array:
            weight = function.cotangent(cotangent)
            return function._gradients_at(points, function._mapped_gradients, weight, left)

        if left is not None and self.point.nbytes * len(points) > TABLE_BYTES:
            return taken(left)
        return seen(self._remembered.table(cotangent.tobytes(), points, taken), left)

    def _gradients_at(
        self, points: Array | LinePoints, mapped: Mapped, shared: Sequence[Any] = (), left: LeftVectors | None = None
    ) -> Array:
        table = np.empty((len(points), self.point.size if left is None else len(left)))
        missing = np.ones(len(points), bool)
        for row, taken in self._taken_at(points, mapped, shared):
            missing[row] = taken is None
            if taken is not None:
                pieces = [source.derivatives(part) for source, part in zip(self.sources, taken, strict=True)]
                if left is None:
                    np.concatenate(pieces, out=table[row])
                else:
                    table[row] = left.of_pieces(pieces)
        table[missing] = np.nan
        return table

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        weight, vectors = self.cotangent(cotangent), [self.direction(row) for row in directions]

        def rows(tensors: Tensors) -> list[Tensors]:
            gradient, taken = second_pullbacks(self.call, tensors, weight, vectors)
            if point is None:  # a gradient of another shape may broadcast against a direction
                first = gradient_matrix([gradient], self.sources).values
                if self.wide is None and self._moves_inside:  # it is large, and asked for again
                    self._remembered.table(cotangent.tobytes(), self.point[None, :], lambda: first)
            return taken

        with wrong_shape_first(lambda: self.gradients(cotangent[None, :], point)):
            return self._taken(point, len(vectors), rows)

    def rounded(self, point: Array) -> Array:
        pairs = zip(self.parts, self.sources, strict=True)
        return np.concatenate(
            [source.coordinates(source.at(point[part]).astype(source.value.dtype)) for part, source in pairs]
        )

    def _taken(self, point: Array | None, count: int, rows: Callable[[Tensors], list[Tensors]]) -> Gradients:
        """The gradients from `rows`; NaN if a constraint is violated or, away from the given inputs, `rows` raises."""
        if point is not None and not self.contains(point):
            return Gradients.undefined(count, self.point.size)
        counted(count)
        try:
            taken = rows(self.tensors(self.point if point is None else point))
        except Exception:  # from the function, or its gradient
            if point is None:
                raise
            return Gradients.undefined(count, self.point.size)
        return gradient_matrix(taken, self.sources)

    def tensors(self, point: Array) -> Tensors:
        """The sources at a point, as new tensors; variables are assigned, which the caller has to undo."""
        return self.placed(self._split(point))

    def placed(self, tensors: Tensors) -> Tensors:
        """Assign the tensors of variables, and return the variables in their places."""
        placed = []
        for tensor, source in zip(tensors, self.sources, strict=True):
            if source.variable is not None:
                source.variable.assign(tensor)
            placed.append(tensor if source.variable is None else source.variable)
        return placed

    def direction(self, row: Array) -> Tensors:
        """A displacement along coordinates (n,), as tensors of the sources' shapes and dtypes."""
        pairs = zip(self.parts, self.sources, strict=True)
        return [source.tensor(source.displacement(row[part])) for part, source in pairs]

    def cotangent(self, row: Array) -> Tensors:
        """Coordinates (m,) as tensors of the results' shapes and dtypes."""
        return [
            tf.constant(from_coordinates(row[part], result.shape, result.dtype.as_numpy_dtype))
            for part, result in zip(self.result_parts, self.results, strict=True)
        ]


def tensors_of(result: Any) -> Tensors:
    """The tensors that a function returned, flat: the fields of dataclasses, and nothing for None beside tensors."""
    leaves: Tensors = tf.nest.flatten(result)
    if not any(leaf is None or _has_fields(leaf) for leaf in leaves):
        return leaves
    found: Tensors = []
    for leaf in leaves:
        found += tensors_of([getattr(leaf, each.name) for each in fields(leaf)]) if _has_fields(leaf) else [leaf]
    return [leaf for leaf in found if leaf is not None] or leaves


def _has_fields(leaf: Any) -> bool:
    return is_dataclass(leaf) and not isinstance(leaf, type) and not tf.is_tensor(leaf)


def flat(results: Sequence[Array]) -> Array:
    """The concatenated real coordinates of several arrays."""
    return np.concatenate([np.zeros(0), *map(to_coordinates, results)])
