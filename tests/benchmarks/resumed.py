"""Rows of a long run, kept as lines of JSON in a file that the next run goes on with."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option `--into`."""
    parser.add_argument("--into", type=Path, help="a file of lines of JSON, which is gone on with")


class Rows:
    """The rows of a file, if there is one, by the values that they have under some names."""

    def __init__(self, into: Path | None, *names: str) -> None:
        self._into, self._names = into, names
        lines = into.read_text().splitlines() if into and into.exists() else []
        self._done = {tuple(row[name] for name in names): row for row in map(json.loads, lines)}

    def get(self, key: tuple[Any, ...], run: Callable[[], Row], *, fatal: Row | None = None) -> Row:
        """The row of a key: that of the file, or what `run` gives without the key, which is added to the file.

        What is `fatal` stands there meanwhile, for the case that the process does not live to tell; later rows count.
        """
        if key in self._done:
            return self._done[key]
        self._add(key, fatal)
        return self._add(key, run())

    def _add(self, key: tuple[Any, ...], rest: Row | None) -> Row:
        row = {**dict(zip(self._names, key, strict=True)), **(rest or {})}
        if self._into and rest is not None:
            with self._into.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row
