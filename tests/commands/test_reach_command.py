"""`python -m gradcheck reach`: hunts in a process of its own, and shows which of TensorFlow's gradients ran."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gradcheck import documents
from gradcheck.hunt.census import census
from gradcheck.hunt.commands import cli, reach_command
from gradcheck.hunt.gradient_run import GradientRun
from gradcheck.hunt.report.gradient_reach import RunReach, reach_of
from tests import slices

TEST = "tests/properties/test_operations.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture
def recorded(folder: Path, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run with few operations, which the first test that needs it makes."""
    if not (folder / "gradients").is_dir():
        options = ("--ops", "reciprocal,cumsum", "--processes", 0, "--reports", folder, "--profile", "ci")
        with monkeypatch.context() as patched:
            patched.chdir(Path(__file__).parents[2])
            said = call("reach", TEST, *options)
        assert said.code == 0, said.out + said.err
    return folder


@pytest.fixture(scope="module", autouse=True)
def _each_run_is_held_against_the_source_once() -> Iterator[None]:
    """Parses TensorFlow's hundreds of functions once, since nearly all tests read the same run."""
    held: list[tuple[GradientRun, RunReach]] = []

    def once(run: GradientRun) -> RunReach:
        for before, reach in held:
            if before == run:
                return reach
        held.append((run, reach_of(run)))
        return held[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach_command, "reach_of", once)
        yield


def test_a_run_shows_what_it_reached(recorded: Path, call: Callable[..., Any]) -> None:
    said = call("reach", "--read", "--reports", recorded)
    assert said.code == 0
    judged = re.search(r"gradients checkable by differences, at first order +(\d+) of 346", said.out)
    assert judged is not None
    assert 2 <= int(judged[1]) < 346
    assert re.search(r"differentiated again +[1-9]", said.out)
    assert "never reached: " in said.out
    assert "claimed by the catalogue" not in said.out
    assert f"report: {recorded / 'index.html'}" in said.out
    assert said.next == f"python -m gradcheck reach --read --all --reports {recorded}"
    assert call(*said.next.split()[3:]).next == f"python -m gradcheck coverage {recorded}"
    both = call("reach", "--read", "--runs", 2, "--reports", recorded)
    assert both.next == f"python -m gradcheck reach --read --all --runs 2 --reports {recorded}"


def test_what_never_ran_is_told_with_the_reason(recorded: Path, call: Callable[..., Any]) -> None:
    said = call("reach", "--read", "--all", "--reports", recorded)
    assert re.search(r"never ran, and not expected to: \d+ of \d+ lines and \d+ of \d+ branches", said.out)
    rows = call("reach", "--read", "--all", "--json", "--reports", recorded).json["gradients"]
    (reciprocal,) = (row for row in rows if row["operation"] == "Reciprocal")
    assert reciprocal["reasons"] == {}
    assert any(row["reasons"] for row in rows)
    assert "Ceil (piecewise constant: gradient is None or zero), " in said.out


def test_several_runs_are_put_together(recorded: Path, call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "events").symlink_to(recorded / "events")
    (tmp_path / "gradients").mkdir()
    (path,) = (recorded / "gradients").glob("*.json")
    last = documents.read(path, GradientRun, "a run")
    other = next(name for name, row in census().items() if row.reachable and name not in last.first)
    before = GradientRun.of(last.tensorflow, {other}, set(), {})
    (tmp_path / "gradients" / "20200101-000000-1-main.json").write_text(documents.to_text(before))
    (tmp_path / "gradients" / path.name).write_bytes(path.read_bytes())

    def reached(runs: int) -> set[str]:
        said = call("reach", "--read", "--json", "--runs", runs, "--reports", tmp_path).json
        assert len(said["runs"]) == runs
        return {row["operation"] for row in said["gradients"] if row["first"]}

    assert other not in reached(1)
    assert reached(2) == reached(1) | {other}


