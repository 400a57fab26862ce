"""`python -m gradcheck known list`: the known defects by root cause."""

from __future__ import annotations

import argparse
import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from gradcheck.defects.causes import by_cause
from gradcheck.defects.records import Class, Defect, Known, TapeDefect
from gradcheck.hunt.commands import cli

LIST = """list the known defects by root cause, and whether the installed TensorFlow has them

Nothing is computed; `here` is what the files have of the installed release. Defects come before documented limitations,
derivatives that are not implemented and conventions, and of each the causes with the worst records first: plain
derivatives before those of a mode; silently wrong before None, before what is not finite, before what raises.
They are those that came with gradcheck, and those of a project with a folder reports/known of its own; with --folder,
those of one folder. `known show NAME` has all of one, `known page` all of them on one page.

exit codes: 0, or 2 if a file cannot be read or has another name.

example:
  python -m gradcheck known list"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "list", run, LIST)
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Lists the known defects, and the documented behaviour that tapes do not keep."""
    records, installed = cli.known_records(options.folder), cli.release()
    data = {"tensorflow": installed, **listed(records, [fields(one, installed) for one in records])}
    causes = by_cause(records)
    lines = []
    for group in causes:
        counted = "" if len(group) == 1 else f" ({len(group)} records)"
        lines.append(f"{group[0].cause}: {group[0].category}, {group[0].severity}{counted}")
    rows = cli.table([row(one, installed) for group in causes for one in group])
    place = iter(rows)
    lines = [line for head, group in zip(lines, causes, strict=True) for line in (head, *(next(place) for _ in group))]
    step = f"python -m gradcheck known show NAME{cli.elsewhere(options.folder)}"
    return cli.CommandOutput("known list", (*lines, *_totals(records, installed)), data, step)


def listed(records: Sequence[Known], told: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The fields of each record, in the lists of `--json`."""
    lists: dict[str, list[dict[str, Any]]] = {kind.listed: [] for kind in (Defect, TapeDefect)}
    for one, data in zip(records, told, strict=True):
        lists[one.listed].append(data)
    return lists


def named(records: Sequence[Known], names: Sequence[str]) -> Sequence[Known]:
    """The records of these names, in their order, or all; raises CommandError for a name that none has."""
    known = {one.name: one for one in records}
    for name in names:
        if name not in known:
            of_it = sorted((one for one in known if name in one), key=lambda one: not one.startswith(name))
            near = of_it[:3] or difflib.get_close_matches(name, known, 3)
            meant = f"did you mean {' or '.join(near)}?" if near else "python -m gradcheck known list has the names"
            raise cli.CommandError(f"{name}: no known defect of this name; {meant}")
    return [known[name] for name in names] or records


def _totals(records: Sequence[Known], installed: str) -> Iterator[str]:
    """The numbers of records, of those that apply here, and of root causes of each class."""
    defects, tapes = ([one for one in records if one.listed == kind.listed] for kind in (Defect, TapeDefect))
    kinds: list[tuple[str, Sequence[Known]]] = [("known defects", defects)]
    kinds += [("cases of documented behaviour that tapes do not keep", tapes)] if tapes else []
    for what, group in kinds:
        here = sum(one.covers(installed) for one in group)
        yield f"{len(group)} {what}, {here} of them in TensorFlow {installed}"
    causes = Counter(category for category, _ in {(one.category, one.cause) for one in records})
    told = ", ".join(f"{causes[category]} of class {category}" for category in get_args(Class) if causes[category])
    yield f"{causes.total()} root causes{': ' if told else ''}{told}"


def row(one: Known, installed: str) -> tuple[str, ...]:
    """A record on one line: name, kind, severity, releases, whether it is here, title."""
    since, until = one.releases.since, one.releases.until
    releases = f"from {since}" if until is None else f"{since} to before {until}"
    return f"  {one.name}", one.kind, str(one.severity), releases, "here" if one.covers(installed) else "-", one.title


def fields(one: Known, installed: str) -> dict[str, Any]:
    """A record as data for `--json`."""
    releases = {"from": one.releases.since, "until": one.releases.until, "here": one.covers(installed)}
    judged = {"class": one.category, "cause": one.cause, "severity": str(one.severity)}
    return {"name": one.name, "title": one.title, **one.about, **releases, "upstream": one.upstream, **judged}
