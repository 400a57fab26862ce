"""The graph that a process is running, on disk before it runs: what is left of a process that died."""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradcheck import files
from gradcheck.graphs.graph import Graph
from gradcheck.graphs.json_form import from_json, unchecked_json

LIMIT = 1_000_000


@dataclass(frozen=True)
class Recording:
    """A graph that was running as an example of `operation`, since `since` (seconds of time.time())."""

    operation: str
    order: int
    since: float
    graph: Graph


class Recorder:
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


def read(path: Path) -> Recording | None:
    """The last note of a recorder; None where nothing was running, or the note is damaged or forged."""
    try:
        checksum, _, text = files.read(path, LIMIT).partition("\n")[0].partition(" ")
        if checksum != f"{zlib.crc32(text.encode()):08x}" or not text:
            return None
        data = json.loads(text)
        operation, order, since = data["operation"], data["order"], data["since"]
        if not (isinstance(operation, str) and order in (1, 2) and isinstance(since, float)):
            return None
        return Recording(operation, order, since, from_json(data["graph"]))
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
