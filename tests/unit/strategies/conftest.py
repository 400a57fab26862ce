"""Graphs collected once, with a fixed seed, for the tests that measure shares."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_json import from_json, to_json

try:
    import fcntl
except ImportError:  # without it, workers draw the graphs at the same time
    fcntl = None  # type: ignore[assignment]

EXAMPLES = 5 * len(CATALOGUE) // 2
"""Every operation has as many chances to turn up, however many there are."""
SEED = 20261121
"""That of a derivative's order is so much higher: the same operations are there at both."""


@dataclass
class Collection:
    """Graphs that Hypothesis generated, and how many attempts the strategy rejected.

    Attempts for which Hypothesis itself ran out of choices (when it cuts or splices earlier ones) are not counted.
    """

    graphs: list[Graph] = field(default_factory=list)
    rejected: int = 0

    @property
    def attempts(self) -> int:
        """The valid and the rejected ones."""
        return len(self.graphs) + self.rejected


def collect(strategy: st.SearchStrategy[Graph], examples: int, start: int = SEED) -> Collection:
    """Generates `examples` graphs with Hypothesis itself; its health checks, but for slowness, stay on."""
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


def _written(collection: Collection) -> str:
    return json.dumps({"graphs": [to_json(graph) for graph in collection.graphs], "rejected": collection.rejected})


def _read(text: str) -> Collection:
    data = json.loads(text)
    return Collection([from_json(graph) for graph in data["graphs"]], data["rejected"])


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[[int], Collection]:
    """The graphs of an order, drawn once a session: the first worker that needs them leaves them for the others."""
    own = tmp_path_factory.getbasetemp()
    folder = own if worker_id == "master" else own.parent

    @cache
    def of(order: int) -> Collection:
        path = folder / f"graphs-order{order}.json"
        with (folder / f"graphs-order{order}.lock").open("w") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_text(_written(collect(graphs(order=order), EXAMPLES, SEED + order)), encoding="utf-8")
            return _read(path.read_text(encoding="utf-8"))

    return of


@pytest.fixture(scope="session")
def collecting() -> Callable[..., Collection]:
    """`collect` itself: a strategy, a number of examples, a seed."""
    return collect
