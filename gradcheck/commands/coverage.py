"""`python -m gradcheck coverage`: what a run exercised, and what it hardly tested."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gradcheck import known
from gradcheck.commands import runs
from gradcheck.commands.answer import Answer
from gradcheck.commands.answer import table as aligned
from gradcheck.commands.installed import known_defects, release
from gradcheck.commands.options import subcommand
from gradcheck.coverage import ENOUGH, Gap, gaps, table
from gradcheck.report.record_json import encode
from gradcheck.report.run import Run

MORE = f"""Reads the events of one run or of several shards. An operation was hardly tested at an order if fewer than
{ENOUGH} of its examples could be compared (--enough). What a known defect of the installed TensorFlow leaves out as a
whole is not missed.

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
    parser.add_argument("--enough", type=_count, default=ENOUGH, metavar="N", help=f"comparisons wanted ({ENOUGH})")


def run(asked: argparse.Namespace) -> Answer:
    """Shows the coverage asked for."""
    found, defects = runs.read(asked.folders), known_defects()
    here = [defect for defect in defects if defect.covers(release())]
    wanted = runs.wanted(found)
    left_out = {pair: name for pair in wanted if (name := known.everywhere(*pair, defects=here)) is not None}
    missing = gaps(found.coverage, [pair for pair in wanted if pair not in left_out], asked.enough)
    never = [gap for gap in missing if not gap.examples]
    lines = [
        table(found.coverage, findings(found)),
        f"never reached: {len(never)} of {len(wanted)} pairs of an operation and an order",
        f"hardly tested: {len(missing) - len(never)} (fewer than {asked.enough} comparisons)",
        *_rows([gap for gap in missing if gap.examples]),
        f"left out, as known to be wrong everywhere: {len(left_out)}",
        *(f"note: {remark}" for remark in found.remarks),
    ]
    data = {
        "operations": encode(found.operations),
        "hardly_tested": [asdict(gap) for gap in missing if gap.examples],
        "never_reached": [asdict(gap) for gap in never],
        "left_out": [{"operation": op, "order": order, "known": name} for (op, order), name in left_out.items()],
        "remarks": found.remarks,
    }
    step = runs.hunt(gap.operation for gap in missing) if missing else "python -m gradcheck replay"
    return Answer("coverage report", tuple("\n".join(lines).split("\n")), data, step)


def findings(found: Run) -> list[dict[str, Any]]:
    """The findings of a run, as the table of its coverage takes them."""
    return [
        {
            "operation": report.discovery.culprit,
            "order": report.discovery.order,
            "kind": report.discovery.signature.kind.value,
            "files": [f"{report.discovery.name}.json"],
        }
        for report in found.findings
    ]


def _rows(missing: list[Gap]) -> list[str]:
    rows = [(gap.operation, f"order {gap.order}", f"{gap.compared} of {gap.examples}", gap.why) for gap in missing]
    return [f"  {line}" for line in aligned(rows)] if rows else []


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} was given; expected 1 or more")
    return number
