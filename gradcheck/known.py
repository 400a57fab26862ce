"""Known defects of TensorFlow, one JSON file each: loaded, matched, left out of generation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradcheck import files, runtime
from gradcheck.finding import Kind
from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Graph, Input
from gradcheck.graphs.json_form import (
    MAX_TEXT,
    GraphFormatError,
    Words,
    from_json,
    input_from_json,
    integer,
    items,
    keys,
    number,
    parse,
)
from gradcheck.region import CONDITIONS, ELEMENTS, Region
from gradcheck.report.discovery import Discovery

FORMAT = "gradcheck known defect"
VERSION = 1
RELEASE = re.compile(r"\d+(\.\d+){1,2}")
LINK = re.compile(r"https://[\w./#?=&%-]+")
NAME = re.compile(r"[a-z0-9_-]{1,80}")
OPTIONAL = ("attrs", "argument", "along", "elements", "ranks", "segments", "indices", "producers")
Values = tuple[tuple[float, ...] | None, ...]


class KnownDefectError(ValueError):
    """A file of known defects is broken or foreign; names the file, the place and the fix."""


@dataclass(frozen=True)
class Defect:
    """A wrong derivative of TensorFlow that somebody has looked at.

    `graph`, `order`, `cotangent` and `direction` replay it: TensorFlow gives `given` (one tuple an input, row-major,
    complex elements as real part, imaginary part; None where it gives None; empty where it raises or gives another
    shape than the input's), the truth is `right`, known from `source`. `regions` are left out of generation for the
    releases from `since` up to, not including, `until`.
    """

    name: str
    title: str
    culprit: str
    order: int
    kind: Kind
    trigger: str
    graph: Graph
    cotangent: Input
    direction: tuple[Input, ...]
    right: Values
    source: str
    given: Values
    regions: tuple[Region, ...]
    since: str
    until: str | None
    upstream: str | None

    def covers(self, release: str) -> bool:
        """Whether a release of TensorFlow has the defect, as far as is known."""
        at = _version(release)
        return _version(self.since) <= at and (self.until is None or at < _version(self.until))


def load(folder: Path | str | None = None) -> tuple[Defect, ...]:
    """The defects of a folder, by file name.

    Without a folder: the one that GRADCHECK_KNOWN names, or that of pytest's root folder, or the nearest from here up;
    where there is none, no defects. Raises KnownDefectError for a file that is broken or is something else, and for a
    folder named but missing.
    """
    place = Path(folder) if folder is not None else runtime.known() or find(Path.cwd())
    if place is None:
        return ()
    if not place.is_dir():
        raise KnownDefectError(f"{place}: no such folder; name the folder of the known defects, such as reports/known")
    return tuple(read(path) for path in sorted(place.glob("*.json")))


def find(start: Path) -> Path | None:
    """`reports/known` in a folder or the nearest one above it."""
    for folder in (start, *start.parents):
        if (folder / "reports" / "known").is_dir():
            return folder / "reports" / "known"
    return None


@lru_cache(maxsize=1)
def current() -> tuple[Defect, ...]:
    """The defects that the installed TensorFlow has, loaded once a process."""
    import tensorflow as tf

    return tuple(defect for defect in load() if defect.covers(tf.__version__))


def excludes(
    op: str,
    attrs: Mapping[str, Any],
    arguments: Sequence[Any],
    order: int,
    producers: Sequence[str] = (),
    *,
    defects: Sequence[Defect] | None = None,
) -> str | None:
    """The name of the defect in whose region an operation's attributes and argument values lie, or None.

    `arguments` are arrays (the values, not the shapes), `producers` the operations that stand before them; `defects`
    are those of the installed TensorFlow unless given.
    """
    for defect in current() if defects is None else defects:
        if any(region.contains(op, attrs, arguments, order, producers) for region in defect.regions):
            return defect.name
    return None


def everywhere(op: str, order: int, *, defects: Sequence[Defect] | None = None) -> str | None:
    """The name of the defect that leaves an operation no use at this order, or None."""
    for defect in current() if defects is None else defects:
        if any(region.op == op and order in region.orders and region.everywhere for region in defect.regions):
            return defect.name
    return None


def match(discovery: Discovery, *, defects: Sequence[Defect] | None = None) -> Defect | None:
    """The defect that a discovery is an example of, or None if it is new.

    The order, the kind and the operation (the culprit, or one of a region's) are the same; and the culprit's arguments
    lie in a region, where the discovery has `values`, or else its trigger is the same.
    """
    found = discovery.signature
    for defect in current() if defects is None else defects:
        operations = {defect.culprit, *(region.op for region in defect.regions)}
        if found.culprit not in operations or (found.order, found.kind) != (defect.order, defect.kind):
            continue
        if found.trigger == defect.trigger if not discovery.values else _inside(discovery, defect):
            return defect
    return None


def _inside(discovery: Discovery, defect: Defect) -> bool:
    nodes = dict(discovery.graph.positions())
    node = nodes[discovery.position]
    arguments = [discovery.values[parent].array() for parent in node.parents]
    behind = discovery.graph.ancestors(discovery.position) - {discovery.position}
    producers = [nodes[position].op for position in behind if position in nodes]
    return excludes(node.op, node.attributes, arguments, discovery.order, producers, defects=[defect]) is not None


def read(path: Path) -> Defect:
    """The defect of one file; raises KnownDefectError, which names the file, the place in it and the fix."""
    try:
        return _defect(parse(files.read(path, MAX_TEXT)))
    except (GraphFormatError, OSError) as error:
        raise KnownDefectError(
            f"{path}: not a known defect of this format: {error}. Correct the file or take it out of the folder; "
            f"reports/README.md describes the format"
        ) from None


def _defect(data: Any) -> Defect:
    names = ("format", "version", "name", "title", "signature", "graph", "cotangent", "direction", "right", "source")
    keys(data, "$", (*names, "given", "regions", "releases", "upstream"))
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise GraphFormatError("$.format", data["format"], f"{FORMAT!r}, version {VERSION}")
    signature, releases = data["signature"], data["releases"]
    keys(signature, "$.signature", ("culprit", "order", "kind", "trigger"))
    keys(releases, "$.releases", ("from", "until"))
    graph = from_json(data["graph"])
    upstream, until = data["upstream"], releases["until"]
    return Defect(
        name=_text(data["name"], "$.name", NAME),
        title=_text(data["title"], "$.title"),
        culprit=_operation(signature["culprit"], "$.signature.culprit"),
        order=_order(signature["order"], "$.signature.order"),
        kind=Kind(_one_of(signature["kind"], "$.signature.kind", [kind.value for kind in Kind])),
        trigger=_text(signature["trigger"], "$.signature.trigger"),
        graph=graph,
        cotangent=input_from_json(data["cotangent"], "$.cotangent"),
        direction=tuple(
            input_from_json(vector, f"$.direction[{i}]")
            for i, vector in enumerate(items(data["direction"], "$.direction", 64))
        ),
        right=_values(data["right"], "$.right", graph, complete=True),
        source=_text(data["source"], "$.source"),
        given=_values(data["given"], "$.given", graph, complete=False),
        regions=tuple(
            _region(region, f"$.regions[{i}]") for i, region in enumerate(items(data["regions"], "$.regions", 64))
        ),
        since=_text(releases["from"], "$.releases.from", RELEASE),
        until=None if until is None else _text(until, "$.releases.until", RELEASE),
        upstream=None if upstream is None else _text(upstream, "$.upstream", LINK),
    )


def _region(data: Any, place: str) -> Region:
    keys(data, place, ("op", "condition", "orders"), OPTIONAL)
    op = _operation(data["op"], f"{place}.op")
    attrs, along = data.get("attrs", {}), data.get("along")
    keys(attrs, f"{place}.attrs", (), attrs)
    axes = along if isinstance(along, list) and along else [along]
    if along is not None and not isinstance(along, str) and any(type(axis) is not int for axis in axes):
        raise GraphFormatError(
            f"{place}.along", along, "null, an axis, a list of them or the name of the attribute that holds it"
        )
    segments = data.get("segments")
    return Region(
        op=op,
        condition=_one_of(data["condition"], f"{place}.condition", list(CONDITIONS)),
        orders=tuple(
            _order(order, f"{place}.orders[{i}]") for i, order in enumerate(items(data["orders"], f"{place}.orders", 2))
        ),
        attrs=tuple((name, _frozen(value)) for name, value in sorted(attrs.items())),
        argument=integer(data.get("argument", 0), f"{place}.argument", CATALOGUE[op].arity - 1),
        along=_frozen(along),
        elements=_one_of(data.get("elements", "all"), f"{place}.elements", list(ELEMENTS)),
        ranks=tuple(
            integer(rank, f"{place}.ranks[{i}]", 8) for i, rank in enumerate(items(data.get("ranks", []), place, 8))
        ),
        segments=None if segments is None else _text(segments, f"{place}.segments"),
        indices=_names(data, place, "indices"),
        producers=tuple(_operation(name, f"{place}.producers") for name in _names(data, place, "producers")),
    )


def _names(data: Any, place: str, field: str) -> tuple[str, ...]:
    names = items(data.get(field, []), f"{place}.{field}", 64)
    return tuple(_text(name, f"{place}.{field}[{i}]") for i, name in enumerate(names))


def _values(data: Any, place: str, graph: Graph, *, complete: bool) -> Values:
    parts = items(data, place, len(graph.inputs))
    if len(parts) != len(graph.inputs) and (complete or parts):
        raise GraphFormatError(
            place, Words(f"a list of {len(parts)}"), f"one list for each of {len(graph.inputs)} inputs"
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
        raise GraphFormatError(place, Words(f"a list of {len(parts)}"), f"{count} numbers, as the input has")
    special = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf} if not complete else {}
    return tuple(
        special[part] if isinstance(part, str) and part in special else number(part, f"{place}[{i}]")
        for i, part in enumerate(parts)
    )


def _text(data: Any, place: str, pattern: re.Pattern[str] | None = None) -> str:
    if not isinstance(data, str) or not 0 < len(data) <= 2000 or (pattern is not None and not pattern.fullmatch(data)):
        raise GraphFormatError(place, data, f"a text like {pattern.pattern}" if pattern else "a text")
    return data


def _operation(data: Any, place: str) -> str:
    if not isinstance(data, str) or data not in CATALOGUE:
        raise GraphFormatError(place, data, "the name of an operation of the catalogue")
    return data


def _order(data: Any, place: str) -> int:
    if type(data) is not int or data not in (1, 2):
        raise GraphFormatError(place, data, "1 or 2")
    return data


def _one_of(data: Any, place: str, choices: Sequence[str]) -> str:
    if not isinstance(data, str) or data not in choices:
        raise GraphFormatError(place, data, f"one of {', '.join(choices)}")
    return data


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def _version(release: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", release.partition("-")[0])[:3]]
    return tuple([*numbers, 0, 0, 0][:3])
