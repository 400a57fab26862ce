"""`python -m gradcheck known show`: all that is recorded of known defects."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from gradcheck.defects.records import Defect, Known, TapeDefect
from gradcheck.hunt.commands import cli, known_list

SHOW = """show all that is recorded of known defects

Class, root cause, severity, releases, source, the kernels of TensorFlow, remedy, and the text of an issue for
TensorFlow. Nothing is computed.

exit codes: 0, or 2 if there is no such record.

example:
  python -m gradcheck known show cumprod-zero-order1"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "show", run, SHOW)
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of records")
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Shows the records that are named."""
    shown = known_list.named(cli.known_records(options.folder), options.names)
    installed = cli.release()
    data = {
        "tensorflow": installed,
        "defects": [_fields(one, installed) for one in shown if isinstance(one, Defect)],
        "tape_defects": [_fields(one, installed) for one in shown if isinstance(one, TapeDefect)],
    }
    lines = [line for one in shown for line in _lines(one, installed)]
    step = f"python -m gradcheck known check {shown[0].name}{cli.elsewhere(options.folder)}"
    return cli.CommandOutput("known show", tuple(lines), data, step)


def _fields(one: Known, installed: str) -> dict[str, Any]:
    full = {"source": one.source, "remedy": _remedy(one), "kernels": _kernels(one), "issue": _issue(one)}
    return known_list.fields(one, installed) | full


def _remedy(one: Known) -> str | None:
    return one.remedy if isinstance(one, Defect) else None


def _kernels(one: Known) -> list[str]:
    return sorted({form.kernel for form in one.kernels}) if isinstance(one, Defect) else []


def _issue(one: Known) -> str:
    from gradcheck.hunt.report.environment import current
    from gradcheck.hunt.report.issue_text import issue_of

    return issue_of(one, current())


def _lines(one: Known, installed: str) -> Iterator[str]:
    _, kind, _, releases, here, _ = known_list.row(one, installed)
    taken = f", {one.signature.taken}" if isinstance(one, Defect) else ""
    yield from (one.name, f"  {one.title}")
    yield f"  {one.category}, root cause {one.cause}; {kind} ({one.severity}){taken}; {releases}, {here}"
    yield f"  upstream: {one.upstream or 'not reported'}"
    yield f"  kernels: {', '.join(_kernels(one)) or 'none by itself'}"
    yield f"  source: {one.source}"
    if (remedy := _remedy(one)) is not None:
        yield from ("  remedy:", *(f"    {line}" for line in remedy.split("\n")))
    yield from (
        "  for TensorFlow's issue form:",
        *(f"    {line}" for line in _issue(one).rstrip().split("\n")),
    )
