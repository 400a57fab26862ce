"""Workers that abort, hang or are killed: the graph becomes a finding of its kind, and the run goes on."""

from __future__ import annotations

from tests.reliability.conftest import TWO, Suite

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


def test_without_workers_the_next_run_tells_of_the_crash(suite: Suite) -> None:
    result = suite.run("planted_crash")
    assert result.returncode == -6
    assert list((suite.reports / "running").glob("*.json"))
    result = suite.run("sin")
    (crash,) = suite.told.crashes
    assert crash.operation == "planted_crash"
    assert "killed by SIGABRT at" in crash.message
    assert f"new crash: {crash.name}" in result.stdout
    assert not list((suite.reports / "running").glob("*"))
