"""`python -m gradcheck merge`: the results of several shards as those of one run."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from gradcheck import files
from gradcheck.hunt.commands import runs
from gradcheck.hunt.commands.command_output import CommandError, CommandOutput, subcommand, tensorflow
from gradcheck.hunt.coverage import table
from gradcheck.hunt.events import Ending, Finished, Started, to_line
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.running.configuration import EVENTS

MORE = """Reads the events of all folders, each finding once and all counts added up, and writes a folder that looks as
if one run had done it all: index.html, summary.md, the findings' reports and events/merged.jsonl. The order of the
folders does not matter.

exit codes: 0 merged, 1 merged but a shard is missing, 2 nothing was merged."""
MERGED = "merged.jsonl"
WORST = (Ending.COMPLETED, Ending.BUDGET_SPENT, Ending.INTERRUPTED)


def add(commands: Any) -> None:
    """Adds the command."""
    parser = subcommand(
        commands,
        "merge",
        run,
        about="put the results of several shards together into one report",
        more=MORE,
        example="python -m gradcheck merge shard-1 shard-2 --into reports/merged",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a folder of reports with its events")
    parser.add_argument(
        "--into", type=Path, default=Path("reports/merged"), metavar="DIR", help="a new folder (reports/merged)"
    )


def run(options: argparse.Namespace) -> CommandOutput:
    """Merges the folders that are named."""
    into: Path = options.into
    if into.is_symlink() or (into.exists() and not (into.is_dir() and not any(into.iterdir()))):
        raise CommandError(f"{into}: already there; name a new folder with --into DIR, or remove it first")
    together = runs.read(options.folders)
    missing, merged = runs.missing_shards(together.started), one_run(together)
    remarks = [*together.remarks, *(f"shard {shard} is missing" for shard in missing)]
    _refuse_forged(merged)
    try:
        written = _written(replace(merged, remarks=tuple(remarks)), into)
    except OSError as error:
        raise CommandError(
            f"{into}: nothing can be written there ({error}); name a folder that can be written to with --into DIR"
        ) from None
    findings = runs.summary_lines(merged)
    data = {
        "into": str(into),
        "files": [path.relative_to(into).as_posix() for path in written],
        "findings": findings,
        "crashes": [{"name": one.name, "operation": one.operation, "order": one.order} for one in merged.crashes],
        "hangs": [{"name": one.name, "operation": one.operation, "order": one.order} for one in merged.hangs],
        "missing_shards": missing,
        "remarks": remarks,
    }
    counts = f"{len(findings)} findings, {len(merged.crashes)} crashes, {len(merged.hangs)} hangs"
    lines = (
        *table(merged.coverage, findings).split("\n"),
        *(f"note: {remark}" for remark in remarks),
        f"{counts}; read {into / 'index.html'}",
    )
    step = f"python -m gradcheck {'replay' if findings else 'coverage'} {shlex.quote(str(into))}"
    return CommandOutput("merge", lines, data, step, 1 if missing else 0)


def one_run(together: HuntRun) -> HuntRun:
    """The same findings and counts, as one process without shards would have counted them.

    Processes that were started alike, but for their shard and their host, become one.
    """
    alike: dict[str, Started] = {}
    for event in together.started:
        machine = structs.replace(event.environment, processor="", platform="")
        plain = structs.replace(event, shard="1/1", environment=machine)
        alike.setdefault(to_line(plain), structs.replace(event, shard="1/1"))
    ended = together.finished
    finished = Finished(
        max((event.how for event in ended), key=WORST.index, default=Ending.INTERRUPTED),
        sum(event.examples for event in ended),
        sum(sorted(event.seconds for event in ended)),
    )
    return replace(together, started=tuple(alike[key] for key in sorted(alike)), finished=(finished,), remarks=())


def _refuse_forged(merged: HuntRun) -> None:
    """A report's page is computed from its graph, which is to be one that could have been drawn."""
    if not merged.findings:
        return
    tensorflow()
    from gradcheck.hunt.recheck import output_of

    for found in merged.findings:
        try:
            output_of(found.example)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            raise CommandError(f"the finding {found.name} cannot run ({reason}); take its event away") from None


def _written(merged: HuntRun, into: Path) -> list[Path]:
    """Writes the reports, and last the events, without which the folder is no run."""
    from gradcheck.hunt.report.writer import write, write_run

    into.mkdir(parents=True, exist_ok=True)
    paths = [path for found in merged.findings for path in write(found, into)]
    paths += write_run(merged, into, runs.left_out())
    (into / EVENTS).mkdir()
    events = "".join(f"{to_line(event)}\n" for event in merged.events())
    return [*paths, files.replace(into / EVENTS / MERGED, events)]
