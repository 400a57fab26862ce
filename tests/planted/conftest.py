"""Planting wrong gradients in TensorFlow's registry, and hunting for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import HealthCheck, Phase, given, seed, settings

from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found, examine
from gradcheck.hunt.finding import GraphFinding
from tests.planting import planted

Fault = Callable[..., Any]


@pytest.fixture
def hunted() -> Callable[..., GraphFinding | None]:
    """A function that hunts with an operation under a planted fault and returns the shrunk finding, or None."""

    def hunt(
        operation: str, *, order: int = 1, number: int = 1, examples: int = 60, shrink: bool = True, **strategy: Any
    ) -> GraphFinding | None:
        phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]

        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(graphs(containing=operation, order=order, **strategy))
        def test(graph: Any) -> None:
            examine(graph, order, Coverage(), operation=operation, defects=())

        try:
            test()
        except Found as found:
            return found.finding
        return None

    return hunt


@pytest.fixture
def plant() -> Callable[[str, Fault], Any]:
    """A function that returns a context in which the gradient of `op` is `fault(right, op, *cotangents)`."""
    return lambda op, fault: planted([op], lambda right: partial(fault, right))
