"""`python -m gradcheck coverage`: what a run exercised, and what it hardly tested."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gradcheck.documents import plain
from gradcheck.hunt.commands import runs
from gradcheck.hunt.commands.command_output import CommandOutput, subcommand
from gradcheck.hunt.commands.command_output import table as aligned
from gradcheck.hunt.coverage import ENOUGH, table
from gradcheck.hunt.report.run import Grade, Reach, reaches

MORE = f"""Reads the events of one run or of several shards. An operation was hardly tested at an order if fewer than
{ENOUGH} of its examples could be compared, or if most were rejected or inconclusive. What a known defect of the
installed TensorFlow leaves out as a whole is not missed.

exit codes: 0, whatever was found; 2 if nothing could be read."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = subcommand(
        commands,
        "coverage",
        run,
        about="show what was exercised, and which operations were hardly tested or never reached",
        more=MORE,
        example="python -m gradcheck coverage reports",
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        default=[Path("reports")],
        metavar="FOLDER",
        help="a folder of reports with its events (default: reports)",
    )


def run(options: argparse.Namespace) -> CommandOutput:
    """Shows the coverage of the folders."""
    found, left_out = runs.read(options.folders), runs.left_out()
    reached = [one for one in reaches(found, left_out) if one.grade is not Grade.NONE]
    weak = [one for one in reached if one.grade in (Grade.RED, Grade.YELLOW)]
    never = [one for one in weak if not one.attempts and not one.compared + one.lost]
    hardly = sorted((one for one in weak if one not in never), key=lambda one: one.compared)
    out = [one for one in reached if one.grade is Grade.KNOWN]
    missing = runs.missing_shards(found.started)
    notes = [*found.remarks, *(f"shard {shard} is missing" for shard in missing)]
    lines = [
        *table(found.coverage, runs.summary_lines(found)).split("\n"),
        f"never reached: {len(never)} of {len(reached)} pairs of an operation and an order",
        f"hardly tested: {len(hardly)}",
        *(f"  {line}" for line in aligned([_row(one) for one in hardly])),
        f"left out, as known to be wrong everywhere: {len(out)}",
        *(f"note: {note}" for note in notes),
    ]
    data = {
        "coverage": found.coverage.to_json(),
        "operations": plain(found.operations),
        "hardly_tested": [_gap(one) for one in hardly],
        "never_reached": [_gap(one) for one in never],
        "left_out": [{"operation": op, "order": order, "known": name} for (op, order), name in left_out.items()],
        "missing_shards": missing,
        "remarks": notes,
    }
    step = runs.hunt(one.operation for one in [*never, *hardly]) if weak else "python -m gradcheck replay"
    return CommandOutput("coverage report", tuple(lines), data, step)


def _gap(one: Reach) -> dict[str, Any]:
    counts = {"compared": one.compared, "lost": one.lost, "rejected": one.rejected, "attempts": one.attempts}
    return {"operation": one.operation, "order": one.order, **counts, "reason": one.reason}


def _row(one: Reach) -> tuple[str, ...]:
    return one.operation, f"order {one.order}", f"{one.compared} compared of {one.attempts}", one.reason
