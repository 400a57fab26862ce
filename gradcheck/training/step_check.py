"""The check of a training step: its gradients against finite differences of its loss, its update against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import from_coordinates
from gradcheck.autodiff.function import open_function
from gradcheck.autodiff.sources import parse_arguments, variable_of
from gradcheck.autodiff.state import variables_restored
from gradcheck.check import check
from gradcheck.comparison.lines import sample_values
from gradcheck.comparison.tables import EXCLUSION
from gradcheck.explanation.wrong_gradient import LostPart
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.probing import axes
from gradcheck.result import Cause, Diagnosis, Finding, Kind, OrderResult, Result, Verdict
from gradcheck.training.gradient_changes import averaging, clipping, common_factor, gradient_pairs, unchanged
from gradcheck.training.runner import StepRun, StepRunner, dense, unscaled
from gradcheck.training.update import (
    UpdateCheck,
    VariableMove,
    check_manual_update,
    learning_rate_of,
    optimizer_findings,
    own_changes,
)

Array = np.ndarray[Any, Any]

MAX_ELEMENTS, MAX_ERROR = 64, 1e-3
"""Finite differences element by element are tried for so many at most, and used up to this relative error."""
NEAR = 1e-4
REMEDY = "hand over what the tape gave; to clip, use tf.clip_by_value, tf.clip_by_norm or tf.clip_by_global_norm"


@dataclass(frozen=True)
class ReferenceGradients:
    """Gradients (None where there is none) that others are compared with, and the error of their elements."""

    gradients: Sequence[Array | None]
    error: float = 0.0


@dataclass(frozen=True)
class StepGradients:
    """The gradients of one run of a step; `names` are those of its variables."""

    runner: StepRunner
    run: StepRun
    names: Sequence[str]

    @cached_property
    def used(self) -> ReferenceGradients:
        """The gradients that the step returned or gave to an optimizer."""
        return ReferenceGradients([dense(gradient) for gradient in self.run.gradients])

    @cached_property
    def right(self) -> ReferenceGradients | None:
        """The gradients of the step's loss: from TensorFlow, or else from finite differences; None without either."""
        return self._under_one_tape() or self._finite_differences()

    def taken(self, run: StepRun) -> list[Any]:
        """What the step's tapes gave for each variable; None where they were not asked for it exactly once."""
        found = [_from_tapes(run, variable) for variable in self.runner.variables]
        return [gradients[0] if len(gradients) == 1 else None for gradients in found]

    def change(self, reference: ReferenceGradients, used: ReferenceGradients) -> str | None:
        """How gradients were clipped or averaged, if they were."""
        pairs = gradient_pairs(reference.gradients, used.gradients, reference.error)
        if pairs is None or unchanged(pairs):
            return None
        return clipping(pairs, self.run.recording.clip_functions) or averaging(pairs, self._counts())

    def _under_one_tape(self) -> ReferenceGradients | None:
        variables = self.runner.variables
        try:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss = self.runner.run().loss
            gradients = tape.gradient(loss, variables)
        except Exception:  # whatever the step's operations raise, there is no such gradient then
            return None
        known = any(gradient is not None for gradient in gradients)
        return ReferenceGradients([dense(gradient) for gradient in gradients]) if known else None

    def _finite_differences(self) -> ReferenceGradients | None:
        variables = self.runner.variables
        function = open_function(lambda: self.runner.run().loss, (), variables)
        if function.point.size > MAX_ELEMENTS:
            return None
        with variables_restored(variables):
            estimate = first_difference(sample_values(function, axes(function.point.size), None))
        if not estimate.bound.max() <= MAX_ERROR * np.abs(estimate.value).max():
            return None
        gradients = [
            from_coordinates(estimate.value[part, 0], source.shape, source.value.dtype)
            for part, source in zip(function.parts, function.sources, strict=True)
        ]
        return ReferenceGradients(gradients, float(estimate.bound.max()))

    def explained(self, finding: Finding) -> Finding:
        """The finding with what the step did to a gradient that was right when its tape gave it."""
        position = next((i for i, name in enumerate(self.names) if finding.input.startswith(name)), None)
        if position is None or self.right is None:
            return finding
        taken = dense(self.taken(self.run)[position])
        numbers = finding.reason.split("; ")[0]
        requested = bool(_from_tapes(self.run, self.runner.variables[position]))
        if not requested and finding.kind is Kind.MISSING and self.run.recording.tape_gradients:
            return replace(finding, reason=f"{numbers}; the step never asks its tape for this gradient", diagnosis=None)
        pairs = gradient_pairs([self.right.gradients[position]], [taken], self.right.error)
        if not pairs or not unchanged(pairs) or taken is None:
            lost = LostPart(None if finding.kind is Kind.MISSING else finding.autodiff, finding.difference)
            return replace(finding, diagnosis=finding.diagnosis or self.runner.broken_path(position, self.run, lost))
        evidence = self._evidence(float(taken[finding.index or ()].real), finding.autodiff)
        kind = Kind.MISSING if finding.kind is Kind.MISSING else Kind.WRONG_VALUE
        diagnosis = Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, REMEDY)
        return replace(finding, kind=kind, reason=numbers, diagnosis=diagnosis)

    def _evidence(self, taken: float, used: float | None) -> str:
        giver = "the optimizer was handed" if self.run.returned_gradients is None else "the step returns"
        evidence = f"the step's tape gave {taken:.10g}, {giver} {'None' if used is None else f'{used:.10g}'}"
        right = self.right
        pairs = None if right is None else gradient_pairs(right.gradients, self.used.gradients, right.error)
        ratio = None if pairs is None else common_factor(pairs)
        if ratio is None:
            return evidence
        return f"{evidence}; all gradients were multiplied by {ratio:.6g}{self._origin_of_factor(ratio)}"

    def _counts(self) -> dict[int, str]:
        """How many samples and gradients there are to average over."""
        counts: dict[int, str] = {}
        for position, value in enumerate(self.runner.inputs):
            for leaf in tf.nest.flatten(value):
                shape = tuple(getattr(leaf, "shape", ()))
                if shape:
                    counts.setdefault(int(shape[0]), f"the {shape[0]} samples of inputs[{position}]")
        calls = len(self.run.recording.tape_gradients)
        return {calls: f"{calls} gradients", **counts}

    def _origin_of_factor(self, ratio: float) -> str:
        rates = [learning_rate_of(call.optimizer) for call in self.run.recording.optimizer_calls]
        if any(rate is not None and abs(abs(ratio) - rate) <= NEAR * rate for rate in rates):
            return ", the learning rate, by which the optimizer multiplies, too"
        if abs(ratio + 1) < NEAR:
            return ": the sign is wrong"
        for count, of in self._counts().items():
            if count > 1 and abs(abs(ratio) / count - 1) < NEAR:
                return f", as many as {of}"
        return ""


