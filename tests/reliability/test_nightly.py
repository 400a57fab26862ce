"""The nightly script, in small: a real hunt, its merged report, the issue that it would write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from gradcheck.graph import literal
from gradcheck.hunt.events import Crash, EventFile, FindingMade, KnownReplayed, State
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.run import read
from gradcheck.hunt.running.aggregate import load
from gradcheck.result import Finding, Kind
from tests.reliability.conftest import LATE, example, started

ROOT = Path(__file__).resolve().parents[2]


def script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of .ci."""
    return subprocess.run(
        [str(ROOT / ".ci" / name), *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=LATE,
    )


def loaded(name: str) -> ModuleType:
    """A script of .ci as a module."""
    loader = SourceFileLoader(name, str(ROOT / ".ci" / name))
    module = ModuleType(loader.name)
    module.__file__ = loader.path
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture(scope="module")
def nightly() -> ModuleType:
    return loaded("nightly")


@pytest.fixture
def rolling_issue(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the script that keeps the issue, in this process, and returns its output."""
    main = loaded("rolling-issue").main

    def run(*arguments: object, path: str = os.environ["PATH"]) -> str:
        monkeypatch.setenv("PATH", path)
        monkeypatch.setattr(sys, "argv", ["rolling-issue", *map(str, arguments)])
        assert main() == 0
        return capsys.readouterr().out

    return run


def test_the_tests_of_a_night_are_there(nightly: ModuleType) -> None:
    """With workers, pytest does not report a missing file: it runs nothing."""
    for test in nightly.TESTS:
        path, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / path).read_text()


@dataclass
class Rounds:
    """Rounds of pytest that take `takes` seconds, unless they are interrupted before, and end with `codes`."""

    takes: float
    codes: list[int] = field(default_factory=list)
    now: float = 1000.0
    seeds: list[str] = field(default_factory=list)
    minutes: list[float] = field(default_factory=list)

    def __call__(self, command: Sequence[str], seconds: float, patience: float) -> int:
        options = dict(part.split("=", 1) for part in command if part.startswith("--") and "=" in part)
        self.seeds.append(options["--hypothesis-seed"])
        self.minutes.append(float(options["--gradcheck-minutes"]))
        self.now += min(self.takes, seconds)
        return self.codes.pop(0) if self.codes else 0

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("takes", "minutes"),
    [
        (600.0, [60.0, 50.0, 40.0, 30.0, 20.0, 10.0]),
        (1700.0, [60.0, 31.667]),
        (10_000.0, [60.0]),
        (3400.0, [60.0]),
    ],
)
def test_a_night_goes_on_in_rounds_until_its_budget_is_spent(
    nightly: ModuleType, tmp_path: Path, takes: float, minutes: list[float]
) -> None:
    """A round gets the rest; one of less than 8 % of the budget is not started, one that takes longer is
    interrupted."""
    rounds = Rounds(takes)
    options = nightly.parsed(["--minutes", "60", "--seed", "3", "--reports", str(tmp_path)])
    assert nightly.night(options, rounds, rounds.clock) == 0
    assert rounds.minutes == minutes
    assert rounds.seeds == [str(seed) for seed in range(3, 3 + len(minutes))]
    assert 0.9 * 3600 <= rounds.now - 1000 <= 1.04 * 3600


@pytest.mark.parametrize(
    ("codes", "rounds", "code"),
    [([0, 1, 0], 6, 1), ([0, 2], 2, 2), ([0, 1, 3], 3, 3), ([-9], 1, 2), ([5], 1, 0), ([1, 5], 2, 1)],
)
def test_a_night_ends_with_the_worst_code_and_at_once_where_nothing_can_be_run(
    nightly: ModuleType, tmp_path: Path, codes: list[int], rounds: int, code: int
) -> None:
    run = Rounds(600.0, codes)
    options = nightly.parsed(["--minutes", "60", "--reports", str(tmp_path)])
    assert nightly.night(options, run, run.clock) == code
    assert len(run.seeds) == rounds


def test_a_finding_that_a_stopped_round_left_in_its_events_makes_it_fail(nightly: ModuleType, tmp_path: Path) -> None:
    def run(*_: object) -> int:
        with EventFile(tmp_path / "events", "main", started()) as file:
            file.write(Crash.of("sin", 1, example("sin"), "killed by SIGABRT"))
        return 0

    assert nightly.night(nightly.parsed(["--rounds", "1", "--reports", str(tmp_path)]), run) == 1


@pytest.mark.parametrize("ignoring", [False, True])
def test_a_round_that_goes_on_is_interrupted_and_one_that_ignores_that_is_killed(
    nightly: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignoring: bool
) -> None:
    command = waited_for(nightly, tmp_path, monkeypatch, ignoring=ignoring)
    assert nightly.run_round(command, 1000.0, 0.2 if ignoring else 60.0) == 0
    assert (tmp_path / "interrupted").exists() is not ignoring


@pytest.mark.parametrize("ignoring", [False, True])
def test_ctrl_c_stops_a_round_and_once_more_kills_what_ignores_it(
    nightly: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignoring: bool
) -> None:
    times = (1000.0, 60.0) if ignoring else (1000.0,)
    command = waited_for(nightly, tmp_path, monkeypatch, ignoring=ignoring, ctrl_c=times)
    with pytest.raises(KeyboardInterrupt):
        nightly.run_round(command, 1000.0, 60.0)
    assert (tmp_path / "interrupted").exists() is not ignoring
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "ready").read_text()), 0)


def waited_for(
    nightly: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ignoring: bool,
    ctrl_c: Sequence[float] = (),
) -> list[str]:
    """The command of a process that notes when it is interrupted, unless it is `ignoring` that.

    A wait of 1000 seconds for it ends once it is ready; by Ctrl-C if this or another time is among `ctrl_c`.
    """
    code = f"""
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignoring} else signal.default_int_handler)
try:
    pathlib.Path("starting").write_text(str(os.getpid()))
    pathlib.Path("starting").rename("ready")
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path("interrupted").touch()
"""

    class Late(subprocess.Popen[bytes]):
        """A process that is ready before its time is up."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout == 1000.0:
                while not (folder / "ready").exists() and self.poll() is None:
                    time.sleep(0.01)
            if timeout in ctrl_c:
                raise KeyboardInterrupt
            if timeout == 1000.0:
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait(timeout)

    monkeypatch.setattr(nightly, "ROOT", folder)
    monkeypatch.setattr(nightly.subprocess, "Popen", Late)
    return [sys.executable, "-c", code]