def without_cumsum(recorded: Path, folder: Path, *names: str) -> None:
    """The recorded run in another folder, without the gradient of Cumsum; also as runs with these names."""
    (folder / "events").symlink_to(recorded / "events")
    (folder / "gradients").mkdir()
    (path,) = (recorded / "gradients").glob("*.json")
    data = documents.parse(path.read_text())
    for order in ("first", "second"):
        data[order].remove("Cumsum")
    for name in (path.name, *names):
        (folder / "gradients" / name).write_text(documents.to_text(data))


def test_what_an_earlier_run_drew_counts_among_several(
    recorded: Path, call: Callable[..., Any], tmp_path: Path
) -> None:
    """The last of two runs drew nothing; the one before claims a gradient that never ran."""
    without_cumsum(recorded, tmp_path, "99990101-000000-1-main.json")
    claimed = [
        call("reach", "--read", "--json", "--runs", runs, "--reports", tmp_path).json["claimed_in_vain"]
        for runs in (1, 2)
    ]
    assert claimed == [[], ["Cumsum of cumsum"]]


def test_the_page_of_a_later_run_stays(recorded: Path, call: Callable[..., Any], tmp_path: Path) -> None:
    shutil.copytree(recorded, tmp_path / "reports")
    (events,) = (tmp_path / "reports" / "events").glob("*-main.jsonl")
    page = tmp_path / "reports" / "index.html"
    page.write_text("of the newest run")
    said = call("reach", "--read")
    assert (said.code, f"report: {page.relative_to(tmp_path)}" in said.out) == (0, True)
    assert page.read_text() != "of the newest run"
    later = "99990101-000000-1-main.jsonl"
    shutil.copy(events, events.with_name(later))
    page.write_text("of the newest run")
    said = call("reach", "--read")
    assert (said.code, said.next) == (0, "python -m gradcheck reach --read --all")
    assert "note: reports/index.html is of a later run, and stays" in said.out
    assert "report: " not in said.out
    assert page.read_text() == "of the newest run"


def test_the_run_s_page_has_the_lines_that_never_ran(recorded: Path, call: Callable[..., Any]) -> None:
    call("reach", "--read", "--reports", recorded)
    page = (recorded / "index.html").read_text()
    assert "Gradients of TensorFlow" in page
    assert "math_grad._ReciprocalGrad" in page
    assert re.search(r"<code>\d+: x = op.inputs\[0\]", page)
    assert re.search(r"<code>\d+: raise \w+\(</code>\s*<span class=\"soft\">an exception is raised</span>", page)


def test_machines_get_all_of_it(recorded: Path, call: Callable[..., Any]) -> None:
    said = call("reach", "--read", "--all", "--json", "--reports", recorded).json
    rows = {row["operation"]: row for row in said["gradients"]}
    assert (rows["Cumsum"]["first"], rows["Cumsum"]["second"], rows["Cumsum"]["missing"]) == (True, True, [])
    assert all(row["lines"][0] > 0 for row in rows.values() if row["first"])
    assert any(row["lines"][0] == 0 for row in rows.values() if not row["first"])
    assert said["claimed_in_vain"] == []


def test_a_claim_that_never_ran_is_named(recorded: Path, call: Callable[..., Any], tmp_path: Path) -> None:
    without_cumsum(recorded, tmp_path)
    said = call("reach", "--read", "--reports", tmp_path)
    assert said.code == 1
    assert "claimed by the catalogue, but never run: Cumsum of cumsum" in said.out


@slices.parametrized(("ops", "code"), [(("--ops", "sin"), 4), (("--ops", "nosuchop"), 4), ((), 0)], slices.every(2))
def test_a_hunt_that_records_nothing_shows_nothing_of_an_earlier_one(
    call: Callable[..., Any], tmp_path: Path, ops: tuple[str, ...], code: int
) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")
    earlier(tmp_path)
    said = call("reach", "test_nothing.py", *ops, "--processes", 0, "--profile", "default", "--reports", ".")
    assert said.code == 2
    assert f"pytest ended with exit code {code}, and recorded no gradients in gradients; name TESTS" in said.err
    assert "lines of them" not in said.out


