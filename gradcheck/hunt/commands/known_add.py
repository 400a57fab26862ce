"""`python -m gradcheck known add`: a known defect from a finding.

The report says what is wrong, TensorFlow's derivative is taken anew, and finite differences give the right one.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradcheck import documents
from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import known
from gradcheck.defects.records import NAME, Defect, Known, Releases, wrong_derivatives
from gradcheck.defects.region import Region, narrowest
from gradcheck.documents import DocumentError
from gradcheck.graph import literal
from gradcheck.hunt import json_report, known_graphs
from gradcheck.hunt.commands import cli
from gradcheck.hunt.events import State
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph_json import to_document, to_tensor
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Choice
from gradcheck.operations.special_sets import describe, special

CLOSE = 1e-5
Numbers = tuple[tuple[float, ...], ...]
ADD = """make a known defect of a finding that has been triaged

The finding's JSON gives the signature, the graph and the values. TensorFlow is asked again, and the
derivative that is called right is taken from finite differences (or from --right, which has to agree with them).
Generation leaves out the narrowest region: the operation with the example's attributes, rank and special value, at its
order. Where nothing is special about the example, that would be the whole operation, which takes --wide. The record is
the first example of a root cause of its name, or with --cause one more of another.

exit codes: 0 added; 2 nothing was written.

example:
  python -m gradcheck known add reports/x.json --title "tf.x: the gradient at 0 is 0" --source "By hand: ..."
"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "add", run, ADD)
    parser.add_argument("finding", type=Path, metavar="FINDING", help="the JSON file of a report")
    parser.add_argument("--title", required=True, help="the defect in one line")
    parser.add_argument("--source", required=True, help="how the right derivative is known")
    parser.add_argument("--upstream", metavar="URL", help="TensorFlow's issue, if there is one")
    parser.add_argument("--right", metavar="JSON", help="the right derivative, a list of numbers for each input")
    parser.add_argument("--name", help="the name of the record (from the operation, the special value and the order)")
    parser.add_argument("--cause", help="the root cause, new or known, of which it is an example (the record's name)")
    parser.add_argument("--wide", action="store_true", help="leave out the whole operation at this order")
    cli.folder_option(parser)


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Adds the defect of a finding, once everything about it has been checked."""
    try:
        found = json_report.read(options.finding)
    except (ValueError, OSError) as error:
        raise cli.CommandError(f"{error}; name a finding's JSON") from None
    folder = cli.known_folder(options.folder)
    release, found = cli.tensorflow(), with_values(found)
    name = _usual_name(found) if options.name is None else options.name
    given, records = _numbers(options.right), cli.known_records(folder)
    path, others = _file(folder, name, options.cause)
    here = [one for one in wrong_derivatives(records) if one.covers(release)]
    if (same := known_graphs.match(found, defects=here)) is not None:
        raise cli.CommandError(f"{options.finding}: already known as {same.name}: {same.title}")
    made = _drafted(found, name, path.stem, given, options)
    if known_graphs.match(found, defects=[made]) is None:
        raise cli.CommandError(f"{options.finding}: lies outside of the region around it; write {path} by hand")
    from gradcheck.hunt.kernel_forms import with_kernels

    made = with_kernels(made)
    data = documents.plain(made)
    try:
        known.write(path, [*others, made])
    except OSError as error:
        raise cli.CommandError(f"{folder}: cannot be written to ({error}); name another with --folder DIR") from None
    lines = (
        f"added {path}",
        f"left out of generation: {_in_words(made.regions[0])}",
        f"right: {data['right']}",
        f"given: {data['given'] or 'nothing'}",
        f"kernels: {', '.join(made.kernel_names) or 'none by itself'}",
    )
    step = f"python -m gradcheck known check {name}{cli.elsewhere(options.folder)}"
    return cli.CommandOutput("known add", lines, {"file": str(path), "defect": data}, step)


def _file(folder: Path, name: str, cause: str | None) -> tuple[Path, Sequence[Known]]:
    """The file of a new record, and the other records in it; raises CommandError where the names do not allow one."""
    for option, text in (("--name", name), ("--cause", cause)):
        if text is not None and not NAME.fullmatch(text):
            raise cli.CommandError(f"{option} was {text!r}; expected a text like {NAME.pattern}")
    if (taken := known.file_of(folder, name)) is not None:
        raise cli.CommandError(f"{taken}: {name} is already there; choose another name with --name")
    path = folder / f"{cause or name}.json"
    others = known.read(path) if path.exists() else ()
    if others and cause is None:
        raise cli.CommandError(
            f"{path}: already there; choose another name with --name, or add to it with --cause {name}"
        )
    for other in others:
        if other.cause != cause:
            raise cli.CommandError(f"{path}: holds {other.name} of the cause {other.cause}; name that with --cause")
    return path, others


def with_values(found: GraphFinding) -> GraphFinding:
    """The finding with the values that its graph has, and their description, instead of those in the file.

    Raises CommandError where they cannot be computed.
    """
    from gradcheck.hunt.admission import admit

    try:
        values = tuple(map(literal, admit(found.graph)))
    except Exception as error:
        raise cli.CommandError(f"{found.name}: cannot run: {error}; correct the report first") from None
    found = replace(found, values=values)
    return replace(found, description=describe(_arguments(found)))


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


def _drafted(found: GraphFinding, name: str, cause: str, given: Numbers | None, options: argparse.Namespace) -> Defect:
    """The known defect of a finding; raises CommandError where it is not wrong here, or the options do not fit it."""
    from gradcheck.hunt.recheck import of_report, taken

    seen = of_report(found)
    if seen.state is State.CANNOT_TELL:
        raise cli.CommandError(f"{found.name}: cannot tell: {seen.message}; correct the report first")
    if seen.state is State.FIXED:
        raise cli.CommandError(f"{found.name}: is right here ({seen.message}); there is nothing to add")
    try:
        made = Defect(
            name=name,
            title=options.title,
            signature=found.signature,
            description=found.description,
            graph=to_document(found.graph),
            cotangent=to_tensor(found.cotangent),
            direction=tuple(map(to_tensor, found.direction)),
            right=_right(found, given),
            source=options.source,
            given=taken(found.example),
            regions=(_region(found, options.wide),),
            releases=Releases(cli.tensorflow().partition("-")[0], None),
            upstream=options.upstream,
            group=cause,
        )
        read = documents.convert(documents.plain(made), Defect)
        known_graphs.check(read)
    except DocumentError as error:
        raise cli.CommandError(f"no file that could be read: {error}; correct the option of that name") from None
    return read


def _arguments(found: GraphFinding) -> list[Any]:
    """The culprit's arguments."""
    return [found.values[parent].array() for parent in dict(found.graph.positions())[found.position].parents]


