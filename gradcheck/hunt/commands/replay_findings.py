"""`python -m gradcheck replay`: are these findings still wrong on the TensorFlow that is installed?"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradcheck import documents
from gradcheck.defects import known
from gradcheck.defects.causes import KnownDocument, check_each, records_of
from gradcheck.defects.earlier_regions import in_this_form
from gradcheck.defects.records import Defect, Known, wrong_derivatives
from gradcheck.hunt import known_graphs
from gradcheck.hunt.commands import cli, run_commands
from gradcheck.hunt.commands.known_add import with_values
from gradcheck.hunt.configuration import EVENTS
from gradcheck.hunt.events import State, Stopped
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.running import aggregate
from gradcheck.hunt.running.crashes import rerun
from gradcheck.hunt.running.process_recorder import ProcessRecorder

REPLAY = """take the derivatives of findings again: still wrong, fixed, or cannot tell

A finding is a report's JSON, or an example in a file of reports/known. A folder stands for all those in it and in its
folder `known`, and for the crashes and hangs among its events, each of which runs in a process of its own. Nothing in a
file is executed: it names operations of the catalogue and numbers.

exit codes: 0 right or fixed, 1 still wrong, 2 inconclusive, as of a report's script; for several findings the
highest: 0 if all are right, 1 if one or more are still wrong, 2 if one or more are inconclusive.

example:
  python -m gradcheck replay reports/known/cumprod-at-zero.json"""
CODES = {State.FIXED: 0, State.STILL: 1, State.CANNOT_TELL: 2}
RERUNS = {"crash": State.STILL, "hang": State.STILL, "ended": State.FIXED, "not run": State.CANNOT_TELL}


@dataclass(frozen=True)
class Replayed:
    """The outcome for one finding; `source` is "report", "known", "crash", "hang" or, where it cannot be read, None.

    `known` is the known defect that this release is recorded to have and that it is an example of.
    """

    file: str
    state: str
    message: str
    source: str | None = None
    name: str | None = None
    operation: str | None = None
    order: int | None = None
    kind: str | None = None
    known: str | None = None
    changed: bool = False

    @property
    def text(self) -> str:
        """The message, with the known defect that a report is an example of."""
        return f"{self.message}, known: {self.known}" if self.source == "report" and self.known else self.message


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "replay", run, REPLAY)
    cli.add_paths(parser, "findings", "FINDING", "a JSON file, or a folder of them")
    limit = "for a graph that crashed or hung, once more (60)"
    parser.add_argument("--limit", type=cli.positive, default=60.0, metavar="SECONDS", help=limit)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Replays the findings that are named."""
    run_commands.load_own(options, (path if path.is_dir() else path.parent for path in options.findings))
    places = [path / EVENTS for path in options.findings if any((path / EVENTS).glob("*.jsonl"))]
    run_of = {place: run_commands.read([place]) for place in places}
    stopped = [(place, one) for place, found in run_of.items() for one in (*found.crashes, *found.hangs)]
    paths = _files(options.findings, stopped=bool(stopped))
    release = cli.tensorflow()
    defects = [one for one in wrong_derivatives(cli.known_records()) if one.covers(release)]
    seen = [one for path in paths for one in _replayed(path, defects, release)]
    seen += [_rerun(place, one, options.limit) for place, one in stopped]
    counts = Counter(one.state for one in seen)
    total = ", ".join(f"{counts[state]} {state}" for state in (State.STILL, State.FIXED, State.CANNOT_TELL))
    rows = [(one.state, one.operation or "-", f"order {one.order or '-'}", one.text, one.file) for one in seen]
    return cli.CommandOutput(
        "replay",
        (*cli.table(rows), f"{total}, TensorFlow {release}"),
        {
            "tensorflow": release,
            "findings": [asdict(one) for one in seen],
            "counts": {state: counts[state] for state in (State.STILL, State.FIXED, State.CANNOT_TELL)},
        },
        _next(seen),
        max(CODES[state] for state in State if counts[state]),
    )


