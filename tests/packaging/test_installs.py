"""Wheel, source distribution and editable install, each used from another working directory."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import gradcheck
from tests import slices
from tests.records import RECORDS

from .conftest import ROOT, Distributions, Environment, copy_sources, run, succeed

TESTS = "test_gradients.py"
# Fails by design, to show what the author of a wrong gradient sees.
FAILS = "test_wrong_gradient_fails"
PROBE = """
import json, sys
seen = {}
import gradcheck, gradcheck.pytest_plugin
seen["lazy"] = "tensorflow" not in sys.modules
import gradcheck.strategies
seen["package"], seen["strategies"] = gradcheck.__file__, gradcheck.strategies.__file__
from gradcheck.defects import known
seen["records"], seen["names"] = str(known.installed()), sorted(one.name for one in known.records())
seen["light"] = "tensorflow" not in sys.modules
if "whole" in sys.argv:
    gradcheck.check
seen["tensorflow"] = "tensorflow" in sys.modules
seen["bare name"] = "strategies" in sys.modules
from importlib import metadata, resources, util
seen["findable"] = util.find_spec("strategies") is not None
seen["typed"] = resources.files("gradcheck").joinpath("py.typed").is_file()
seen["version"] = metadata.version("gradcheck")
print(json.dumps(seen))
"""
EXPECTED = {
    "lazy": True,
    "light": True,
    "names": [one.name for one in RECORDS],
    "bare name": False,
    "findable": False,
    "typed": True,
    "version": gradcheck.__version__,
}


def probe(environment: Environment, elsewhere: Path, package: Path, beside: Path, *, whole: bool) -> None:
    """Imports the installed package, which has to come from `package`, and the folders mapped into it, from `beside`.

    With `whole`, TensorFlow is imported, too, which takes most of the time.
    """
    options = ["whole"] * whole
    seen = json.loads(succeed(environment.python, "-c", PROBE, *options, cwd=elsewhere).splitlines()[-1])
    assert Path(seen.pop("package")).is_relative_to(package)
    assert Path(seen.pop("strategies")).is_relative_to(beside)
    assert Path(seen.pop("records")).is_relative_to(beside)
    assert seen.pop("tensorflow") is whole
    assert seen == EXPECTED


def test_the_wheel_installs_and_a_project_checks_its_own_gradients_with_it(
    installed: Environment, elsewhere: Path, tmp_path: Path
) -> None:
    """The project of tests/thirdparty only knows the installed wheel: its own pytest run, in its own environment."""
    probe(installed, elsewhere, installed.prefix, installed.prefix, whole=True)
    project = shutil.copytree(ROOT / "tests/thirdparty", tmp_path / "project", ignore=shutil.ignore_patterns("__py*"))
    done = run(installed.python, "-m", "pytest", "-rA", "-p", "no:cacheprovider", TESTS, cwd=project)
    outcomes = {
        name: word for word, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)
    }
    assert done.returncode == 1, done.stdout + done.stderr
    assert "GradientWrongValue: the gradient of loss is wrong" in done.stdout
    assert "gradcheck/check.py" not in done.stdout.replace("\\", "/"), "the traceback ends at the author's own line"
    defined = re.findall(r"^def (test_\w+)", (project / TESTS).read_text(), re.MULTILINE)
    assert outcomes == {name: "FAILED" if name == FAILS else "PASSED" for name in defined}, done.stdout


@pytest.mark.exhaustive  # test_the_sdist_rebuilds_to_the_same_wheel, which is installed above
def test_the_sdist_installs(distributions: Distributions, environment: Environment, elsewhere: Path) -> None:
    environment.install(distributions.sdist)
    probe(environment, elsewhere, environment.prefix, environment.prefix, whole=True)


@pytest.mark.sliced
def test_the_editable_install_uses_the_sources(environment: Environment, elsewhere: Path, tmp_path: Path) -> None:
    checkout = copy_sources(tmp_path / "checkout")
    environment.install("--editable", checkout)
    probe(environment, elsewhere, checkout / "gradcheck", checkout, whole=slices.exhaustively)
