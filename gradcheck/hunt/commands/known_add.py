"""A known defect from a finding: what the report says, what TensorFlow gives, what differences say is right."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradcheck import files
from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import known, records
from gradcheck.defects.records import NAME, Defect, Values
from gradcheck.defects.region import Region, narrowest
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.commands.answer import Answer, CommandError, known_defects, known_folder, subcommand, tensorflow
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import GraphFinding, literal, trigger
from gradcheck.hunt.graph import Node
from gradcheck.hunt.graph_json import MAX_TEXT, parse
from gradcheck.hunt.opspec import Choice
from gradcheck.hunt.report import reading

CLOSE = 1e-5


@dataclass(frozen=True)
class DefectWording:
    """What only a person can say of a defect; `right` is None where differences are to say it."""

    name: str
    title: str
    source: str
    upstream: str | None = None
    right: Values | None = None


def drafted(found: GraphFinding, words: DefectWording, release: str, *, wide: bool = False) -> Defect:
    """The known defect of a finding, with the narrowest region around its example, or the whole operation (`wide`).

    Raises CommandError where the finding is not wrong on this TensorFlow, and where the words do not fit it.
    """
    from gradcheck.hunt.recheck import taken

    _refuse_right(found)

    made = Defect(
        name=words.name,
        title=words.title,
        culprit=found.culprit,
        order=found.order,
        kind=found.signature.kind,
        trigger=found.trigger,
        graph=found.graph,
        cotangent=found.cotangent,
        direction=found.direction,
        right=_right(found, words.right),
        source=words.source,
        given=taken(found.graph, found.order, found.cotangent, found.direction, found.taken),
        regions=(_region(found, wide),),
        since=release.partition("-")[0],
        until=None,
        upstream=words.upstream,
        path=found.path,
        mode=found.mode,
    )
    try:
        return records.from_json(parse(json.dumps(records.to_json(made), allow_nan=False)))
    except ValueError as error:
        raise CommandError(f"no file that could be read: {error}; correct the option of that name") from None


def name_of(found: GraphFinding) -> str:
    """The usual name of a defect's file: how it was taken, operation, what is special, order."""
    special = found.trigger.partition(" in argument")[0]
    taken = [] if found.taken == PLAIN else [str(found.taken)]
    words = [*taken, found.culprit, *([] if special == "none" else [special]), f"order{found.order}"]
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(words).lower()).strip("-")[:80]


def with_values(found: GraphFinding) -> GraphFinding:
    """The discovery with the values that its graph has, whatever the file says.

    Raises CommandError where they cannot be computed, or show another trigger.
    """
    from gradcheck.hunt.admission import admit

    try:
        at = admit(found.graph)
    except Exception as error:
        raise CommandError(f"{found.name}: cannot run: {error}; correct the report first") from None
    special = trigger([at[parent] for parent in _culprit(found).parents])
    if special != found.trigger:
        raise CommandError(f"{found.name}: its trigger is {found.trigger!r}; the graph's arguments show {special!r}")
    return replace(found, values=tuple(literal(value) for value in at))


def _refuse_right(found: GraphFinding) -> None:
    from gradcheck.hunt.recheck import of_report

    seen = of_report(found)
    if seen.state is State.CANNOT_RUN:
        raise CommandError(f"{found.name}: cannot run: {seen.message}; correct the report first")
    if seen.state is State.FIXED:
        raise CommandError(f"{found.name}: is right here ({seen.message}); there is nothing to add")


def _culprit(found: GraphFinding) -> Node:
    return found.graph.nodes[found.position - len(found.graph.inputs)]


def _region(found: GraphFinding, wide: bool) -> Region:
    node = _culprit(found)
    if wide:
        return Region(node.op, "always", (found.order,))
    arguments = [found.values[parent].array() for parent in node.parents]
    region = narrowest(node.op, node.attributes, arguments, found.order, found.trigger)
    offered = CATALOGUE[node.op].attributes(*(argument.shape for argument in arguments))
    limited = any(not isinstance(kind, Choice) or len(kind.values) > 1 for kind in offered.values())
    if region.condition == "always" and not limited:
        raise CommandError(
            f"{found.name}: nothing is special about the arguments of {node.op} (trigger {found.trigger!r}), so that "
            f"the whole operation would be left out at order {found.order}; say --wide if that is meant, or find an "
            f"example with a narrower trigger"
        )
    return region


def _right(found: GraphFinding, given: Values | None) -> Values:
    """The derivative from differences at two steps, to the digits that they share; or the one given, if it agrees."""
    from gradcheck.hunt.derivative import STEP, close, differences, values

    one, other = (
        values(differences(found.graph, found.order, found.cotangent, found.direction, step=step))
        for step in (STEP, STEP / 4)
    )
    told = [list(part or ()) for part in one]
    if given is not None:
        if not close(given, one, CLOSE):
            raise CommandError(f"--right was {[list(part or ()) for part in given]}; differences give {told}")
        return given
    if not close(one, other, CLOSE):
        raise CommandError(f"{found.name}: differences are too rough here, {told}; say what is right with --right JSON")
    return tuple(
        tuple(shared_digits(x, y) for x, y in zip(a or (), b or (), strict=True))
        for a, b in zip(one, other, strict=True)
    )


def shared_digits(one: float, other: float) -> float:
    """A number to the digits, at most twelve, that two estimates of it share.

    >>> shared_digits(8.99999999997, 9.00000000001), shared_digits(1e-12, -1e-13)
    (9.0, 0.0)
    """
    gap = max(2 * abs(one - other), 1e-12)
    if abs(one) <= gap:
        return 0.0
    digits = min(12, max(1, math.floor(math.log10(abs(one) / gap))))
    return float(np.format_float_scientific(one, precision=digits - 1))


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

    found, folder = _report(asked.finding), known_folder(asked.folder)
    name = name_of(found) if asked.name is None else asked.name
    path = _new(folder, name)
    words = DefectWording(name, asked.title, asked.source, asked.upstream, _numbers(asked.right))
    release, found = tensorflow(), with_values(found)
    here = [one for one in known_defects(folder) if one.covers(release)]
    if (same := known.match(found, defects=here)) is not None:
        raise CommandError(f"{asked.finding}: already known as {same.name}: {same.title}")
    made = drafted(found, words, release, wide=asked.wide)
    if known.match(found, defects=[made]) is None:
        raise CommandError(f"{asked.finding}: lies outside of the region that its trigger gives; write {path} by hand")
    data = records.to_json(made)
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


def _report(path: Path) -> GraphFinding:
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
