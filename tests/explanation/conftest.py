"""Texts whose line numbers are found by the code on those lines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def lines() -> Callable[..., str]:
    """Fills line numbers into a text: `file.py:«code»` is the line of the program, or of its file, with that code."""

    def put(program: Callable[..., Any], text: str) -> str:
        source, first = inspect.getsourcelines(program)
        whole = Path(inspect.getfile(program)).read_text(encoding="utf-8").splitlines()
        numbered = [*enumerate(source, first), *enumerate(whole, 1)]

        def number(found: re.Match[str]) -> str:
            return f".py:{next(number for number, line in numbered if found[1] in line)}"

        return re.sub(r"\.py:«([^»]+)»", number, text)

    return put
