"""Processes that abort, hang or are killed: the graph becomes a finding of its kind, and the run goes on."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from gradcheck.__main__ import main
from gradcheck.autodiff.mode import FUNCTION, PLAIN, Mode
from gradcheck.hunt.events import EventFile
from tests import slices
from tests.reliability.conftest import LIMIT, ONE, TWO, Suite, started

ANOTHER = """
import gradcheck
import tensorflow as tf


@gradcheck.operation(orders=(1,), modes=())
def fused_other(x):
    return tf.identity(x)
"""


@slices.parametrized(("workers", "others"), [(ONE, "sin"), (TWO, "sin,cos")], slices.every(2))
def test_operations_that_abort_or_hold_up_their_workers_are_reported_and_the_run_goes_on(
    suite: Suite, workers: tuple[str, ...], others: str
) -> None:
    operation = "planted_crash_backwards"
    result = suite.run(f"{operation},planted_hang,{others}", *workers, f"--gradcheck-limit={LIMIT}")
    assert result.stdout.count("replacing crashed worker") == 2
    run = suite.told
    (crash,), (hang,) = run.crashes, run.hangs
    assert (crash.operation, crash.taken) == (operation, PLAIN)
    assert {node.op for node in crash.graph.nodes} <= {operation, "add"}
    assert "killed by SIGABRT; in a fresh process: killed by SIGABRT at" in crash.message
    assert f"new crash: {crash.name}" in result.stdout
    assert hang.operation == "planted_hang"
    assert "planted_hang" in {node.op for node in hang.graph.nodes}
    assert f"no end within {LIMIT} s" in hang.message
    assert f"new hang: {hang.name}" in result.stdout
    assert {done.operation for done in run.operations} >= set(others.split(","))
    assert not list((suite.reports / "running").glob("*"))


@pytest.mark.exhaustive
def test_without_workers_the_next_run_reports_the_crash_as_one_of_its_mode(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operation aborts only where it is traced: run eagerly, the graph would end normally."""
    operation = "planted_crash_traced"
    result = suite.run(operation)
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
    # So does the replay command, which is also given the same graph as a crash of the plain mode.
    with EventFile(suite.root / "again" / "events", "main", started()) as file:
        file.write(crash)
        file.write(replace(crash, mode=PLAIN.mode))
    monkeypatch.setenv("PYTHONPATH", str(suite.root / "plant"))
    assert main(["replay", "--json", str(suite.root / "again")]) == 1
    assert {one["name"]: (one["state"], one["message"]) for one in json.loads(capsys.readouterr().out)["findings"]} == {
        crash.name: ("still wrong", f"killed by SIGABRT at the derivative of order 1 ({crash.taken})"),
        replace(crash, mode=PLAIN.mode).name: ("fixed", "it ended normally"),
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("ends", "code", "workers", "told"),
    [
        ("abort", -6, (), r"new crash: crash-order1-\S+: in a fresh process: killed by SIGABRT at node 1, fused_stop"),
        ("hang", 1, TWO, rf"new hang: hang-order1-\S+: in a fresh process: no end within {LIMIT} s at"),
    ],
    ids=["abort", "hang"],
)
def test_what_ended_a_process_in_a_project_s_own_operation_is_kept_until_a_run_knows_the_operation(
    project: Suite, ends: str, code: int, workers: tuple[str, ...], told: str
) -> None:
    limit = f"--gradcheck-limit={LIMIT}"
    result = project.run(ends, "--gradcheck-ops=fused_stop", "-k", "test_operation", limit)
    assert result.returncode == code, result.stdout + result.stderr
    (record,) = (project.reports / "running").glob("*.json")
    conftest = project.root / "conftest.py"
    conftest.rename(project.root / "set_aside.py")
    conftest.write_text(ANOTHER)
    result = project.run(ends, "--gradcheck-ops=fused_other", "-k", "test_registration", limit)
    assert f"note: {record}: a process ended on a graph with 'fused_stop', which is not registered" in result.stdout
    assert record.exists()
    (project.root / "set_aside.py").rename(conftest)
    result = project.run(ends, "--gradcheck-ops=fused_stop", "-k", "test_project", limit, *workers)
    assert re.search(told, result.stdout), result.stdout + result.stderr
    assert not record.exists()
    texts = [path.read_text() for path in (project.reports / "events").iterdir()]
    (events,) = (text for text in texts if f'"event": "{told.split()[1].rstrip(":")}"' in text)
    assert '"operations": ["fused_stop"]' in events
