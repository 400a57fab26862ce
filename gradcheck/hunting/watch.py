"""What a process that hunts watches: what is running, what failed, when time is up. Nothing, unless asked to."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradcheck.graphs.graph import Graph
from gradcheck.hunting.watchdog import Watchdog

if TYPE_CHECKING:  # it needs fcntl, which not every system has
    from gradcheck.hunting.recording import Recorder


@dataclass
class Watch:
    """The state of a test that hunts. `deadline` is a time.time(); `failed` has the graphs that failed, and how.

    `resolutions` has the worst relative resolution of each operation and order.
    """

    recorder: Recorder | None = None
    watchdog: Watchdog | None = None
    deadline: float = math.inf
    seed: object = None
    subject: tuple[str, int] = ("(no operation)", 1)
    failed: dict[Graph, Any] = field(default_factory=dict)
    resolutions: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.time() >= self.deadline

    def begin(self, operation: str, order: int) -> None:
        """An example of an operation is about to be drawn."""
        self.subject = operation, order

    def runs(self, graph: Graph) -> None:
        """A graph, whole or not, is about to be run."""
        if self.watchdog is not None:
            self.watchdog.feed()
        if self.recorder is not None:
            self.recorder.note(*self.subject, graph)

    def resolved(self, resolution: float) -> None:
        """What an example would have noticed, relative to the largest derivative."""
        if math.isfinite(resolution):
            self.resolutions[self.subject] = max(resolution, self.resolutions.get(self.subject, 0.0))

    def rest(self) -> None:
        """A test has ended."""
        if self.watchdog is not None:
            self.watchdog.rest()
        if self.recorder is not None:
            self.recorder.rest()
        self.failed.clear()
        self.resolutions.clear()


_watch = Watch()


def current() -> Watch:
    """The watch of this process."""
    return _watch


def install(watch: Watch) -> Watch:
    """Puts another watch in its place, and returns the one that was there."""
    global _watch
    before, _watch = _watch, watch
    return before
