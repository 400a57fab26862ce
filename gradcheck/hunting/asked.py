"""What was asked of a run, the same in all of its processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradcheck.hunting.shard import Shard

EVENTS = "events"
RESERVE, LEAST_RESERVE, MOST_RESERVE = 0.04, 3.0, 60.0


@dataclass(frozen=True)
class Asked:
    """`name` is the run's, `folder` that of its reports; `operations` None means all of the catalogue.

    `limit` is the seconds an example may take, `deadline` a time.time() at which drawing ends, `turns` the numbers of
    the last runs that finished each test, empty without a budget.
    """

    name: str
    folder: Path
    shard: Shard
    operations: tuple[str, ...] | None
    limit: float
    minutes: float | None
    deadline: float
    turns: Mapping[str, int]
    seed: str

    @property
    def events(self) -> Path:
        """The folder of the events of all runs."""
        return self.folder / EVENTS

    @property
    def pattern(self) -> str:
        """What the names of this run's files of events look like."""
        return f"{self.name}-*.jsonl"


def deadline(minutes: float | None, start: float) -> float:
    """The time at which drawing ends, a little before the budget does, so that the run can end within it.

    >>> deadline(10.0, start=0.0)
    576.0
    """
    if minutes is None:
        return math.inf
    seconds = 60 * minutes
    return start + seconds - min(max(RESERVE * seconds, LEAST_RESERVE), MOST_RESERVE)
