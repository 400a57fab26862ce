"""A computation at many points: one call each, eager, or of a graph where that pays and is trusted.

An eager call costs tens of microseconds per operation, and what Keras adds. In a graph an operation costs a few, and
each call of the graph a hundred; a graph without state avoids that, since one call runs it at many points. Nothing
under test is computed here, only what it is compared with.
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
"""The tensors that were computed at a point; None where the computation raised."""

RunGraph = Callable[[list[Any]], list[Any]]
"""Maps the tensors of a point, and shared ones, to the tensors that are computed there."""

TRACE_SECONDS, TRACE_CALLS = 0.01, 20.0
"""A trace and the first run of its graph take TRACE_SECONDS seconds and the time of TRACE_CALLS calls (measured)."""

TRACE_MOST = 1.0
"""Upper limit, in seconds, of the time of those calls: slow ones run expensive kernels rather than very many."""

GRAPH_SECONDS = 1e-5
"""Least seconds per point where one call of a graph takes many points; ten times as much with a call for each point."""

MEASURED = 3
"""Number of eager calls before their time is used: the first one also creates kernels."""

COMPARED, TRACE_RATIO = 3, 1.25
"""A graph is compared with COMPARED eager calls, the gradient of a trusted function with one fewer. Tracing a gradient
takes about TRACE_RATIO times as many of its own calls as tracing its function does (measured: 0.6 to 1.7)."""

MOVED = 2.0**-8
"""Offset from a point, absolute and relative, at which a list of operations is made and compared with calls."""

LISTED = 8
"""Least number of calls to be listed: a listed call takes a third of the time (measured), but three extra are made."""

ULPS = 64.0
"""A traced value is trusted if it differs from the eager one by at most ULPS roundings of the largest value."""

SPREAD = 16.0
"""A traced value is also trusted if it differs by at most SPREAD times the effect of moving the inputs by one ulp."""

BLOCK_BYTES = 2**20
"""Points are made in blocks of this many bytes, when they are needed: new memory costs more to touch than to fill."""

KEPT_BYTES = 2**14
"""Where a computation cannot be traced, its values are kept at points of up to this many bytes."""

TOGETHER_SECONDS = 0.05
"""One call takes as many points as would take these seconds one by one, so that Ctrl-C and progress wait no longer."""


Rows = slice | list[int]


@dataclass(frozen=True)
class Points:
    """`count` points, made only when they are asked for: `at(rows)` gives one array (p, …) per tensor."""

    count: int
    at: Callable[[Rows], list[Array]]
    computed_bytes: int = 0
    """The bytes computed for a point, where these are more than the point's own."""

    @staticmethod
    def of(arrays: Sequence[Array], computed_bytes: int = 0) -> Points:
        """Points whose tensors are the rows of arrays."""
        return Points(len(arrays[0]), lambda rows: [array[rows] for array in arrays], computed_bytes)

    def blocks(self, start: int = 0, most: float = np.inf) -> Iterator[list[Array]]:
        """Yield the points in blocks of at most `most` points, one array (rows, …) per tensor."""
        rows = max(1, int(min(self.rows, most)))
        for first in range(start, self.count, rows):
            yield self.at(slice(first, first + rows))

    def each(self, start: int = 0) -> Iterator[tuple[Array, ...]]:
        """Yield the tensors of one point after the other."""
        for arrays in self.blocks(start):
            yield from zip(*arrays, strict=True)

    @property
    def rows(self) -> int:
        """The number of points that are made at a time."""
        return max(1, BLOCK_BYTES // self.point_bytes) if self.count else 1

    @cached_property
    def point_bytes(self) -> int:
        """The bytes of one point."""
        return max(1, self.computed_bytes, sum(array.nbytes for array in self.at(slice(0, 1))))


class Mapped:
    """`compute`, from a list of one point's tensors and `shared` ones to a list of tensors, mapped over many points.

    Eager calls come first and are timed, unless the processor time of one is known (`seconds`), or the trace of its
    `function` shows how long that of a gradient will take. If the remaining calls (of at least `expected` in all) cost
    more than a trace, or those already made more than two, `compute` is traced (without autograph), provided that it
    can be, and that its values at the first, middle and last point are those of eager calls. Python code that looks at
    values, NumPy, hidden state and variables that are created inside therefore mean eager calls, and so does an
    exception at any point. A computation that promises to run the same operations at all points (`straight`), linear in
    the shared tensors, becomes a list of operations instead of a graph.
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
        self._kept: dict[bytes, Values] = {}

    @property
    def untraceable(self) -> bool:
        """Whether a trace was tried, and is not trusted: each value takes a call."""
        return self._tried and not self._trusted

    def keep(self, point: Sequence[Array], values: Values) -> None:
        """Keep values that are known, so that they need no call where each takes one."""
        self._kept[_name_of(point)] = values

    def try_to_trace(self, points: Points) -> None:
        """Trace it whether or not that pays, unless that was tried before."""
        if not self._tried:
            self._tried = True
            self._trace(points, 0, ())

    def along(self, count: int) -> Mapped:
        """The same for points x + t * direction, given by t alone: `count` tensors each of x and direction are shared.

        Converting an array to a tensor copies it, once or twice; moving a million coordinates in a graph costs less.
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
        """Return the values at each point; `points` holds one array (p, …) per tensor."""
        values = dict(self.each(Points.of(points), shared))
        return [values[row] for row in range(len(points[0]))]

    def each(self, points: Points, shared: Sequence[Any] = ()) -> Iterator[tuple[int, Values]]:
        """Yield (row, values) lazily; a later value replaces an earlier one."""
        if perturbing() or not points.count:
            yield from enumerate(self._eagerly(points.each(), shared))
            return
        early, known = 0, {}
        if self._straight and not self._tried and points.count >= LISTED:
            self._tried = True
            self._list(points, shared)
        if not self._tried and self._calls < MEASURED and self._trace_expected is None:
            early = min(MEASURED, points.count)
            yield from enumerate(self._eagerly(islice(points.each(), early), shared))
        if not self._tried and points.count > early and self._pays(points.count - early):
            self._tried = True
            known = self._trace(points, early, shared)
        if self._trusted:
            try:
                # At all points: a graph may round differently, so that a point that was called would stand out.
                yield from enumerate(self._traced(points, shared, known))
                return
            except Exception:  # what raises at any point is called eagerly
                self._trusted, early = False, 0
        left = points.each(early)
        if self.untraceable and not shared and points.point_bytes <= KEPT_BYTES:
            yield from enumerate(map(self._once, left), start=early)
        else:
            yield from enumerate(self._eagerly(left, shared), start=early)

    def _once(self, point: Sequence[Array]) -> Values:
        """The values at a point, from memory or from a call."""
        name = _name_of(point)
        if name not in self._kept:
            (self._kept[name],) = self._eagerly([point], ())
        return self._kept[name]

    @property
    def _trace_expected(self) -> float | None:
        """The number of eager calls that a trace will take, if that of the function is known."""
        of_function = None if self._function is None else self._function._trace_calls
        return of_function and TRACE_RATIO * of_function

    def _pays(self, count: int) -> bool:
        # A doubt takes as many calls again.
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
            except Exception:  # whatever it raises, there is no value here
                pass
            self._calls += 1
            self._seconds = min(self._seconds, time.process_time() - began)
            yield values

    def _trace(self, points: Points, start: int, shared: Sequence[Any]) -> dict[int, Values]:
        """Trace the graph; trust it if its values at some rows from `start` on are the eager ones.

        Returns its values at the rows that were compared.
        """
        rows = [start, (start + points.count) // 2, points.count - 1]
        if self._function is not None and self._function._trusted:  # and so is most of its gradient
            rows = [start, points.count - 1]
        few = points.at(rows)
        began = time.process_time()
        try:
            values = list(self._traced(Points.of(few), shared))
        except Exception:  # what cannot be traced is called eagerly, once more so that it keeps no symbolic tensor
            self._same([], points.at(rows[:1]), shared)
            return {}
        seconds = time.process_time() - began
        self._trusted = self._same(values, few, shared)
        # A clock that is coarse, as in some virtual machines, may not have moved during a call.
        self._trace_calls = seconds / (self._seconds or GRAPH_SECONDS) if self._trusted else None
        return dict(zip(rows, values, strict=False))

    def _list(self, points: Points, shared: Sequence[Any]) -> None:
        """List the operations, unless they cannot be listed or compute something else near two other points."""
        few, signs = points.at([0, points.count // 2, points.count - 1]), np.random.default_rng(0)
        # Perturb the points, so that a coordinate captured as a constant is detected.
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
        """Whether traced values equal eager ones up to rounding, measured by calls near the points if need be."""
        # These calls come after the trace, so that `compute` keeps no symbolic tensor for itself.
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
        """Yield the graph's values, except at rows whose values are `known`."""
        rows = count()
        for arrays in points.blocks(most=TOGETHER_SECONDS / max(self._seconds, GRAPH_SECONDS)):
            # Not around the loop: a generator that is abandoned ends later than its caller.
            with graphs_as_traced():
                tensors = list(map(tf.constant, arrays))
                graph = self._graph = self._graph or self._graph_of([tensor[0] for tensor in tensors], shared)
                if isinstance(graph, TracedGraph) and graph.together:
                    counted(len(arrays[0]))
                    taken = map(as_array, graph.rows(tensors, shared))
                    values: list[Values] = [list(map(np.asarray, row)) for row in zip(*taken, strict=True)]
                else:
                    # Converting one array to a tensor takes as long as taking ten tensors out of another.
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
    """A traced function that runs at one point, or at many `together` where its runs do not affect one another."""

    traced: Any

    def __call__(self, tensors: list[Any]) -> list[Any]:
        """Return the outputs for a point's tensors and the shared ones."""
        # A plain call first binds its arguments to the signature, which takes longer than running a small graph.
        return list(self.traced._call_flat(tensors, self.traced.captured_inputs))

    def rows(self, points: Sequence[Any], shared: Sequence[Any]) -> Sequence[Any]:
        """Return the stacked outputs for the rows of the points' tensors; the other tensors are shared."""
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
        """Whether MapDefun may run it: it has no state, outputs of the same shapes everywhere, and there is no GPU."""
        if context.num_gpus() or not all(output.shape.is_fully_defined() for output in self.traced.outputs):
            return False
        graph = self.traced.graph.as_graph_def()
        nodes = chain(graph.node, *(function.node_def for function in graph.library.function))
        return not any(map(_changes_something, {node.op for node in nodes}))


def _changes_something(operation: str) -> bool:
    definition = op_def_registry.get(operation)  # None for a function, whose own nodes are checked
    return definition is not None and definition.is_stateful and operation not in HARMLESS_STATE


def graph_of(compute: Compute, specs: Sequence[tf.TensorSpec]) -> TracedGraph:
    """Trace a computation from tensors with these specs."""
    # get_concrete_function traces without TensorFlow's warning of frequent retracing.
    return TracedGraph(tf.function(compute, autograph=False).get_concrete_function(*specs))


@contextmanager
def graphs_as_traced() -> Iterator[None]:
    """Run graphs without Grappler, which takes longer than tracing them and rounds differently from eager kernels."""
    option = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(option, False)
    try:  # includes the change: Ctrl-C may come right after it
        tf.config.optimizer.set_experimental_options({option: True})
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: before})


def _name_of(point: Sequence[Array]) -> bytes:
    return b"".join(array.tobytes() for array in point)


def _apart(ones: Sequence[Values], others: Sequence[Values]) -> float:
    """The largest difference relative to the largest value at its point; infinite where a value is missing."""
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
    """Return a tensor, or an array-like, as an array."""
    # Without a copy if possible: new memory costs more to touch than to fill. NumPy refuses scalar tensors of bfloat16.
    return np.asarray(tensor.numpy() if tf.is_tensor(tensor) and tensor.dtype == tf.bfloat16 else tensor)
