from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.events import FindingMade
from gradcheck.hunt.finding import GraphFinding, NodeCheck
from gradcheck.hunt.graph_json import from_json
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report import writer
from gradcheck.hunt.report.finding_page import markdown, properties, sentence, text
from gradcheck.hunt.report.run import merge
from gradcheck.hunt.report.writer import PageError, ReportError, without_page, write, write_run
from gradcheck.result import Finding, Kind, Verdict
from tests.machine import MACHINE

GRAPH = Graph((Input((3,), (0.0, 2.0, 3.0)),), (Node.of("cumprod", 0, exclusive=False, reverse=False),))
WRONG = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 0.0, 9.0, 2e-12, 3e-11, "autodiff gives 0, differences 9")
FOUND = GraphFinding(
    GRAPH,
    1,
    (WRONG,),
    "cumprod",
    1,
    "zero in argument 0",
    literal(np.ones(3)),
    environment=MACHINE,
    values=(literal([0.0, 2.0, 3.0]), literal([0.0, 0.0, 0.0])),
    nodes=(NodeCheck(1, Verdict.MISMATCH, 0.0, 9.0, 2e-12),),
)


def confirmed(output: str) -> GraphFinding:
    return dataclasses.replace(FOUND, confirmation=Confirmation(1, output))


def test_four_files_with_the_stable_name(tmp_path: Path) -> None:
    paths = write(confirmed("x[0] 0 9 <- wrong\nWRONG"), tmp_path / "new" / "reports")
    assert [path.name for path in paths] == [FOUND.name + suffix for suffix in (".json", ".md", ".py", ".html")]
    assert sorted(os.listdir(tmp_path / "new" / "reports")) == sorted(path.name for path in paths)
    assert paths[2].read_text() == FOUND.script


def test_the_json_holds_the_whole_finding(tmp_path: Path) -> None:
    data = json.loads(write(FOUND, tmp_path)[0].read_text())
    assert (data["format"], data["version"]) == ("gradcheck report", 1)
    assert data["signature"] == {
        "operation": "cumprod",
        "order": 1,
        "path": "reverse",
        "mode": "eager",
        "kind": "wrong value",
    }
    assert data["description"] == "zero in argument 0"
    assert from_json(data["graph"]) == GRAPH
    assert data["findings"][0]["difference"] == 9.0
    assert data["environment"]["tensorflow"] == "2.21.0"
    assert data["confirmation"] is None


def test_numbers_that_json_does_not_know_are_texts(tmp_path: Path) -> None:
    found = dataclasses.replace(FOUND, findings=(dataclasses.replace(WRONG, autodiff=float("nan")),))
    assert json.loads(write(found, tmp_path)[0].read_text())["findings"][0]["autodiff"] == "nan"


def test_the_markdown_says_it_in_one_sentence_first() -> None:
    report = markdown(confirmed("WRONG"))
    assert report.splitlines()[2] == (
        "In TensorFlow 2.21.0, the first derivative of `cumprod` (zero in argument 0) has a wrong value; its "
        "backward pass uses the gradient registered for `Cumprod`. A fresh process confirms it."
    )
    for part in (
        "y = tf.math.cumprod(x, axis=-1, exclusive=False, reverse=False)   # [0, 0, 0]   <- culprit",
        "| wrong value | x\\[0\\] | 0 | 9 | 2e-12 | 3e-11 | 3e+11 | autodiff gives 0, differences 9 |",
        "| y | `tf.math.cumprod(x, axis=-1, exclusive=False, reverse=False)` | mismatch (culprit) | 0 | 9 | 2e-12 |",
        "| TF_ENABLE_ONEDNN_OPTS | `0` |",
        "def function(x):",
        "Exit code 1.",
    ):
        assert part in report


