"""A project that only knows the installed wheel: its own pytest run, in its own environment."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from .conftest import ROOT, Distributions, Environment, run

# Fails by design: what the author of a wrong gradient gets to see.
FAILS = "test_wrong_gradient_fails"


def test_a_project_checks_its_own_gradients(
    distributions: Distributions, environment: Environment, tmp_path: Path
) -> None:
    project = shutil.copytree(ROOT / "tests/thirdparty", tmp_path / "project", ignore=shutil.ignore_patterns("__py*"))
    environment.install(distributions.wheel)
    done = run(environment.python, "-m", "pytest", "-rA", "-p", "no:cacheprovider", cwd=project)
    outcomes = {
        name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)
    }
    assert done.returncode == 1, done.stdout + done.stderr
    assert "GradientWrongValue: the gradient of loss is wrong" in done.stdout
    assert "gradcheck/check.py" not in done.stdout.replace("\\", "/"), "the traceback ends at the author's own line"
    defined = re.findall(r"^def (test_\w+)", (project / "test_gradients.py").read_text(), re.MULTILINE)
    assert outcomes == {name: "FAILED" if name == FAILS else "PASSED" for name in defined}, done.stdout
