"""Whether the variables move as the gradients say: by an optimizer, or by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF, element_of, to_coordinates
from gradcheck.autodiff.sources import take_apart
from gradcheck.check import check
from gradcheck.comparison.tables import EXCLUSION
from gradcheck.result import Finding, Kind, OrderResult, Result, Verdict
from gradcheck.training.gradient_changes import AFTERWARDS, GradientEvidence, Pair, Reference, clipping
from gradcheck.training.optimizers import own_changes
from gradcheck.training.runs import Runner, StepRun, dense

Array = np.ndarray[Any, Any]

OPTIMIZER_UNITS = 64
"""An optimizer's formula in a graph and out of it may differ by so many units of roundoff."""
UNITS = 8
RATE_ROUNDING = ROUNDOFF["float32"]
"""A rate is a number that many people, and TensorFlow's optimizers, hold in float32."""


@dataclass(frozen=True)
class VariableMove:
    """How a variable moved, in real coordinates, shape (n,)."""

    name: str
    before: Array
    after: Array

    @property
    def change(self) -> Array:
        """What was added to the variable, in float64."""
        return to_coordinates(self.after) - to_coordinates(self.before)

    def slack(self, units: float, step: Array) -> Array:
        """What rounding may do to each coordinate when `step` is added."""
        unit = ROUNDOFF[self.before.dtype.name]
        slack: Array = units * unit * (np.abs(to_coordinates(self.before)) + np.abs(step))
        return slack

    def finding(self, expected: Array, told: str) -> Finding:
        """A wrong update at the coordinate that is furthest off; `told` is a format with {expected}."""
        worst = int(np.argmax(np.abs(self.change - expected)))
        index, part = element_of(worst, self.before.shape, self.before.dtype)
        moved, right = float(self.change[worst]), float(expected[worst])
        reason = f"the step moves it by {moved:.10g}; {told.format(expected=f'{right:.10g}')}{_ratio(moved, right)}"
        return Finding(Kind.UPDATE, 1, self.name + part, index, None, moved, right, None, None, reason)


def by_optimizer(moves: Sequence[VariableMove], again: Sequence[Array], optimizer: str) -> list[Finding]:
    """Wrong updates: variables that end elsewhere than where the optimizer alone takes them (`again`, their values)."""
    findings = []
    for move, value in zip(moves, again, strict=True):
        expected = to_coordinates(value) - to_coordinates(move.before)
        if not np.all(np.abs(move.change - expected) <= move.slack(OPTIMIZER_UNITS, expected)):
            told = f"{optimizer}, given the same gradients in the same state, moves it by {{expected}}"
            findings.append(move.finding(expected, told))
    return findings


