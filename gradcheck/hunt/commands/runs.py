"""The runs that a command reads: folders of reports with their events."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gradcheck import files
from gradcheck.defects import known
from gradcheck.hunt import known_graphs
from gradcheck.hunt.commands.command_output import CommandError, release
from gradcheck.hunt.events import Started
from gradcheck.hunt.finding import summary_line
from gradcheck.hunt.report import run
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.running.configuration import EVENTS

SHOWN = 12
LARGEST = 2**28


def read(folders: Sequence[Path]) -> HuntRun:
    """The run whose events lie in these folders, or in their folders `events`; the same folder counts once.

    Raises CommandError where a folder is missing, has no events or has something else among them.
    """
    places = {}
    for folder in folders:
        if not folder.is_dir():
            raise CommandError(f"{folder}: no such folder; name the folder of a run's reports")
        place = folder / EVENTS if (folder / EVENTS).is_dir() else folder
        if not any(place.glob("*.jsonl")):
            raise CommandError(
                f"{folder}: a folder without events (events/*.jsonl); name one that a hunt wrote to, such as reports"
            )
        places[place.resolve()] = place
    try:
        for path in (path for place in places.values() for path in place.glob("*.jsonl")):
            files.refuse_unusual(path, LARGEST)
        return run.read(*places.values())
    except (ValueError, OSError) as error:
        raise CommandError(f"{error}; take the file away, or name another folder") from None


def left_out() -> dict[tuple[str, int], str]:
    """The operations and orders that a known defect of the installed TensorFlow leaves no use, with its name."""
    try:
        return known_graphs.left_out(release())
    except known.KnownDefectError as error:
        raise CommandError(str(error)) from None


def summary_lines(found: HuntRun) -> list[dict[str, Any]]:
    """The findings of a run, as the table of its coverage takes them."""
    return [summary_line(one, [f"{one.name}.json"]) for one in found.findings]


def missing_shards(started: Iterable[Started]) -> list[str]:
    """The shards K/N that no process of a run was, for each N that one was."""
    seen: dict[int, set[int]] = {}
    for event in started:
        number, total = map(int, event.shard.split("/"))
        seen.setdefault(total, set()).add(number)
    return [f"{k}/{n}" for n, numbers in sorted(seen.items()) for k in range(1, n + 1) if k not in numbers]


def hunt(operations: Iterable[str]) -> str:
    """The command that hunts with these operations, at most twelve of them; with all, if only groups are named."""
    names = [name for name in dict.fromkeys(operations) if not name.startswith("(")][:SHOWN]
    chosen = f" {shlex.quote('--gradcheck-ops=' + ','.join(names))}" if names else ""
    return f"python -m pytest tests/properties --hypothesis-profile=dev{chosen}"
