"""Two defects of TensorFlow 2.21 are found without any hint, by the operation's own test, from any seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck.hunt.examine import Found

SEEDS = 10


@pytest.fixture(scope="module")
def rediscovery(instrument: Callable[[str], Any]) -> Any:
    return instrument("rediscovery")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("operation", "order"), [("cumprod", 1), ("reduce_prod", 2)])
def test_a_product_at_an_exact_zero_is_found_and_shrunk(rediscovery: Any, operation: str, order: int) -> None:
    hunts = [rediscovery.Hunt(operation, order).findings(start) for start in range(SEEDS)]
    runs = [[found for found in hunt if _is_it(found, operation)] for hunt in hunts]
    assert sum(bool(found) for found in runs) >= 0.9 * SEEDS
    for found in filter(None, runs):
        graph = min((one.finding.graph for one in found), key=lambda graph: graph.size)
        assert len(graph.nodes) <= 2
        assert all(len(value.values) <= 3 and set(value.values) <= {0, 1, 2, 3} for value in graph.inputs)


def _is_it(found: Found, operation: str) -> bool:
    return found.finding.culprit == operation and "zero" in found.finding.description
