"""Whether the variables move as the gradients say: by an optimizer, or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import element_of, to_coordinates
from gradcheck.autodiff.precision import ROUNDOFF
from gradcheck.finding import Finding, Kind
from gradcheck.stepping.changes import AFTERWARDS, Pair, clipping

Array = np.ndarray[Any, Any]

OPTIMIZER_UNITS = 64
"""An optimizer's formula in a graph and out of it may differ by so many units of roundoff."""
UNITS = 8
RATE_ROUNDING = ROUNDOFF["float32"]
"""A rate is a number that many people, and TensorFlow's optimizers, hold in float32."""


@dataclass(frozen=True)
class Move:
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


def by_optimizer(moves: Sequence[Move], again: Sequence[Array], optimizer: str) -> list[Finding]:
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
    moves: Sequence[Move], gradients: Sequence[Array | None], learning_rate: float | None, clips: Sequence[str]
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


def _at_rate(moves: Sequence[Move], steps: Sequence[Array], rate: float, clips: Sequence[str]) -> ByHand:
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


def _rate(move: Move, gradient: Array) -> float | None:
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
