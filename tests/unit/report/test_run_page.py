from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gradcheck.defects import known
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.events import (
    Crash,
    Ending,
    Event,
    FindingMade,
    Finished,
    Hang,
    KnownReplayed,
    OperationDone,
    Started,
    State,
)
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.run import Earlier, Grade, HuntRun, merge, reaches
from gradcheck.hunt.report.run_page import headline, rate, run_page, summary
from gradcheck.hunt.report.writer import ReportError, write_run
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.result import Kind
from tests.records import copied

Parsed = Callable[[str], Any]
SIN = Graph((Input((1,), (0.5,)),), (Node.of("sin", 0),))
NASTY = "</td></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'`|"


@pytest.fixture
def run(machine: Environment, report: Report) -> HuntRun:
    """A run with an example of everything."""
    worse = dataclasses.replace(report.finding.findings[0], kind=Kind.RAISES, autodiff=None)
    events: list[Event] = [
        Started(machine, "dev", "7", "1/2", ("sin", "cos", "tanh", "exp", "log", "cumprod")),
        Started(machine, "dev", "8", "2/2", ("sin", "cos", "tanh", "exp", "log", "cumprod")),
        OperationDone("sin", 1, {"agree": 30}, 30, 0, 1.0, 1e-12),
        OperationDone("sin", 2, {"inconclusive": 3, "composed kink": 1}, 9, 5, 1.0),
        OperationDone("cos", 1, {"agree": 6, "inconclusive": 20}, 26, 0, 1.0, 1e-9),
        OperationDone("tanh", 1, {"agree": 6}, 40, 34, 1.0, 1e-3),
        OperationDone("exp", 1, {"agree": 2}, 2, 0, 1.0, 0.0),
        FindingMade(report),
        FindingMade(Report.of(dataclasses.replace(report.finding, findings=(worse,)))),
        Crash.of("sin", 1, SIN, "killed by SIGABRT"),
        Hang.of("cos", 2, SIN, "no end within 60 s"),
        KnownReplayed("xlogy-zero-order1", State.STILL, "2.9.0"),
        KnownReplayed("xlogy-zero-order1", State.FIXED, "2.21.0"),
        KnownReplayed("tile-rank3-order2", State.STILL, "2.21.0"),
        KnownReplayed("cumprod-zero-order1", State.CANNOT_TELL, "2.21.0", "no kernel"),
        Finished(Ending.COMPLETED, 60, 10.0, "1/2"),
        Finished(Ending.INTERRUPTED, 39, 8.0, "2/2"),
    ]
    return dataclasses.replace(merge(events), remarks=("gw1.jsonl: line 3 is half-written; its process was killed",))


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's own operation that has no second derivative."""
    name = "registered_sine"
    monkeypatch.setitem(CATALOGUE, name, dataclasses.replace(CATALOGUE["sin"], name=name, orders=(1,)))
    return name


def test_grades(run: HuntRun, once: str) -> None:
    told = {(each.operation, each.order): each for each in reaches(run, {("log", 1): "log-order1"})}
    assert len(told) == 2 * len(CATALOGUE)
    grades = {pair: (each.grade, each.reason) for pair, each in told.items()}
    assert grades["sin", 1] == (Grade.RED, "crash")
    assert grades["sin", 2] == (Grade.YELLOW, "never compared")
    assert grades["cos", 1] == (Grade.YELLOW, "mostly inconclusive")
    assert grades["tanh", 2] == (Grade.BLANK, "never reached")
    assert grades["tanh", 1] == (Grade.YELLOW, "mostly rejected")
    assert grades["exp", 1] == (Grade.GREEN, "")  # two comparisons are two more than none
    assert grades["cumprod", 1] == (Grade.RED, "raises"), "the most severe finding"
    assert grades["cos", 2] == (Grade.RED, "hang")
    assert grades["log", 1] == (Grade.KNOWN, "left out: log-order1")
    assert grades["matmul", 1] == (Grade.NONE, "not asked for")
    assert grades[once, 2] == (Grade.NONE, "has no derivative of this order")
    assert (told["sin", 2].compared, told["sin", 2].lost, told["sin", 2].rejected) == (0, 4, 5)


@pytest.mark.usefixtures("once")
def test_a_run_without_a_word_on_operations_was_asked_for_all() -> None:
    assert {each.grade for each in reaches(HuntRun())} == {Grade.BLANK, Grade.NONE}


