from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import blame, trial
from gradcheck.hunt.blame import node_checks, node_trials
from gradcheck.hunt.finding import ElementCheck, GraphFinding
from gradcheck.hunt.json_report import read
from gradcheck.hunt.report.finding_page import finding_page
from gradcheck.hunt.report.writer import write
from gradcheck.hunt.trial import Trial
from gradcheck.result import Verdict

XLOGY = Graph((Input((2,), (0.0, 3.0)), Input((2,), (2.0, 2.0))), (Node.of("xlogy", 0, 1),))
BESSEL = Graph((Input((1,), (0.0,)),), (Node.of("bessel_i0", 0),))
BEHIND = Graph((Input((1,), (0.0,)), Input((1,), (2.0,))), (Node.of("exp", 1), Node.of("xlogy", 0, 2)))


def found_in(graph: Graph, order: int = 1) -> GraphFinding:
    """The finding of a wrong graph, with all that its report shows."""
    return blame.completed(blame.finding_of(trial.run(graph, (order,)), order))


def test_the_elements_are_those_of_the_trial() -> None:
    checked = trial.run(XLOGY, (1,))
    (table,) = checked.tables[1]
    elements = blame.elements(checked, 1)
    assert [element.coordinate for element in elements] == [0, 1, 2, 3]
    assert [element.verdict for element in elements] == [Verdict.MISMATCH, *[Verdict.AGREE] * 3]
    assert [element.difference for element in elements] == table.difference[:, 0].tolist()
    assert blame.worst(elements) == elements[0]


def test_a_report_computes_no_verdict_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_in(XLOGY)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a verdict was computed again")

    monkeypatch.setattr(trial, "run", refuse)
    monkeypatch.setattr("tensorflow.GradientTape", refuse)
    page = finding_page(found)
    assert '<dt>wrong elements</dt><dd class="">1 of 4</dd>' in page


def test_the_page_of_a_report_that_is_read_back_is_the_same(tmp_path: Path) -> None:
    for graph, order in ((XLOGY, 1), (BESSEL, 2)):
        found = found_in(graph, order)
        path, *_ = write(found, tmp_path)
        again = read(path)
        assert again == found
        assert finding_page(again) == finding_page(found)


def test_every_node_is_checked_once_for_blame_and_report(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, run = trial.run(BEHIND, (1,)), trial.run
    runs: list[Graph] = []

    def counted(graph: Graph, orders: tuple[int, ...], mode: Mode) -> Trial:
        runs.append(graph)
        return run(graph, orders)

    monkeypatch.setattr(trial, "run", counted)
    trials = node_trials(PLAIN)
    found = blame.completed(blame.finding_of(checked, 1, trials), trials)
    assert [(node.position, node.verdict) for node in found.nodes] == [(2, "agree"), (3, "mismatch")]
    assert found.position == 3
    assert [graph.nodes[0].op for graph in runs] == ["exp", "xlogy"]
    first, second = found.nodes
    assert first.autodiff == pytest.approx(first.difference, rel=1e-9)
    assert second.autodiff == 0.0


def test_a_node_that_cannot_be_judged_by_itself_is_the_culprit_where_all_others_are_right() -> None:
    """A derivative of 1e-22 is not seen beside an argument of 5e14, but is behind a factor of that size."""
    inputs = Input((1,), (521000000000000.0,)), Input((1,), (5210000000000000.0,))
    found = found_in(Graph(inputs, (Node.of("bessel_i0e", 0), Node.of("mul", 1, 2))))
    assert [node.verdict for node in found.nodes] == ["inconclusive", "agree"]
    assert found.culprit == "bessel_i0e"
    page = " ".join(finding_page(found).split())
    assert "in the culprit, which has lost too many digits to be judged by itself" in page
    first, *others = found.nodes
    at_a_kink = replace(found, nodes=(replace(first, detail="kink of higher order"), *others))
    assert "in the culprit" not in finding_page(at_a_kink)


def test_at_second_order_a_linear_node_is_shown_with_its_square_behind() -> None:
    graph = Graph((Input((1,), (0.5,)),), (Node.of("sin", 0),))
    (check,) = node_checks(graph, 2, node_trials(PLAIN))
    assert check.verdict == "agree"
    assert check.autodiff == pytest.approx(check.difference, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_the_curve_goes_through_the_worst_element(order: int) -> None:
    graph = XLOGY if order == 1 else BESSEL
    found = found_in(graph, order)
    element = blame.worst(found.elements)
    assert element is not None
    assert found.curve is not None
    assert found.curve.coordinate == element.coordinate
    assert found.curve.quotients[15] == pytest.approx(element.difference, rel=1e-6)
    assert abs(found.curve.quotients[15] - element.autodiff) > 0.1 * abs(element.difference)


def test_what_throws_costs_the_curve_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found = blame.finding_of(trial.run(XLOGY, (1,)), 1)

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel today")

    monkeypatch.setattr(blame, "step_curve", refuse)
    whole = blame.completed(found)
    assert whole.curve is None
    assert whole.elements == found.elements
    assert [node.verdict for node in whole.nodes] == ["mismatch"]


def test_a_derivative_that_raises_has_no_elements() -> None:
    from gradcheck.defects import known
    from gradcheck.hunt.known_graphs import example_of

    (defect,) = (each for each in known.load() if each.name == "gather-of-rgb_to_hsv")
    found = found_in(example_of(defect).graph)
    assert (found.elements, found.curve) == ((), None)
    assert {node.verdict for node in found.nodes} <= {"agree", "mismatch", "inconclusive"}


def test_the_worst_element_is_a_wrong_one_and_of_those_the_furthest_off() -> None:
    rows = [(Verdict.MISMATCH, 9.0, 1.0), (Verdict.MISMATCH, 1.0, 1e-3), (Verdict.AGREE, 8.0, 1e-9)]
    elements = [
        ElementCheck(place, verdict, far, 0.0, 0.0, allowed) for place, (verdict, far, allowed) in enumerate(rows)
    ]
    unknown = ElementCheck(3, Verdict.INCONCLUSIVE, math.inf, 0.0, math.inf, math.inf)
    assert blame.worst((*elements, unknown)) == elements[1]
    assert blame.worst(()) is None


def test_no_more_elements_than_a_report_has_room_for() -> None:
    graph = Graph((Input((30,), tuple(np.linspace(0.1, 1.0, 30))),), (Node.of("sin", 0),))
    assert len(blame.elements(trial.run(graph, (1,)), 1)) <= blame.MOST
