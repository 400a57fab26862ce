"""Run a training step repeatedly from the same state, eagerly; its first runs find the variables to check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.record import VariableWatcher

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.errors import NO_GRADIENTS, sentence_of
from gradcheck.autodiff.sources import frozen_variables, variable_of, variables_in
from gradcheck.diagnosis.unconnected import without_effect
from gradcheck.diagnosis.wrong_gradient import LostPart
from gradcheck.progress import counted, run_noted
from gradcheck.result import Diagnosis
from gradcheck.tracing.hooks import layers_observed
from gradcheck.tracing.intended import Intended
from gradcheck.tracing.record import CodeRecord
from gradcheck.tracing.recorder import recorded
from gradcheck.tracing.replay import MOVES, displacement
from gradcheck.tracing.state import (
    UNCHANGED,
    ChangedState,
    executed_operations,
    generators,
    generators_restored,
    hidden_state,
    is_random,
    state_restored,
)
from gradcheck.training.gradient_changes import GradientChange, alike
from gradcheck.training.optimizers import OptimizerCall, scale_variable, twice_the_scale
from gradcheck.training.repeated_runs import operation_apart, runs_apart
from gradcheck.training.side_effects import (
    TENSOR,
    PythonState,
    SideEffectGuard,
    UnrepeatableStepError,
    refuse_iterators,
)
from gradcheck.training.step_recorder import StepRecorder, Updated, as_it_is
from gradcheck.training.step_run import StepRun
from gradcheck.typing import Array

OF_THE_STEP = (RuntimeError, UnrepeatableStepError)
"""Raised by a run if the step raises, e.g. because it needs its update, or if it cannot be repeated."""


class StepRunner:
    """Runs a step eagerly, and restores whatever it changed; `variables` are those that are checked.

    `unconnected` are variables, listed or passed to the step's tapes and optimizers for training, that have no gradient
    and do not change the loss, as the caller would name them. `random`: `held` saw that the step draws random numbers.
    """

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Any]) -> None:
        self.step, self.inputs = step, inputs
        self.intended = Intended()
        self.random = False
        self.variables: tuple[Any, ...] = ()
        self.unconnected: tuple[Any, ...] = ()
        self._listed: tuple[Any, ...] = ()
        self._recorder, self._guard = StepRecorder(), SideEffectGuard()
        self._changed: ChangedState | None = None
        self._python: PythonState | None = None
        self._lighter = LighterLoss()
        self._own: int | None = None
        self._held: Sequence[Updated] = ()
        self._scale = 1.0
        self._unmultiplied = frozenset[int]()

    def mode(self) -> AbstractContextManager[None]:
        """The context in which the check runs."""
        return nullcontext()

    def choose(self, variables: Any) -> list[Any] | None:
        """Check these variables; return None if none are given. Raises TypeError."""
        if variables is None:
            return None
        found = variables_in(variables)
        wrong = [type(item).__name__ for item in found if variable_of(item) is None]
        if wrong or not found:
            kind = wrong[0] if wrong else "nothing"
            raise TypeError(f"variables holds {kind}; tf.Variables were expected, such as model.trainable_variables")
        self.variables = tuple(map(variable_of, found))
        return self._once(found)

    def _once(self, found: Sequence[Any]) -> list[Any]:
        """The chosen variables, without duplicates."""
        first: dict[int, int] = {}
        for place, variable in enumerate(self.variables):
            first.setdefault(id(variable), place)
        if len(first) < len(found):
            self.keep(list(first.values()))
        return [found[place] for place in first.values()]

    def for_loss(self, run: StepRun, own: int | None, positions: Sequence[int]) -> StepRunner:
        """Return a runner for the variables at these positions, and for their `own` loss if it is not the returned one.

        `own` is the number of its derivative in a run. Raises UnrepeatableStepError if that loss cannot be computed
        again.
        """
        other = copy(self)
        other._listed = self._listed or self.variables
        other.variables = tuple(self.variables[position] for position in positions)
        other._lighter, other._own = LighterLoss(), own
        if own is not None:
            taken = run.of_variables[own]
            other._scale = run.scale_of(taken)
            if taken.updates:
                other._hold_updates(taken.updates)
        return other

    def _hold_updates(self, count: int) -> None:
        """Fix the first updates at their current outcomes, however the checked variables move."""
        python = self._put_back()
        try:
            with state_restored(), self._guard.active(), self._recorder.outcomes() as outcomes:
                self._call()
        finally:
            python.restore()
        self._held = outcomes[:count]
        loss, again = self.run().loss, self.loss()
        if not alike([loss], [again]):
            raise UnrepeatableStepError(
                f"the step updates variables before it takes the loss of {self.variables[0].name}, {float(loss):.10g}; "
                f"run eagerly with these updates held fixed, the loss is {float(again):.10g}, so that there is nothing "
                "to compare with; check each loss in a separate step, or only the other variables, with variables="
            )

    def keep(self, positions: Sequence[int]) -> None:
        """Check only the variables at these positions; the step still returns gradients for all of them."""
        self._listed = self._listed or self.variables
        self.variables = tuple(self.variables[position] for position in positions)

    def run(self, *, restore_python: bool = True) -> StepRun:
        """Run the step and restore what it changed; of Python's state only the generators unless `restore_python`.

        Raises UnrepeatableStepError for changes that cannot be restored, RuntimeError where the step raises.
        """
        python = self._put_back() if restore_python else PythonState(self.step, generators_only=True)
        before = tuple(variable.numpy() for variable in self.variables)
        first = self._changed is None
        drawing = generators() if first else []
        try:
            with state_restored() as snapshot, self._guard.active(), self._recorder.recording() as recording:
                with self._environment(before):
                    returned = tf.nest.map_structure(as_it_is, self._call())
                after = self._values()
                if first:  # every run starts from the same state, and makes the same changes
                    used = tuple(generator for generator in drawing if generator.used)
                    self._changed = ChangedState(snapshot.changed(), used)
        finally:
            python.restore()
        made = replace(recording, returned=returned, variables=self.variables, listed=self._listed, own=self._own)
        made = replace(made, before=before, after=after)
        if self._own is None:
            self._scale = made.scale
        if first:
            self._unmultiplied = self._forgotten_scales(made)
        return replace(made, unmultiplied=self._unmultiplied)

    def _forgotten_scales(self, run: StepRun) -> frozenset[int]:
        """The numbers of the derivatives whose loss does not change when the optimizer's scale is doubled.

        Both losses are those of runs without updates, which a later loss may depend on.
        """
        changed, once, again = self._changed or UNCHANGED, list[Any](), list[Any]()
        scaling = [call.optimizer for call in run.optimizer_calls if call.scale != 1.0]
        # The changes of a step are put back before every run.
        if not scaling or any(changed.holds(scale_variable(optimizer)) for optimizer in scaling):
            return frozenset()
        with suppress(*OF_THE_STEP), state_restored(), self._guard.active():
            once = self._run_without_update().of_variables
            with twice_the_scale(scaling):
                again = self._run_without_update().of_variables
        pairs = zip(once, again, strict=False)
        return frozenset(
            number
            for number, (one, other) in enumerate(pairs)
            if np.isfinite(one.loss) and one.loss != 0 and alike([one.loss], [other.loss])
        )

    def recorded(self, *, restore_python: bool = False) -> CodeRecord:
        """Record a run of the step, operation by operation."""
        python = self._put_back()
        try:
            return recorded(self.intended.around(self.step), self.inputs)
        finally:
            if restore_python:
                python.restore()

    def loss(self) -> Any:
        """The loss of a run, without its update where that is seen not to matter; traced, of the step as one graph.

        The tracing code has to compare the values with those of runs: a loss that is computed after the update differs.
        """
        if tf.inside_function():
            with generators_restored():
                return self._run_without_update().loss
        if self._held:  # whole runs would continue from other values
            return self._light_loss()
        return self._lighter.of(lambda: self.run().loss, self._light_loss)

    def connected_loss(self) -> Any:
        """The loss, computed so that a tape around this call can follow it."""
        return self.run().loss if self._own is None else self._light_loss()

    def held(self) -> ChangedState:
        """The state besides the update that a step with random numbers changes, and that is put back for every run."""
        drawing = generators()
        with suppress(*OF_THE_STEP), state_restored() as snapshot, self._guard.active():
            names = executed_operations(self._run_without_update)
            used = tuple(generator for generator in drawing if generator.used)
            self.random = bool(used) or any(map(is_random, names))
            if self.random:
                return ChangedState(snapshot.changed(), used).besides(self.variables)
        return UNCHANGED

    def hold(self) -> None:
        """Hold what is intended from now on. Raises ValueError if that changes a gradient."""
        if not self.intended:
            return
        before = self.run()
        self.intended.hold()
        if apart := runs_apart(before, self.run()):
            raise ValueError(
                f"what is intended cannot be held: it changes the step ({apart}); check it without intended="
            )

    def repeats(self) -> bool:
        """Whether two runs from the current state, also of Python, are alike."""
        return not runs_apart(self.run(), self.run())

    def forget_python(self) -> None:
        """Let the next run, rather than the first one, note Python's state, in which later runs start."""
        self._python = None

    def hidden_state(self) -> str:
        """Describe what makes runs differ although all known state is put back."""
        first, second = (self.recorded(restore_python=True) for _ in range(2))
        where = operation_apart(first, second)
        try:
            described = hidden_state(self._light_loss)
        except Exception:  # from a step that needs its update
            described = hidden_state(self.run)
        return f"{where}; {described}" if where else described

    def _light_loss(self) -> Any:
        """The loss of a run that ends with its gradients."""
        with state_restored(), self._guard.active():
            return self._run_without_update().loss

    def _run_without_update(self) -> StepRun:
        python, returned = self._put_back(), None
        losses, held = (None, None) if self._own is None else (self._own + 1, self._held)
        try:
            with self._recorder.without_updates(losses, held) as recording:
                returned = self._call()
        finally:
            python.restore()
        made = replace(recording, returned=returned, variables=self.variables, own=self._own)
        return replace(made, known_scale=self._scale, unmultiplied=self._unmultiplied)

    def _put_back(self) -> PythonState:
        """Restore the state in which every run starts, which a graph of the loss does not; return Python's state."""
        (self._changed or UNCHANGED).besides(self.variables).put_back()
        if self._python is None:
            self._python = PythonState(self.step)
        return self._python

    @contextmanager
    def _environment(self, values: Sequence[Array]) -> Iterator[None]:
        """The context of a call of the step whose variables have these values."""
        yield

    def _values(self) -> tuple[Array, ...]:
        return tuple(variable.numpy() for variable in self.variables)

    def _call(self) -> Any:
        try:
            with run_noted():
                return self.intended.call(self.step, *self.inputs)
        except UnrepeatableStepError:
            raise
        except Exception as error:  # the step's own
            said = sentence_of(error).rstrip(".")
            why = "no variable got a gradient, and print(gradcheck.explain(step, ...)) says why"
            step = why if NO_GRADIENTS in said else "it has to run before it can be checked"
            raise RuntimeError(f"step raised {type(error).__name__}: {said}; {step}") from error

    def apply_again(self, calls: Sequence[OptimizerCall]) -> tuple[Array, ...]:
        """The values of the variables after the optimizers alone got the same gradients in the same state."""
        with state_restored():
            for call in calls:
                call.repeat(list(zip(call.gradients, call.variables, strict=True)))
            return self._values()

    def accumulator(self, taken: Array, used: Array) -> tuple[str, Array] | None:
        """The variable that a gradient was added to before it was used, by name, with its value before the step."""
        for handle, value in (self._changed or UNCHANGED).besides(self.variables).variables:
            kept = value.numpy()
            if kept.shape != taken.shape or kept.dtype != taken.dtype or not np.any(kept):
                continue
            change = GradientChange.between([taken + kept], [used])
            if change is not None and (change.nothing or (kept.size > 1 and change.factor is not None)):
                known = self.recorded(restore_python=True).variables.values()
                names = (variable.name for variable in known if variable.handle is handle)
                return next(names, f"a variable of shape {kept.shape}"), kept
        return None

    def broken_path(self, position: int, run: StepRun, lost: LostPart) -> Diagnosis | None:
        """Diagnose why the variable at a position loses its gradient, where more is known than eager code shows."""
        return None


