"""`python -m gradcheck known`: the defects of TensorFlow that somebody has looked at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gradcheck.commands import adding, checking, fixing
from gradcheck.commands.answer import Answer, table
from gradcheck.commands.installed import known_defects, known_folder, release
from gradcheck.commands.options import subcommand
from gradcheck.defect import Defect

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
        more="Nothing is computed; `here` is what the files say of the installed release.\n\nexit codes: 0, or 2 if a "
        "file cannot be read.",
        example="python -m gradcheck known list",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")
    for command in (adding, checking, fixing):
        command.add(inner)


def run(asked: argparse.Namespace) -> Answer:
    """Lists the known defects."""
    defects, installed = known_defects(known_folder(asked.folder)), release()
    rows = [
        (one.name, one.kind.value, _releases(one), "here" if one.covers(installed) else "-", one.title)
        for one in defects
    ]
    here = sum(one.covers(installed) for one in defects)
    data = {
        "tensorflow": installed,
        "defects": [
            {
                "name": one.name,
                "title": one.title,
                "operation": one.culprit,
                "order": one.order,
                "kind": one.kind.value,
                "trigger": one.trigger,
                "from": one.since,
                "until": one.until,
                "here": one.covers(installed),
                "upstream": one.upstream,
            }
            for one in defects
        ],
    }
    total = f"{len(defects)} known defects, {here} of them in TensorFlow {installed}"
    lines = (*(table(rows) if rows else ()), total)
    return Answer("known list", lines, data, "python -m gradcheck known check")


def _releases(one: Defect) -> str:
    return f"from {one.since}" if one.until is None else f"{one.since} to before {one.until}"
