"""The whole of a run, in the process that the user started: results, casualties, whose turn it was."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcheck.hunting import turns
from gradcheck.hunting.asked import Asked
from gradcheck.hunting.progress import Progress

if TYPE_CHECKING:
    from gradcheck.coverage import Coverage
    from gradcheck.hunting.journal import Journal
    from gradcheck.report.events import Crash, Hang
    from gradcheck.report.run import Run

TURNS, RUNNING = "turns.json", "running"
STALE = 3600.0


class Whole:
    """Adds up what the tests told. `casualties` are graphs that ended a process, `remarks` what else is to be said."""

    def __init__(self, asked: Asked) -> None:
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
        from gradcheck.coverage import Coverage

        coverage = Coverage()
        for operation, order, outcome, count in self._outcomes:
            coverage.outcomes[operation, order, outcome] += count
        return coverage

    def look_into(self, recordings: Iterable[Path], returncode: int | None = None) -> None:
        """Makes crashes and hangs of what dead processes recorded, and takes the recordings away."""
        from gradcheck.hunting.casualty import casualty

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
            from gradcheck.hunting.recording import remains
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
        from gradcheck.hunting.mention import mention
        from gradcheck.report.events import Ending, Finished

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
            turns.save(self.asked.folder / TURNS, self._finished)
        except (OSError, ValueError) as error:
            self.remarks[f"whose turn it was could not be kept: {error}"] = None

    def _page(self) -> Path | None:
        if not self._began:
            return None
        from gradcheck.hunting.overview import write_overview

        return write_overview(self._told, self.asked.folder)

    @cached_property
    def _told(self) -> Run:
        """What all processes told; read once they have ended."""
        from gradcheck.report.run import read

        return read(self.asked.events, pattern=self.asked.pattern)

    def _opened(self) -> Journal:
        from gradcheck.hunting.journal import journal

        self._journal = self._journal or journal(self.asked, "main")
        return self._journal

    @property
    def _began(self) -> bool:
        """Whether a process of the run has told anything."""
        return any(self.asked.events.glob(self.asked.pattern))

    @property
    def _running(self) -> Path:
        return self.asked.folder / RUNNING
