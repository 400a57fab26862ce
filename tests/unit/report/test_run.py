from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from gradcheck.autodiff.mode import Mode
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.events import (
    Crash,
    Ending,
    Event,
    EventFile,
    FindingMade,
    Finished,
    KnownReplayed,
    OperationDone,
    Started,
    State,
    to_line,
)
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.run import RUNS, Earlier, HuntRun, merge, read, read_earlier

SIN = Graph((Input((1,), (0.5,)),), (Node.of("sin", 0),))


@pytest.fixture
def started(machine: Environment) -> Started:
    return Started(machine, "dev", "7", "1/1", ("sin",))


def written(folder: Path, started: Started, worker: str, *events: Event) -> Path:
    with EventFile(folder, worker, started) as file:
        for event in events:
            file.write(event)
    return file.path


def lines(run: HuntRun) -> list[str]:
    return [to_line(event) for event in run.events()]


def test_the_counts_of_all_processes_are_added_up(tmp_path: Path, started: Started) -> None:
    written(tmp_path, started, "gw0", OperationDone("sin", 1, {"agree": 3}, 4, 1, 0.5, 1e-9))
    done = OperationDone("sin", 1, {"agree": 2, "mismatch": 1}, 3, 0, 0.25, 1e-7, {"reverse, XLA": 1})
    written(tmp_path, started, "gw1", done, OperationDone("cos", 1, {"agree": 1}, 1, 0, 0.0), done)
    run = read(tmp_path)
    assert run.operations == (
        OperationDone("cos", 1, {"agree": 1}, 1, 0, 0.0, None),
        OperationDone("sin", 1, {"agree": 7, "mismatch": 2}, 10, 1, 1.0, 1e-7, {"reverse, XLA": 2}),
    )
    assert run.coverage.at("sin", 1, "agree") == 7
    assert run.coverage.examples() == 10
    assert run.coverage.modes == {("sin", 1, "reverse, XLA"): 2}
    assert run.started == (started,)
    assert run.remarks == ()


def test_earlier_runs_are_the_last_ones_before_a_run_with_its_tensorflow(tmp_path: Path, started: Started) -> None:
    done = OperationDone("sin", 1, {"agree": 3}, 3, 0, 0.5)
    old = structs.replace(started, environment=structs.replace(started.environment, tensorflow="2.9.0"))
    names = [f"20260101-0000{second:02}-{second:x}ab" for second in range(RUNS + 5)]
    for name in names:
        written(tmp_path, started, f"{name}-gw0", done)
        written(tmp_path, started, f"{name}-gw1", done)
    written(tmp_path, old, f"{names[-1]}a-main", done)  # of another release
    written(tmp_path, started, f"{names[-1]}b-main")  # which exercised nothing
    written(tmp_path, started, "merged", done)
    release = {started.environment.tensorflow}
    assert read_earlier(tmp_path, names[0], release) == Earlier()
    few = read_earlier(tmp_path, names[3], release)
    assert (few.runs, [(each.operation, each.counts) for each in few.operations]) == (3, [("sin", {"agree": 18})])
    last = read_earlier(tmp_path, "20270101-000000-ab", release)
    assert (last.runs, last.operations[0].counts, last.remarks) == (RUNS, {"agree": 6 * RUNS}, ())
    assert read_earlier(tmp_path, "20270101-000000-ab", {"2.9.0"}).operations[0].counts == {"agree": 3}


def test_a_damaged_earlier_run_becomes_a_remark(tmp_path: Path, started: Started) -> None:
    done = OperationDone("sin", 1, {"agree": 3}, 3, 0, 0.5)
    for worker in ("20260101-000000-ab-gw0", "20260101-000000-ab-gw1", "20260102-000000-ab-gw0"):
        written(tmp_path, started, worker, done)
    half = tmp_path / "20260101-000000-ab-gw0.jsonl"
    half.write_text(half.read_text() + to_line(done)[:20])  # as a killed process leaves it: no news
    broken = tmp_path / "20260102-000000-ab-gw0.jsonl"
    broken.write_text(broken.read_text() + "nonsense\n")
    (tmp_path / "20260103-000000-ab-gw0.jsonl").symlink_to(half)
    found = read_earlier(tmp_path, "20270101-000000-ab", {started.environment.tensorflow})
    assert (found.runs, found.operations[0].counts) == (1, {"agree": 6})
    link, nonsense = found.remarks
    assert "is a symbolic link" in link
    assert re.search("an earlier run is not counted: .*20260102.*line 3: not an event of this project", nonsense)


def test_a_finding_is_there_once_as_its_smallest_graph(started: Started, report: Report) -> None:
    found = report.finding
    larger = Graph((Input((3,), (0.0, 2.0, 3.0)),), found.graph.nodes)
    big = Report.of(replace(found, graph=larger, values=(), elements=(), curve=None))
    for order in ([report, big, report], [big, report]):
        run = merge(map(FindingMade, order))
        assert [each.graph for each in run.findings] == [found.graph]


