"""What is known to be wrong in TensorFlow, one JSON file each: loaded, matched, left out of generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from gradcheck import documents, files, runtime
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.defects.records import Defect, Known, Signature, TapeDefect
from gradcheck.defects.region import ANY, Region
from gradcheck.documents import DocumentError

Filed = dict[str, list[tuple[str, Region]]]
"""Regions, with their defects' names, by operation."""
Check = Callable[[Known], object]
"""Raises DocumentError for a record that cannot be used."""


class KnownDefectError(ValueError):
    """A file of known defects is broken or foreign; names the file, the place and the fix."""


def load(folder: Path | str | None = None, check: Check | None = None) -> tuple[Defect, ...]:
    """The wrong derivatives in a folder, by file name.

    Raises what `records` does, also for the files that are about tapes.
    """
    return tuple(one for one in records(folder, check) if isinstance(one, Defect))


def tape_defects(folder: Path | str | None = None) -> tuple[TapeDefect, ...]:
    """The documented behaviour that tapes do not keep, of the same folder; raises what `records` does."""
    return tuple(one for one in records(folder) if isinstance(one, TapeDefect))


def records(folder: Path | str | None = None, check: Check | None = None) -> tuple[Known, ...]:
    """All that is known in a folder, by file name; `check` sees each.

    Without a folder: the one that GRADCHECK_KNOWN names, or that of pytest's root folder, or the nearest from here up;
    where there is none, nothing. Raises KnownDefectError for a file that is broken or is something else, and for a
    folder named but missing.
    """
    place = Path(folder) if folder is not None else home()
    if place is None:
        return ()
    if not place.is_dir():
        raise KnownDefectError(f"{place}: no such folder; name the folder of the known defects, such as reports/known")
    return tuple(read(path, check) for path in sorted(place.glob("*.json")))


def home() -> Path | None:
    """The folder of the known defects where none is named; None where there is none."""
    return runtime.known() or find(Path.cwd())


def find(start: Path) -> Path | None:
    """`reports/known` in a folder or the nearest one above it."""
    for folder in (start, *start.parents):
        if (folder / "reports" / "known").is_dir():
            return folder / "reports" / "known"
    return None


def read(path: Path, check: Check | None = None) -> Known:
    """What one file holds; raises KnownDefectError, which names the file, the place in it and the fix."""
    try:
        found = from_json(documents.parse(files.read(path, documents.MAX_TEXT)))
        if check is not None:
            check(found)
    except (DocumentError, OSError) as error:
        raise KnownDefectError(
            f"{path}: not a known defect of this format: {error}. Correct the file or take it out of the folder; "
            f"reports/README.md describes the format"
        ) from None
    return found


def from_json(data: Any) -> Known:
    """The record of a parsed document; raises DocumentError."""
    found: Known = documents.convert(data, Known)  # type: ignore[arg-type]  # a union is no type
    return found


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


def everywhere(op: str, order: int, *, defects: Sequence[Defect] | None = None) -> str | None:
    """The name of the defect that leaves an operation no use at this order, or None."""
    for defect in current() if defects is None else defects:
        if defect.taken != PLAIN:
            continue
        if any(region.op == op and order in region.orders and region.everywhere for region in defect.regions):
            return defect.name
    return None


def match(
    signature: Signature,
    op: str,
    attrs: Mapping[str, Any],
    arguments: Sequence[Any],
    producers: Sequence[str] = (),
    *,
    defects: Sequence[Defect] | None = None,
) -> Defect | None:
    """The defect that a wrong derivative is an example of, or None if it is new.

    The order, the kind, the mode and the operation (the defect's own, or one of a region's) are the same, and the
    attributes and arguments of the operation at fault, as those of `excludes`, lie in a region.
    """
    for defect in current(signature.taken) if defects is None else defects:
        operations = {defect.operation, *(region.op for region in defect.regions)}
        here = (signature.order, signature.kind, signature.taken) == (defect.order, defect.kind, defect.taken)
        if not here or operations.isdisjoint({signature.operation, ANY}):
            continue
        if excludes(op, attrs, arguments, signature.order, producers, defects=[defect]) is not None:
            return defect
    return None


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
