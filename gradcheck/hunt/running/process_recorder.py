"""Records the graph that a process is running, in case it dies, and ends a process that hangs by a watchdog."""

from __future__ import annotations

import faulthandler
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gradcheck import documents, files
from gradcheck.autodiff.mode import Mode
from gradcheck.defects.graph_document import GraphDocument
from gradcheck.documents import MAX_TEXT
from gradcheck.graph import Graph
from gradcheck.hunt.graph_json import from_document, unchecked_json
from gradcheck.operations.catalogue import CATALOGUE

SLACK = 0.1


class RecordError(Exception):
    """A record cannot be read here; names the file, which is to be kept, and what to do."""


class UnknownOperationError(RecordError):
    """A process ran an operation of a project's own that is not registered in this one; names it and the record."""


class Watchdog:
    """Ends the process, with the traceback of all its threads on `stream`, unless it is fed within `limit` seconds.

    The clock runs in a thread of C (faulthandler), so that code which never returns to the interpreter is ended, too.
    Setting that clock takes 0.1 ms, so it is set at most every tenth of the limit: the process ends between 0.9 and 1
    limit after it was last fed. Nothing runs between `rest` and the next `feed`.
    """

    def __init__(self, limit: float, stream: IO[str] | int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit, self._stream, self._clock = limit, stream, clock
        self._set: float | None = None

    def feed(self) -> None:
        """Restarts the clock when an example begins."""
        now = self._clock()
        if self._set is None or now - self._set >= SLACK * self.limit:
            faulthandler.dump_traceback_later(self.limit, exit=True, file=self._stream)
            self._set = now

    def before(self, operation: str, order: int, mode: Mode, graph: Graph) -> None:
        """Restarts the clock when a graph is about to run."""
        self.feed()

    def rest(self) -> None:
        """Stops the clock, as no example is running."""
        if self._set is not None:
            faulthandler.cancel_dump_traceback_later()
            self._set = None


@dataclass(frozen=True)
class RunningExample:
    """A graph that was running as an example of `operation` in a mode, since `since` (seconds of time.time())."""

    operation: str
    order: int
    mode: Mode
    since: float
    graph: Graph


class ProcessRecorder:
    """Keeps the graph that this process is running in one small file, locked while the process lives.

    A record is one write over the last one, with a checksum, that reaches the kernel before the graph runs: a process
    that dies leaves it whole. It costs tens of microseconds (replacing the file takes five milliseconds on a
    journalling file system). Where the disk is full, nothing more is recorded. Raises OSError where there can be no
    file, ImportError on a system without fcntl.
    """

    def __init__(self, path: Path) -> None:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        # The file gets its name once it is locked: without a lock it would be taken for that of a dead process.
        unlocked = path.with_suffix(".new")
        self._handle = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = unlocked.rename(path)

    def before(self, operation: str, order: int, mode: Mode, graph: Graph) -> None:
        """Writes what is about to run."""
        how = {"path": mode.path, "mode": mode.mode}
        data = {"operation": operation, "order": order, **how, "since": time.time(), "graph": unchecked_json(graph)}
        self._write(json.dumps(data).encode())

    def rest(self) -> None:
        """Records that nothing is running."""
        self._write(b"")

    def remove(self) -> None:
        """Deletes the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            self.path.unlink(missing_ok=True)

    def _write(self, text: bytes) -> None:
        if self._handle >= 0:
            try:
                os.pwrite(self._handle, b"%08x %s\n" % (zlib.crc32(text), text), 0)
            except OSError:
                self.remove()


def read(path: Path) -> RunningExample | None:
    """The last record of a process; None where nothing was running, or there is no file.

    Raises RecordError where the record is damaged, forged or of another version of gradcheck, UnknownOperationError
    where it can only be read once a project's module has been imported.
    """
    try:
        written = files.read(path, MAX_TEXT)
        return _example(path, written.partition("\n")[0]) if written else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = str(error).removeprefix(f"{path}: ").split("\n")[0][:300]
        raise RecordError(
            f"{path}: a process has ended, and what it was running cannot be read ({type(error).__name__}: {reason}); "
            "read it with the gradcheck that wrote it, or delete the file"
        ) from None


def _example(path: Path, line: str) -> RunningExample | None:
    """The running example of a record; None if it says that nothing runs. Raises ValueError and the like if invalid."""
    checksum, _, text = line.partition(" ")
    if checksum != f"{zlib.crc32(text.encode()):08x}":
        raise ValueError("its checksum does not match its text")
    if not text:
        return None
    data = json.loads(text)
    operation, order, since = data["operation"], data["order"], data["since"]
    if not (isinstance(operation, str) and order in (1, 2) and isinstance(since, float)):
        raise ValueError("its operation, order or time is invalid")
    mode, document = Mode(data["path"], data["mode"]), documents.convert(data["graph"], GraphDocument)
    _refuse_unknown(path, document)
    return RunningExample(operation, order, mode, since, from_document(document))


def _refuse_unknown(path: Path, document: GraphDocument) -> None:
    for node in document.nodes:
        if node.op not in CATALOGUE:
            raise UnknownOperationError(
                f"{path}: a process ended on a graph with {node.op!r}, which is not registered here; import the module "
                "that has its @gradcheck.operation, such as in conftest.py, or delete the file"
            )


def abandoned(folder: Path) -> Iterator[Path]:
    """The records in a folder whose processes are dead, each given to only one caller, who deletes it."""
    import fcntl

    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        with suppress(OSError):  # it is gone, a link, or locked by a process that is alive
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists():
                    yield path
            finally:
                os.close(handle)
