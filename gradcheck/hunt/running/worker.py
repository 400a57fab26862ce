"""One process's part of a run: it counts, records what runs, and writes what it finds."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from gradcheck import documents, files
from gradcheck.graph import Graph
from gradcheck.hunt import monitor
from gradcheck.hunt.configuration import RunConfiguration
from gradcheck.hunt.confirmation import Confirmation, confirm
from gradcheck.hunt.coverage import INVALID, Coverage
from gradcheck.hunt.events import Ending, FindingMade, Finished, Journal, OperationDone
from gradcheck.hunt.finding import GraphFinding, summary_line
from gradcheck.hunt.gradient_run import GradientRecorder, GradientRun
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.monitor import Monitor
from gradcheck.hunt.report.finding_page import properties, text
from gradcheck.hunt.report.writer import PageError, ReportError, write
from gradcheck.hunt.running.process_recorder import ProcessRecorder, Watchdog

Properties = tuple[tuple[str, str], ...]

GRADIENTS_EVERY = 60.0
"""Seconds between writes of which gradients ran, so that a worker that is killed loses little of it."""


class Worker:
    """`name` is its own within the run; `stderr` is the file descriptor on which a hanging example is reported."""

    def __init__(self, configuration: RunConfiguration, name: str, stderr: int) -> None:
        self.configuration = configuration
        self.coverage = Coverage()
        self.journal = Journal(configuration, name)
        self.journal.opened()  # so that the run has a page even if it is killed in its first test
        self.monitor = Monitor(
            [Watchdog(configuration.limit, stderr)],
            deadline=configuration.deadline,
            shrink_seconds=configuration.shrink_seconds,
            seed=configuration.seed,
        )
        self._record = configuration.record(name)
        self._recorder: ProcessRecorder | None = None
        self._began = time.time()
        self._gradients: GradientRecorder | None = None
        self._written = time.monotonic()
        self._outcomes: list[list[Any]] = []
        self._findings: list[dict[str, Any]] = []

    @contextmanager
    def hunting(self) -> Iterator[None]:
        """A context for a test: its counts become events; Ctrl-C keeps the smallest graph of each of its failures."""
        if self._recorder is None:
            with suppress(ImportError, OSError):  # no fcntl, or a folder that cannot be written to
                self._recorder = ProcessRecorder(self._record)
                self.monitor.listeners.append(self._recorder)
        if self._gradients is None and self.configuration.reach:
            self._gradients = GradientRecorder()
            self._gradients.start()
        before = monitor.install(self.monitor)
        outcomes, modes, began = Counter(self.coverage.outcomes), Counter(self.coverage.modes), time.monotonic()
        try:
            yield
        except KeyboardInterrupt:
            self.keep_failures()
            raise
        finally:
            monitor.install(before)
            new = self.coverage.outcomes - outcomes, self.coverage.modes - modes
            self._count(*new, time.monotonic() - began)
            self.monitor.rest()
            if self._gradients is not None and time.monotonic() - self._written > GRADIENTS_EVERY:
                self._write_gradients(self._gradients.so_far())

    def _count(
        self, outcomes: Counter[tuple[str, int, str]], modes: Counter[tuple[str, int, str]], seconds: float
    ) -> None:
        """Writes one event per operation and order."""
        self._outcomes = [[*key, count] for key, count in sorted(outcomes.items())]
        groups = {pair: list(rows) for pair, rows in groupby(self._outcomes, itemgetter(0, 1))}
        for (operation, order), rows in groups.items():
            counts = {what: count for _, _, what, count in rows}
            rejected = counts.pop(INVALID, 0)
            self.journal.write(
                OperationDone(
                    operation,
                    order,
                    counts,
                    attempts=sum(counts.values()) + rejected,
                    rejected=rejected,
                    seconds=seconds / len(groups),
                    resolution=self.monitor.resolutions.get((operation, order)),
                    modes={key[2]: count for key, count in sorted(modes.items()) if key[:2] == (operation, order)},
                )
            )

    def send(self) -> dict[str, Any]:
        """The results of the test that has just ended, as plain data for the controller."""
        sent = {"outcomes": self._outcomes, "findings": self._findings, "problems": self.journal.problems}
        self._outcomes, self._findings = [], []
        return sent

    def record_all(self, findings: Sequence[GraphFinding]) -> list[tuple[str, Properties]]:
        """Records a failing test's findings; Ctrl-C, while one is run again or written, loses none of them."""
        recorded: list[tuple[str, Properties]] = []
        try:
            for finding in findings:
                recorded.append(self.record(finding))
        except KeyboardInterrupt:
            for finding in findings[len(recorded) :]:
                self.record(finding, confirmed=False)
            raise
        return recorded

    def record(self, finding: GraphFinding, *, confirmed: bool = True) -> tuple[str, Properties]:
        """Confirms a finding in a fresh process, writes its report and its event; returns the text and the properties.

        The text holds all of the finding, and says what could not be written.
        """
        if confirmed:
            try:
                confirmation = confirm(finding.script)
            except OSError as error:  # such as a full disk
                confirmation = Confirmation(None, f"not run again: {error}")
            finding = replace(finding, confirmation=confirmation)
        lines = [text(finding), finding.confirmation.output if finding.confirmation else ""]
        files: tuple[Path, ...] = ()
        try:
            self.journal.write(FindingMade(Report.of(finding)))
            files = write(finding, self.configuration.folder)
        except PageError as error:
            files = error.written
            lines += ["", f"NOT WRITTEN: {error}"]
        except Exception as error:  # whatever a report cannot hold, the finding is not lost
            lines += ["", f"NOT WRITTEN: {error}" if isinstance(error, ReportError) else f"NOT WRITTEN: {error!r}"]
        lines += ["", *(f"written: {path}" for path in files)]
        self._findings.append(summary_line(finding, files))
        return "\n".join(lines), properties(finding)

    def keep_failures(self) -> None:
        """Writes the smallest graph of each failure of a test that is interrupted, not shrunk to its end."""
        smallest: dict[type, Any] = {}
        graphs = [graph for graph in self.monitor.failed if isinstance(graph, Graph)]  # programs have no reports
        for graph in sorted(graphs, key=lambda graph: graph.size):
            smallest.setdefault(type(self.monitor.failed[graph]), self.monitor.failed[graph])
        for failure in smallest.values():
            self.record(failure.finding, confirmed=False)

    def finish(self, how: Ending) -> None:
        """Writes the last event and what ran of TensorFlow's gradients, as the session ends."""
        if self.journal.file is not None:
            shard = str(self.configuration.shard)
            self.journal.write(Finished(how, self.coverage.valid(), time.time() - self._began, shard))
        self.journal.close()
        if self._gradients is not None:
            self._write_gradients(self._gradients.stop())

    def _write_gradients(self, ran: GradientRun) -> None:
        folder, self._written = self.configuration.gradients, time.monotonic()
        with suppress(OSError):  # such as a full disk; `reach` says that nothing was recorded
            folder.mkdir(parents=True, exist_ok=True)
            files.replace(folder / self._record.name, documents.to_text(ran))

    def close(self) -> None:
        """Deletes the record, which only a running process has."""
        if self._recorder is not None:
            self._recorder.remove()
            with suppress(OSError):
                os.rmdir(self._recorder.path.parent)
