"""What every record of reports/known holds, whatever it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.region import ANY, CONDITIONS, ELEMENTS, Region
from gradcheck.hunt import graph_json
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import Graph, Input
from gradcheck.hunt.graph_json import (
    Description,
    GraphFormatError,
    choice,
    input_from_json,
    integer,
    items,
    keys,
    number,
    text,
)
from gradcheck.result import Kind

RELEASE = re.compile(r"\d+(\.\d+){1,2}")
LINK = re.compile(r"https://[\w./#?=&%-]+")
NAME = re.compile(r"[a-z0-9_-]{1,80}")


@dataclass(frozen=True)
class KnownRecord:
    """Something that TensorFlow does wrong: `source` says how the truth is known, `upstream` links its issue.

    It is recorded for the releases from `since` up to, not including, `until`.
    """

    name: str
    title: str
    source: str
    since: str
    until: str | None
    upstream: str | None

    def covers(self, release: str) -> bool:
        """Whether a release of TensorFlow has it, as far as is known."""
        at = version_of(release)
        return version_of(self.since) <= at and (self.until is None or at < version_of(self.until))


def record_from_json(data: Any, form: str, version: int) -> dict[str, Any]:
    """The fields of a KnownRecord in a document of this format that has their names; raises GraphFormatError."""
    if data["format"] != form or data["version"] != version:
        raise GraphFormatError("$.format", data["format"], f"{form!r}, version {version}")
    releases, upstream = data["releases"], data["upstream"]
    keys(releases, "$.releases", ("from", "until"))
    until = releases["until"]
    return {
        "name": text(data["name"], "$.name", NAME),
        "title": text(data["title"], "$.title"),
        "source": text(data["source"], "$.source"),
        "since": text(releases["from"], "$.releases.from", RELEASE),
        "until": None if until is None else text(until, "$.releases.until", RELEASE),
        "upstream": None if upstream is None else text(upstream, "$.upstream", LINK),
    }


def version_of(release: str) -> tuple[int, ...]:
    """A release of TensorFlow as three numbers, to be compared; what follows a hyphen does not count.

    >>> version_of("2.9") < version_of("2.23.0-dev20260901")
    True
    """
    numbers = [int(part) for part in re.findall(r"\d+", release.partition("-")[0])[:3]]
    return tuple([*numbers, 0, 0, 0][:3])


FORMAT = "gradcheck known defect"
VERSION = 1
OPTIONAL = ("attrs", "argument", "along", "elements", "ranks", "segments", "indices", "producers")
Values = tuple[tuple[float, ...] | None, ...]


@dataclass(frozen=True)
class Defect(KnownRecord):
    """A wrong derivative of TensorFlow that somebody has looked at.

    `graph`, `order`, `cotangent` and `direction` replay it: TensorFlow gives `given` (one tuple an input, row-major,
    complex elements as real part, imaginary part; None where it gives None; empty where it raises or gives another
    shape than the input's), the truth is `right`, known from `source`. `regions` are left out of generation for the
    releases from `since` up to, not including, `until`, where derivatives are taken along `path` in `mode`.
    """

    culprit: str
    order: int
    kind: Kind
    trigger: str
    graph: Graph
    cotangent: Input
    direction: tuple[Input, ...]
    right: Values
    given: Values
    regions: tuple[Region, ...]
    path: str = PLAIN.path
    mode: str = PLAIN.mode

    @property
    def taken(self) -> Mode:
        """How the derivative is taken that is wrong."""
        return Mode(self.path, self.mode)


def from_json(data: Any) -> Defect:
    """The defect of a JSON form; raises GraphFormatError for anything that `to_json` would not have written."""
    names = ("format", "version", "name", "title", "signature", "graph", "cotangent", "direction", "right", "source")
    keys(data, "$", (*names, "given", "regions", "releases", "upstream"))
    record = record_from_json(data, FORMAT, VERSION)
    signature = data["signature"]
    keys(signature, "$.signature", ("culprit", "order", "kind", "trigger"), ("path", "mode"))
    graph = graph_json.from_json(data["graph"])
    mode = _mode(signature)
    return Defect(
        **record,
        culprit=_operation(signature["culprit"], "$.signature.culprit"),
        order=_order(signature["order"], "$.signature.order"),
        kind=Kind(choice(signature["kind"], "$.signature.kind", [kind.value for kind in Kind])),
        trigger=text(signature["trigger"], "$.signature.trigger"),
        graph=graph,
        cotangent=input_from_json(data["cotangent"], "$.cotangent"),
        direction=tuple(
            input_from_json(vector, f"$.direction[{i}]")
            for i, vector in enumerate(items(data["direction"], "$.direction", 64))
        ),
        right=_values(data["right"], "$.right", graph, complete=True),
        given=_values(data["given"], "$.given", graph, complete=False),
        regions=tuple(
            _region(region, f"$.regions[{i}]") for i, region in enumerate(items(data["regions"], "$.regions", 64))
        ),
        path=mode.path,
        mode=mode.mode,
    )


def to_json(defect: Defect) -> dict[str, Any]:
    """The defect as plain dictionaries, lists, numbers and texts, which `from_json` reads."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": defect.name,
        "title": defect.title,
        "signature": {
            "culprit": defect.culprit,
            "order": defect.order,
            "kind": defect.kind.value,
            "trigger": defect.trigger,
            **({} if defect.taken == PLAIN else {"path": defect.path, "mode": defect.mode}),
        },
        "graph": graph_json.to_json(defect.graph),
        "cotangent": graph_json.input_to_json(defect.cotangent),
        "direction": [graph_json.input_to_json(vector) for vector in defect.direction],
        "right": _told(defect.right),
        "source": defect.source,
        "given": _told(defect.given),
        "regions": [_region_to_json(region) for region in defect.regions],
        "releases": {"from": defect.since, "until": defect.until},
        "upstream": defect.upstream,
    }


