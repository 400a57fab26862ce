"""What became of the gradients between the tape and their use: the step's own tapes, and a tape around all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.bystanders import restored
from gradcheck.autodiff.coordinates import from_coordinates
from gradcheck.autodiff.opening import open_function
from gradcheck.autodiff.problem import TapeProblem
from gradcheck.autodiff.sources import variable_of
from gradcheck.diagnosis.case import Loss
from gradcheck.finding import Cause, Diagnosis, Finding, Kind
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.directions import axes
from gradcheck.stepping.changes import averaging, clipping, factor, pairs, unchanged
from gradcheck.stepping.optimizers import learning_rate_of
from gradcheck.stepping.run import Run, Runner, dense, unscaled
from gradcheck.verdict.observation import observe

Array = np.ndarray[Any, Any]
FEW, SHARP = 64, 1e-3
NEAR = 1e-4
REMEDY = "hand over what the tape gave; to clip, use tf.clip_by_value, tf.clip_by_norm or tf.clip_by_global_norm"


@dataclass(frozen=True)
class Reference:
    """Gradients (None where there is none) that others are held against, and the error of their elements."""

    gradients: Sequence[Array | None]
    error: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """One run of a step and the names of its variables; `used` are the gradients that stand for the step."""

    runner: Runner
    run: Run
    names: Sequence[str]

    @cached_property
    def used(self) -> list[Array | None]:
        """The gradients that the step returned or handed over."""
        return [dense(gradient) for gradient in self.run.gradients]

    @cached_property
    def right(self) -> Reference | None:
        """The gradients of the step's loss, as far as they can be had: from TensorFlow, or else from differences."""
        return self._whole() or self._differences()

    def taken(self, run: Run) -> list[Any]:
        """What the step's tapes gave for each variable; None where they were not asked for it exactly once."""
        found = [_answers(run, variable) for variable in self.runner.variables]
        return [answers[0] if len(answers) == 1 else None for answers in found]

    def change(self, reference: Reference, used: Sequence[Array | None]) -> str | None:
        """How gradients were clipped or averaged, if they were."""
        found = pairs(reference.gradients, used, reference.error)
        if found is None or unchanged(found):
            return None
        return clipping(found, self.run.recording.clips) or averaging(found, self._counts())

    def _whole(self) -> Reference | None:
        """The gradients under a tape around all of the step."""
        variables = self.runner.variables
        try:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss = self.runner.run().loss
            gradients = tape.gradient(loss, variables)
        except Exception:  # whatever the step's operations raise, there is no such gradient then
            return None
        known = any(gradient is not None for gradient in gradients)
        return Reference([dense(gradient) for gradient in gradients]) if known else None

    def _differences(self) -> Reference | None:
        """Differences with respect to each element, while they are few and their errors small."""
        variables = self.runner.variables
        function = open_function(lambda: self.runner.run().loss, (), variables)
        if function.point.size > FEW:
            return None
        with restored(variables):
            estimate = first_difference(observe(TapeProblem(function), axes(function.point.size), None))
        if not estimate.bound.max() <= SHARP * np.abs(estimate.value).max():
            return None
        gradients = [
            from_coordinates(estimate.value[part, 0], source.shape, source.value.dtype)
            for part, source in zip(function.parts, function.sources, strict=True)
        ]
        return Reference(gradients, float(estimate.bound.max()))

    def named(self, finding: Finding) -> Finding:
        """The finding with what the step did to a gradient that was right when its tape gave it."""
        position = next((i for i, name in enumerate(self.names) if finding.input.startswith(name)), None)
        if position is None or self.right is None:
            return finding
        taken = dense(self.taken(self.run)[position])
        numbers = finding.reason.split("; ")[0]
        asked = _answers(self.run, self.runner.variables[position])
        if not asked and finding.kind is Kind.MISSING and self.run.recording.taken:
            return replace(finding, reason=f"{numbers}; the step never asks its tape for this gradient", diagnosis=None)
        found = pairs([self.right.gradients[position]], [taken], self.right.error)
        if not found or not unchanged(found) or taken is None:
            loss = Loss(None if finding.kind is Kind.MISSING else finding.autodiff, finding.difference)
            diagnosis = finding.diagnosis or self.runner.cut(position, self.run, loss)
            return replace(finding, diagnosis=diagnosis)
        said = self._told(float(taken[finding.index or ()].real), finding.autodiff)
        kind = Kind.MISSING if finding.kind is Kind.MISSING else Kind.WRONG_VALUE
        diagnosis = Diagnosis(Cause.CHANGED_AFTERWARDS, said, REMEDY)
        return replace(finding, kind=kind, reason=numbers, diagnosis=diagnosis)

    def _told(self, taken: float, used: float | None) -> str:
        giver = "the optimizer was handed" if self.run.given is None else "the step returns"
        said = f"the step's tape gave {taken:.10g}, {giver} {'None' if used is None else f'{used:.10g}'}"
        found = None if self.right is None else pairs(self.right.gradients, self.used, self.right.error)
        ratio = None if found is None else factor(found)
        return said if ratio is None else f"{said}; all gradients were multiplied by {ratio:.6g}{self._meaning(ratio)}"

    def _counts(self) -> dict[int, str]:
        """How many samples and gradients there are to average over."""
        counts: dict[int, str] = {}
        for position, value in enumerate(self.runner.inputs):
            for leaf in tf.nest.flatten(value):
                shape = tuple(getattr(leaf, "shape", ()))
                if shape:
                    counts.setdefault(int(shape[0]), f"the {shape[0]} samples of inputs[{position}]")
        calls = len(self.run.recording.taken)
        return {calls: f"{calls} gradients", **counts}

    def _meaning(self, ratio: float) -> str:
        """Where a factor may come from."""
        rates = [learning_rate_of(handover.optimizer) for handover in self.run.recording.handovers]
        if any(rate is not None and abs(abs(ratio) - rate) <= NEAR * rate for rate in rates):
            return ", the learning rate, by which the optimizer multiplies, too"
        if abs(ratio + 1) < NEAR:
            return ": the sign is wrong"
        for count, of in self._counts().items():
            if count > 1 and abs(abs(ratio) / count - 1) < NEAR:
                return f", as many as {of}"
        return ""


def _answers(run: Run, variable: Any) -> list[Any]:
    """Every gradient with respect to a variable that the step's tapes gave."""
    return [
        unscaled(gradient, run.scale)
        for taken in run.recording.taken
        for source, gradient in zip(taken.sources, taken.gradients, strict=True)
        if variable_of(source) is variable
    ]
