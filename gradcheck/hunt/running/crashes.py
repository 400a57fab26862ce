"""What becomes of a recorded graph in a fresh process: the second look before anybody is told of a crash or a hang.

`python -m gradcheck.hunting.rerun RECORDING LIMIT` runs it and says on standard output where it is.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gradcheck.hunt.events import Crash, Hang
from gradcheck.hunt.running.watch import SLACK, RunningExample, Watchdog, read

ENDED = "ended"
STARTING = 120.0


@dataclass(frozen=True)
class Fate:
    """How a process ended: `crashed` or `hung`, at its own end (`ended`) or not at all; `told` says it in words."""

    crashed: bool
    hung: bool
    told: str
    ended: bool = False


def fate(path: Path, limit: float) -> Fate:
    """Runs the graph of a recording again, for at most `limit` seconds (and two minutes to start)."""
    command = [sys.executable, "-m", "gradcheck.hunt.running.crashes", str(path), str(limit)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STARTING + limit)
    except subprocess.TimeoutExpired:
        return Fate(False, True, f"no end within {STARTING + limit:g} s")
    at = (done.stdout.split("\n")[:-1] or ["the start"])[-1]
    if done.returncode < 0:
        return Fate(True, False, f"{killed(done.returncode)} at {at}")
    if done.returncode == 1 and "Timeout (" in done.stderr:
        return Fate(False, True, f"no end within {limit:g} s at {at}")
    if done.returncode or at != ENDED:
        return Fate(False, False, f"it could not be run: {done.stderr.strip()[-300:]}")
    return Fate(False, False, "it came to its end", ended=True)


def killed(returncode: int) -> str:
    """The signal that a negative exit code names.

    >>> killed(-6)
    'killed by SIGABRT'
    """
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"ended with exit code {returncode}"


def run(recording: RunningExample) -> None:
    """Runs each node, then the check at the recorded order, and prints the place before each step.

    Raises AdmissionError for a graph that could not have been drawn.
    """
    from gradcheck import runtime
    from gradcheck.hunt import trial
    from gradcheck.hunt.admission import admit

    runtime.configure()
    graph = recording.graph
    admit(graph, before=lambda position, node: print(f"node {position}, {node.op}", flush=True))
    print(f"the derivative of order {recording.order}", flush=True)
    trial.run(graph, (recording.order,))
    print(ENDED, flush=True)


def main() -> int:
    """The entry point of the fresh process."""
    path, limit = Path(sys.argv[1]), float(sys.argv[2])
    recording = read(path)
    if recording is None:
        print(f"{path}: holds no recorded graph", file=sys.stderr)
        return 2
    import tensorflow  # noqa: F401  (the limit is for the graph, not for the start)

    Watchdog(limit, sys.stderr).feed()
    run(recording)
    return 0


if __name__ == "__main__":
    sys.exit(main())


OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


@dataclass(frozen=True)
class CrashReport:
    """What is to be told: an event, or only a remark where the graph is not to blame."""

    event: Crash | Hang | None
    remark: str = ""


def casualty(path: Path, limit: float, returncode: int | None) -> CrashReport | None:
    """Looks into what a dead process recorded; None where it was running nothing.

    `returncode` is the process's, None where nobody knows. The graph is run again, for at most `limit` seconds, unless
    its process was ended by its watchdog. A process that somebody else may have killed (SIGKILL, as for want of memory)
    only counts if the graph does it again.
    """
    recording = read(path)
    if recording is None:
        return None
    if returncode == 1 and time.time() - recording.since >= (1 - 2 * SLACK) * limit:
        return CrashReport(_hang(recording, f"no end within {limit:g} s"))
    again = fate(path, limit)
    how = "" if returncode is None else killed(returncode)
    if again.hung:
        return CrashReport(_hang(recording, f"{how}; in a fresh process: {again.told}".lstrip("; ")))
    if again.crashed:
        return CrashReport(_crash(recording, f"{how}; in a fresh process: {again.told}".lstrip("; ")))
    if returncode is not None and returncode < 0 and returncode not in OUTSIDE:
        return CrashReport(_crash(recording, f"{how}; not again in a fresh process: {again.told}"))
    return CrashReport(
        None,
        f"a process ended ({how or 'nobody knows how'}) on an example of {recording.operation} at order "
        f"{recording.order}; run again, {again.told}",
    )


def _crash(recording: RunningExample, message: str) -> Crash:
    return Crash.of(recording.operation, recording.order, recording.graph, message)


def _hang(recording: RunningExample, message: str) -> Hang:
    return Hang.of(recording.operation, recording.order, recording.graph, message)