def test_everything_that_was_asked_for_is_on_the_page(run: HuntRun, parsed: Parsed) -> None:
    page = parsed(run_page(run, {("log", 1): "log-order1"}))
    for part in (
        "2 new findings, 1 crash, 1 hang, 1 known fixed",
        "known defects, still there 1",
        "known, fixed 1",
        "looked at, order 1 4 of 5",
        "looked at, order 2 0 of 6",
        "4 of 5 operations were looked at in this run at order 1, 0 of 6 at order 2. Left out, as known to be wrong "
        "everywhere: 1 at order 1, 0 at order 2.",
        "operations compared operations compared median worst math 4 of 5 44 0 of 6 5e-10 0.001 all 4 of 5 44 0 of 6",
        "examples 99",
        "examples a second 5.5",
        "Findings, the most severe first cumprod raises",
        "killed by SIGABRT at order 1: sin",
        "no end within 60 s at order 2",
        "defect 2.9.0 2.21.0 cumprod-zero-order1 – cannot tell xlogy-zero-order1 still wrong fixed",
        "1 still there on every release that was tried",
        "math: 6 operations 3 wrong 3 hardly compared",
        "sin ✗ 0 1e-12 order 1: crash (30 drawn: 30 compared); order 2: never compared (9 drawn: 4 inconclusive, 5 "
        "rejected)",
        "exp 2 0",
        "Drawn and never compared sin at order 2.",
        "up to pairs 1e-16 1",
        "gw1.jsonl: line 3 is half-written",
        "seed operations minutes TensorFlow 1/2 dev 7 6 – 2.21.0 on a processor 2/2 dev 8",
        "1/2 completed 60 10.0 6",
        "2/2 interrupted 39 8.0 4.88",
    ):
        assert part in page.text, part


def test_findings_link_to_their_pages(run: HuntRun, parsed: Parsed) -> None:
    links = [place["href"] for place in parsed(run_page(run)).named("a")]
    assert links == [f"{found.name}.html" for found in run.ranked]
    assert all(re.fullmatch(r"[a-z0-9_-]+\.html", link) for link in links)
    assert run.ranked[0].kind is Kind.RAISES


def test_an_operation_has_two_cells_with_a_word_for_each_sign(run: HuntRun, parsed: Parsed) -> None:
    cells = [place for place in parsed(run_page(run)).named("i") if "cell" in place.get("class", "")]
    assert len(cells) == 2 * 6 + len(Grade), "those of the operations that were asked for, and the legend"
    signs = [place for place in cells if place.get("role") == "img"]
    assert {place["aria-label"] for place in signs} == {
        "order 1: crash (30 drawn: 30 compared)",
        "order 2: hang",
        "order 1: raises",
        *(f"order {order}: never reached" for order in (1, 2)),
    }


def test_red_is_only_what_is_new_and_wrong(run: HuntRun) -> None:
    quiet = dataclasses.replace(run, findings=(), crashes=(), hangs=())
    assert not any(each.grade is Grade.RED for each in reaches(quiet))
    assert 'class="badge wrong"' not in run_page(quiet)


def test_what_earlier_runs_compared_stands_beside_this_run(run: HuntRun, parsed: Parsed) -> None:
    done = [
        OperationDone("log", 1, {"agree": 1200}, 1200, 0, 1.0),
        OperationDone("sin", 2, {"agree": 1, "inconclusive": 5}, 6, 0, 1.0, None, {"forward over reverse, eager": 1}),
        OperationDone("matmul", 1, {"agree": 9}, 9, 0, 1.0),
    ]
    text = parsed(run_page(run, earlier=Earlier(6, tuple(done), ("an earlier run is not counted",)))).text
    assert (
        "4 of 6 operations were looked at in this run at order 1, 0 of 6 at order 2; "
        "with the 6 runs before it, 5 and 1."
    ) in text
    assert "math 4 of 6 1 44 1,200 0 of 6 1 1 5e-10 0.001" in text
    assert "those of the 6 runs before this one" in text
    assert "linalg" not in text, "what this run was not asked for"
    assert "an earlier run is not counted" in text
    assert "; with the 6 runs before it, 5 and 1. 99 examples" in summary(run, earlier=Earlier(6, tuple(done)))
    assert "with the run before it, 4 and 0." in run_page(run, earlier=Earlier(1))


def test_comparisons_are_counted_by_mode(run: HuntRun, parsed: Parsed) -> None:
    assert "Modes and number types" not in run_page(run)
    modes = {"reverse, in float16": 3, "forward, eager": 1}
    more = [structs.replace(each, modes=modes if each.operation == "sin" else {}) for each in run.operations]
    text = parsed(run_page(dataclasses.replace(run, operations=tuple(more)))).text
    assert "forward, eager 1 –" in text, "it has no second order"
    assert "reverse, in float16 3 3" in text
    assert "reverse, tf.function reverse," in text, "a mode without a comparison"


