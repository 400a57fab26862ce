"""Reading a JSON report back: a forged or damaged one is refused, and nothing in it is ever executed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import ElementCheck, GraphFinding, NodeCheck, Signature, StepCurve
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.graph_json import MAX_TEXT, Description, GraphFormatError, keys, parse
from gradcheck.hunt.report.confirmation import Confirmation
from gradcheck.hunt.report.environment import Environment
from gradcheck.hunt.report.json_report import FORMAT, VERSION
from gradcheck.hunt.report.record_json import decode
from gradcheck.result import Finding

FIELDS: dict[str, Any] = {
    "name": str,
    "signature": Signature,
    "position": int,
    "graph": Graph,
    "order": int,
    "cotangent": Input,
    "direction": tuple[Input, ...],
    "findings": tuple[Finding, ...],
    "values": tuple[Input, ...],
    "nodes": tuple[NodeCheck, ...],
    "elements": tuple[ElementCheck, ...],
    "curve": StepCurve | None,
    "environment": Environment | None,
    "confirmation": Confirmation | None,
}


@dataclass(frozen=True)
class Report:
    """A discovery, with what its script did in a fresh process if it was run."""

    discovery: GraphFinding
    confirmation: Confirmation | None = None


def read(path: Path) -> Report:
    """The report in a file that `writer.write` wrote.

    Raises OSError where the file cannot be read, and ValueError, which names the file, the place in it, what was given
    and what is expected, for anything but a report.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return from_json(parse(file.read(MAX_TEXT + 1)))
    except ValueError as error:
        raise ValueError(f"{path}: not a report of this project: {error}") from None


def from_json(data: Any) -> Report:
    """The report of a parsed JSON report; raises GraphFormatError, a ValueError, for whatever is not exactly one."""
    keys(data, "$", ("format", "version", *FIELDS))
    if data["format"] != FORMAT or type(data["version"]) is not int or data["version"] != VERSION:
        raise GraphFormatError("$.format", data["format"], f"{FORMAT!r}, version {VERSION}")
    given = {name: decode(kind, data[name], f"$.{name}") for name, kind in FIELDS.items()}
    name, confirmation, signature = given.pop("name"), given.pop("confirmation"), given.pop("signature")
    if given["order"] not in (1, 2):
        raise GraphFormatError("$.order", given["order"], "1 or 2")
    if not given["findings"]:
        raise GraphFormatError("$.findings", given["findings"], "at least one finding")
    discovery = GraphFinding(
        culprit=signature.culprit, trigger=signature.trigger, path=signature.path, mode=signature.mode, **given
    )
    if discovery.signature != signature:
        raise GraphFormatError("$.signature", Description(repr(signature)), "the order and the first finding's kind")
    _hold(discovery)
    if name != discovery.name:
        raise GraphFormatError("$.name", name, f"{discovery.name!r}, as the signature gives it")
    return Report(discovery, confirmation)


def _hold(found: GraphFinding) -> None:
    """Raises GraphFormatError where the parts of a discovery do not fit one another."""
    graph, first = found.graph, len(found.graph.inputs)
    if not first <= found.position < graph.size:
        raise GraphFormatError("$.position", found.position, f"a node, from {first} to {graph.size - 1}")
    if found.culprit != graph.nodes[found.position - first].op:
        raise GraphFormatError("$.signature.culprit", found.culprit, "the operation at the position")
    shapes = [(value.shape, value.dtype) for value in graph.inputs] if found.order == 2 else []
    if [(vector.shape, vector.dtype) for vector in found.direction] != shapes:
        raise GraphFormatError(
            "$.direction", Description("another number, shape or dtype"), "one like each input at order 2"
        )
    if len(found.values) not in (0, graph.size):
        raise GraphFormatError("$.values", Description(f"{len(found.values)} values"), f"none, or {graph.size}")
    if any(not first <= node.position < graph.size for node in found.nodes):
        raise GraphFormatError("$.nodes", Description("a position that is no node"), f"{first} to {graph.size - 1}")
    count = sum(coordinate_count(value.shape, value.dtype) for value in graph.inputs)
    compared = [element.coordinate for element in found.elements]
    if compared != sorted(set(compared) & set(range(count))):
        raise GraphFormatError("$.elements", Description("other coordinates"), f"some of 0 to {count - 1}, in order")
    curve = found.curve
    if curve is not None and not (curve.coordinate in compared and 0 < len(curve.steps) == len(curve.quotients)):
        raise GraphFormatError("$.curve", Description("something else"), "one quotient a step, of an element")
    if any(not math.isfinite(abs(x)) for part in (found.cotangent, *found.direction) for x in part.values):
        raise GraphFormatError("$.cotangent", Description("a value that is not finite"), "finite numbers")
    result = CATALOGUE[graph.nodes[-1].op].result
    if found.cotangent.dtype.startswith("complex") and not result.startswith("complex"):
        raise GraphFormatError("$.cotangent.dtype", found.cotangent.dtype, f"the output's, {result}")
