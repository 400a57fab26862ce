from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from gradcheck.strategies.tape_programs import tape_programs
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.autodiff.mode import PLAIN, XLA, Mode
from gradcheck.defects.tape_program import Program
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import monitor, trial
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found, drawing, examine
from gradcheck.hunt.monitor import Monitor
from gradcheck.hunt.running.process_recorder import ProcessRecorder, read
from gradcheck.hunt.running.worker import Worker
from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.interpreter import PredictionComparison

RIGHT = Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),))
WRONG = Graph((Input((2,), (0.0, 2.0)),), (Node.of("cumprod", 0, exclusive=False, reverse=False),))


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Monitor:
    """An installed monitor of this test's own, with a clock that the test sets."""
    made = Monitor(clock=clock)
    monkeypatch.setattr(monitor, "_monitor", made)
    return made


def test_unless_a_run_installs_another_nothing_is_kept_or_stopped() -> None:
    assert not monitor.current().expired
    assert monitor.current().listeners == []
    assert monitor.current().shrink_seconds == math.inf


WAYS = [(Mode("forward"), 1), (Mode("reverse", XLA), 1), (Mode("reverse", XLA), 2)]


def test_a_visit_draws_in_the_mode_with_the_fewest_looks_from_its_beginning_to_its_end(own: Monitor) -> None:
    coverage = Coverage()
    taken = []
    for visit, verdict in enumerate(["agree", "cannot run", "cannot run", "cannot run", "agree", "agree"]):
        own.begin_visit(visit)
        (mode, *_) = {mode for mode, order in filter(own.in_turn(WAYS, coverage.looks), WAYS)}
        taken.append(mode.mode)
        coverage.count("sin", 1, verdict=verdict, mode=mode)
        assert {mode} == {mode for mode, order in filter(own.in_turn(WAYS, coverage.looks), WAYS)}
        own.rest()
    # Four examples that could not be compared are one look.
    assert taken == ["eager", XLA, XLA, XLA, XLA, "eager"]


def test_without_visits_every_mode_is_drawn(own: Monitor) -> None:
    coverage = Coverage()
    coverage.count("sin", 1, mode=Mode("forward"))
    assert list(filter(own.in_turn(WAYS, coverage.looks), WAYS)) == WAYS


def test_a_graph_is_made_for_listeners_only(own: Monitor) -> None:
    def fail() -> Graph:
        raise AssertionError("nobody listens")

    own.before(fail)


def test_what_runs_is_on_disk_before_it_runs(own: Monitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    own.listeners.append(ProcessRecorder(tmp_path / "a.json"))

    def check(graph: Graph, orders: tuple[int, ...], *, weights: None, mode: Mode) -> Any:
        seen.append(read(tmp_path / "a.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr("gradcheck.hunt.trial.run", check)
    for mode in (PLAIN, Mode(mode=XLA)):
        with pytest.raises(KeyboardInterrupt):
            examine(RIGHT, 2, Coverage(), operation="sin", mode=mode)
    assert [(one.operation, one.order, one.mode, one.graph) for one in seen] == [
        ("sin", 2, PLAIN, RIGHT),
        ("sin", 2, Mode(mode=XLA), RIGHT),
    ]
    own.rest()
    assert read(tmp_path / "a.json") is None


def test_a_rejected_draw_is_counted(own: Monitor) -> None:
    coverage = Coverage()
    with pytest.raises(UnsatisfiedAssumption), drawing("sin", 1, coverage):
        raise UnsatisfiedAssumption
    assert (coverage.examples("sin"), coverage.valid("sin")) == (1, 0)


def test_once_the_time_is_over_a_test_of_hypothesis_is_skipped(own: Monitor, clock: Clock) -> None:
    coverage = Coverage()

    @settings(max_examples=10, database=None, deadline=None)
    @given(st.lists(st.floats(1, 2), min_size=2, max_size=5))
    def hunt(values: list[float]) -> None:
        with drawing("sin", 1, coverage):
            graph = Graph((Input((len(values),), tuple(values)),), RIGHT.nodes)
        examine(graph, 1, coverage, operation="sin")
        if coverage.examples() == 5:
            own.deadline = clock.now

    with pytest.raises(SkipTest, match="the time for hunting is over"):
        hunt()
    assert coverage.examples() == 5


def test_a_program_that_failed_in_time_is_shrunk_no_further_but_fails(
    own: Monitor, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.shrink_seconds = 60.0
    compared: list[Program] = []

    def compare(program: Program) -> PredictionComparison:
        compared.append(program)
        return PredictionComparison(["it is wrong"])

    monkeypatch.setattr(interpreter, "compare", compare)

    @settings(database=None, deadline=None)
    @given(tape_programs(traced=False))
    def hunt(program: Program) -> None:
        try:
            interpreter.examine(program)
        finally:
            clock.now += 61.0

    with pytest.raises(interpreter.UnexplainedDifference, match="it is wrong"):
        hunt()
    assert len({*compared}) == 1
    interrupted = Worker.__new__(Worker)
    interrupted.monitor = own
    interrupted.keep_failures()  # a program has no report to be written
    own.rest()
    own.deadline = clock.now
    with pytest.raises(SkipTest, match="the time for hunting is over"):
        interpreter.examine(compared[0])


@pytest.mark.parametrize(("deadline", "shrink_seconds"), [(60.0, math.inf), (math.inf, 60.0)])
def test_a_test_that_failed_in_time_is_shrunk_no_further_but_fails(
    own: Monitor, clock: Clock, deadline: float, shrink_seconds: float
) -> None:
    """When the time for hunting is over, and when that for shrinking is."""
    own.deadline, own.shrink_seconds = deadline, shrink_seconds
    checked: list[float] = []

    @settings(database=None, deadline=None)
    @given(st.floats(2, 1e6))
    def hunt(value: float) -> None:
        with drawing("cumprod", 1, Coverage()):
            graph = Graph((Input((2,), (0.0, value)),), WRONG.nodes)
        try:
            if examine(graph, 1, Coverage(), operation="cumprod", defects=()) is not None:
                raise AssertionError("it is wrong")
        finally:
            clock.now += 61.0

    def run(graph: Graph, orders: tuple[int, ...], **options: Any) -> Any:
        checked.append(graph.inputs[0].values[1].real)
        return right(graph, orders, **options)

    right = trial.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "run", run)
        with pytest.raises(Found) as raised:
            hunt()
    assert len({*checked}) == 1, "what failed in time was checked, again to raise it, and nothing else"
    assert raised.value.finding.graph.inputs[0].values[1] == checked[0]
    own.rest()
    assert not own.failed
