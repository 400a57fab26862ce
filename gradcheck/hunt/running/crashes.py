"""Runs a recorded graph again in a fresh process, before a crash or a hang is reported.

`python -m gradcheck.hunt.running.crashes RECORD LIMIT [MODULE FOLDER]...` runs it and prints on standard output where
it is; a project's own operations are registered in these modules.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from gradcheck.hunt.events import Crash, Hang
from gradcheck.hunt.running.process_recorder import SLACK, RecordError, Watchdog, read
from gradcheck.operations.registry import Origin, origins

ENDED = "ended"
STARTING = 120.0
STOPPED: dict[str, type[Crash] | type[Hang]] = {"crash": Crash, "hang": Hang}
OUTSIDE = {-getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)}
"""Exit codes of signals that may come from outside; Windows has no SIGKILL and no SIGHUP."""


def rerun(path: Path, limit: float) -> tuple[str, str]:
    """Runs the graph of a record again, in its mode, for at most `limit` seconds (and two minutes to start).

    Returns the outcome ("crash", "hang", "ended" or "not run"), and a message about it.
    """
    own = (part for one in origins() for part in (one.module, one.folder))
    command = [sys.executable, "-m", "gradcheck.hunt.running.crashes", str(path), str(limit), *own]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STARTING + limit)
    except subprocess.TimeoutExpired:
        return "hang", f"no end within {STARTING + limit:g} s"
    at = (done.stdout.split("\n")[:-1] or ["the start"])[-1]
    if done.returncode < 0:
        return "crash", f"{killed(done.returncode)} at {at}"
    if done.returncode == 1 and "Timeout (" in done.stderr:
        return "hang", f"no end within {limit:g} s at {at}"
    if done.returncode or at != ENDED:
        return "not run", f"it could not be run: {done.stderr.strip()[-300:]}"
    return ENDED, "it ended normally"


def killed(returncode: int) -> str:
    """The signal that a negative exit code names.

    >>> killed(-6)
    'killed by SIGABRT'
    """
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"ended with exit code {returncode}"


def crash_report(path: Path, limit: float, returncode: int | None) -> Crash | Hang | str | None:
    """Examines the record of a dead process: returns an event, a remark where the graph is not to blame, or None if
    nothing was running.

    `returncode` is the process's, None where it is not known. The graph is run again, for at most `limit` seconds,
    unless its process was ended by its watchdog. A process that may have been killed from outside (SIGKILL, as for want
    of memory) only counts if the graph does it again. Raises RecordError as `read` does.
    """
    example = read(path)
    if example is None:
        return None

    def event(kind: type[Crash] | type[Hang], message: str) -> Crash | Hang:
        return kind.of(example.operation, example.order, example.graph, message, example.mode)

    if returncode == 1 and time.time() - example.since >= (1 - 2 * SLACK) * limit:
        return event(Hang, f"no end within {limit:g} s")
    outcome, message = rerun(path, limit)
    how = "" if returncode is None else killed(returncode)
    if outcome in STOPPED:
        return event(STOPPED[outcome], f"{how}; in a fresh process: {message}".lstrip("; "))
    if returncode is not None and returncode < 0 and returncode not in OUTSIDE:
        return event(Crash, f"{how}; not again in a fresh process: {message}")
    return (
        f"a process ended ({how or 'it is not known how'}) on an example of {example.operation} at order "
        f"{example.order} ({example.mode}); run again, {message}"
    )


def main() -> int:
    """The fresh process: runs each node, then the check at the recorded order and mode, and prints where it is."""
    path, limit, own = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    for module, folder in zip(own[::2], own[1::2], strict=True):
        Origin(module, folder).load()
    try:
        example = read(path)
    except RecordError as error:
        print(error, file=sys.stderr)
        return 2
    if example is None:
        print(f"{path}: holds no recorded graph", file=sys.stderr)
        return 2
    from gradcheck import runtime
    from gradcheck.hunt import trial
    from gradcheck.hunt.admission import admit

    Watchdog(limit, sys.stderr).feed()  # only now that TensorFlow is loaded: the limit is for the graph
    runtime.configure()
    admit(example.graph, before=lambda position, node: print(f"node {position}, {node.op}", flush=True))
    print(f"the derivative of order {example.order} ({example.mode})", flush=True)
    trial.run(example.graph, (example.order,), mode=example.mode)
    print(ENDED, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
