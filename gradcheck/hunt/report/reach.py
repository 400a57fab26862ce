"""How well each operation was tested at each order, from the events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.coverage import COMPOSED, ENOUGH, KINK
from gradcheck.hunt.events import OperationDone
from gradcheck.hunt.report.run import HuntRun
from gradcheck.result import Verdict

MOST = 0.5
"""An operation that lost more of its examples than this share was hardly tested."""


class Grade(Enum):
    """How well; the value is the colour of the cell."""

    GREEN = "green"
    YELLOW = "yellow"
    RED = "red"
    KNOWN = "known"
    NONE = "none"


@dataclass(frozen=True)
class Reach:
    """One operation at one order: `compared` examples with a verdict, `lost` without (inconclusive, composed kinks).

    `rejected` of `attempts` graphs were no valid example. `reason` says why it is not green.
    """

    operation: str
    order: int
    grade: Grade
    compared: int = 0
    lost: int = 0
    attempts: int = 0
    rejected: int = 0
    resolution: float | None = None
    reason: str = ""


def reaches(run: HuntRun, left_out: Mapping[tuple[str, int], str] | None = None) -> tuple[Reach, ...]:
    """Every operation of the catalogue at both orders, in the catalogue's order.

    `left_out` maps (operation, order) to the known defect that leaves it no use. Operations that the run was not asked
    for, and orders that an operation does not have, have the grade NONE.
    """
    asked = {name for started in run.started for name in started.operations} or set(CATALOGUE)
    done = {(each.operation, each.order): each for each in run.operations}
    known = left_out or {}
    return tuple(
        _reach(name, order, done.get((name, order)), known.get((name, order)), name in asked and order in spec.orders)
        for name, spec in CATALOGUE.items()
        for order in (1, 2)
    )


def _reach(name: str, order: int, done: OperationDone | None, defect: str | None, asked: bool) -> Reach:
    if done is None:
        if defect is not None:
            return Reach(name, order, Grade.KNOWN, reason=f"left out: {defect}")
        if not asked:
            reason = "not asked for" if order in CATALOGUE[name].orders else "has no derivative of this order"
            return Reach(name, order, Grade.NONE, reason=reason)
        return Reach(name, order, Grade.RED, reason="never reached")
    compared = sum(done.counts.get(outcome, 0) for outcome in (Verdict.AGREE, KINK, Verdict.MISMATCH))
    lost = sum(done.counts.get(outcome, 0) for outcome in (Verdict.INCONCLUSIVE, COMPOSED))
    grade, reason = _grade(done, compared, lost)
    return Reach(name, order, grade, compared, lost, done.attempts, done.rejected, done.resolution, reason)


def _grade(done: OperationDone, compared: int, lost: int) -> tuple[Grade, str]:
    if not compared:
        return Grade.RED, "never compared"
    if lost > MOST * (compared + lost):
        return Grade.YELLOW, "mostly inconclusive"
    if done.rejected > MOST * done.attempts:
        return Grade.YELLOW, "mostly rejected"
    if compared < ENOUGH:
        return Grade.YELLOW, f"fewer than {ENOUGH} comparisons"
    return Grade.GREEN, ""
