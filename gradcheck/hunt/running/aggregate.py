"""Adds up what the processes of a run send: counts, findings, crash reports, remarks; writes the page of the run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from gradcheck import files
from gradcheck.documents import Document
from gradcheck.hunt.configuration import RunConfiguration
from gradcheck.hunt.coverage import COMPARED, Coverage

if TYPE_CHECKING:
    from gradcheck.hunt.events import Crash, Hang, Journal
    from gradcheck.hunt.finding import GraphFinding
    from gradcheck.hunt.report.run import Earlier, HuntRun

NAME = "schedule.json"
LIMIT = 10_000_000
STALE = 3600.0
PAGE_EVERY = 60.0
"""Seconds between two pages of a run that is going on, if it has found nothing new."""


class Schedule(Document, frozen=True, kw_only=True):
    """For each test, the number of the last run that finished it."""

    format: Literal["gradcheck schedule"] = "gradcheck schedule"
    version: Literal[1]
    last_runs: dict[str, Annotated[int, msgspec.Meta(gt=0)]]


def load(path: Path) -> dict[str, int]:
    """For each test, the number of the last run that finished it; empty where there is no file yet.

    Raises ValueError, which says what to do, for anything else in its place.
    """
    try:
        return msgspec.json.decode(files.read(path, LIMIT), type=Schedule).last_runs
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        advice = "Delete the file; tests then run in no particular order"
        raise ValueError(f"{path}: not a schedule of this project: {error}. {advice}") from None


def save(path: Path, finished: Iterable[str]) -> None:
    """Gives the tests that were finished the number of a new run, later than all before.

    Raises ValueError as `load` does, and OSError where nothing can be written.
    """
    runs = load(path)
    latest = max(runs.values(), default=0) + 1
    content = msgspec.json.encode(Schedule(version=1, last_runs={**runs, **dict.fromkeys(finished, latest)}))
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, msgspec.json.format(content, indent=1).decode() + "\n")


@dataclass
class Progress:
    """Counts tests as they end, and in a run with a budget, whose `deadline` is a time.time(), operations instead.

    `total` and `asked`, the numbers of tests and of operations that were asked for, are 0 while they are not known;
    `operations` are those of which an example was compared.
    """

    deadline: float
    total: int = 0
    asked: int = 0
    operations: set[str] = field(default_factory=set)
    done: int = 0
    examples: int = 0
    findings: int = 0
    began: float = field(default_factory=time.time)

    def line(self, now: float | None = None) -> str:
        """One line for a terminal.

        >>> Progress(deadline=float("inf"), total=40, done=10, examples=500, began=0.0).line(now=20.0)
        'gradcheck: 10 of 40 tests, 500 examples, 25 a second, about 1 min left'
        >>> Progress(deadline=140.0, asked=90, operations={"sin", "cos"}, examples=500, began=0.0).line(now=20.0)
        'gradcheck: 2 of 90 operations, 500 examples, 25 a second, about 2 min left'
        """
        now = time.time() if now is None else now
        passed = max(now - self.began, 1e-9)
        done, total, what = self.done, self.total, "tests"
        if self.deadline < float("inf"):  # of the visits that are planned, few may be made
            done, total, what = len(self.operations), self.asked, "operations"
        parts = [f"{done:,} of {total:,} {what}" if total else f"{done:,} {what}"]
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


def read_run(configuration: RunConfiguration) -> HuntRun:
    """The run that the events of its processes describe; raises ValueError and OSError as `report.run.read` does."""
    from gradcheck.hunt.report.run import read

    return read(configuration.events, pattern=configuration.pattern)


class Aggregate:
    """Adds up what the tests sent.

    `findings` are summary lines by name, `crashes` the events of graphs that ended a process, `remarks` (in their
    order) what else is to be printed.
    """

    def __init__(self, configuration: RunConfiguration) -> None:
        self.configuration = configuration
        self.progress = Progress(configuration.deadline)
        self.coverage = Coverage()
        self.findings: dict[str, dict[str, Any]] = {}
        self.crashes: dict[str, Crash | Hang] = {}
        self.remarks: dict[str, None] = {}
        self.cut_short = False
        self.page: Path | None = None
        self._finished: set[str] = set()
        self._failed: set[str] = set()
        self._journal: Journal | None = None
        self._earlier: Earlier | None = None
        self._paged = (-1, 0.0)
        self._known_written = False

    def add(self, nodeid: str, sent: dict[str, Any], *, skipped: bool) -> None:
        """Adds what a hunting test sent when it ended; `skipped` if the time was over first."""
        from gradcheck.operations.catalogue import CATALOGUE

        self.cut_short |= skipped
        if self.configuration.shard.count == 1:  # a shard has some of the operations
            self.progress.asked = len(self.configuration.operations or CATALOGUE)
        for operation, order, outcome, count in sent.get("outcomes", []):
            self.coverage.outcomes[operation, order, outcome] += count
            self.progress.examples += count
            if outcome in COMPARED and not operation.startswith("("):
                self.progress.operations.add(operation)
        self.findings.update({finding["name"]: finding for finding in sent.get("findings", [])})
        self.progress.findings = len(self.findings)
        self.remarks.update(dict.fromkeys(sent.get("problems", [])))
        if sent.get("findings"):
            self._failed.add(nodeid)  # which comes first in the next run
        elif not skipped:
            self._finished.add(nodeid)

    def report_crashes(self, records: Iterable[Path], returncode: int | None = None) -> None:
        """Turns the records of dead processes into crashes and hangs, and deletes them.

        A record that cannot be read here is kept, such as one with an operation that this process does not know.
        """
        from gradcheck.hunt.running.crashes import crash_report
        from gradcheck.hunt.running.process_recorder import RecordError

        for path in records:
            try:
                report = crash_report(path, self.configuration.limit, returncode)
            except RecordError as error:
                self.remarks[str(error)] = None
                continue
            if isinstance(report, str):
                self.remarks[report] = None
            elif report is not None:
                self.crashes[report.name] = report
                journal = self._opened()
                written = journal.write(report)
                self.remarks.update(dict.fromkeys(journal.problems))
                if not written:
                    continue
            path.unlink(missing_ok=True)

    def recover(self) -> None:
        """Reports what earlier runs were running when they were killed."""
        from gradcheck.hunt.running.process_recorder import abandoned

        mine = f"{self.configuration.name}-"  # of a worker that has just died, whose exit code tells more
        with suppress(ImportError):  # no fcntl here, so that nothing was recorded
            self.report_crashes(
                path for path in abandoned(self.configuration.running) if not path.name.startswith(mine)
            )
        for path in self.configuration.folder.glob(f"{files.PREFIX}*{files.SUFFIX}"):
            with suppress(OSError):  # another run may be quicker
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()

    def show(self) -> None:
        """Writes the page of the run so far, which stays if the run is killed: at new findings, and now and then."""
        found, now = len(self.findings) + len(self.crashes), time.monotonic()
        if (found == self._paged[0] and now - self._paged[1] < PAGE_EVERY) or not self._has_events:
            return
        self._paged = found, now
        # A process may be in the middle of a line; the page at the end is the one that counts.
        with suppress(OSError, ValueError):
            self._write_page(read_run(self.configuration))

    def close(self, *, interrupted: bool) -> None:
        """Ends the journal, writes the run's page, and remembers which tests were finished."""
        try:
            self._close_run(interrupted)
        except (OSError, ValueError) as error:
            self.remarks[f"the page of the run was not written: {error}"] = None
        try:
            if self.configuration.minutes is not None:
                save(self.configuration.folder / NAME, self._finished - self._failed)
        except (OSError, ValueError) as error:
            self.remarks[f"the schedule of the next run could not be kept: {error}"] = None

    def _close_run(self, interrupted: bool) -> None:
        """Reads the events of all processes, once they have ended: some findings may not have been sent."""
        from gradcheck.hunt.events import Ending, Finished
        from gradcheck.hunt.finding import summary_line

        given = self.configuration
        if not self._has_events:
            return
        run = read_run(given)
        if interrupted and Ending.INTERRUPTED not in {event.how for event in run.finished}:
            # Workers that are stopped early do not know it; this process has run no example.
            self._opened().write(Finished(Ending.INTERRUPTED, 0, 0.0, str(given.shard)))
            run = read_run(given)
        if self._journal is not None:
            self._journal.close()
        for found in run.findings:
            self._keep_least(found)
            if found.name not in self.findings:
                self.findings[found.name] = summary_line(found, sorted(given.folder.glob(f"{found.name}.*")))
        self.page = self._write_page(run)

    @property
    def _has_events(self) -> bool:
        return any(self.configuration.events.glob(self.configuration.pattern))

    def _write_page(self, run: HuntRun) -> Path:
        from gradcheck.hunt.known_graphs import left_out
        from gradcheck.hunt.report.run import read_earlier
        from gradcheck.hunt.report.writer import without_page, write_run

        given, releases = self.configuration, {started.environment.tensorflow for started in run.started}
        if self._earlier is None:
            self._earlier = read_earlier(given.events, given.name, releases)
        why, again = without_page(run.findings, given.folder), not self._known_written
        self._known_written |= bool(run.known)
        excluded = left_out(*releases)
        return write_run(run, given.folder, excluded, without_page=why, earlier=self._earlier, known_again=again)[0]

    def _keep_least(self, found: GraphFinding) -> None:
        """Writes the report of a finding again where that of a larger graph of the same name was written last."""
        from gradcheck.hunt.report.writer import PageError, json_text, write

        folder = self.configuration.folder
        try:
            if files.read(folder / f"{found.name}.json", LIMIT) != json_text(found):
                write(found, folder)
        except FileNotFoundError:
            pass  # it could not be written, as the text of the finding says
        except (OSError, PageError) as error:
            self.remarks[f"the report {found.name} may be of another graph than the page of the run: {error}"] = None

    def _opened(self) -> Journal:
        from gradcheck.hunt.events import Journal

        self._journal = self._journal or Journal(self.configuration, "main")
        return self._journal
