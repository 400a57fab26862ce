"""The records of reports/known, read once, and a few of them that together have every trait that any has."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

from gradcheck.defects import known
from gradcheck.defects.records import Defect, TapeDefect
from gradcheck.hunt import known_graphs

COMMITTED = Path(__file__).parents[1] / "reports" / "known"
RECORDS = known.records(COMMITTED, known_graphs.check)
DEFECTS = tuple(one for one in RECORDS if isinstance(one, Defect))
TAPE_DEFECTS = tuple(one for one in RECORDS if isinstance(one, TapeDefect))


def covering(traits: Callable[[Defect], Iterable[Hashable]]) -> Callable[[Sequence[Defect]], list[Defect]]:
    """Chooses records that together have each trait of any record; few, not the fewest, those of small graphs first."""

    def chosen(defects: Sequence[Defect]) -> list[Defect]:
        of = {one.name: {*traits(one)} for one in defects}
        small_first = sorted(defects, key=lambda one: (len(one.graph.nodes), _elements(one), one.name))
        left, found = set().union(*of.values()), []
        while left:
            best = max(small_first, key=lambda one: len(of[one.name] & left))  # the first of the best
            found.append(best)
            left -= of[best.name]
        return found

    return chosen


def _elements(defect: Defect) -> int:
    return sum(math.prod(given.shape) for given in defect.graph.inputs)
