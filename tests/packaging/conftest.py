"""Distributions built from a copy of the sources, and fresh virtual environments to install them in."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "gradcheck", "strategies", "reports/known")
RESIDUE = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command independently of this test run: none of its settings, no PYTHONPATH, no network."""
    ours = ("PYTEST_", "PYTHON", "GRADCHECK_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def succeed(*command: str | Path, cwd: Path) -> str:
    """The output of a command that has to succeed, run as by `run`."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_sources(folder: Path) -> Path:
    """A copy of the sources of a distribution, without anything that an earlier build left behind."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=RESIDUE)
        else:
            shutil.copy2(source, folder / name)
    return folder


@dataclass(frozen=True)
class Distributions:
    """A wheel and a source distribution, with the copy of the checkout that both were built from."""

    source: Path
    wheel: Path
    sdist: Path


def build(source: Path, output: Path, *kinds: str) -> None:
    """Builds the kinds of distribution ("--wheel", "--sdist") with the installed setuptools."""
    succeed(sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", output, source, cwd=output.parent)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a named folder in the first process of the run that needs it; the others wait until it is made."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        with (shared / f"{name}.lock").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if lock.read() != "made":
                shutil.rmtree(shared / name, ignore_errors=True)
                make(shared / name)
                lock.write("made")
        return shared / name

    return folder


@pytest.fixture(scope="session")
def distributions(once: Callable[[str, Callable[[Path], object]], Path]) -> Distributions:
    """The wheel and the sdist, each built from the same copy of the checkout."""

    def make(folder: Path) -> None:
        build(copy_sources(folder / "source"), folder / "dist", "--sdist", "--wheel")

    folder = once("distributions", make)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return Distributions(folder / "source", wheel, sdist)


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment that sees gradcheck's dependencies, but not gradcheck itself."""

    prefix: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.prefix / ("Scripts" if os.name == "nt" else "bin") / "python"

    def install(self, *arguments: str | Path) -> None:
        """Installs gradcheck with the pip of the outer environment, without any index."""
        # --force-reinstall: pip sees the outer environment's gradcheck, of the same version, and would do nothing.
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install", "--force-reinstall", "--no-deps")
        succeed(*pip, "--no-build-isolation", *arguments, cwd=self.prefix)


def environment_in(folder: Path) -> Environment:
    """A virtual environment whose path ends with the site-packages of the interpreter that runs the tests.

    A folder on the path gives its packages but none of its .pth files, so that an editable installation of gradcheck in
    the outer environment stays out.
    """
    prefix = folder / "environment"
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(prefix)
    inner = Path(sysconfig.get_path("purelib", vars={"base": str(prefix)}))
    outer = [entry for entry in sys.path if entry.rstrip("/\\").endswith(("site-packages", "dist-packages"))]
    (inner / "outer.pth").write_text("\n".join(outer))
    return Environment(prefix)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A virtual environment of the test's own, without gradcheck."""
    return environment_in(tmp_path)


@pytest.fixture(scope="session")
def installed(distributions: Distributions, once: Callable[[str, Callable[[Path], object]], Path]) -> Environment:
    """The virtual environment with the wheel, for tests that install nothing else in it."""
    folder = once("installed", lambda folder: environment_in(folder).install(distributions.wheel))
    return Environment(folder / "environment")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A working directory from which neither the checkout nor its copy can be seen."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder
