"""The examples of the READMEs for Hypothesis: alone, and in a project of their own."""

from __future__ import annotations

import os
import random
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from gradcheck import GradientMissing, GradientWrongValue, InconclusiveWarning

ROOT = Path(__file__).resolve().parents[2]
WRONG = """

@tf.custom_gradient
def potential(x):  # right at first order, wrong at second
    return tf.reduce_sum(x**2) / 2, lambda upstream: upstream * tf.stop_gradient(x)
"""
PROFILE = """
import random
from hypothesis import Phase, settings
random.seed(1)  # Keras draws the seeds of its initializers from it: some weights make an example inconclusive
settings.register_profile("few", max_examples=20, derandomize=True, database=None, phases=[Phase.generate])
settings.load_profile("few")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the examples, and another function whose gradient is wrong."""
    code = examples((ROOT / "strategies" / "README.md").read_text(encoding="utf-8"))
    (tmp_path / "test_mine.py").write_text(code, encoding="utf-8")
    (tmp_path / "test_wrong.py").write_text(code + WRONG, encoding="utf-8")
    return tmp_path


def examples(text: str) -> str:
    """The first Python block of a text."""
    code = re.search(r"```python\n(.*?)```\n", text, re.DOTALL)
    assert code is not None
    return code[1]


@pytest.fixture
def _few_examples() -> Iterator[None]:
    """Takes a few examples of each test, with Hypothesis's usual deadline, and always the same weights of the layer."""
    before, state = settings.get_current_profile_name(), random.getstate()
    random.seed(0)
    few = settings(max_examples=4, derandomize=True, database=None, phases=[Phase.generate], deadline=200)
    settings.register_profile("few", few)
    settings.load_profile("few")
    yield
    settings.load_profile(before)
    random.setstate(state)


@pytest.mark.usefixtures("_few_examples")
def test_the_example_of_the_readme_passes(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Inputs for your own Hypothesis tests\n")[1]
    (tmp_path / "test_layer.py").write_text(examples(section), encoding="utf-8")
    runpy.run_path(str(tmp_path / "test_layer.py"))["test_layer"]()


@pytest.mark.usefixtures("_few_examples")
def test_the_examples_pass_and_notice_a_wrong_gradient(project: Path) -> None:
    right, wrong = (runpy.run_path(str(project / name)) for name in ("test_mine.py", "test_wrong.py"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InconclusiveWarning)
        for name in ("test_loss", "test_layer", "test_stiffness"):
            right[name]()
        with pytest.raises((GradientWrongValue, GradientMissing)):
            wrong["test_stiffness"]()


@pytest.mark.exhaustive
def test_so_they_do_in_a_project_of_their_own(project: Path) -> None:
    """With the plugin for pytest, and the usual deadline of Hypothesis."""
    (project / "conftest.py").write_text(PROFILE, encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-W", "error::gradcheck.InconclusiveWarning"]
    usual = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", *options, "test_mine.py", "test_wrong.py::test_stiffness"]
    said = subprocess.run(command, cwd=project, env=usual, capture_output=True, text=True, check=False).stdout
    assert "1 failed, 3 passed" in said, said
    assert "FAILED test_wrong.py::test_stiffness" in said, said
    assert "GradientWrongValue" in said or "GradientMissing" in said