def test_ctrl_c_ends_the_night(nightly: ModuleType, tmp_path: Path) -> None:
    rounds = Rounds(600.0)

    def run(command: Sequence[str], seconds: float, patience: float) -> int:
        rounds(command, seconds, patience)
        if len(rounds.seeds) == 2:
            raise KeyboardInterrupt
        return 0

    options = nightly.parsed(["--minutes", "60", "--reports", str(tmp_path)])
    assert nightly.night(options, run, rounds.clock) == 2
    assert len(rounds.seeds) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(("ops", "shard"), [("exp", "1/89"), ("exp,tan", "1/4")])
def test_a_night_in_small_is_merged_and_listed_and_remembers_what_it_finished(
    tmp_path: Path, ops: str, shard: str
) -> None:
    """One real round, which ends long before its budget is spent."""
    arguments = ("--profile", "dev", "--ops", ops, "--workers", "1", "--shard", shard, "--seed", "3")
    reports = tmp_path / "night"
    night = script("nightly", "--minutes", "30", "--rounds", "1", *arguments, "--reports", str(reports))
    assert night.returncode == 0, night.stdout + night.stderr
    run = read(reports / "events")
    operations = {done.operation for done in run.operations}
    assert {name for name in operations if not name.startswith("(")} <= set(ops.split(","))
    assert run.known
    assert {event.seed for event in run.started} == {"3"}
    schedule = load(reports / "schedule.json")
    assert {event.name for event in run.known} <= {name.rpartition("[")[2].rstrip("]") for name in schedule}
    merged = script("merge", str(tmp_path), str(tmp_path / "merged"), GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert merged.returncode == 1, merged.stdout + merged.stderr
    assert f"shard 2/{shard.rpartition('/')[2]} is missing" in merged.stdout
    assert "operations" in (tmp_path / "summary.md").read_text()
    issue = script("rolling-issue", str(tmp_path / "merged"), "--dry-run")
    assert issue.returncode == 0, issue.stderr
    assert "## Known defects (" in issue.stdout


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([0], 0),
        ([1], 1),
        ([-6, -11, -9, 0], 0),
        ([-6, 1], 1),
        ([-2], 130),
        ([-15], 143),
        ([-6] * 41, 134),
    ],
    ids=["in time", "too few noticed", "crashes", "a crash", "Ctrl-C", "cancelled", "crashes only"],
)
def test_a_week_goes_on_after_changes_that_crash_tensorflow(tmp_path: Path, ends: list[int], code: int) -> None:
    """A process that ends with these codes, start by start (-6 is SIGABRT), and always gets the same file."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "weekly", tmp_path / ".ci")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"""#!{sys.executable}
