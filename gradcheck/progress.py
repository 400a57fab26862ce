"""Progress of a long check on stderr, its time limit, and Ctrl-C: both end it at the next evaluation at the latest.

A bar appears after two seconds if stderr is a terminal, rich is installed (Keras needs it) and CI is not set. Without
one, as in a log, a line is printed every ten seconds; under pytest, nothing is.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

DELAY = 2.0
"""Seconds until the bar appears."""

PER_SECOND = 8.0
"""Updates of the bar per second."""

EVERY = 10.0
"""Seconds between two lines where there is no bar."""


LONG = 1.0
"""A run of this many seconds is mentioned."""

USUALLY = "most checks take 20 to 100"
"""The number of evaluations where everything agrees; a mismatch takes more."""


class TimeUpError(BaseException):
    """The time limit has passed; a BaseException, so that handlers of the errors of checked code let it pass."""


class LongCheck:
    """A running check: its number of `evaluations`, its stage, its time limit, and its bar once there is one.

    `running`: the code runs for the first time; `run_seconds` is the time that this took, once it is known.
    """

    def __init__(self, name: str, seconds: float | None = None) -> None:
        self.name, self.stage, self.evaluations, self.seconds = name, "", 0, seconds
        self.interrupted = self.running = False
        self.run_seconds: float | None = None
        self.live: Any = None
        self._began, self._over, self._lock = time.monotonic(), False, threading.Lock()
        self._ended = threading.Event()

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return self.seconds is not None and time.monotonic() - self._began > self.seconds

    @property
    def text(self) -> str:
        """The text beside the bar."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        stage = f", {self.stage}" if self.stage else ""
        done = f"{self.evaluations:,} evaluation{'s' * (self.evaluations != 1)}"
        if self.run_seconds is not None and self.run_seconds >= LONG:
            done += f" (one run took {self.run_seconds:.0f} s, {USUALLY})"
        done = "the first run is under way" if self.running else done
        return f"gradcheck of {self.name}{stage}: {done}, {minutes}:{seconds:02d}"

    def show(self) -> None:
        """Draw the bar from now on; do nothing if that is not possible."""
        with self._lock:
            if self._over:
                return
            try:
                self.live = _live(self)
                self.live.start()
            except Exception:  # no rich, or another bar is on the terminal
                self.live = None

    def print_lines(self) -> None:
        """Print the text on stderr every EVERY seconds until the check is over."""
        while not self._ended.wait(EVERY):
            try:
                print(self.text, file=sys.stderr, flush=True)
            except (AttributeError, OSError, ValueError):  # stderr was closed
                return

    def hide(self) -> None:
        """Remove the bar, for good, and print no more lines."""
        self._ended.set()
        with self._lock:
            self._over = True
            if self.live is not None:
                self.live.stop()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C, which the user's code may catch, as TensorFlow does in a tf.py_function."""
        self.interrupted = True
        raise KeyboardInterrupt


def _live(check: LongCheck) -> Any:
    """A line with a pulsing bar, since the total is unknown."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    bar = ProgressBar(total=None, width=24)

    def line() -> Any:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(bar, check.text)
        return grid

    return Live(
        get_renderable=line,
        console=Console(stderr=True),
        refresh_per_second=PER_SECOND,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # printed text goes above the bar, on the same terminal
    )


RUNNING: ContextVar[LongCheck | None] = ContextVar("RUNNING", default=None)
"""The check that this thread is running."""


@contextmanager
def shown(name: str, seconds: float | None = None) -> Iterator[None]:
    """Show the progress of a check of `name` in the block, unless it is part of another check, whose limit holds then.

    After `seconds`, evaluations raise TimeUpError. Raises KeyboardInterrupt after Ctrl-C, even if the running code
    caught it.
    """
    if RUNNING.get() is not None:
        yield
        return
    check = LongCheck(name, seconds)
    with ExitStack() as stack:
        stack.callback(RUNNING.reset, RUNNING.set(check))
        if _hears_of_interrupts():
            stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, check.interrupt))
        if _has_a_reader():
            timer = threading.Timer(DELAY, check.show)
            timer.daemon = True
            timer.start()
            stack.callback(check.hide)
            stack.callback(timer.cancel)
        elif sys.stderr is not None and "PYTEST_CURRENT_TEST" not in os.environ:
            threading.Thread(target=check.print_lines, daemon=True).start()
            stack.callback(check.hide)
        yield
        if check.interrupted:
            raise KeyboardInterrupt


@contextmanager
def run_noted() -> Iterator[None]:
    """Show that the code runs in the block, and how long it took, if that is the first time in the running check."""
    check = RUNNING.get()
    if check is None or check.running or check.run_seconds is not None:
        yield
        return
    check.running, began = True, time.monotonic()
    try:
        yield
    finally:
        check.running, check.run_seconds = False, time.monotonic() - began


def counted(evaluations: int) -> None:
    """Count evaluations that are about to be made.

    Raises KeyboardInterrupt after a Ctrl-C that was caught, and TimeUpError after the time limit.
    """
    check = RUNNING.get()
    if check is not None:
        check.evaluations += evaluations
        if check.interrupted:
            raise KeyboardInterrupt
        if check.out_of_time:
            raise TimeUpError


def time_limit() -> float | None:
    """The seconds of the running check's time limit, once it has passed; else None."""
    check = RUNNING.get()
    return check.seconds if check is not None and check.out_of_time else None


def at(stage: str) -> None:
    """Set the stage of the check, such as "order 1"."""
    check = RUNNING.get()
    if check is not None:
        check.stage = stage


def _has_a_reader() -> bool:
    """Whether a bar on the terminal would be seen."""
    try:
        return sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


def _hears_of_interrupts() -> bool:
    """Whether Ctrl-C has Python's default effect; only the main thread receives it."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
