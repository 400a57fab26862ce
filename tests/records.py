"""The records of reports/known, read once, and a few of them that together have every trait that any has."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gradcheck import documents
from gradcheck.defects import known
from gradcheck.defects.causes import SHAREABLE
from gradcheck.defects.records import Defect, Known, TapeDefect
from gradcheck.hunt import known_graphs
from gradcheck.operations.catalogue import CATALOGUE

COMMITTED = Path(__file__).parents[1] / "reports" / "known"
RECORDS = known.records(COMMITTED, known_graphs.check)
DEFECTS = tuple(one for one in RECORDS if isinstance(one, Defect))
TAPE_DEFECTS = tuple(one for one in RECORDS if isinstance(one, TapeDefect))


def document(name: str) -> Any:
    """The fields of a committed record, as a file of the earlier form has them, which holds one record."""
    (found,) = (one for one in RECORDS if one.name == name)
    return documents.plain(found)


def from_json(data: Any) -> Known:
    """The record of such fields; raises DocumentError."""
    found: Known = documents.convert(data, Known)  # type: ignore[arg-type]  # a union is no type
    return found


def alone(data: dict[str, Any], cause: str | None = None) -> dict[str, Any]:
    """The document of a cause, that of the record if it is not named, whose only example has such fields."""
    shared = {field: value for field, value in data.items() if field in SHAREABLE}
    own = {field: value for field, value in data.items() if field not in (*SHAREABLE, "version", "group")}
    head = {"format": "gradcheck known cause", "version": 1, "cause": cause or data["group"]}
    return {**head, "shared": shared, "examples": [own]}


def copied(folder: Path, record: str, **fields: Any) -> Path:
    """Writes a committed record, with some of its fields replaced, as the only example of its cause.

    Under another name it is its own cause.
    """
    data = document(record) | fields
    cause = data["group"] if data["name"] == record else data["name"]
    path = folder / f"{cause}.json"
    path.write_text(documents.to_text(alone(data, cause)))
    return path


def covering(traits: Callable[[Defect], Iterable[Hashable]]) -> Callable[[Sequence[Defect]], list[Defect]]:
    """Chooses records that together have each trait of any record; few, not the fewest, the cheap ones first.

    Those are of small graphs; control flow is expensive, whose derivatives TensorFlow makes as functions.
    """

    def chosen(defects: Sequence[Defect]) -> list[Defect]:
        of = {one.name: {*traits(one)} for one in defects}
        cheap_first = sorted(
            defects, key=lambda one: (_in_control_flow(one), len(one.graph.nodes), _elements(one), one.name)
        )
        left, found = set().union(*of.values()), []
        while left:
            best = max(cheap_first, key=lambda one: len(of[one.name] & left))  # the first of the best
            found.append(best)
            left -= of[best.name]
        return found

    return chosen


def _in_control_flow(defect: Defect) -> bool:
    return any(CATALOGUE[node.op].family == "control flow" for node in defect.graph.nodes)


def _elements(defect: Defect) -> int:
    return sum(math.prod(given.shape) for given in defect.graph.inputs)
