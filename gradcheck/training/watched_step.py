"""A training step as a monitor runs it: without its updates, in graphs or eagerly, leaving nothing changed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.errors import sentence_of
from gradcheck.autodiff.sources import variable_of
from gradcheck.tracing.state import ChangedState, drawn_statelessly, state_restored
from gradcheck.training.side_effects import PythonState
from gradcheck.training.spot_walk import MovedVariables, SpotCheck, SpotWalk
from gradcheck.training.step_recorder import StepRecorder
from gradcheck.training.step_run import TapeGradient
from gradcheck.typing import Array

Sources = tuple[Any, ...]
"""The variables of a derivative."""

CheckedSources = tuple[Sources, SpotCheck | str]
"""The variables of a derivative, and its check, or why there is none."""


class WatchedStep:
    """A step's losses, their gradients, and losses along a line: one graph each, or, unless `traced`, eager code.

    What the step changes in Python is put back after each run, and all runs draw the same random numbers.
    """

    def __init__(self, step: Callable[[Any], Any], *, traced: bool = True) -> None:
        self._step, self._traced = step, traced
        self._sources: list[Sources] = []
        self._sources_of: dict[Any, list[Sources]] = {}
        self._graph_of_losses = _graph(self._losses)
        self._graph_of_gradients = _graph(self._gradients)
        self._sweeps: dict[tuple[int, ...], Any] = {}

    def checks(self, data: Any, directions: int) -> list[CheckedSources]:
        """Check each loss that the step differentiates with respect to variables, or say what prevents that."""
        data = tf.nest.map_structure(lambda part: None if isinstance(part, tf.experimental.Optional) else part, data)
        try:
            found = self.sources(data)
        except Exception as error:  # whatever the step raises
            return [((), raised(error))]
        if not found:
            why = (
                "at this batch train_step takes no gradient of a loss with respect to variables with a tf.GradientTape"
            )
            return [((), f"{why}; if it does at other batches, choose an `every` that reaches them")]
        checked: list[CheckedSources] = []
        for number, sources in enumerate(found):
            try:
                checked.append((sources, self.walk(data, number, sources).along(directions)))
            except Exception as error:  # from the step or from gradcheck: the training goes on
                checked.append((sources, raised(error)))
        return checked

    def sources(self, data: Any) -> list[Sources]:
        """The variables of each derivative that the step takes with this data."""
        with state_restored():
            if not self._traced:
                self._taken(data)
                return self._sources
            graph = self._graph_of_losses.get_concrete_function(data)
            return self._sources_of.setdefault(graph, self._sources)

    def walk(self, data: Any, number: int, sources: Sources) -> SpotWalk:
        """Return a SpotWalk for the `number`-th derivative, with respect to these variables."""
        held, names = tuple(map(variable_of, sources)), tuple(variable.name for variable in sources)
        if not self._traced:
            return SpotWalk(lambda: self._loss(data, number), held, names, lambda: self._gradients(data)[number])
        return SpotWalk(
            lambda: _run(self._graph_of_losses, data)[number],
            held,
            names,
            lambda: _run(self._graph_of_gradients, data)[number],
            partial(self._losses_along, number, held, data),
        )

    def _losses_along(
        self, number: int, variables: Sequence[Any], data: Any, line: Any, offsets: Array, held: ChangedState
    ) -> Array:
        """The losses of one derivative along a line; the variables of `held` are put back before each."""
        handles, values = [handle for handle, _ in held.variables], [value for _, value in held.variables]
        key = (number, *map(id, (*variables, *handles)))
        if key not in self._sweeps:
            # Handles belong to the graph: as inputs of the graph they would not be recognised as the same variables.
            self._sweeps[key] = self._sweep(number, variables, handles)
        return np.asarray(_run(self._sweeps[key], data, line, tf.constant(offsets, tf.float64), values))

    def _sweep(self, number: int, variables: Sequence[Any], handles: Sequence[Any]) -> Any:
        def swept(data: Any, line: Any, offsets: Any, values: Any) -> Any:
            around = MovedVariables.of(variables, line)

            def loss(offset: Any) -> Any:
                around.move(offset)
                for handle, value in zip(handles, values, strict=True):
                    tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                return tf.cast(self._loss(data, number), tf.float64)

            losses = tf.map_fn(loss, offsets, parallel_iterations=1)
            around.leave()
            return losses

        return _graph(swept)

    def _loss(self, data: Any, number: int) -> Any:
        return self._taken(data, losses=number + 1)[number].loss

    def _losses(self, data: Any) -> list[Any]:
        return [one.loss for one in self._taken(data)]

    def _gradients(self, data: Any) -> list[list[Any]]:
        return [list(one.gradients) for one in self._taken(data)]

    def _taken(self, data: Any, losses: int | None = None) -> list[TapeGradient]:
        """The derivatives that the step takes with respect to variables only, or the first of them."""
        with repeatable(self._step), StepRecorder().without_updates(losses) as recording:
            self._step(data)
        if losses is None:
            self._sources = [one.sources for one in recording.of_variables]
        return recording.of_variables


@contextmanager
def repeatable(step: Callable[[Any], Any]) -> Iterator[None]:
    """Let a run of a step in the block draw the same numbers as others do, and restore Python's state."""
    python = PythonState(step)
    try:
        with drawn_statelessly():
            yield
    finally:
        python.restore()


def raised(error: Exception) -> str:
    """Describe an exception and where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" (raised in {frame.filename}, line {frame.lineno})" for frame in place)
    return f"{type(error).__name__}: {sentence_of(error)}{where}"


def _graph(function: Callable[..., Any]) -> Any:
    """Convert the function to a graph, traced at its first call; other shapes of the data do not retrace it."""
    return tf.function(function, autograph=False, reduce_retracing=True)


def _run(graph: Any, *given: Any) -> Any:
    # A plain call would warn of retracing, since the monitor of each training has graphs of its own.
    return graph.get_concrete_function(*given)(*given)
