"""A known defect from a finding: what the report says, what TensorFlow gives, what differences say is right."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace

import numpy as np

from gradcheck import defect
from gradcheck.autodiff.mode import PLAIN
from gradcheck.commands.answer import CommandError
from gradcheck.defect import Defect, Values
from gradcheck.graphs.admission import admit
from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Node
from gradcheck.graphs.json_form import parse
from gradcheck.graphs.opspec import Choice
from gradcheck.recheck import of_report, taken
from gradcheck.region import Region, narrowest
from gradcheck.replay import STEP, close, differences, values
from gradcheck.report.discovery import Discovery, literal, trigger
from gradcheck.report.events import State

CLOSE = 1e-5


@dataclass(frozen=True)
class Words:
    """What only a person can say of a defect; `right` is None where differences are to say it."""

    name: str
    title: str
    source: str
    upstream: str | None = None
    right: Values | None = None


def drafted(found: Discovery, words: Words, release: str, *, wide: bool = False) -> Defect:
    """The known defect of a finding, with the narrowest region around its example, or the whole operation (`wide`).

    Raises CommandError where the finding is not wrong on this TensorFlow, and where the words do not fit it.
    """
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
        return defect.from_json(parse(json.dumps(defect.to_json(made), allow_nan=False)))
    except ValueError as error:
        raise CommandError(f"no file that could be read: {error}; correct the option of that name") from None


def name_of(found: Discovery) -> str:
    """The usual name of a defect's file: how it was taken, operation, what is special, order."""
    special = found.trigger.partition(" in argument")[0]
    taken = [] if found.taken == PLAIN else [str(found.taken)]
    words = [*taken, found.culprit, *([] if special == "none" else [special]), f"order{found.order}"]
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(words).lower()).strip("-")[:80]


def with_values(found: Discovery) -> Discovery:
    """The discovery with the values that its graph has, whatever the file says.

    Raises CommandError where they cannot be computed, or show another trigger.
    """
    try:
        at = admit(found.graph)
    except Exception as error:
        raise CommandError(f"{found.name}: cannot run: {error}; correct the report first") from None
    special = trigger([at[parent] for parent in _culprit(found).parents])
    if special != found.trigger:
        raise CommandError(f"{found.name}: its trigger is {found.trigger!r}; the graph's arguments show {special!r}")
    return replace(found, values=tuple(literal(value) for value in at))


def _refuse_right(found: Discovery) -> None:
    seen = of_report(found)
    if seen.state is State.CANNOT_RUN:
        raise CommandError(f"{found.name}: cannot run: {seen.message}; correct the report first")
    if seen.state is State.FIXED:
        raise CommandError(f"{found.name}: is right here ({seen.message}); there is nothing to add")


def _culprit(found: Discovery) -> Node:
    return found.graph.nodes[found.position - len(found.graph.inputs)]


def _region(found: Discovery, wide: bool) -> Region:
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


def _right(found: Discovery, given: Values | None) -> Values:
    """The derivative from differences at two steps, to the digits that they share; or the one given, if it agrees."""
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
