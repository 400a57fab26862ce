"""The nightly script, in small: a real hunt, its merged report, the issue that it would write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gradcheck.hunt.events import Crash, EventFile, KnownReplayed, State
from gradcheck.hunt.report.run import read
from gradcheck.hunt.running.schedule import load
from tests.reliability.conftest import example, started

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 0.75


def script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of .ci."""
    return subprocess.run(
        [str(ROOT / ".ci" / name), *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_night_in_small_keeps_its_budget_and_remembers_whose_turn_it_was(tmp_path: Path) -> None:
    begin = time.monotonic()
    arguments = ("--profile", "dev", "--ops", "exp,tan", "--workers", "1", "--shard", "1/1", "--seed", "3")
    night = script("nightly", "--minutes", str(MINUTES), *arguments, "--reports", str(tmp_path / "night"))
    minutes = (time.monotonic() - begin) / 60
    assert night.returncode == 0, night.stdout + night.stderr
    assert 0.9 * MINUTES <= minutes <= 1.1 * MINUTES, night.stdout
    run = read(tmp_path / "night" / "events")
    operations = {done.operation for done in run.operations}
    assert {name for name in operations if not name.startswith("(")} <= {"exp", "tan"}
    assert run.known
    assert {event.seed for event in run.started} >= {"3"}
    schedule = load(tmp_path / "night" / "schedule.json")
    assert {event.name for event in run.known} <= {name.rpartition("[")[2].rstrip("]") for name in schedule}
    merged = script("merge", str(tmp_path), str(tmp_path / "merged"), GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert merged.returncode == 0, merged.stdout + merged.stderr
    assert "operations" in (tmp_path / "summary.md").read_text()
    issue = script("rolling-issue", str(tmp_path / "merged"), "--dry-run")
    assert issue.returncode == 0, issue.stderr
    assert "## Known defects (" in issue.stdout


@pytest.fixture
def night(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a merged night with these crashes."""

    def write(number: int, names: list[str]) -> Path:
        folder = tmp_path / f"night{number}"
        with EventFile(folder / "events", "main", started()) as file:
            for name in names:
                file.write(Crash.of(name, 1, example(name), "killed by SIGABRT `rm` <b>"))
            file.write(KnownReplayed("old-defect", State.STILL, "2.21.0"))
            file.write(KnownReplayed("gone-defect", State.FIXED, "2.21.0"))
        return folder

    return write


def fake_gh(folder: Path, source: str) -> str:
    """Puts a program of the name gh into a folder, and returns the PATH on which it comes first."""
    program = folder / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    return os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])


def test_one_issue_is_kept_with_at_most_five_new_findings_a_night(tmp_path: Path, night: Callable[..., Path]) -> None:
    path = fake_gh(
        tmp_path,
        f"""import json, pathlib, sys
state = pathlib.Path({str(tmp_path / "issue.json")!r})
if sys.argv[1:3] == ["issue", "list"]:
    print(state.read_text() if state.exists() else "[]")
elif sys.argv[1:3] in (["issue", "create"], ["issue", "edit"]):
    assert sys.argv[1:3] == (["issue", "edit"] if state.exists() else ["issue", "create"])
    state.write_text(json.dumps([{{"number": 7, "body": sys.stdin.read()}}]))
""",
    )

    def issue(folder: Path) -> str:
        done = script("rolling-issue", str(folder), "--link", "https://example.org/run", PATH=path)
        assert done.returncode == 0, done.stderr
        body: str = json.loads((tmp_path / "issue.json").read_text())[0]["body"]
        return body

    seven = ["sin", "cos", "exp", "tan", "tanh", "sinh", "cosh"]
    first = issue(night(1, seven))
    assert "## New (5)" in first
    assert "2 more are new" in first
    assert first.count("**crash**") == 5
    assert "`rm`" not in first
    assert "## Fixed in TensorFlow (1)\n\n- `gone-defect`" in first
    second = issue(night(2, seven[:-1]))
    assert "## Open (" in second
    assert second.count("**crash**") <= 7
    assert "https://example.org/run" in second
    third = issue(night(3, []))
    assert "Open before, not met tonight" in third
    assert "## New" not in third


def test_nothing_new_and_nothing_fixed_opens_no_issue(tmp_path: Path) -> None:
    with EventFile(tmp_path / "night" / "events", "main", started()) as file:
        file.write(KnownReplayed("old-defect", State.STILL, "2.21.0"))
    path = fake_gh(tmp_path, "import sys\nassert sys.argv[2] == 'list'\nprint('[]')\n")
    assert script("rolling-issue", str(tmp_path / "night"), PATH=path).returncode == 0


def test_a_budget_that_is_none_is_refused() -> None:
    done = script("nightly", "--minutes", "0")
    assert done.returncode == 1
    assert "--minutes was 0.0; expected a number above 0" in done.stderr


def test_events_of_an_earlier_night_are_set_aside(tmp_path: Path) -> None:
    with EventFile(tmp_path / "events", "before", started()):
        pass
    script("nightly", "--minutes", "0.0001", "--reports", str(tmp_path))
    assert [path.name for path in (tmp_path / "events" / "earlier").iterdir()] == ["before.jsonl"]
