"""Every operation of the catalogue, at every order it has, somewhere in a random graph.

An operation whose derivative of an order is wrong everywhere has no example; its defect is replayed instead.
"""

from __future__ import annotations

from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.defects import known
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import drawing, examine

CASES = [
    pytest.param(
        spec.name, order, id=f"{spec.name}-order{order}", marks=pytest.mark.gradcheck_operation(spec.name, order)
    )
    for spec in CATALOGUE.values()
    for order in spec.orders
    if known.everywhere(spec.name, order) is None
]


@pytest.mark.parametrize(("operation", "order"), CASES)
@given(data=st.data())
def test_operation(gradcheck_coverage: Coverage, operation: str, order: int, data: Any) -> None:
    with drawing(operation, order, gradcheck_coverage):
        graph = data.draw(graphs(containing=operation, order=order, known=known.excludes))
    examine(graph, order, gradcheck_coverage, operation=operation)