def _from_tapes(run: StepRun, variable: Any) -> list[Any]:
    """Every gradient with respect to a variable that the step's tapes gave."""
    return [
        unscaled(gradient, run.scale)
        for taken in run.recording.tape_gradients
        for source, gradient in zip(taken.sources, taken.gradients, strict=True)
        if variable_of(source) is variable
    ]


@dataclass(frozen=True)
class StepCheck:
    """The check of one step for its variables; `tolerance` holds rtol, atol and probes for `check`."""

    runner: StepRunner
    variables: Sequence[Any]
    tolerance: dict[str, Any]
    learning_rate: float | None = None

    def result(self) -> Result:
        """The verdict on the gradients and the update."""
        order, update = self._check_gradients(), self._check_update()
        findings = (*order.findings, *update.findings)
        verdict = Verdict.MISMATCH if findings else order.verdict
        return Result({1: replace(order, verdict=verdict, findings=findings, notes=(*order.notes, *update.notes))})

    @cached_property
    def _gradients(self) -> StepGradients:
        names = [source.name for source in parse_arguments((), self.variables).sources]
        return StepGradients(self.runner, self.runner.run(), names)

    def _compare(self, gradient: Callable[[StepRun], Sequence[Any]] | None) -> OrderResult:
        """Differences of the loss beside a gradient that a run gives, or beside TensorFlow's own."""
        given = None if gradient is None else lambda: list(gradient(self.runner.run()))
        result = check(lambda: self.runner.run().loss, variables=self.variables, gradient=given, **self.tolerance)
        return result.orders[1]

    def _check_gradients(self) -> OrderResult:
        """The verdict on the gradients used, or on those before they were clipped or averaged."""
        gradients = self._gradients
        taken = ReferenceGradients([dense(gradient) for gradient in gradients.taken(gradients.run)])
        change = gradients.change(taken, gradients.used)
        if change is not None:
            return _with_change(self._compare(gradients.taken), change)
        if gradients.run.recording.clip_functions and (order := self._check_unchanged()) is not None:
            return order
        order = self._compare(lambda run: run.gradients)
        if order.verdict != Verdict.MISMATCH:
            return order
        findings = tuple(gradients.explained(finding) for finding in order.findings)
        return self._check_unchanged() or replace(order, findings=findings)

    def _check_unchanged(self) -> OrderResult | None:
        """The verdict on the gradients before they were clipped or averaged; None where they were not."""
        right = self._gradients.right
        if right is None or (change := self._gradients.change(right, self._gradients.used)) is None:
            return None
        if right.error:  # finite differences are right by themselves
            count = sum(gradient.size for gradient in right.gradients if gradient is not None)
            before = OrderResult(order=1, verdict=Verdict.AGREE, resolution=EXCLUSION * right.error, compared=count)
        else:
            before = self._compare(None)
        return None if before.verdict == Verdict.MISMATCH else _with_change(before, change)

    def _check_update(self) -> UpdateCheck:
        gradients, run = self._gradients, self._gradients.run
        calls = run.recording.optimizer_calls
        moves = [VariableMove(*parts) for parts in zip(gradients.names, run.before, run.after, strict=True)]
        if not calls:
            return check_manual_update(
                moves, gradients.used.gradients, self.learning_rate, run.recording.clip_functions
            )
        if self.learning_rate is not None:
            raise ValueError("learning_rate= is for steps that move the variables by hand; this one uses an optimizer")
        expected = self.runner.apply_again(calls)
        name = " and ".join(dict.fromkeys(call.name for call in calls))
        findings = optimizer_findings(moves, expected, name)
        notes = [note for call in calls for note in own_changes(call.optimizer, call.gradients)]
        if run.returned_gradients is not None and run.optimizer_gradients is not None:
            handed = ReferenceGradients([dense(gradient) for gradient in run.optimizer_gradients])
            change = gradients.change(gradients.used, handed)
            notes = notes if change is None else [change, *notes]
        return UpdateCheck(tuple(findings), tuple(f"{Cause.CHANGED_AFTERWARDS}: {note}" for note in notes))


def _with_change(order: OrderResult, change: str) -> OrderResult:
    return replace(order, notes=(*order.notes, f"{Cause.CHANGED_AFTERWARDS}: {change}"))
