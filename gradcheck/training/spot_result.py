"""The result of a spot check: a gradient compared with differences of the loss along a few directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck.autodiff.sources import variable_of
from gradcheck.diagnosis.unconnected import unconnected_notes
from gradcheck.result import NoTruth, Reason, Result, Verdict
from gradcheck.tracing.record import CodeRecord
from gradcheck.verdict.summary import undecided


@dataclass(frozen=True)
class SpotCheck(NoTruth):
    """A gradient compared with differences of the loss along a few directions.

    `error` is the largest difference between the two, `resolution` the smallest error that would have been noticed,
    both relative to sum |gradient * direction|, and of the worst direction where one is wrong; NaN where nothing could
    be compared. `result` is the verdict, that of a whole `check` where the few directions raised a suspicion. `finite`
    is False where the gradient, or a variable, held NaN or infinity.
    """

    error: float
    resolution: float
    result: Result
    finite: bool = True

    @property
    def verdict(self) -> Verdict:
        """The verdict of `result`."""
        return self.result.verdict

    def noted(self, variables: Mapping[str, Any], recorded: Callable[[], CodeRecord]) -> SpotCheck:
        """Add a note on each unconnected variable; `recorded` returns the record of a run that takes the gradient."""
        named = [(name, variables[name]) for name in self.result.unconnected]
        order = self.result.orders[1]
        order = replace(order, notes=(*order.notes, *unconnected_notes(recorded, named, "the loss")))
        return replace(self, result=replace(self.result, orders={1: order}))

    def looked_into(self, closer: Result) -> SpotCheck:
        """Return the same with the result of a whole check, which confirms the suspicion, or leaves it undecided.

        An agreement does not refute it: errors of many entries cancel in the check's random combinations.
        """
        order = closer.orders[1]
        if order.verdict == Verdict.AGREE:
            note = (
                "along one direction the gradient disagrees with the differences of the loss, but the random "
                "combinations that gradcheck.check compares do not show which entries are wrong: call it with more "
                "probes=, or with fewer variables at once"
            )
            entries = order.compared + order.inconclusive
            doubted = replace(order, verdict=Verdict.INCONCLUSIVE, reasons=(Reason.ILL_CONDITIONED,))
            order = replace(doubted, compared=0, inconclusive=entries, notes=(*order.notes, note))
        return replace(self, result=replace(closer, orders={1: order}, unconnected=self.result.unconnected))

    def __str__(self) -> str:
        measured = f"error {self.error:.1e}, an error of {self.resolution:.1e} would have been noticed"
        return f"{self.result}\n{measured if np.isfinite(self.error) else 'no direction could be compared'}"


def nothing_compared(reason: Reason, note: str, variables: Sequence[Any], *, finite: bool = True) -> SpotCheck:
    """The result where the loss or its variables leave nothing to compare; the note says why."""
    unique = {id(held): held.shape.num_elements() for held in map(variable_of, variables) if held is not None}
    order = replace(undecided(1, reason, note), inconclusive=sum(unique.values()))
    return SpotCheck(float("nan"), float("nan"), Result({1: order}), finite)
