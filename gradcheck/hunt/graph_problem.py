"""A graph as a function of coordinates, and which of its nodes are not smooth, by the catalogue's declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import coordinate_count, from_coordinates, to_coordinates
from gradcheck.autodiff.execution import ModeUnavailableError, pullbacks, second_pullbacks
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import DerivativeRaisedError, Gradients, gradient_matrix
from gradcheck.autodiff.sources import Source
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import RandomPerturbation, TapedEvaluation, forward, forward_points
from gradcheck.hunt.graph import Graph, split_coordinates
from gradcheck.hunt.opspec import Distances

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NonsmoothNodes:
    """The positions of nodes at a kink, at a singular point, and at a point where they are C1 but not C2.

    `kinked_elements` is the number of elements, of all nodes, that are at a kink.
    """

    kinks: tuple[int, ...]
    singular: tuple[int, ...]
    curvature_jumps: tuple[int, ...]
    kinked_elements: int

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of all nodes that are not smooth."""
        return (*self.kinks, *self.singular, *self.curvature_jumps)

    @property
    def smooth(self) -> bool:
        """Whether there are none."""
        return not self.positions

    @property
    def twice_differentiable(self) -> bool:
        """Whether every node has a second derivative."""
        return not self.kinks and not self.curvature_jumps

    @property
    def composed(self) -> bool:
        """Whether the derivative is a convention, at a composed kink: two kinks or more, or a singular point."""
        return len(self.kinks) > 1 or bool(self.singular)


def nonsmooth_nodes(graph: Graph, values: Sequence[Array]) -> NonsmoothNodes:
    """The nodes that are not smooth, given the values at all positions."""
    kinks, singular, curvature_jumps, elements = [], [], [], 0
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        if spec.kinks is None and spec.singular is None and spec.curvature_jumps is None:
            continue
        arguments = [values[parent] for parent in node.parents]
        if count := count_on(spec.kinks, arguments, node.attributes):
            kinks.append(position)
            elements += count
        if count_on(spec.singular, arguments, node.attributes):
            singular.append(position)
        if count_on(spec.curvature_jumps, arguments, node.attributes):
            curvature_jumps.append(position)
    return NonsmoothNodes(tuple(kinks), tuple(singular), tuple(curvature_jumps), elements)


def count_on(distances: Distances | None, values: Sequence[Array], attributes: Mapping[str, Any]) -> int:
    """How many of the declared distances are zero, within 64 units in the last place of the largest argument."""
    if distances is None or not all(value.size for value in values):
        return 0
    away = np.asarray(distances(*values, **attributes))
    scale = max(float(np.abs(value).max()) for value in values)
    return int(np.sum(away <= 64 * np.finfo(values[0].dtype).eps * scale))


ROUNDOFF = 2.0**-53
FAILURES = (DerivativeRaisedError, ModeUnavailableError, tf.errors.OpError)


