"""Options for single sources, by their names: `rtol={"kernel": 1e-3}`, `skip=["embedding"]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

from gradcheck.verdict.tables import Tolerance

Named = tuple[str, Any]
"""The name of a source in messages, and its variable, if it is one."""
Allowed = float | Mapping[str, float] | None
"""An allowed error, one for each of some sources, or none."""
NUMBER = re.compile(r":\d+$")
"""The number of an output, which TensorFlow appends to the name of a variable."""


def is_named(key: str, name: str, variable: Any = None) -> bool:
    """Whether a key names a source: by its name, its argument's name, the path of its variable, or the end of that.

    >>> [is_named(key, "variables[0] (dense/kernel)") for key in ("variables[0]", "dense/kernel", "kernel", "nel")]
    [True, True, True, False]
    >>> is_named("x", "x['a'][0]"), is_named("x", "x0")
    (True, False)
    """
    head, _, inner = name.partition(" (")
    path = str(getattr(variable, "path", None) or getattr(variable, "name", ""))
    texts = (NUMBER.sub("", text) for text in (head, inner.removesuffix(")"), path))
    asked = NUMBER.sub("", key)
    return key == name or any(
        asked == text or text.endswith(f"/{asked}") or text.startswith(f"{asked}[") for text in texts if text
    )


@dataclass(frozen=True)
class Asked:
    """The errors that are allowed, for all sources or by name, and the names of sources to `skip`.

    Of several keys that name a source, the longest counts.
    """

    rtol: Allowed = None
    atol: Allowed = None
    skip: tuple[str, ...] = ()

    @property
    def by_name(self) -> bool:
        """Whether anything is asked of single sources."""
        return bool(self.skip) or any(isinstance(given, Mapping) for given in (self.rtol, self.atol))

    def of(self, name: str, variable: Any = None) -> Tolerance | None:
        """The tolerance for a source; None if it is skipped."""
        if any(is_named(key, name, variable) for key in self.skip):
            return None

        def allowed(given: Allowed) -> float | None:
            if not isinstance(given, Mapping):
                return given
            found = [key for key in given if is_named(key, name, variable)]
            return given[max(found, key=len)] if found else None

        return Tolerance(allowed(self.rtol), allowed(self.atol))

    def groups(self, sources: Sequence[Named]) -> list[tuple[Tolerance, list[int]]]:
        """The tolerances of sources, each with the positions of those that have it in common; without skipped ones."""
        found: dict[Tolerance, list[int]] = {}
        for position, source in enumerate(sources):
            if (tolerance := self.of(*source)) is not None:
                found.setdefault(tolerance, []).append(position)
        return list(found.items())

    def loosest(self) -> Tolerance:
        """The largest errors that are allowed for any source."""
        both = ([*given.values()] if isinstance(given, Mapping) else [given] for given in (self.rtol, self.atol))
        return Tolerance(*(max((one for one in given if one is not None), default=None) for given in both))

    def scaled(self, unit: float) -> Asked:
        """The same with absolute errors in another unit."""
        if isinstance(self.atol, Mapping):
            return replace(self, atol={key: unit * value for key, value in self.atol.items()})
        return self if self.atol is None else replace(self, atol=unit * self.atol)

    def under_other_names(self, names: Mapping[str, str]) -> Asked:
        """The same for sources that go by other names, which `names` maps to theirs; none of them is skipped."""
        if not self.by_name:
            return self
        of = {other: self.of(name) or Tolerance() for other, name in names.items()}
        rtol = {name: one.rtol for name, one in of.items() if one.rtol is not None}
        atol = {name: one.atol for name, one in of.items() if one.atol is not None}
        return Asked(rtol or None, atol or None)

    def notes_on(self, sources: Sequence[Named]) -> list[str]:
        """The note on skipped sources, if there are any.

        Raises ValueError for a key that names none of the sources, and if all of them are skipped.
        """
        if not self.by_name:
            return []
        names = [name for name, _ in sources]
        options = {"rtol": self.rtol, "atol": self.atol, "skip": self.skip}
        for option, keys in options.items():
            for key in keys if isinstance(keys, (Mapping, tuple)) else ():
                if not any(is_named(key, *source) for source in sources):
                    raise ValueError(
                        f"{option} names {key!r}, which is none of the sources ({_listed(names)}); give such a name, "
                        "or the last parts of a path, such as 'kernel'"
                    )
        skipped = [source for source in sources if self.of(*source) is None]
        if skipped and len(skipped) == len(sources):
            raise ValueError(f"skip={list(self.skip)!r} leaves nothing to compare; the sources are {_listed(names)}")
        # Without numbers, which those that are left may have in other messages.
        paths = [NUMBER.sub("", re.sub(r"^variables\[\d+\] \((.*)\)$", r"\1", name)) for name, _ in skipped]
        return [f"skipped, and not compared: {_listed(paths)}"] if skipped else []


def _listed(names: Iterable[str]) -> str:
    return shorten(", ".join(dict.fromkeys(names)), width=240, placeholder=" …")
