"""Texts whose line numbers are found by the code that stands there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def lines() -> Callable[..., str]:
    """Puts line numbers into a text about a program: `file.py:<code>` is the line on which the code stands."""

    def put(program: Callable[..., Any], text: str) -> str:
        source, first = inspect.getsourcelines(program)
        numbers = [(number, line) for number, line in enumerate(source, first)]

        def number(found: re.Match[str]) -> str:
            return f".py:{next(number for number, line in numbers if found[1] in line)}"

        return re.sub(r"\.py:<([^<>]+)>", number, text)

    return put
