"""The contents of a wheel and a source distribution."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import gradcheck

from .conftest import ROOT, Distributions, build

NAME = f"gradcheck-{gradcheck.__version__}"


def library(source: Path) -> dict[str, bytes]:
    """The files of the library in a source tree, under their names in a wheel."""
    files = {"gradcheck/py.typed": (source / "gradcheck/py.typed").read_bytes()}
    parts = {"gradcheck": "gradcheck", "strategies": "gradcheck/strategies", "reports/known": "gradcheck/known_defects"}
    for folder, package in parts.items():
        patterns = ("*.py", "*.tsv", "templates/*", "*.json")
        for path in (found for pattern in patterns for found in (source / folder).rglob(pattern)):
            files[f"{package}/{path.relative_to(source / folder).as_posix()}"] = path.read_bytes()
    return files


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_library_and_nothing_else(distributions: Distributions) -> None:
    held = contents(distributions.wheel)
    described = {name for name in held if name.startswith(f"{NAME}.dist-info/")}
    assert {name: data for name, data in held.items() if name not in described} == library(distributions.source)


def test_the_wheel_says_who_may_use_it_and_what_it_needs(distributions: Distributions) -> None:
    held = contents(distributions.wheel)
    assert held[f"{NAME}.dist-info/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    metadata = Parser().parsestr(held[f"{NAME}.dist-info/METADATA"].decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.split("<")[0].split(">")[0] for line in needed} == {
        *("tensorflow", "hypothesis", "numpy", "executing", "Jinja2", "msgspec")
    }


def test_the_sdist_rebuilds_to_the_same_wheel(distributions: Distributions, tmp_path: Path) -> None:
    with tarfile.open(distributions.sdist) as archive:
        names = set(archive.getnames())
        if sys.version_info >= (3, 12):
            archive.extractall(tmp_path, filter="data")
        else:
            archive.extractall(tmp_path)
    assert {f"{NAME}/{name}" for name in ("LICENSE", "README.md", "pyproject.toml", "strategies/__init__.py")} <= names
    build(tmp_path / NAME, tmp_path / "again", "--wheel")
    (wheel,) = (tmp_path / "again").glob("*.whl")
    assert contents(wheel) == contents(distributions.wheel)


def test_every_folder_with_python_files_is_a_listed_package() -> None:
    tomllib = pytest.importorskip("tomllib", reason="tomllib came with Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {name.rpartition("/")[0].replace("/", ".") for name in library(ROOT) if name.endswith(".py")}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(folders)
