from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.finding_page import GAP_X, Box, Key, drawing, labels, layers, layout, way
from gradcheck.hunt.report.rendering import render
from gradcheck.result import Verdict

ONE = Input((1,), (1.0,))
GRAPHS = {
    "one node": Graph((ONE,), (Node.of("sin", 0),)),
    "an input alone": Graph((ONE,), ()),
    "a value used twice": Graph((ONE,), (Node.of("sin", 0), Node.of("mul", 1, 1), Node.of("mul", 2, 0))),
    "a late input": Graph((ONE, ONE), (Node.of("sin", 0), Node.of("cos", 2), Node.of("mul", 3, 1))),
    "an unused input": Graph((ONE, ONE), (Node.of("sin", 1),)),
    "a residual": Graph((ONE,), (Node.of("sin", 0), Node.of("cos", 1), Node.of("add", 2, 0), Node.of("mul", 3, 0))),
    "wide": Graph((ONE,) * 6, (Node.of("add_n", 0, 1), Node.of("mul", 6, 5))),
    "deep": Graph((ONE,), tuple(Node.of("sin", place) for place in range(60))),
}


def boxes(graph: Graph) -> dict[Key, Box]:
    return layout(graph, [50.0 + 10 * place for place in range(graph.size)])


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_position_lies_below_its_parents_and_beside_the_others(graph: Graph) -> None:
    places = boxes(graph)
    assert {key for key in places if isinstance(key, int)} == set(range(graph.size))
    for position, node in graph.positions():
        assert all(places[position].y > places[parent].y for parent in node.parents)
    for row in {box.y for box in places.values()}:
        beside = sorted((box for box in places.values() if box.y == row), key=lambda box: box.x)
        for left, right in pairwise(beside):
            assert right.x - right.width / 2 >= left.x + left.width / 2 + GAP_X - 1e-9
    assert min(box.x - box.width / 2 for box in places.values()) >= 0


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_an_edge_has_a_place_of_its_own_in_every_layer_that_it_passes(graph: Graph) -> None:
    places, depths = boxes(graph), layers(graph)
    heights = sorted({box.y for box in places.values()})
    for position, node in graph.positions():
        for parent in node.parents:
            passed = [places[key].y for key in way(parent, position, depths)]
            assert passed == heights[depths[parent] : depths[position] + 1]


def test_an_input_stands_right_above_its_first_use() -> None:
    places = boxes(GRAPHS["a late input"])
    assert places[1].y == places[3].y


def test_parents_side_by_side_do_not_cross() -> None:
    graph = Graph((ONE, ONE), (Node.of("sin", 1), Node.of("cos", 0), Node.of("mul", 2, 3)))
    places = boxes(graph)
    assert (places[0].x < places[1].x) == (places[3].x < places[2].x)


def test_the_drawing_names_everything_and_marks_the_culprit(report: Report, parsed: Callable[[str], Any]) -> None:
    page = parsed(render("graph.svg.j2", graph=drawing(report.finding)))
    assert page.text == "x float64 [2] sin y1 cumprod y2 · culprit"
    assert [group["class"] for group in page.named("g")] == ["node input", "node operation", "node culprit"]
    assert len([path for path in page.named("path") if path["class"] == "edge"]) == 2


def test_a_wrong_node_that_is_not_the_culprit_is_marked_too(report: Report, parsed: Callable[[str], Any]) -> None:
    first = dataclasses.replace(report.finding.nodes[0], verdict=Verdict.MISMATCH)
    page = parsed(render("graph.svg.j2", graph=drawing(dataclasses.replace(report.finding, nodes=(first,)))))
    assert [group["class"] for group in page.named("g")] == ["node input", "node wrong", "node culprit"]
    assert page.text == "x float64 [2] sin y1 · wrong cumprod y2 · culprit"


def test_labels_of_scalars() -> None:
    assert labels(Graph((Input((), (1.0,)),), (Node.of("sin", 0),))) == [("x", "float64"), ("sin", "y")]
