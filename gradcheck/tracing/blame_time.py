"""The time limit of the search for a cause: a multiple of the processor time of the check that failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck.progress import TimeUpError

TIMES = 10
"""The search ends after this many times the time of the check."""

ENDLESS = float("inf")
"""The multiple for a record of code that no check is behind."""

processor_seconds = time.process_time


class BlameTime:
    """The processor time of a check, which begins now, and that of the search for a cause, which interrupts it.

    The search may take `times` the time of the check.
    """

    def __init__(self, times: float = TIMES) -> None:
        self._times = times
        self._began = self._asked = processor_seconds()
        self._before = 0.0

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """Count the time of the block as the search's, not the check's."""
        self._asked = processor_seconds()
        try:
            yield
        finally:
            self._before += processor_seconds() - self._asked

    def refuse_more(self) -> None:
        """Raise TimeUpError if the search that is under way has used all of its time."""
        check = self._asked - self._began - self._before
        if self._before + processor_seconds() - self._asked > self._times * check:
            raise TimeUpError
