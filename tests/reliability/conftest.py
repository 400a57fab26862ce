"""A tiny suite of planted operations in a folder of its own, run in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import json_report
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.events import Started
from gradcheck.hunt.report.run import HuntRun, read

ONE, TWO = (("-n", count, "--dist", "load") for count in "12")
LIMIT = 10
"""Seconds that an example may take; on a busy machine, the first one of a process takes a few."""
LATE = 1800.0
"""Seconds after which a run that has not ended is taken to hang."""
# Every Python process that finds this on its path has the planted operations, fresh ones included.
PLANT = """
import os, signal, time
import numpy as np
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.language import tf
from gradcheck.operations.spec import OpSpec
from gradcheck.hunt import confirmation

def confirmed(script):
    if os.environ.get("CTRL_C"):
        os.killpg(0, signal.SIGINT)
        time.sleep(60)
    return confirmation.Confirmation(1, "WRONG")


confirmation.confirm = confirmed  # a process of its own for every finding takes long


def crash(x):
    import tensorflow as tf
    if (x.numpy() > 1.5).any():
        os.abort()
    return tf.identity(x)


def hang(x):
    import tensorflow as tf
    if os.environ.get("STUBBORN"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while (x.numpy() > 1.5).any():
        open("hanging", "w").close()
        time.sleep(0.01)
    return tf.identity(x)


def crash_backwards(x):
    import tensorflow as tf

    @tf.custom_gradient
    def run(x):
        return tf.identity(x), lambda dy: os.abort()

    return run(x)


def crash_traced(x):
    import tensorflow as tf
    if not tf.executing_eagerly():
        os.abort()
    return tf.identity(x)


np.planted_crash, np.planted_hang, np.planted_crash_backwards = crash, hang, crash_backwards
np.planted_crash_traced = crash_traced
for name, source in {
    "planted_wrong": lambda x: tf.grad_pass_through(tf.square)(x),
    "planted_wrong_too": lambda x: tf.grad_pass_through(tf.exp)(x),
    "planted_crash": lambda x: np.planted_crash(x),
    "planted_crash_backwards": lambda x: np.planted_crash_backwards(x),
    "planted_crash_traced": lambda x: np.planted_crash_traced(x),
    "planted_hang": lambda x: np.planted_hang(x),
}.items():
    CATALOGUE[name] = OpSpec(name, source, ("Identity",), "planted", starts=((2,),))
"""
CONFTEST = """
import os
from pathlib import Path
from gradcheck.strategies import profiles
from hypothesis import settings

profiles.register(Path(__file__).parent / ".hypothesis")


def pytest_configure(config):
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("dev")
"""
TESTS = """
import os
import pytest
from gradcheck.strategies.graphs import graphs
from hypothesis import given, strategies as st
from gradcheck.autodiff.mode import FUNCTION, PLAIN, Mode
from gradcheck.hunt.examine import drawing, examine

CASES = [
    pytest.param(name, order, id=f"{name}-order{order}", marks=pytest.mark.gradcheck_operation(name))
    for name in os.environ["PLANTED"].split(",")
    for order in (1,)
]


@pytest.mark.parametrize(("operation", "order"), CASES)
@given(data=st.data())
def test_planted(gradcheck_coverage, operation, order, data):
    with drawing(operation, order, gradcheck_coverage):
        graph = data.draw(graphs(containing=operation, operations=[operation, "add"], order=order, max_nodes=2))
    mode = Mode(mode=FUNCTION) if operation == "planted_crash_traced" else PLAIN
    examine(graph, order, gradcheck_coverage, operation=operation, defects=(), mode=mode)
"""
# A project without tests/properties, which hunts with an operation of its own that does not always end.
ACTIVATIONS = """
import os
import time
import gradcheck
import tensorflow as tf


@gradcheck.operation(orders=(1,), modes=())
def fused_stop(x):
    while tf.executing_eagerly() and (x.numpy() == 0).any():
        os.abort() if os.environ["PLANTED"] == "abort" else time.sleep(600)
    return tf.identity(x)
"""


@dataclass(frozen=True)
class Suite:
    """The folder of a suite and how to run it."""

    root: Path

    def command(self, *arguments: str) -> list[str]:
        plugins = ("-p", "gradcheck.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:randomly")
        return [sys.executable, "-m", "pytest", *plugins, *arguments]

    def environment(self, planted: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_") and name != "CI"}
        # Reading the known records and checking them against the catalogue would take longer than the rest of a run.
        nothing = self.root / "nothing"
        nothing.mkdir(exist_ok=True)
        ours = {"PLANTED": planted, "PYTHONPATH": str(self.root / "plant"), "GRADCHECK_KNOWN": str(nothing)}
        return {**kept, **ours, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(self, planted: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs pytest with these operations until it ends."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(planted),
            text=True,
            capture_output=True,
            timeout=LATE,
            **options,
        )

    def start(self, planted: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Starts pytest in a process group of its own; a background job, as CI may be, would ignore an interrupt."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env={**self.environment(planted), **variables},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_interruptible,
        )

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def told(self) -> HuntRun:
        """The run that the events describe, all runs merged."""
        return read(self.reports / "events")

    def findings(self) -> dict[str, str]:
        """The JSON reports by name."""
        return {
            path.name: path.read_text() for path in sorted(self.reports.glob("*.json")) if path.name != "schedule.json"
        }

    def whole(self, *, killed: bool = False) -> bool:
        """Whether every report and event can be read; unless a process was `killed`, no temporary file is left."""
        for path in self.reports.glob("*order1*.json"):
            json_report.read(path)
        left = [path for path in self.reports.rglob("*") if path.suffix in (".tmp", ".new")]
        return killed or not (left or self.told.remarks)


def example(operation: str) -> Graph:
    """A graph of one node."""
    return Graph((Input((1,), (2.0,)),), (Node.of(operation, 0),))


def started() -> Started:
    """The first event of a process."""
    environment = Environment("2.21.0", "2.4.6", "3.13.1", "0.1.0", "0", "3", 1, 1, "a processor", "a system", "3")
    return Started(environment, "nightly", "3", "1/1", ())


@pytest.fixture
def suite(tmp_path: Path, plant: Callable[[], None]) -> Suite:
    """A suite whose planted operations this process knows too, so that it can read the events."""
    plant()
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / "sitecustomize.py").write_text(PLANT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    folder = tmp_path / "tests" / "properties"
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(TESTS)
    return Suite(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Suite:
    """A project with an operation of its own, imported by its conftest.py; how that operation ends is planted."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "activations.py").write_text(ACTIVATIONS)
    (tmp_path / "conftest.py").write_text("import activations\n")
    (tmp_path / "test_project.py").write_text("def test_project(): pass\n")
    return Suite(tmp_path)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Plants the operations in this process until the end of the test."""

    def run() -> None:
        import numpy as np

        from gradcheck.operations.catalogue import CATALOGUE

        before, attributes = dict(CATALOGUE), set(vars(np))
        exec(PLANT, {})
        planted = {name: CATALOGUE[name] for name in set(CATALOGUE) - set(before)}
        functions = {name: getattr(np, name) for name in set(vars(np)) - attributes}
        for name, spec in planted.items():
            del CATALOGUE[name]
            monkeypatch.setitem(CATALOGUE, name, spec)
        for name, function in functions.items():
            delattr(np, name)
            monkeypatch.setattr(np, name, function, raising=False)

    return run


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
