"""`python -m gradcheck reach`: a hunt, and how much of TensorFlow's own gradients it has reached."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradcheck import documents, files
from gradcheck.hunt.commands import cli, run_commands
from gradcheck.hunt.configuration import EVENTS, GRADIENTS
from gradcheck.hunt.gradient_run import GradientRun, NoCoverageError
from gradcheck.hunt.report.gradient_reach import CodeReach, GradientReach, RunReach, reach_of
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.report.writer import ReportError, without_page, write_run
from gradcheck.operations.catalogue import CATALOGUE

DEFAULT = Path("reports")
SHOWN = 20
LARGEST = 2**23
REACH = """hunt, and show how much of TensorFlow's own gradients was reached

Runs the properties (or the TESTS that are named) with the profile dev, and records which of TensorFlow's
registered gradients ran, at first order and differentiated again, and which lines and branches of their code, the
helpers that they call included. What never ran is printed with its line of TensorFlow's source, and stands in the
run's page. Hypothesis draws other examples each time; more tests, operations and minutes reach more.

exit codes: 0 all that the operations claim ran at first order, 1 not all did, 2 nothing was recorded.

example:
  python -m gradcheck reach --ops sin,reduce_*"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "reach", run_reach, REACH)
    parser.add_argument("tests", nargs="*", metavar="TESTS", default=["tests/properties"], help="what pytest is to run")
    parser.add_argument("--ops", metavar="NAMES", help="operations to hunt in: names or globs, with commas (all)")
    parser.add_argument("--minutes", type=cli.positive, metavar="M", help="minutes to hunt")
    parser.add_argument("--profile", default="dev", help="Hypothesis profile: dev or nightly (dev)")
    parser.add_argument("--processes", default="2", metavar="N", help="processes of pytest-xdist, 0 for none (2)")
    parser.add_argument("--reports", type=Path, default=DEFAULT, metavar="DIR", help="folder of the reports")
    parser.add_argument("--read", action="store_true", help="run nothing; read what the last such run has recorded")
    together = "what the last N runs reached together (1)"
    parser.add_argument("--runs", type=cli.count, default=1, metavar="N", help=together)
    parser.add_argument("--all", action="store_true", help="print every function, and every line that never ran")


def run_reach(options: argparse.Namespace) -> cli.CommandOutput:
    """Hunts, unless only asked to read, and shows the reach of the newest run in the folder."""
    code = 0 if options.read else _hunt_recorded(options)
    cli.tensorflow()
    names, run = newest(options.reports / GRADIENTS, options.runs)
    try:
        reach = reach_of(run)
    except (ValueError, NoCoverageError) as error:
        raise cli.CommandError(str(error)) from None
    events, another = options.reports / EVENTS, "name another folder of a run's reports with --reports DIR"
    hunts = [run_commands.events_in([events], f"{name}-*.jsonl", another) for name in names]
    lines = [*_summary(reach), *_details(reach, SHOWN if not options.all else sys.maxsize)]
    lines += [f"note: pytest ended with exit code {code}"] * bool(code)
    if _later_hunt(events, names[-1]):
        lines.append(f"note: {options.reports / 'index.html'} is of a later run, and stays; --json has all of this one")
    elif hunts[-1].started:
        lines.append(f"report: {_page(hunts[-1], options.reports, reach)}")
    data: dict[str, Any] = {
        "tensorflow": reach.tensorflow,
        "gradients": list(map(_row, reach.gradients)),
        "runs": names,
    }
    data |= {"lines": reach.lines, "branches": reach.branches, "explained": reach.explained}
    claimed = _claimed_in_vain(hunts, run)
    data["claimed_in_vain"] = claimed
    lines += [f"claimed by the catalogue, but never run: {each}" for each in claimed]
    return cli.CommandOutput("reach", tuple(lines), data, _next(options), 1 if claimed else 0)


def _next(options: argparse.Namespace) -> str:
    """The next step: the same with all details, or the coverage of the operations."""
    reports: Path = options.reports
    runs: int = options.runs
    folder = "" if reports == DEFAULT else shlex.quote(str(reports))
    if options.all:
        return f"python -m gradcheck coverage {folder}".rstrip()
    several = f" --runs {runs}" if runs > 1 else ""
    return f"python -m gradcheck reach --read --all{several}" + f" --reports {folder}" * bool(folder)


def _later_hunt(events: Path, name: str) -> bool:
    """Whether another run, which recorded no gradients, has written the page of the folder since."""
    return any(path.name > f"{name}-" and not path.name.startswith(f"{name}-") for path in events.glob("*.jsonl"))


def _hunt_recorded(options: argparse.Namespace) -> int:
    """Hunts, and returns pytest's exit code; raises CommandError where nothing was recorded of it."""
    folder = options.reports / GRADIENTS
    before = {*folder.glob("*.json")}
    code = _hunt(options)
    if not {*folder.glob("*.json")} - before:
        raise cli.CommandError(
            f"pytest ended with exit code {code}, and recorded no gradients in {folder}; name TESTS that hunt, such as "
            "tests/properties, and --ops of the catalogue, or show what an earlier run recorded with --read"
        )
    return code


