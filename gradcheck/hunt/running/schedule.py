"""Which tests wait longest: for each one the number of the last run that finished it, kept from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gradcheck import files

NAME = "schedule.json"
FORMAT = "gradcheck schedule"
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
    runs = data.get("last_runs")
    if not isinstance(runs, dict) or not all(type(run) is int and run > 0 for run in runs.values()):
        raise ValueError(_refusal(path, ascii(runs)[:80]))
    return runs


def save(path: Path, finished: Iterable[str]) -> None:
    """Gives the tests that were finished the number of a new run, later than all before.

    Raises ValueError as `load` does, and OSError where nothing can be written.
    """
    runs = load(path)
    latest = max(runs.values(), default=0) + 1
    data = {"format": FORMAT, "version": VERSION, "last_runs": {**runs, **dict.fromkeys(finished, latest)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def _refusal(path: Path, given: str) -> str:
    return f"{path}: not a schedule of this project: {given}. Delete the file; no test then comes before another"
