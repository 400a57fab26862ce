from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gradcheck.__main__ import main, parser
from gradcheck.defects import known
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt.events import Crash, EventFile, Started
from gradcheck.hunt.running.aggregate import save
from tests import slices
from tests.machine import MACHINE
from tests.records import copied, document, from_json

ROOT = Path(__file__).parents[2]
GRAPH = Graph((literal([0.0]),), (Node.of("sin", 0),))
SIN = {
    "graph": GRAPH,
    "culprit": "sin",
    "description": "zero in argument 0",
    "cotangent": literal([1.0]),
}
COMPOSED = {
    "graph": Graph((literal([0.0]),), (Node.of("relu", 0), Node.of("abs", 1))),
    "culprit": "relu",
    "description": "zero in argument 0",
    "cotangent": literal([1.0]),
}
CUMPROD = "cumprod-zero-order1"
SWAPPED = {"right": document(CUMPROD)["given"], "given": document(CUMPROD)["right"]}
PLANTED = """
import os, time
from gradcheck.hunt import trial

def run(*arguments, **options):
    {behaviour}

trial.run = run
"""
FIELDS = ["format", "version", "tensorflow", "findings", "counts", "exit_code", "next"]


def test_a_finding_that_is_still_wrong_exits_with_1(call: Any, written: Any) -> None:
    path = written(CUMPROD)
    said = call("replay", path)
    assert said.code == 1
    assert said.out.startswith("still wrong  cumprod  order 1  wrong value  ")
    assert "1 still wrong, 0 fixed, 0 cannot tell, TensorFlow 2." in said.out
    assert said.next == f"python -m gradcheck known add {path} --title TEXT --source TEXT"


def test_a_fixed_one_exits_with_0_and_one_that_cannot_be_told_with_2(call: Any, written: Any) -> None:
    fixed, unsure = written(CUMPROD, **SIN), written(CUMPROD, **COMPOSED)
    assert call("replay", fixed).code == 0
    assert call("replay", fixed).next == f"rm {fixed}"
    said = call("replay", unsure)
    assert said.code == 2
    assert "inconclusive (convention at a composed kink)" in said.out


def test_a_folder_gives_the_highest_code_and_one_row_a_finding(call: Any, written: Any) -> None:
    folder = written(CUMPROD, **SIN).parent
    assert call("replay", folder).code == 0
    written(CUMPROD)
    written("xlogy-zero-order1")
    said = call("replay", folder, "--json")
    assert (said.code, said.json["counts"]) == (1, {"still wrong": 2, "fixed": 1, "cannot tell": 0})
    written(CUMPROD, **COMPOSED)
    said = call("replay")
    assert said.code == 2, "the folder `reports` is the default"
    assert sorted(line.split("  ")[0] for line in said.out.splitlines()[:4]) == [
        "cannot tell",
        "fixed",
        "still wrong",
        "still wrong",
    ]


def test_the_schedule_of_a_run_is_no_finding(call: Any, written: Any) -> None:
    folder = written(CUMPROD, **SIN).parent
    save(folder / "schedule.json", ["a test"])
    said = call("replay", folder, "--json")
    assert (said.code, len(said.json["findings"])) == (0, 1)


