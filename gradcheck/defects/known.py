"""What is known to be wrong in TensorFlow, one JSON file each: loaded, matched, left out of generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from gradcheck import files, runtime
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects import deviation as tape_form
from gradcheck.defects import records as form
from gradcheck.defects.deviation import Deviation
from gradcheck.defects.records import Defect
from gradcheck.defects.region import ANY, Region
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.graph_json import MAX_TEXT, GraphFormatError, parse

Known: TypeAlias = Defect | Deviation
"""What a file of known defects may hold: a wrong derivative, or what tapes do against their documentation."""

Filed = dict[str, list[tuple[str, Region]]]
"""Regions, with their defects' names, by operation."""


class KnownDefectError(ValueError):
    """A file of known defects is broken or foreign; names the file, the place and the fix."""


def load(folder: Path | str | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives in a folder, by file name.

    Raises what `records` does, also for the files that are about tapes.
    """
    return tuple(one for one in records(folder) if isinstance(one, Defect))


def deviations(folder: Path | str | None = None) -> tuple[Deviation, ...]:
    """What tapes do against their documentation, of the same folder; raises what `records` does."""
    return tuple(one for one in records(folder) if isinstance(one, Deviation))


def records(folder: Path | str | None = None) -> tuple[Known, ...]:
    """All that is known in a folder, by file name.

    Without a folder: the one that GRADCHECK_KNOWN names, or that of pytest's root folder, or the nearest from here up;
    where there is none, nothing. Raises KnownDefectError for a file that is broken or is something else, and for a
    folder named but missing.
    """
    place = Path(folder) if folder is not None else home()
    if place is None:
        return ()
    if not place.is_dir():
        raise KnownDefectError(f"{place}: no such folder; name the folder of the known defects, such as reports/known")
    return tuple(read(path) for path in sorted(place.glob("*.json")))


def home() -> Path | None:
    """The folder of the known defects where none is named; None where there is none."""
    return runtime.known() or find(Path.cwd())


def find(start: Path) -> Path | None:
    """`reports/known` in a folder or the nearest one above it."""
    for folder in (start, *start.parents):
        if (folder / "reports" / "known").is_dir():
            return folder / "reports" / "known"
    return None


@lru_cache(maxsize=64)
def current(mode: Mode = PLAIN) -> tuple[Defect, ...]:
    """The defects that the installed TensorFlow has, loaded once a process: the plain ones and those of a mode."""
    import tensorflow as tf

    return tuple(one for one in load() if one.covers(tf.__version__) and one.taken in (PLAIN, mode))


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
    filed = _filed(PLAIN) if defects is None else _by_operation(defects)
    return _containing(filed, op, attrs, arguments, order, producers)


def excludes_in(mode: Mode) -> Callable[..., str | None]:
    """`excludes` for derivatives taken in a mode: its own defects are left out, too.

    A pushforward is the derivative of a gradient function, and fails where second derivatives do.
    """
    filed = _filed(mode)
    reach = {"forward": (1, 2)}.get(mode.path)

    def excluded(
        op: str, attrs: Mapping[str, Any], arguments: Sequence[Any], order: int, producers: Sequence[str] = ()
    ) -> str | None:
        names = (_containing(filed, op, attrs, arguments, at, producers) for at in reach or (order,))
        return next((name for name in names if name is not None), None)

    return excluded


def _by_operation(defects: Sequence[Defect]) -> Filed:
    filed: Filed = {}
    for defect in defects:
        for region in defect.regions:
            filed.setdefault(region.op, []).append((defect.name, region))
    return filed


@lru_cache(maxsize=64)
def _filed(mode: Mode) -> Filed:
    return _by_operation(current(mode))


def _containing(filed: Filed, op: str, *case: Any) -> str | None:
    near = chain(filed.get(op, ()), filed.get(ANY, ()))
    return next((name for name, region in near if region.contains(op, *case)), None)


def everywhere(op: str, order: int, *, defects: Sequence[Defect] | None = None) -> str | None:
    """The name of the defect that leaves an operation no use at this order, or None."""
    for defect in current() if defects is None else defects:
        if defect.taken != PLAIN:
            continue
        if any(region.op == op and order in region.orders and region.everywhere for region in defect.regions):
            return defect.name
    return None


def left_out(*releases: str) -> dict[tuple[str, int], str]:
    """The operations and orders that a known defect of these releases of TensorFlow leaves no use, with its name."""
    here = [defect for defect in load() if any(defect.covers(release) for release in releases)]
    pairs = [(name, order) for name, spec in CATALOGUE.items() for order in spec.orders]
    return {pair: name for pair in pairs if (name := everywhere(*pair, defects=here)) is not None}


def match(discovery: GraphFinding, *, defects: Sequence[Defect] | None = None) -> Defect | None:
    """The defect that a discovery is an example of, or None if it is new.

    The order, the kind, the mode and the operation (the culprit, or one of a region's) are the same; and the culprit's
    arguments lie in a region, where the discovery has `values`, or else its trigger is the same.
    """
    found = discovery.signature
    for defect in current(discovery.taken) if defects is None else defects:
        operations = {defect.culprit, *(region.op for region in defect.regions)}
        if operations.isdisjoint({found.culprit, ANY}) or (found.order, found.kind, discovery.taken) != (
            defect.order,
            defect.kind,
            defect.taken,
        ):
            continue
        if found.trigger == defect.trigger if not discovery.values else _inside(discovery, defect):
            return defect
    return None


def _inside(discovery: GraphFinding, defect: Defect) -> bool:
    nodes = dict(discovery.graph.positions())
    node = nodes[discovery.position]
    arguments = [discovery.values[parent].array() for parent in node.parents]
    behind = discovery.graph.ancestors(discovery.position) - {discovery.position}
    producers = [nodes[position].op for position in behind if position in nodes]
    return excludes(node.op, node.attributes, arguments, discovery.order, producers, defects=[defect]) is not None


def read(path: Path) -> Known:
    """What one file holds; raises KnownDefectError, which names the file, the place in it and the fix."""
    try:
        return from_json(parse(files.read(path, MAX_TEXT)))
    except (GraphFormatError, OSError) as error:
        raise KnownDefectError(
            f"{path}: not a known defect of this format: {error}. Correct the file or take it out of the folder; "
            f"reports/README.md describes the format"
        ) from None


def from_json(data: Any) -> Known:
    """What a document of one of the two formats holds; raises GraphFormatError for anything else."""
    about_tapes = isinstance(data, dict) and data.get("format") == tape_form.FORMAT
    return tape_form.from_json(data) if about_tapes else form.from_json(data)
