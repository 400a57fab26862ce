"""What a process knows of the test that is hunting in it: its budget, its failures, who is told before a graph runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import SkipTest

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.hunt.graph import Graph


class Listener(Protocol):
    """Is told of every graph before it runs, and when none does any more."""

    def before(self, operation: str, order: int, mode: Mode, graph: Graph, /) -> None:
        """A graph is about to run, as an example of `operation` at an order in a mode."""

    def rest(self) -> None:
        """Nothing is running."""


@dataclass
class Monitor:
    """The state of a hunting test: until when it draws (a time of `clock`), how long it shrinks after it has failed.

    `failed` has the examples that failed (graphs, programs of tapes) and their exceptions, `resolutions` the worst
    relative resolution of each operation and order.
    """

    listeners: list[Listener] = field(default_factory=list)
    deadline: float = math.inf
    shrink_seconds: float = math.inf
    seed: object = None
    clock: Callable[[], float] = time.time
    subject: tuple[str, int, Mode] = ("(no operation)", 1, PLAIN)
    failed: dict[Any, Any] = field(default_factory=dict)
    resolutions: dict[tuple[str, int], float] = field(default_factory=dict)
    _shrink_deadline: float = math.inf

    @property
    def expired(self) -> bool:
        """Whether the time for hunting, or for shrinking what failed, is over."""
        return self.clock() >= min(self.deadline, self._shrink_deadline)

    def begin(self, operation: str, order: int, mode: Mode = PLAIN) -> None:
        """An example of an operation is about to be drawn or checked."""
        self.subject = operation, order, mode

    def before(self, graph: Callable[[], Graph]) -> None:
        """A graph, whole or not, is about to run; it is made only if somebody listens."""
        if self.listeners:
            made = graph()
            for listener in self.listeners:
                listener.before(*self.subject, made)

    def passes_over(self, example: Any) -> bool:
        """Whether an example is not checked any more: the time is over, and others have failed.

        Those are checked on, so that Hypothesis comes to its end with what it has. Raises unittest.SkipTest where none
        has failed; not before it draws, as Hypothesis takes a test that draws less than before for a flaky one.
        """
        if not self.expired or example in self.failed:
            return False
        if not self.failed:
            raise SkipTest("the time for hunting is over")
        return True

    def fail(self, example: Any, failure: Any) -> None:
        """An example has failed; the first failure of a test starts the time for shrinking."""
        if not self.failed:
            self._shrink_deadline = self.clock() + self.shrink_seconds
        self.failed[example] = failure

    def resolve(self, resolution: float) -> None:
        """What an example would have noticed, relative to the largest derivative."""
        operation, order, _ = self.subject
        if math.isfinite(resolution):
            self.resolutions[operation, order] = max(float(resolution), self.resolutions.get((operation, order), 0.0))

    def rest(self) -> None:
        """A test has ended."""
        for listener in self.listeners:
            listener.rest()
        self.failed.clear()
        self.resolutions.clear()
        self._shrink_deadline = math.inf


_monitor = Monitor()


def current() -> Monitor:
    """The monitor of this process."""
    return _monitor


def install(monitor: Monitor) -> Monitor:
    """Puts another monitor in its place, and returns the one that was there."""
    global _monitor
    before, _monitor = _monitor, monitor
    return before
