"""Writing a process's events: a file of its own, one whole line at a time."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path
from types import TracebackType

from gradcheck.report.events import Crash, Event, FindingMade, Finished, Hang, Started, to_line

SYNCED = (Started, FindingMade, Crash, Hang, Finished)
WORKER = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class EventFile:
    """A new file `<worker>.jsonl` (`<worker>-2.jsonl`, … where that exists) in a folder, made if it is missing.

    It begins with `started`. A line goes out in one write, and what must not be lost is on the disk when `write`
    returns; a process that is killed leaves at most half a last line. Raises ValueError for a worker's name that is no
    plain word, OSError where nothing can be written. Close it, or use it in a `with` statement.
    """

    def __init__(self, folder: Path | str, worker: str, started: Started) -> None:
        if not WORKER.fullmatch(worker) or worker.startswith("."):
            raise ValueError(f"worker was {worker!r}; it names a file: letters, digits, _, - and . after the first")
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.path, self._descriptor = _create(Path(folder), worker)
        self.write(started)

    def write(self, event: Event) -> None:
        """Adds an event; raises ValueError for one that could not be read back, OSError where the disk is full."""
        line = (to_line(event) + "\n").encode()
        before = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            if isinstance(event, SYNCED):
                os.fsync(self._descriptor)
        except OSError:
            # The next line must not be glued to a half of this one.
            os.ftruncate(self._descriptor, before)
            raise

    def close(self) -> None:
        """Ends the file; closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> EventFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _create(folder: Path, worker: str) -> tuple[Path, int]:
    for number in count(1):
        path = folder / f"{worker}{'' if number == 1 else f'-{number}'}.jsonl"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            continue
    raise AssertionError("there is always another number")
