"""The loss of a training step in the lighter of two ways, once both were seen to give the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

COMPARED = 3
"""So many losses that are taken in a light way have to be those of whole runs before it is trusted."""


class LighterLoss:
    """Chooses between two ways to a loss: of whole runs, and a light one that has to give the same, and to be faster.

    Both ways are gone until they gave the same for COMPARED different losses; from then on one alone.
    """

    def __init__(self) -> None:
        self._losses: set[float] = set()
        self._same = True
        self._seconds = [float("inf"), float("inf")]

    def of(self, whole: Callable[[], Any], light: Callable[[], Any]) -> Any:
        """The loss, in the way that is known to be the better one by now."""
        if not self._same:
            return whole()
        if len(self._losses) >= COMPARED:
            return light() if self._seconds[1] < self._seconds[0] else whole()
        loss = self._timed(0, whole)
        self._losses.add(float(loss))
        try:
            other = self._timed(1, light)
        except Exception:  # that of a step which cannot do without its update, whatever it says
            self._same = False
        else:
            self._same = loss.dtype == other.dtype and float(loss) == float(other)
        return loss

    def _timed(self, way: int, loss: Callable[[], Any]) -> Any:
        began = time.process_time()
        value = loss()
        self._seconds[way] = min(self._seconds[way], time.process_time() - began)
        return value
