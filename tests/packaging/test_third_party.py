"""A project hunts with its own operations, by its own CI script and with only the installed wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Environment, run

VERBOSE = ("-v", "-p", "no:cacheprovider")
MENDED = (
    ("x * gate)  # forgets the factor 1 - gate", "x * gate * (1 - gate))"),
    ("upstream * value  # forgets the conjugate", "upstream * tf.math.conj(value)"),
    ("tf.stop_gradient(gate)  # right, but a part of its own derivative is lost", "gate"),
)
WRONG = {("fused_exponential", 1), ("fused_gate", 1), ("fused_gate", 2), ("fused_silu", 2)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project."""
    return shutil.copytree(ROOT / "tests/thirdparty", tmp_path / "project", ignore=shutil.ignore_patterns("__py*"))


def checked(project: Path, environment: Environment) -> subprocess.CompletedProcess[str]:
    """The run of its CI script."""
    path = f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}"
    return run("env", f"PATH={path}", "bash", project / "ci.sh", *VERBOSE, cwd=project)


def reports(project: Path) -> dict[tuple[str, int], Any]:
    """The findings that were written, by operation and order."""
    read = [json.loads(path.read_text()) for path in project.glob("reports/*.json")]
    return {(one["signature"]["operation"], one["signature"]["order"]): one for one in read}


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name != "posix", reason="the script is for a POSIX shell")
def test_a_project_finds_what_is_wrong_with_its_operations(project: Path, installed: Environment) -> None:
    done = checked(project, installed)
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    found = reports(project)
    assert set(found) == WRONG, told
    for one in found.values():
        assert one["signature"]["kind"] == "wrong value"
        assert one["confirmation"]["returncode"] == 1, one["confirmation"]["output"]
    # On a busy machine a minute may not be enough for each of them.
    assert min(len(one["graph"]["nodes"]) for one in found.values()) == 1, found
    passed = set(re.findall(r"^gradcheck::test_(\S+) PASSED", done.stdout, re.MULTILINE))
    assert {"operation[fused_swish-order1]", "operation[fused_swish-order2]", "operation[fused_silu-order1]"} <= passed
    assert "known[fused_ramp-order1]" in passed
    assert "test_operation[fused_ramp" not in done.stdout, "the accepted finding is left out"
    page = (project / "reports/index.html").read_text()
    assert "fused_ramp-order1" in page
    for path in project.glob("reports/fused_*.html"):
        assert "The script needs TensorFlow, NumPy, gradcheck and activations." in path.read_text()
        assert "issue form" not in path.read_text()
    _replayed_as_wrong(project, installed)
    _replayed_as_mended(project, installed)


def written(project: Path) -> list[Path]:
    return sorted(project.glob("reports/fused_*.json"))


def _replay(project: Path, environment: Environment, *options: str) -> subprocess.CompletedProcess[str]:
    return run(environment.python, "-m", "gradcheck", "replay", *written(project), *options, cwd=project)


def _replayed_as_wrong(project: Path, environment: Environment) -> None:
    """The findings are still wrong; without the module they cannot be read."""
    without = _replay(project, environment)
    assert without.returncode == 2
    assert (
        "expected the name of an operation of the catalogue, or of one of your own, whose module --import"
        in without.stderr
    )
    wrong = _replay(project, environment, "--import", "activations")
    told = (wrong.returncode, wrong.stdout.count("still wrong  fused_"))
    assert told == (1, len(written(project))), wrong.stdout + wrong.stderr


def _replayed_as_mended(project: Path, environment: Environment) -> None:
    """The findings are fixed once the terms are there."""
    module = project / "activations.py"
    source = module.read_text()
    for before, after in MENDED:
        assert before in source
        source = source.replace(before, after)
    module.write_text(source)
    mended = _replay(project, environment, "--import", "activations")
    told = (mended.returncode, mended.stdout.count("fixed  "))
    assert told == (0, len(written(project))), mended.stdout + mended.stderr


def readme() -> tuple[str, str, str]:
    """The module with an operation, the command that hunts with it, and the one that replays the finding."""
    page = (ROOT / "gradcheck" / "operations" / "README.md").read_text(encoding="utf-8")
    section = page.split("\n## Your own operations in random graphs\n")[1]
    section = section.split("\n## ")[0]
    (module,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    command, replay = re.findall(r"(?<=    )pytest .*$|(?<=`python )-m gradcheck replay [^`]*", section, re.MULTILINE)
    return module, command, replay


def test_the_readme_s_operation_is_one_of_the_project_s() -> None:
    function = readme()[0].partition("@gradcheck.operation\n")[2]
    assert function.startswith("@tf.custom_gradient\ndef fused_gate(")
    assert function in (ROOT / "tests/thirdparty/activations.py").read_text()


@pytest.mark.exhaustive
def test_the_readme_s_operation_is_found_wrong(installed: Environment, tmp_path: Path) -> None:
    module, command, replay = readme()
    (tmp_path / "activations.py").write_text(module)
    (tmp_path / "conftest.py").write_text("import activations\n")
    few = ("--gradcheck-shrinking=5", "-k", "registration or operation[fused_gate-order1]", "-p", "no:cacheprovider")
    done = run(installed.python, "-m", *command.split(), *few, cwd=tmp_path)
    assert (done.returncode, set(reports(tmp_path))) == (1, {("fused_gate", 1)}), done.stdout + done.stderr
    (tmp_path / "activations.py").write_text(module.replace("x * gate)  # forgets", "x * gate * (1 - gate))  # forgot"))
    mended = run(installed.python, *replay.split(), cwd=tmp_path)
    assert (mended.returncode, mended.stdout.count("fixed  ")) == (0, 1), mended.stdout + mended.stderr
