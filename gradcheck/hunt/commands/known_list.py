"""`python -m gradcheck known list`: the known defects by root cause, or all that is recorded of some."""

from __future__ import annotations

import argparse
import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, get_args

from gradcheck.defects.records import DEFECT, Class, Defect, Known, TapeDefect
from gradcheck.hunt.commands import cli

LIST = """list the known defects by root cause, and whether the installed TensorFlow has them

Nothing is computed; `here` is what the files have of the installed release. Defects come before documented limitations,
derivatives that are not implemented and conventions, and of each the causes with the worst records first: plain
derivatives before those of a mode; silently wrong before None, before what is not finite, before what raises. Of
records that are named it shows all: class, root cause, severity, source, remedy, and the text of an issue for
TensorFlow.

exit codes: 0, or 2 if a file cannot be read or has another name.

example:
  python -m gradcheck known list cumprod-zero-order1"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "list", run, LIST)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of records, to be shown in full")
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Lists the known defects, and the documented behaviour that tapes do not keep."""
    records, installed = cli.known_records(cli.known_folder(options.folder)), cli.release()
    shown = named(records, options.names)
    data = {
        "tensorflow": installed,
        "defects": [_fields(one, installed, options.names) for one in shown if isinstance(one, Defect)],
        "tape_defects": [_fields(one, installed, options.names) for one in shown if isinstance(one, TapeDefect)],
    }
    if options.names:
        lines = [line for one in shown for line in _in_full(one, installed)]
        return cli.CommandOutput("known list", tuple(lines), data, f"python -m gradcheck known check {shown[0].name}")
    causes = by_cause(records)
    lines = []
    for group in causes:
        counted = "" if len(group) == 1 else f" ({len(group)} records)"
        lines.append(f"{group[0].cause}: {group[0].category}, {group[0].severity}{counted}")
    rows = cli.table([_row(one, installed) for group in causes for one in group])
    place = iter(rows)
    lines = [line for head, group in zip(lines, causes, strict=True) for line in (head, *(next(place) for _ in group))]
    return cli.CommandOutput(
        "known list", (*lines, *_totals(records, installed)), data, "python -m gradcheck known check"
    )


def by_cause(records: Sequence[Known]) -> list[list[Known]]:
    """The records of each root cause, the worst first, and the causes by their worst record."""
    gathered = sorted(records, key=lambda one: one.cause)
    groups = [sorted(group, key=lambda one: one.rank) for _, group in groupby(gathered, key=lambda one: one.cause)]
    return sorted(groups, key=lambda group: (group[0].category != DEFECT, group[0].category, group[0].rank))


def named(records: Sequence[Known], names: Sequence[str]) -> Sequence[Known]:
    """The records of these names, in their order, or all; raises CommandError for a name that none has."""
    known = {one.name: one for one in records}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            meant = f"did you mean {' or '.join(near)}?" if near else "python -m gradcheck known list has the names"
            raise cli.CommandError(f"{name}: no known defect of this name; {meant}")
    return [known[name] for name in names] or records


def _totals(records: Sequence[Known], installed: str) -> Iterator[str]:
    """How many records there are, here, and how many root causes of each class."""
    defects = [one for one in records if isinstance(one, Defect)]
    tapes = [one for one in records if isinstance(one, TapeDefect)]
    kinds: list[tuple[str, Sequence[Known]]] = [("known defects", defects)]
    kinds += [("cases of documented behaviour that tapes do not keep", tapes)] if tapes else []
    for what, group in kinds:
        here = sum(one.covers(installed) for one in group)
        yield f"{len(group)} {what}, {here} of them in TensorFlow {installed}"
    causes = Counter(category for category, _ in {(one.category, one.cause) for one in records})
    told = ", ".join(f"{causes[category]} of class {category}" for category in get_args(Class) if causes[category])
    yield f"{causes.total()} root causes{': ' if told else ''}{told}"


def _row(one: Known, installed: str) -> tuple[str, ...]:
    since, until = one.releases.since, one.releases.until
    releases = f"from {since}" if until is None else f"{since} to before {until}"
    return f"  {one.name}", one.kind, str(one.severity), releases, "here" if one.covers(installed) else "-", one.title


def _fields(one: Known, installed: str, in_full: object) -> dict[str, Any]:
    if isinstance(one, Defect):
        same = one.signature
        own = {"operation": same.operation, "order": same.order, "kind": same.kind, "description": one.description}
    else:
        own = {"documented": one.documented, "given": one.given}
    releases = {"from": one.releases.since, "until": one.releases.until, "here": one.covers(installed)}
    judged = {"class": one.category, "cause": one.cause, "severity": str(one.severity)}
    fields = {"name": one.name, "title": one.title, **own, **releases, "upstream": one.upstream, **judged}
    if in_full:
        fields |= {"source": one.source, "remedy": _remedy(one), "issue": _issue(one)}
    return fields


def _remedy(one: Known) -> str | None:
    return one.remedy if isinstance(one, Defect) else None


def _issue(one: Known) -> str:
    from gradcheck.hunt.report.environment import current
    from gradcheck.hunt.report.issue_text import issue_of

    return issue_of(one, current())


def _in_full(one: Known, installed: str) -> Iterator[str]:
    _, kind, _, releases, here, _ = _row(one, installed)
    taken = f", {one.signature.taken}" if isinstance(one, Defect) else ""
    yield from (one.name, f"  {one.title}")
    yield f"  {one.category}, root cause {one.cause}; {kind} ({one.severity}){taken}; {releases}, {here}"
    yield f"  upstream: {one.upstream or 'not reported'}"
    yield f"  source: {one.source}"
    if (remedy := _remedy(one)) is not None:
        yield from ("  remedy:", *(f"    {line}" for line in remedy.split("\n")))
    yield from (
        "  for TensorFlow's issue form:",
        *(f"    {line}" for line in _issue(one).rstrip().split("\n")),
    )