class DifferingRunsError(UnrepeatableStepError):
    """Two runs from the same state differ for a reason that is not found in the step."""


def prepare(runner: StepRunner, variables: Any) -> list[Any]:
    """Run a step for the first times; return the variables that are checked, as the caller would name them.

    Without `variables`, these are the trainable ones that the step uses and the loss depends on. Unconnected ones are
    noted in the runner. Raises TypeError for a step without a loss or gradients, UnrepeatableStepError for changes that
    cannot be restored and for two runs that differ.
    """
    refuse_iterators(runner.step, runner.inputs)
    state = PythonState(runner.step)
    try:
        found = _first_run(runner, variables)
        before = PythonState(runner.step)
        counted(1)
        first = runner.run(restore_python=False)
        between = PythonState(runner.step)
        counted(1)
        second = runner.run(restore_python=False)
        if apart := runs_apart(first, second):
            raise _difference(runner, first, apart, before, between)
    finally:
        state.restore()
        runner.forget_python()
    return _connected(runner, found, second, listed=variables is not None)


def _first_run(runner: StepRunner, variables: Any) -> list[Any]:
    """The variables to check; the first run may build layers, slots and functions."""
    chosen = runner.choose(variables)
    if chosen is not None:
        runner.run(restore_python=False)
        return chosen
    with VariableWatcher() as watcher, layers_observed() as layers:
        run = runner.run(restore_python=False)
    # In the order in which gradients come: an optimizer's, or a tape's; then the others.
    listed = [variable for call in run.optimizer_calls for variable in call.variables]
    if not listed and run.tape_gradients:
        listed = [source for source in run.tape_gradients[-1].sources if variable_of(source) is not None]
    unique, frozen = dict[int, Any](), frozen_variables(layers.values())
    watched = [variable for variable in watcher.watched_variables() if id(variable_of(variable)) not in frozen]
    for variable in (*listed, *watched):
        if variable_of(variable).dtype.name in ROUNDOFF:
            unique.setdefault(id(variable_of(variable)), variable)
    if not unique:
        raise ValueError(
            "the step uses no trainable floating variable (is model.trainable False?); give those to check as "
            "variables=[...], or check a function of tensors with gradcheck.assert_close(f, x)"
        )
    runner.variables = tuple(map(variable_of, unique.values()))
    return list(unique.values())


