"""What a step's gradients and moves are worth: the verdict of `check` on the gradients, and the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gradcheck.autodiff.sources import take_apart
from gradcheck.check import check
from gradcheck.finding import AGREE, MISMATCH, Finding, OrderResult, Result
from gradcheck.stepping.changes import AFTERWARDS
from gradcheck.stepping.evidence import Evidence, Reference
from gradcheck.stepping.optimizers import own_changes
from gradcheck.stepping.run import Run, Runner, dense
from gradcheck.stepping.update import Move, by_hand, by_optimizer
from gradcheck.verdict.entries import EXCLUSION


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
        verdict = MISMATCH if findings else order.verdict
        return Result({1: replace(order, verdict=verdict, findings=findings, notes=(*order.notes, *notes))})

    @cached_property
    def _evidence(self) -> Evidence:
        names = [source.name for source in take_apart((), self.variables).sources]
        return Evidence(self.runner, self.runner.run(), names)

    def _check(self, gradient: Callable[[Run], Sequence[Any]] | None) -> OrderResult:
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
        if order.verdict != MISMATCH:
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
        return None if before.verdict == MISMATCH else noted(before, f"{AFTERWARDS}: {change}")

    def _before(self, right: Reference | None) -> OrderResult:
        """The verdict on the gradients from before they were changed; differences are right by themselves."""
        if right is None or not right.error:
            return self._check(None)
        count = sum(gradient.size for gradient in right.gradients if gradient is not None)
        return OrderResult(order=1, verdict=AGREE, resolution=EXCLUSION * right.error, compared=count)

    def _update(self) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
        """What is wrong with the update, and what there is to say of it."""
        evidence = self._evidence
        run, handovers = evidence.run, evidence.run.recording.handovers
        moves = [Move(*parts) for parts in zip(evidence.names, run.before, run.after, strict=True)]
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
