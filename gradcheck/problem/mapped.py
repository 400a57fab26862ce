"""A computation at many points: a call for each, eager, or of a graph where that pays and is trusted.

An eager call costs tens of microseconds for each operation, and what Keras adds; in a graph the same operation costs a
few, and the call of a graph a hundred, which a graph without a state is spared: it is run at many points by one call.
Nothing under test is computed here, only what it is compared with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, islice
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry

from gradcheck.autodiff.coordinates import farthest
from gradcheck.progress import counted
from gradcheck.tracing.kernels import HARMLESS_STATE
from gradcheck.tracing.perturbation import perturbing
from gradcheck.tracing.wengert_list import Compute, WengertList
from gradcheck.typing import Array

Values = list[Array] | None
"""The tensors that were computed at a point; None where the computation throws."""

RunGraph = Callable[[list[Any]], list[Any]]
"""From the tensors of a point, and shared ones, to those that are computed there."""

TRACE_SECONDS, TRACE_CALLS = 0.01, 20.0
"""A trace with the first run of its graph costs about this time and so many eager calls (measured),"""

TRACE_MOST = 1.0
"""or so many seconds: calls that take long run dear kernels rather than very many."""

GRAPH_SECONDS = 1e-5
"""A point costs at least this where many are taken by one call of a graph; ten times as much, if it is called for each.
"""

MEASURED = 3
"""So many eager calls are made before one counts: the first also makes kernels."""

COMPARED, DEARER = 3, 1.25
"""A graph is compared with so many eager calls, that of the gradient of a trusted function with one less. The trace of
a gradient takes about so many times as many of its own calls as that of its function does (measured: 0.6 to 1.7)."""

MOVED = 2.0**-8
"""How far beside a point, beside one or relatively, a list of operations is made and compared with calls."""

LISTED = 8
"""Calls are listed where there are so many of them: a listed one takes a third (measured), and three are made as well.
"""

ULPS = 64.0
"""A traced value is trusted if it differs from the eager one by at most so many roundings of the largest,"""

SPREAD = 16.0
"""or by so many times as much as eager values change when the inputs are rounded otherwise."""

BLOCK_BYTES = 2**20
"""Points are made when they are needed, so much memory at a time: new memory costs more to touch than to fill."""

TOGETHER_SECONDS = 0.05
"""One call takes as many points as would take this time one by one: Ctrl-C and progress wait no longer."""


Rows = slice | list[int]


@dataclass(frozen=True)
class Points:
    """So many points, of which those alone take memory that are asked for: one array (p, …) a tensor at some rows."""

    count: int
    at: Callable[[Rows], list[Array]]
    computed_bytes: int = 0
    """The memory of what is computed of a point, where that is more than the point's own."""

    @staticmethod
    def of(arrays: Sequence[Array], computed_bytes: int = 0) -> Points:
        """Points whose tensors are the rows of arrays."""
        return Points(len(arrays[0]), lambda rows: [array[rows] for array in arrays], computed_bytes)

    def blocks(self, start: int = 0, most: float = np.inf) -> Iterator[list[Array]]:
        """The points that are made at a time, `most` of them at most, one array (rows, …) a tensor."""
        rows = max(1, int(min(self.rows, most)))
        for first in range(start, self.count, rows):
            yield self.at(slice(first, first + rows))

    def each(self, start: int = 0) -> Iterator[tuple[Array, ...]]:
        """The tensors of one point after the other."""
        for arrays in self.blocks(start):
            yield from zip(*arrays, strict=True)

    @property
    def rows(self) -> int:
        """How many points are made at a time."""
        return max(1, BLOCK_BYTES // self.point_bytes) if self.count else 1

    @cached_property
    def point_bytes(self) -> int:
        """The memory of one point."""
        return max(1, self.computed_bytes, sum(array.nbytes for array in self.at(slice(0, 1))))


class Mapped:
    """`compute`, from a list of one point's tensors and `shared` ones to a list of tensors, taken at many points.

    Eager calls come first and are measured, unless the processor time of one is known (`seconds`), or what the trace of
    its `function` took tells what that of a gradient will take. Where those to be made, at least `expected` in all,
    cost more than a trace, or those made as well more than two, `compute` is traced (without autograph), if it can be,
    and if its values at the first, middle and last point are those of eager calls. Python code that looks at values,
    NumPy, hidden state and variables that are made inside therefore mean eager calls, as does an exception at any
    point. What promises to run the same operations at all points (`straight`), linear in what is shared, is no graph
    but the list of them.
    """

    def __init__(
        self,
        compute: Compute,
        precision: float,
        expected: int = 0,
        seconds: float | None = None,
        function: Mapped | None = None,
        *,
        straight: bool = False,
    ) -> None:
        self._compute, self._precision, self._expected, self._function = compute, precision, expected, function
        self._straight = straight
        self._trace_calls: float | None = None
        self._along: Mapped | None = None
        self._calls = 0 if seconds is None else MEASURED
        self._seconds = float("inf") if seconds is None else seconds
        self._graph: RunGraph | None = None
        self._tried = self._trusted = False

    def along(self, count: int) -> Mapped:
        """The same for points x + t * direction, given by t alone: `count` tensors of x, and of direction, are shared.

        An array that becomes a tensor is copied, once or twice: what moves a million coordinates in a graph costs less.
        """
        if self._along is None:

            def moved(point: list[Any], *shared: Any) -> list[Any]:
                (t,), start, direction = point, shared[:count], shared[count : 2 * count]
                # In the order of LinePoints, so that it rounds as they do.
                tensors = [tf.add(move * t, x) for x, move in zip(start, direction, strict=True)]
                return self._compute(tensors, *shared[2 * count :])

            seconds = self._seconds if self._calls >= MEASURED else None
            function = self._function and self._function.along(count)
            self._along = Mapped(moved, self._precision, self._expected, seconds, function)
        return self._along

    def __call__(self, points: Sequence[Array], shared: Sequence[Any] = ()) -> list[Values]:
        """The values at each point, whose tensors are the rows of `points`: one array (p, …) a tensor."""
        values = dict(self.each(Points.of(points), shared))
        return [values[row] for row in range(len(points[0]))]

    def each(self, points: Points, shared: Sequence[Any] = ()) -> Iterator[tuple[int, Values]]:
        """The same by rows, of points that are made when they are needed; what comes a second time, later, counts."""
        if perturbing() or not points.count:
            yield from enumerate(self._eagerly(points.each(), shared))
            return
        early, known = 0, {}
        if self._straight and not self._tried and points.count >= LISTED:
            self._tried = True
            self._list(points, shared)
        if not self._trusted and self._calls < MEASURED and self._trace_expected is None:
            early = min(MEASURED, points.count)
            yield from enumerate(self._eagerly(islice(points.each(), early), shared))
        if not self._tried and points.count > early and self._pays(points.count - early):
            self._tried = True
            known = self._trace(points, early, shared)
        if self._trusted:
            try:
                # All of them: where a graph rounds otherwise, a point that was called would stand alone.
                yield from enumerate(self._traced(points, shared, known))
                return
            except Exception:  # what throws at any point is called at all
                self._trusted, early = False, 0
        yield from enumerate(self._eagerly(points.each(early), shared), start=early)

    @property
    def _trace_expected(self) -> float | None:
        """How many eager calls a trace will take, where that of the function is known."""
        of_function = None if self._function is None else self._function._trace_calls
        return of_function and DEARER * of_function

    def _pays(self, count: int) -> bool:
        # Doubts ask for as many again.
        runs = max(count + min(self._calls, count), self._expected - self._calls, (self._calls + count) / 2)
        if self._trace_expected is not None:
            return runs > COMPARED + self._trace_expected
        saved = runs * (self._seconds - GRAPH_SECONDS)
        return saved > TRACE_SECONDS + min(TRACE_CALLS * self._seconds, TRACE_MOST)

    def _eagerly(self, points: Iterable[Sequence[Array]], shared: Sequence[Any]) -> Iterator[Values]:
        for point in points:
            counted(1)
            began, values = time.process_time(), None
            try:
                tensors = self._compute(list(map(tf.constant, point)), *shared)
                values = list(map(as_array, tensors))
            except Exception:  # whatever it throws, there is no value here
                pass
            self._calls += 1
            self._seconds = min(self._seconds, time.process_time() - began)
            yield values

    def _trace(self, points: Points, start: int, shared: Sequence[Any]) -> dict[int, Values]:
        """Make the graph, unless that cannot be done or it does not give the eager values from a row on.

        Its values at the rows that were compared.
        """
        rows = [start, (start + points.count) // 2, points.count - 1]
        if self._function is not None and self._function._trusted:  # and so is most of its gradient
            rows = [start, points.count - 1]
        few = points.at(rows)
        began = time.process_time()
        try:
            values = list(self._traced(Points.of(few), shared))
        except Exception:  # what cannot be traced is called
            values = []
        seconds = time.process_time() - began
        self._trusted = self._same(values, few, shared)
        self._trace_calls = seconds / self._seconds if self._trusted else None
        return dict(zip(rows, values, strict=False))

    def _list(self, points: Points, shared: Sequence[Any]) -> None:
        """Make the list of operations, unless they cannot be listed or do something else beside two other points."""
        few, signs = points.at([0, points.count // 2, points.count - 1]), np.random.default_rng(0)
        # Points may have coordinates in common, beside them there are none: where one is read unseen, it shows.
        moves = [MOVED * signs.choice([-1.0, 1.0], size=array.shape) * (1 + np.abs(array)) for array in few]
        beside = [(array + move).astype(array.dtype) for array, move in zip(few, moves, strict=True)]
        (first, *_), (_, *others) = (
            [list(map(tf.constant, one)) for one in zip(*rows, strict=True)] for rows in (few, beside)
        )
        counted(COMPARED)
        twice = [one + one for one in shared]
        with suppress(Exception):  # what cannot be listed is called, or traced
            listed = WengertList.of(
                lambda *given: self._compute(list(given[: len(first)]), *given[len(first) :]),
                [*first, *shared],
                *([*other, *twice] for other in others),
            )
            self._graph, self._trusted = lambda tensors: listed(*tensors), True

    def _same(self, traced: Sequence[Values], points: Sequence[Array], shared: Sequence[Any]) -> bool:
        """Whether traced values are the eager ones but for rounding, which calls beside the points show if need be."""
        # These calls come after the trace: what `compute` keeps for itself is no symbolic tensor then.
        eager = list(self._eagerly(Points.of(points).each(), shared))
        apart = _apart(traced, eager)
        if apart <= ULPS * self._precision:
            return True
        signs = np.random.default_rng(0)
        moves = [1 + 2 * self._precision * signs.choice([-1.0, 1.0], size=array.shape) for array in points]
        beside = [(array * move).astype(array.dtype) for array, move in zip(points, moves, strict=True)]
        moved = list(self._eagerly(Points.of(beside).each(), shared))
        return bool(apart <= min(SPREAD * _apart(moved, eager), self._precision**0.5))

    def _traced(
        self, points: Points, shared: Sequence[Any], known: Mapping[int, Values] = MappingProxyType({})
    ) -> Iterator[Values]:
        """The graph's values, unless they are known by their rows."""
        rows = count()
        for arrays in points.blocks(most=TOGETHER_SECONDS / max(self._seconds, GRAPH_SECONDS)):
            # Not around the loop: a generator that is left alone ends later than its caller.
            with graphs_as_traced():
                tensors = list(map(tf.constant, arrays))
                graph = self._graph = self._graph or self._graph_of([tensor[0] for tensor in tensors], shared)
                if isinstance(graph, TracedGraph) and graph.together:
                    counted(len(arrays[0]))
                    taken = map(as_array, graph.rows(tensors, shared))
                    values: list[Values] = [list(map(np.asarray, row)) for row in zip(*taken, strict=True)]
                else:
                    # One array becomes a tensor in no less time than ten tensors are taken out of another.
                    block = zip(*map(tf.unstack, tensors), strict=True)
                    values = [
                        known[row] if row in known else _run(graph, point, shared)
                        for point, row in zip(block, rows, strict=False)
                    ]
            yield from values

    def _graph_of(self, point: Sequence[Any], shared: Sequence[Any]) -> RunGraph:
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in (*point, *shared)]
        return graph_of(lambda *given: self._compute(list(given[: len(point)]), *given[len(point) :]), specs)


def _run(graph: RunGraph, point: Sequence[Any], shared: Sequence[Any]) -> Values:
    counted(1)
    return list(map(as_array, graph([*point, *shared])))


@dataclass(frozen=True)
class TracedGraph:
    """A traced function, to be run at a point, or, where its runs do not touch one another, at many `together`."""

    traced: Any

    def __call__(self, tensors: list[Any]) -> list[Any]:
        """The outputs for a point's tensors and the shared ones."""
        # A plain call binds its arguments to the signature first, which takes longer than a small graph runs.
        return list(self.traced._call_flat(tensors, self.traced.captured_inputs))

    def rows(self, points: Sequence[Any], shared: Sequence[Any]) -> Sequence[Any]:
        """The same stacked, for the rows of the points' tensors and what all of them share."""
        outputs = self.traced.outputs
        found: Sequence[Any] = tf.raw_ops.MapDefun(
            arguments=points,
            captured_inputs=[*shared, *self.traced.captured_inputs],
            output_types=[output.dtype for output in outputs],
            output_shapes=[output.shape for output in outputs],
            f=self.traced,
        )
        return found

    @cached_property
    def together(self) -> bool:
        """Whether MapDefun may run it: it has no state, outputs of the same shapes everywhere, and no GPU."""
        if context.num_gpus() or not all(output.shape.is_fully_defined() for output in self.traced.outputs):
            return False
        graph = self.traced.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        return not any(map(_changes_something, {node.op for node in nodes}))


def _changes_something(operation: str) -> bool:
    definition = op_def_registry.get(operation)  # None: a function, whose nodes are looked at themselves
    return definition is not None and definition.is_stateful and operation not in HARMLESS_STATE


def graph_of(compute: Compute, specs: Sequence[tf.TensorSpec]) -> TracedGraph:
    """The graph of a computation from tensors with these specs."""
    # get_concrete_function traces without TensorFlow's warning of frequent retracing.
    return TracedGraph(tf.function(compute, autograph=False).get_concrete_function(*specs))


@contextmanager
def graphs_as_traced() -> Iterator[None]:
    """Run graphs without Grappler, which takes longer than their trace and rounds otherwise than the eager kernels."""
    option = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(option, False)
    try:  # around the change as well: Ctrl-C may come right behind it
        tf.config.optimizer.set_experimental_options({option: True})
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: before})


def _apart(ones: Sequence[Values], others: Sequence[Values]) -> float:
    """The largest difference beside the largest value at its point; infinite where a value is missing."""
    worst = 0.0 if len(ones) == len(others) else np.inf
    for one, other in zip(ones, others, strict=False):
        if one is None or other is None:
            return np.inf
        error = max((farthest(*pair) for pair in zip(one, other, strict=True)), default=0.0)
        if error > 0:
            largest = max(np.max(np.abs(array), where=np.isfinite(array), initial=0.0) for array in other)
            worst = max(worst, float(error / largest) if largest > 0 else np.inf)
    return worst


def as_array(tensor: Any) -> Array:
    """A tensor, or what stands for one, as an array."""
    # Where it can, without a copy: new memory costs more to touch than to fill.
    return np.asarray(tensor.numpy() if tf.is_tensor(tensor) and tensor.dtype == tf.bfloat16 else tensor)
