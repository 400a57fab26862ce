"""`python -m gradcheck merge | coverage`: the results of several shards as those of one run, and their coverage."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from gradcheck import documents, files
from gradcheck.defects import known
from gradcheck.documents import plain
from gradcheck.hunt import coverage, known_graphs
from gradcheck.hunt.commands import cli
from gradcheck.hunt.configuration import EVENTS
from gradcheck.hunt.events import Ending, Finished, OwnModule, Started, to_line
from gradcheck.hunt.finding import GraphFinding, summary_line
from gradcheck.hunt.report import run
from gradcheck.hunt.report.run import Grade, HuntRun, Reach, compared_in_modes, reaches
from gradcheck.operations.registry import REGISTERED, Origin

REGISTERS = re.compile(r"\bgradcheck\.operation\b|\bfrom gradcheck import [^#\n]*\boperation\b")
SHOWN = 12
ENOUGH = 5
"""Operations with fewer comparisons at an order, of all runs together, are where another hunt adds most."""
LARGEST = 2**28
MERGED = "merged.jsonl"
WORST = (Ending.COMPLETED, Ending.BUDGET_SPENT, Ending.INTERRUPTED)
MERGE = """put the results of several shards together into one report

Reads the events of all folders, each finding once and all counts added up, and writes a folder that looks as
if one run had done it all: index.html, summary.md, the findings' reports and events/merged.jsonl. The order of the
folders does not matter. A finding that cannot run on the installed TensorFlow, such as one of another release, keeps
its JSON and has no page. Shards are counted for each build (TensorFlow, oneDNN, XLA) that ran.

exit codes: 0 merged, 1 merged but a shard is missing or a folder has no events, 2 nothing was merged.

example:
  python -m gradcheck merge shard-1 shard-2 --into reports/merged"""
COVERAGE = f"""show what was exercised, and which operations were hardly tested or never reached

Reads the events of one run or of several shards. An operation was hardly tested at an order if fewer
than {ENOUGH} of its examples could be compared, or if most were rejected or inconclusive. What a known defect
of the installed TensorFlow leaves out as a whole is not missed.

exit codes: 0, whatever was found; 2 if nothing could be read.

example:
  python -m gradcheck coverage reports"""


def add(commands: Any) -> None:
    """Adds the commands."""
    parser = cli.subcommand(commands, "merge", run_merge, MERGE)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a folder of reports with its events")
    parser.add_argument(
        "--into", type=Path, default=Path("reports/merged"), metavar="DIR", help="a new folder (reports/merged)"
    )
    parser = cli.subcommand(commands, "coverage", run_coverage, COVERAGE)
    cli.add_paths(parser, "folders", "FOLDER", "a folder of reports with its events")


def run_merge(options: argparse.Namespace) -> cli.CommandOutput:
    """Merges the folders that are named."""
    into: Path = options.into
    if into.is_symlink() or (into.exists() and not (into.is_dir() and not any(into.iterdir()))):
        raise cli.CommandError(f"{into}: already there; name a new folder with --into DIR, or remove it first")
    load_own(options, options.folders)
    together = read(options.folders)
    missing = [*together.missing_shards, *map(str, _without_events(options.folders))]
    merged, failed = one_run(together), _cannot_run(together.findings)
    events = _event_lines(merged)
    try:
        written, pageless = _reports(merged.findings, into, failed)
        merged = replace(merged, remarks=(*merged.remarks, *failed.values(), *pageless))
        written += _run_files(merged, events, into, failed)
    except OSError as error:
        raise cli.CommandError(
            f"{into}: nothing can be written there ({error}); name a folder that can be written to with --into DIR"
        ) from None
    findings = _summary_lines(merged)
    data = {
        "into": str(into),
        "files": [path.relative_to(into).as_posix() for path in written],
        "findings": findings,
        "crashes": [{"name": one.name, "operation": one.operation, "order": one.order} for one in merged.crashes],
        "hangs": [{"name": one.name, "operation": one.operation, "order": one.order} for one in merged.hangs],
        "missing_shards": missing,
        "remarks": merged.remarks,
    }
    counts = f"{len(findings)} findings, {len(merged.crashes)} crashes, {len(merged.hangs)} hangs"
    lines = (
        *coverage.table(merged.coverage, findings).split("\n"),
        *(f"note: {remark}" for remark in merged.remarks),
        f"{counts}; read {into / 'index.html'}",
    )
    wrong = findings or merged.crashes or merged.hangs
    step = f"python -m gradcheck {'replay' if wrong else 'coverage'} {shlex.quote(str(into))}"
    return cli.CommandOutput("merge", lines, data, step, 1 if missing else 0)


def one_run(together: HuntRun) -> HuntRun:
    """The same findings, counts and remarks, as one process without shards would have recorded them.

    Processes that differ only in shard and host become one.
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
    return replace(together, started=tuple(alike[key] for key in sorted(alike)), finished=(finished,))


