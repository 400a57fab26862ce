"""Free random graphs of all operations of the catalogue."""

from __future__ import annotations

from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck import known
from gradcheck.coverage import Coverage
from gradcheck.hunt import examine

LONGER = 10


@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=LONGER * settings().max_examples)
@given(data=st.data())
def test_random_graph(gradcheck_coverage: Coverage, order: int, data: Any) -> None:
    graph = data.draw(graphs(order=order, known=known.excludes))
    examine(graph, order, gradcheck_coverage, operation="(random graphs)")