@dataclass(frozen=True)
class ByHand:
    """What an update without an optimizer turned out to be."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def by_hand(
    moves: Sequence[VariableMove], gradients: Sequence[Array | None], learning_rate: float | None, clips: Sequence[str]
) -> ByHand:
    """Hold moves against -rate * gradient; without a `learning_rate` the rate is read off the moves themselves."""
    if not any(np.any(move.change) for move in moves):
        return ByHand()
    steps = [np.zeros(m.before.size) if g is None else to_coordinates(g) for m, g in zip(moves, gradients, strict=True)]
    if learning_rate is not None:
        return _at_rate(moves, steps, learning_rate, clips)
    still = [m for m, g in zip(moves, steps, strict=True) if np.any(g) and not np.any(m.change)]
    findings = [m.finding(m.change, "the step moves other variables, and its gradient is not zero") for m in still]
    rates = [_rate(m, g) for m, g in zip(moves, steps, strict=True) if np.any(g) and np.any(m.change)]
    uphill = [
        m.finding(-m.change, "that is along its gradient, uphill: {expected} was expected")
        for m, g in zip(moves, steps, strict=True)
        if (rate := _rate(m, g)) is not None and rate < 0
    ]
    findings += uphill
    if findings:
        return ByHand(tuple(findings))
    known = sorted({float(f"{rate:.5g}") for rate in rates if rate is not None})
    if None in rates:
        note = "the update is no multiple of the gradients (momentum?), so that it was not checked; use an optimizer"
        return ByHand(notes=(f"{note}, or give learning_rate=",))
    listed = " or ".join(f"{rate:.5g}" for rate in known)
    return ByHand(notes=(f"each variable moves by -{listed} times its gradient",) if known else ())


def _at_rate(moves: Sequence[VariableMove], steps: Sequence[Array], rate: float, clips: Sequence[str]) -> ByHand:
    findings = []
    for move, step in zip(moves, steps, strict=True):
        slack = move.slack(UNITS, rate * step) + RATE_ROUNDING * np.abs(rate * step)
        if not np.all(np.abs(move.change + rate * step) <= slack):
            told = f"-learning_rate times its gradient is {{expected}} (learning_rate={rate:g})"
            findings.append(move.finding(-rate * step, told))
    if not findings:
        return ByHand(notes=(f"each variable moves by -{rate:g} times its gradient",))
    found = [
        Pair(step, -move.change / rate, move.slack(UNITS, rate * step).max(initial=0.0) / rate)
        for move, step in zip(moves, steps, strict=True)
    ]
    said = clipping(found, clips)
    if said is not None:
        return ByHand(notes=(f"{AFTERWARDS}: {said}",))
    return ByHand(tuple(findings))


def _rate(move: VariableMove, gradient: Array) -> float | None:
    """The number c for which the move is -c times the gradient, within rounding."""
    size = float(gradient @ gradient)
    if not size:
        return None
    rate = -float(move.change @ gradient) / size
    fits = np.all(np.abs(move.change + rate * gradient) <= move.slack(UNITS, rate * gradient))
    return rate if fits and rate else None


def _ratio(moved: float, right: float) -> str:
    if not moved or not right:
        return ""
    ratio = moved / right
    if abs(ratio + 1) < 1e-3:
        return "; that is the other way"
    return f"; that is {ratio:.4g} times as much"


@dataclass(frozen=True)
class StepCheck:
    """The check of one step for its variables; `tolerance` holds rtol, atol and probes for `check`."""

    runner: Runner
    variables: Sequence[Any]
    tolerance: dict[str, Any]
    learning_rate: float | None = None

    def result(self) -> Result:
        """The verdict."""
        order = self._gradients()
        findings, notes = self._update()
        findings = (*order.findings, *findings)
        verdict = Verdict.MISMATCH if findings else order.verdict
        return Result({1: replace(order, verdict=verdict, findings=findings, notes=(*order.notes, *notes))})

    @cached_property
    def _evidence(self) -> GradientEvidence:
        names = [source.name for source in take_apart((), self.variables).sources]
        return GradientEvidence(self.runner, self.runner.run(), names)

    def _check(self, gradient: Callable[[StepRun], Sequence[Any]] | None) -> OrderResult:
        """The loss against a gradient that a run gives, or against TensorFlow's own."""
        given = None if gradient is None else lambda: list(gradient(self.runner.run()))
        result = check(lambda: self.runner.run().loss, variables=self.variables, gradient=given, **self.tolerance)
        return result.orders[1]

    def _gradients(self) -> OrderResult:
        """The gradients used against differences, or those before they were clipped or averaged."""
        evidence = self._evidence
        taken = Reference([dense(gradient) for gradient in evidence.taken(evidence.run)])
        change = evidence.change(taken, evidence.used)
        if change is not None:
            return noted(self._check(evidence.taken), f"{AFTERWARDS}: {change}")
        if evidence.run.recording.clips and (order := self._unchanged()) is not None:
            return order
        order = self._check(lambda run: run.gradients)
        if order.verdict != Verdict.MISMATCH:
            return order
        findings = tuple(evidence.named(finding) for finding in order.findings)
        return self._unchanged() or replace(order, findings=findings)

    def _unchanged(self) -> OrderResult | None:
        """The verdict on the gradients before they were clipped or averaged; None where they were not."""
        evidence = self._evidence
        change = None if evidence.right is None else evidence.change(evidence.right, evidence.used)
        if change is None:
            return None
        before = self._before(evidence.right)
        return None if before.verdict == Verdict.MISMATCH else noted(before, f"{AFTERWARDS}: {change}")

    def _before(self, right: Reference | None) -> OrderResult:
        """The verdict on the gradients from before they were changed; differences are right by themselves."""
        if right is None or not right.error:
            return self._check(None)
        count = sum(gradient.size for gradient in right.gradients if gradient is not None)
        return OrderResult(order=1, verdict=Verdict.AGREE, resolution=EXCLUSION * right.error, compared=count)

    def _update(self) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """What is wrong with the update, and what there is to say of it."""
        evidence = self._evidence
        run, handovers = evidence.run, evidence.run.recording.handovers
        moves = [VariableMove(*parts) for parts in zip(evidence.names, run.before, run.after, strict=True)]
        if not handovers:
            hand = by_hand(moves, evidence.used, self.learning_rate, run.recording.clips)
            return hand.findings, hand.notes
        if self.learning_rate is not None:
            raise ValueError("learning_rate= is for steps that move the variables by hand; this one uses an optimizer")
        again = self.runner.apply_again(handovers)
        name = " and ".join(dict.fromkeys(handover.name for handover in handovers))
        findings = by_optimizer(moves, again, name)
        notes = [note for handover in handovers for note in own_changes(handover.optimizer, handover.gradients)]
        if run.given is not None and run.handed is not None:
            change = evidence.change(Reference(evidence.used), [dense(gradient) for gradient in run.handed])
            notes = notes if change is None else [change, *notes]
        return tuple(findings), tuple(f"{AFTERWARDS}: {note}" for note in notes)


def noted(order: OrderResult, note: str) -> OrderResult:
    """The verdict with one more note."""
    return replace(order, notes=(*order.notes, note))