import os, pathlib, signal, sys
file = pathlib.Path(sys.argv[sys.argv.index("--into") + 1])
with file.open("a") as rows:
    rows.write(" ".join(sys.argv[1:]) + "\\n")
end = {ends}[len(file.read_text().splitlines()) - 1]
if end < 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), -end)
sys.exit(end)
""")
    python.chmod(0o755)
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    done = subprocess.run([tmp_path / ".ci" / "weekly", "2/4"], env={**os.environ, "PATH": path}, check=False)
    rows = (tmp_path / "reports" / "weekly" / "mutations.jsonl").read_text().splitlines()
    assert (done.returncode, len(rows)) == (code, len(ends))
    assert len(set(rows)) == 1


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
    """Puts a program named gh into a folder, and returns a PATH on which it comes first."""
    program = folder / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    return os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])


def test_one_issue_is_kept_with_at_most_five_new_findings_a_night(
    tmp_path: Path, night: Callable[..., Path], rolling_issue: Callable[..., str]
) -> None:
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
        rolling_issue(folder, "--link", "https://example.org/run", path=path)
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
    assert sorted(items(third)) == sorted(items(second)), "with what they are and the box to tick"
    # A user ticks one and removes another, in a browser, which ends lines as Windows does.
    ticked, removed, *left = items(third)
    edited = third.replace(ticked, ticked.replace("[ ]", "[x]")).replace(removed, "").replace("\n", "\r\n")
    (tmp_path / "issue.json").write_text(json.dumps([{"number": 7, "body": edited}]))
    fourth, fifth = issue(night(4, [])), issue(night(5, []))
    assert items(fifth) == items(fourth) == left
    again = issue(night(6, ["exp"]))
    assert ("## Open (1)" in again, len(items(again))) == (True, len(left))


def items(text: str) -> list[str]:
    """The findings of an issue that are not ticked, with their descriptions."""
    return [line for line in text.splitlines() if line.startswith("- [ ] `") and "**crash**" in line]


def test_a_folder_that_is_no_run_is_named(tmp_path: Path, rolling_issue: Callable[..., str]) -> None:
    with pytest.raises(SystemExit, match=rf"^rolling-issue: {tmp_path / 'merged' / 'events'}: no such folder"):
        rolling_issue(tmp_path / "merged", "--dry-run")


def test_a_wrong_derivative_is_listed_with_its_name_and_what_is_special(
    tmp_path: Path, rolling_issue: Callable[..., str]
) -> None:
    wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "2 instead of 1")
    found = GraphFinding(example("sin"), 1, (wrong,), "sin", 1, "zero in argument 0", literal([1.0]))
    with EventFile(tmp_path / "night" / "events", "main", started()) as file:
        file.write(FindingMade(Report.of(found)))
    listed = rolling_issue(tmp_path / "night", "--dry-run")
    assert f"- [ ] `{found.name}` **wrong value**: `sin at order 1, zero in argument 0`" in listed


def test_nothing_new_and_nothing_fixed_opens_no_issue(tmp_path: Path, rolling_issue: Callable[..., str]) -> None:
    with EventFile(tmp_path / "night" / "events", "main", started()) as file:
        file.write(KnownReplayed("old-defect", State.STILL, "2.21.0"))
    path = fake_gh(tmp_path, "import sys\nassert sys.argv[2] == 'list'\nprint('[]')\n")
    rolling_issue(tmp_path / "night", path=path)


def test_a_budget_that_is_none_is_refused(nightly: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"--minutes was 0\.0; expected a number above 0"):
        nightly.night(nightly.parsed(["--minutes", "0"]))


def test_events_of_an_earlier_night_are_set_aside(nightly: ModuleType, tmp_path: Path) -> None:
    with EventFile(tmp_path / "events", "before", started()):
        pass
    nightly.set_aside(tmp_path)
    assert [path.name for path in (tmp_path / "events" / "earlier").iterdir()] == ["before.jsonl"]
