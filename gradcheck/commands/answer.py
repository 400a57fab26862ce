"""What a command says: lines for people, data for machines, the next step, an exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VERSION = 1


class CommandError(Exception):
    """A command cannot do what it was asked for; says what was given, what was expected, and what to do."""


@dataclass(frozen=True)
class Answer:
    """`command` names it in the JSON; `data` are its fields; `next` is a command line, or what else to do."""

    command: str
    lines: tuple[str, ...]
    data: Mapping[str, Any]
    next: str
    code: int = 0

    @property
    def text(self) -> str:
        """The lines and the next step; what a terminal would obey is spelt out."""
        return "\n".join(map(printable, [*self.lines, f"next: {self.next}"]))

    @property
    def json(self) -> str:
        """Strict JSON: `format`, `version`, the command's own fields, `exit_code`, `next`."""
        head = {"format": f"gradcheck {self.command}", "version": VERSION}
        data = {**head, **self.data, "exit_code": self.code, "next": self.next}
        return json.dumps(_strict(data), indent=2, allow_nan=False)


def printable(text: str) -> str:
    r"""A text without control characters: one from a file could else clear the screen or forge a line.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns aligned, two spaces apart; the last column as long as it is.

    >>> table([("a", "bc", "d"), ("aa", "b", "dd")])
    ['a   bc  d', 'aa  b   dd']
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def _strict(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _strict(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return repr(data)
    return data
