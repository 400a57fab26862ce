"""One run of a training step, after which everything is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.sources import variable_of
from gradcheck.autodiff.state import state_restored
from gradcheck.explanation.wrong_gradient import LostPart
from gradcheck.result import Diagnosis
from gradcheck.training.python_state import PythonState, RefusedStepError, Refusing
from gradcheck.training.step_recorder import Handover, StepRecorder, StepRecording

Array = np.ndarray[Any, Any]
HOW = "return (loss, gradients), one gradient a variable in the order of variables=, or hand them to an optimizer"


@dataclass(frozen=True)
class StepRun:
    """What a step returned and did; `before` and `after` are the values of `variables`."""

    returned: Any
    variables: tuple[Any, ...]
    recording: StepRecording
    before: tuple[Array, ...]
    after: tuple[Array, ...]

    @cached_property
    def loss(self) -> Any:
        """The loss, a scalar tensor: what the step returned, or else what its tape differentiated. Raises TypeError."""
        first = self.returned[0] if isinstance(self.returned, (tuple, list)) and self.returned else self.returned
        if first is None or isinstance(first, dict):
            return self._differentiated(first)
        try:
            value = first.result() if hasattr(first, "update_state") else first
            loss = tf.constant(value, tf.float64) if isinstance(value, float) else tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            kind = type(first).__name__
            raise TypeError(f"step returned {kind} for the loss, a number was expected; {HOW}") from error
        if not loss.dtype.is_floating:
            raise TypeError(f"step returned a loss of dtype {loss.dtype.name}, a floating number was expected; {HOW}")
        return tf.reduce_sum(loss)

    def _differentiated(self, returned: Any) -> Any:
        wanted = {id(variable) for variable in self.variables}
        losses = [
            taken.loss
            for taken in self.recording.taken
            if not wanted or wanted & {id(variable_of(source)) for source in taken.sources}
        ]
        if len(losses) == 1:
            return losses[0] / tf.cast(self.scale, losses[0].dtype)
        raise TypeError(
            f"step returned {'None' if returned is None else 'a dict'}, and its tapes differentiated {len(losses)} "
            f"losses, so that nobody can tell which is meant; {HOW}"
        )

    @cached_property
    def given(self) -> tuple[Any, ...] | None:
        """The gradients that the step returned beside the loss, one for each variable; None where it returned none.

        A step that has an optimizer may return a metric beside the loss: then only a structure counts as gradients.
        """
        if not isinstance(self.returned, (tuple, list)) or len(self.returned) < 2:
            return None
        for part in (self.returned[1], *([] if len(self.returned) == 2 else [self.returned[1:]])):
            flat = tuple(tf.nest.flatten(part))
            if self.recording.handovers and (not tf.nest.is_nested(part) or all(item is None for item in flat)):
                continue
            if len(flat) == len(self.variables) and all(map(_fits, flat, self.variables)):
                return flat
        return None

    @cached_property
    def handed(self) -> tuple[Any, ...] | None:
        """The gradients that optimizers were given, one (or None) for each variable; None where there was no optimizer.

        Raises RefusedStepError where a variable was moved twice.
        """
        if not self.recording.handovers:
            return None
        found: dict[int, Any] = {}
        for handover in self.recording.handovers:
            for variable, gradient in zip(handover.variables, handover.gradients, strict=True):
                if id(variable_of(variable)) in found:
                    raise RefusedStepError(
                        f"the step hands gradients for {variable.name} to an optimizer twice, at two values of it; "
                        "check a step that does it once"
                    )
                found[id(variable_of(variable))] = unscaled(gradient, handover.scale)
        return tuple(found.get(id(variable)) for variable in self.variables)

    @property
    def scale(self) -> float:
        """By what the step multiplies its loss before it takes gradients."""
        return self.recording.handovers[0].scale if self.recording.handovers else 1.0

    @property
    def gradients(self) -> tuple[Any, ...]:
        """The gradients that stand for the step: those returned, or else those handed over. Raises TypeError."""
        gradients = self.handed if self.given is None else self.given
        if gradients is None:
            raise TypeError(f"step gave no gradients: it returned {_described(self.returned)}; {HOW}")
        return gradients


class Runner:
    """Runs a step again and again from the same state."""

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Any]) -> None:
        self.step, self.inputs = step, inputs
        self.variables: tuple[Any, ...] = ()
        self._recorder, self._refusing = StepRecorder(), Refusing()

    def mode(self) -> AbstractContextManager[Any]:
        """Where the check runs: eagerly."""
        return nullcontext()

    def chosen(self, variables: Any) -> list[Any] | None:
        """The variables given, taken over; None where there are none. Raises TypeError."""
        if variables is None:
            return None
        found = [variables] if variable_of(variables) is not None else list(tf.nest.flatten(variables))
        inner = [variable_of(variable) for variable in found]
        wrong = [type(item).__name__ for item, variable in zip(found, inner, strict=True) if variable is None]
        if wrong or not found:
            kind = wrong[0] if wrong else "nothing"
            raise TypeError(f"variables holds {kind}; tf.Variables were expected, such as model.trainable_variables")
        self.variables = tuple(inner)
        return found

    def run(self, *, keep_python: bool = False) -> StepRun:
        """Run the step and put back what it changed, with `keep_python` all but Python's state that is no generator.

        Raises RefusedStepError for what cannot be put back, RuntimeError where the step raises.
        """
        before = tuple(variable.numpy() for variable in self.variables)
        state = PythonState(self.step, generators=keep_python)
        try:
            with state_restored(), self._refusing.refusing(), self._recorder.recording() as recording:
                returned = self._called()
                after = tuple(variable.numpy() for variable in self.variables)
        finally:
            state.put_back()
        return StepRun(returned, self.variables, recording, before, after)

    def cut(self, position: int, run: StepRun, lost: LostPart) -> Diagnosis | None:
        """Why the variable at a position loses its gradient, where code says it that is not under a tape's eyes."""
        return None

    def _called(self) -> Any:
        try:
            return self.step(*self.inputs)
        except RefusedStepError:
            raise
        except Exception as error:
            raise RuntimeError(
                f"step raised {type(error).__name__}: {error}; it has to run before it can be checked"
            ) from error

    def apply_again(self, handovers: Sequence[Handover]) -> tuple[Array, ...]:
        """The values of the variables after the optimizers alone were given the same gradients in the same state."""
        with state_restored():
            for handover in handovers:
                handover.again(list(zip(handover.gradients, handover.variables, strict=True)))
            return tuple(variable.numpy() for variable in self.variables)


def unscaled(gradient: Any, scale: float) -> Any:
    """The gradient (a tensor, IndexedSlices or None) of a loss that was multiplied by `scale`."""
    if gradient is None or scale == 1.0:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(unscaled(gradient.values, scale), gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(scale, gradient.dtype)


def dense(gradient: Any) -> Array | None:
    """A gradient as an array of its source's shape; None stays None."""
    return None if gradient is None else np.asarray(tf.convert_to_tensor(gradient).numpy())


def _fits(gradient: Any, variable: Any) -> bool:
    if gradient is None or isinstance(gradient, tf.IndexedSlices):
        return True
    if isinstance(gradient, (int, float)):
        return tuple(variable.shape) == ()
    return tuple(getattr(gradient, "shape", ("no tensor",))) == tuple(variable.shape)


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {', '.join(_described(item) for item in value) or 'nothing'}"
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
