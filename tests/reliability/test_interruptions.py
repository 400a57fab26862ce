"""Runs that are killed or interrupted: what was printed is on disk, no file is half written, the next run works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import slices
from tests.reliability.conftest import LATE, LIMIT, ONE, TWO, Suite


def wait_until_hanging(suite: Suite, running: subprocess.Popen[str]) -> None:
    """Waits until one finding is written and a process runs the graph that hangs."""
    while not (suite.findings() and (suite.root / "hanging").exists()):
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.05)


def printed(output: str) -> list[str]:
    """The files that a run reports as written."""
    return [line.removeprefix("written: ") for line in output.splitlines() if line.startswith("written: ")]


@slices.parametrized("workers", [(), TWO], slices.every(2))
def test_after_kill_9_of_everything_the_next_run_has_it_all(suite: Suite, workers: tuple[str, ...]) -> None:
    running = suite.start("planted_wrong,planted_hang", *workers)
    wait_until_hanging(suite, running)
    os.killpg(running.pid, signal.SIGKILL)
    output, _ = running.communicate()
    before = suite.findings()
    assert before
    assert all(Path(path).is_file() for path in printed(output))
    assert "was killed: here is what it had found" in (suite.reports / "index.html").read_text()
    result = suite.run("planted_wrong", f"--gradcheck-limit={LIMIT}")
    assert result.returncode == 1, result.stdout
    assert suite.findings() == before
    # A process that is killed while it writes leaves a temporary file, or half a last line, which is named.
    assert suite.whole(killed=True)
    assert not list((suite.reports / "running").glob("*"))


@slices.parametrized("workers", [ONE, TWO, ()], slices.every(3))
def test_ctrl_c_keeps_what_was_found_and_says_how_to_go_on(suite: Suite, workers: tuple[str, ...]) -> None:
    running = suite.start("planted_wrong,planted_hang", *workers)
    wait_until_hanging(suite, running)
    os.killpg(running.pid, signal.SIGINT)
    goes_on(suite, running)


@slices.parametrized("workers", [(), TWO], slices.every(2))
def test_kill_ends_a_run_as_ctrl_c_does(suite: Suite, workers: tuple[str, ...]) -> None:
    running = suite.start("planted_wrong,planted_hang", *workers)
    wait_until_hanging(suite, running)
    os.kill(running.pid, signal.SIGTERM)
    goes_on(suite, running)


@pytest.mark.exhaustive
def test_what_a_worker_was_running_that_does_not_end_after_ctrl_c_is_not_called_a_crash(suite: Suite) -> None:
    # xdist kills it after ten seconds; the next run would run its graph again, as one that may have killed it.
    running = suite.start("planted_wrong,planted_hang", *TWO, STUBBORN="1")
    wait_until_hanging(suite, running)
    os.killpg(running.pid, signal.SIGINT)
    output = goes_on(suite, running)
    assert "a process ended" not in output, output
    assert not suite.told.crashes + suite.told.hangs, output


@pytest.mark.exhaustive
def test_ctrl_c_while_a_finding_is_run_again_keeps_it_and_names_it(suite: Suite) -> None:
    # No test has reported anything to the controller by then.
    output = goes_on(suite, suite.start("planted_wrong", *TWO, CTRL_C="1"))
    (name,) = suite.findings()
    assert f"reports/{name}" in output


def goes_on(suite: Suite, running: subprocess.Popen[str]) -> str:
    """The output of an interrupted run, after checking that it printed and left all that it must."""
    output, _ = running.communicate(timeout=LATE)
    assert suite.findings(), output
    assert all(Path(path).is_file() for path in printed(output)), output
    assert "interrupted: all that was found is in reports. To go on: python -m pytest" in output, output
    assert not list((suite.reports / "running").glob("*")), output
    assert "interrupted" in {finished.how.value for finished in suite.told.finished}, output
    assert suite.whole(), output
    page = (suite.reports / "index.html").read_text()
    assert "was killed" not in page
    assert all(f'href="{name.removesuffix(".json")}.html"' in page for name in suite.findings())
    return output
