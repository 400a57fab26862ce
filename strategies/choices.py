"""Cheap draws: an integer below a bound, which shrinks to 0; the strategies are made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


@cache
def below(count: int) -> st.SearchStrategy[int]:
    """The integers 0 to count - 1."""
    return st.integers(0, count - 1)


def index(draw: Draw, count: int) -> int:
    """An integer in [0, count); nothing is drawn where there is no choice."""
    return int(draw(below(count))) if count > 1 else 0
