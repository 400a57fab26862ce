"""`python -m gradcheck known`: the defects of TensorFlow that have been triaged."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradcheck.defects.records import Defect, Known, TapeDefect
from gradcheck.hunt.commands import known_add, known_check, known_fixed
from gradcheck.hunt.commands.command_output import (
    CommandOutput,
    known_folder,
    known_records,
    release,
    subcommand,
    table,
)

ABOUT = "list the known defects, add one, check them on the installed TensorFlow, mark one as fixed"
EXAMPLE = "example:\n  python -m gradcheck known list"


def add(commands: Any) -> None:
    """Adds the commands."""
    group: argparse.ArgumentParser = commands.add_parser(
        "known",
        help=ABOUT,
        description=f"{ABOUT[0].upper()}{ABOUT[1:]}.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = group.add_subparsers(metavar="COMMAND", required=True)
    parser = subcommand(
        inner,
        "list",
        run,
        about="list the known defects, and whether the installed TensorFlow has them",
        more="Nothing is computed; `here` is what the files have of the installed release.\n\nexit codes: 0, or 2 if a "
        "file cannot be read.",
        example="python -m gradcheck known list",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")
    for command in (known_add, known_check, known_fixed):
        command.add(inner)


def run(options: argparse.Namespace) -> CommandOutput:
    """Lists the known defects, and the documented behaviour that tapes do not keep."""
    records, installed = known_records(known_folder(options.folder)), release()
    defects = [one for one in records if isinstance(one, Defect)]
    tape_defects = [one for one in records if isinstance(one, TapeDefect)]
    rows = [_row(one, one.kind, installed) for one in defects]
    rows += [_row(one, one.kind, installed) for one in tape_defects]
    totals = [_total(defects, "known defects", installed)]
    totals += (
        [_total(tape_defects, "cases of documented behaviour that tapes do not keep", installed)]
        if tape_defects
        else []
    )
    data = {
        "tensorflow": installed,
        "defects": [_defect(one, installed) for one in defects],
        "tape_defects": [_tape_defect(one, installed) for one in tape_defects],
    }
    return CommandOutput(
        "known list", (*(table(rows) if rows else ()), *totals), data, "python -m gradcheck known check"
    )


def _row(one: Known, kind: str, installed: str) -> tuple[str, ...]:
    since, until = one.releases.since, one.releases.until
    releases = f"from {since}" if until is None else f"{since} to before {until}"
    return one.name, kind, releases, "here" if one.covers(installed) else "-", one.title


def _total(records: Sequence[Known], what: str, installed: str) -> str:
    here = sum(one.covers(installed) for one in records)
    return f"{len(records)} {what}, {here} of them in TensorFlow {installed}"


def _defect(one: Defect, installed: str) -> dict[str, Any]:
    about = {"operation": one.signature.operation, "order": one.signature.order, "kind": one.kind}
    return {"name": one.name, "title": one.title, **about, "description": one.description, **_known(one, installed)}


def _tape_defect(one: TapeDefect, installed: str) -> dict[str, Any]:
    outcomes = {"documented": one.documented, "given": one.given}
    return {"name": one.name, "title": one.title, **outcomes, **_known(one, installed)}


def _known(one: Known, installed: str) -> dict[str, Any]:
    releases = {"from": one.releases.since, "until": one.releases.until}
    return {**releases, "here": one.covers(installed), "upstream": one.upstream}
