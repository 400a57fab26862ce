"""Graphs as immutable data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gradcheck.graph import Graph, Input, Node

X = Input((2,), (1.0, 2.0))


def test_an_input_holds_its_elements_in_row_major_order() -> None:
    assert np.array_equal(Input((2, 2), (1.0, 2.0, 3.0, 4.0)).array(), [[1.0, 2.0], [3.0, 4.0]])


def test_a_scalar_and_an_empty_input() -> None:
    assert Input((), (3.0,)).array().shape == ()
    assert Input((0, 2), ()).array().shape == (0, 2)


def test_a_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) holds 3 elements, 2 given"):
        Input((3,), (1.0, 2.0))


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="dtype was 'int32'; an input is one of float64"):
        Input((1,), (1.0,), "int32")


def test_a_parent_comes_before_its_node() -> None:
    with pytest.raises(ValueError, match=r"node 1 \(sin\) names parent 1; only 0 to 0 come before it"):
        Graph((X,), (Node.of("sin", 1),))


def test_a_graph_needs_an_input() -> None:
    with pytest.raises(ValueError, match="at least one input"):
        Graph((), ())


def test_graphs_are_frozen_and_hashable() -> None:
    graph = Graph((X,), (Node.of("sin", 0),))
    assert hash(graph) == hash(Graph((X,), (Node.of("sin", 0),)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.nodes = ()  # type: ignore[misc]


def test_attributes_are_sorted_by_name() -> None:
    assert Node.of("cumprod", 0, reverse=True, exclusive=False).attrs == (("exclusive", False), ("reverse", True))


def test_uses_count_a_value_used_twice() -> None:
    assert Graph((X,), (Node.of("mul", 0, 0), Node.of("add", 1, 0))).uses() == (3, 1, 0)


def test_ancestors_are_what_a_position_depends_on() -> None:
    graph = Graph((X, X), (Node.of("sin", 0), Node.of("cos", 1), Node.of("exp", 2)))
    assert graph.ancestors(4) == {0, 2, 4}


def test_pruning_leaves_out_what_the_output_does_not_need() -> None:
    graph = Graph((X, X), (Node.of("sin", 0), Node.of("cos", 1), Node.of("exp", 3)))
    pruned = graph.pruned()
    assert pruned == Graph((X,), (Node.of("cos", 0), Node.of("exp", 1)))
    assert pruned.pruned() == pruned
