"""A process that died: the graph that it was running becomes a crash or a hang, after a second look."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from gradcheck.hunting.recording import Recording, read
from gradcheck.hunting.rerun import fate, killed
from gradcheck.hunting.watchdog import SLACK
from gradcheck.report.events import Crash, Hang

OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


@dataclass(frozen=True)
class Casualty:
    """What is to be told: an event, or only a remark where the graph is not to blame."""

    event: Crash | Hang | None
    remark: str = ""


def casualty(path: Path, limit: float, returncode: int | None) -> Casualty | None:
    """Looks into what a dead process recorded; None where it was running nothing.

    `returncode` is the process's, None where nobody knows. The graph is run again, for at most `limit` seconds, unless
    its process was ended by its watchdog. A process that somebody else may have killed (SIGKILL, as for want of memory)
    only counts if the graph does it again.
    """
    recording = read(path)
    if recording is None:
        return None
    if returncode == 1 and time.time() - recording.since >= (1 - 2 * SLACK) * limit:
        return Casualty(_hang(recording, f"no end within {limit:g} s"))
    again = fate(path, limit)
    how = "" if returncode is None else killed(returncode)
    if again.hung:
        return Casualty(_hang(recording, f"{how}; in a fresh process: {again.told}".lstrip("; ")))
    if again.crashed:
        return Casualty(_crash(recording, f"{how}; in a fresh process: {again.told}".lstrip("; ")))
    if returncode is not None and returncode < 0 and returncode not in OUTSIDE:
        return Casualty(_crash(recording, f"{how}; not again in a fresh process: {again.told}"))
    return Casualty(
        None,
        f"a process ended ({how or 'nobody knows how'}) on an example of {recording.operation} at order "
        f"{recording.order}; run again, {again.told}",
    )


def _crash(recording: Recording, message: str) -> Crash:
    return Crash(recording.operation, recording.order, recording.graph, message)


def _hang(recording: Recording, message: str) -> Hang:
    return Hang(recording.operation, recording.order, recording.graph, message)
