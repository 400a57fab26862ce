"""Documents with one thing in them replaced, for tests of their readers."""

from __future__ import annotations

import copy
from typing import Any


def forged(document: Any, *path: Any, value: Any) -> Any:
    """A copy of a JSON document with another value at a path of names and numbers."""
    data = copy.deepcopy(document)
    *way, last = path
    inner: Any = data
    for step in way:
        inner = inner[step]
    inner[last] = value
    return data
