"""The configuration of a run: which tests and operations, how long, where its results go."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

OWN = (
    "One of your own has to be registered by @gradcheck.operation, "
    "in a module that conftest.py or a collected test imports"
)
FORM = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """Share `number` of `count`. A test's share depends on its name alone, so that it stays when others come or go.

    >>> [str(Shard(number, 3)) for number in (1, 2, 3) if Shard(number, 3).takes("test_sin")]
    ['1/3']
    """

    number: int = 1
    count: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """The shard that "K/N" names, K from 1 to N; raises ValueError."""
        match = FORM.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            raise ValueError(f"shard was {text!r}; expected K/N with K from 1 to N, such as 1/4")
        return Shard(int(match[1]), int(match[2]))

    def takes(self, name: str) -> bool:
        """Whether the test of this name is in the share; it is in exactly one of all N."""
        data = name.encode(errors="surrogatepass")  # the name of a folder need not be UTF-8
        return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def patterns_of(text: str) -> tuple[str, ...]:
    """The patterns that commas or spaces separate; raises ValueError where there are none."""
    wanted = tuple(text.replace(",", " ").split())
    if not wanted:
        raise ValueError(f"operations were {text!r}; expected names or globs, such as sin,reduce_*")
    return wanted


def selected(patterns: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, in their order, that match one of the patterns, which commas or spaces separate.

    Raises ValueError for a pattern that matches none, and names the nearest.

    >>> selected("sin*,exp", ["exp", "sin", "sinh", "cos"])
    ('exp', 'sin', 'sinh')
    """
    known = tuple(names)
    for pattern in patterns_of(patterns):
        if not matching((pattern,), known):
            near = get_close_matches(pattern, known, n=1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"operations were {patterns!r}; {pattern!r} matches none of the catalogue{hint} {OWN}")
    return matching(patterns_of(patterns), known)


def matching(patterns: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names, in their order, that match one of the patterns."""
    wanted = tuple(patterns)
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted))


EVENTS, RUNNING, GRADIENTS = "events", "running", "gradients"
RESERVE, LEAST_RESERVE, MOST_RESERVE = 0.04, 3.0, 60.0


@dataclass(frozen=True)
class RunConfiguration:
    """`name` is the run's, `folder` that of its reports; `operations` None means all of the catalogue.

    `limit` is the seconds an example may take, `shrink_seconds` those that a test may take from its first failure on,
    `deadline` a time.time() at which drawing ends, `schedule` the numbers of the last runs that finished each test,
    empty without a budget. `reach`: whether to record which of TensorFlow's gradients run.
    """

    name: str
    folder: Path
    shard: Shard
    operations: tuple[str, ...] | None
    limit: float
    shrink_seconds: float
    minutes: float | None
    deadline: float
    schedule: Mapping[str, int]
    seed: str
    reach: bool = False

    @property
    def events(self) -> Path:
        """The folder of the events of all runs."""
        return self.folder / EVENTS

    @property
    def pattern(self) -> str:
        """The glob pattern of this run's event files."""
        return f"{self.name}-*.jsonl"

    @property
    def gradients(self) -> Path:
        """The folder in which all processes record which of TensorFlow's gradients they ran."""
        return self.folder / GRADIENTS

    @property
    def running(self) -> Path:
        """The folder in which all processes record what they are running."""
        return self.folder / RUNNING

    def record(self, worker: str) -> Path:
        """The file with the graph that a worker is running."""
        return self.running / f"{self.name}-{worker}.json"


def draw_deadline(minutes: float | None, start: float) -> float:
    """The time at which drawing ends, a little before the budget does, so that the run can end within it.

    >>> draw_deadline(10.0, start=0.0)
    576.0
    """
    if minutes is None:
        return math.inf
    seconds = 60 * minutes
    return start + seconds - min(max(RESERVE * seconds, LEAST_RESERVE), MOST_RESERVE)


SHRINKING, SHARE = 60.0, 0.1


def shrinking(minutes: float | None) -> float:
    """The seconds that a test may shrink by default: SHRINKING, but at most SHARE of a budget, which others need, too.

    >>> shrinking(None), shrinking(5.0)
    (60.0, 30.0)
    """
    return SHRINKING if minutes is None else min(SHRINKING, SHARE * 60 * minutes)
