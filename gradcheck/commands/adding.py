"""`python -m gradcheck known add`: a finding becomes a known defect."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from gradcheck import defect, files, known
from gradcheck.commands.answer import Answer, CommandError
from gradcheck.commands.installed import known_defects, known_folder, tensorflow
from gradcheck.commands.options import subcommand
from gradcheck.defect import Values
from gradcheck.graphs.json_form import MAX_TEXT, parse
from gradcheck.known_record import NAME
from gradcheck.region import Region
from gradcheck.report import reading
from gradcheck.report.discovery import Discovery

MORE = """The finding's JSON gives the signature, the graph and the values. TensorFlow is asked again, and the
derivative that is called right is taken from differences (or from --right, which has to agree with them). Generation
leaves out the narrowest region: the operation with the example's attributes, rank and special value, at its order.
Where nothing is special about the example, that would be the whole operation, which takes --wide.

exit codes: 0 added; 2 nothing was written."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = subcommand(
        commands,
        "add",
        run,
        about="make a known defect of a finding that somebody has looked at",
        more=MORE,
        example='python -m gradcheck known add reports/x.json --title "tf.x: the gradient at 0 is 0" '
        '--source "By hand: ..."',
    )
    parser.add_argument("finding", type=Path, metavar="FINDING", help="the JSON file of a report")
    parser.add_argument("--title", required=True, help="the defect in one line")
    parser.add_argument("--source", required=True, help="how the right derivative is known")
    parser.add_argument("--upstream", metavar="URL", help="TensorFlow's issue, if there is one")
    parser.add_argument("--right", metavar="JSON", help="the right derivative, a list of numbers for each input")
    parser.add_argument("--name", help="the name of the file (from the operation, the special value and the order)")
    parser.add_argument("--wide", action="store_true", help="leave out the whole operation at this order")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the folder of known defects (reports/known)")


def run(asked: argparse.Namespace) -> Answer:
    """Adds the defect asked for, once everything about it has been looked at."""
    from gradcheck.commands.draft import Words, drafted, name_of, with_values

    found, folder = _report(asked.finding), known_folder(asked.folder)
    name = name_of(found) if asked.name is None else asked.name
    path = _new(folder, name)
    words = Words(name, asked.title, asked.source, asked.upstream, _numbers(asked.right))
    release, found = tensorflow(), with_values(found)
    here = [one for one in known_defects(folder) if one.covers(release)]
    if (same := known.match(found, defects=here)) is not None:
        raise CommandError(f"{asked.finding}: already known as {same.name}: {same.title}")
    made = drafted(found, words, release, wide=asked.wide)
    if known.match(found, defects=[made]) is None:
        raise CommandError(f"{asked.finding}: lies outside of the region that its trigger gives; write {path} by hand")
    data = defect.to_json(made)
    try:
        files.replace(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CommandError(f"{folder}: cannot be written to ({error}); name another with --folder DIR") from None
    lines = (
        f"added {path}",
        f"left out of generation: {_told(made.regions[0])}",
        f"right: {data['right']}",
        f"given: {data['given'] or 'nothing'}",
    )
    elsewhere = "" if asked.folder is None else f" --folder {shlex.quote(str(asked.folder))}"
    step = f"python -m gradcheck known check {name}{elsewhere}"
    return Answer("known add", lines, {"file": str(path), "defect": data}, step)


def _report(path: Path) -> Discovery:
    try:
        return reading.from_json(parse(files.read(path, MAX_TEXT))).discovery
    except (ValueError, OSError) as error:
        told = str(error).removeprefix(f"{path}: ")
        raise CommandError(f"{path}: not a report of this project: {told}; name a finding's JSON") from None


def _new(folder: Path, name: str) -> Path:
    if not NAME.fullmatch(name):
        raise CommandError(f"--name was {name!r}; expected a text like {NAME.pattern}")
    path = folder / f"{name}.json"
    if path.exists() or path.is_symlink():
        raise CommandError(f"{path}: already there; choose another name with --name")
    return path


def _numbers(text: str | None) -> Values | None:
    if text is None:
        return None
    try:
        return tuple(tuple(float(x) for x in part) for part in parse(text))
    except (TypeError, ValueError):
        raise CommandError(f"--right was {text!r}; expected a list of numbers for each input, as [[9, 0, 0]]") from None


def _told(region: Region) -> str:
    attrs = f" with {', '.join(f'{name}={value!r}' for name, value in region.attrs)}" if region.attrs else ""
    ranks = f" of rank {region.ranks[0]}" if region.ranks else ""
    where = f"argument {region.argument}{ranks}"
    return f"{region.op}{attrs}, {where}: {region.condition}, at order {region.orders[0]}"
