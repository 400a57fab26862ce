"""The events of a process, written as they happen; a disk that takes no more stops the writing, not the hunt."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import settings

from gradcheck.hunting.asked import Asked
from gradcheck.report import environment
from gradcheck.report.event_file import EventFile
from gradcheck.report.events import Event, Started, from_line


class Journal:
    """Opens its file with the first event; `problem` says why it could write no more, `events` what it was told."""

    def __init__(self, folder: Path, name: str, started: Callable[[], Started]) -> None:
        self.problem: str | None = None
        self.opened = False
        self._folder, self._name, self._started = folder, name, started
        self._file: EventFile | None = None

    def write(self, event: Event) -> None:
        """Adds an event, or keeps silent once writing has failed."""
        if self.problem is not None:
            return
        size = 0
        try:
            if self._file is None:
                self._file = EventFile(self._folder, self._name, self._started())
                self.opened = True
            size = self._file.path.stat().st_size
            self._file.write(event)
        except (OSError, ValueError) as error:
            if self._file is not None and size:
                with suppress(OSError):  # takes half a line away
                    os.truncate(self._file.path, size)
            self.close()
            self.problem = f"the events could not be written to {self._folder} ({error}); what follows is missing there"

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def journal(asked: Asked, worker: str) -> Journal:
    """The journal of a process of a run."""

    def started() -> Started:
        return _of_another(asked) or Started(
            environment.current(asked.seed),
            profile=settings.get_current_profile_name(),
            seed=asked.seed,
            shard=str(asked.shard),
            operations=asked.operations or (),
            budget_minutes=asked.minutes,
        )

    return Journal(asked.events, f"{asked.name}-{worker}", started)


def _of_another(asked: Asked) -> Started | None:
    """What another process of the run has written: a controller need not import TensorFlow to say the same."""
    for path in sorted(asked.events.glob(asked.pattern)):
        with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
            first = from_line(file.readline().rstrip("\n"))
            if isinstance(first, Started):
                return first
    return None
