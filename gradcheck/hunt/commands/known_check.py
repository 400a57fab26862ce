"""`python -m gradcheck known check`: are the known defects as they are recorded?"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcheck.defects.records import Known, TapeDefect, version_of
from gradcheck.hunt.commands.command_output import (
    CommandError,
    CommandOutput,
    known_folder,
    known_records,
    subcommand,
    table,
    tensorflow,
)
from gradcheck.hunt.events import State

if TYPE_CHECKING:
    from gradcheck.hunt.recheck import Recheck

CHANGED, BACK, EARLIER, GONE = "changed", "back", "wrong earlier", "fixed, as recorded"
MORE = f"""Takes the derivative of every defect (or of those named) on the installed TensorFlow, and runs every
program of tapes.

{State.STILL}: as recorded; {GONE}: the same; {State.FIXED}: right now, though the file says otherwise;
{CHANGED}: wrong, but not as recorded; {BACK}: wrong again; {EARLIER}: wrong in a release before the recorded one;
{State.CANNOT_TELL}: it raises, or is inconclusive.

exit codes: 0 all are as recorded, 1 one or more are not, 2 one or more cannot be told."""


@dataclass(frozen=True)
class KnownCheck:
    """What became of one record."""

    name: str
    state: str
    message: str
    title: str
    upstream: str | None

    @property
    def as_recorded(self) -> bool:
        """Whether its file says the same."""
        return self.state in (State.STILL, GONE)


def add(commands: Any) -> None:
    """Adds the command."""
    parser = subcommand(
        commands,
        "check",
        run,
        about="check the known defects on the installed TensorFlow",
        more=MORE,
        example="python -m gradcheck known check cumprod-zero-order1",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of defects (all of them)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")


def run(options: argparse.Namespace) -> CommandOutput:
    """Checks the defects that are named."""
    folder = known_folder(options.folder)
    records = named(known_records(folder), options.names)
    installed = tensorflow()
    from gradcheck.hunt.recheck import of_known

    checked = [_checked(one, of_known(one), installed) for one in records]
    odd = [one for one in checked if not one.as_recorded]
    rows = [(one.state, one.name, one.message) for one in checked]
    total = f"{len(checked) - len(odd)} of {len(checked)} as recorded, TensorFlow {installed}"
    tapes = {one.name for one in records if isinstance(one, TapeDefect)}
    data = {
        "tensorflow": installed,
        "defects": [asdict(one) for one in checked if one.name not in tapes],
        "tape_defects": [asdict(one) for one in checked if one.name in tapes],
    }
    code = 2 if any(one.state == State.CANNOT_TELL for one in checked) else 1 if odd else 0
    return CommandOutput("known check", (*(table(rows) if rows else ()), total), data, _next(odd, folder), code)


def named(records: Sequence[Known], names: Sequence[str]) -> list[Known]:
    """The records of these names, in their order, or all; raises CommandError for a name that none has."""
    known = {one.name: one for one in records}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            meant = f"did you mean {' or '.join(near)}?" if near else "python -m gradcheck known list has the names"
            raise CommandError(f"{name}: no known defect of this name; {meant}")
    return [known[name] for name in names] if names else list(records)


def _checked(one: Known, seen: Recheck, installed: str) -> KnownCheck:
    return KnownCheck(one.name, _state(one, seen, installed), seen.message, one.title, one.upstream)


def _state(one: Known, seen: Recheck, installed: str) -> str:
    if seen.state is State.CANNOT_TELL:
        return State.CANNOT_TELL
    if seen.state is State.FIXED:
        return State.FIXED if one.covers(installed) else GONE
    if one.covers(installed):
        return CHANGED if seen.changed else State.STILL
    return EARLIER if version_of(installed) < version_of(one.releases.since) else BACK


def _next(odd: Sequence[KnownCheck], folder: Path) -> str:
    for one in odd:
        if one.state == State.FIXED:
            return f"python -m gradcheck known fixed {one.name}"
    for one in odd:
        return f"look at {folder / one.name}.json and correct it ({one.state})"
    return "python -m pytest tests/properties"
