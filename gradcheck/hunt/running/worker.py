"""One process's part of a run: it counts, records what runs, and writes what it finds."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradcheck.hunt.coverage import INVALID, Coverage
from gradcheck.hunt.events import Ending, FindingMade, Finished, OperationDone, journal
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.report.confirm import Confirmation, confirm
from gradcheck.hunt.report.json_report import Report
from gradcheck.hunt.report.junit import properties
from gradcheck.hunt.report.writer import ReportError, text, write
from gradcheck.hunt.running import watch
from gradcheck.hunt.running.aggregate import RUNNING, mention
from gradcheck.hunt.running.configuration import RunConfiguration
from gradcheck.hunt.running.watch import ProcessWatch, Watchdog

Properties = tuple[tuple[str, str], ...]


class Process:
    """`worker` names it within the run; `stderr` is the file descriptor on which a hanging example is reported."""

    def __init__(self, asked: RunConfiguration, worker: str, stderr: int) -> None:
        self.asked = asked
        self.coverage = Coverage()
        self.journal = journal(asked, worker)
        self._began = time.time()
        self._findings: list[dict[str, Any]] = []
        self._counted: Counter[tuple[str, int, str]] = Counter()
        self._told: dict[str, Any] = {}
        self._test_began = 0.0
        self.watch = ProcessWatch(deadline=asked.deadline, seed=asked.seed, watchdog=Watchdog(asked.limit, stderr))
        self._recording = asked.folder / RUNNING / f"{asked.name}-{worker}.json"
        self._before: ProcessWatch | None = None

    def begin(self) -> None:
        """A test begins."""
        if self.watch.recorder is None:
            with contextlib.suppress(ImportError, OSError):  # no fcntl, or a folder that cannot be written to
                from gradcheck.hunt.running.watch import ProcessRecorder

                self.watch.recorder = ProcessRecorder(self._recording)
        self._before = watch.install(self.watch)
        self._test_began = time.monotonic()
        self._counted = Counter(self.coverage.outcomes)

    def end(self) -> None:
        """A test has ended: its counts become events, one an operation and order."""
        if self._before is not None:
            watch.install(self._before)
        seconds = time.monotonic() - self._test_began
        new = self.coverage.outcomes - self._counted
        subjects = sorted({(operation, order) for operation, order, _ in new})
        for operation, order in subjects:
            counts = {what: count for (*subject, what), count in sorted(new.items()) if subject == [operation, order]}
            self.journal.write(
                OperationDone(
                    operation,
                    order,
                    {what: count for what, count in counts.items() if what != INVALID},
                    attempts=sum(counts.values()),
                    rejected=counts.get(INVALID, 0),
                    seconds=seconds / len(subjects),
                    resolution=self.watch.resolutions.get((operation, order)),
                )
            )
        self._told = {"outcomes": [[*key, count] for key, count in sorted(new.items())]}
        self.watch.rest()

    def tell(self) -> dict[str, Any]:
        """What the controller has to know of the test that has just ended, as plain data."""
        told, self._told = {**self._told, "findings": self._findings, "problem": self.journal.problem}, {}
        self._findings = []
        return told

    def record_all(self, discoveries: Sequence[GraphFinding]) -> list[tuple[str, Properties]]:
        """Records a failing test's discoveries; Ctrl-C, while one is run again or written, loses none of them."""
        recorded: list[tuple[str, Properties]] = []
        try:
            for discovery in discoveries:
                recorded.append(self.record(discovery))
        except KeyboardInterrupt:
            for discovery in discoveries[len(recorded) :]:
                self.record(discovery, confirmed=False)
            raise
        return recorded

    def record(self, discovery: GraphFinding, *, confirmed: bool = True) -> tuple[str, Properties]:
        """Confirms a discovery in a fresh process, writes its report and its event; the full text, and its properties.

        What cannot be written is said in the text; the finding is all in it.
        """
        confirmation = _confirmation(discovery) if confirmed else None
        self.journal.write(FindingMade(Report.of(discovery, confirmation)))
        told = [text(discovery, confirmation), confirmation.output if confirmation else ""]
        files: tuple[Path, ...] = ()
        try:
            files = write(discovery, self.asked.folder, confirmation)
            told += ["", *(f"written: {path}" for path in files)]
        except Exception as error:  # whatever a page cannot show, the finding is not lost
            told += ["", f"NOT WRITTEN: {error}" if isinstance(error, ReportError) else f"NOT WRITTEN: {error!r}"]
        self._findings.append(mention(discovery, files))
        return "\n".join(told), properties(discovery, confirmation)

    def keep_failures(self) -> None:
        """Writes the smallest graph of each failure of a test that is interrupted, not shrunk to its end."""
        smallest: dict[type, Any] = {}
        for graph, failure in self.watch.failed.items():
            kept = smallest.get(type(failure))
            if kept is None or graph.size < kept.discovery.graph.size:
                smallest[type(failure)] = failure
        for failure in smallest.values():
            self.record(failure.discovery, confirmed=False)

    def finish(self, how: Ending) -> None:
        """The session ends."""
        if self.journal.opened:
            seconds = time.time() - self._began
            examples = self.coverage.valid()
            self.journal.write(Finished(how, examples, seconds, str(self.asked.shard)))
        self.journal.close()

    def close(self) -> None:
        """Takes away what only a running process has."""
        if self.watch.recorder is not None:
            self.watch.recorder.forget()
            with contextlib.suppress(OSError):
                os.rmdir(self.watch.recorder.path.parent)


def _confirmation(discovery: GraphFinding) -> Confirmation:
    try:
        return confirm(discovery.script)
    except OSError as error:  # such as a full disk
        return Confirmation(None, f"not run again: {error}")
