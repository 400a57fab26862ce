"""Check whether a step updates its variables as the optimizer, or their gradients, require."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF, element_of, to_coordinates
from gradcheck.result import Cause, Finding, Kind
from gradcheck.training.gradient_changes import GradientChange
from gradcheck.typing import Array

HowClipped = Callable[[GradientChange], str | None]
UpdateCheck = tuple[list[Finding], list[str]]
"""The wrong updates of a step, and notes on the correct ones."""

OPTIMIZER_UNITS = 64
"""Units of roundoff by which an optimizer's formula may differ inside and outside of a graph."""
UNITS = 8
RATE_ROUNDING = ROUNDOFF["float32"]
"""Rates are often held in float32, by users and by TensorFlow's optimizers."""


@dataclass(frozen=True)
class VariableMove:
    """The values of a variable before and after a step."""

    name: str
    before: Array
    after: Array

    @property
    def change(self) -> Array:
        """The change of the variable, in real coordinates, float64."""
        return to_coordinates(self.after) - to_coordinates(self.before)

    def slack(self, units: float, change: Array) -> Array:
        """The rounding of each coordinate when `change` is added."""
        slack: Array = units * ROUNDOFF[self.before.dtype.name] * (np.abs(to_coordinates(self.before)) + np.abs(change))
        return slack

    def is_change(self, expected: Array, units: float, relative: float = 0.0) -> bool:
        """Whether `expected` was added, within this many units of roundoff and this `relative` error."""
        return bool(np.all(np.abs(self.change - expected) <= self.slack(units, expected) + relative * np.abs(expected)))

    def rate(self, gradient: Array) -> float | None:
        """The nonzero rate for which the change is -rate times the gradient, within rounding; None if there is none."""
        size = float(gradient @ gradient)
        rate = -float(self.change @ gradient) / size if size else 0.0
        return rate if rate and self.is_change(-rate * gradient, UNITS) else None

    def finding(self, expected: Array, requirement: str) -> Finding:
        """The finding for a wrong update, at its worst coordinate; `requirement` is a format with {expected}."""
        worst = int(np.argmax(np.abs(self.change - expected)))
        index, part = element_of(worst, self.before.shape, self.before.dtype)
        moved, right = float(self.change[worst]), float(expected[worst])
        reason = f"the step moves it by {moved:.10g}; {requirement.format(expected=f'{right:.10g}')}"
        if moved and right:
            ratio = moved / right
            reason += "; the opposite direction" if abs(ratio + 1) < 1e-3 else f"; that is {ratio:.4g} times as much"
        return Finding(Kind.UPDATE, 1, self.name + part, index, None, moved, right, None, None, reason)


def optimizer_findings(moves: Sequence[VariableMove], expected: Sequence[Array], optimizer: str) -> list[Finding]:
    """The findings for variables that do not end at `expected`, where the optimizer alone takes them."""
    requirement = f"{optimizer}, given the same gradients in the same state, moves it by {{expected}}"
    changes = [VariableMove(move.name, move.before, value).change for move, value in zip(moves, expected, strict=True)]
    return [
        move.finding(change, requirement)
        for move, change in zip(moves, changes, strict=True)
        if not move.is_change(change, OPTIMIZER_UNITS)
    ]


def check_manual_update(
    moves: Sequence[VariableMove],
    gradients: Sequence[Array | None],
    learning_rate: float | None,
    clip_functions: Sequence[str],
    clipped: HowClipped,
) -> UpdateCheck:
    """Compare moves with -rate * gradient; without a `learning_rate` the rate is estimated from the moves, if any.

    `clipped` describes how gradients that went through the `clip_functions` were clipped, if they were.
    """
    if learning_rate is None and not any(np.any(move.change) for move in moves):
        return [], []
    pairs = [(move, _gradient(move, gradient)) for move, gradient in zip(moves, gradients, strict=True)]
    if learning_rate is not None:
        return _at_rate(pairs, learning_rate, clip_functions, clipped)
    findings: list[Finding] = []
    rates: list[float | None] = []
    for move, gradient in pairs:
        if not np.any(gradient):
            continue
        rate = move.rate(gradient)
        if not np.any(move.change):
            findings.append(move.finding(move.change, "the step moves other variables, and its gradient is not zero"))
        elif rate is not None and rate < 0:
            uphill = "that is along its gradient, uphill: {expected} was expected"
            findings.append(move.finding(-move.change, uphill))
        else:
            rates.append(rate)
    if findings or not rates:
        return findings, []
    if None in rates:
        note = "the update is not proportional to the gradients (momentum?), and was not checked; use an optimizer"
        return [], [f"{note}, or give learning_rate="]
    listed = " or ".join(f"{rate:.5g}" for rate in sorted({float(f"{rate:.5g}") for rate in rates if rate is not None}))
    return [], [f"each variable moves by -{listed} times its gradient"]


def used_by(moves: Sequence[VariableMove], gradients: Sequence[Array | None], rate: float) -> GradientChange | None:
    """The change from the gradients to those that the moves imply at a rate."""
    pairs = list(zip(moves, map(_gradient, moves, gradients), strict=True))
    error = [move.slack(UNITS, rate * gradient).max(initial=0.0) / rate for move, gradient in pairs]
    used = [-move.change / rate for move in moves]
    return GradientChange.between([gradient for _, gradient in pairs], used, error)


def _gradient(move: VariableMove, gradient: Array | None) -> Array:
    """A gradient in real coordinates, zeros for None."""
    return np.zeros(move.change.size) if gradient is None else to_coordinates(gradient)


def _at_rate(
    pairs: Sequence[tuple[VariableMove, Array]], rate: float, clip_functions: Sequence[str], how: HowClipped
) -> UpdateCheck:
    requirement = f"-learning_rate times its gradient is {{expected}} (learning_rate={rate:g})"
    wrong = [pair for pair in pairs if not pair[0].is_change(-rate * pair[1], UNITS, RATE_ROUNDING)]
    if not wrong:
        return [], [f"each variable moves by -{rate:g} times its gradient"]
    findings = [move.finding(-rate * gradient, requirement) for move, gradient in wrong]
    stays = [not np.any(move.change) for move, _ in wrong]
    if all(stays) or (any(stays) and not clip_functions):  # a forgotten move looks like one that was clipped at 0
        return findings, []
    change = used_by([move for move, _ in pairs], [gradient for _, gradient in pairs], rate)
    clipped = change and how(change)
    return ([], [f"{Cause.CHANGED_AFTERWARDS}: {clipped}"]) if clipped else (findings, [])
