from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from gradcheck.hunt import trial
from gradcheck.hunt.coverage import Coverage
from gradcheck.hunt.examine import Found, drawing, examine
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.running import watch
from gradcheck.hunt.running.watch import ProcessRecorder, ProcessWatch, read

RIGHT = Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),))
WRONG = Graph((Input((2,), (0.0, 2.0)),), (Node.of("cumprod", 0, exclusive=False, reverse=False),))


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> ProcessWatch:
    """A watch of this test's own, on its way."""
    own = ProcessWatch()
    monkeypatch.setattr(watch, "_watch", own)
    return own


def test_without_a_watch_nothing_is_kept_or_stopped() -> None:
    assert not watch.current().over
    assert watch.current().recorder is None


def test_what_runs_is_on_disk_before_it_runs(
    watching: ProcessWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    watching.recorder = ProcessRecorder(tmp_path / "a.json")

    def run(graph: Graph, orders: tuple[int, ...]) -> Any:
        seen.append(read(tmp_path / "a.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr("gradcheck.hunt.trial.run", run)
    with pytest.raises(KeyboardInterrupt):
        examine(RIGHT, 2, Coverage(), operation="sin")
    assert [(note.operation, note.order, note.graph) for note in seen] == [("sin", 2, RIGHT)]
    watching.rest()
    assert read(tmp_path / "a.json") is None


def test_a_rejected_draw_is_counted(watching: ProcessWatch) -> None:
    coverage = Coverage()
    with pytest.raises(UnsatisfiedAssumption), drawing("sin", 1, coverage):
        raise UnsatisfiedAssumption
    assert (coverage.examples("sin"), coverage.valid("sin")) == (1, 0)


def test_once_the_time_is_over_a_test_of_hypothesis_is_skipped(watching: ProcessWatch) -> None:
    coverage = Coverage()

    @settings(database=None, deadline=None)
    @given(st.lists(st.floats(1, 2), min_size=2, max_size=5))
    def hunt(values: list[float]) -> None:
        with drawing("sin", 1, coverage):
            graph = Graph((Input((len(values),), tuple(values)),), RIGHT.nodes)
        examine(graph, 1, coverage, operation="sin")
        if coverage.examples() == 5:
            watching.deadline = time.time() - 1

    with pytest.raises(SkipTest, match="the time for hunting is over"):
        hunt()
    assert coverage.examples() == 5


def test_a_test_that_failed_in_time_is_shrunk_no_further_but_fails(watching: ProcessWatch) -> None:
    checked: list[float] = []

    @settings(database=None, deadline=None)
    @given(st.floats(2, 1e6))
    def hunt(value: float) -> None:
        with drawing("cumprod", 1, Coverage()):
            graph = Graph((Input((2,), (0.0, value)),), WRONG.nodes)
        if examine(graph, 1, Coverage(), operation="cumprod", defects=()) is not None:
            raise AssertionError("it is wrong")

    def run(graph: Graph, orders: tuple[int, ...]) -> Any:
        checked.append(graph.inputs[0].values[1].real)
        watching.deadline = time.time() - 1
        return right(graph, orders=orders)

    right = trial.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "run", run)
        with pytest.raises(Found) as raised:
            hunt()
    assert len({*checked}) == 1, "what failed in time was checked, again to raise it, and nothing else"
    assert raised.value.discovery.graph.inputs[0].values[1] == checked[0]
    watching.rest()
    assert not watching.failed


def test_the_watchdog_ends_what_never_gives_the_interpreter_back() -> None:
    code = """
import sys, time
from gradcheck.hunt.running.watch import Watchdog
dog = Watchdog(1.0, sys.stderr)
dog.feed(); time.sleep(0.5); dog.feed(); time.sleep(0.8); dog.rest(); time.sleep(1.2)
print("fed", flush=True)
dog.feed()
sum(range(10**12))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == "fed\n"
    assert "Timeout (0:00:01)!" in done.stderr
