"""Faults planted into operations with kinks: where a hunt shows them, and what a replay says once they are
corrected."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gradcheck
from gradcheck.autodiff.mode import PLAIN, Mode
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import monitor
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.events import State
from gradcheck.hunt.examine import Found, examine
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.monitor import Monitor
from gradcheck.hunt.recheck import of_report
from gradcheck.hunt.report.finding_page import finding_page, markdown
from gradcheck.operations.registry import REGISTERED, forget
from gradcheck.result import Kind, Verdict


class Recorder:
    """Records the graphs that were about to run."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []

    def before(self, operation: str, order: int, mode: Mode, graph: Graph) -> None:
        self.graphs.append(graph)

    def rest(self) -> None:
        pass


@pytest.fixture(autouse=True)
def ran() -> Iterator[list[Graph]]:
    """The graphs that ran; registrations are removed afterwards."""
    recorder = Recorder()
    before = monitor.install(Monitor([recorder]))
    yield recorder.graphs
    monitor.install(before)
    forget(list(REGISTERED))


def register(slope: Callable[[Any], Any], **declared: Any) -> None:
    """A ramp with its kink at 0, and a slope that may be wrong."""
    forget(list(REGISTERED))
    ramp = tf.custom_gradient(lambda x: (tf.nn.relu(x), lambda upstream: upstream * slope(x)))
    gradcheck.operation(name="own_ramp", modes=(), **declared)(ramp)


def right(x: Any) -> Any:
    return tf.cast(x > 0, x.dtype)


def too_steep(x: Any) -> Any:
    return 1.5 * right(x)


def of_ramp(values: list[float], *behind: Node) -> Graph:
    return Graph((literal(values),), (Node.of("own_ramp", 0), *behind))


def found_in(graph: Graph, order: int, mode: Mode = PLAIN) -> GraphFinding:
    """The finding of a hunt whose only example is this graph."""

    @settings(max_examples=1, database=None, deadline=None, phases=[Phase.generate])
    @given(st.just(graph))
    def hunted(graph: Graph) -> None:
        examine(graph, order, Coverage(), operation="own_ramp", mode=mode)

    with pytest.raises(Found) as raised:
        hunted()
    return raised.value.finding


@pytest.mark.parametrize(
    ("declared", "order", "behind"),
    [({"kinks": 0.0}, 1, []), ({}, 1, []), ({}, 2, [Node.of("square", 1)])],
    ids=["declared, order 1", "not declared, order 1", "not declared, order 2"],
)
def test_what_is_wrong_beside_a_kink_is_shown_there_and_can_be_decided_again(
    ran: list[Graph], declared: dict[str, Any], order: int, behind: list[Node]
) -> None:
    """At order 2 a declared kink is not compared, so that no hunt finds anything there."""
    register(too_steep, **declared)
    found = found_in(of_ramp([0.0, 2.0], *behind), order)
    assert found.graph.inputs == (literal([1.0, 2.0]),)
    assert found.graph in ran
    assert (found.kind, found.culprit, found.order) == (Kind.WRONG_VALUE, "own_ramp", order)
    assert [element.verdict for element in found.elements] == [Verdict.MISMATCH, Verdict.MISMATCH]
    assert "cannot be decided" not in finding_page(found)
    assert of_report(found).state is State.STILL
    register(right, **declared)
    assert of_report(found).state is State.FIXED


def test_points_beside_a_kink_are_tried_for_as_long_as_a_test_may_shrink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register(too_steep, kinks=0.0)
    tried: list[int] = []
    for seconds in (3.5, math.inf):
        now = Monitor(clock=partial(next, itertools.count()), shrink_seconds=seconds)
        before = monitor.install(now)
        with monkeypatch.context() as patch:
            patch.setattr("gradcheck.hunt.examine._same_at", lambda *_: tried.append(1))
            found_in(of_ramp([0.0, 2.0]), 1)
        monitor.install(before)
        tried.append(0)
    assert tried.index(0) < 5 < len(tried) - 5


def test_what_is_outside_the_slopes_at_a_kink_stays_there() -> None:
    register(lambda x: tf.where(x == 0, 3.0 * tf.ones_like(x), too_steep(x)), kinks=0.0)
    found = found_in(of_ramp([0.0]), 1)
    assert (found.kind, found.graph.inputs) == (Kind.SUBDIFFERENTIAL, (literal([0.0]),))
    register(right, kinks=0.0)
    assert of_report(found).state is State.FIXED


def test_no_finding_moves_into_the_region_of_a_known_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(found: GraphFinding, defects: object) -> object:
        return "a defect" if 1.0 in found.graph.inputs[0].values else None

    monkeypatch.setattr("gradcheck.hunt.examine.match", known)
    register(too_steep)
    assert found_in(of_ramp([0.0, 2.0]), 1).graph.inputs == (literal([-1.0, 2.0]),)


def test_no_element_leaves_its_domain() -> None:
    register(too_steep, kinks=0.0, domain=(-0.3, 0.3))
    assert found_in(of_ramp([0.0, 0.125]), 1).graph.inputs == (literal([0.25, 0.125]),)


@pytest.mark.parametrize(
    ("at_kink", "beside", "kind"), [(1.5, 1.0, Kind.WRONG_VALUE), (float("nan"), 1.5, Kind.NON_FINITE)]
)
def test_a_finding_that_cannot_be_decided_again_says_so_in_words(at_kink: float, beside: float, kind: Kind) -> None:
    """The slope along y is wrong in this way only where x is at a kink that is not declared."""

    @tf.custom_gradient
    def ramp(x: Any, y: Any) -> Any:
        slope = tf.where(x == 0, at_kink, beside * tf.ones_like(y)) if wrong else 1.0
        return tf.nn.relu(x) + y, lambda upstream: (upstream * right(x), upstream * slope)

    wrong = True
    gradcheck.operation(name="own_ramp", modes=())(ramp)
    given_values = literal([0.0]), literal([2.0])
    found = found_in(Graph(given_values, (Node.of("own_ramp", 0, 1),)), 1)
    assert (found.kind, found.graph.inputs) == (kind, given_values)
    for text in (markdown(found), finding_page(found)):
        assert "1 of 2 elements cannot be decided at these inputs" in text
        assert "other elements are inconclusive (ill-conditioned)" in text
    wrong = False
    assert of_report(found).state is State.CANNOT_TELL


def test_what_is_wrong_in_a_number_type_is_shown_at_numbers_that_it_holds() -> None:
    kink = 0.25 + 2.0**-12  # its float16 is exact, that of 1 more is not

    @tf.custom_gradient
    def ramp(x: Any) -> Any:
        factor = tf.cast(-3.0 if x.dtype == tf.float16 else 1.0, x.dtype)
        return tf.nn.relu(x - kink), lambda upstream: upstream * tf.cast(x > kink, x.dtype) * factor

    gradcheck.operation(name="own_ramp", modes=["in float16"])(ramp)
    found = found_in(of_ramp([kink, 2.0]), 1, Mode("reverse", "in float16"))
    assert (found.taken.number_type, found.graph.inputs) == ("float16", (literal([1.25, 2.0]),))
