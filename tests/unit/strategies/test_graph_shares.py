"""What the generated graphs look like as a whole: valid, long, full of special values and of values used twice."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.drafts import is_fit
from gradcheck.strategies.graphs import graphs
from gradcheck.strategies.values import is_special

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import forward
from gradcheck.hunt.graph import Graph
from gradcheck.hunt.graph_json import from_json, to_json
from gradcheck.hunt.nonsmooth import nonsmooth_nodes
from gradcheck.hunt.opspec import MOST_ELEMENTS

ORDERS = pytest.mark.parametrize("order", [1, 2])


def _values(graph: Graph) -> list[np.ndarray[Any, Any]]:
    return [tensor.numpy() for tensor in forward(graph, [tf.constant(value.array()) for value in graph.inputs])]


@ORDERS
def test_attempts_are_valid(collected: Callable[[int], Any], order: int) -> None:
    collection = collected(order)
    assert len(collection.graphs) >= 0.97 * collection.attempts


@ORDERS
def test_every_value_is_fit_and_in_its_domain(collected: Callable[[int], Any], order: int) -> None:
    for graph in collected(order).graphs:
        values = _values(graph)
        assert all(is_fit(value) for value in values[len(graph.inputs) :])
        assert all(value.size <= MOST_ELEMENTS for value in values)
        for _, node in graph.positions():
            spec = CATALOGUE[node.op]
            assert order in spec.orders
            for argument, parent in enumerate(node.parents):
                assert spec.domain(argument).contains(values[parent]), (node, values[parent])
                assert values[parent].dtype == spec.dtype(argument)


@ORDERS
def test_the_median_graph_has_four_nodes_and_none_more_than_eight(collected: Callable[[int], Any], order: int) -> None:
    lengths = [len(graph.nodes) for graph in collected(order).graphs]
    assert statistics.median(lengths) >= 4
    assert max(lengths) == 8


@ORDERS
def test_values_are_used_twice(collected: Callable[[int], Any], order: int) -> None:
    drawn = collected(order).graphs
    assert sum(max(graph.uses()) > 1 for graph in drawn) >= 0.3 * len(drawn)


@ORDERS
def test_values_are_special(collected: Callable[[int], Any], order: int) -> None:
    drawn = collected(order).graphs
    assert sum(any(map(is_special, graph.inputs)) for graph in drawn) >= 0.5 * len(drawn)


@ORDERS
def test_composed_kinks_are_rare_and_single_ones_are_not(collected: Callable[[int], Any], order: int) -> None:
    places = [nonsmooth_nodes(graph, _values(graph)) for graph in collected(order).graphs]
    assert sum(place.composed for place in places) <= 0.1 * len(places)
    assert sum(bool(place.positions) and not place.composed for place in places) >= 0.03 * len(places)


@ORDERS
def test_nothing_is_dead(collected: Callable[[int], Any], order: int) -> None:
    assert all(graph == graph.pruned() for graph in collected(order).graphs)


@ORDERS
def test_graphs_are_plain_data(collected: Callable[[int], Any], order: int) -> None:
    for graph in collected(order).graphs[:300]:
        data = to_json(graph)
        assert from_json(data) == graph
        json.dumps(data, allow_nan=False)
        hash(graph)


def test_most_of_the_catalogue_but_for_the_looped_operations_turns_up(collected: Callable[[int], Any]) -> None:
    drawn = {node.op for order in (1, 2) for graph in collected(order).graphs for node in graph.nodes}
    looped = {spec.name for spec in CATALOGUE.values() if spec.looped}
    assert len(drawn - looped) >= 0.9 * len(CATALOGUE.keys() - looped)
    assert drawn & looped


@ORDERS
def test_no_operation_without_a_derivative_of_the_order_is_drawn(collected: Callable[[int], Any], order: int) -> None:
    drawn = {node.op for graph in collected(order).graphs for node in graph.nodes}
    assert all(order in CATALOGUE[op].orders for op in drawn)


def test_every_operation_can_be_asked_for(collecting: Callable[..., Any]) -> None:
    for spec in CATALOGUE.values():
        collection = collecting(graphs(containing=spec.name, order=spec.orders[-1]), 5)
        assert len(collection.graphs) >= 0.9 * collection.attempts, spec.name
        assert all(any(node.op == spec.name for node in graph.nodes) for graph in collection.graphs), spec.name
