"""A Keras callback that holds the gradient of the current batch against differences of its loss now and then."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.summary.tb_summary import TBNotInstalledError

from gradcheck.autodiff.sources import paths, variable_of
from gradcheck.autodiff.state import ChangedState, state_restored
from gradcheck.comparison.failure import FAILURES, GradientNonFinite, MismatchWarning
from gradcheck.explain import explain
from gradcheck.explanation.recorder import recorded
from gradcheck.explanation.unconnected import tell_unconnected
from gradcheck.result import Result, Verdict
from gradcheck.spot_check import SpotWalk
from gradcheck.training.moved_variables import MovedVariables, not_finite
from gradcheck.training.spot_result import SpotCheck, refuse_directions
from gradcheck.training.step_recorder import StepRecorder, TapeGradient

Array = np.ndarray[Any, Any]

ACTIONS = ("warn", "raise")
ERROR, RESOLUTION = "gradient_error", "gradient_resolution"
"""What the logs call the largest error and the resolution of the spot checks of an epoch."""


class GradientMonitor(keras.callbacks.Callback):  # type: ignore[misc]
    """Holds the gradient of the current batch, at the current weights, against differences of its loss.

    At the first batch and at each `every`-th after it, the derivatives that the model's train_step takes of its loss
    with respect to variables are compared along a few `directions`, as by `gradcheck.spot_check`, in a graph that is
    traced once. The largest error of an epoch and its resolution, relative to the sum of the sizes of gradient times
    move, stand in the logs of its end as `gradient_error` and `gradient_resolution`, for the history and for callbacks
    that come later, TensorBoard included: NaN for an epoch without a check, or where no gradient was finite. Those of
    each check go to the default summary writer if there is one.

    What disagrees along a direction is looked at by `gradcheck.explain`, which takes longer. A gradient that it calls
    wrong, or that is not finite, raises the GradientMismatch of its kind (`action="raise"`) or warns with a
    MismatchWarning (`"warn"`), once; the message names the operation and the line, or says that NaN or infinity stands
    in the batch or in the weights. Weights without a gradient that do not change the loss are named once, in an
    UnconnectedWarning. Dropout and seeds are held fixed for a check; weights, moving averages, seeds,
    metrics and the order of the data are left as they were.

    Raises ValueError for arguments that make no sense, and, as the training begins, for a model that is trained on more
    than one replica or that takes no gradient of a loss with a tape; TypeError for complex weights.

    >>> import keras
    >>> import numpy as np
    >>> model = keras.Sequential([keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> x, y = np.linspace(-1.0, 1.0, 32).reshape(16, 2), np.ones(16)
    >>> history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[GradientMonitor(every=3)])
    >>> max(history.history["gradient_error"]) < 1e-3
    True
    """

    def __init__(self, every: int = 1000, *, directions: int = 2, action: str = "warn") -> None:
        super().__init__()
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise ValueError(f"every was {every!r}; a number of batches, at least 1, was expected")
        if action not in ACTIONS:
            raise ValueError(f"action was {action!r}; expected one of {', '.join(map(repr, ACTIONS))}")
        refuse_directions(directions)
        self.every, self.directions, self.action = every, directions, action
        self.checks: list[SpotCheck] = []
        """All spot checks so far."""
        self._graphs: _StepGraphs | None = None
        self._batches = self._due = self._epoch_began = 0
        self._told = self._unconnected_told = False

    def on_train_begin(self, logs: Any = None) -> None:
        replicas = self.model.distribute_strategy.num_replicas_in_sync
        if replicas > 1:
            raise ValueError(
                f"the model is trained on {replicas} replicas; GradientMonitor sees the gradient of one: leave it out, "
                "or train with it on one device for a while"
            )
        self._graphs = _StepGraphs(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_began = len(self.checks)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        count = self.model.steps_per_execution
        if self._due < self._batches + count:
            self._due += self.every * -(-(self._batches + count - self._due) // self.every)
            train = self.model.train_function

            def checked(iterator: Any) -> Any:
                self.model.train_function = train
                return train(self._looked_at(iterator, count))

            self.model.train_function = checked
        self._batches += count

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        seen = [check for check in self.checks[self._epoch_began :] if np.isfinite(check.error)]
        if logs is not None:
            logs[ERROR] = max((check.error for check in seen), default=np.nan)
            logs[RESOLUTION] = max((check.resolution for check in seen), default=np.nan)

    def _looked_at(self, iterator: Any, count: int) -> Any:
        """Check the next batch; returns an iterator that gives it again, and those that the same call takes then."""
        held: list[Any] = []
        again = tf.data.Dataset.from_generator(
            lambda: itertools.chain(held, itertools.islice(iterator, count - 1)), output_signature=iterator.element_spec
        )
        try:
            held.append(next(iterator))
        except StopIteration:
            return iterator
        self._check(held[0])
        return iter(again)

    def _check(self, data: Any) -> None:
        assert self._graphs is not None
        position = self._batches - self.model.steps_per_execution
        for walk in self._graphs.walks(data):
            found = walk.along(self.directions)
            if found.result.unconnected and not self._unconnected_told:
                self._unconnected_told = True
                found = found.noted(walk.named, partial(recorded, self.model.train_step, (data,)))
                tell_unconnected(f"batch {position}", found.result, "warn", "warn", stacklevel=2)
            self.checks.append(found)
            if tf.summary.should_record_summaries():
                with suppress(TBNotInstalledError):
                    tf.summary.scalar(ERROR, found.error, step=position)
                    tf.summary.scalar(RESOLUTION, found.resolution, step=position)
            suspected = found.verdict == Verdict.MISMATCH or not found.finite
            if suspected and not self._told:
                explained = explain(self.model.train_step, data)
                known = any(source.origin is not None for source in explained.sources)
                if explained.verdict == Verdict.MISMATCH or known or not found.finite:
                    weights = [*self.model.weights, *walk.variables]
                    told = [_difference(found)] if found.finite else _without_end(data, weights, known)
                    self._tell(position, told, explained)

    def _tell(self, position: int, told: Sequence[str], explained: Result) -> None:
        self._told = True
        message = "\n".join([f"at batch {position} of the training the gradient {told[0]}", *told[1:], str(explained)])
        if self.action == "raise":
            kinds = [source.finding.kind for source in explained.sources if source.finding is not None]
            failure = FAILURES[kinds[0]] if kinds else GradientNonFinite
            raise failure(message, explained)
        warnings.warn(message, MismatchWarning, stacklevel=2)


def _difference(found: SpotCheck) -> str:
    size, noticed = f"{found.error:.1e}", f"{found.resolution:.1e}"
    return f"differs from the loss by {size}, where an error of {noticed} would have been noticed"


def _without_end(data: Any, weights: Sequence[Any], known: bool) -> list[str]:
    """That a gradient is not finite, and where that comes from; `known` is an operation that makes it so."""
    lines = ["is not finite"]
    if numbers := _endless_numbers(data):
        lines.append(
            f"NaN or infinity stands in the batch that train_step is given: {', '.join(numbers)}; leave such rows out "
            "of the data, or replace these numbers"
        )
    if spoilt := not_finite(weights):
        lines.append(
            f"{spoilt}, from an earlier update, or as they were loaded: begin again from finite weights, with "
            "GradientMonitor(every=1), which tells the first batch whose gradient is not finite"
        )
    if not (known or numbers or spoilt):
        lines.append(
            "the batch and the weights are finite, and no single operation is known to make NaN or infinity of finite "
            "numbers: look for a constant that is not finite in the model or its loss"
        )
    return lines


def _endless_numbers(data: Any) -> list[str]:
    """Where NaN or infinity stands in the data of a batch, such as "data[0] (1 of 64 numbers)"."""
    found = []
    for name, leaf in paths("data", data):
        parts = [part for part in tf.nest.flatten(leaf, expand_composites=True) if tf.is_tensor(part)]
        floating = [part for part in parts if part.dtype.is_floating]
        count = sum(int(tf.math.count_nonzero(~tf.math.is_finite(part))) for part in floating)
        if count:
            found.append(f"{name} ({count} of {sum(int(tf.size(part)) for part in floating)} numbers)")
    return found


class _StepGraphs:
    """A model's train_step without its updates, as graphs: its losses, their gradients, and losses along a line."""

    def __init__(self, model: Any) -> None:
        self._step, self._runs_eagerly, self._traced = model.train_step, model.run_eagerly, True
        self.variables: list[tuple[Any, ...]] = []
        """The variables of each derivative, once a graph was traced."""
        self.losses = _graph(self._losses)
        self.gradients = _graph(self._gradients)
        self._sweeps: dict[tuple[int, ...], Callable[..., Any]] = {}

    def walks(self, data: Any) -> list[SpotWalk]:
        """One for each loss that the step differentiates with respect to variables."""
        data = tf.nest.map_structure(lambda part: None if isinstance(part, tf.experimental.Optional) else part, data)
        if not self.variables:
            self._find_variables(data)
        if not self.variables:
            raise ValueError(
                "the model's train_step takes no gradient of a loss with respect to variables by a tf.GradientTape: "
                "there is nothing for GradientMonitor to hold against it"
            )
        return [self._walk(data, number) for number in range(len(self.variables))]

    def _find_variables(self, data: Any) -> None:
        """Run the step, traced; eagerly where the model does and no graph of it can be made."""
        try:
            with state_restored():
                self.losses(data)
        except Exception:  # whatever the step raises of tensors without values
            if not self._runs_eagerly:
                raise
            self._traced, self.losses, self.gradients = False, self._losses, self._gradients
            with state_restored():
                self.losses(data)

    def _walk(self, data: Any, number: int) -> SpotWalk:
        variables = self.variables[number]
        held, names = tuple(map(variable_of, variables)), tuple(variable.name for variable in variables)
        loss, gradient = lambda: self.losses(data)[number], lambda: self.gradients(data)[number]
        if self._traced:
            return _TracedWalk(loss, held, names, gradient, self, data, number)
        return SpotWalk(loss, held, names, gradient)

    def sweep(self, number: int, handles: Sequence[Any]) -> Callable[..., Any]:
        """The graph that takes the losses of one derivative along a line.

        It takes the data, the line, the offsets, and what the variables of `handles` are given before each. They belong
        to the graph: those that it were given would not be known for the same variables.
        """
        key = (number, *map(id, handles))
        if key in self._sweeps:
            return self._sweeps[key]
        variables = [variable_of(variable) for variable in self.variables[number]]

        def swept(data: Any, line: Any, offsets: Any, values: Any) -> Any:
            around = MovedVariables.of(variables, line)

            def loss(offset: Any) -> Any:
                around.move(offset)
                for handle, value in zip(handles, values, strict=True):
                    tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                return tf.cast(self._taken(data, losses=number + 1)[number].loss, tf.float64)

            losses = tf.map_fn(loss, offsets, parallel_iterations=1)
            around.leave()
            return losses

        self._sweeps[key] = _graph(swept)
        return self._sweeps[key]

    def _losses(self, data: Any) -> list[Any]:
        return [one.loss for one in self._all(data)]

    def _gradients(self, data: Any) -> list[list[Any]]:
        return [list(one.gradients) for one in self._all(data)]

    def _all(self, data: Any) -> list[TapeGradient]:
        taken = self._taken(data)
        self.variables = [one.sources for one in taken]
        return taken

    def _taken(self, data: Any, losses: int | None = None) -> list[TapeGradient]:
        """The derivatives that the step takes with respect to variables alone, or the first ones."""
        with StepRecorder().without_updates(losses) as recording:
            self._step(data)
        return [one for one in recording.tape_gradients if one.of_variables]


@dataclass(frozen=True)
class _TracedWalk(SpotWalk):
    """One of the derivatives of a step, whose losses along a line are taken in one run of a graph."""

    graphs: _StepGraphs
    data: Any
    number: int

    def swept(self, line: Any, offsets: Array, held: ChangedState) -> Array:
        if held.generators:  # their state is not TensorFlow's to put back
            return super().swept(line, offsets, held)
        handles, values = [handle for handle, _ in held.variables], [value for _, value in held.variables]
        sweep = self.graphs.sweep(self.number, handles)
        return np.asarray(sweep(self.data, line, tf.constant(offsets, tf.float64), values))


def _graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a graph, traced at its first call; another shape of the data is no reason to trace again."""
    traced = tf.function(function, autograph=False, reduce_retracing=True)
    # Of a plain call TensorFlow warns that it traced before: the monitor of each training has graphs of its own.
    return lambda *given: traced.get_concrete_function(*given)(*given)
