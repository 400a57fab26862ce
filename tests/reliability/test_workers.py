"""Workers that abort, hang or are killed: the graph becomes a finding of its kind, and the run goes on."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from gradcheck.autodiff.mode import FUNCTION, Mode
from gradcheck.hunt.events import Crash, EventFile
from tests.reliability.conftest import TWO, Suite, started

OTHERS = "sin,cos"


def test_an_operation_that_aborts_its_worker_is_a_crash_and_the_run_goes_on(suite: Suite) -> None:
    operation = "planted_crash_backwards"
    result = suite.run(f"{operation},{OTHERS}", *TWO)
    assert "replacing crashed worker" in result.stdout
    told = suite.told
    (crash,) = told.crashes
    assert crash.operation == operation
    assert {node.op for node in crash.graph.nodes} <= {operation, "add"}
    assert "killed by SIGABRT; in a fresh process: killed by SIGABRT at" in crash.message
    assert f"new crash: {crash.name}" in result.stdout
    assert {done.operation for done in told.operations} >= set(OTHERS.split(","))
    assert not list((suite.reports / "running").glob("*"))


def test_an_example_that_hangs_is_ended_at_its_limit_and_the_run_goes_on(suite: Suite) -> None:
    result = suite.run(f"planted_hang,{OTHERS}", *TWO, "--gradcheck-limit=8")
    assert "replacing crashed worker" in result.stdout
    told = suite.told
    (hang,) = told.hangs
    assert hang.operation == "planted_hang"
    assert "planted_hang" in {node.op for node in hang.graph.nodes}
    assert "no end within 8 s" in hang.message
    assert f"new hang: {hang.name}" in result.stdout
    assert {done.operation for done in told.operations} >= set(OTHERS.split(","))
    assert not list((suite.reports / "running").glob("*"))


def test_without_workers_the_next_run_reports_the_crash_as_one_of_its_mode(suite: Suite) -> None:
    """The operation aborts only where it is traced: run eagerly, the graph would come to its end."""
    operation = "planted_crash_traced"
    result = suite.call(operation, suite.command(), mode=FUNCTION)
    assert result.returncode == -6
    assert list((suite.reports / "running").glob("*.json"))
    result = suite.run("sin")
    (crash,) = suite.told.crashes
    assert crash.operation == operation
    assert crash.taken == Mode(mode=FUNCTION)
    assert f"killed by SIGABRT at the derivative of order 1 ({crash.taken})" in crash.message
    assert f"new crash: {crash.name}" in result.stdout
    assert "tf-function" in crash.name
    assert f"order 1 ({crash.taken})" in (suite.reports / "summary.md").read_text()
    assert not list((suite.reports / "running").glob("*"))
    assert [replayed(suite, crash), replayed(suite, replace(crash, mode="eager"))] == [
        (1, "still wrong", f"killed by SIGABRT at the derivative of order 1 ({crash.taken})"),
        (0, "fixed", "it came to its end"),
    ]


def replayed(suite: Suite, crash: Crash) -> tuple[int, str, str]:
    """The exit code of `gradcheck replay` of a folder with one crash, and what it says of it."""
    folder = suite.root / f"replayed-{crash.mode}"
    with EventFile(folder / "events", "main", started()) as file:
        file.write(crash)
    command = [sys.executable, "-m", "gradcheck", "replay", "--json", str(folder)]
    done = suite.call(crash.operation, command)
    (one,) = json.loads(done.stdout)["findings"]
    return done.returncode, one["state"], one["message"]