def _rerun(place: Path, one: Stopped, limit: float) -> Replayed:
    """Runs a graph that ended or hung its process once more, in a process of its own and in its mode."""
    try:
        with tempfile.TemporaryDirectory(prefix="gradcheck-") as folder:
            recorder = ProcessRecorder(Path(folder, "graph.json"))
            recorder.before(one.operation, one.order, one.taken, one.graph)
            outcome, message = rerun(recorder.path, limit)
            recorder.remove()
    except (ImportError, OSError) as error:  # a system without fcntl, a full disk
        outcome, message = "not run", f"it could not be run: {error}"
    return Replayed(str(place), RERUNS[outcome], message, one.kind, one.name, one.operation, one.order, one.kind)


def _files(given: Sequence[Path], *, stopped: bool) -> list[Path]:
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = [*sorted(path.glob("*.json")), *sorted((path / "known").glob("*.json"))]
            inside = [one for one in inside if one.name != aggregate.NAME]
            if not inside and not stopped:
                raise cli.CommandError(f"{path}: a folder without findings (*.json); name one that a hunt wrote to")
            found += inside
        elif path.exists() or path.is_symlink():
            found.append(path)
        else:
            raise cli.CommandError(f"{path}: no such file or folder; name a finding's JSON or a folder of findings")
    return list(dict.fromkeys(found))


def _replayed(path: Path, defects: Sequence[Defect], release: str) -> list[Replayed]:
    """The outcome for the finding, or for each known defect or documented behaviour, in a file."""
    try:
        found: KnownDocument | Report = documents.read(path, KnownDocument | Report, "a finding", in_this_form)  # type: ignore[arg-type]  # a union is no type
        if not isinstance(found, Report):
            records = records_of(found)
            check_each(found, records, known_graphs.check)
    except (ValueError, OSError) as error:
        return [Replayed(str(path), State.CANNOT_TELL, str(error).removeprefix(f"{path}: "))]
    if isinstance(found, Report):
        return [_replayed_report(path, found.finding, defects)]
    return [_replayed_record(path, one, release) for one in records]


def _replayed_record(path: Path, record: Known, release: str) -> Replayed:
    from gradcheck.hunt.recheck import of_known

    seen, here = of_known(record), record.name if record.covers(release) else None
    operation, order = (record.about.get(name) for name in ("operation", "order"))
    return Replayed(
        str(path), seen.state, seen.message, "known", record.name, operation, order, record.kind, here, seen.changed
    )


def _replayed_report(path: Path, one: GraphFinding, defects: Sequence[Defect]) -> Replayed:
    from gradcheck.hunt.recheck import of_report

    seen, match = of_report(one), None
    if seen.state is not State.CANNOT_TELL:
        # The values in the file may be anything; those of the graph are computed.
        match = known_graphs.match(with_values(one), defects=defects)
    name = None if match is None else match.name
    return Replayed(
        str(path), seen.state, seen.message, "report", one.name, one.culprit, one.order, one.kind, name, seen.changed
    )


def _elsewhere(folder: Path) -> str:
    """The option that names a folder of known defects, unless it is the default."""
    home = known.home()
    return "" if home is not None and home.resolve() == folder.resolve() else cli.elsewhere(folder)


def _next(seen: Sequence[Replayed]) -> str:
    """The most useful step: a fixed defect first, then a new one, then a file that cannot run."""
    steps: dict[int, str] = {}
    for one in seen:
        is_known, file = one.known is not None, shlex.quote(one.file)
        match one.state, one.source:
            case "fixed", "known" if is_known:
                steps.setdefault(0, f"python -m gradcheck known fixed {one.name}{_elsewhere(Path(one.file).parent)}")
            case "still wrong", "report" if not is_known:
                steps.setdefault(1, f"python -m gradcheck known add {file} --title TEXT --source TEXT")
            case "still wrong", "crash" | "hang":
                steps.setdefault(2, run_commands.hunt([str(one.operation)]))
            case "cannot tell", None:
                steps.setdefault(3, f"correct {file} or take it away, then python -m gradcheck replay")
            case "fixed", "report" | "known":
                alone = sum(other.file == one.file for other in seen) == 1
                steps.setdefault(4, f"rm {file}" if alone else f"take {one.name} out of {file}")
    return steps[min(steps)] if steps else "python -m gradcheck known list"
