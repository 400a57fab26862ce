"""What a step's gradients and moves are worth: the verdict of `check` on the gradients, and the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gradcheck.autodiff.sources import take_apart
from gradcheck.check import check
from gradcheck.finding import MISMATCH, Finding, OrderResult, Result
from gradcheck.stepping.evidence import AFTERWARDS, Evidence
from gradcheck.stepping.optimizers import own_changes
from gradcheck.stepping.run import Runner, dense
from gradcheck.stepping.update import Move, by_hand, by_optimizer

BEFORE = "the gradient from before that agrees with differences"


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

    def _check(self, gradient: Callable[[], Any] | None) -> OrderResult:
        result = check(lambda: self.runner.run().loss, variables=self.variables, gradient=gradient, **self.tolerance)
        return result.orders[1]

    def _gradients(self) -> OrderResult:
        """The gradients used against differences, or those before they were clipped or averaged."""
        evidence = self._evidence
        order = self._check(lambda: list(self.runner.run().gradients))
        if order.verdict != MISMATCH:
            return order
        change = None if evidence.whole is None else evidence.change(evidence.whole, evidence.used)
        if change is not None:
            before = self._check(None)
            if before.verdict != MISMATCH:
                return replace(before, notes=(*before.notes, f"{AFTERWARDS}: {change}; {BEFORE}"))
        return replace(order, findings=tuple(evidence.named(finding) for finding in order.findings))

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
        name = " and ".join(dict.fromkeys(type(handover.optimizer).__name__ for handover in handovers))
        findings = by_optimizer(moves, again, name)
        notes = [note for handover in handovers for note in own_changes(handover.optimizer, handover.gradients)]
        if run.given is not None and run.handed is not None:
            change = evidence.change(evidence.used, [dense(gradient) for gradient in run.handed])
            notes = notes if change is None else [change, *notes]
        return tuple(findings), tuple(f"{AFTERWARDS}: {note}" for note in notes)
