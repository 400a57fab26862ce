"""One source of one derivative that went wrong, with all that the rules look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck.explanation.paths import Cut, Paths
from gradcheck.explanation.places import Line, place_of
from gradcheck.explanation.record import CodeRecord, DerivativeCall, Event, Origin, RecordedOperation, TapeChange
from gradcheck.result import Cause, Diagnosis, Place


@dataclass(frozen=True)
class Loss:
    """What one element of a gradient is (None: no gradient) and what it should be; `covered` under a tape around all.

    `steps`: small moves of the source do not move the target, larger ones do. `element` names it, unless it is all.
    """

    given: float | None
    wanted: float | None
    covered: float | None = None
    steps: bool = False
    element: str = ""

    @property
    def lost(self) -> float | None:
        """The part that is missing."""
        return None if self.wanted is None else self.wanted - (self.given or 0.0)

    @property
    def words(self) -> str:
        """How much is lost, as a sentence begins."""
        if not self.lost or self.wanted is None or self.steps:
            return "TensorFlow sees no path"
        lost, wanted = number(self.lost), number(self.wanted)
        at = f" at {self.element}" if self.element else ""
        return f"all of it is lost, {lost}{at}" if self.given is None else f"{lost} of {wanted} is lost{at}"

    @property
    def covering(self) -> str:
        """What a tape around everything gives, as a sentence ends."""
        return "" if self.covered is None else f"; a tape around the whole computation gives {number(self.covered)}"


@dataclass(frozen=True)
class Case:
    """A derivative's source by its name, the path from it to the targets, and the cuts on that path, in order.

    `restored`: a tape around everything would give the right derivative, so that the cuts are those of the call's own
    tape; otherwise they are those that no tape can mend.
    """

    record: CodeRecord
    call: DerivativeCall
    name: str
    origin: Origin
    loss: Loss
    path: Paths
    cuts: Sequence[Cut]
    restored: bool

    @property
    def events(self) -> Sequence[Event]:
        """What happened before the derivative was asked for."""
        return self.record.events[: self.call.position]

    @property
    def first(self) -> Cut:
        """The first cut."""
        return self.cuts[0]

    def turns(self, change: str) -> list[tuple[int, Line | None]]:
        """When (after how many operations) and where the call's tape was opened, closed or reset."""
        found, count = [], 0
        for event in self.events:
            count += isinstance(event, RecordedOperation)
            if isinstance(event, TapeChange) and event.tape == self.call.tape and event.change == change:
                found.append((count, event.line))
        return found

    def diagnosis(self, cause: Cause, evidence: str, remedy: str, where: Place | None = None) -> Diagnosis:
        """The diagnosis at a place (that of the first cut, unless another one is given)."""
        lost = None if self.loss.steps else self.loss.lost
        return Diagnosis(cause, evidence, remedy, where or place(self.first.operation), lost)


def place(operation: RecordedOperation) -> Place | None:
    """The line that ran an operation."""
    return place_of(operation.line, operation.name)


def at(line: Line | None) -> str:
    """A line as a sentence refers to it, such as ` at train.py:12`; empty where it is not known."""
    return "" if line is None else f" at {_short(line)}"


def code_at(line: Line | None) -> str:
    """The text of a line in quotes, with where it stands."""
    found = place_of(line)
    return "the step" if found is None or line is None else f"`{found.code}` ({_short(line)})"


def _short(line: Line) -> str:
    # The whole path stands beside it, where the path is cut.
    return f"{Path(line[0]).name}:{line[1]}"


def number(value: float) -> str:
    """A number as people read it."""
    return f"{value:.4g}"
