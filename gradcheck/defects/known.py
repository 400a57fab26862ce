"""The known defects of TensorFlow, a JSON file for each root cause: loaded, matched, excluded from generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gradcheck import documents, files, runtime
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.causes import KnownCause, KnownDocument, check_each, records_of, text_of
from gradcheck.defects.earlier_regions import in_this_form
from gradcheck.defects.records import Defect, Known, Signature, TapeDefect, wrong_derivatives
from gradcheck.defects.region import ALONE, ANY, Ancestry, Arrival, Region, names
from gradcheck.documents import DocumentError

Check = Callable[[Known], object]
"""Raises DocumentError for a record that cannot be used."""


class KnownDefectError(ValueError):
    """A file of known defects is broken or foreign; names the file, the place and the fix."""


def records(folder: Path | str | None = None, check: Check | None = None) -> tuple[Known, ...]:
    """All records of a folder, sorted by name; `check` is called with each.

    Without a folder: a project's own (of pytest's root folder, or the nearest from here up), and those that came with
    the package; a record of the project replaces one of the same name. If GRADCHECK_KNOWN names a folder, only that one
    is read. Raises KnownDefectError for a file that is broken or is something else, for a name that two files have, and
    for a folder named but missing.
    """
    if folder is not None:
        return _of_folder(Path(folder), check)
    place, packaged = home() or installed(), installed()
    own = _of_folder(place, check)
    if runtime.named_known() is not None or place.resolve() == packaged.resolve():
        return own
    names = {one.name for one in own}
    return (*own, *(one for one in _of_folder(packaged, check) if one.name not in names))


def _of_folder(place: Path, check: Check | None) -> tuple[Known, ...]:
    found = _with_files(place, check)
    return tuple(found[name][1] for name in sorted(found))


def _with_files(place: Path, check: Check | None) -> dict[str, tuple[Path, Known]]:
    """The records of a folder by name, each with its file."""
    if not place.is_dir():
        raise KnownDefectError(f"{place}: no such folder; name the folder of the known defects, such as reports/known")
    found: dict[str, tuple[Path, Known]] = {}
    for path in sorted(place.glob("*.json")):
        name, records = _read(path, check)
        if name != path.stem:
            raise KnownDefectError(f"{path}: holds {name}; the file has to be called {name}.json")
        for one in records:
            if one.name in found:
                raise KnownDefectError(
                    f"{path}: holds the record {one.name}, as does {found[one.name][0]}; take it out of one of them"
                )
            found[one.name] = path, one
    return found


def file_of(folder: Path, name: str) -> Path | None:
    """The file of a folder that holds the record of this name; None where none does. Raises KnownDefectError."""
    path, _ = _with_files(folder, None).get(name, (None, None))
    return path


def load(folder: Path | str | None = None, check: Check | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives among the `records` of a folder."""
    return wrong_derivatives(records(folder, check))


def tape_defects(folder: Path | str | None = None) -> tuple[TapeDefect, ...]:
    """The documented behaviour that tapes do not keep, among the `records` of a folder."""
    return tuple(one for one in records(folder) if isinstance(one, TapeDefect))


def home() -> Path | None:
    """The project's own folder of known defects where none is named; None where there is none."""
    return runtime.known() or find(Path.cwd())


def installed() -> Path:
    """The folder that came with the package, to be read only; that of the checkout where nothing is installed."""
    place = find_spec("gradcheck.known_defects")
    locations = None if place is None else place.submodule_search_locations
    return Path(locations[0]) if locations else Path(__file__).parents[2] / "reports" / "known"


def library_folder() -> Path:
    """The folder of known defects for a user's own tests: the one that GRADCHECK_KNOWN names, or the package's."""
    return runtime.named_known() or installed()


def find(start: Path) -> Path | None:
    """`reports/known` in a folder or the nearest one above it."""
    places = (folder / "reports" / "known" for folder in (start, *start.parents))
    return next((place for place in places if place.is_dir()), None)


def read(path: Path) -> tuple[Known, ...]:
    """The records of one file; raises KnownDefectError, which names the file, the place in it and the fix."""
    return _read(path, None)[1]


def _read(path: Path, check: Check | None) -> tuple[str, tuple[Known, ...]]:
    """The name that a file has to have, and its records."""
    try:
        document, records = _of_text(files.read(path, documents.MAX_TEXT))
        if check is not None:
            check_each(document, records, check)
    except (DocumentError, OSError) as error:
        raise KnownDefectError(
            f"{path}: not a known defect of this format: {error}. Correct the file or take it out of the folder; "
            f"gradcheck/defects/README.md describes the format"
        ) from None
    return document.cause if isinstance(document, KnownCause) else document.name, records


