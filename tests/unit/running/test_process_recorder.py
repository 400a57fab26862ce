from __future__ import annotations

import faulthandler
import itertools
import math
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from gradcheck.autodiff.mode import MODES, PLAIN
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.configuration import RunConfiguration, Shard
from gradcheck.hunt.running import crashes
from gradcheck.hunt.running.aggregate import Aggregate
from gradcheck.hunt.running.process_recorder import (
    ProcessRecorder,
    RecordError,
    UnknownOperationError,
    Watchdog,
    abandoned,
    read,
)

SMALL = Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),))
LARGE = Graph((Input((64,), tuple(map(float, range(64)))),), (Node.of("sin", 0), Node.of("mul", 1, 0)))
COMPLEX = Graph((Input((1,), (2.0 + 1.0j,), "complex128"),), (Node.of("complex_square", 0),))


def test_the_last_record_is_read_back_whole(tmp_path: Path) -> None:
    recorder = ProcessRecorder(tmp_path / "running" / "a.json")
    assert read(recorder.path) is None
    for mode, graph in zip((PLAIN, *MODES), itertools.cycle((SMALL, LARGE, COMPLEX)), strict=False):
        before = time.time()
        recorder.before("sin", 2, mode, graph)
        example = read(recorder.path)
        assert example is not None
        assert (example.operation, example.order, example.mode, example.graph) == ("sin", 2, mode, graph)
        assert before <= example.since <= time.time()
    recorder.rest()
    assert read(recorder.path) is None
    recorder.remove()
    assert not recorder.path.exists()
    recorder.before("sin", 1, PLAIN, SMALL)
    assert not recorder.path.exists()


@pytest.mark.parametrize("damage", ["half", "forged", "no such mode", "no order", "garbage", "link"])
def test_a_damaged_record_is_told_and_stays(tmp_path: Path, damage: str) -> None:
    """A process has died for an unknown reason, which is not the same as that nothing was running."""
    recorder = ProcessRecorder(tmp_path / "a.json")
    recorder.before("sin", 1, PLAIN, SMALL)
    path, text = recorder.path, recorder.path.read_text()
    match damage:
        case "half":
            path.write_text(text[: len(text) // 2])
        case "forged":
            path.write_text(text.replace('"sin"', '"cos"', 1))
        case "no such mode":
            rewrite(path, '"eager"', '"swift"')
        case "no order":
            rewrite(path, '"order": 1', '"order": 3')
        case "garbage":
            path.write_bytes(b"\xff\xfe\x00")
        case "link":
            path.rename(tmp_path / "b")
            path.symlink_to(tmp_path / "b")
    told = r"a\.json: a process has ended, and what it was running cannot be read \(\w+: .+\); .* or delete the file"
    with pytest.raises(RecordError, match=told):
        read(path)
    run = Aggregate(configuration(tmp_path, "another"))
    run.report_crashes([path])
    assert path.exists()
    assert [remark.startswith(f"{path}: a process has ended") for remark in run.remarks] == [True]


def rewrite(path: Path, before: str, after: str) -> None:
    """Changes a record together with its checksum."""
    data = path.read_text().partition(" ")[2].strip()
    assert data.count(before) == 1
    data = data.replace(before, after)
    path.write_text(f"{zlib.crc32(data.encode()):08x} {data}\n")


@pytest.mark.parametrize("left", ["nothing", "a worker at rest", "no file"])
def test_what_was_running_nothing_is_no_crash(tmp_path: Path, left: str) -> None:
    recorder = ProcessRecorder(tmp_path / "a.json")
    match left:
        case "a worker at rest":
            recorder.before("sin", 1, PLAIN, SMALL)
            recorder.rest()
        case "no file":
            recorder.remove()
    assert read(recorder.path) is None
    run = Aggregate(configuration(tmp_path, "another"))
    run.report_crashes([recorder.path])
    assert (run.remarks, run.crashes, recorder.path.exists()) == ({}, {}, False)


def test_a_record_with_an_operation_that_is_not_registered_here_is_neither_damaged_nor_lost(tmp_path: Path) -> None:
    recorder = ProcessRecorder(tmp_path / "running" / "a.json")
    recorder.before("fused_gate", 1, PLAIN, Graph(SMALL.inputs, (Node.of("fused_gate", 0), Node.of("sin", 1))))
    text = recorder.path.read_text()
    with pytest.raises(UnknownOperationError, match=r"a\.json: .* 'fused_gate', which is not registered here; import"):
        read(recorder.path)
    run = Aggregate(configuration(tmp_path, "another"))
    run.report_crashes([recorder.path])
    assert recorder.path.read_text() == text
    assert ["'fused_gate'" in remark for remark in run.remarks] == [True]
    recorder.path.write_text(text[:-9])
    run.report_crashes([recorder.path])
    assert recorder.path.exists()
    assert len(run.remarks) == 2


def test_what_a_worker_of_this_run_left_is_looked_at_when_its_exit_code_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(crashes, "crash_report", lambda path, *_: looked.append(path.name))
    (tmp_path / "running").mkdir()
    for name in ("20260131-120000-1", "20260131-120000-12"):
        configuration(tmp_path, name).record("gw0").write_text("")
    Aggregate(configuration(tmp_path, "20260131-120000-1")).recover()
    assert looked == ["20260131-120000-12-gw0.json"]


def configuration(folder: Path, name: str) -> RunConfiguration:
    """The configuration of a run of this name, with a limit that does not matter."""
    return RunConfiguration(name, folder, Shard(), None, 60.0, 60.0, None, math.inf, {}, "7")


def test_only_what_a_dead_process_left_is_abandoned(tmp_path: Path) -> None:
    alive = ProcessRecorder(tmp_path / "alive.json")
    alive.before("sin", 1, PLAIN, SMALL)
    code = f"""
import os, signal
from pathlib import Path
from gradcheck.graph import Graph, Input, Node
from gradcheck.autodiff.mode import PLAIN
from gradcheck.hunt.running.process_recorder import ProcessRecorder
recorder = ProcessRecorder(Path({str(tmp_path)!r}, "dead.json"))
recorder.before("exp", 1, PLAIN, Graph((Input((1,), (2.0,)),), (Node.of("exp", 0),)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    (left,) = abandoned(tmp_path)
    assert left.name == "dead.json"
    example = read(left)
    assert example is not None
    assert example.operation == "exp"
    alive.remove()
    assert list(abandoned(tmp_path / "missing")) == []


def test_where_the_disk_is_full_nothing_more_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    recorder = ProcessRecorder(tmp_path / "a.json")
    monkeypatch.setattr(os, "pwrite", full)
    recorder.before("sin", 1, PLAIN, SMALL)
    assert not recorder.path.exists()


def test_the_watchdog_s_clock_is_set_again_every_tenth_of_the_limit_and_stopped_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda limit, **_: calls.append(limit))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: calls.append("stopped"))
    times = iter((0.0, 0.9, 1.0, 1.5, 2.5, 2.6))
    dog = Watchdog(10.0, sys.stderr, lambda: next(times))
    for _ in range(5):
        dog.feed()
    assert calls == [10.0] * 3, "at 0, 1 and 2.5 seconds"
    dog.rest()
    dog.rest()
    assert calls[3:] == ["stopped"]
    dog.feed()
    assert calls[4:] == [10.0]


def test_the_watchdog_ends_what_never_gives_the_interpreter_back() -> None:
    code = """
import sys
from gradcheck.hunt.running.process_recorder import Watchdog
dog = Watchdog(1.0, sys.stderr)
dog.feed()
sum(range(10**12))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