def test_the_order_of_the_processes_does_not_matter(started: Started, report: Report) -> None:
    events: list[Event] = [
        started,
        structs.replace(started, seed="8"),
        FindingMade(report),
        FindingMade(Report.of(replace(report.finding, taken=Mode(mode="tf.function")))),
        *(OperationDone("sin", 1, {"agree": n}, n, 0, 0.1 * n, 10.0**-n) for n in range(9)),
        Crash.of("sin", 1, SIN, "killed by SIGABRT"),
        Crash.of("sin", 1, SIN, "killed by SIGSEGV"),
        KnownReplayed("a", State.FIXED, "2.21.0"),
        KnownReplayed("a", State.STILL, "2.21.0"),
        KnownReplayed("a", State.FIXED, "2.20.0"),
        Finished(Ending.COMPLETED, 10, 2.0),
        Finished(Ending.COMPLETED, 10, 2.0),
    ]
    told = lines(merge(events))
    for seed in range(10):
        random.Random(seed).shuffle(events)
        assert lines(merge(events)) == told
    run = merge(events)
    assert lines(merge(run.events())) == told
    assert [(known.release, known.state) for known in run.known] == [("2.20.0", State.FIXED), ("2.21.0", State.STILL)]
    assert len(run.finished) == 2
    assert len(run.crashes) == 1
    assert len(run.findings) == 2


def test_several_folders_make_one_run(tmp_path: Path, started: Started) -> None:
    for shard in (1, 2):
        event = OperationDone("sin", 1, {"agree": shard}, shard, 0, 1.0)
        written(tmp_path / str(shard), structs.replace(started, shard=f"{shard}/2"), "main", event)
    run = read(tmp_path / "1", tmp_path / "2")
    assert run.coverage.examples("sin") == 3
    assert [start.shard for start in run.started] == ["1/2", "2/2"]


def test_a_taken_name_gets_a_number(tmp_path: Path, started: Started) -> None:
    names = [written(tmp_path, started, "gw0").name for _ in range(3)]
    assert names == ["gw0.jsonl", "gw0-2.jsonl", "gw0-3.jsonl"]


@pytest.mark.parametrize("worker", ["", "../gw0", "a/b", ".hidden", "a" * 61, "gw0\n"])
def test_a_worker_name_that_is_no_plain_word_is_refused(tmp_path: Path, started: Started, worker: str) -> None:
    with pytest.raises(ValueError, match="worker was"):
        EventFile(tmp_path / "events", worker, started)
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize("kept", [1, 20])
def test_a_half_written_last_line_is_left_out_and_named(tmp_path: Path, started: Started, kept: int) -> None:
    path = written(tmp_path, started, "gw1", OperationDone("sin", 1, {"agree": 3}, 3, 0, 0.5))
    half = to_line(OperationDone("sin", 1, {"agree": 5}, 5, 0, 0.5))[:kept]
    path.write_text(path.read_text() + half)
    run = read(tmp_path)
    assert run.coverage.examples() == 3
    assert run.remarks == ("gw1.jsonl: line 3 is half-written; its process was killed",)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "gw1.jsonl").touch()
    assert read(tmp_path).remarks == ("gw1.jsonl is empty; its process was killed, or its disk was full",)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"event": "finished", "how": "completed", "examples": 1, "seconds": 1}\n', "line 1: .*expected 'started'"),
        ("{started}\nnonsense\n{started}\n", "line 2: .*not JSON"),
        ("{started}\n" + "x" * 1_000_010 + "\n", "line 2: .*a line of 100000"),
        ("{started}\n" + "x" * 3_000_000, "line 2: .*a line of 100000"),
        ("{started}\n\udc80\n", "line 2: .*not JSON"),
        (
            '{started}\n{"event": "known", "name": "\udc80", "state": "still wrong", "release": "2"}\n',
            "line 2: .*no lone surrogates",
        ),
    ],
)
def test_a_foreign_line_is_refused_with_its_place(
    tmp_path: Path, started: Started, content: str, complaint: str
) -> None:
    text = content.replace("{started}", to_line(started))
    (tmp_path / "gw0.jsonl").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=rf"gw0.jsonl: {complaint}"):
        read(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        read(tmp_path / "events")


def test_a_full_disk_leaves_no_half_line(
    tmp_path: Path, started: Started, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, full = os.write, [True]

    def write(descriptor: int, data: bytes) -> int:
        if not full[0]:
            return real(descriptor, data)
        if len(data) > 100:
            return real(descriptor, data[:100])
        raise OSError(28, "No space left on device")

    file = EventFile(tmp_path, "gw0", started)
    monkeypatch.setattr("gradcheck.hunt.events.os.write", write)
    with pytest.raises(OSError, match="No space left"):
        file.write(FindingMade(report))
    full[0] = False
    file.write(FindingMade(report))
    file.close()
    run = read(tmp_path)
    assert len(run.findings) == 1
    assert run.remarks == ()


def test_a_disk_that_is_full_from_the_first_event_on_leaves_no_file(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr("gradcheck.hunt.events.os.write", full)
        with pytest.raises(OSError, match="No space left"):
            EventFile(tmp_path, "gw0", started)
    assert read(tmp_path).remarks == ()
    assert written(tmp_path, started, "gw0").name == "gw0.jsonl"


def test_what_was_written_survives_a_killed_process(tmp_path: Path, started: Started, report: Report) -> None:
    source = f"""
import os, signal
from gradcheck.hunt.events import EventFile
from gradcheck.hunt.events import from_line
file = EventFile({str(tmp_path)!r}, "gw0", from_line({to_line(started)!r}))
file.write(from_line({to_line(FindingMade(report))!r}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", source], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    run = read(tmp_path)
    assert [found.name for found in run.findings] == [report.finding.name]
    assert run.finished == ()


def test_reading_and_writing_events_imports_no_tensorflow() -> None:
    code = "import sys, gradcheck.hunt.report.run, gradcheck.hunt.events; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