def _difference(
    runner: StepRunner, first: StepRun, apart: str, before: PythonState, between: PythonState
) -> UnrepeatableStepError:
    """The error for two runs that differ: `before` and `between` them Python's state was noted.

    Python's state is the reason if runs from the same one are alike. A single change is, if undoing it alone repeats
    the first run.
    """
    between.restore()
    changes = before.changes()
    if changes and runner.repeats():
        causes = []
        for name, change in changes.items():
            between.restore()
            before.restore(name)
            if len(changes) > 1 and not runs_apart(first, runner.run(restore_python=False)):
                causes.append(change)
        told = causes or list(changes.values())
        remedy = "pass that as an input, keep it in a tf.Variable, or change it outside of the step"
        if all(TENSOR in one for one in told):  # no tape follows a variable
            remedy = "set that at the beginning of the step, as a total of losses to zero, or pass it as an input"
        return UnrepeatableStepError(
            f"two runs of the step from the same state differ ({apart}), and it changes {', '.join(told)}; {remedy}"
        )
    return DifferingRunsError(f"two runs of the step from the same state differ ({apart}): {runner.hidden_state()}")


def _connected(runner: StepRunner, found: Sequence[Any], run: StepRun, *, listed: bool) -> list[Any]:
    """The variables to check, without unconnected ones unless they were `listed`."""
    without = (place for place, gradient in enumerate(run.gradients) if gradient is None)
    unmoved = without_effect(without, partial(_matter, runner, run))
    runner.unconnected = tuple(
        variable
        for variable in map(found.__getitem__, unmoved)
        if listed or (id(variable_of(variable)) in run.asked and variable.trainable)
    )
    if listed:
        return list(found)
    kept = [place for place in range(len(found)) if place not in unmoved]
    runner.keep(kept)
    return [found[place] for place in kept]


