from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck.comparison.tables import Comparison
from gradcheck.hunt.finding import GraphFinding, literal
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.report.comparison import ElementComparison
from gradcheck.hunt.report.evidence import PageEvidence, completed, evidence
from gradcheck.hunt.report.heat_map import drawn, level
from gradcheck.hunt.report.step_curve import step_curve
from gradcheck.result import Finding, Kind, Reason, Verdict

WRONG = Finding(Kind.WRONG_VALUE, 1, "input 0", (0,), None, 0.0, 9.0, 2e-12, 3e-11, "autodiff gives 0, differences 9")


def found(graph: Graph, order: int = 1, position: int | None = None, weights: object = 1.0) -> GraphFinding:
    """A discovery of a wrong value at a node, the last one unless told."""
    place = graph.size - 1 if position is None else position
    op = graph.nodes[place - len(graph.inputs)].op
    direction = tuple(literal(np.ones(value.shape)) for value in graph.inputs) if order == 2 else ()
    return GraphFinding(graph, order, (WRONG,), op, place, "none", literal(weights), direction)


XLOGY = found(Graph((Input((2,), (0.0, 3.0)), Input((2,), (2.0, 2.0))), (Node.of("xlogy", 0, 1),)), weights=[1.0, 1.0])
SIN = Graph((Input((2,), (0.5, 1.0)),), (Node.of("sin", 0),))


def test_a_wrong_derivative_ends_in_a_flat_floor_and_the_right_one_in_a_v() -> None:
    seen = evidence(XLOGY)
    assert (seen.wrong, seen.compared, seen.problem) == (1, 4, "")
    curve = seen.curve
    assert curve is not None
    assert (curve.element, curve.autodiff) == ("input 0[0]", 0.0)
    assert curve.limit == pytest.approx(math.log(2.0), abs=1e-12)
    floor = curve.distances(0.0)[10:30]
    assert max(floor) - min(floor) < 1e-6
    assert min(floor) == pytest.approx(math.log(2.0), abs=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_the_curve_of_a_right_derivative_is_a_v(order: int) -> None:
    graph = Graph(SIN.inputs, (*SIN.nodes, Node.of("exp", 1)))
    direction = [literal([1.0, 1.0])] if order == 2 else []
    curve = step_curve(ElementComparison.of(graph, literal([1.0, 1.0]), direction))
    assert curve.autodiff is not None
    far = np.array(curve.distances(curve.autodiff))
    steps = np.array(curve.steps)
    slope = np.polyfit(np.log(steps[1:8]), np.log(far[1:8]), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.2)  # truncation falls with the square of the step
    lowest = int(np.argmin(far))
    assert 8 < lowest < len(far) - 8
    assert far[lowest] < 1e-9 < far[0]
    assert np.median(far[-5:]) > 100 * far[lowest]  # and rounding rises again


def test_the_worst_element_is_the_furthest_off_of_the_wrong_ones() -> None:
    comparison = ElementComparison.of(SIN, literal([1.0, 1.0]))
    far, allowed = np.array([9.0, 1.0, 5.0, 8.0]), np.array([1.0, 1e-3, 1e-2, 1e-9])
    zeros, last = np.zeros(4), np.arange(4) == 3
    table = Comparison.agreeing(far, zeros, zeros, allowed).marked(~last, Verdict.MISMATCH, Kind.WRONG_VALUE)
    assert worst_of(comparison, table.marked(last, Verdict.INCONCLUSIVE, Reason.STAIRCASE)) == 1
    assert worst_of(comparison, Comparison.agreeing(np.array([0.1, 0.3, 0.2, 9.0]), zeros, zeros, np.ones(4))) == 3


def worst_of(comparison: ElementComparison, table: Comparison) -> int:
    """The worst element if these were the entries."""
    vars(comparison)["entries"] = table
    return comparison.worst


def test_the_curve_at_second_order_agrees_with_the_closed_form() -> None:
    curve = step_curve(ElementComparison.of(SIN, literal([1.0, 1.0]), [literal([1.0, 2.0])]))
    place = int(curve.element[-2])
    assert curve.autodiff == pytest.approx([-math.sin(0.5), -2 * math.sin(1.0)][place], rel=1e-12)
    assert curve.limit == pytest.approx(curve.autodiff, rel=1e-9)


def test_a_derivative_that_is_not_finite_has_no_distance() -> None:
    graph = Graph((Input((1,), (0.0,)),), (Node.of("power", 0, exponent=0.0),))
    curve = evidence(found(graph, weights=[1.0])).curve
    assert curve is not None
    assert (curve.autodiff, curve.limit) == (None, 0.0)
    assert set(curve.differences) == {0.0}


def test_heat_maps_have_a_cell_an_element(parsed: Callable[[str], Any]) -> None:
    maps = evidence(XLOGY).maps
    assert [heat.name for heat in maps] == ["input 0", "input 1"]
    (wrong, right), *_ = maps[0].rows
    assert (level(wrong), level(right)) == (4, 1)
    page = parsed(drawn(maps[0]))
    assert [place["class"] for place in page.named("rect")] == ["heat4", "heat1"]
    assert "✓" in page.words


@pytest.mark.parametrize(
    ("ratio", "expected"), [(None, 0), (0.0, 1), (1.0, 1), (2.0, 2), (1e5, 3), (1e12, 4), (math.inf, 4), (math.nan, 4)]
)
def test_levels(ratio: float | None, expected: int) -> None:
    assert level(ratio) == expected


def test_a_map_of_many_elements_breaks_into_rows() -> None:
    graph = Graph((Input((2, 50), tuple(np.linspace(0.1, 1.0, 100))),), (Node.of("sin", 0),))
    (heat,) = evidence(found(graph, weights=np.ones((2, 50)))).maps
    assert sum(map(len, heat.rows)) == 100
    assert max(map(len, heat.rows)) == 32


def test_more_elements_than_can_be_looked_at_cost_the_drawings_only() -> None:
    graph = Graph((Input((300,), tuple(np.linspace(0.1, 1.0, 300))),), (Node.of("sin", 0),))
    seen = evidence(found(graph, weights=np.ones(300)))
    assert seen.curve is None
    assert "300 elements were given; at most 256" in seen.problem


def test_a_derivative_that_throws_costs_the_drawings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no <gradient> today\nand more")

    monkeypatch.setattr("gradcheck.hunt.report.comparison.compare_first", refuse)
    assert evidence(XLOGY) == PageEvidence(problem="RuntimeError: no <gradient> today")


def test_every_nodes_own_derivative_is_taken_at_its_arguments() -> None:
    graph = Graph((Input((1,), (0.0,)), Input((1,), (2.0,))), (Node.of("exp", 1), Node.of("xlogy", 0, 2)))
    whole = completed(found(graph, weights=[1.0]))
    assert [(node.position, node.verdict) for node in whole.nodes] == [(2, "agree"), (3, "mismatch")]
    assert [value.values for value in whole.values] == [(0.0,), (2.0,), (np.exp(2.0),), (0.0,)]
    first = whole.nodes[0]
    assert first.autodiff == pytest.approx(first.difference, rel=1e-9)


def test_what_is_there_is_not_computed_again() -> None:
    values = (literal([0.0]), literal([7.0]))
    given = dataclasses.replace(found(Graph((Input((1,), (0.0,)),), (Node.of("sin", 0),))), values=values)
    assert completed(given).values == values
