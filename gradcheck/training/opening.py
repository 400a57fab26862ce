"""The first runs of a step: its variables are found, and it is refused where two runs from one state differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tensorflow.python.eager.record import VariableWatcher

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.sources import variable_of
from gradcheck.training.python_state import PythonState, RefusedStepError, refuse_iterators
from gradcheck.training.runs import Runner, StepRun, dense
from gradcheck.training.sessions import SessionRunner, session_of

Array = np.ndarray[Any, Any]
SLACK = 1e3


def runner_of(step: Callable[..., Any], inputs: Sequence[Any], session: Any) -> Runner:
    """A Runner for eager code, or for a session. Raises TypeError for a step that is not callable."""
    if not callable(step):
        raise TypeError(
            f"step is of type {type(step).__name__}, a callable was expected: gradcheck.assert_step(step, batch) calls "
            "step(batch), which returns (loss, gradients) or hands the gradients to an optimizer"
        )
    session = session_of(session)
    return Runner(step, inputs) if session is None else SessionRunner(step, inputs, session)


def opened(runner: Runner, variables: Any) -> list[Any]:
    """The variables (as somebody would name them) that a step is checked for, after its first runs.

    Without `variables`, these are the trainable ones that the step uses and the loss depends on. Raises TypeError for a
    step that gives no loss or gradients, RefusedStepError for what cannot be put back.
    """
    refuse_iterators(runner.step, runner.inputs)
    state = PythonState(runner.step)
    try:
        found = _first_run(runner, variables)
        between = PythonState(runner.step)
        one, two = (runner.run(keep_python=True) for _ in range(2))
        _refuse_difference(one, two, between.changed())
    finally:
        state.put_back()
    if variables is None:
        found = _used(runner, found, two)
    return found


def _first_run(runner: Runner, variables: Any) -> list[Any]:
    """The variables to check; the first run may build layers, slots and functions."""
    found = runner.chosen(variables)
    if found is not None:
        runner.run(keep_python=True)
        return found
    with VariableWatcher() as watcher:
        first = runner.run(keep_python=True)
    found = _ordered(first, watcher.watched_variables())
    runner.variables = tuple(variable_of(variable) for variable in found)
    if not found:
        raise ValueError(
            "the step uses no trainable floating variable; give those to check as variables=[...], "
            "or check a function of tensors with gradcheck.assert_close(f, x)"
        )
    return found


def _ordered(run: StepRun, watched: Sequence[Any]) -> list[Any]:
    """The variables in the order in which gradients come: an optimizer's, or a tape's; then the others."""
    recording = run.recording
    listed = [variable for handover in recording.handovers for variable in handover.variables]
    if not listed and recording.taken:
        listed = [source for source in recording.taken[-1].sources if variable_of(source) is not None]
    unique = {id(variable_of(variable)): variable for variable in (*watched, *listed)}
    order = dict.fromkeys(id(variable_of(variable)) for variable in (*listed, *watched))
    return [unique[key] for key in order if variable_of(unique[key]).dtype.name in ROUNDOFF]


def _refuse_difference(first: StepRun, second: StepRun, changed: Sequence[str]) -> None:
    """Two runs from the same variables and generators must do the same."""
    pairs = [(first.loss, second.loss), *zip(first.gradients, second.gradients, strict=True)]
    arrays = [(dense(one), dense(two)) for one, two in pairs] + list(zip(first.after, second.after, strict=True))
    if all(_alike(one, two) for one, two in arrays):
        return
    if changed:
        raise RefusedStepError(
            f"two runs of the step from the same state differ, and it changes {', '.join(changed)}; "
            "hand that over as an input, keep it in a tf.Variable, or change it outside of the step"
        )
    raise RefusedStepError(
        f"two runs of the step from the same state differ (losses {float(first.loss):.10g} and "
        f"{float(second.loss):.10g}): it depends on something that is neither a variable nor one of the generators of "
        "TensorFlow, NumPy and Python, such as a random operation inside of a tf.function, a file or the clock; hand "
        "that over as an input, or use stateless random operations"
    )


def _alike(one: Array | None, two: Array | None) -> bool:
    if one is None or two is None:
        return one is two
    size = max((float(np.max(np.abs(value), initial=0.0)) for value in (one, two)), default=0.0)
    slack = SLACK * ROUNDOFF.get(one.dtype.name, 0.0) * (size if np.isfinite(size) else 0.0)
    if one.shape != two.shape:
        return False
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    return bool(np.all(same | (np.abs(one - two) <= slack)))


def _used(runner: Runner, found: Sequence[Any], run: StepRun) -> list[Any]:
    """The variables without those that have no gradient and do not matter for the loss."""
    kept = []
    for variable, gradient in zip(found, run.gradients, strict=True):
        inner = variable_of(variable)
        before = inner.numpy()
        if gradient is None:
            try:
                inner.assign(before * 1.25 + 0.125)
                if _alike(dense(runner.run().loss), dense(run.loss)):
                    continue
            finally:
                inner.assign(before)
        kept.append(variable)
    runner.variables = tuple(variable_of(variable) for variable in kept)
    return kept
