"""Whose turn it is: tests that a run did not reach come first in the next one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradcheck import files

FORMAT = "gradcheck turns"
VERSION = 1
LIMIT = 10_000_000


def load(path: Path) -> dict[str, int]:
    """For each test, the number of the last run that finished it; empty where there is no file yet.

    Raises ValueError, which says what to do, for anything else in its place.
    """
    try:
        data = json.loads(files.read(path, LIMIT))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(_refusal(path, str(error))) from None
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise ValueError(_refusal(path, ascii(data)[:80]))
    turns = data.get("turns")
    if not isinstance(turns, dict) or not all(type(run) is int and run > 0 for run in turns.values()):
        raise ValueError(_refusal(path, ascii(turns)[:80]))
    return turns


def save(path: Path, done: Iterable[str]) -> None:
    """Gives the tests that were finished the number of a new run, later than all before.

    Raises ValueError as `load` does, and OSError where nothing can be written.
    """
    turns = load(path)
    latest = max(turns.values(), default=0) + 1
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "turns": {**turns, **dict.fromkeys(done, latest)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def _refusal(path: Path, given: str) -> str:
    return f"{path}: not the turns of earlier runs: {given}. Delete the file; all tests then have an equal turn"
