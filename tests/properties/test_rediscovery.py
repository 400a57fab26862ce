"""Two defects of TensorFlow 2.21 are found without being told where, by the operation's own test, from any seed."""

from __future__ import annotations

import pytest
from gradcheck.strategies import profiles
from gradcheck.strategies.graphs import graphs
from hypothesis import HealthCheck, given, seed, settings

from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found, examine

SEEDS = 10


def hunted(operation: str, order: int, start: int) -> list[Found]:
    """What the operation's test finds with one seed, with nothing left out of generation."""

    @seed(start)
    @settings(
        max_examples=profiles.EXAMPLES[profiles.HUNT],
        database=None,
        deadline=None,
        phases=profiles.PHASES,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(graphs(containing=operation, order=order))
    def run(graph):
        examine(graph, order, Coverage(), operation=operation, defects=())

    try:
        run()
    except Exception as error:
        return leaves(error)
    return []


def leaves(error: BaseException) -> list[Found]:
    """The findings in an exception or in a group of them; anything else is raised."""
    if isinstance(error, Found):
        return [error]
    if not hasattr(error, "exceptions"):
        raise error
    return [found for inner in error.exceptions for found in leaves(inner)]


@pytest.mark.parametrize(("operation", "order"), [("cumprod", 1), ("reduce_prod", 2)])
def test_a_product_at_an_exact_zero_is_found_and_shrunk(operation: str, order: int) -> None:
    runs = [[found for found in hunted(operation, order, start) if _is_it(found, operation)] for start in range(SEEDS)]
    assert sum(bool(found) for found in runs) >= 0.9 * SEEDS
    for found in filter(None, runs):
        graph = min((one.finding.graph for one in found), key=lambda graph: graph.size)
        assert len(graph.nodes) <= 2
        assert all(len(value.values) <= 3 and set(value.values) <= {0, 1, 2, 3} for value in graph.inputs)


def _is_it(found: Found, operation: str) -> bool:
    return found.finding.culprit == operation and "zero" in found.finding.description
