"""A check that takes long: a bar on the terminal, and Ctrl-C, which ends it at the next evaluation at the latest.

The bar is there after two seconds, where stderr is a terminal, rich is installed (Keras needs it) and CI is not set.
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
"""The bar comes after so many seconds."""

PER_SECOND = 8.0
"""So often it is drawn."""


class LongCheck:
    """A check that is running: how many `evaluations` there were, what it is at, and its bar once there is one."""

    def __init__(self, name: str) -> None:
        self.name, self.stage, self.evaluations = name, "", 0
        self.interrupted = False
        self.live: Any = None
        self._began, self._over, self._lock = time.monotonic(), False, threading.Lock()

    @property
    def text(self) -> str:
        """What stands beside the bar."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        stage = f", {self.stage}" if self.stage else ""
        return f"gradcheck of {self.name}{stage}: {self.evaluations:,} evaluations, {minutes}:{seconds:02d}"

    def show(self) -> None:
        """Draw the bar from now on; quietly nothing where that cannot be done."""
        with self._lock:
            if self._over:
                return
            try:
                self.live = _live(self)
                self.live.start()
            except Exception:  # no rich, or somebody else's bar is on the terminal
                self.live = None

    def hide(self) -> None:
        """Take the bar away, for good."""
        with self._lock:
            self._over = True
            if self.live is not None:
                self.live.stop()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C, which somebody's code may catch, and TensorFlow does in a tf.py_function."""
        self.interrupted = True
        raise KeyboardInterrupt


def _live(check: LongCheck) -> Any:
    """A line with a bar that pulses, for the total is unknown."""
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
        redirect_stdout=sys.stdout.isatty(),  # what is printed goes above the bar, on the same terminal
    )


RUNNING: ContextVar[LongCheck | None] = ContextVar("RUNNING", default=None)
"""The check that this thread is running."""


@contextmanager
def shown(name: str) -> Iterator[None]:
    """Let a check of `name` run inside; one that is a part of another one is not shown by itself.

    Raises KeyboardInterrupt where Ctrl-C came, even if the code that was running caught it.
    """
    if RUNNING.get() is not None:
        yield
        return
    check = LongCheck(name)
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
        yield
        counted(0)


def counted(evaluations: int) -> None:
    """So many evaluations are to be made now. Raises KeyboardInterrupt if Ctrl-C came and somebody caught it."""
    check = RUNNING.get()
    if check is not None:
        check.evaluations += evaluations
        if check.interrupted:
            raise KeyboardInterrupt


def at(stage: str) -> None:
    """What the check is at, such as "order 1"."""
    check = RUNNING.get()
    if check is not None:
        check.stage = stage


def _has_a_reader() -> bool:
    """Whether there is somebody to look at a bar."""
    try:
        return sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


def _hears_of_interrupts() -> bool:
    """Whether Ctrl-C does what Python does with it; only the main thread hears of it."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