@pytest.mark.parametrize("events", ["missing", "foreign", "a link"])
def test_events_that_cannot_be_read_are_named(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: str
) -> None:
    earlier(tmp_path)
    monkeypatch.setattr(reach_command, "reach_of", lambda _: None)  # its result is not shown
    (tmp_path / "elsewhere.jsonl").write_text('{"event": "applause"}\n')
    path = tmp_path / "events" / "a-main.jsonl"
    match events:
        case "foreign":
            path.parent.mkdir()
            (tmp_path / "elsewhere.jsonl").rename(path)
        case "a link":
            path.parent.mkdir()
            path.symlink_to(tmp_path / "elsewhere.jsonl")
    said = call("reach", "--read", "--reports", tmp_path)
    assert said.code == 2
    complaint = {
        "missing": f"{path.parent}: no such folder",
        "foreign": f"{path}: line 1: not an event of this project",
        "a link": f"{path}: is a symbolic link",
    }
    assert complaint[events] in said.err
    assert "name another folder of a run's reports with --reports DIR" in said.err


def test_a_read_only_folder_is_named(call: Callable[..., Any], recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("gradcheck.files._created_beside", refuse)
    said = call("reach", "--read", "--reports", recorded)
    assert said.code == 2
    assert f"{recorded}: nothing can be written there ([Errno 30] Read-only file system)" in said.err
    assert "--reports DIR" in said.err


def earlier(folder: Path) -> None:
    """Puts the record of an earlier run into a folder of reports."""
    (folder / "gradients").mkdir()
    run = GradientRun.of(cli.release(), {"Sin"}, set(), {})
    (folder / "gradients" / "a-main.json").write_text(documents.to_text(run))


INTERRUPTED = """
import subprocess, sys
from gradcheck.hunt.commands import reach_command

child = '''
import signal, sys, time
try:
    print("hunting", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(float(sys.argv[1]))
    sys.exit("kept")
'''
print("code", reach_command._returncode(subprocess.Popen([sys.executable, "-c", child, sys.argv[1]])), flush=True)
"""


@pytest.mark.parametrize(("takes", "told"), [("2", ["code 1", "kept"]), ("600", ["code -9"])])
def test_ctrl_c_leaves_pytest_the_time_to_keep_what_was_found_and_a_second_one_ends_it(
    takes: str, told: list[str]
) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, takes],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "hunting\n"
    os.killpg(running.pid, signal.SIGINT)
    while takes == "600" and running.poll() is None:
        time.sleep(1.0)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGINT)
    output, _ = running.communicate()
    assert sorted(output.splitlines()) == told


def test_tests_that_are_not_there_are_named(call: Callable[..., Any]) -> None:
    said = call("reach", "tests/elsewhere")
    assert said.code == 2
    assert "tests/elsewhere: no such tests here" in said.err


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        *(("--minutes", value, "a number above 0") for value in ("0", "-1", "nan", "inf")),
        *(("--runs", value, "an integer of at least 1") for value in ("0", "-3", "2.5", "two")),
    ],
)
def test_a_number_that_is_none_is_refused(call: Callable[..., Any], option: str, value: str, expected: str) -> None:
    said = call("reach", f"{option}={value}", "--read")
    assert said.code == 2
    assert f"{option}: '{value}' was given; expected {expected}" in said.err


def test_nothing_that_was_recorded_is_an_error(call: Callable[..., Any], tmp_path: Path) -> None:
    said = call("reach", "--read", "--reports", tmp_path)
    assert said.code == 2
    assert "nothing was recorded there" in said.err


@pytest.mark.parametrize("text", ["{", '{"format": "gradcheck gradient run"}', "[]"])
def test_a_file_that_is_something_else_is_refused(call: Callable[..., Any], tmp_path: Path, text: str) -> None:
    (tmp_path / "gradients").mkdir()
    (tmp_path / "gradients" / "a-main.json").write_text(text)
    said = call("reach", "--read", "--reports", tmp_path)
    assert said.code == 2
    assert "take the file away" in said.err


def test_a_run_of_another_release_is_refused(call: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "gradients").mkdir()
    run = GradientRun.of("1.15.0", set(), set(), {})
    (tmp_path / "gradients" / "a-main.json").write_text(documents.to_text(run))
    said = call("reach", "--read", "--reports", tmp_path)
    assert said.code == 2
    assert "TensorFlow 1.15.0" in said.err
