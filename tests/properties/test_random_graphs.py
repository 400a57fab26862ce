"""Free random graphs of all operations of the catalogue; the test command draws a fifth of them."""

from __future__ import annotations

from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.defects import known
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import drawing, examine
from gradcheck.operations.catalogue import CATALOGUE
from tests import slices

LONGER = 10 if slices.whole else 2
GROUP = "(random graphs)"


@pytest.mark.sliced
@pytest.mark.parametrize("order", [1, 2])
@settings(max_examples=LONGER * settings().max_examples)
@given(data=st.data())
def test_random_graph(
    gradcheck_coverage: Coverage, gradcheck_operations: tuple[str, ...] | None, order: int, data: Any
) -> None:
    if not any(order in CATALOGUE[name].orders for name in gradcheck_operations or CATALOGUE):
        pytest.skip(f"no operation that was asked for has a derivative of order {order}")
    with drawing(GROUP, order, gradcheck_coverage):
        graph = data.draw(graphs(operations=gradcheck_operations, order=order, known=known.excludes))
    examine(graph, order, gradcheck_coverage, operation=GROUP)