def _usual_name(found: GraphFinding) -> str:
    """The name of a record: how the derivative was taken, operation, what is special, order."""
    here = special(_arguments(found))
    taken = "" if found.taken == PLAIN else str(found.taken)
    what = "" if here is None else here.name.partition(" in ")[0]
    words = f"{taken} {found.culprit} {what} order{found.order}"
    return re.sub(r"[^a-z0-9_]+", "-", words.lower()).strip("-")[:80]


def _region(found: GraphFinding, wide: bool) -> Region:
    if wide:
        return Region(found.culprit, (found.order,))
    node, arguments = dict(found.graph.positions())[found.position], _arguments(found)
    region = narrowest(node.op, node.attributes, arguments, found.order)
    offered = CATALOGUE[node.op].attributes(*(argument.shape for argument in arguments))
    limited = any(not isinstance(kind, Choice) or len(kind.values) > 1 for kind in offered.values())
    if region.set_name is None and not limited:
        raise cli.CommandError(
            f"{found.name}: nothing is special about the arguments of {node.op}, so that the whole operation would be "
            f"left out at order {found.order}; give --wide if that is meant, or find a more special example"
        )
    return region


def _right(found: GraphFinding, given: Numbers | None) -> Numbers:
    """The derivative from differences at two steps, to the digits that they share; or the one given, if it agrees."""
    from gradcheck.hunt.recheck import STEP, close, differences, values

    one, other = (
        tuple(part or () for part in values(differences(found.example, step=step))) for step in (STEP, STEP / 4)
    )
    shown = list(map(list, one))
    if given is not None:
        if not close(given, one, CLOSE):
            raise cli.CommandError(f"--right was {list(map(list, given))}; finite differences give {shown}")
        return given
    if not close(one, other, CLOSE):
        raise cli.CommandError(
            f"{found.name}: finite differences are too rough here, {shown}; give what is right with --right JSON"
        )
    return tuple(tuple(map(shared_digits, a, b)) for a, b in zip(one, other, strict=True))


def _numbers(text: str | None) -> Numbers | None:
    try:
        return None if text is None else tuple(tuple(map(float, part)) for part in documents.parse(text))
    except (TypeError, ValueError):
        raise cli.CommandError(
            f"--right was {text!r}; expected a list of numbers for each input, as [[9, 0, 0]]"
        ) from None


def _in_words(region: Region) -> str:
    attrs = f" with {', '.join(f'{name}={value!r}' for name, value in region.attrs.items())}" if region.attrs else ""
    ranks = f" of rank {region.ranks[0]}" if region.ranks else ""
    return f"{region.op}{attrs}, {region.set_name or 'any argument 0'}{ranks}, at order {region.orders[0]}"
