"""The runs that a command is asked to read: folders of reports with their events."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from gradcheck import files
from gradcheck.commands.answer import CommandError
from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.report import run
from gradcheck.report.run import Run

EVENTS = "events"
SHOWN = 12
LARGEST = 2**28


def read(folders: Sequence[Path]) -> Run:
    """The run whose events lie in these folders, or in their folders `events`; the same folder counts once.

    Raises CommandError where a folder is missing, has no events or has something else among them.
    """
    places = [_events(folder) for folder in folders]
    unique = {place.resolve(): place for place in places}
    try:
        for path in (path for place in unique.values() for path in place.glob("*.jsonl")):
            files.refuse_unusual(path, LARGEST)
        return run.read(*unique.values())
    except (ValueError, OSError) as error:
        raise CommandError(f"{error}; take the file away, or name another folder") from None


def wanted(found: Run) -> list[tuple[str, int]]:
    """The operations that the run was asked for, at each of their orders."""
    asked = {name for started in found.started for name in started.operations} or set(CATALOGUE)
    return [(name, order) for name in sorted(asked & set(CATALOGUE)) for order in CATALOGUE[name].orders]


def hunt(operations: Iterable[str]) -> str:
    """The command that hunts with these operations, at most twelve of them."""
    names = list(dict.fromkeys(operations))[:SHOWN]
    return f"python -m pytest tests/properties {shlex.quote('--gradcheck-ops=' + ','.join(names))}"


def _events(folder: Path) -> Path:
    if not folder.is_dir():
        raise CommandError(f"{folder}: no such folder; name the folder of a run's reports")
    place = folder / EVENTS if (folder / EVENTS).is_dir() else folder
    if not any(place.glob("*.jsonl")):
        raise CommandError(
            f"{folder}: a folder without events (events/*.jsonl); name one that a hunt wrote to, such as reports"
        )
    return place
