"""Draws values of a strategy with one seed: generation only, no database, no shrinking.

Importing it configures TensorFlow, which has to come before anything loads that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck import runtime

T = TypeVar("T")

runtime.configure()


def draw_each(strategy: st.SearchStrategy[T], number: int, count: int, use: Callable[[T], None]) -> int:
    """Pass `count` values, drawn with the seed `number`, to `use`; returns the number of rejected attempts."""
    rejected = 0

    @st.composite
    def attempt(draw: Any) -> T:
        nonlocal rejected
        try:
            value: T = draw(strategy)
        except UnsatisfiedAssumption:
            rejected += 1
            raise
        return value

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(attempt())
    def run(value: T) -> None:
        use(value)

    run()
    return rejected
