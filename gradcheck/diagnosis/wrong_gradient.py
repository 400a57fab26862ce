"""A source whose gradient is wrong, with the evidence for the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck.diagnosis.paths import DependencyPath, PathBreak
from gradcheck.tracing.record import CallSource, RecordedEvent, RecordedOperation, TapeChange
from gradcheck.tracing.user_code import at


@dataclass(frozen=True)
class LostPart:
    """One element of a gradient (None: no gradient), its expected value, and its value under a `covering` tape.

    That tape is around the whole computation. `stepwise`: small moves of the source do not change the target, larger
    ones do. `element` names it, unless it is the only one.
    """

    given: float | None
    expected: float | None
    covering: float | None = None
    stepwise: bool = False
    element: str = ""

    @property
    def size(self) -> float | None:
        """The part that is missing."""
        return None if self.expected is None or self.stepwise else self.expected - (self.given or 0.0)

    @property
    def of_the_whole(self) -> bool:
        """Whether what is left is a part of the expected value, with its sign, or nothing."""
        return bool(self.expected and self.size) and 0 < (self.size or 0.0) / (self.expected or 1.0) <= 1

    @property
    def summary(self) -> str:
        """The size of the loss, as the beginning of a sentence.

        >>> LostPart(1.0, 4.0).summary, LostPart(-1.0, 4.0).summary
        ('3 of 4 is lost', '5 is lost, which leaves -1 instead of 4')
        """
        if not self.size or self.expected is None:
            return "TensorFlow sees no path"
        at = f" at {self.element}" if self.element else ""
        if self.given is None:
            return f"all of it is lost, {self.size:.4g}{at}"
        if self.of_the_whole:
            return f"{self.size:.4g} of {self.expected:.4g} is lost{at}"
        return f"{self.size:.4g} is lost, which leaves {self.given:.4g} instead of {self.expected:.4g}{at}"

    @property
    def remedied(self) -> str:
        """The value under a tape around everything, as the end of a sentence."""
        return "" if self.covering is None else f"; a tape around the whole computation gives {self.covering:.4g}"


@dataclass(frozen=True)
class WrongGradient:
    """A source, the path from it to the targets of its call, and the breaks of that path, in order.

    `wider_tape_helps`: a tape around everything would give the correct derivative, and the breaks are those for the
    call's own tape; otherwise they are those that no tape can fix.
    """

    source: CallSource
    lost: LostPart
    path: DependencyPath
    breaks: Sequence[PathBreak]
    wider_tape_helps: bool

    @property
    def events(self) -> Sequence[RecordedEvent]:
        """The events before the derivative was taken."""
        return self.source.record.before(self.source.call)

    @property
    def operations(self) -> list[RecordedOperation]:
        """The operations on the path."""
        return [self.source.record.operations[number] for number in self.path.operations]

    @property
    def first(self) -> RecordedOperation:
        """The operation at the first break."""
        return self.breaks[0].operation

    def tape_changes(self, change: str) -> list[TapeChange]:
        """The events in which the call's tape was "opened", "closed" or "reset"."""
        changes = [event for event in self.events if isinstance(event, TapeChange) and event.change == change]
        return [event for event in changes if event.tape == self.source.call.tape]

    @property
    def opening(self) -> str:
        """The line on which the call's tape was opened, as a participle."""
        opened = self.tape_changes("opened")
        return f"opened{at(opened[0].line)}" if opened else "never opened"
