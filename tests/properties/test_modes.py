"""The derivatives of free random graphs along other paths and in other modes, compared with the plain ones.

The test command takes the smallest graph that exists.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.autodiff.mode import MODES, XLA, Mode
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import drawing, examine
from gradcheck.hunt.known_graphs import drawn_in, left_out_in
from gradcheck.operations.catalogue import CATALOGUE
from tests import slices

NODES = {XLA: 2, "forward over forward": 2}
"""Hardly any larger graph consists only of operations that can be compiled, or takes less than seconds."""

CASES = [pytest.param(mode, order, id=f"{mode}, order {order}") for mode in MODES for order in mode.orders]


@pytest.mark.sliced
@pytest.mark.parametrize(("mode", "order"), CASES)
@settings(max_examples=settings().max_examples if slices.whole else 1)
@given(data=st.data())
def test_mode(
    gradcheck_coverage: Coverage,
    gradcheck_operations: tuple[str, ...] | None,
    mode: Mode,
    order: int,
    data: Any,
) -> None:
    asked = gradcheck_operations or CATALOGUE
    if not any(order in CATALOGUE[name].orders and drawn_in(name, mode) for name in asked):
        pytest.skip(f"no operation that was asked for has a derivative of order {order} that is drawn so")
    group, nodes, left_out = (
        f"({mode})".lower(),
        NODES.get(mode.mode, NODES.get(mode.path, 4)),
        partial(left_out_in, mode),
    )
    with drawing(group, order, gradcheck_coverage):
        graph = data.draw(graphs(operations=gradcheck_operations, order=order, max_nodes=nodes, known=left_out))
    examine(graph, order, gradcheck_coverage, operation=group, mode=mode)
