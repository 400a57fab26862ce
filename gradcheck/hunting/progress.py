"""How far a hunt has come: tests, examples a second, the time that is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Progress:
    """Counts tests as they end. `total` is 0 while it is not known; `deadline` is a time.time(), or infinite."""

    deadline: float
    total: int = 0
    done: int = 0
    examples: int = 0
    findings: int = 0
    began: float = field(default_factory=time.time)

    def line(self, now: float | None = None) -> str:
        """One line for a terminal.

        >>> Progress(deadline=float("inf"), total=40, done=10, examples=500, began=0.0).line(now=20.0)
        'gradcheck: 10 of 40 tests, 500 examples, 25 a second, about 1 min left'
        """
        now = time.time() if now is None else now
        passed = max(now - self.began, 1e-9)
        parts = [f"{self.done} of {self.total} tests" if self.total else f"{self.done} tests"]
        parts += [f"{self.examples:,} examples", f"{self.examples / passed:.0f} a second"]
        if self.findings:
            parts.append(f"{self.findings} new")
        rest = passed / self.done * (self.total - self.done) if self.done and self.total else float("inf")
        rest = min(rest, max(0.0, self.deadline - now))
        if rest < float("inf"):
            parts.append(f"about {_time(rest)} left")
        return "gradcheck: " + ", ".join(parts)


def _time(seconds: float) -> str:
    if seconds < 50:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
