"""The operations that somebody asked for, by name or by glob."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase


def selected(patterns: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, in their order, that match one of the patterns, which commas or spaces separate.

    Raises ValueError for a pattern that matches none, and names the nearest.

    >>> selected("sin*,exp", ["exp", "sin", "sinh", "cos"])
    ('exp', 'sin', 'sinh')
    """
    known = tuple(names)
    asked = patterns.replace(",", " ").split()
    if not asked:
        raise ValueError(f"operations were {patterns!r}; expected names or globs, such as sin,reduce_*")
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = get_close_matches(pattern, known, n=1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"operations were {patterns!r}; {pattern!r} matches none of the catalogue{hint}")
    return tuple(name for name in known if any(fnmatchcase(name, pattern) for pattern in asked))
