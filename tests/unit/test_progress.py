"""A check that takes long shows a bar on a terminal, and Ctrl-C ends it without leaving anything changed."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import gradcheck
from gradcheck import progress
from gradcheck.autodiff import mapped
from gradcheck.autodiff.mapped import Mapped

SLOW = """
import os
import sys
import time
import tensorflow as tf
import gradcheck
from gradcheck import progress

progress.DELAY, waits = 0.01, True


def slow(x):
    check = progress.RUNNING.get()
    if waits and check.stage:
        while check.live is None:
            time.sleep(0.01)
        check.live.refresh()
    time.sleep(0.01)
    return x**3 if float(x) < 9 else x  # code that reads values is not traced


"""
LONG = """
print(gradcheck.check(slow, tf.constant(1.5, tf.float64), order=2).verdict)
print(gradcheck.explain(slow, tf.constant(1.5, tf.float64)).verdict)
"""
SHORT = """
waits = False

def check(where):
    print(f"<{where}>", file=sys.stderr)
    print(where, gradcheck.check(slow, tf.constant(1.5, tf.float64)).verdict)

os.environ["CI"] = "true"
check("in CI")
del os.environ["CI"]
os.environ["TERM"] = "dumb"
check("on a dumb terminal")
os.environ["TERM"] = "xterm"
import keras
sys.modules["rich.live"] = None
check("without rich")  # the timer tries, and nothing comes of it
"""


@pytest.fixture(autouse=True)
def _python_listens_to_ctrl_c() -> Iterator[None]:
    """Started in the background of a shell, Python finds SIGINT ignored, and installs no handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def on_a_terminal(code: str) -> tuple[str, str]:
    """What a script prints, and what a terminal at its stderr shows."""
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    settings = {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "TERM": "xterm", "COLUMNS": "120"}
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            shown.append(part)

    reader = threading.Thread(target=read)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, env=settings)
    os.close(slave)
    reader.start()
    printed, _ = process.communicate()
    reader.join()
    os.close(master)
    assert process.returncode == 0, b"".join(shown).decode()
    return printed.decode(), b"".join(shown).decode()


def test_a_long_check_shows_a_bar_but_not_in_ci_on_a_dumb_terminal_or_without_rich() -> None:
    printed, shown = on_a_terminal(SLOW + LONG + SHORT)
    with_a_bar, *_ = shown.partition("<in CI>")
    for stage in ("order 1", "derivative 1 of 1"):
        assert re.search(rf"gradcheck of slow, {stage}: \d+ evaluations, \d+:\d\d", with_a_bar), stage
    places = re.findall(r"<(.+?)>([^<]*)", shown.removeprefix(with_a_bar))
    assert printed == "agree\nagree\n" + "".join(f"{where} agree\n" for where, _ in places)
    assert [where for where, _ in places] == ["in CI", "on a dumb terminal", "without rich"]
    assert [where for where, text in places if "gradcheck of" in text] == []
    assert "Traceback" not in shown


def test_no_bar_under_pytests_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert not progress._has_a_reader()


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


class Calls:
    """Counts calls; no attribute that a check could put back."""

    __slots__ = ("at", "interrupt", "made")

    def __init__(self, at: int, interrupt: Callable[[], None]) -> None:
        self.at, self.interrupt, self.made = at, interrupt, 0

    def count(self) -> None:
        """One more."""
        self.made += 1
        if self.made == self.at:
            self.interrupt()


class Interrupted:
    """A function with state of every kind that is interrupted at one of its calls."""

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


def test_ctrl_c_between_two_runs_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes while a graph runs is heard when it returns, after at most so many points."""
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

    monkeypatch.setattr(Mapped, "_pays", lambda self, count: True)
    monkeypatch.setattr(mapped, "graph_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gradcheck.check(loss, variables=[x], order=2)
    assert len(runs) == 6
    assert x.numpy().tolist() == [1.5, 0.5]
    assert int(counter) == 0


GRAPH = """
import signal
import sys
import numpy as np
import tensorflow as tf
import gradcheck

signal.signal(signal.SIGINT, signal.default_int_handler)
x, counter = tf.Variable(np.linspace(1.0, 2.0, 4)), tf.Variable(0)


def loss():
    counter.assign_add(1)
    tf.print("running", output_stream=sys.stdout)
    return tf.reduce_sum(tf.while_loop(lambda n, _: n < 2000, lambda n, y: [n + 1, tf.sin(y)], [0, x * 1.0])[1])


try:
    gradcheck.check(loss, variables=[x], order=2)
    print("ended")
except KeyboardInterrupt:
    print("left as it was:", x.numpy().tolist() == np.linspace(1.0, 2.0, 4).tolist() and int(counter) == 0)
"""


def test_a_signal_from_outside() -> None:
    settings = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen([sys.executable, "-uc", GRAPH], stdout=subprocess.PIPE, env=settings, text=True) as process:
        assert process.stdout is not None
        for _ in range(12):
            assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().splitlines()
    assert rest[-1] == "left as it was: True"
