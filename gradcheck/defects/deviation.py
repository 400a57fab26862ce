"""Where TensorFlow's tapes do something else than is documented: a program that shows it, and its JSON form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from gradcheck.defects.records import KnownRecord, record_from_json
from gradcheck.hunt.graph_json import GraphFormatError, items, keys, number, text
from gradcheck.hunt.tapes import reader
from gradcheck.hunt.tapes.program import Derive, Program

FORMAT = "gradcheck known tape deviation"
VERSION = 1
NONE, ZEROS = "None", "zeros"
EXCEPTION = re.compile(r"[A-Z][A-Za-z]{2,60}")
MAX_NUMBERS = 4096
Outcome: TypeAlias = "str | tuple[float, ...]"
"""NONE, ZEROS, the name of an exception, or the numbers of a derivative in row-major order, not all of them zero."""


@dataclass(frozen=True)
class Deviation(KnownRecord):
    """A program whose part `derivative` should come to what is `promised`; TensorFlow gives what is `given`.

    `derivative` is what a Derive statement binds; where it binds several, one of them, such as g[0].
    """

    program: Program
    derivative: str
    promised: Outcome
    given: Outcome

    @property
    def kind(self) -> str:
        """What comes out instead of what, in a few words."""
        given, promised = (one if isinstance(one, str) else "a value" for one in (self.given, self.promised))
        return f"{given}, not {'another' if given == promised else promised}"


def from_json(data: Any) -> Deviation:
    """The deviation of a JSON form; raises GraphFormatError for anything that `to_json` would not have written."""
    names = ("format", "version", "name", "title", "program", "derivative", "promised", "given", "source", "releases")
    keys(data, "$", (*names, "upstream"))
    record = record_from_json(data, FORMAT, VERSION)
    program = reader.from_json(data["program"], "$.program")
    derivative = text(data["derivative"], "$.derivative")
    if derivative not in _derivatives(program):
        raise GraphFormatError("$.derivative", derivative, "what a statement `derive` of the program binds")
    promised, given = (_outcome(data[name], f"$.{name}") for name in ("promised", "given"))
    if promised == given:
        raise GraphFormatError("$.given", data["given"], "something else than what is promised")
    return Deviation(**record, program=program, derivative=derivative, promised=promised, given=given)


def to_json(deviation: Deviation) -> dict[str, Any]:
    """The deviation as plain dictionaries, lists, numbers and texts, which `from_json` reads."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": deviation.name,
        "title": deviation.title,
        "program": reader.to_json(deviation.program),
        "derivative": deviation.derivative,
        "promised": _told(deviation.promised),
        "given": _told(deviation.given),
        "source": deviation.source,
        "releases": {"from": deviation.since, "until": deviation.until},
        "upstream": deviation.upstream,
    }


def _derivatives(program: Program) -> set[str]:
    statements = (one for one in program.statements() if isinstance(one, Derive))
    return {path for derive in statements for path in derive.sources.paths(derive.name)}


def _outcome(data: Any, place: str) -> Outcome:
    if isinstance(data, str):
        return data if data == ZEROS else text(data, place, EXCEPTION)
    found = tuple(number(x, f"{place}[{i}]") for i, x in enumerate(items(data, place, MAX_NUMBERS)))
    if not any(found):
        raise GraphFormatError(place, data, f"{ZEROS!r}, or numbers not all of which are zero")
    return found


def _told(outcome: Outcome) -> Any:
    return outcome if isinstance(outcome, str) else list(outcome)
