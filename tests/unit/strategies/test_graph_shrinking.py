"""Simplest graphs, to which others shrink, and exclusions from graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from gradcheck.strategies.graphs import graphs, limits
from hypothesis import Phase, find, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.errors import Unsatisfiable

from gradcheck.graph import Graph, Input, Node
from tests import slices
from tests.collecting import collect

QUIET = settings(database=None, deadline=None, max_examples=2000)
PLAIN = {0.0, 1.0, 2.0, 3.0}


def smallest(strategy: st.SearchStrategy[Graph], condition: Callable[[Graph], bool], quiet: settings = QUIET) -> Graph:
    return find(strategy, condition, settings=quiet, random=Random(20261121))


@pytest.mark.parametrize("operation", ["sin", "cumprod", "log", "maximum", "reduce_prod", "mul"])
def test_a_graph_shrinks_to_the_operation_asked_for_with_plain_values(operation: str) -> None:
    graph = smallest(graphs(containing=operation), lambda graph: True)
    assert [node.op for node in graph.nodes] == [operation]
    assert all(len(value.values) <= 3 and set(value.values) <= PLAIN for value in graph.inputs)


def test_a_long_prefix_and_suffix_shrink_away() -> None:
    def has_a_zero_in_its_cumprod(graph: Graph) -> bool:
        return any(node.op == "cumprod" and 0.0 in _argument(graph, node) for node in graph.nodes)

    graph = smallest(graphs(containing="cumprod"), has_a_zero_in_its_cumprod)
    assert [node.op for node in graph.nodes] == ["cumprod"]
    assert len(graph.inputs[0].values) <= 3


def _argument(graph: Graph, node: Node) -> Sequence[complex]:
    return graph.inputs[node.parents[0]].values if node.parents[0] < len(graph.inputs) else ()


def test_a_value_used_twice_takes_two_nodes_at_most() -> None:
    assert len(smallest(graphs(), lambda graph: max(graph.uses()) > 1).nodes) <= 2


def test_three_nodes_in_a_row_are_no_more_than_three() -> None:
    graph = smallest(graphs(), lambda graph: len(graph.nodes) >= 3)
    assert len(graph.nodes) == 3
    assert graph.nodes[2].parents[0] == graph.size - 2


def test_an_example_that_failed_as_a_small_graph_is_tried_again_where_graphs_may_be_larger() -> None:
    kept, seen = InMemoryExampleDatabase(), []

    def tried(least: bool, *phases: Phase) -> Graph:
        @settings(QUIET, database=kept, phases=phases, max_examples=50)
        @seed(20261121)
        @given(st.data())
        def test(data: Any) -> None:
            seen.append(data.draw(graphs(containing="tan", max_nodes=data.draw(limits(8, 8, 3, least=least)))))
            assert len(seen[-1].nodes) < 3

        test.hypothesis.inner_test._hypothesis_internal_add_digest = b"the same test"  # type: ignore[attr-defined]
        with pytest.raises(AssertionError):
            test()
        return seen[-1]

    failed = tried(True, Phase.generate, Phase.shrink)
    assert len(failed.nodes) == 3
    seen.clear()
    assert tried(False, Phase.reuse) == failed
    assert seen[0] == failed


@pytest.mark.sliced
def test_a_known_region_is_never_drawn() -> None:
    asked: list[tuple[str, int]] = []

    def known(op: str, _: Any, arguments: Sequence[np.ndarray[Any, Any]], order: int, _made: Any) -> str | None:
        asked.append((op, order))
        return "zero" if op == "cumprod" and bool((arguments[0] == 0).any()) else None

    collection = collect(graphs(containing="cumprod", order=2, known=known), 300 if slices.exhaustively else 40)
    assert {order for _, order in asked} == {2}
    assert len(collection.graphs) >= 0.97 * collection.attempts
    for graph in collection.graphs:
        assert not any(node.op == "cumprod" and 0.0 in _argument(graph, node) for node in graph.nodes)


@pytest.mark.sliced
def test_an_operation_that_is_a_known_defect_for_some_attributes_is_drawn_with_the_others() -> None:
    def known(op: str, attrs: Mapping[str, Any], *_: Any) -> str | None:
        return "reverse" if op == "cumprod" and not attrs["reverse"] else None

    collection = collect(graphs(containing="cumprod", known=known), 100 if slices.exhaustively else 40)
    assert len(collection.graphs) >= 0.97 * collection.attempts
    drawn = [node.attributes["reverse"] for graph in collection.graphs for node in graph.nodes if node.op == "cumprod"]
    assert set(drawn) == {True}


@pytest.mark.sliced
def test_an_operation_that_is_a_known_defect_everywhere_is_rejected_and_counted() -> None:
    def known(op: str, *_: Any) -> str | None:
        return "all" if op == "cumprod" else None

    with pytest.raises(Unsatisfiable, match=r"(\d+) of \1 test cases failed a"):
        smallest(
            graphs(containing="cumprod", operations=("cumprod", "sin", "mul"), known=known),
            lambda graph: True,
            QUIET if slices.exhaustively else settings(QUIET, max_examples=50),
        )


@pytest.mark.sliced
def test_only_the_operations_given_are_drawn() -> None:
    collection = collect(
        graphs(operations=("sin", "mul", "log", "sigmoid"), max_nodes=5), 200 if slices.exhaustively else 60
    )
    assert {node.op for graph in collection.graphs for node in graph.nodes} == {"sin", "mul", "log", "sigmoid"}
    assert max(len(graph.nodes) for graph in collection.graphs) == 5


@pytest.mark.sliced
def test_an_operation_meets_its_own_kink() -> None:
    drawn = collect(graphs(containing="abs"), 200 if slices.exhaustively else 50).graphs
    assert any(node.op == "abs" and 0.0 in _argument(graph, node) for graph in drawn for node in graph.nodes)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"containing": "nonsense"}, "nonsense; the catalogue does not have"),
        ({"operations": ("sin", "cosinus")}, "cosinus; the catalogue does not have"),
        ({"max_nodes": 0}, "max_nodes was 0"),
        ({"operations": ()}, "no operation is left"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        graphs(**arguments)


@pytest.mark.sliced
def test_literals_hold_python_numbers_only() -> None:
    for graph in collect(graphs(), 200 if slices.exhaustively else 25).graphs:
        for value in graph.inputs:
            assert type(value) is Input
            assert {type(element) for element in value.values} <= {float, complex}
