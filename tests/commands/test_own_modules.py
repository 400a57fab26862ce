"""The modules with operations of a project, which the events of its runs name: imported if they are its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcheck.hunt.events import EventFile, OperationDone, OwnModule, Started, from_line, to_line
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import REGISTERED, Origin, forget
from tests.machine import MACHINE

REGISTERS = """
import os
import gradcheck

os.mkdir("IMPORTED")


@gradcheck.operation
def own_{0}(x):
    return x**2
"""
MODULES = {
    "flat": ("flat_layers", "."),
    "nested": ("flat_project.layers", "."),
    "source": ("flat_source.layers", "src"),
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before, path = set(sys.modules), [*sys.path]
    yield
    forget(list(REGISTERED))
    for name in set(sys.modules) - before:
        del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Writes the events of a run with an operation of its own, whose module the first of them names."""

    def write(operation: str, module: str, folder: str) -> Path:
        line = to_line(Started(MACHINE, "ci", "7", "1/1", (), modules=(OwnModule(module, folder),)))
        done = to_line(OperationDone("sin", 1, {"agree": 9}, 9, 0, 1.0)).replace('"sin"', f'"{operation}"')
        events = tmp_path / "reports" / "events"
        events.mkdir(parents=True)
        named = line.replace('"operations": []', f'"operations": ["{operation}"]')
        (events / "main.jsonl").write_text(f"{named}\n{done}\n")
        return tmp_path / "reports"

    return write


def module(tmp_path: Path, place: str, text: str) -> Path:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", MODULES)
def test_coverage_and_replay_know_the_modules_of_the_run(
    call: Any, tmp_path: Path, run: Any, written: Any, name: str
) -> None:
    dotted, folder = MODULES[name]
    run(f"own_{name}", dotted, folder)
    module(tmp_path, f"{folder}/{dotted.replace('.', '/')}.py", REGISTERS.format(name))
    said = call("coverage")
    assert said.code == 0, said.err
    assert f"own_{name}" in said.out
    assert said.next == f"python -m pytest -p gradcheck.pytest_plugin --gradcheck-ops=own_{name}"
    assert (tmp_path / "IMPORTED").is_dir()
    written("cumprod-zero-order1")
    said = call("replay")
    assert said.code == 1, said.err
    # --import looks in the working directory alone.
    named = f" --import {dotted}" if folder == "." else ""
    assert said.next.endswith(f"--title TEXT --source TEXT{named}")
    said = call("merge", "reports", "--into", "merged")
    assert said.next == f"python -m gradcheck coverage merged{named}"
    assert '"modules": [{"module": "' in (tmp_path / "merged" / "events" / "merged.jsonl").read_text()


def test_a_package_may_register_operations_and_so_may_a_name_imported_from_gradcheck(
    call: Any, tmp_path: Path, run: Any
) -> None:
    run("own_package", "flat_package", ".")
    text = REGISTERS.format("package").replace("gradcheck.operation", "operation")
    module(
        tmp_path, "flat_package/__init__.py", text.replace("import gradcheck", "from gradcheck import check, operation")
    )
    assert call("coverage").code == 0


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("own_code.py", ("own_code", ".")),  # registers nothing
        ("elsewhere/own_code.py", ("own_code", "")),
        ("own_code.txt", ("own_code", ".")),
        ("link.py", ("own_code", ".")),
    ],
)
def test_nothing_else_that_a_file_names_is_imported(
    call: Any, tmp_path: Path, run: Any, place: str, named: tuple[str, str]
) -> None:
    run("own_code", *named)
    text = REGISTERS.format("code")
    module(tmp_path, place, text if place != "own_code.py" else 'import os\nos.mkdir("IMPORTED")\n')
    if place == "link.py":
        os.symlink(tmp_path / "link.py", tmp_path / "own_code.py")
    for command in (("coverage",), ("replay",), ("merge", "reports")):
        said = call(*command)
        assert said.code == 2
        assert "name that module with --import own_code, take the file away" in said.err
    assert not (tmp_path / "IMPORTED").exists()
    assert "own_code" not in sys.modules


@pytest.mark.parametrize("name", ["os; os.mkdir('IMPORTED')", "..own", "a/b", "", "x" * 70, 1, None, {"module": "own"}])
@pytest.mark.parametrize("folder", [".", "../..", "/tmp", "a/../..", "C:\\x", "-x\n"])
def test_a_name_that_is_none_is_no_event(call: Any, tmp_path: Path, run: Any, name: Any, folder: str) -> None:
    reports = run("sin", "own", ".")
    path = reports / "events" / "main.jsonl"
    forged = path.read_text().replace('"module": "own"', f'"module": {json.dumps(name)}')
    path.write_text(forged.replace('"folder": "."', f'"folder": {json.dumps(folder)}'))
    said = call("coverage")
    assert (said.code, "not an event of this project: $.modules[0]" in said.err) == (2, True)
    assert not (tmp_path / "IMPORTED").exists()


def test_a_module_that_raises_is_named(call: Any, tmp_path: Path, run: Any) -> None:
    run("own_broken", "own_broken", ".")
    module(tmp_path, "own_broken.py", REGISTERS.format("broken") + "raise SystemExit(3)\n")
    assert "own_broken: SystemExit: 3; expected a module that can be imported, as the run did" in call("coverage").err


def test_a_module_below_the_working_directory_has_its_folder_and_another_has_none(tmp_path: Path) -> None:
    assert OwnModule.of(Origin("a.b", str(tmp_path))) == OwnModule("a.b", ".")
    assert OwnModule.of(Origin("a", str(tmp_path / "src" / "it"))) == OwnModule("a", "src/it")
    assert OwnModule.of(Origin("a", str(tmp_path.parent))) == OwnModule("a", "")
    assert OwnModule.of(Origin("<run>", str(tmp_path))) is None


def test_a_process_writes_the_modules_of_its_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.running.test_aggregate import aggregate

    module(tmp_path, "own_written.py", REGISTERS.format("written"))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("own_written")
    assert "own_written" in CATALOGUE
    journal = aggregate(tmp_path / "reports")._opened()
    assert journal.opened()
    assert isinstance(journal.file, EventFile)
    journal.close()
    (path,) = (tmp_path / "reports" / "events").iterdir()
    first = from_line(path.read_text().rstrip("\n"))
    assert isinstance(first, Started)
    assert first.modules == (OwnModule("own_written", "."),)
