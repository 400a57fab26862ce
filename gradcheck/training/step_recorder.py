"""Record a training step's gradients: which its tapes take, how they are clipped, which optimizer gets them.

Calls of TensorFlow's Python functions are observed, which a traced function makes only during its trace. So every
tf.function that a step calls is replaced by a copy, traced while the recorder observes, once per check. The copy runs
without XLA, which cannot call back; the user's function is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import all_shaped
from gradcheck.autodiff.sources import variable_of
from gradcheck.tracing.hooks import (
    FUNCTION_CALL,
    TAPE_ENTER,
    Wrapper,
    derivatives_observed,
    functions_run_eagerly,
    patched,
)
from gradcheck.tracing.replay import CallReached
from gradcheck.tracing.summaries import NOT_TRACED
from gradcheck.training.gradient_changes import CLIPPED_AT_ZERO
from gradcheck.training.optimizers import OptimizerCall, loss_scale, optimizer_methods, pairs_and_call, rate_variable
from gradcheck.training.step_run import StepRun, TapeGradient
from gradcheck.typing import Array

CLIPS = (
    *((module, name) for module in (tf, tf.compat.v1) for name in ("clip_by_value", "clip_by_norm", "norm")),
    *((module, "clip_by_global_norm") for module in (tf, tf.compat.v1)),
    *((tf.linalg, name) for name in ("norm", "global_norm")),
    *((np, "clip"), (np.linalg, "norm")),
)
"""Functions that clip gradients, or compute their norms for clipping by hand."""
SYNONYMS = {"clip": "clip_by_value"}
LIMITS = {
    "clip_by_value": (("clip_value_min", "a_min", "min"), ("clip_value_max", "a_max", "max")),
    "clip_by_norm": (("clip_norm",),),
    "clip_by_global_norm": (("clip_norm",),),
}
"""The names of the arguments after the first with the limits of a clip function."""


Updated = list[tuple[Any, Any]]
"""The variables of an optimizer call, with their values after it."""


class StepRecorder:
    """Observes runs of a step, each of which fills the record of a StepRun, `current`."""

    def __init__(self) -> None:
        self.current = StepRun()
        self._opened: dict[int, int] = {}
        self._updates_begun = False
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._inside_optimizer = False
        self._derivatives: list[Any] = []
        self._clipped: list[tuple[str, list[Any], list[Any]]] = []

    @contextmanager
    def recording(self) -> Iterator[StepRun]:
        """Record what happens inside the block."""
        self.current = StepRun()
        self._derivatives, self._clipped, self._opened = [], [], {}
        patches: list[tuple[Any, str, Wrapper]] = [(*FUNCTION_CALL, self._call_copy)]
        patches += self._outermost_calls(self._record_call)
        patches += [(module, name, self._clip(name)) for module, name in CLIPS]
        patches += [NOT_TRACED, (*TAPE_ENTER, self._open_tape)]
        with patched(*patches), derivatives_observed(self._take_derivative):
            yield self.current

    @contextmanager
    def without_updates(self, losses: int | None = None, held: Sequence[Updated] | None = None) -> Iterator[StepRun]:
        """Disable optimizers and tracing in the block; record the losses and gradients of tapes.

        With `losses`, the block ends when a tape is asked for this many gradients of losses with respect to variables;
        the last is not taken, since a loss alone costs less. With `held`, the first calls of optimizers give their
        variables these values, whatever their gradients, and later calls are executed.
        """
        recording = StepRun()
        taken = recording.tape_gradients

        def keep(tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
            if method != "gradient" or not tf.is_tensor(arguments["target"]):
                return compute()
            sources = tuple(tf.nest.flatten(arguments["sources"]))
            alone = TapeGradient(tf.reduce_sum(arguments["target"]), sources, ())
            if alone.of_variables and losses == 1 + sum(one.of_variables for one in taken):
                taken.append(alone)
                raise CallReached
            result = compute()
            taken.append(replace(alone, gradients=tuple(tf.nest.flatten(result))))
            return result

        def change_nothing(*_: Any, **__: Any) -> None:
            pass

        coming = iter(held or ())

        def change(optimizer: Any, pairs: Sequence[Any], call: Callable[[Any], Any]) -> Any:
            outcome = next(coming, None)
            if outcome is None:
                return call(pairs)
            for variable, value in outcome:
                variable.assign(value)
            return None

        skipped = [(owner, method, change_nothing) for owner, method in optimizer_methods()]
        patches = [NOT_TRACED, *(skipped if held is None else self._outermost_calls(change))]
        with suppress(CallReached), functions_run_eagerly(), patched(*patches), derivatives_observed(keep):
            yield recording

    @contextmanager
    def outcomes(self) -> Iterator[list[Updated]]:
        """Record the values of the variables after each optimizer call in the block; functions are plain Python."""
        found: list[Updated] = []

        def note(optimizer: Any, pairs: Sequence[Any], call: Callable[[Any], Any]) -> Any:
            result = call(pairs)
            found.append([(variable_of(variable), as_it_is(variable)) for _, variable in pairs])
            return result

        with functions_run_eagerly(), patched(NOT_TRACED, *self._outermost_calls(note)):
            yield found

    def _outermost_calls(self, hook: Callable[[Any, Sequence[Any], Callable[[Any], Any]], Any]) -> list[Any]:
        """Patches that replace the calls of optimizers by the hook, except calls inside such a call.

        The hook takes the optimizer, the pairs of gradients and variables, and a function that makes the call with such
        pairs; it returns the result of the call.
        """
        self._inside_optimizer = False

        def standing_in(method: str) -> Wrapper:
            def apply(original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                if self._inside_optimizer:
                    return original(optimizer, *args, **kwargs)
                pairs, call = pairs_and_call(optimizer, original, method, args, kwargs)
                self._inside_optimizer = True
                try:
                    return hook(optimizer, pairs, call)
                finally:
                    self._inside_optimizer = False

            return apply

        return [(owner, method, standing_in(method)) for owner, method in optimizer_methods()]

    def add_derivatives(self, result: Any) -> None:
        """Note tensors and arrays from a tape, or a session: a function that takes one of them may clip it."""
        self._derivatives += _tensors(result)

    def _call_copy(self, original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the copy of a tf.function; `original` calls a tf.function."""
        if not tf.inside_function() and tf.config.functions_run_eagerly():
            return original(function, *args, **kwargs)
        if id(function) not in self._copies:
            self._copies[id(function)] = (function, _copy(function))
        return original(self._copies[id(function)][1], *args, **kwargs)

    def _record_call(self, optimizer: Any, pairs: Sequence[Any], call: Callable[[Any], Any]) -> Any:
        """Record the arguments of an optimizer call, and make it."""
        gradients = [as_it_is(gradient) for gradient, _ in pairs]
        variables = tuple(variable for _, variable in pairs)
        clips = [(name, limits) for name, outputs, limits in self._clipped if _share(gradients, outputs)]

        rate = rate_variable(optimizer)

        def record(scale: Any, now: Any, *found: Any) -> None:
            def repeat(pairs: Sequence[Any]) -> Any:
                if rate is not None:  # the step may have set it
                    rate.assign(now)
                return call(pairs)

            taken = tuple(all_shaped(found, variables))
            made = OptimizerCall(type(optimizer).__name__, optimizer, variables, taken, repeat, float(scale))
            self.current.optimizer_calls.append(made)

        _whenever_it_runs(record, [loss_scale(optimizer), as_it_is(rate), *gradients])
        for name, limits in clips:
            self._note_clip(name, limits)
        self._updates_begun = True
        return call(pairs)

    def _open_tape(self, original: Any, tape: Any) -> Any:
        """Note the number of updates before a tape was opened; there were none unless one is known."""
        if self._updates_begun:
            opened = id(tape)
            _whenever_it_runs(lambda: self._opened.update({opened: len(self.current.optimizer_calls)}), [])
        return original(tape)

    def _take_derivative(self, tape: Any, method: str, arguments: dict[str, Any], compute: Callable[[], Any]) -> Any:
        result = compute()
        if method != "gradient":
            return result
        self.add_derivatives(result)
        targets = tf.nest.flatten(arguments["target"])
        parts = [part for part in targets if tf.is_tensor(part) and part.dtype.is_floating]
        if parts:
            sources = tuple(tf.nest.flatten(arguments["sources"]))
            loss = tf.add_n([tf.reduce_sum(part) for part in parts]) if len(parts) > 1 else tf.reduce_sum(parts[0])

            target = arguments["target"] if tf.is_tensor(arguments["target"]) else None
            opened, replicas = id(tape), tf.distribute.get_strategy().num_replicas_in_sync

            def record(loss: Any, *gradients: Any) -> None:
                updates = self._opened.get(opened, 0)
                self.current.tape_gradients.append(TapeGradient(loss, sources, gradients, target, updates, replicas))

            _whenever_it_runs(record, [loss, *tf.nest.flatten(result)])
        return result

    def _clip(self, function: str) -> Wrapper:
        name = SYNONYMS.get(function, function)

        def clip(original: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            limits = _limits(name, args, kwargs)
            if name == "clip_by_global_norm":
                limits.append(result[1])
            self._clipped.append((name, _tensors(result), limits))
            if _share(_tensors((args, kwargs)), self._derivatives):
                self._note_clip(name, limits)
            return result

        return clip

    def _note_clip(self, name: str, limits: Sequence[Any]) -> None:
        """Note that gradients go through a function with these limits; of clip_by_global_norm also the norm."""
        at_zero = name == "clip_by_value" and any(isinstance(one, (int, float)) and one == 0 for one in limits)
        seen = [name, *([CLIPPED_AT_ZERO] if at_zero else [])]

        def record(*values: Any) -> None:
            self.current.clip_functions.extend(seen)
            if name in LIMITS:
                self.current.clip_limits.append((name, _numbers(name, values)))

        _whenever_it_runs(record, limits)


def _limits(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The limits of a call of a clip function: numbers, arrays or tensors, None where there is no such limit."""
    found = []
    for place, names in enumerate(LIMITS.get(name, ()), 1):
        default = args[place] if len(args) > place else None
        found.append(next((kwargs[one] for one in names if one in kwargs), default))
    return found


def _numbers(name: str, limits: Sequence[Any]) -> tuple[float, ...] | None:
    """The limits as in ClipLimits."""
    if any(np.size(limit) != 1 for limit in limits if limit is not None):
        return None
    if name == "clip_by_value":
        low, high = limits
        return (-np.inf if low is None else float(low)), (np.inf if high is None else float(high))
    limit, *norm = map(float, limits)
    return (min(1.0, limit / norm[0]) if norm[0] else 1.0,) if norm else (limit,)


def _copy(function: Any) -> Any:
    if getattr(function, "_is_copy", False):
        return function
    copy = function._clone(None)
    copy._jit_compile = None
    copy._omit_frequent_tracing_warning = True
    copy._is_copy = True
    return copy


def _whenever_it_runs(record: Callable[..., None], values: Sequence[Any]) -> None:
    """Call `record` with the values (tensors, IndexedSlices, None) whenever this code runs, in a tf.function or not."""
    if not tf.inside_function():
        record(*values)
        return
    parts = tf.nest.flatten(values, expand_composites=True)

    def unpacked(*arrays: Array) -> None:
        rest = iter(arrays)
        tensors = [None if part is None else tf.constant(next(rest)) for part in parts]
        record(*tf.nest.pack_sequence_as(values, tensors, expand_composites=True))

    tf.numpy_function(unpacked, [part for part in parts if part is not None], [])


def as_it_is(given: Any) -> Any:
    """The current value of a variable, or a metric, which may change later; anything else unchanged."""
    if hasattr(given, "update_state"):
        return given.result()
    variable = variable_of(given)
    return given if variable is None or getattr(variable, "_in_graph_mode", True) else tf.identity(variable)


def _tensors(structure: Any) -> list[Any]:
    """The tensors and arrays in a nested structure, including those inside IndexedSlices."""
    flat = tf.nest.flatten(structure, expand_composites=True)
    return [part for part in flat if tf.is_tensor(part) or isinstance(part, (np.ndarray, np.generic))]


def _share(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return bool({id(part) for part in _tensors(list(some))} & {id(part) for part in others})