def _hunt(options: argparse.Namespace) -> int:
    """Runs pytest, whose output is passed on, and returns its exit code."""
    for test in options.tests:
        if not Path(test.partition("::")[0]).exists():
            raise cli.CommandError(f"{test}: no such tests here; run it where the project's tests are, or name others")
    command = [sys.executable, "-m", "pytest", "-p", "gradcheck.pytest_plugin", *options.tests, "-q"]
    command += [f"--hypothesis-profile={options.profile}"]
    command += ["-n", options.processes, "--dist", "worksteal"] if options.processes != "0" else []
    command += ["--gradcheck-reach", f"--gradcheck-reports={options.reports}"]
    command += [f"--gradcheck-ops={options.ops}"] if options.ops else []
    command += [f"--gradcheck-minutes={options.minutes}"] if options.minutes is not None else []
    output = sys.stderr if options.json else None  # standard output is for the one object then
    return _returncode(subprocess.Popen(command, stdout=output))


def _returncode(running: subprocess.Popen[bytes]) -> int:
    """Waits for pytest, which keeps its findings at the first Ctrl-C, and is killed by the second."""
    with running:
        try:
            return running.wait()
        except KeyboardInterrupt:
            with suppress(KeyboardInterrupt):
                return running.wait()
            running.kill()
            return running.wait()


def newest(folder: Path, count: int) -> tuple[list[str], GradientRun]:
    """The names of the last runs that recorded gradients in a folder, and the union of what their processes ran.

    Raises CommandError where there is none, or a file is something else.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise cli.CommandError(f"{folder}: nothing was recorded there; run python -m gradcheck reach without --read")
    names = sorted({path.stem.rpartition("-")[0] for path in paths})[-count:]
    try:
        runs = [
            documents.convert(documents.parse(files.read(path, LARGEST)), GradientRun)
            for path in paths
            if path.stem.rpartition("-")[0] in names
        ]
        return names, GradientRun.merged(runs)
    except (OSError, ValueError) as error:
        raise cli.CommandError(f"{error}; take the file away from {folder}") from None


def _page(hunted: HuntRun, folder: Path, reach: RunReach) -> Path:
    """Writes the page of a run with what it reached; raises CommandError where that cannot be done."""
    try:
        return write_run(hunted, folder, run_commands.left_out(), reach, without_page(hunted.findings, folder))[0]
    except ReportError as error:
        raise cli.CommandError(
            f"{folder}: nothing can be written there ({error.__cause__}); copy the folder to where its page can be "
            "written, and name that with --reports DIR"
        ) from None


def _claimed_in_vain(hunts: Iterable[HuntRun], run: GradientRun) -> list[str]:
    """The operations that one of the runs drew, each with the gradients that its entry claims but that never ran."""
    drawn = {done.operation for hunted in hunts for done in hunted.operations if sum(done.counts.values())}
    claims = (
        (one.name, sorted(set(one.gradients) - set(run.first))) for one in CATALOGUE.values() if one.name in drawn
    )
    return [f"{', '.join(never)} of {operation}" for operation, never in claims if never]


def _summary(reach: RunReach) -> list[str]:
    """The totals."""
    judged = reach.judged
    rows = [
        ("gradients checkable by differences, at first order", sum(each.first for each in judged), len(judged)),
        ("  differentiated again", sum(each.second for each in judged), len(judged)),
        ("all gradients that a CPU can reach", sum(each.first for each in reach.gradients), len(reach.gradients)),
        ("lines of them and their helpers", *reach.lines),
        ("branches", *reach.branches),
    ]
    table = [(text, f"{done} of {count}", f"{done / max(count, 1):.1%}") for text, done, count in rows]
    missing = [count - done for done, count in (reach.lines, reach.branches)]
    known = " and ".join(
        f"{some} of {all_} {what}"
        for some, all_, what in zip(reach.explained, missing, ("lines", "branches"), strict=True)
    )
    return [f"TensorFlow {reach.tensorflow}", *cli.table(table), f"never ran, and not expected to: {known}"]


def _details(reach: RunReach, most: int) -> list[str]:
    """The gradients that were never reached, and the lines that never ran of those that were."""
    never = [each.gradient.operation for each in reach.judged if not each.first]
    once = [each.gradient.operation for each in reach.judged if each.first and not each.second]
    partly = [code for code in reach.codes if code.lines[0] and (code.missing or code.partial)]
    partly.sort(key=lambda code: (-len(code.unexplained), -len(code.missing)))
    beyond = [f"{each.gradient.operation} ({each.gradient.note})" for each in reach.others if not each.first]
    lines = [
        f"never reached: {_listed(never, most)}",
        f"  not checkable by differences: {_listed(beyond, most)}",
        f"never differentiated again: {_listed(once, most)}",
    ]
    for code in partly[:most]:
        lines += [f"{code.code.full_name}: {len(code.missing)} of {code.lines[1]} lines never ran"]
        lines += [f"  {line:5d}  {code.source(line)}{_why(code, line)}" for line in code.never[:most]]
    return lines + [f"{len(partly) - most} more functions in part; --all shows them"] * (len(partly) > most)


def _why(code: CodeReach, line: int) -> str:
    """The note after a line: that only one of its branches ran, and why."""
    said = [*["one branch"] * (line in code.partial), code.reasons.get(line, "")]
    return f"  ({'; '.join(filter(None, said))})" if any(said) else ""


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more or "none"


def _row(each: GradientReach) -> dict[str, Any]:
    row: dict[str, Any] = {
        "operation": each.gradient.operation,
        "function": each.gradient.function,
        "first": each.first,
    }
    row |= {"second": each.second, "judgement": each.gradient.judgement.value}
    if (code := each.code) is not None:
        row |= {"lines": code.lines, "branches": code.branches, "missing": code.missing, "partial": code.partial}
        row["reasons"] = code.reasons
    return row
