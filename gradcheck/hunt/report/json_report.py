"""The JSON report of a discovery."""

from __future__ import annotations

import json
from typing import Any

from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph_json import MAX_ELEMENTS
from gradcheck.hunt.report.confirmation import Confirmation
from gradcheck.hunt.report.record_json import encode

FORMAT = "gradcheck report"
VERSION = 1


def json_text(discovery: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The report as strict JSON; numbers that JSON does not know are the texts "nan", "inf" and "-inf"."""
    return json.dumps(to_json(discovery, confirmation), indent=2, allow_nan=False) + "\n"


def to_json(discovery: GraphFinding, confirmation: Confirmation | None = None) -> dict[str, Any]:
    """The same as plain dictionaries, lists, numbers and texts; `reading.from_json` reads it.

    The values at the positions are left out where they have more than 4,096 elements together. Raises GraphFormatError
    for a graph that has no JSON form.
    """
    few = sum(len(value.values) for value in discovery.values) <= MAX_ELEMENTS
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": discovery.name,
        "signature": encode(discovery.signature),
        "position": discovery.position,
        "graph": encode(discovery.graph),
        "order": discovery.order,
        "cotangent": encode(discovery.cotangent),
        "direction": encode(discovery.direction),
        "findings": encode(discovery.findings),
        "values": encode(discovery.values) if few else [],
        "nodes": encode(discovery.nodes),
        "elements": encode(discovery.elements),
        "curve": encode(discovery.curve),
        "environment": encode(discovery.environment),
        "confirmation": encode(confirmation),
    }
