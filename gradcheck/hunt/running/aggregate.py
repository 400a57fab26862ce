"""A finding as the terminal mentions it: plain data, which a worker can send to its controller."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcheck import files
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.known_graphs import left_out
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.report.writer import write_run
from gradcheck.hunt.running.configuration import RunConfiguration


def mention(discovery: GraphFinding, files: Iterable[Path]) -> dict[str, Any]:
    """What was found, and the files that say more."""
    signature = discovery.signature
    return {
        "operation": signature.operation,
        "order": signature.order,
        "kind": signature.kind.value,
        "name": discovery.name,
        "files": [str(path) for path in files],
    }


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


def write_overview(run: HuntRun, folder: Path) -> Path:
    """Writes index.html and summary.md of what a run's processes told into a folder, and returns the former's path.

    Raises OSError where the folder cannot be written to.
    """
    releases = {started.environment.tensorflow for started in run.started}
    return write_run(run, folder, left_out(*releases))[0]


FORMAT = "gradcheck turns"
VERSION = 1
LIMIT = 10_000_000


def load(path: Path) -> dict[str, int]:
    """For each test, the number of the last run that finished it; empty where there is no file yet.

    Raises ValueError, which says what to do, for anything else in its place.
    """
    try:
        data = json.loads(files.read(path, LIMIT))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(_refusal(path, str(error))) from None
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise ValueError(_refusal(path, ascii(data)[:80]))
    turns = data.get("turns")
    if not isinstance(turns, dict) or not all(type(run) is int and run > 0 for run in turns.values()):
        raise ValueError(_refusal(path, ascii(turns)[:80]))
    return turns


def save(path: Path, done: Iterable[str]) -> None:
    """Gives the tests that were finished the number of a new run, later than all before.

    Raises ValueError as `load` does, and OSError where nothing can be written.
    """
    turns = load(path)
    latest = max(turns.values(), default=0) + 1
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "turns": {**turns, **dict.fromkeys(done, latest)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def _refusal(path: Path, given: str) -> str:
    return f"{path}: not the turns of earlier runs: {given}. Delete the file; all tests then have an equal turn"


if TYPE_CHECKING:
    from gradcheck.hunt.coverage import Coverage
    from gradcheck.hunt.events import Crash, Hang, Journal
    from gradcheck.hunt.report.run import HuntRun

TURNS, RUNNING = "turns.json", "running"
STALE = 3600.0


class Aggregate:
    """Adds up what the tests told. `casualties` are graphs that ended a process, `remarks` what else is to be said."""

    def __init__(self, asked: RunConfiguration) -> None:
        self.asked = asked
        self.progress = Progress(asked.deadline)
        self.findings: dict[str, dict[str, Any]] = {}
        self.casualties: dict[str, Crash | Hang] = {}
        self.remarks: dict[str, None] = {}
        self.cut_short = False
        self.page: Path | None = None
        self._outcomes: list[list[Any]] = []
        self._finished: set[str] = set()
        self._journal: Journal | None = None

    def add(self, nodeid: str, told: dict[str, Any], *, skipped: bool) -> None:
        """What a hunting test told when it ended; `skipped` if the time was over first."""
        self.cut_short |= skipped
        outcomes = told.get("outcomes", [])
        self._outcomes += outcomes
        self.progress.examples += sum(count for *_, count in outcomes)
        self.findings.update({finding["name"]: finding for finding in told.get("findings", [])})
        self.progress.findings = len(self.findings)
        if told.get("problem"):
            self.remarks[told["problem"]] = None
        if not skipped:
            self._finished.add(nodeid)

    @property
    def coverage(self) -> Coverage:
        """The counts of all processes."""
        from gradcheck.hunt.coverage import Coverage

        coverage = Coverage()
        for operation, order, outcome, count in self._outcomes:
            coverage.outcomes[operation, order, outcome] += count
        return coverage

    def look_into(self, recordings: Iterable[Path], returncode: int | None = None) -> None:
        """Makes crashes and hangs of what dead processes recorded, and takes the recordings away."""
        from gradcheck.hunt.running.crashes import casualty

        for path in recordings:
            found = casualty(path, self.asked.limit, returncode)
            if found is not None and found.event is not None:
                self.casualties[found.event.name] = found.event
                self._opened().write(found.event)
                if self._opened().problem:
                    self.remarks[str(self._opened().problem)] = None
                    continue
            elif found is not None:
                self.remarks[found.remark] = None
            path.unlink(missing_ok=True)

    def node_down(self, worker: str, returncode: int | None) -> None:
        """A worker has died."""
        self.look_into([self._running / f"{self.asked.name}-{worker}.json"], returncode)

    def earlier_runs(self) -> None:
        """Looks into what runs before this one left when they were killed."""
        try:
            from gradcheck.hunt.running.watch import remains
        except ImportError:  # no fcntl here, so that nothing was recorded
            return
        self.look_into(remains(self._running))
        for path in self.asked.folder.glob(".*.tmp"):
            with suppress(OSError):  # another run may be as quick
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()

    def interrupted(self, seconds: float) -> None:
        """Ctrl-C: workers that were told to stop early cannot know it, nor tell of what they have kept."""
        if not self._began:
            return
        from gradcheck.hunt.events import Ending, Finished

        self._opened().write(Finished(Ending.INTERRUPTED, 0, seconds, str(self.asked.shard)))
        with suppress(OSError, ValueError):  # the page says why
            for found in self._told.findings:
                name = found.discovery.name
                files = sorted(self.asked.folder.glob(f"{name}.*"))
                self.findings.setdefault(name, mention(found.discovery, files))

    def close(self) -> None:
        """Ends the journal, writes the run's page, and remembers which tests had their turn."""
        if self._journal is not None:
            self._journal.close()
        try:
            self.page = self._page()
        except (OSError, ValueError) as error:
            self.remarks[f"the page of the run was not written: {error}"] = None
        if self.asked.minutes is None:
            return
        try:
            save(self.asked.folder / TURNS, self._finished)
        except (OSError, ValueError) as error:
            self.remarks[f"whose turn it was could not be kept: {error}"] = None

    def _page(self) -> Path | None:
        if not self._began:
            return None

        return write_overview(self._told, self.asked.folder)

    @cached_property
    def _told(self) -> HuntRun:
        """What all processes told; read once they have ended."""
        from gradcheck.hunt.report.run import read

        return read(self.asked.events, pattern=self.asked.pattern)

    def _opened(self) -> Journal:
        from gradcheck.hunt.events import journal

        self._journal = self._journal or journal(self.asked, "main")
        return self._journal

    @property
    def _began(self) -> bool:
        """Whether a process of the run has told anything."""
        return any(self.asked.events.glob(self.asked.pattern))

    @property
    def _running(self) -> Path:
        return self.asked.folder / RUNNING
