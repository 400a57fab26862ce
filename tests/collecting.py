"""Graphs that Hypothesis generates from a fixed seed, for tests that need many of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.graph import Graph

SEED = 20261121


@dataclass
class Collection:
    """Graphs that Hypothesis generated, and how many attempts the strategy rejected.

    Attempts for which Hypothesis itself ran out of choices (when it cuts or splices earlier ones) are not counted.
    """

    graphs: list[Graph] = field(default_factory=list)
    rejected: int = 0

    @property
    def attempts(self) -> int:
        """The number of valid and rejected attempts."""
        return len(self.graphs) + self.rejected


def collect(strategy: st.SearchStrategy[Graph], examples: int, start: int = SEED) -> Collection:
    """Generates `examples` graphs with Hypothesis itself; its health checks, except for slowness, stay on."""
    collection = Collection()

    def attempt(draw: Any) -> Graph:
        try:
            drawn: Graph = draw(strategy)
        except UnsatisfiedAssumption:
            collection.rejected += 1
            raise
        return drawn

    @seed(start)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.composite(attempt)())
    def run(graph: Graph) -> None:
        collection.graphs.append(graph)

    run()
    return collection
