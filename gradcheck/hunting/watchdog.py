"""A limit for every example: a process that hangs is ended, whatever it hangs in."""

from __future__ import annotations

import faulthandler
import time
from typing import IO

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