def _mode(signature: Any) -> Mode:
    path, mode = signature.get("path", PLAIN.path), signature.get("mode", PLAIN.mode)
    try:
        return Mode(path, mode)
    except (TypeError, ValueError) as error:
        raise GraphFormatError("$.signature", signature, f"a path and a mode: {error}") from None


def _told(values: Values) -> list[Any]:
    return [None if part is None else [x if np.isfinite(x) else repr(float(x)) for x in part] for part in values]


def _region_to_json(region: Region) -> dict[str, Any]:
    """The fields that say something: those that are not as they are where a file leaves them out."""
    told = {field.name: getattr(region, field.name) for field in fields(region)}
    usual = {field.name: field.default for field in fields(region)}
    shown = {name: value for name, value in told.items() if value != usual[name]}
    if region.attrs:
        shown["attrs"] = dict(region.attrs)
    return shown


def _region(data: Any, place: str) -> Region:
    keys(data, place, ("op", "condition", "orders"), OPTIONAL)
    op = data["op"] if data["op"] == ANY else _operation(data["op"], f"{place}.op")
    attrs, along = data.get("attrs", {}), data.get("along")
    keys(attrs, f"{place}.attrs", (), attrs)
    axes = along if isinstance(along, list) and along else [along]
    if along is not None and not isinstance(along, str) and any(type(axis) is not int for axis in axes):
        raise GraphFormatError(
            f"{place}.along", along, "null, an axis, a list of them or the name of the attribute that holds it"
        )
    segments = data.get("segments")
    arity = max(spec.arity for spec in CATALOGUE.values()) if op == ANY else CATALOGUE[op].arity
    region = Region(
        op=op,
        condition=choice(data["condition"], f"{place}.condition", list(CONDITIONS)),
        orders=tuple(
            _order(order, f"{place}.orders[{i}]") for i, order in enumerate(items(data["orders"], f"{place}.orders", 2))
        ),
        attrs=tuple((name, _frozen(value)) for name, value in sorted(attrs.items())),
        argument=integer(data.get("argument", 0), f"{place}.argument", arity - 1),
        along=_frozen(along),
        elements=choice(data.get("elements", "all"), f"{place}.elements", list(ELEMENTS)),
        ranks=tuple(
            integer(rank, f"{place}.ranks[{i}]", 8) for i, rank in enumerate(items(data.get("ranks", []), place, 8))
        ),
        segments=None if segments is None else text(segments, f"{place}.segments"),
        indices=_names(data, place, "indices"),
        producers=tuple(_operation(name, f"{place}.producers") for name in _names(data, place, "producers")),
    )
    if op == ANY and region.everywhere:
        raise GraphFormatError(place, Description("every operation, always"), "a condition, attrs, ranks or producers")
    return region


def _names(data: Any, place: str, field: str) -> tuple[str, ...]:
    names = items(data.get(field, []), f"{place}.{field}", 64)
    return tuple(text(name, f"{place}.{field}[{i}]") for i, name in enumerate(names))


def _values(data: Any, place: str, graph: Graph, *, complete: bool) -> Values:
    parts = items(data, place, len(graph.inputs))
    if len(parts) != len(graph.inputs) and (complete or parts):
        raise GraphFormatError(
            place, Description(f"a list of {len(parts)}"), f"one list for each of {len(graph.inputs)} inputs"
        )
    return tuple(
        _numbers(part, f"{place}[{i}]", value, complete=complete)
        for i, (part, value) in enumerate(zip(parts, graph.inputs, strict=False))
    )


def _numbers(data: Any, place: str, value: Input, *, complete: bool) -> tuple[float, ...] | None:
    if data is None and not complete:
        return None
    count = len(value.values) * (2 if value.dtype == "complex128" else 1)
    parts = items(data, place, count)
    if len(parts) != count:
        raise GraphFormatError(place, Description(f"a list of {len(parts)}"), f"{count} numbers, as the input has")
    special = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf} if not complete else {}
    return tuple(
        special[part] if isinstance(part, str) and part in special else number(part, f"{place}[{i}]")
        for i, part in enumerate(parts)
    )


def _operation(data: Any, place: str) -> str:
    if not isinstance(data, str) or data not in CATALOGUE:
        raise GraphFormatError(place, data, "the name of an operation of the catalogue")
    return data


def _order(data: Any, place: str) -> int:
    if type(data) is not int or data not in (1, 2):
        raise GraphFormatError(place, data, "1 or 2")
    return data


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