def _matter(runner: StepRunner, run: StepRun, places: Sequence[int]) -> bool:
    """Whether the losses of a run change when the variables at these places are moved together."""
    variables = [runner.variables[place] for place in places]
    before = [variable.numpy() for variable in variables]
    try:
        for move in MOVES:
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value + displacement(value, move).astype(value.dtype))
            try:
                losses = runner.run().losses
            except RuntimeError:  # from the step, which did not raise before
                return True
            if np.isfinite([float(loss) for loss in losses]).all() and not alike(losses, run.losses):
                return True
        return False
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


COMPARED = 3
"""The number of losses that the light way has to reproduce before it is trusted."""


class LighterLoss:
    """Chooses between two ways of computing a loss: whole runs, and a light way that has to be equal, and faster.

    Both are used until they agree on COMPARED different losses; from then on only one.
    """

    def __init__(self) -> None:
        self._losses: set[float] = set()
        self._same = True
        self._seconds = [float("inf"), float("inf")]

    def of(self, whole: Callable[[], Any], light: Callable[[], Any]) -> Any:
        """Compute the loss, in the way that is known to be the better one by now."""
        if not self._same:
            return whole()
        if len(self._losses) >= COMPARED:
            return light() if self._seconds[1] < self._seconds[0] else whole()
        loss = self._timed(0, whole)
        self._losses.add(float(loss))
        try:
            other = self._timed(1, light)
        except Exception:  # from a step that needs its update, whatever it says
            self._same = False
        else:
            self._same = loss.dtype == other.dtype and float(loss) == float(other)
        return loss

    def _timed(self, way: int, loss: Callable[[], Any]) -> Any:
        began = time.process_time()
        value = loss()
        self._seconds[way] = min(self._seconds[way], time.process_time() - began)
        return value