def test_an_empty_run_has_a_page(parsed: Parsed) -> None:
    page = parsed(run_page(HuntRun()))
    assert "No new finding" in page.text
    assert "Nothing new is wrong." in page.text
    assert rate(HuntRun()) is None


def test_nothing_that_comes_from_outside_can_act(run: HuntRun, parsed: Parsed) -> None:
    machine = structs.replace(run.started[0].environment, processor=NASTY, tensorflow=NASTY)
    evil = dataclasses.replace(
        run,
        started=(structs.replace(run.started[0], environment=machine, profile=NASTY, seed=NASTY), run.started[1]),
        crashes=(structs.replace(run.crashes[0], message=NASTY),),
        known=(*run.known, KnownReplayed(NASTY, State.CANNOT_TELL, NASTY, NASTY)),
        remarks=(NASTY,),
    )
    text = run_page(evil, {("log", 1): NASTY})
    assert "<script" not in text
    assert "<img" not in text
    page = parsed(text)
    assert {"script", "img", "link"} & {tag for tag, _ in page.elements} == set()
    assert [name for _, found in page.elements for name in found if name.startswith("on")] == []
    told = summary(evil, {("log", 1): NASTY})
    assert "<script" not in told
    assert "<img" not in told


def test_a_record_is_called_what_its_class_says(run: HuntRun) -> None:
    replayed = KnownReplayed("conv2d_dilated-order1", State.STILL, "2.21.0", category="documented limitation")
    seen = dataclasses.replace(run, known=(*run.known, replayed))
    assert "; known defects still there: 1; documented limitations still there: 1; known and fixed: 1." in summary(seen)
    page = run_page(seen)
    assert "documented limitations, still there" in page
    assert "<code>conv2d_dilated-order1</code> <small>documented limitation</small>" in page


def test_the_summary_ranks_the_findings_and_says_what_changed(run: HuntRun) -> None:
    told = summary(run)
    assert told.startswith("# gradcheck: 2 new findings, 1 crash, 1 hang, 1 known fixed\n")
    assert (
        "4 of 6 operations were looked at in this run at order 1, 0 of 6 at order 2. 99 examples; 5.5 examples a second"
        in told
    )
    assert told.index("raises, although") < told.index("is not finite")
    assert "- `xlogy-zero-order1` on 2.21.0: fixed" in told
    assert "## Drawn and never compared\n\n- `sin` at order 2: 9 drawn: 4 inconclusive, 5 rejected\n" in told
    assert "**crash** of `sin` at order 1: killed by SIGABRT" in told
    assert headline(run) in told
    assert "<details><summary>Every operation</summary>\n\n```text\n" in told
    assert re.search(r"^tanh +6 ", told, re.MULTILINE)


def test_a_run_without_known_defects_has_no_page_of_them(tmp_path: Path) -> None:
    paths = write_run(HuntRun(), tmp_path)
    assert [path.name for path in paths] == ["index.html", "summary.md"]
    assert "known.html" not in paths[0].read_text()


def test_a_run_is_written_whole_with_the_page_that_it_links_to(
    run: HuntRun, parsed: Parsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known").mkdir()
    for name in {each.name for each in run.known}:
        copied(tmp_path / "known", name)
    monkeypatch.setenv("GRADCHECK_KNOWN", str(tmp_path / "known"))
    paths = write_run(run, tmp_path / "new")
    assert [path.name for path in paths] == ["index.html", "summary.md", "known.html"]
    linked = {one.name for one in known.records()}
    assert paths[0].read_text() == run_page(run, linked=linked)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["index.html", "known.html", "summary.md"]
    links = [place["href"] for place in parsed(paths[0].read_text()).named("a")]
    assert {"known.html", "known.html#cumprod-zero-order1"} <= set(links)
    anchors = {place["id"] for place in parsed(paths[2].read_text()).named("details") if "id" in place}
    assert {link.partition("#")[2] for link in links if link.startswith("known.html#")} <= anchors
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="the report of the run could not be written to"):
        write_run(HuntRun(), tmp_path / "file")


def test_the_report_of_a_run_needs_no_tensorflow(tmp_path: Path) -> None:
    code = (
        "import sys; from gradcheck.hunt.report.run import HuntRun\n"
        "from gradcheck.hunt.report.writer import write_run\n"
        f"write_run(HuntRun(), {str(tmp_path)!r}); sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
