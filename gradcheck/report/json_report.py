"""The JSON report of a discovery."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from gradcheck.finding import Finding
from gradcheck.graphs.json_form import input_to_json, to_json
from gradcheck.report.confirm import Confirmation
from gradcheck.report.discovery import Discovery

FORMAT = "gradcheck report"
VERSION = 1


def json_text(discovery: Discovery, confirmation: Confirmation | None = None) -> str:
    """The report as strict JSON; numbers that JSON does not know are the texts "nan", "inf" and "-inf"."""
    signature = discovery.signature
    data = {
        "format": FORMAT,
        "version": VERSION,
        "name": discovery.name,
        "signature": {**asdict(signature), "kind": signature.kind.value},
        "position": discovery.position,
        "graph": to_json(discovery.graph),
        "order": discovery.order,
        "cotangent": input_to_json(discovery.cotangent),
        "direction": [input_to_json(vector) for vector in discovery.direction],
        "findings": [_finding(finding) for finding in discovery.findings],
        "values": [input_to_json(value) for value in discovery.values],
        "nodes": [asdict(node) for node in discovery.nodes],
        "environment": None if discovery.environment is None else asdict(discovery.environment),
        "confirmation": None if confirmation is None else asdict(confirmation),
    }
    return json.dumps(_strict(data), indent=2, allow_nan=False) + "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "kind": finding.kind.value}


def _strict(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _strict(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strict(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return repr(data)
    return data
