"""A check that takes long: what it counts, and Ctrl-C, which ends it and leaves nothing changed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import progress
from gradcheck.problem import mapped


@pytest.fixture(autouse=True)
def _python_listens_to_ctrl_c() -> Iterator[None]:
    """Restores SIGINT, which Python finds ignored, and installs no handler for, in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_no_bar_under_pytests_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert not progress._has_a_reader()


def test_a_line_every_so_often_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = threading.Event()
    monkeypatch.setattr(progress, "EVERY", 0.01)

    def slow(x: Any) -> Any:
        assert printed.wait(60.0)
        return x**2

    def notice(check: progress.LongCheck) -> str:
        printed.set()
        return f"{check.name} is checked"

    monkeypatch.setattr(progress.LongCheck, "text", property(notice))
    with progress.shown("slow"):  # under pytest
        assert not [one for one in threading.enumerate() if one.name.endswith("(print_lines)")]
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    gradcheck.check(slow, 1.5)
    assert capsys.readouterr().err.startswith("slow is checked\n")


def test_no_line_of_a_check_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    before = threading.enumerate()  # a line of an earlier test may still be ending
    with progress.shown("f"):
        (line,) = (one for one in threading.enumerate() if one not in before)
    line.join(60.0)
    assert not line.is_alive()
    assert not [one for one in threading.enumerate() if one not in before]


def test_the_parts_of_a_check_are_counted_together() -> None:
    seen: list[Any] = []

    def square(x: Any) -> Any:
        seen.append(progress.RUNNING.get())
        return x**2

    gradcheck.explain(square, 1.5)
    assert len({id(check) for check in seen}) == 1
    assert seen[0].name == "square"
    assert seen[0].evaluations > 10
    assert progress.RUNNING.get() is None


def current() -> progress.LongCheck:
    """The check that is running."""
    check = progress.RUNNING.get()
    assert check is not None
    return check


WAYS: dict[str, Callable[[Any], Any]] = {
    "check": lambda made: gradcheck.check(made, variables=[made.x]),
    "explain": lambda made: gradcheck.explain(made.step),
    "assert_step": lambda made: gradcheck.assert_step(made.step, variables=[made.x]),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_first_run_is_mentioned_while_it_takes_and_then_how_long_it_took(way: str) -> None:
    texts: list[str] = []

    def note() -> None:
        check = current()
        texts.append(check.text)
        if check.run_seconds is not None:
            check.run_seconds = 4.2

    class Noted(Interrupted):
        def __call__(self) -> Any:
            note()
            return super().__call__()

    WAYS[way](Noted(Calls(-1, press)))
    assert ": the first run is under way, 0:0" in texts[0]
    assert not any("first run" in text for text in texts[1:])
    assert "(one run took 4 s, most checks take 20 to 100), 0:0" in texts[2]


def test_a_short_run_is_not_mentioned() -> None:
    check = progress.LongCheck("f")
    check.evaluations, check.run_seconds = 1, 0.2
    assert check.text == "gradcheck of f: 1 evaluation, 0:00"


@pytest.mark.parametrize("size", [1, 3, 40])
def test_most_checks_take_20_to_100_evaluations(size: int) -> None:
    x, checks = tf.Variable(np.linspace(0.5, 1.5, size)), list[progress.LongCheck]()

    def step() -> Any:
        checks.append(current())
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(x) ** 2)
        return loss, [tape.gradient(loss, x)]

    gradcheck.assert_step(step)
    assert progress.USUALLY == "most checks take 20 to 100"
    assert 20 <= checks[0].evaluations <= 100


class Calls:
    """Counts calls, without an attribute that a check could restore."""

    __slots__ = ("at", "interrupt", "made")

    def __init__(self, at: int, interrupt: Callable[[], None]) -> None:
        self.at, self.interrupt, self.made = at, interrupt, 0

    def count(self) -> None:
        """Counts one more call."""
        self.made += 1
        if self.made == self.at:
            self.interrupt()


class Interrupted:
    """A function with state of every kind, interrupted at one of its calls."""

    def __init__(self, calls: Calls) -> None:
        self.x, self.counter = tf.Variable([1.5, 0.5], dtype=tf.float64), tf.Variable(0)
        self.calls = calls

    def __call__(self) -> Any:
        self.counter.assign_add(1)
        drawn = np.random.uniform(1, 2)
        self.calls.count()
        float(self.x[0])
        return drawn * tf.reduce_sum(self.x**3)

    def step(self) -> Any:
        with tf.GradientTape() as tape:
            loss = self()
        gradient = tape.gradient(loss, self.x)
        self.x.assign_sub(0.1 * gradient)
        return loss, [gradient]


def press() -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def press_and_catch() -> None:
    """Ctrl-C, in code that catches everything."""
    with suppress(BaseException):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("interrupt", [press, press_and_catch])
@pytest.mark.parametrize("at", [1, 3, 15])
@pytest.mark.parametrize("name", ["check", "explain", "assert_step"])
def test_ctrl_c(name: str, at: int, interrupt: Callable[[], None]) -> None:
    made = Interrupted(Calls(at, interrupt))
    checks: dict[str, Callable[[], Any]] = {
        "check": lambda: gradcheck.check(made, variables=[made.x], order=2),
        "explain": lambda: gradcheck.explain(made.step),
        "assert_step": lambda: gradcheck.assert_step(made.step, variables=[made.x]),
    }
    np.random.seed(5)
    with pytest.raises(KeyboardInterrupt):
        checks[name]()
    assert made.calls.made < at + 20
    assert made.x.numpy().tolist() == [1.5, 0.5]
    assert int(made.counter) == 0
    drawn = np.random.uniform()
    np.random.seed(5)
    assert drawn == np.random.uniform()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert progress.RUNNING.get() is None


@pytest.mark.usefixtures("graphs")
def test_ctrl_c_between_two_runs_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes while a graph runs is handled when the graph returns, after a limited number of points."""
    x, counter, runs = tf.Variable([1.5, 0.5], dtype=tf.float64), tf.Variable(0), []
    graph_of = mapped.graph_of

    def loss() -> Any:
        counter.assign_add(1)
        return tf.reduce_sum(x**3)

    def interrupted(*arguments: Any) -> Any:
        graph = graph_of(*arguments)

        def run(*inputs: Any) -> Any:
            result = graph(*inputs)
            runs.append(1)
            if len(runs) > 5:
                press_and_catch()
            return result

        return run

    monkeypatch.setattr(mapped, "graph_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gradcheck.check(loss, variables=[x], order=2)
    assert len(runs) == 6
    assert x.numpy().tolist() == [1.5, 0.5]
    assert int(counter) == 0


def test_a_signal_from_outside_while_a_graph_runs(tmp_path: Path) -> None:
    x, counter, pipe = tf.Variable(np.linspace(1.0, 2.0, 4)), tf.Variable(0), tmp_path / "pipe"
    os.mkfifo(pipe)

    def loss() -> Any:
        counter.assign_add(1)
        tf.print("running", output_stream=f"file://{pipe}")
        return tf.reduce_sum(tf.while_loop(lambda n, _: n < 2000, lambda n, y: [n + 1, tf.sin(y)], [0, x * 1.0])[1])

    def interrupt() -> None:
        for _ in range(12):
            assert lines.readline() == "running\n"
        os.kill(os.getpid(), signal.SIGINT)

    with os.fdopen(os.open(pipe, os.O_RDWR), encoding="utf-8") as lines:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            gradcheck.check(loss, variables=[x], order=2)
    assert x.numpy().tolist() == np.linspace(1.0, 2.0, 4).tolist()
    assert int(counter) == 0
