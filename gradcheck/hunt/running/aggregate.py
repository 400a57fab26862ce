"""What the processes of a run send, added up: counts, findings, crash reports, remarks, the page of the whole run."""

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
from gradcheck.hunt.running.configuration import RunConfiguration

NAME = "schedule.json"
FORMAT = "gradcheck schedule"
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
    runs = data.get("last_runs")
    if not isinstance(runs, dict) or not all(type(run) is int and run > 0 for run in runs.values()):
        raise ValueError(_refusal(path, ascii(runs)[:80]))
    return runs


def save(path: Path, finished: Iterable[str]) -> None:
    """Gives the tests that were finished the number of a new run, later than all before.

    Raises ValueError as `load` does, and OSError where nothing can be written.
    """
    runs = load(path)
    latest = max(runs.values(), default=0) + 1
    data = {"format": FORMAT, "version": VERSION, "last_runs": {**runs, **dict.fromkeys(finished, latest)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def _refusal(path: Path, given: str) -> str:
    return f"{path}: not a schedule of this project: {given}. Delete the file; no test then comes before another"


if TYPE_CHECKING:
    from gradcheck.hunt.coverage import Coverage
    from gradcheck.hunt.events import Crash, Hang, Journal
    from gradcheck.hunt.finding import GraphFinding
    from gradcheck.hunt.report.run import HuntRun

STALE = 3600.0


def summary_line(found: GraphFinding, files: Iterable[Path]) -> dict[str, Any]:
    """A finding as the terminal names it, with the files that say more: plain data, which a worker can send."""
    signature = found.signature
    return {
        "operation": signature.operation,
        "order": signature.order,
        "kind": signature.kind.value,
        "name": found.name,
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


class Aggregate:
    """Adds up what the tests sent.

    `findings` are summary lines by name, `crashes` the events of graphs that ended a process, `remarks` (in their
    order) what else is to be printed.
    """

    def __init__(self, configuration: RunConfiguration) -> None:
        self.configuration = configuration
        self.progress = Progress(configuration.deadline)
        self.findings: dict[str, dict[str, Any]] = {}
        self.crashes: dict[str, Crash | Hang] = {}
        self.remarks: dict[str, None] = {}
        self.cut_short = False
        self.page: Path | None = None
        self._outcomes: list[list[Any]] = []
        self._finished: set[str] = set()
        self._journal: Journal | None = None

    def add(self, nodeid: str, sent: dict[str, Any], *, skipped: bool) -> None:
        """What a hunting test sent when it ended; `skipped` if the time was over first."""
        self.cut_short |= skipped
        outcomes = sent.get("outcomes", [])
        self._outcomes += outcomes
        self.progress.examples += sum(count for *_, count in outcomes)
        self.findings.update({finding["name"]: finding for finding in sent.get("findings", [])})
        self.progress.findings = len(self.findings)
        if sent.get("problem"):
            self.remarks[sent["problem"]] = None
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

    def report_crashes(self, records: Iterable[Path], returncode: int | None = None) -> None:
        """Makes crashes and hangs of what dead processes recorded, and takes the records away."""
        from gradcheck.hunt.running.crashes import crash_report

        for path in records:
            report = crash_report(path, self.configuration.limit, returncode)
            if report is not None and report.event is not None:
                self.crashes[report.event.name] = report.event
                journal = self._opened()
                journal.write(report.event)
                if journal.problem:
                    self.remarks[journal.problem] = None
                    continue
            elif report is not None:
                self.remarks[report.remark] = None
            path.unlink(missing_ok=True)

    def worker_died(self, worker: str, returncode: int | None) -> None:
        """A worker's process has ended before it was told to."""
        self.report_crashes([self.configuration.record(worker)], returncode)

    def recover(self) -> None:
        """Looks into what runs before this one left when they were killed."""
        from gradcheck.hunt.running.process_recorder import abandoned

        with suppress(ImportError):  # no fcntl here, so that nothing was recorded
            self.report_crashes(abandoned(self.configuration.running))
        for path in self.configuration.folder.glob(".*.tmp"):
            with suppress(OSError):  # another run may be as quick
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()

    def interrupt(self, seconds: float) -> None:
        """Ctrl-C: workers that were stopped early cannot know it, nor send what they have kept."""
        if not self._began:
            return
        from gradcheck.hunt.events import Ending, Finished

        self._opened().write(Finished(Ending.INTERRUPTED, 0, seconds, str(self.configuration.shard)))
        with suppress(OSError, ValueError):  # the page says why
            for report in self._run.findings:
                name = report.finding.name
                files = sorted(self.configuration.folder.glob(f"{name}.*"))
                self.findings.setdefault(name, summary_line(report.finding, files))

    def close(self) -> None:
        """Ends the journal, writes the run's page, and remembers which tests were finished."""
        if self._journal is not None:
            self._journal.close()
        try:
            self.page = self._written() if self._began else None
        except (OSError, ValueError) as error:
            self.remarks[f"the page of the run was not written: {error}"] = None
        if self.configuration.minutes is None:
            return
        try:
            save(self.configuration.folder / NAME, self._finished)
        except (OSError, ValueError) as error:
            self.remarks[f"the schedule of the next run could not be kept: {error}"] = None

    def _written(self) -> Path:
        from gradcheck.hunt.known_graphs import left_out
        from gradcheck.hunt.report.writer import write_run

        releases = {started.environment.tensorflow for started in self._run.started}
        return write_run(self._run, self.configuration.folder, left_out(*releases))[0]

    @cached_property
    def _run(self) -> HuntRun:
        """The events of all processes; read once they have ended."""
        from gradcheck.hunt.report.run import read

        return read(self.configuration.events, pattern=self.configuration.pattern)

    def _opened(self) -> Journal:
        from gradcheck.hunt.events import journal

        self._journal = self._journal or journal(self.configuration, "main")
        return self._journal

    @property
    def _began(self) -> bool:
        """Whether a process of the run has written an event."""
        return any(self.configuration.events.glob(self.configuration.pattern))
