from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.running.watch import ProcessRecorder, read, remains

SMALL = Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),))
LARGE = Graph((Input((64,), tuple(map(float, range(64)))),), (Node.of("sin", 0), Node.of("mul", 1, 0)))
COMPLEX = Graph((Input((1,), (2.0 + 1.0j,), "complex128"),), (Node.of("complex_square", 0),))


def test_the_last_note_is_read_back_whole(tmp_path: Path) -> None:
    recorder = ProcessRecorder(tmp_path / "running" / "a.json")
    assert read(recorder.path) is None
    for graph in (SMALL, LARGE, COMPLEX, SMALL):
        before = time.time()
        recorder.note("sin", 2, graph)
        note = read(recorder.path)
        assert note is not None
        assert (note.operation, note.order, note.graph) == ("sin", 2, graph)
        assert before <= note.since <= time.time()
    recorder.rest()
    assert read(recorder.path) is None
    recorder.forget()
    assert not recorder.path.exists()
    recorder.note("sin", 1, SMALL)
    assert not recorder.path.exists()


@pytest.mark.parametrize("damage", ["half", "forged", "empty", "garbage", "link", "missing"])
def test_a_damaged_note_is_none(tmp_path: Path, damage: str) -> None:
    recorder = ProcessRecorder(tmp_path / "a.json")
    recorder.note("sin", 1, SMALL)
    path, text = recorder.path, recorder.path.read_text()
    match damage:
        case "half":
            path.write_text(text[: len(text) // 2])
        case "forged":
            path.write_text(text.replace('"sin"', '"cos"', 1))
        case "empty":
            path.write_text("")
        case "garbage":
            path.write_bytes(b"\xff\xfe\x00")
        case "link":
            path.rename(tmp_path / "b")
            path.symlink_to(tmp_path / "b")
        case "missing":
            path.unlink()
    assert read(path) is None


def test_only_what_a_dead_process_left_remains(tmp_path: Path) -> None:
    alive = ProcessRecorder(tmp_path / "alive.json")
    alive.note("sin", 1, SMALL)
    code = f"""
import os, signal
from pathlib import Path
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.running.watch import ProcessRecorder
recorder = ProcessRecorder(Path({str(tmp_path)!r}, "dead.json"))
recorder.note("exp", 1, Graph((Input((1,), (2.0,)),), (Node.of("exp", 0),)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    (left,) = remains(tmp_path)
    assert left.name == "dead.json"
    note = read(left)
    assert note is not None
    assert note.operation == "exp"
    alive.forget()
    assert list(remains(tmp_path / "missing")) == []


def test_where_the_disk_is_full_nothing_more_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    recorder = ProcessRecorder(tmp_path / "a.json")
    monkeypatch.setattr(os, "pwrite", full)
    recorder.note("sin", 1, SMALL)
    assert not recorder.path.exists()
