"""Whether the variables move as their gradients require: by an optimizer, or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF, element_of, to_coordinates
from gradcheck.result import Cause, Finding, Kind
from gradcheck.training.gradient_changes import GradientPair, clipping

Array = np.ndarray[Any, Any]

OPTIMIZER_UNITS = 64
"""An optimizer's formula in a graph and out of it may differ by so many units of roundoff."""
UNITS = 8
RATE_ROUNDING = ROUNDOFF["float32"]
"""A rate is often held in float32, by people and by TensorFlow's optimizers."""


@dataclass(frozen=True)
class VariableMove:
    """The values of a variable before and after a step."""

    name: str
    before: Array
    after: Array

    @property
    def change(self) -> Array:
        """What was added to the variable, in real coordinates, float64."""
        return to_coordinates(self.after) - to_coordinates(self.before)

    def slack(self, units: float, change: Array) -> Array:
        """The rounding of each coordinate when `change` is added."""
        slack: Array = units * ROUNDOFF[self.before.dtype.name] * (np.abs(to_coordinates(self.before)) + np.abs(change))
        return slack

    def finding(self, expected: Array, requirement: str) -> Finding:
        """A wrong update at the coordinate that is furthest off; `requirement` is a format with {expected}."""
        worst = int(np.argmax(np.abs(self.change - expected)))
        index, part = element_of(worst, self.before.shape, self.before.dtype)
        moved, right = float(self.change[worst]), float(expected[worst])
        required = requirement.format(expected=f"{right:.10g}")
        reason = f"the step moves it by {moved:.10g}; {required}{_ratio(moved, right)}"
        return Finding(Kind.UPDATE, 1, self.name + part, index, None, moved, right, None, None, reason)


def _ratio(moved: float, right: float) -> str:
    if not moved or not right:
        return ""
    ratio = moved / right
    return "; that is the other way" if abs(ratio + 1) < 1e-3 else f"; that is {ratio:.4g} times as much"


def optimizer_findings(moves: Sequence[VariableMove], expected: Sequence[Array], optimizer: str) -> list[Finding]:
    """Wrong updates: variables that end elsewhere than at `expected`, where the optimizer alone takes them."""
    findings = []
    for move, value in zip(moves, expected, strict=True):
        change = to_coordinates(value) - to_coordinates(move.before)
        if not np.all(np.abs(move.change - change) <= move.slack(OPTIMIZER_UNITS, change)):
            requirement = f"{optimizer}, given the same gradients in the same state, moves it by {{expected}}"
            findings.append(move.finding(change, requirement))
    return findings


@dataclass(frozen=True)
class UpdateCheck:
    """The wrong updates of a step, and notes on the right ones."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def check_manual_update(
    moves: Sequence[VariableMove],
    gradients: Sequence[Array | None],
    learning_rate: float | None,
    clip_functions: Sequence[str],
) -> UpdateCheck:
    """Compare moves with -rate * gradient; without a `learning_rate` the rate is estimated from the moves."""
    if not any(np.any(move.change) for move in moves):
        return UpdateCheck()
    pairs = [
        (move, np.zeros(move.before.size) if gradient is None else to_coordinates(gradient))
        for move, gradient in zip(moves, gradients, strict=True)
    ]
    if learning_rate is not None:
        return _at_rate(pairs, learning_rate, clip_functions)
    rates = [(move, _rate(move, gradient)) for move, gradient in pairs if np.any(gradient) and np.any(move.change)]
    findings = [
        move.finding(move.change, "the step moves other variables, and its gradient is not zero")
        for move, gradient in pairs
        if np.any(gradient) and not np.any(move.change)
    ]
    findings += [
        move.finding(-move.change, "that is along its gradient, uphill: {expected} was expected")
        for move, rate in rates
        if rate is not None and rate < 0
    ]
    if findings:
        return UpdateCheck(tuple(findings))
    if any(rate is None for _, rate in rates):
        note = "the update is no multiple of the gradients (momentum?), so that it was not checked; use an optimizer"
        return UpdateCheck(notes=(f"{note}, or give learning_rate=",))
    distinct = sorted({float(f"{rate:.5g}") for _, rate in rates if rate is not None})
    listed = " or ".join(f"{rate:.5g}" for rate in distinct)
    return UpdateCheck(notes=(f"each variable moves by -{listed} times its gradient",) if distinct else ())


def _at_rate(pairs: Sequence[tuple[VariableMove, Array]], rate: float, clip_functions: Sequence[str]) -> UpdateCheck:
    findings = []
    for move, gradient in pairs:
        slack = move.slack(UNITS, rate * gradient) + RATE_ROUNDING * np.abs(rate * gradient)
        if not np.all(np.abs(move.change + rate * gradient) <= slack):
            requirement = f"-learning_rate times its gradient is {{expected}} (learning_rate={rate:g})"
            findings.append(move.finding(-rate * gradient, requirement))
    if not findings:
        return UpdateCheck(notes=(f"each variable moves by -{rate:g} times its gradient",))
    clipped = [
        GradientPair(gradient, -move.change / rate, move.slack(UNITS, rate * gradient).max(initial=0.0) / rate)
        for move, gradient in pairs
    ]
    note = clipping(clipped, clip_functions)
    if note is not None:
        return UpdateCheck(notes=(f"{Cause.CHANGED_AFTERWARDS}: {note}",))
    return UpdateCheck(tuple(findings))


def _rate(move: VariableMove, gradient: Array) -> float | None:
    """The number c for which the move is -c times the (nonzero) gradient, within rounding."""
    size = float(gradient @ gradient)
    rate = -float(move.change @ gradient) / size if size else 0.0
    fits = np.all(np.abs(move.change + rate * gradient) <= move.slack(UNITS, rate * gradient))
    return rate if fits and rate else None
