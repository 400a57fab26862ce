"""Steps with several losses, such as a GAN's: each variable belongs to the loss that its own tape differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcheck.diagnosis.calls import merged
from gradcheck.result import Finding, OrderResult
from gradcheck.training.gradient_changes import alike
from gradcheck.training.step_run import StepRun


@dataclass(frozen=True)
class OwnLoss:
    """A loss that a tape differentiated only for variables, the `number`-th of the step.

    `positions` are those of its variables among the checked ones; `updates` is the number of optimizer calls before its
    tape was opened. The tape differentiated `scale` times the loss.
    """

    positions: tuple[int, ...]
    number: int
    updates: int
    scale: float


def own_losses(run: StepRun) -> list[OwnLoss]:
    """The losses of a step that differentiates several and returns one of them, or none; empty for any other step.

    A variable that was differentiated twice, or never, belongs to none. If the step returns a function of its losses,
    such as their sum, that counts for all variables.
    """
    taken = run.recording.of_variables
    if len({id(one.target) for one in taken}) < 2 or any(one.target is None for one in taken):
        return []
    owners = [[number for number, one in enumerate(taken) if one.has(variable)] for variable in run.variables]
    found = []
    for number, one in enumerate(taken):
        positions = tuple(place for place, numbers in enumerate(owners) if numbers == [number])
        if positions:
            found.append(OwnLoss(positions, number, one.updates, run.scale_of(one)))
    if run.returned_loss is None or any(alike([run.loss], [run.unscaled_loss(one)]) for one in taken):
        return found
    return []


def notes_on(losses: Sequence[OwnLoss]) -> list[str]:
    """The notes of a result on the losses with which its variables were compared."""
    count = sum(len(own.positions) for own in losses)
    notes = [f"{count} {'variable was' if count == 1 else 'variables were'} compared with the loss of their own tape"]
    if held := sum(len(own.positions) for own in losses if own.updates):
        notes.append(f"{held} of them with earlier updates held fixed")
    return notes


def together(orders: Sequence[OrderResult]) -> OrderResult:
    """Merge the comparisons of several losses."""
    order = merged(orders, ()).orders[1]
    largest = np.array([one.resolution for one in orders]) / [one.relative_resolution for one in orders]
    return replace(order, relative_resolution=float(order.resolution / np.fmax.reduce(largest)))


def renamed(finding: Finding, names: dict[str, str]) -> Finding:
    """Return a finding about some of the variables with the name that its variable has among all."""
    before = next((name for name in names if finding.input.startswith(name)), None)
    if before is None:
        return finding
    after = names[before]
    diagnosis = finding.diagnosis
    if diagnosis is not None:
        diagnosis = replace(diagnosis, evidence=diagnosis.evidence.replace(before, after))
    return replace(finding, input=after + finding.input.removeprefix(before), diagnosis=diagnosis)
