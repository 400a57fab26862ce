"""What a process that hunts watches: what is running, what failed, when time is up. Nothing, unless asked to."""

from __future__ import annotations

import faulthandler
import fcntl
import json
import math
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gradcheck import files
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_json import from_json, unchecked_json

SLACK = 0.1


class Watchdog:
    """Ends the process, with the traceback of all its threads on `stream`, unless it is fed within `limit` seconds.

    The clock runs in a thread of C (faulthandler), so that code which never gives the interpreter back is ended too.
    Setting that clock takes 0.1 ms, so it is set at most every tenth of the limit: the process ends between 0.9 and 1
    limit after it was last fed. Nothing runs between `rest` and the next `feed`.
    """

    def __init__(self, limit: float, stream: IO[str] | int) -> None:
        self.limit, self._stream, self._set = limit, stream, 0.0

    def feed(self) -> None:
        """An example begins."""
        now = time.monotonic()
        if now - self._set >= SLACK * self.limit:
            faulthandler.dump_traceback_later(self.limit, exit=True, file=self._stream)
            self._set = now

    def rest(self) -> None:
        """No example is running."""
        if self._set:
            faulthandler.cancel_dump_traceback_later()
            self._set = 0.0


LIMIT = 1_000_000


@dataclass(frozen=True)
class RunningExample:
    """A graph that was running as an example of `operation`, since `since` (seconds of time.time())."""

    operation: str
    order: int
    since: float
    graph: Graph


class ProcessRecorder:
    """Keeps the graph that this process is running in one small file, locked while the process lives.

    A note is one write over the last one, with a checksum, that reaches the kernel before the graph runs: a process
    that dies leaves it whole. It costs tens of microseconds (replacing the file takes five milliseconds on a
    journalling file system). Where the disk is full, nothing more is noted. Raises OSError where there can be no file.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # It gets its name once it is locked: without a lock it would be taken for that of a dead process.
        unlocked = path.with_suffix(".new")
        self._handle = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = unlocked.rename(path)

    def note(self, operation: str, order: int, graph: Graph) -> None:
        """Writes what is about to run."""
        data = {"operation": operation, "order": order, "since": time.time(), "graph": unchecked_json(graph)}
        self._write(json.dumps(data).encode())

    def rest(self) -> None:
        """Nothing is running."""
        self._write(b"")

    def forget(self) -> None:
        """Takes the file away."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            self.path.unlink(missing_ok=True)

    def _write(self, text: bytes) -> None:
        if self._handle >= 0:
            try:
                os.pwrite(self._handle, b"%08x %s\n" % (zlib.crc32(text), text), 0)
            except OSError:
                self.forget()


def read(path: Path) -> RunningExample | None:
    """The last note of a recorder; None where nothing was running, or the note is damaged or forged."""
    try:
        checksum, _, text = files.read(path, LIMIT).partition("\n")[0].partition(" ")
        if checksum != f"{zlib.crc32(text.encode()):08x}" or not text:
            return None
        data = json.loads(text)
        operation, order, since = data["operation"], data["order"], data["since"]
        if not (isinstance(operation, str) and order in (1, 2) and isinstance(since, float)):
            return None
        return RunningExample(operation, order, since, from_json(data["graph"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def remains(folder: Path) -> Iterator[Path]:
    """The recordings in a folder whose processes are dead, each for one caller only, who deletes it."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                yield path
        except OSError:
            continue
        finally:
            os.close(handle)


if TYPE_CHECKING:  # it needs fcntl, which not every system has
    pass


@dataclass
class ProcessWatch:
    """The state of a test that hunts. `deadline` is a time.time(); `failed` has the graphs that failed, and how.

    `resolutions` has the worst relative resolution of each operation and order.
    """

    recorder: ProcessRecorder | None = None
    watchdog: Watchdog | None = None
    deadline: float = math.inf
    seed: object = None
    subject: tuple[str, int] = ("(no operation)", 1)
    failed: dict[Graph, Any] = field(default_factory=dict)
    resolutions: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.time() >= self.deadline

    def begin(self, operation: str, order: int) -> None:
        """An example of an operation is about to be drawn."""
        self.subject = operation, order

    def runs(self, graph: Graph) -> None:
        """A graph, whole or not, is about to be run."""
        if self.watchdog is not None:
            self.watchdog.feed()
        if self.recorder is not None:
            self.recorder.note(*self.subject, graph)

    def resolved(self, resolution: float) -> None:
        """What an example would have noticed, relative to the largest derivative."""
        if math.isfinite(resolution):
            self.resolutions[self.subject] = max(resolution, self.resolutions.get(self.subject, 0.0))

    def rest(self) -> None:
        """A test has ended."""
        if self.watchdog is not None:
            self.watchdog.rest()
        if self.recorder is not None:
            self.recorder.rest()
        self.failed.clear()
        self.resolutions.clear()


_watch = ProcessWatch()


def current() -> ProcessWatch:
    """The watch of this process."""
    return _watch


def install(watch: ProcessWatch) -> ProcessWatch:
    """Puts another watch in its place, and returns the one that was there."""
    global _watch
    before, _watch = _watch, watch
    return before
