"""Failing examples are kept, and tried first: by any worker, on another machine, beside a damaged file."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests import slices
from tests.reliability.conftest import Suite


def only_replay(suite: Suite) -> None:
    """Makes the suite's test draw nothing new from now on."""
    path = suite.root / "tests" / "properties" / "test_planted.py"
    source = path.read_text().replace("import given", "import Phase, given, settings")
    path.write_text(
        source.replace("@given(data=st.data())\n", "@settings(phases=[Phase.reuse])\n@given(data=st.data())\n")
    )


def examples(suite: Suite) -> Path:
    return suite.root / ".hypothesis" / "examples"


@slices.parametrized("workers", [1, 2], slices.every(2))
def test_a_failing_example_is_kept_and_replayed_by_any_worker(suite: Suite, workers: int) -> None:
    result = suite.run("sin,planted_wrong")
    assert result.returncode == 1, result.stdout
    found = list(suite.findings())
    assert len(found) == 1, result.stdout
    assert [path for path in examples(suite).rglob("*") if path.is_file()]
    only_replay(suite)
    shutil.rmtree(suite.reports)
    result = suite.run("planted_wrong,sin", "-n", str(workers), "--dist", "each")
    assert f"{workers} failed, {workers} passed" in result.stdout
    assert list(suite.findings()) == found


@pytest.mark.exhaustive
def test_what_fails_is_found_again_beside_a_damaged_database_and_not_replayed_without_one(suite: Suite) -> None:
    assert suite.run("planted_wrong").returncode == 1
    found = list(suite.findings())
    damage(path for path in examples(suite).rglob("*") if path.is_file())
    shutil.rmtree(suite.reports)
    assert suite.run("planted_wrong").returncode == 1
    assert list(suite.findings()) == found
    only_replay(suite)
    shutil.rmtree(examples(suite))
    assert suite.run("planted_wrong").returncode == 0


def damage(kept: Iterable[Path]) -> None:
    """Puts a folder in the place of every file, garbage and an empty file beside it."""
    for path in list(kept):
        path.unlink()
        path.mkdir()
        for name, data in {"garbage": b"\xff\x00garbage", "empty": b""}.items():
            path.with_name(name).write_bytes(data)


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A real server for this test only."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server is installed (apt install redis-server)")
    pytest.importorskip("redis", reason="the package redis is not installed (pip install 'gradcheck[redis]')")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    try:
        while not _answers(port):
            assert server.poll() is None, "the server has ended"
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_another_machine_replays_what_a_redis_server_keeps(
    suite: Suite, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADCHECK_REDIS", redis_url)
    assert suite.run("planted_wrong").returncode == 1
    found = list(suite.findings())
    # Another machine has neither the folder of examples nor the reports.
    shutil.rmtree(suite.root / ".hypothesis")
    shutil.rmtree(suite.reports)
    only_replay(suite)
    assert suite.run("planted_wrong").returncode == 1
    assert list(suite.findings()) == found
    monkeypatch.delenv("GRADCHECK_REDIS")
    shutil.rmtree(suite.root / ".hypothesis")
    assert suite.run("planted_wrong").returncode == 0


def test_a_redis_server_that_does_not_answer_is_named_at_once(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("redis", reason="the package redis is not installed (pip install 'gradcheck[redis]')")
    monkeypatch.setenv("GRADCHECK_REDIS", "redis://127.0.0.1:1/0")
    result = suite.run("planted_wrong")
    assert result.returncode != 0
    assert "GRADCHECK_REDIS was 'redis://127.0.0.1:1/0'" in result.stdout + result.stderr
    assert "unset GRADCHECK_REDIS" in result.stdout + result.stderr
