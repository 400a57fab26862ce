"""Reports as a hunt writes them, made from known defects; and the command line, called in this process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradcheck import documents
from gradcheck.__main__ import main
from gradcheck.defects.known import load
from gradcheck.defects.records import Defect
from gradcheck.hunt.admission import admit
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.known_graphs import example_of
from gradcheck.operations.special_sets import describe
from gradcheck.result import Finding
from tests.records import COMMITTED


@dataclass(frozen=True)
class Said:
    """The output of a command line, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def next(self) -> str:
        return self.out.strip().split("\n")[-1].removeprefix("next: ")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a command line in this process, such as `call("replay", folder)`; usage errors of argparse count, too."""

    def run(*arguments: object) -> Said:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def _at_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory outside the checkout, where no command finds its reports or the installed records by
    itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gradcheck.defects.known.installed", lambda: _none(tmp_path))
    monkeypatch.setattr("gradcheck.runtime._known", [])
    monkeypatch.delenv("GRADCHECK_KNOWN", raising=False)


def _none(tmp_path: Path) -> Path:
    place = tmp_path.with_name(f"{tmp_path.name} without records")
    place.mkdir(exist_ok=True)
    return place


@pytest.fixture(scope="session")
def defects() -> dict[str, Defect]:
    return {defect.name: defect for defect in load(COMMITTED)}


@pytest.fixture(scope="session")
def discovered(defects: dict[str, Defect]) -> Callable[[str], GraphFinding]:
    """The finding that the hunt would have made of a known defect."""

    def make(name: str) -> GraphFinding:
        defect = defects[name]
        about, example = defect.signature, example_of(defect)
        graph = example.graph
        position = next(place for place, node in graph.positions() if node.op == about.operation)
        node = graph.nodes[position - len(graph.inputs)]
        at = admit(graph)
        wrong = Finding(defect.kind, about.order, "x", (0,), None, 0.0, 9.0, 1e-12, 1e-11, "0 instead of 9")
        special = describe([at[parent] for parent in node.parents])
        return GraphFinding(
            graph,
            about.order,
            (wrong,),
            about.operation,
            position,
            special,
            example.cotangent,
            example.direction,
            about.taken,
        )

    return make


@pytest.fixture
def written(discovered: Callable[[str], GraphFinding], tmp_path: Path) -> Callable[..., Path]:
    """Writes the JSON report of a known defect's finding, with some fields replaced, into a folder."""

    def write(name: str, folder: Path = tmp_path / "reports", **fields: Any) -> Path:
        found = dataclasses.replace(discovered(name), **fields)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{found.name}.json"
        path.write_text(documents.to_text(Report.of(found)))
        return path

    return write