@dataclass(frozen=True)
class GraphProblem(Problem):
    """The graph's output coordinates, or, with a `cotangent` (m,), the one number <cotangent, y>.

    `shape` and `dtype` are those of the graph's output, `largest` is the largest magnitude at any position, `exempt`
    are the positions that a kink rests on. A `perturbation` moves inner values. The derivatives under test are taken in
    `mode`, those at many points by plain tapes. `taped` is an evaluation that is there already.
    """

    graph: Graph
    shape: tuple[int, ...]
    dtype: str
    smooth: bool
    cotangent: Array | None = None
    largest: float = 0.0
    exempt: frozenset[int] = frozenset()
    perturbation: RandomPerturbation | None = None
    mode: Mode = PLAIN
    taped: TapedEvaluation | None = None

    def perturbed(self, draw: int) -> GraphProblem:
        """The same function, its inner values perturbed at random."""
        return replace(self, perturbation=RandomPerturbation(draw, self.exempt), taped=None)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The graph's inputs."""
        return tuple(Source(f"input {number}", literal.array()) for number, literal in enumerate(self.graph.inputs))

    @cached_property
    def point(self) -> Array:
        """The coordinates of all inputs, shape (n,)."""
        return np.concatenate([to_coordinates(source.value) for source in self.sources])

    @cached_property
    def outputs(self) -> int:
        """The number of output coordinates: 1 under a cotangent."""
        return 1 if self.cotangent is not None else coordinate_count(self.shape, self.dtype)

    @cached_property
    def precision(self) -> float:
        """The unit roundoff of the derivatives: that of the coarsest kernel."""
        return max([ROUNDOFF, *(CATALOGUE[node.op].rtol for node in self.graph.nodes)])

    @property
    def terms(self) -> float:
        """The scale of what may cancel between the inputs and the output, under the cotangent if there is one."""
        return self.largest * (1.0 if self.cotangent is None else float(np.max(np.abs(self.cotangent), initial=0.0)))

    @cached_property
    def roundoff(self) -> float:
        """The unit roundoff of the values: a kernel without a float64 form does not count where it has a reference."""
        coarse = [CATALOGUE[node.op] for node in self.graph.nodes]
        return max([ROUNDOFF, *(spec.rtol for spec in coarse if spec.reference is None)])

    @cached_property
    def anchored(self) -> bool:
        """Whether a reference may look at row 0 of a batch, which has to be the unperturbed point."""
        return any(CATALOGUE[node.op].reference is not None for node in self.graph.nodes)

    def values(self, points: Array) -> Array:
        """The outputs' coordinates (p, m) at points (p, n), of the references where the catalogue has them.

        NaN at points where the function raises, as the solution of a singular system does.
        """
        if self.anchored:
            points = np.concatenate([self.point[None, :], points])
        try:
            flat = self._batch(points)
        except tf.errors.OpError:
            flat = np.stack([self._alone(point) for point in points])
        if self.cotangent is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                flat = flat @ self.cotangent[:, None]
        return flat[1:] if self.anchored else flat

    def _batch(self, points: Array) -> Array:
        batch = forward_points(self.graph, self._split(points), perturbation=self.perturbation)[-1].numpy()
        return to_coordinates(batch).reshape(len(points), -1)

    def _alone(self, point: Array) -> Array:
        try:
            if self.anchored:
                row: Array = self._batch(np.stack([self.point, point]))[1]
                return row
            return to_coordinates(self._forward(self._split(point))[0].numpy())
        except tf.errors.OpError:
            return np.full(coordinate_count(self.shape, self.dtype), np.nan)

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The gradients of <w, f> for cotangents (k, m). Raises DerivativeRaisedError and WrongShapeError."""

        def take() -> tuple[Gradients, ...]:
            return (gradient_matrix(self._pulled_back(cotangents, point), self.sources),)

        return self._taken(take, point, (len(cotangents),))[0]

    def _taken(
        self, take: Callable[[], tuple[Gradients, ...]], point: Array | None, counts: Sequence[int]
    ) -> tuple[Gradients, ...]:
        """What `take` gives, so many rows each; undefined where it throws away from the graph's own point."""
        try:
            return take()
        except FAILURES:
            # What throws at the graph's own point is a finding; beside it, the function is not defined there.
            if point is None and self.perturbation is None:
                raise
            return tuple(Gradients.undefined(count, self.point.size) for count in counts)

    def _pulled_back(self, cotangents: Array, point: Array | None) -> list[list[Any]]:
        rows = [[self._output(row)] for row in cotangents]
        if self.taped is not None and point is None and len(rows) == 1:
            gradient = self.taped.gradient(*rows[0])
            if gradient is not None:
                return [gradient]
        tensors = self._tensors(point)
        try:
            return pullbacks(self.mode, self._forward, tensors, rows)
        except DerivativeRaisedError:
            if len(rows) == 1:
                raise
            # Some gradients, that of tf.py_function for one, can be taken only once from a persistent tape.
            return [pullbacks(self.mode, self._forward, tensors, [row])[0] for row in rows]

    def gradients_at(self, cotangent: Array, points: Array) -> Array:
        """The gradients (p, n) of <w, f> at many points in one batch, of the references where there are any."""
        weight = self._output(cotangent)
        # Everything in a batch of references may depend on row 0, so that row's own gradient is left out.
        rows = np.concatenate([self.point[None, :], points]) if self.anchored else points
        try:
            columns = self._columns_at(weight, rows)
        except tf.errors.OpError:
            # The batched form of an operation may differentiate worse than the operation itself, which is on trial.
            return np.stack([self.gradients(cotangent[None, :], point).values[0] for point in points])
        return np.concatenate(columns, axis=1)[len(rows) - len(points) :]

    def _columns_at(self, weight: Any, points: Array) -> list[Array]:
        inputs = self._split(points)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for tensor in inputs:
                tape.watch(tensor)
            batch = forward_points(self.graph, inputs, perturbation=self.perturbation)[-1]
        parts = tape.gradient(batch, inputs, output_gradients=tf.broadcast_to(weight, batch.shape))
        return [
            np.zeros((len(points), source.count)) if part is None else _rows(part, len(points))
            for part, source in zip(parts, self.sources, strict=True)
        ]

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """The second derivative of <w, f> applied to directions (k, n)."""
        return self.derivatives(cotangent, directions, point)[1]

    def derivatives(
        self, cotangent: Array, directions: Array, point: Array | None = None
    ) -> tuple[Gradients, Gradients]:
        """The gradient of <w, f> (one row), and its second derivative applied to directions (k, n)."""
        weights, tensors = [self._output(cotangent)], [self._split(row) for row in directions]

        def take() -> tuple[Gradients, ...]:
            gradient, products = second_pullbacks(self.mode, self._forward, self._tensors(point), weights, tensors)
            return gradient_matrix([gradient], self.sources), gradient_matrix(products, self.sources)

        gradient, products = self._taken(take, point, (1, len(directions)))
        return gradient, products

    def _forward(self, inputs: Sequence[Any]) -> list[Any]:
        return [forward(self.graph, inputs, perturbation=self.perturbation)[-1]]

    def _output(self, row: Array) -> Any:
        flat = row if self.cotangent is None else row[0] * self.cotangent
        return tf.constant(from_coordinates(flat, self.shape, self.dtype))

    def _tensors(self, point: Array | None) -> list[Any]:
        return self._split(self.point if point is None else point)

    def _split(self, flat: Array) -> list[Any]:
        """The inputs at one point (n,), or with a leading dimension at points (p, n)."""
        return [tf.constant(part) for part in split_coordinates(flat, self.graph.inputs)]


def _rows(part: Any, count: int) -> Array:
    return to_coordinates(tf.convert_to_tensor(part).numpy()).reshape(count, -1)
