"""What was done to gradients after they were taken: clipped by value, by norm, by global norm, averaged, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, from_coordinates, to_coordinates
from gradcheck.autodiff.function import open_function
from gradcheck.autodiff.problem import TapeProblem
from gradcheck.autodiff.sources import variable_of
from gradcheck.autodiff.state import variables_restored
from gradcheck.comparison.lines import sample_values
from gradcheck.explanation.wrong_gradient import LostPart
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.probing import axes
from gradcheck.result import Cause, Diagnosis, Finding, Kind
from gradcheck.training.optimizers import learning_rate_of
from gradcheck.training.runs import Runner, StepRun, dense, unscaled

Array = np.ndarray[Any, Any]

AFTERWARDS = Cause.CHANGED_AFTERWARDS.value
ALIKE, DIFFERENT = 1e-5, 1e-3
SLACK = 1e3
"""Two ways of computing one gradient agree within so many units of roundoff of its largest element."""


@dataclass(frozen=True)
class Pair:
    """One variable's gradient as it was taken and as it was used, in real coordinates, both of shape (n,).

    `slack` is by how much two computations of the same element may differ.
    """

    taken: Array
    used: Array
    slack: float

    def is_used(self, expected: Array) -> bool:
        """Whether `expected` is what was used."""
        return bool(np.all(np.abs(self.used - expected) <= self.slack))


def pairs(taken: Sequence[Array | None], used: Sequence[Array | None], error: float = 0.0) -> list[Pair] | None:
    """The pairs of two lists of gradients; None where one has a gradient that the other has not, or not finite.

    `error` is that of `taken`, beside its rounding.
    """
    found = []
    for one, other in zip(taken, used, strict=True):
        if (one is None) != (other is None):
            return None
        if one is not None and other is not None:
            if one.shape != other.shape or not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
                return None
            found.append(Pair(to_coordinates(one), to_coordinates(other), error + slack_of(one, other)))
    return found


def slack_of(*gradients: Array) -> float:
    """By how much an element of a gradient may differ where it is computed in another way."""
    unit = max(ROUNDOFF[gradient.dtype.name] for gradient in gradients)
    return SLACK * unit * float(np.max(np.abs(gradients[0]), initial=0.0))


def unchanged(found: Sequence[Pair]) -> bool:
    """Whether the gradients used are those that were taken."""
    return all(pair.is_used(pair.taken) for pair in found)


def clipping(found: Sequence[Pair], clips: Sequence[str]) -> str | None:
    """How the gradients were clipped, such as "clipped to the global norm 1 (it was 5)"; None where they were not.

    `clips` are the functions that gradients went through. Without such a witness, two elements (or the gradients of two
    variables) that had different sizes must have got the same one before that counts as clipping.
    """
    said = None
    if "clip_by_value" in clips or not clips:
        said = _by_value(found, witness=bool(clips))
    if said is None and ({"clip_by_norm", "norm"} & set(clips) or not clips):
        said = _by_norm(found, witness=bool(clips))
    if said is None and {"clip_by_global_norm", "global_norm", "norm"} & set(clips):
        said = _by_global_norm(found)
    return said


def averaging(found: Sequence[Pair], counts: dict[int, str]) -> str | None:
    """Whether the gradients were divided by one of the counts, such as {8: "the 8 samples of inputs[0]"}."""
    for count, of in counts.items():
        if count > 1 and all(pair.is_used(pair.taken / count) for pair in found):
            return f"averaged over {of}"
    return None


def factor(found: Sequence[Pair]) -> float | None:
    """The one number by which all gradients were multiplied; None where there is none."""
    taken, used = _joined([pair.taken for pair in found]), _joined([pair.used for pair in found])
    if not np.any(taken):
        return None
    ratio = float(taken @ used / (taken @ taken))
    return ratio if all(pair.is_used(ratio * pair.taken) for pair in found) else None


def _by_value(found: Sequence[Pair], *, witness: bool) -> str | None:
    where = _joined([np.abs(pair.used - pair.taken) > pair.slack for pair in found]).astype(bool)
    taken, used = _joined([pair.taken for pair in found]), _joined([pair.used for pair in found])
    if not where.any() or not (witness or _levelled(np.abs(taken[where]), np.abs(used[where]))):
        return None
    low, high = float(used.min()), float(used.max())
    above, below = bool(np.any(where & (taken > used))), bool(np.any(where & (taken < used)))
    if (above and high < 0) or (below and low > 0):
        return None  # clipping turns no gradient round
    if not all(pair.is_used(np.clip(pair.taken, low, high)) for pair in found):
        return None
    bounds = [f"at most {high:.6g}"] * above + [f"at least {low:.6g}"] * below
    return f"clipped by value to {' and '.join(bounds)}"


def _by_norm(found: Sequence[Pair], *, witness: bool) -> str | None:
    taken = np.array([np.linalg.norm(pair.taken) for pair in found])
    used = np.array([np.linalg.norm(pair.used) for pair in found])
    where = used < taken - np.array([pair.slack * pair.taken.size for pair in found])
    if not where.any() or not (witness or _levelled(taken[where], used[where])):
        return None
    limit = float(used[where].max())
    if not all(
        pair.is_used(pair.taken * min(1.0, limit / size)) for pair, size in zip(found, taken, strict=True) if size
    ):
        return None
    return f"clipped to the norm {limit:.6g} for each variable (the longest was {taken.max():.6g})"


def _by_global_norm(found: Sequence[Pair]) -> str | None:
    ratio = factor(found)
    if ratio is None or not 0 < ratio < 1:
        return None
    before = float(np.linalg.norm(_joined([pair.taken for pair in found])))
    return f"clipped to the global norm {ratio * before:.6g} (it was {before:.6g})"


def _levelled(taken: Array, used: Array) -> bool:
    """Whether two different sizes became one."""
    equal = np.abs(used[:, None] - used) <= ALIKE * np.abs(used)
    return bool(np.any(equal & (np.abs(taken[:, None] - taken) > DIFFERENT * np.abs(taken))))


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


FEW, SHARP = 64, 1e-3
NEAR = 1e-4
REMEDY = "hand over what the tape gave; to clip, use tf.clip_by_value, tf.clip_by_norm or tf.clip_by_global_norm"


@dataclass(frozen=True)
class Reference:
    """Gradients (None where there is none) that others are held against, and the error of their elements."""

    gradients: Sequence[Array | None]
    error: float = 0.0


@dataclass(frozen=True)
class GradientEvidence:
    """One run of a step and the names of its variables; `used` are the gradients that stand for the step."""

    runner: Runner
    run: StepRun
    names: Sequence[str]

    @cached_property
    def used(self) -> list[Array | None]:
        """The gradients that the step returned or handed over."""
        return [dense(gradient) for gradient in self.run.gradients]

    @cached_property
    def right(self) -> Reference | None:
        """The gradients of the step's loss, as far as they can be had: from TensorFlow, or else from differences."""
        return self._whole() or self._differences()

    def taken(self, run: StepRun) -> list[Any]:
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
        with variables_restored(variables):
            estimate = first_difference(sample_values(TapeProblem(function), axes(function.point.size), None))
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
            loss = LostPart(None if finding.kind is Kind.MISSING else finding.autodiff, finding.difference)
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


def _answers(run: StepRun, variable: Any) -> list[Any]:
    """Every gradient with respect to a variable that the step's tapes gave."""
    return [
        unscaled(gradient, run.scale)
        for taken in run.recording.taken
        for source, gradient in zip(taken.sources, taken.gradients, strict=True)
        if variable_of(source) is variable
    ]