@lru_cache(maxsize=1024)
def _of_text(text: str) -> tuple[KnownDocument, tuple[Known, ...]]:
    """The document of a file's text and its records, cached: a process reads hundreds of files again and again."""
    document: KnownDocument = documents.convert(in_this_form(documents.parse(text)), KnownDocument)  # type: ignore[arg-type]  # a union is no type
    return document, records_of(document)


def write(path: Path, records: Sequence[Known]) -> None:
    """Writes the file of a cause's records; raises OSError.

    A file of the earlier form, of one record, keeps its form where its name is not that of the cause.
    """
    is_cause = all(one.cause == path.stem for one in records)
    files.replace(path, text_of(records) if is_cause else documents.to_text(records[0]))


@lru_cache(maxsize=64)
def current(mode: Mode = PLAIN) -> tuple[Defect, ...]:
    """The defects of the installed TensorFlow, loaded once per process: the plain ones and those of a mode."""
    return tuple(one for one in _of_this_release() if one.signature.taken in (PLAIN, mode))


@cache
def _of_this_release() -> tuple[Defect, ...]:
    import tensorflow as tf

    return tuple(one for one in load() if one.covers(tf.__version__))


def excludes(
    op: str,
    attrs: Mapping[str, Any],
    arguments: Sequence[Any],
    order: int,
    ancestry: Ancestry = ALONE,
    *,
    arrival: Arrival | None = None,
    error: str = "",
    mode: Mode = PLAIN,
    defects: Sequence[Defect] | None = None,
) -> str | None:
    """The name of the defect in whose region an operation's attributes and argument values lie, or None.

    `arguments` are arrays (the values, not the shapes), `ancestry` the operations before them, `arrival` the incoming
    cotangent and `error` what is raised, if it is known. All regions of the given `defects` count; if none are given,
    the regions without `drawn` of the installed TensorFlow's defects in this `mode`.
    """
    for name, region in _current_regions(op, mode) if defects is None else _regions(op, defects):
        if region.contains(
            op, attrs, arguments, order, ancestry, arrival=arrival, error=error, pushforward=mode.pushforward
        ):
            return name
    return None


def _regions(op: str, defects: Sequence[Defect]) -> list[tuple[str, Region]]:
    """The regions in an operation's arguments, with the names of their defects."""
    wanted = {ANY, *names(op)}
    return [(defect.name, region) for defect in defects for region in defect.regions if region.op in wanted]


@lru_cache(maxsize=4096)
def _current_regions(op: str, mode: Mode) -> list[tuple[str, Region]]:
    return [(name, region) for name, region in _regions(op, current(mode)) if not region.drawn]


def everywhere(op: str, order: int, *, mode: Mode = PLAIN, defects: Sequence[Defect] | None = None) -> str | None:
    """The name of the defect that excludes all uses of an operation at this order in a mode, or None."""
    regions = _current_regions_everywhere(mode) if defects is None else regions_everywhere(defects, mode)
    return excluded_by(regions, op, order, mode)


def excluded_by(
    regions: Mapping[str, Sequence[tuple[str, Region]]], op: str, order: int, mode: Mode = PLAIN
) -> str | None:
    """The same among the `regions_everywhere` of a mode."""
    there = (pair for called in sorted(names(op)) for pair in regions.get(called, ()))
    return next((name for name, region in there if region.concerns(order, pushforward=mode.pushforward)), None)


def regions_everywhere(defects: Sequence[Defect], mode: Mode = PLAIN) -> dict[str, list[tuple[str, Region]]]:
    """The regions that exclude all uses of an operation in a mode, by its name, with the names of their defects."""
    found: dict[str, list[tuple[str, Region]]] = {}
    there = (defect for defect in defects if defect.signature.taken in (PLAIN, mode))
    for name, region in ((defect.name, region) for defect in there for region in defect.regions):
        if region.everywhere and region.excluding:
            found.setdefault(region.op, []).append((name, region))
    return found


@lru_cache(maxsize=64)
def _current_regions_everywhere(mode: Mode) -> dict[str, list[tuple[str, Region]]]:
    return regions_everywhere(current(mode), mode)


def match(
    signature: Signature,
    attrs: Mapping[str, Any],
    arguments: Sequence[Any],
    ancestry: Ancestry = ALONE,
    *,
    error: str = "",
    defects: Sequence[Defect] | None = None,
) -> Defect | None:
    """The defect that a wrong derivative is an example of, or None if it is new.

    The kind and the mode are the same, and the attributes and arguments of the operation at fault, as those of
    `excludes`, lie in a region of the same order.
    """
    for defect in current(signature.taken) if defects is None else defects:
        here = defect.signature
        if (here.kind, here.taken) != (signature.kind, signature.taken):
            continue
        op, order = signature.operation, signature.order
        if excludes(op, attrs, arguments, order, ancestry, error=error, defects=[defect]) is not None:
            return defect
    return None