def test_what_comes_from_outside_cannot_act() -> None:
    evil = dataclasses.replace(WRONG, input="<img src=x>|`", reason="</td><script>alert(1)</script>\n# title [a](b)")
    machine = structs.replace(MACHINE, processor="`|<b>\n```")
    output = "```\n# not a title\n<script>"
    report = markdown(dataclasses.replace(confirmed(output), findings=(evil,), environment=machine))
    outside, fenced = report.partition("````text\n")[::2]
    assert fenced.startswith(output)
    assert "<script>" not in outside
    assert "<img" not in outside
    assert "[a](b)" not in outside
    assert sum(line.startswith("# ") for line in outside.splitlines()) == 1
    rows = [line for line in outside.splitlines() if line.startswith("| wrong value")]
    assert rows[0].replace("\\|", "").count("|") == 9


def test_a_mismatch_that_was_not_confirmed_says_so() -> None:
    assert (
        "A fresh process did not confirm it."
        in sentence(dataclasses.replace(FOUND, confirmation=Confirmation(0, "RIGHT")))[-1][0]
    )


def test_what_could_not_be_run_again_does_not_look_like_a_false_alarm() -> None:
    for code, output in ((None, "no answer within 120 s"), (1, "ModuleNotFoundError: No module named 'tensorflow'")):
        found = dataclasses.replace(FOUND, confirmation=Confirmation(code, output))
        assert sentence(found)[-1][0].endswith(". It could not be run again.")
        assert "gradcheck.confirmed" not in dict(properties(found))
    assert (
        dict(properties(dataclasses.replace(FOUND, confirmation=Confirmation(0, "RIGHT"))))["gradcheck.confirmed"]
        == "false"
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_reads_as_a_sentence(kind: Kind) -> None:
    found = dataclasses.replace(FOUND, findings=(dataclasses.replace(WRONG, kind=kind, autodiff=None, allowed=None),))
    assert sentence(found)[-1][0].endswith(".")
    assert "– | 9 |" in markdown(found)


def test_a_folder_that_cannot_be_written_to_is_named_and_the_finding_is_still_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ReportError, match="--gradcheck-reports") as caught:
        write(FOUND, tmp_path / "file" / "reports")
    assert str(tmp_path / "file" / "reports") in str(caught.value)
    told = text(FOUND)
    assert FOUND.script in told
    assert "autodiff 0.0, finite-difference estimate 9.0" in told


def test_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gradcheck.files._created_beside", refuse)
    with pytest.raises(ReportError, match="Permission denied"):
        write(FOUND, tmp_path)


def test_a_failure_half_way_leaves_neither_half_a_file_nor_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(FOUND, tmp_path)[0].read_text()

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gradcheck.files.os.fsync", refuse)
    with pytest.raises(ReportError, match="No space left"):
        write(confirmed("other"), tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".html", ".json", ".md", ".py"]
    assert (tmp_path / f"{FOUND.name}.json").read_text() == before


def test_a_page_that_cannot_be_made_costs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: GraphFinding) -> str:
        raise IndexError("tuple index out of range")

    write(FOUND, tmp_path)
    monkeypatch.setitem(writer.FILES, ".html", broken)
    with pytest.raises(PageError, match=r"^\.html: IndexError: tuple index out of range$") as caught:
        write(FOUND, tmp_path)
    assert [path.suffix for path in caught.value.written] == [".json", ".md", ".py"]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md", ".py"], "no page of an earlier run"
    run = merge([FindingMade(Report.of(FOUND))])
    page = write_run(run, tmp_path, without_page=without_page(run.findings, tmp_path))[0].read_text()
    assert f'href="{FOUND.name}.json"' in page
    assert " · has no page" in page


def test_workers_that_write_at_once_leave_whole_files(tmp_path: Path) -> None:
    reasons = [letter * 5000 for letter in "abcd"]
    found = [dataclasses.replace(FOUND, findings=(dataclasses.replace(WRONG, reason=reason),)) for reason in reasons]
    threads = [threading.Thread(target=lambda d=one: [write(d, tmp_path) for _ in range(4)]) for one in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 4
    assert json.loads((tmp_path / f"{FOUND.name}.json").read_text())["findings"][0]["reason"] in reasons
