from __future__ import annotations

import dataclasses
import math
import os
import time
from pathlib import Path

import pytest

from gradcheck import files
from gradcheck.hunt.configuration import RunConfiguration, Shard
from gradcheck.hunt.events import Ending, EventFile, Finished, OperationDone, Started
from gradcheck.hunt.report.run import read
from gradcheck.hunt.running.aggregate import STALE, Aggregate
from gradcheck.operations.catalogue import CATALOGUE
from tests.machine import MACHINE


def aggregate(folder: Path) -> Aggregate:
    return Aggregate(RunConfiguration("a", folder, Shard(), None, 60.0, 60.0, None, math.inf, {}, "7"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (Ending.INTERRUPTED, [(Ending.INTERRUPTED, 5, 2.0)]),
        (Ending.COMPLETED, [(Ending.COMPLETED, 5, 2.0), (Ending.INTERRUPTED, 0, 0.0)]),
    ],
)
def test_an_interrupted_run_says_so_once_and_its_seconds_are_those_of_the_processes_that_ran(
    tmp_path: Path, said: Ending, told: list[tuple[Ending, int, float]]
) -> None:
    run = aggregate(tmp_path)
    with EventFile(run.configuration.events, "a-gw0", Started(MACHINE, "dev", "7", "1/1", ("sin",))) as file:
        file.write(OperationDone("sin", 1, {"agree": 5}, 5, 0, 2.0))
        file.write(Finished(said, 5, 2.0))
    run.close(interrupted=True)
    assert not run.remarks
    finished = read(run.configuration.events).finished
    assert [(event.how, event.examples, event.seconds) for event in finished] == told
    assert run.page is not None
    assert "2.5" in run.page.read_text(), "examples a second"


def test_a_run_that_goes_on_has_a_page_of_what_it_has_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, page = aggregate(tmp_path), tmp_path / "index.html"
    run.show()
    assert not page.exists()  # no process has begun
    with EventFile(run.configuration.events, "a-gw0", Started(MACHINE, "dev", "7", "1/1", ("sin",))) as file:
        run.show()
        assert "still going on, or was killed" in page.read_text()
        file.write(OperationDone("sin", 1, {"agree": 1234}, 1234, 0, 2.0))
        run.show()
        assert "1,234" not in page.read_text()  # not with every test
        run.findings["sin-order1"] = {}
        run.show()
        assert "1,234" in page.read_text()
        file.write(OperationDone("sin", 2, {"agree": 1234}, 1234, 0, 2.0))
        monkeypatch.setattr("gradcheck.hunt.running.aggregate.PAGE_EVERY", 0.0)
        run.show()
        assert "2,468" in page.read_text()
        (run.configuration.events / "a-broken.jsonl").write_text("nonsense\n")
        run.show()  # says nothing: the end of the run does
        (run.configuration.events / "a-broken.jsonl").unlink()
        file.write(Finished(Ending.COMPLETED, 5, 2.0))
    run.findings.clear()
    run.close(interrupted=False)
    assert run.page == page
    assert "was killed" not in page.read_text()


def test_the_runs_before_it_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcheck.hunt.running.aggregate.PAGE_EVERY", 0.0)
    run, page = aggregate(tmp_path), tmp_path / "index.html"
    start = Started(MACHINE, "dev", "7", "1/1", ("sin",))
    for day in (1, 2):
        with EventFile(run.configuration.events, f"2026010{day}-000000-ab-gw0", start) as file:
            file.write(OperationDone("sin", day, {"agree": 5}, 5, 0, 2.0))
    (run.configuration.events / "20260103-000000-ab-gw0.jsonl").write_text("nonsense\n")
    with EventFile(run.configuration.events, "a-gw0", start):
        run.show()
        told = "looked at in this run at order 1, 0 of 1 at order 2; with the 2 runs before it, 1 and 1."
        assert told in page.read_text()
        assert "an earlier run is not counted" in page.read_text()
        for path in run.configuration.events.glob("2026*"):
            path.unlink()
        page.unlink()
        run.show()
        assert told in page.read_text()


def test_progress_counts_the_operations_of_a_run_with_a_budget(tmp_path: Path) -> None:
    run = aggregate(tmp_path)
    run.progress.total, run.progress.began = 9000, 0.0
    counts = [
        ["sin", 1, "agree", 3],
        ["cos", 1, "invalid", 1],
        ["tan", 2, "cannot run", 1],
        ["(random graphs)", 1, "agree", 1],
    ]
    run.add("a test", {"outcomes": counts}, skipped=False)
    run.progress.done = 90
    assert run.progress.line(now=3.0).startswith("gradcheck: 90 of 9,000 tests, 6 examples, 2 a second, about 5 min")
    run.progress.deadline = 120.0
    said = f"gradcheck: 1 of {len(CATALOGUE):,} operations, 6 examples, 2 a second, about 2 min left"
    assert run.progress.line(now=3.0) == said
    run.configuration = dataclasses.replace(run.configuration, operations=("sin", "cos"))
    run.add("another", {"outcomes": []}, skipped=False)
    assert "1 of 2 operations" in run.progress.line(now=3.0)


def test_old_temporary_files_are_taken_away_and_nobody_else_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as context:
        context.setattr("gradcheck.files.os.replace", killed)
        context.setattr("gradcheck.files.os.unlink", lambda _: None)
        for name in ("old.json", "new.json"):
            with pytest.raises(SystemExit):
                files.replace(tmp_path / name, "text")
    for name in (".mine.tmp", ".gradcheck-notes.txt", "gradcheck-.tmp"):
        (tmp_path / name).touch()
    for path in tmp_path.iterdir():
        if "new.json" not in path.name:
            os.utime(path, (time.time() - 2 * STALE,) * 2)
    aggregate(tmp_path).recover()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left[1:] == [".gradcheck-notes.txt", ".mine.tmp", "gradcheck-.tmp"]
    assert left[0].startswith(".gradcheck-new.json-")
