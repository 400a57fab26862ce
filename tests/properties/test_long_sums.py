"""Gradients that add up many terms: of an operation alone on tensors of up to 4,096 elements.

In 16 bits, where sums stop (of float32, 2**24 terms would be needed), and where the graph optimizer or XLA may add up
in another order than eager code.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from gradcheck.strategies.long_sums import SUMMED_IN, long_starts, long_sums
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.hunt.coverage import INVALID, Coverage
from gradcheck.hunt.examine import drawing, examine
from gradcheck.hunt.known_graphs import left_out_in, ways
from gradcheck.operations.catalogue import CATALOGUE
from tests import slices

SHARE = 4
"""One in this many of a profile's examples is drawn."""
SLICE = 16
"""The test command takes one in this many operations."""

MODES = {
    name: modes
    for name in CATALOGUE
    if long_starts(name) and (modes := [mode for mode, order in ways(name, SUMMED_IN) if order == 1])
}


@slices.parametrized(
    "operation",
    [pytest.param(name, marks=pytest.mark.gradcheck_operation(name, rare=True)) for name in MODES],
    slices.every(SLICE),
)
@settings(max_examples=max(1, settings().max_examples // SHARE) if slices.whole else 1)
@given(data=st.data())
def test_long_sums(gradcheck_coverage: Coverage, operation: str, data: Any) -> None:
    mode = data.draw(st.sampled_from(MODES[operation]))
    with drawing(operation, 1, gradcheck_coverage):
        drawn = data.draw(long_sums(operation, mode.number_type or "float64", known=partial(left_out_in, mode)))
    if drawn is None:
        gradcheck_coverage.count(operation, 1, verdict=INVALID, mode=mode)
        return
    graph, cotangent = drawn
    examine(graph, 1, gradcheck_coverage, operation=operation, mode=mode, weights=to_coordinates(cotangent))