def _cannot_run(findings: Sequence[GraphFinding]) -> dict[str, str]:
    """Messages about findings whose operations raise here, such as those of another release, by name.

    They get no page, since a page implies that the graph was run. Raises CommandError for a graph that could not have
    been drawn at all.
    """
    if not findings:
        return {}
    release, failed = cli.tensorflow(), {}
    from gradcheck.hunt.admission import AdmissionError
    from gradcheck.hunt.recheck import output_of

    for found in findings:
        try:
            output_of(found.example)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".split("\n")[0][:300]
            if isinstance(error, AdmissionError):
                raise cli.CommandError(f"the finding {found.name} cannot run ({reason}); take its event away") from None
            where = f"cannot run on the installed TensorFlow {release}"
            failed[found.name] = f"the finding {found.name} {where} ({reason}); it has its JSON only"
    return failed


def _reports(findings: Iterable[GraphFinding], into: Path, json_only: Collection[str]) -> tuple[list[Path], list[str]]:
    """Writes the findings' reports; returns their paths, and messages about files that could not be made."""
    from gradcheck.hunt.report.writer import PageError, write, write_json

    into.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    remarks: list[str] = []
    for found in findings:
        try:
            paths += write_json(found, into) if found.name in json_only else write(found, into)
        except PageError as error:
            paths += error.written
            remarks.append(f"the finding {found.name} lacks a file that could not be made ({error}); it has the others")
    return paths, remarks


def _event_lines(merged: HuntRun) -> str:
    """The events as the text of a file; raises CommandError if sums are out of range for an event."""
    try:
        return "".join(f"{to_line(event)}\n" for event in merged.events())
    except ValueError as error:
        raise cli.CommandError(
            f"the events of these folders cannot be added up ({error}); take the file with such numbers away"
        ) from None


def _run_files(merged: HuntRun, events: str, into: Path, json_only: Collection[str]) -> list[Path]:
    """Writes the pages of the run, and then the events, which make the folder a run."""
    from gradcheck.hunt.report.writer import without_page, write_run

    why = without_page(merged.findings, into) | dict.fromkeys(json_only, "cannot run here, not looked at again")
    paths = write_run(merged, into, left_out(), without_page=why)
    (into / EVENTS).mkdir()
    return [*paths, files.replace(into / EVENTS / MERGED, events)]


def run_coverage(options: argparse.Namespace) -> cli.CommandOutput:
    """Shows the coverage of the folders."""
    load_own(options, options.folders)
    found, known_pairs = read(options.folders), left_out()
    counts = replace(found, findings=(), crashes=(), hangs=())  # what is wrong may be hardly tested as well
    reached = [one for one in reaches(counts, known_pairs) if one.grade is not Grade.NONE]
    never = [one for one in reached if one.grade is Grade.BLANK]
    hardly = sorted(filter(None, map(_hardly, reached)), key=lambda one: one.compared)
    out = [one for one in reached if one.grade is Grade.KNOWN]
    rows = [
        (one.operation, f"order {one.order}", f"{one.compared} compared of {one.attempts}", one.reason)
        for one in hardly
    ]
    lines = [
        *coverage.table(found.coverage, _summary_lines(found), whole=True).split("\n"),
        *_modes(found),
        f"never reached: {len(never)} of {len(reached)} pairs of an operation and an order",
        f"hardly tested: {len(hardly)}",
        *(f"  {line}" for line in cli.table(rows)),
        f"left out, as known to be wrong everywhere: {len(out)}",
        *(f"note: {remark}" for remark in found.remarks),
    ]
    data = {
        "coverage": found.coverage.to_json(),
        "operations": plain(found.operations),
        "hardly_tested": [_gap(one) for one in hardly],
        "never_reached": [_gap(one) for one in never],
        "left_out": [{"operation": op, "order": order, "known": name} for (op, order), name in known_pairs.items()],
        "missing_shards": found.missing_shards,
        "remarks": found.remarks,
    }
    places = " ".join(shlex.quote(str(folder)) for folder in options.folders)
    missed = [*never, *hardly]
    step = hunt(one.operation for one in missed) if missed else f"python -m gradcheck replay {places}"
    return cli.CommandOutput("coverage report", tuple(lines), data, step)


def _hardly(one: Reach) -> Reach | None:
    """An operation at an order that was hardly tested, with the reason."""
    if one.grade is Grade.GREEN and one.compared < ENOUGH:
        return replace(one, reason=f"fewer than {ENOUGH} comparisons")
    return one if one.grade is Grade.YELLOW else None


def _modes(found: HuntRun) -> Iterator[str]:
    """How often derivatives in each mode and number type were compared."""
    counts = compared_in_modes(found.operations)
    if counts:
        names = sorted({mode for mode, _ in counts})
        rows = [(name, *(f"order {order}: {counts[name, order]:,}" for order in (1, 2))) for name in names]
        yield "comparisons in modes and number types:"
        yield from (f"  {line}" for line in cli.table(rows))


def _gap(one: Reach) -> dict[str, Any]:
    names = ("operation", "order", "compared", "lost", "rejected", "attempts", "reason")
    return {name: getattr(one, name) for name in names}


