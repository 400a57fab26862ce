"""The same seed gives the same findings, byte for byte, for any number of workers; two simultaneous runs do not mix."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.run import HuntRun, read
from tests.reliability.conftest import LATE, ONE, TWO, Suite

TIMED = ("index.html", "summary.md")
"""They show examples per second."""


def timeless(run: HuntRun) -> Any:
    """The whole content of a run except for times."""
    operations = tuple(replace(done, seconds=0.0) for done in run.operations)
    return (
        {done.seed for done in run.started},
        operations,
        [Report.of(found) for found in run.findings],
        run.crashes,
        run.hangs,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("workers", "planted"), [(ONE, "planted_wrong,sin"), (TWO, "planted_wrong,sin,planted_wrong_too,exp")]
)
def test_workers_and_none_find_the_same(suite: Suite, tmp_path: Path, workers: tuple[str, ...], planted: str) -> None:
    runs = {}
    for name, options in {"none": (), "some": workers}.items():
        shutil.rmtree(suite.root / ".hypothesis", ignore_errors=True)
        result = suite.run(planted, "--hypothesis-seed=7", f"--gradcheck-reports={name}", *options)
        assert result.returncode == 1, result.stdout
        folder = tmp_path / name
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in TIMED}
        runs[name] = (files, timeless(read(folder / "events")))
    assert {name.rpartition(".")[2] for name in runs["none"][0]} >= {"json", "md", "py"}
    assert len([name for name in runs["none"][0] if name.endswith(".json")]) == planted.count("wrong")
    assert runs["some"] == runs["none"]


@pytest.mark.exhaustive
def test_two_runs_at_once_in_one_folder(suite: Suite) -> None:
    running = [suite.start("planted_wrong,sin") for _ in range(2)]
    outputs = [one.communicate(timeout=LATE)[0] for one in running]
    assert [one.returncode for one in running] == [1, 1], outputs
    assert suite.whole()
    assert len(suite.findings()) == 1
    assert len(list((suite.reports / "events").glob("*.jsonl"))) == 2
    assert suite.told.coverage.examples("sin") == 20
    assert not list((suite.reports / "running").glob("*"))
