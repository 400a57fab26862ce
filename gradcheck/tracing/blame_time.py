"""How long blame may look: the processor time of the check that failed, so many times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

TIMES = 10
"""Blame ends after so many times the time of the check."""

ENDLESS = float("inf")
"""As many for a record of code that no check is behind."""

processor_seconds = time.process_time


class TimeUpError(BaseException):
    """Blame has taken all of its time; nothing that handles the exceptions of an operation is to take it for one."""


class BlameTime:
    """The processor time of a check, which begins as this is made, and that of blame, which interrupts it.

    Blame may take so many `times` the time of the check.
    """

    def __init__(self, times: float = TIMES) -> None:
        self._times = times
        self._began = self._asked = processor_seconds()
        self._before = 0.0

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """What is done inside is blame's, not the check's."""
        self._asked = processor_seconds()
        try:
            yield
        finally:
            self._before += processor_seconds() - self._asked

    def refuse_more(self) -> None:
        """Raise TimeUpError where blame, which is under way, has taken all of its time."""
        check = self._asked - self._began - self._before
        if self._before + processor_seconds() - self._asked > self._times * check:
            raise TimeUpError