def _summary_lines(found: HuntRun) -> list[dict[str, Any]]:
    """The findings, each with its JSON report beside the page of the run."""
    return [summary_line(one, [f"{one.name}.json"]) for one in found.findings]


def read(folders: Sequence[Path]) -> HuntRun:
    """The run whose events lie in these folders, or in their `events` folders; a folder given twice counts once.

    Its remarks also name the missing shards, and the folders without events. Raises CommandError where a folder is
    missing, or has something else among its events, or where none has any.
    """
    for folder in folders:
        if not folder.is_dir():
            raise cli.CommandError(f"{folder}: no such folder; name the folder of a run's reports")
    without = _without_events(folders)
    if len(without) == len(folders):
        raise cli.CommandError(
            f"{without[0]}: a folder without events (events/*.jsonl); name one that a hunt wrote to, such as reports"
        )
    places = [_place(folder) for folder in folders if folder not in without]
    found = events_in({place.resolve(): place for place in places}.values())
    remarks = [f"shard {shard} is missing" for shard in found.missing_shards]
    remarks += [f"{folder}: a folder without events (events/*.jsonl); its run is missing" for folder in without]
    return replace(found, remarks=(*found.remarks, *remarks))


def _place(folder: Path) -> Path:
    """The folder with the events of a folder of reports."""
    return folder / EVENTS if (folder / EVENTS).is_dir() else folder


def _without_events(folders: Iterable[Path]) -> list[Path]:
    return [folder for folder in folders if not any(_place(folder).glob("*.jsonl"))]


def events_in(
    places: Iterable[Path], pattern: str = "*.jsonl", another: str = "name another folder of a run's reports"
) -> HuntRun:
    """The run whose events lie in these folders; raises CommandError if one is missing, or has something else."""
    places = tuple(places)
    try:
        for path in (path for place in places for path in place.glob(pattern)):
            files.refuse_unusual(path, LARGEST)
        return run.read(*places, pattern=pattern)
    except (ValueError, files.FileRefusedError) as error:
        names = " ".join(f"--import {one.module}" for one in own_modules(places)) or "--import MODULE"
        own = f"name that module with {names}, " * ("--import" in str(error))
        raise cli.CommandError(f"{error}; {own}take the file away, or {another}") from None
    except OSError as error:
        raise cli.CommandError(f"{error}; {another}") from None


def own_modules(places: Iterable[Path]) -> list[OwnModule]:
    """The modules with operations of their own that the runs in these folders, or in their `events`, had imported."""
    found: dict[OwnModule, None] = {}
    for path in (path for place in places for path in sorted(_place(place).glob("*.jsonl"))):
        with suppress(OSError, ValueError):  # whoever reads the events says what is wrong with them
            files.refuse_unusual(path, LARGEST)
            with path.open(encoding="utf-8") as file:
                first = documents.parse(file.readline(documents.MAX_TEXT))
            given = first.get("modules", ()) if isinstance(first, dict) else ()
            found |= dict.fromkeys(documents.convert(one, OwnModule) for one in given)
    return list(found)


def load_own(options: argparse.Namespace, places: Iterable[Path]) -> None:
    """Imports the modules of these runs, so that their operations are known; the next step names them with --import.

    A file of unknown origin may name any module: only one that lies in the working directory, where its name says, and
    that registers operations is imported. Raises CommandError where that fails.
    """
    for one in own_modules(places):
        path = Path(one.folder, *one.module.split("."))
        if not one.folder or one.module in options.modules:
            continue
        if not (_registers(Path(f"{path}.py")) or _registers(path / "__init__.py")):
            continue
        try:
            Origin(one.module, str(Path(one.folder).resolve())).load()
        except (Exception, SystemExit) as error:
            raise cli.CommandError(
                f"{path}: {type(error).__name__}: {error}; expected a module that can be imported, as the run did, for "
                "its operations"
            ) from None
        if one.folder == ".":  # where --import looks
            options.modules = [*options.modules, one.module]


def _registers(path: Path) -> bool:
    """Whether a file is a module that registers operations."""
    with suppress(OSError):
        return REGISTERS.search(files.read(path, documents.MAX_TEXT)) is not None
    return False


def left_out() -> dict[tuple[str, int], str]:
    """Operations and orders that a known defect of the installed TensorFlow excludes entirely, and its name."""
    try:
        return known_graphs.left_out(cli.release())
    except known.KnownDefectError as error:
        raise cli.CommandError(str(error)) from None


def hunt(operations: Iterable[str]) -> str:
    """The command that hunts with these operations, at most twelve; with all of them, if only groups are named."""
    names = [name for name in dict.fromkeys(operations) if not name.startswith("(")][:SHOWN]
    chosen = f" {shlex.quote('--gradcheck-ops=' + ','.join(names))}" if names else ""
    if names and all(name in REGISTERED for name in names):
        return f"python -m pytest -p gradcheck.pytest_plugin{chosen}"
    return f"python -m pytest tests/properties --hypothesis-profile=dev{chosen}"
