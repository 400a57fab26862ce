"""A graph as a function of coordinates: its values at many points, and its derivatives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, coordinate_count, from_coordinates, parts_of, to_coordinates
from gradcheck.autodiff.execution import ModeUnavailableError, pullbacks, second_pullbacks
from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Gradients,
    WrongShapeError,
    gradient_matrix,
    seen,
    together_or_each,
    watched,
    wrong_shape_first,
)
from gradcheck.autodiff.sources import Source
from gradcheck.graph import Graph, coordinates_of, split_coordinates
from gradcheck.hunt.evaluation import (
    RandomPerturbation,
    TapedEvaluation,
    forward,
    gradients_at_each,
    in_batches,
    values_of,
)
from gradcheck.hunt.nonsmooth import NonsmoothNodes, crossings, nonsmooth_nodes
from gradcheck.numerics.probing import magnitudes, probe_directions
from gradcheck.numerics.sampling import FIRST, LinePoints, largest_steps
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.language import traced_anew
from gradcheck.problem.problem import Problem
from gradcheck.tracing.perturbation import perturbed_operations
from gradcheck.typing import Array

EXACT = ROUNDOFF["float64"]
UNSEEN = 4
"""Number of the finest steps that are examined for a kink or jump; an estimate needs more than these."""
FAILURES = (DerivativeRaisedError, ModeUnavailableError, tf.errors.OpError)


@dataclass(frozen=True)
class GraphProblem(Problem):
    """The output coordinates of a graph at its literal inputs, or, with a `cotangent` (m,), the number <cotangent, y>.

    `intermediates` are the values at all positions, `taped` the evaluation that they come from. The derivatives under
    test are taken in `mode`, those at many points by plain tapes; the second ones along `direction` (n,). A
    `perturbation` moves inner values.
    """

    graph: Graph
    intermediates: tuple[Array, ...]
    cotangent: Array | None = None
    direction: Array = field(default_factory=lambda: np.empty(0))
    mode: Mode = PLAIN
    taped: TapedEvaluation | None = None
    perturbation: RandomPerturbation | None = None
    inner: float = 0.0

    @staticmethod
    def evaluated(
        graph: Graph,
        cotangent: Array | None = None,
        direction: Array | None = None,
        mode: Mode = PLAIN,
        *,
        taped: bool = True,
    ) -> GraphProblem:
        """The problem of a graph under a cotangent and along a direction; fixed random ones where none are given.

        The random direction has the magnitudes of the coordinates. Unless `taped`, the values are evaluated without a
        tape: for a gradient of first order, a tf.function builds two more functions. Exceptions of operations
        propagate.
        """
        try:
            evaluation = TapedEvaluation(graph) if taped and mode == PLAIN else None
        except DerivativeRaisedError:  # a tf.function builds its gradient when it is called; the check will report it
            evaluation = None
        values = values_of(graph) if evaluation is None else evaluation.values
        if cotangent is None:
            cotangent = _probe(np.ones(coordinate_count(values[-1].shape, values[-1].dtype)))
        if direction is None:
            direction = _probe(magnitudes(coordinates_of(graph.inputs)))
        return GraphProblem(graph, values, cotangent, direction, mode, evaluation)

    @property
    def upstream(self) -> Array:
        """The cotangent, in the output's shape and dtype."""
        return from_coordinates(np.asarray(self.cotangent), self.output.shape, self.output.dtype)

    def perturbed(self, draw: int) -> GraphProblem:
        """The same function with its inner values perturbed at random."""
        # A tie depends on the values before it: perturbed, it would break, and show another side of the kink.
        before = (self.graph.ancestors(place) - {place} for place in self.nonsmooth_nodes.positions)
        exempt = frozenset().union(*before)
        unit = 2 * max(EXACT, self.inner)
        return replace(self, perturbation=RandomPerturbation(draw, exempt, unit, self.lost), taped=None)

    @cached_property
    def lost(self) -> dict[int, Array]:
        """By position, the errors of values beyond rounding: those of the algorithm, and the distance from the
        reference.

        A variance of numbers that are equal in single precision is 0, and what follows from it is arbitrary.
        """
        return {**self._lost_by_algorithms, **self._missed_by_coarse_kernels}

    @property
    def _lost_by_algorithms(self) -> dict[int, Array]:
        found = {}
        for place, node in self.graph.positions():
            loses = CATALOGUE[node.op].loses
            if loses is not None:
                arguments = (self.intermediates[parent] for parent in node.parents)
                found[place] = loses(self.intermediates[place], *arguments, **node.attributes)
        return found

    @property
    def _missed_by_coarse_kernels(self) -> dict[int, Array]:
        specs = {place: CATALOGUE[node.op] for place, node in self.graph.positions()}
        coarse = {place: spec.rtol for place, spec in specs.items() if spec.reference is not None and spec.rtol}
        if not coarse:
            return {}
        try:
            references = forward(self.graph, self.tensors(self.point[None, :]), points=True)
        except tf.errors.OpError:
            return {}
        found = {}
        with np.errstate(invalid="ignore", over="ignore"):
            for place, rtol in coarse.items():
                value = self.intermediates[place]
                missed = np.nan_to_num(np.abs(references[place][0].numpy() - value), nan=0.0, posinf=0.0)
                if np.any(beyond := missed > rtol * np.abs(value)):
                    found[place] = np.where(beyond, missed, 0.0)
        return found

    @cached_property
    def in_float64(self) -> GraphProblem | None:
        """The same problem in the inputs' own dtype, with inner values perturbed by the rounding of the mode's
        dtype."""
        narrow = self.mode.number_type
        return None if narrow is None else replace(self, mode=PLAIN, inner=ROUNDOFF[narrow])

    def rounded(self, point: Array) -> Array:
        narrow = self.mode.number_type
        return point if narrow is None else tf.cast(tf.cast(point, narrow), point.dtype).numpy()

    @property
    def output(self) -> Array:
        """The value of the graph."""
        return self.intermediates[-1]

    @cached_property
    def nonsmooth_nodes(self) -> NonsmoothNodes:
        """The nodes that are not smooth at the inputs."""
        return nonsmooth_nodes(self.graph, self.intermediates)

    @cached_property
    def blurred_nodes(self) -> tuple[int, ...]:
        """The nodes beside a kink or jump that lies within 64 times the error of their arguments."""
        draws = (RandomPerturbation(draw, lost=self.lost) for draw in range(2))
        rows = [forward(self.graph, self.tensors(None), perturbation=one) for one in draws]
        values = enumerate(self.intermediates)
        lost = [max(float(np.max(np.abs(row[i] - value), initial=0)) for row in rows) for i, value in values]
        places = nonsmooth_nodes(self.graph, self.intermediates, lost).positions
        return tuple(place for place in places if place not in self.nonsmooth_nodes.positions)

    @property
    def hidden_kinks(self) -> Array:
        """Which coordinates pass a kink or jump within the finest steps, where differences do not show it, (n,).

        A kink at a distance of 6e-13 for a coordinate may be far in units of the rounding of the node's arguments.
        """
        return self._passed(jumps=False)

    @property
    def hidden_jumps(self) -> Array:
        """Which coordinates pass a jump within these steps, (n,)."""
        return self._passed(jumps=True)

    def _passed(self, *, jumps: bool) -> Array:
        axes = np.eye(self.point.size)
        largest = largest_steps(self.point, axes, FIRST, eps=self.roundoff)
        # A staircase may look alike at both ends of one step, but not of all.
        moves = (FIRST.steps[-UNSEEN:, None, None] * largest[:, None] * axes).reshape(-1, len(axes))
        points = np.concatenate([self.point[None, :], self.point + moves, self.point - moves])
        try:
            rows = [value.numpy() for value in forward(self.graph, self.tensors(points), points=True)]
        except tf.errors.OpError:
            return np.zeros(len(axes), bool)
        return np.asarray(crossings(self.graph, rows, jumps=jumps).reshape(UNSEEN, -1).any(axis=0))

    @property
    def smooth(self) -> bool:
        """Whether all nodes are smooth."""
        return not self.nonsmooth_nodes.positions

    @cached_property
    def batched(self) -> bool:
        return in_batches(self.graph)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The graph's inputs."""
        literals = enumerate(self.graph.inputs)
        return tuple(Source(f"input {number}", literal.array()) for number, literal in literals)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        return parts_of([source.count for source in self.sources])

    @cached_property
    def point(self) -> Array:
        """The coordinates of all inputs, shape (n,)."""
        return coordinates_of(self.graph.inputs)

    @property
    def outputs(self) -> int:
        """The number of output coordinates: 1 under a cotangent."""
        return 1 if self.cotangent is not None else coordinate_count(self.output.shape, self.output.dtype)

    @property
    def empty(self) -> bool:
        """Whether there is no derivative, because the inputs or the output have no elements."""
        return not self.output.size or not self.point.size

    @cached_property
    def largest(self) -> float:
        """The largest magnitude at any position."""
        return max(float(np.max(np.abs(value), initial=0.0)) for value in self.intermediates)

    @property
    def terms(self) -> float:
        """The scale of terms that may cancel between the inputs and the output, under the cotangent if there is one."""
        return self.largest * (1.0 if self.cotangent is None else float(np.max(np.abs(self.cotangent), initial=0.0)))

    @cached_property
    def precision(self) -> float:
        """The unit roundoff of the derivatives: that of the coarsest kernel."""
        narrow = ROUNDOFF[self.mode.number_type or "float64"]
        return max([narrow, *(CATALOGUE[node.op].rtol for node in self.graph.nodes)])

    @cached_property
    def roundoff(self) -> float:
        """The unit roundoff of the values; a kernel without a float64 form does not count where it has a reference."""
        specs = [CATALOGUE[node.op] for node in self.graph.nodes]
        return max([EXACT, *(spec.rtol for spec in specs if spec.reference is None)])

    @cached_property
    def _anchored(self) -> bool:
        """Whether a reference may read row 0 of a batch, which has to be the unperturbed point."""
        return any(CATALOGUE[node.op].reference is not None for node in self.graph.nodes)

    def _with_anchor(self, points: Array) -> Array:
        return np.concatenate([self.point[None, :], points]) if self._anchored else points

    def values(self, points: Array | LinePoints) -> Array:
        """The outputs' coordinates (p, m) at points (p, n), of the references where the catalogue has them.

        NaN at points where the function raises, as for a singular linear system, or returns another size.
        """
        points = np.asarray(points[:])
        try:
            flat = self._batch(points)
        except tf.errors.OpError:
            flat = np.concatenate([self._alone(point) for point in points])
        if self.cotangent is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                flat = flat @ self.cotangent[:, None]
        return flat

    def _batch(self, points: Array) -> Array:
        rows = self._with_anchor(points)
        noisy = self.perturbation
        batch = forward(self.graph, self.tensors(rows), points=True, perturbation=noisy, recorded=False)[-1]
        return to_coordinates(batch.numpy()).reshape(len(rows), -1)[len(rows) - len(points) :]

    def _alone(self, point: Array) -> Array:
        outside = np.full((1, coordinate_count(self.output.shape, self.output.dtype)), np.nan)
        try:
            if self._anchored:
                return self._batch(point[None, :])
            row = to_coordinates(self.forward(self.tensors(point))[0].numpy())[None, :]
        except tf.errors.OpError:
            return outside
        return row if row.shape == outside.shape else outside

    def gradients(self, cotangents: Array, point: Array | None = None) -> Gradients:
        """The gradients of <w, f> for cotangents (k, m). Raises DerivativeRaisedError and WrongShapeError."""
        try:
            return gradient_matrix(self._pulled_back(cotangents, point), self.sources)
        except FAILURES:
            if self._on_trial(point):
                raise
            return Gradients.undefined(len(cotangents), self.point.size)

    def _on_trial(self, point: Array | None) -> bool:
        """Whether an exception is a finding: at the graph's own point; elsewhere the function is just not defined."""
        return point is None and self.perturbation is None

    def _pulled_back(self, cotangents: Array, point: Array | None) -> list[list[Any]]:
        rows = [[self._weight(row)] for row in cotangents]
        if self.taped is not None and point is None and len(rows) == 1:
            gradient = self.taped.gradient(*rows[0])
            if gradient is not None:
                return [gradient]
        tensors = self.tensors(point)
        with self._by_itself():
            return together_or_each(partial(pullbacks, self.mode, self.forward, tensors), rows)

    def _by_itself(self) -> AbstractContextManager[None]:
        """A context in which a derivative in another mode than the plain one leaves no traces for others to find."""
        if self.perturbation is not None and self.inner:
            return perturbed_operations(self.perturbation.seed, 2 * self.inner)
        return nullcontext() if self.mode == PLAIN else traced_anew()

    def gradients_at(self, cotangent: Array, points: Array | LinePoints, left: LeftVectors | None = None) -> Array:
        """The gradients (p, n) of <w, f> at many points in one batch, of the references where there are any.

        Raises WrongShapeError.
        """
        return seen(self._gradients_at(cotangent, np.asarray(points[:])), left)

    def _gradients_at(self, cotangent: Array, points: Array) -> Array:
        # Everything in a batch of references may depend on row 0, so that row's own gradient is left out.
        rows, weight = self._with_anchor(points), self._weight(cotangent)
        inputs = self.tensors(rows)
        at_each = gradients_at_each(self.graph) if self.perturbation is None else None
        found = None if at_each is None else at_each(inputs, weight)
        if found is not None:
            columns = [_rows(part, source, len(rows)) for part, source in zip(found, self.sources, strict=True)]
            return np.concatenate(columns, axis=1)
        began = time.process_time()
        try:
            tape, values = watched(
                lambda given: forward(self.graph, given, points=True, perturbation=self.perturbation), inputs
            )
            parts = tape.gradient(values[-1], inputs, output_gradients=tf.broadcast_to(weight, values[-1].shape))
        except tf.errors.OpError:
            # The batched form of an operation may differentiate worse than the operation itself, which is under test.
            return np.stack([self.gradients(cotangent[None, :], point).values[0] for point in points])
        columns = [_rows(part, source, len(rows)) for part, source in zip(parts, self.sources, strict=True)]
        if at_each is not None:
            at_each.took(time.process_time() - began, len(rows))
        return np.concatenate(columns, axis=1)[len(rows) - len(points) :]

    def products(self, cotangent: Array, directions: Array, point: Array | None = None) -> Gradients:
        """The second derivative of <w, f> applied to directions (k, n)."""
        return self.derivatives(cotangent, directions, point)[1]

    def derivatives(
        self, cotangent: Array, directions: Array, point: Array | None = None
    ) -> tuple[Gradients, Gradients]:
        """The gradient of <w, f> (one row), and its second derivative applied to directions (k, n)."""
        given = [self._weight(cotangent)], [self.tensors(row) for row in directions]
        try:
            with self._first_of_right_shape(cotangent, point), self._by_itself():
                gradient, products = second_pullbacks(self.mode, self.forward, self.tensors(point), *given)
            return gradient_matrix([gradient], self.sources), gradient_matrix(products, self.sources)
        except FAILURES:
            if self._on_trial(point):
                raise
            n = self.point.size
            return Gradients.undefined(1, n), Gradients.undefined(len(directions), n)

    def _first_of_right_shape(self, cotangent: Array, point: Array | None) -> AbstractContextManager[None]:
        """A context in which a second derivative raises WrongShapeError where the mode's first one does."""
        has_first = self._on_trial(point) and 1 in self.mode.orders
        return wrong_shape_first(lambda: self.gradients(cotangent[None, :])) if has_first else nullcontext()

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        """The output for tensors of the inputs, as the one item of a list."""
        return [forward(self.graph, inputs, perturbation=self.perturbation)[-1]]

    def _weight(self, row: Array) -> Any:
        """A cotangent of the problem as one of the graph's output."""
        flat = row if self.cotangent is None else row[0] * self.cotangent
        return tf.constant(from_coordinates(flat, self.output.shape, self.output.dtype))

    def tensors(self, flat: Array | None) -> list[Any]:
        """The inputs at one point (n,; None: the graph's own), or with a leading dimension at points (p, n)."""
        flat = self.point if flat is None else flat
        return [tf.constant(part) for part in split_coordinates(flat, self.graph.inputs)]


def _rows(part: Any, source: Source, count: int) -> Array:
    """The coordinates (count, source.count) of a gradient at points; raises WrongShapeError."""
    if part is None:
        return np.zeros((count, source.count))
    tensor = tf.convert_to_tensor(part)
    if tuple(tensor.shape) != (count, *source.shape):
        raise WrongShapeError(source.name, f"of shape {tuple(tensor.shape)}", f"of shape {(count, *source.shape)}")
    return to_coordinates(tensor.numpy()).reshape(count, -1)


def _probe(scale: Array) -> Array:
    drawn: Array = probe_directions(np.random.default_rng(scale.size), 1, scale)[0]
    return drawn
