"""Statistics of the generated graphs: valid, long, full of special values and of values used twice."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import graphs, is_fit
from gradcheck.strategies.values import is_special

from gradcheck.graph import Graph
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.graph_json import from_json, to_json
from gradcheck.hunt.nonsmooth import nonsmooth_nodes
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS
from tests import slices
from tests.collecting import collect

OPERATIONS = tuple(CATALOGUE)


def of_every_family(names: Sequence[str]) -> list[str]:
    """One operation in 50, and the first of each family."""
    firsts = {CATALOGUE[name].family: name for name in reversed(names)}
    return [name for place, name in enumerate(names) if place % 50 == 0 or name in firsts.values()]


SOME = tuple(slices.sliced(OPERATIONS, of_every_family))
LOOPED = {spec.name for spec in CATALOGUE.values() if spec.looped}


def examples(operations: Sequence[str]) -> int:
    """Every operation has as many chances to turn up, however many there are."""
    return 5 * len(operations) // 2


@pytest.fixture(scope="module")
def collected() -> Callable[..., Any]:
    """Graphs of an order, drawn once; the seed is as much higher, so that the same operations are there at both."""
    return cache(
        lambda order, operations, count: collect(graphs(order=order, operations=operations), count, 20261121 + order)
    )


def _values(graph: Graph) -> list[np.ndarray[Any, Any]]:
    return [tensor.numpy() for tensor in forward(graph, [tf.constant(value.array()) for value in graph.inputs])]


def assert_fit(graph: Graph, values: list[np.ndarray[Any, Any]], order: int) -> None:
    """Every value is finite, moderate, and in the domain of what takes it; every operation has a derivative."""
    assert all(is_fit(value) for value in values[len(graph.inputs) :])
    assert all(value.size <= MOST_ELEMENTS for value in values)
    for _, node in graph.positions():
        spec = CATALOGUE[node.op]
        assert order in spec.orders
        for argument, parent in enumerate(node.parents):
            assert spec.domain(argument).contains(values[parent]), (node, values[parent])
            assert values[parent].dtype == spec.dtype(argument)


def assert_plain_data(graph: Graph) -> None:
    data = to_json(graph)
    assert from_json(data) == graph
    json.dumps(data, allow_nan=False)
    hash(graph)


@pytest.mark.sliced
@pytest.mark.parametrize("order", [1, 2])
def test_graphs_are_valid_long_and_full_of_special_values_and_of_values_used_twice(
    collected: Callable[..., Any], order: int, subtests: pytest.Subtests
) -> None:
    collection = collected(order, OPERATIONS, examples(OPERATIONS) if slices.exhaustively else 150)
    drawn = collection.graphs
    values = list(map(_values, drawn))
    with subtests.test("attempts are valid"):
        assert len(drawn) >= 0.97 * collection.attempts
    with subtests.test("every value is fit and in its domain, and every operation has a derivative of the order"):
        for graph, of_graph in zip(drawn, values, strict=True):
            assert_fit(graph, of_graph, order)
    with subtests.test("the median graph has four nodes and none more than eight"):
        lengths = [len(graph.nodes) for graph in drawn]
        assert statistics.median(lengths) >= 4
        assert max(lengths) == 8
    with subtests.test("values are used twice"):
        assert sum(max(graph.uses()) > 1 for graph in drawn) >= 0.3 * len(drawn)
    with subtests.test("values are special"):
        assert sum(any(map(is_special, graph.inputs)) for graph in drawn) >= 0.5 * len(drawn)
    with subtests.test("composed kinks are rare and single ones are not"):
        places = list(map(nonsmooth_nodes, drawn, values))
        assert sum(place.composed for place in places) <= 0.1 * len(places)
        assert sum(bool(place.positions) and not place.composed for place in places) >= 0.03 * len(places)
    with subtests.test("nothing is dead"):
        assert all(graph == graph.pruned() for graph in drawn)
    with subtests.test("graphs are plain data"):
        for graph in drawn[:300]:
            assert_plain_data(graph)


def with_more_looped_ones(names: Sequence[str]) -> list[str]:
    """One operation in 25, and one in eight of those that are looped, of which graphs have few."""
    looped = [name for name in names if name in LOOPED]
    return [*(name for name in names if name not in LOOPED)][::25] + looped[::8]


@pytest.mark.sliced
def test_most_of_the_operations_but_for_the_looped_ones_turn_up(collected: Callable[..., Any]) -> None:
    operations = tuple(slices.sliced(OPERATIONS, with_more_looped_ones))
    count = examples(operations) * (1 if slices.exhaustively else 2)  # of few graphs, luck has a larger part
    collections = [collected(order, operations, count) for order in (1, 2)]
    drawn = {node.op for collection in collections for graph in collection.graphs for node in graph.nodes}
    assert len(drawn - LOOPED) >= 0.9 * len({*operations} - LOOPED)
    assert drawn & LOOPED


@pytest.mark.sliced
def test_every_operation_can_be_asked_for(subtests: pytest.Subtests) -> None:
    for name in SOME:
        with subtests.test(name):
            collection = collect(
                graphs(containing=name, order=CATALOGUE[name].orders[-1]), 5 if slices.exhaustively else 3
            )
            assert len(collection.graphs) >= 0.9 * collection.attempts
            assert all(any(node.op == name for node in graph.nodes) for graph in collection.graphs)
