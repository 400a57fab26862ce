"""The package's own names: lazily loaded and complete."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import gradcheck

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_loads() -> None:
    loaded = {name: getattr(gradcheck, name) for name in gradcheck.__all__}
    raised = {name for name, value in loaded.items() if isinstance(value, type) and issubclass(value, Exception)}
    assert {name: (value.__name__, value.__module__) for name, value in loaded.items()} == {
        name: (name, "gradcheck" if name in raised else gradcheck._HOME[name]) for name in gradcheck.__all__
    }
    for name in raised:  # pytest-xdist imports them by their modules, pickle as well
        assert isinstance(pickle.loads(pickle.dumps(loaded[name]("why"))), loaded[name])
    assert [name for name, value in loaded.items() if vars(gradcheck)[name] is not value] == []


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


def test_the_strategies_are_said_to_need_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gradcheck, "strategies", raising=False)  # another test may have imported them
    with pytest.raises(AttributeError, match=r"which needs Hypothesis: import gradcheck\.strategies"):
        gradcheck.strategies  # noqa: B018


def test_hasattr_and_import_of_an_unknown_name() -> None:
    assert not hasattr(gradcheck, "nothing")
    with pytest.raises(ImportError, match="nothing"):
        exec("from gradcheck import nothing")


def test_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from gradcheck import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(gradcheck.__all__)


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


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {gradcheck.__version__}\n" in text
