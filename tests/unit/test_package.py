"""The package's own names: lazily loaded, complete, and cheap until one of them is used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradcheck

ROOT = Path(__file__).resolve().parents[2]


def run(source: str) -> str:
    """The output of a source text in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", gradcheck.__all__)
def test_every_public_name_loads(name: str) -> None:
    value = getattr(gradcheck, name)
    assert value.__name__ == name
    assert value.__module__ == gradcheck._HOME[name]
    assert vars(gradcheck)[name] is value


def test_all_and_the_homes_and_the_type_checkers_imports_name_the_same() -> None:
    tree = ast.parse(Path(gradcheck.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert {name: typed[name] for name in gradcheck.__all__} == gradcheck._HOME
    assert gradcheck.__all__ == sorted(gradcheck.__all__)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'gradcheck' has no attribute 'asert_close'; it offers .*assert_close"
    ):
        gradcheck.asert_close  # noqa: B018


def test_the_monitor_is_said_to_stand_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"from gradcheck\.keras import GradientMonitor"):
        gradcheck.GradientMonitor  # noqa: B018


def test_hasattr_and_import_of_an_unknown_name() -> None:
    assert not hasattr(gradcheck, "nothing")
    with pytest.raises(ImportError, match="nothing"):
        exec("from gradcheck import nothing")


@pytest.mark.parametrize("before", ["", "gradcheck.Finding; "])
def test_dir_lists_the_names_loaded_or_not(before: str) -> None:
    names = run(f"import gradcheck; {before}print(*dir(gradcheck), sep='\\n')").split()
    assert set(gradcheck.__all__) <= set(names)
    assert len(names) == len(set(names))


def test_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from gradcheck import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(gradcheck.__all__)


@pytest.mark.parametrize(
    "source",
    [
        "import gradcheck",
        "import gradcheck.pytest_plugin",
        "import gradcheck; dir(gradcheck); gradcheck.Finding; gradcheck.GradientMismatch",
    ],
)
def test_tensorflow_waits(source: str) -> None:
    assert run(f"import sys; {source}; print('tensorflow' in sys.modules)") == "False\n"


def test_check_brings_tensorflow_and_stays_a_function_beside_the_module_of_its_name() -> None:
    # TensorFlow: otherwise test_tensorflow_waits would pass on a machine without it.
    source = "import sys, gradcheck.check; gradcheck.assert_close; print(type(gradcheck.check).__name__)"
    assert run(f"{source}; print('tensorflow' in sys.modules)").split() == ["function", "True"]


def test_the_version_is_that_of_the_project() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    assert f'version = "{gradcheck.__version__}"' in lines


def test_every_package_is_installed() -> None:
    listed = re.search(
        r"^packages = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.DOTALL | re.M
    )
    assert listed
    here = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gradcheck").rglob("__init__.py")}
    assert sorted(re.findall(r'"([\w.]+)"', listed[1])) == sorted(
        {*here, "gradcheck.strategies", "gradcheck.known_defects"}
    )
