"""Full disks and read-only folders: the finding is printed in full, and nothing is half written."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import slices
from tests.reliability.conftest import ONE, Suite

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
ROOM = 2000


def small_files() -> None:
    """Limits files to the size of a started event and a count, as on a disk that fills up."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


def like_everybody() -> None:
    """Takes from root the right to write where the permissions forbid it."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def told_in_full(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    assert "NOT WRITTEN" in result.stdout
    assert "tf.grad_pass_through(tf.square)" in result.stdout
    assert "new finding: planted_wrong" in result.stdout
    assert "note: the events could not be written to" in result.stdout
    assert "total, 1 operations" in result.stdout


def next_run_works(suite: Suite) -> None:
    result = suite.run("planted_wrong")
    assert result.returncode == 1
    assert "NOT WRITTEN" not in result.stdout
    assert suite.findings()
    assert suite.whole()


@pytest.mark.exhaustive
def test_a_folder_that_cannot_be_written_to(suite: Suite) -> None:
    suite.reports.mkdir(mode=0o555)
    told_in_full(suite.run("planted_wrong", preexec_fn=like_everybody))
    assert list(suite.reports.iterdir()) == []
    suite.reports.chmod(0o755)
    next_run_works(suite)


@slices.parametrized("workers", [(), ONE], slices.every(2))
def test_a_disk_that_fills_up(suite: Suite, workers: tuple[str, ...]) -> None:
    told_in_full(suite.run("planted_wrong", *workers, preexec_fn=small_files))
    assert suite.findings() == {}
    assert suite.whole()
    next_run_works(suite)


@pytest.fixture
def full(suite: Suite) -> Iterator[Path]:
    """The folder of reports on a file system of 16 kB with one page left."""
    suite.reports.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(suite.reports)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system cannot be mounted here (that takes root's rights)")
    try:
        (suite.reports / "ballast").write_bytes(bytes(3 * 4096))
        yield suite.reports
    finally:
        subprocess.run(["umount", "-l", str(suite.reports)], check=True)


@pytest.mark.exhaustive
def test_a_full_file_system(suite: Suite, full: Path) -> None:
    told_in_full(suite.run("planted_wrong"))
    assert suite.findings() == {}
    assert [path.name for path in full.rglob("*") if path.suffix in (".tmp", ".new")] == []
