"""Every operation of the catalogue, at every order it has, somewhere in a random graph, and in modes.

The test command takes each operation once, at its highest order, and one in eight of them in a mode.

An operation whose derivative of an order is wrong everywhere has no example; its defect is replayed instead. In a
number type below float64 it stands alone: what other operations lose in it does not matter for its own derivative.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from gradcheck.strategies.graphs import graphs, limits
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck.autodiff.mode import LIGHT, MODES, NARROW, PLAIN, Mode
from gradcheck.defects import known
from gradcheck.hunt import monitor
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import drawing, examine
from gradcheck.hunt.known_graphs import left_out_in, ways
from gradcheck.operations.catalogue import CATALOGUE
from tests import slices

ORDERS = {name: [order for _, order in ways(name, (PLAIN,))] for name in CATALOGUE}


def _cases(*, expensive: bool) -> list[Any]:
    cases = slices.sliced(
        [(name, order) for name, orders in ORDERS.items() for order in orders],
        lambda all_cases: [(name, order) for name, order in all_cases if order == max(ORDERS[name])],
    )
    return [
        pytest.param(name, order, id=f"{name}-order{order}", marks=pytest.mark.gradcheck_operation(name, order))
        for name, order in cases
        if (order in CATALOGUE[name].expensive) is expensive
    ]


def _examples(share: int) -> int:
    """One in `share` of a profile's examples; in a slice a single one, the smallest graph that exists."""
    return max(1, settings().max_examples // share) if slices.whole else 1


SIZES = (8, 8, 8, 3)
"""The most nodes of a graph; in a test's first visit the last of them, so that every operation has its turn soon."""


def _draw_and_examine(coverage: Coverage, operation: str, order: int, data: Any) -> None:
    with drawing(operation, order, coverage):
        most = data.draw(limits(*SIZES, least=monitor.current().visit == 0))
        graph = data.draw(graphs(containing=operation, order=order, max_nodes=most, known=known.excludes))
    examine(graph, order, coverage, operation=operation, lower=True)


@pytest.mark.sliced
@pytest.mark.parametrize(("operation", "order"), _cases(expensive=False))
@settings(max_examples=_examples(1))
@given(data=st.data())
def test_operation(gradcheck_coverage: Coverage, operation: str, order: int, data: Any) -> None:
    _draw_and_examine(gradcheck_coverage, operation, order, data)


RARER = 10
"""One in this many of a profile's examples is drawn where one takes seconds."""


@pytest.mark.sliced
@pytest.mark.parametrize(("operation", "order"), _cases(expensive=True))
@settings(max_examples=_examples(RARER))
@given(data=st.data())
def test_dear_operation(gradcheck_coverage: Coverage, operation: str, order: int, data: Any) -> None:
    _draw_and_examine(gradcheck_coverage, operation, order, data)


SHARE = 3
"""One in this many of a profile's examples is drawn in a mode: a trace takes as long as several of the others."""

DEAREST = "forward over forward"
"""The path that traces the function once for each coordinate, which can take seconds."""

SLICE = 8
"""The test command takes one in this many operations in a mode."""


def _ways(name: str, place: int) -> list[tuple[Mode, int]]:
    """Modes and orders, all in a whole run, else those of which an example takes a moment.

    They start with different ones in turn: the smallest example of an operation is in the first.
    """
    found = ways(name, (*(MODES if slices.whole else LIGHT), *NARROW))
    first = place // SLICE % max(1, len(found))
    return [*found[first:], *found[:first]]


WAYS = {name: _ways(name, place) for place, name in enumerate(CATALOGUE)}


@slices.parametrized(
    "operation",
    [pytest.param(name, marks=pytest.mark.gradcheck_operation(name)) for name in WAYS if WAYS[name]],
    slices.every(SLICE),
)
@settings(max_examples=_examples(SHARE))
@given(data=st.data())
def test_operation_in_a_mode(gradcheck_coverage: Coverage, operation: str, data: Any) -> None:
    ways, first = WAYS[operation], monitor.current().visit == 0
    mode, order = data.draw(st.sampled_from(ways).filter(monitor.current().in_turn(ways, gradcheck_coverage.looks)))
    # In a first visit, an expensive mode takes the operation alone, which it can also run more often.
    alone = mode.number_type or mode.path == DEAREST
    drawn = graphs(
        containing=operation,
        order=order,
        max_nodes=1 if alone else data.draw(limits(2, 2, 2, 1, least=first and mode not in LIGHT)),
        known=partial(left_out_in, mode),
        number_type=mode.number_type or "float64",
        large=not mode.path.startswith("forward"),  # which would take each of thousands of coordinates by itself
    )
    with drawing(operation, order, gradcheck_coverage):
        graph = data.draw(drawn)
    examine(graph, order, gradcheck_coverage, operation=operation, mode=mode)
