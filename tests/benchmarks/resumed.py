"""Rows of a long run, kept as lines of JSON in a file with which the next run continues."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
CRASHES = 2
"""Number of runs that have to end during a row before the row is taken to crash them."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option `--into`."""
    parser.add_argument("--into", type=Path, help="a file of lines of JSON, which is gone on with")


class Rows:
    """The rows of a file, if there is one, by the values that they have under some names."""

    def __init__(self, into: Path | None, *names: str) -> None:
        self._into, self._names = into, names
        self._done, self._begun = dict[tuple[Any, ...], Row](), Counter[tuple[Any, ...]]()
        for row in map(json.loads, into.read_text().splitlines() if into and into.exists() else []):
            key = tuple(row[name] for name in names)
            if "begun" in row:
                self._begun[key] += row["begun"]
            else:
                self._done[key] = row

    def get(self, key: tuple[Any, ...], run: Callable[[], Row], *, fatal: Row | None = None) -> Row:
        """The row of a key: that of the file, or the result of `run`, which is added to the file with the key.

        Where a row can be `fatal` to the process, its start is recorded; a row that has ended CRASHES runs is `fatal`.
        """
        if key in self._done:
            return self._done[key]
        if fatal is not None and self._begun[key] >= CRASHES:
            return self._add(key, fatal)
        if fatal is not None:
            self._add(key, {"begun": 1})
        try:
            row = run()
        except KeyboardInterrupt:
            self._add(key, {"begun": -1})
            raise
        return self._add(key, row)

    def done(self, key: tuple[Any, ...]) -> Row | None:
        """The row of a key, if the file has it."""
        return self._done.get(key)

    def _add(self, key: tuple[Any, ...], rest: Row) -> Row:
        row = {**dict(zip(self._names, key, strict=True)), **rest}
        if self._into:
            with self._into.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row
