"""The state of the test that is hunting in a process: its budget, its failures, and listeners to running graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import SkipTest

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.graph import Graph


class Listener(Protocol):
    """Is notified before a graph runs, and when none runs any more."""

    def before(self, operation: str, order: int, mode: Mode, graph: Graph, /) -> None:
        """Called when a graph is about to run, as an example of `operation` at an order in a mode."""

    def rest(self) -> None:
        """Called when nothing is running."""


@dataclass
class Monitor:
    """The state of a hunting test: until when it draws (a time of `clock`), and how long it shrinks after a failure.

    `failed` maps the examples that failed (graphs, programs of tapes) to their exceptions, `resolutions` each operation
    and order to its worst relative resolution.
    """

    listeners: list[Listener] = field(default_factory=list)
    deadline: float = math.inf
    shrink_seconds: float = math.inf
    seed: object = None
    clock: Callable[[], float] = time.time
    subject: tuple[str, int, Mode] = ("(no operation)", 1, PLAIN)
    failed: dict[Any, Any] = field(default_factory=dict)
    resolutions: dict[tuple[str, int], float] = field(default_factory=dict)
    visit: int | None = None
    """The number of the visit to the test, in a run with a budget."""
    _shrink_deadline: float = math.inf
    _skips: bool = False
    _turn: Mode | None = None

    @property
    def expired(self) -> bool:
        """Whether the time for hunting, or for shrinking failures, is over."""
        return self.clock() >= min(self.deadline, self._shrink_deadline)

    def begin(self, operation: str, order: int, mode: Mode = PLAIN) -> None:
        """Sets the operation, order and mode of the next example, before it is drawn or checked."""
        self.subject = operation, order, mode

    def before(self, graph: Callable[[], Graph]) -> None:
        """Tells the listeners that a graph, complete or not, is about to run; it is built only if there are any."""
        if self.listeners:
            made = graph()
            for listener in self.listeners:
                listener.before(*self.subject, made)

    def passes_over(self, example: Any) -> bool:
        """Whether to skip an example, because the time is over and others have failed.

        Failed examples are still checked, so that Hypothesis can finish. Raises unittest.SkipTest where none has
        failed, but only after drawing, since Hypothesis takes a test that draws less than before for a flaky one.
        """
        skips, self._skips = self._skips, False
        if skips:
            return True
        if not self.expired or example in self.failed:
            return False
        if not self.failed:
            raise SkipTest("the time for hunting is over")
        return True

    def begin_visit(self, number: int) -> None:
        """Begins a visit to a test; its first example, the smallest one, is passed over in all but number 1."""
        self.visit, self._skips = number, number != 1

    def in_turn(
        self, ways: Sequence[tuple[Mode, int]], looks: Mapping[str, float]
    ) -> Callable[[tuple[Mode, int]], bool]:
        """A test of which ways of an operation are drawn: in a visit those in the mode with the fewest looks, else all.

        The mode is the same throughout a visit, so that a failure shrinks in it.
        """
        if self.visit is not None and self._turn is None:
            self._turn = min((mode for mode, _ in ways), key=lambda mode: looks[str(mode)])
        return lambda way: self._turn in (None, way[0])

    def fail(self, example: Any, failure: Any) -> None:
        """Records that an example has failed; the first failure of a test starts the time for shrinking."""
        if not self.failed:
            self._shrink_deadline = self.clock() + self.shrink_seconds
        self.failed[example] = failure

    def resolve(self, order: int, resolution: float) -> None:
        """Records the resolution of an example at an order, relative to the largest derivative."""
        operation, _, _ = self.subject
        if math.isfinite(resolution):
            self.resolutions[operation, order] = max(float(resolution), self.resolutions.get((operation, order), 0.0))

    def rest(self) -> None:
        """Resets the state at the end of a test."""
        for listener in self.listeners:
            listener.rest()
        self.failed.clear()
        self.resolutions.clear()
        self._shrink_deadline = math.inf
        self._skips, self.visit, self._turn = False, None, None


_monitor = Monitor()


def current() -> Monitor:
    """The monitor of this process."""
    return _monitor


def install(monitor: Monitor) -> Monitor:
    """Puts another monitor in its place, and returns the one that was there."""
    global _monitor
    before, _monitor = _monitor, monitor
    return before