def test_what_cannot_be_read_is_to_be_corrected(call: Any, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("{}")
    said = call("replay", tmp_path / "one.json")
    assert (said.code, said.next) == (
        2,
        f"correct {tmp_path / 'one.json'} or take it away, then python -m gradcheck replay",
    )


def test_known_defects_are_replayed_and_reports_of_them_recognised(call: Any, written: Any, tmp_path: Path) -> None:
    written(CUMPROD)
    (tmp_path / "reports" / "known").mkdir()
    copied(tmp_path / "reports" / "known", CUMPROD)
    said = call("replay", "--json")
    assert [(one["source"], one["state"], one["known"]) for one in said.json["findings"]] == [
        ("report", "still wrong", CUMPROD),
        ("known", "still wrong", CUMPROD),
    ]
    assert said.json["next"] == "python -m gradcheck known list"
    assert f"wrong value, known: {CUMPROD}" in call("replay").out


def test_a_known_defect_that_is_right_here_is_to_be_marked(call: Any, tmp_path: Path) -> None:
    path = copied(tmp_path, CUMPROD, **SWAPPED)
    said = call("replay", path)
    assert (said.code, said.next) == (0, f"python -m gradcheck known fixed {CUMPROD} --folder {tmp_path}")
    copied(tmp_path, CUMPROD, **SWAPPED, releases={"from": "2.0", "until": "2.1"})
    assert call("replay", path).next == f"rm {path}"


def test_each_example_of_a_cause_is_replayed(call: Any, tmp_path: Path) -> None:
    path = tmp_path / "cumprod-at-zero.json"
    both = [document(name) for name in (CUMPROD, "cumprod-zero-order2")]
    both[1].update(right=both[1]["given"], given=both[1]["right"])
    known.write(path, [*map(from_json, both)])
    said = call("replay", path, "--json")
    assert [(one["name"], one["state"], one["known"], one["file"]) for one in said.json["findings"]] == [
        (CUMPROD, "still wrong", CUMPROD, str(path)),
        ("cumprod-zero-order2", "fixed", "cumprod-zero-order2", str(path)),
    ]
    assert (said.code, said.json["counts"]) == (1, {"still wrong": 1, "fixed": 1, "cannot tell": 0})
    assert said.json["next"] == f"python -m gradcheck known fixed cumprod-zero-order2 --folder {tmp_path}"
    both[1]["releases"] = {"from": "2.0", "until": "2.1"}
    known.write(path, [*map(from_json, both)])
    assert call("replay", path).next == f"take cumprod-zero-order2 out of {path}"


def test_a_file_of_one_record_is_replayed_as_it_was_written_before_causes(call: Any, tmp_path: Path) -> None:
    (tmp_path / f"{CUMPROD}.json").write_text(json.dumps(document(CUMPROD)))
    said = call("replay", tmp_path, "--json")
    assert [(one["source"], one["state"], one["name"]) for one in said.json["findings"]] == [
        ("known", "still wrong", CUMPROD)
    ]


def test_a_broken_example_is_named_with_its_place(call: Any, tmp_path: Path) -> None:
    path = copied(tmp_path, CUMPROD, cotangent=[])
    said = call("replay", path)
    assert (said.code, said.next) == (2, f"correct {path} or take it away, then python -m gradcheck replay")
    assert "$.examples[0].cotangent: a list of 0 was given; expected an object" in said.out


@pytest.mark.parametrize("folder", ["reports/known", "another folder"])
def test_the_next_step_marks_a_fixed_defect_in_its_own_folder(call: Any, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    path = copied(tmp_path / folder, CUMPROD, **SWAPPED)
    step = shlex.split(call("replay", path).next)
    assert ("--folder" in step) is (folder == "another folder")
    assert call(*step[3:]).code == 0
    assert known.read(path)[0].releases.until is not None


def test_the_json_is_stable(call: Any, written: Any) -> None:
    path = written(CUMPROD)
    said = call("replay", path, "--json")
    assert list(said.json) == FIELDS
    assert said.json["format"] == "gradcheck replay"
    assert said.json["findings"] == [
        {
            "file": str(path),
            "state": "still wrong",
            "message": "wrong value",
            "source": "report",
            "name": path.stem,
            "operation": "cumprod",
            "order": 1,
            "kind": "wrong value",
            "known": None,
            "changed": False,
        }
    ]


def test_what_is_not_there_is_named(call: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, complaint in (("nowhere", "no such file or folder"), ("empty", "without findings")):
        said = call("replay", given)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith(f"python -m gradcheck replay: error: {given}: ")
        assert complaint in said.err
        assert call("replay", given, "--json").json["format"] == "gradcheck error"


def test_as_a_process(written: Callable[..., Path]) -> None:
    command = [sys.executable, "-m", "gradcheck", "replay", "--json", str(written(CUMPROD, **SIN))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["counts"] == {"still wrong": 0, "fixed": 1, "cannot tell": 0}


def test_without_arguments_it_shows_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = re.findall(r"^  python -m gradcheck (.*?) {2,}\S", capsys.readouterr().out, re.MULTILINE)
    assert len(shown) == 5
    for line in shown:
        parser().parse_args(line.split())


@pytest.mark.parametrize("command", ["", "replay", "merge", "coverage", *("known " + x for x in ("", "list", "add"))])
def test_every_help_has_an_example(call: Any, command: str) -> None:
    said = call(*command.split(), "--help")
    assert said.code == 0
    assert f"example:\n  python -m gradcheck {command}".strip() in said.out
    if command:
        assert command.strip() == "known" or ("--json" in said.out and "exit codes: " in said.out)


def process(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gradcheck", *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="latin-1",
    )


def test_what_a_terminal_cannot_show_is_spelt_out(tmp_path: Path) -> None:
    copied(tmp_path, "cumprod-zero-order1", title="cumprod in ℝ")
    listing = process("known", "list", "--folder", str(tmp_path), PYTHONIOENCODING="latin-1")
    output, complaint = listing.communicate()
    assert (listing.returncode, complaint) == (0, "")
    assert r"cumprod in \u211d" in output


def test_a_reader_that_has_read_enough_is_no_failure(tmp_path: Path) -> None:
    copied(tmp_path, "cumprod-zero-order1")
    listing = process("known", "list", "--json", "--folder", str(tmp_path))
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    with listing:
        assert listing.stderr.read() == ""
    assert listing.returncode == 0


@pytest.mark.parametrize("arguments", [("nonsense",), ("known",), ("merge",), ("replay", "--nonsense")])
def test_a_usage_error_is_argparse_s(call: Any, arguments: tuple[str, ...]) -> None:
    said = call(*arguments)
    assert said.code == 2
    assert said.err.startswith("usage: python -m gradcheck")


@slices.parametrized(
    ("behaviour", "limit", "state", "code"),
    [
        ("time.sleep(600)", 2, "still wrong", 1),
        ("os.abort()", 300, "still wrong", 1),  # tests/reliability/test_workers.py has one in the test command
        ("", 300, "fixed", 0),
    ],
    slices.every(2),
)
def test_crashes_and_hangs_run_again_in_a_process_of_their_own(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, limit: int, state: str, code: int
) -> None:
    """A behaviour is planted in the check, in the fresh process only."""
    first = Started(MACHINE, "ci", "7", "1/1", ())
    with EventFile(tmp_path / "reports" / "events", "main", first) as file:
        file.write(Crash.of("sin", 1, GRAPH, "killed by SIGABRT"))
    (tmp_path / "sitecustomize.py").write_text(PLANTED.format(behaviour=behaviour or "pass"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = call("replay", "--limit", limit, "--json")
    assert (said.code, said.json["findings"][0]["state"]) == (code, state)
    assert said.json["findings"][0]["source"] == "crash"
    assert ("killed by SIGABRT" in said.json["findings"][0]["message"]) is (behaviour == "os.abort()")


@pytest.mark.parametrize("limit", ["inf", "nan", "-200", "0", "1e9", "soon"])
def test_a_limit_that_is_none_is_refused(call: Any, limit: str) -> None:
    said = call("replay", f"--limit={limit}")
    assert (said.code, said.out) == (2, "")
    assert f"--limit: '{limit}' was given; expected a number above 0, at most 1,000,000" in said.err


def crashed(folder: Path) -> None:
    """Writes a run with a crash."""
    with EventFile(folder / "events", "main", Started(MACHINE, "ci", "7", "1/1", ())) as file:
        file.write(Crash.of("sin", 1, GRAPH, "killed by SIGABRT"))


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ImportError("No module named 'fcntl'")])
def test_a_crash_that_cannot_be_run_again_is_undecided(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(_: object) -> None:
        raise error

    crashed(tmp_path / "reports")
    monkeypatch.setattr("gradcheck.hunt.commands.replay_findings.ProcessRecorder", refuse)
    said = call("replay", "--json")
    assert (said.code, said.json["counts"]["cannot tell"]) == (2, 1)
    assert said.json["findings"][0]["message"] == f"it could not be run: {error}"


@pytest.mark.parametrize("raised", [RuntimeError("no such thing"), SystemExit(0), SystemExit("no such thing")])
def test_what_nobody_expects_is_no_verdict(call: Any, monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> None:
    """1 would mean that a finding is still wrong, 0 that none is."""

    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("gradcheck.hunt.commands.replay_findings._files", fail)
    said = call("replay", "--json")
    assert said.code == said.json["exit_code"] == 2
    assert said.json["error"].startswith(f"{type(raised).__name__}: {raised}; ")
    assert "Traceback" in said.err


def test_a_module_of_ones_own_that_ends_the_process_is_named(call: Any, tmp_path: Path) -> None:
    (tmp_path / "ends_the_process.py").write_text("raise SystemExit(0)\n")
    said = call("replay", "--import", "ends_the_process")
    assert (said.code, said.out) == (2, "")
    assert "--import ends_the_process: SystemExit: 0; expected a module that can be imported from here" in said.err


def test_on_a_system_without_the_signals_and_locks_of_unix_the_command_line_works(tmp_path: Path) -> None:
    """As on Windows; crashes are not run again there, and stay undecided."""
    crashed(tmp_path / "reports")
    code = """
import signal, sys
del signal.SIGKILL, signal.SIGHUP
sys.modules["fcntl"] = None
from gradcheck.__main__ import main, parser
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", code, "replay", str(tmp_path / "reports"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert found["state"] == "cannot tell"
    assert found["message"].startswith("it could not be run: ")
    assert "fcntl" in found["message"]


def test_the_console_script_is_the_same_command_line() -> None:
    script = re.search(
        r'^\[project\.scripts\]\ngradcheck = "(.+):(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert script is not None
    assert getattr(import_module(script[1]), script[2]) is main
