from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import recheck
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.events import (
    Crash,
    Ending,
    Event,
    EventFile,
    FindingMade,
    Finished,
    Hang,
    KnownReplayed,
    OperationDone,
    Started,
    State,
)
from gradcheck.hunt.finding import Example, GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report import writer
from gradcheck.hunt.report.finding_page import finding_page
from gradcheck.hunt.report.run import read
from tests.commands.test_pytest_plugin import run_here
from tests.machine import MACHINE

pytest_plugins = ["pytester"]

SIN = Graph((literal([0.0]),), (Node.of("sin", 0),))
SECONDS = re.compile(r'"seconds": [0-9.e-]+')


def started(shard: str = "1/1", host: str = "a processor") -> Started:
    return Started(structs.replace(MACHINE, processor=host), "ci", "7", shard, ("sin", "cos", "cumprod"))


def done(operation: str, order: int, *, seconds: float = 1.0, **counts: int) -> OperationDone:
    told = {name.replace("_", " "): count for name, count in counts.items()}
    return OperationDone(operation, order, told, sum(counts.values()), counts.get("invalid", 0), seconds, 1e-9)


@pytest.fixture
def events(discovered: Callable[[str], GraphFinding]) -> list[Event]:
    """The events of a run, in any order."""
    return [
        done("sin", 1, agree=9, invalid=1),
        done("sin", 2, agree=8, inconclusive=2),
        done("cos", 1, agree=1),
        done("cumprod", 1, mismatch=3, agree=4),
        FindingMade(Report.of(replace(discovered("cumprod-zero-order1"), confirmation=Confirmation(1, "WRONG")))),
        FindingMade(Report.of(discovered("xlogy-zero-order1"))),
        Crash.of("sin", 1, SIN, "killed by SIGABRT"),
        Hang.of("cos", 2, SIN, "no end within 10 s"),
        KnownReplayed("xlogy-zero-order1", State.STILL, "2.21.0"),
    ]


def run(folder: Path, files: Sequence[tuple[Started, Sequence[Event]]], seconds: float = 6.0) -> Path:
    """A folder of reports with the events of some processes, which took `seconds` together."""
    for number, (first, events) in enumerate(files):
        with EventFile(folder / "events", f"worker{number}", first) as file:
            examples = sum(sum(event.counts.values()) for event in events if isinstance(event, OperationDone))
            for event in events:
                file.write(event)
            file.write(Finished(Ending.COMPLETED, examples, seconds / len(files), first.shard))
    return folder


def contents(folder: Path) -> dict[str, str]:
    """The text of every file, without the times."""
    return {
        path.relative_to(folder).as_posix(): SECONDS.sub('"seconds": 0', path.read_text())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_shards_merged_are_the_run_without_shards(call: Any, tmp_path: Path, events: list[Event]) -> None:
    whole = run(tmp_path / "whole", [(started(), events)])
    one = run(tmp_path / "one", [(started("1/2"), events[::2])], 2.0)
    two = run(
        tmp_path / "two",
        [(started("2/2", "another"), events[1::4]), (started("2/2", "another"), events[3::4])],
        4.0,
    )
    assert call("merge", whole, "--into", "from-one").code == 0
    assert call("merge", two, one, two / "events", "--into", "from-two").code == 0, "the same folder counts once"
    assert contents(tmp_path / "from-one") == contents(tmp_path / "from-two")
    merged = tmp_path / "from-two" / "events" / "merged.jsonl"
    assert sum(row[-1] for row in call("coverage", merged.parent, "--json").json["coverage"]["outcomes"]) == 28
    assert len(list((tmp_path / "from-two").glob("*.json"))) == 2
    assert call("merge", "from-two", "--into", "again").code == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "from-two"), "merging what is merged changes nothing"


def test_a_change_of_one_count_would_be_seen(call: Any, tmp_path: Path, events: list[Event]) -> None:
    run(tmp_path / "whole", [(started(), events)])
    run(tmp_path / "other", [(started(), [done("sin", 1, agree=10), *events[1:]])])
    call("merge", "whole", "--into", "a")
    call("merge", "other", "--into", "b")
    assert contents(tmp_path / "a") != contents(tmp_path / "b")


def test_the_output_of_merge(call: Any, tmp_path: Path, events: list[Event]) -> None:
    run(tmp_path / "whole", [(started(), events)])
    said = call("merge", "whole")
    assert said.code == 0
    assert "new finding: cumprod, wrong value at order 1: cumprod-order1-wrong-value-" in said.out
    assert "2 findings, 1 crashes, 1 hangs; read reports/merged/index.html" in said.out
    assert said.next == "python -m gradcheck replay reports/merged"
    run(tmp_path / "crashed", [(started(), [event for event in events if isinstance(event, Crash | Hang)])])
    assert call("merge", "crashed", "--into", "of it").next == "python -m gradcheck replay 'of it'"
    assert call("merge", "crashed", "--into", "right", "--json").json["findings"] == []
    data = call("merge", "whole", "--into", "two", "--json").json
    assert list(data) == [
        *("format", "version", "into", "files", "findings", "crashes", "hangs", "missing_shards", "remarks"),
        *("exit_code", "next"),
    ]
    assert list(data["findings"][0]) == ["operation", "order", "kind", "files", "name"]
    assert sorted(data["files"]) == sorted(contents(tmp_path / "two"))
    assert [(one["operation"], one["order"]) for one in data["crashes"] + data["hangs"]] == [("sin", 1), ("cos", 2)]


def test_a_missing_shard_and_a_killed_process_are_told(call: Any, tmp_path: Path, events: list[Event]) -> None:
    run(tmp_path / "one", [(started("1/3"), events[:1])])
    run(tmp_path / "three", [(started("3/3"), events[1:2])])
    with (tmp_path / "three" / "events" / "worker0.jsonl").open("a") as file:
        file.write('{"event": "operat')
    said = call("merge", "one", "three")
    assert said.code == 1
    assert "note: shard 2/3 is missing" in said.out
    assert "note: worker0.jsonl: line 4 is half-written; its process was killed" in said.out
    assert "shard 2/3 is missing" in (tmp_path / "reports" / "merged" / "index.html").read_text()
    assert "note: shard 2/3 is missing" in call("coverage", "one", "three").out


def test_a_folder_without_events_is_told_and_the_others_are_merged(
    call: Any, tmp_path: Path, events: list[Event]
) -> None:
    """A shard whose processes never reached a test leaves its schedule, but no events."""
    run(tmp_path / "one", [(started(), events)])
    (tmp_path / "two" / "events").mkdir(parents=True)
    (tmp_path / "two" / "schedule.json").write_text("{}")
    said = call("merge", "two", "one", "--json")
    assert said.code == 1
    assert len(said.json["findings"]) == 2
    assert said.json["missing_shards"] == ["two"]
    told = "two: a folder without events (events/*.jsonl); its run is missing"
    assert told in said.json["remarks"]
    assert told in (tmp_path / "reports" / "merged" / "index.html").read_text()
    assert f"note: {told}" in call("coverage", "one", "two").out
    assert call("merge", "two", "two", "--into", "nothing").code == 2
    assert not (tmp_path / "nothing").exists()


def test_shards_are_counted_for_each_build(call: Any, tmp_path: Path) -> None:
    def build(shard: str, **build: str) -> Started:
        one = started(shard)
        return structs.replace(one, environment=structs.replace(one.environment, **build))

    run(tmp_path / "stable", [(build("1/2"), []), (build("2/2", processor="another", seed="8"), [])])
    run(tmp_path / "nightly", [(build("1/2", tensorflow="2.22.0-dev20260131"), [])])
    run(tmp_path / "onednn", [(build("2/2", onednn="1"), [])])
    assert call("merge", "stable", "--into", "whole").code == 0
    assert call("merge", "nightly", "--into", "half", "--json").json["missing_shards"] == ["2/2"]
    said = call("merge", "stable", "nightly", "onednn", "--json")
    assert said.code == 1
    assert said.json["missing_shards"] == [
        "1/2 of TensorFlow 2.21.0, TF_ENABLE_ONEDNN_OPTS 1",
        "2/2 of TensorFlow 2.22.0-dev20260131, TF_ENABLE_ONEDNN_OPTS 0",
    ]


def test_a_finding_that_cannot_run_here_keeps_its_json_and_has_no_page(
    call: Any, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a finding with an operation that only a later release of TensorFlow accepts."""
    run(tmp_path / "one", [(started(), events)])
    output_of = recheck.output_of

    def of_this_release(example: Example) -> Any:
        if example.graph.nodes[-1].op == "cumprod":
            raise NotImplementedError("no such kernel\nand more")
        return output_of(example)

    monkeypatch.setattr(recheck, "output_of", of_this_release)
    said = call("merge", "one", "--json")
    assert said.code == 0
    names = {one["operation"]: one["name"] for one in said.json["findings"]}
    into = tmp_path / "reports" / "merged"
    assert sorted(path.suffix for path in into.glob(f"{names['xlogy']}.*")) == [".html", ".json", ".md", ".py"]
    assert [path.suffix for path in into.glob(f"{names['cumprod']}.*")] == [".json"]
    (remark,) = said.json["remarks"]
    assert remark.startswith(f"the finding {names['cumprod']} cannot run on the installed TensorFlow 2.")
    assert remark.endswith(" (NotImplementedError: no such kernel); it has its JSON only")
    page = (into / "index.html").read_text()
    links = re.findall(r'href="([^"#]+)"', page)
    assert [link for link in links if not (into / link).exists()] == []
    assert page.count("cannot run here, not looked at again") == 1
    assert len(read(into / "events").findings) == 2
    assert call("merge", into, "--into", "again").code == 0


def test_a_page_that_cannot_be_made_costs_no_other_file(
    call: Any, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(found: GraphFinding) -> str:
        return finding_page(found) if found.culprit == "xlogy" else str(found.graph.inputs[len(found.graph.inputs)])

    run(tmp_path / "one", [(started(), events)])
    monkeypatch.setitem(writer.FILES, ".html", page)
    said = call("merge", "one", "--json")
    assert said.code == 0
    names = {one["operation"]: one["name"] for one in said.json["findings"]}
    into = tmp_path / "reports" / "merged"
    assert sorted(path.suffix for path in into.glob(f"{names['xlogy']}.*")) == [".html", ".json", ".md", ".py"]
    assert sorted(path.suffix for path in into.glob(f"{names['cumprod']}.*")) == [".json", ".md", ".py"]
    assert sorted(said.json["files"]) == sorted(contents(into))
    (remark,) = said.json["remarks"]
    assert remark.startswith(f"the finding {names['cumprod']} lacks a file that could not be made (.html: IndexError: ")
    index = (into / "index.html").read_text()
    assert [link for link in re.findall(r'href="([^"#]+)"', index) if not (into / link).exists()] == []
    assert "lacks a file" in index


def test_nothing_of_somebody_s_is_overwritten(call: Any, tmp_path: Path, events: list[Event]) -> None:
    run(tmp_path / "whole", [(started(), events[:1])])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path)
    for into in ("mine", "file", "link", "whole"):
        said = call("merge", "whole", "--into", into)
        assert said.code == 2
        assert f"{into}: already there; name a new folder with --into DIR" in said.err
    said = call("merge", "whole", "--into", "file/below")
    assert said.code == 2
    assert "file/below: nothing can be written there" in said.err
    assert contents(tmp_path) == before


def test_a_read_only_folder_is_named(
    call: Any, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "whole", [(started(), events[:1])])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("gradcheck.files._created_beside", refuse)
    said = call("merge", "whole", "--into", "out")
    assert said.code == 2
    assert "out: nothing can be written there" in said.err
    assert "Read-only file system" in said.err


def test_coverage_names_what_was_hardly_tested_and_what_to_run_next(
    call: Any, tmp_path: Path, events: list[Event]
) -> None:
    run(tmp_path / "reports", [(started(), events)])
    said = call("coverage")
    assert said.code == 0
    assert re.search(r"^sin +20 +95 %\|", said.out, re.MULTILINE)
    assert "never reached: 2 of 6 pairs of an operation and an order" in said.out
    assert "  cos  order 1  1 compared of 1  fewer than 5 comparisons" in said.out
    assert said.next == "python -m pytest tests/properties --hypothesis-profile=dev --gradcheck-ops=cos,cumprod"
    data = call("coverage", "--json").json
    assert list(data) == [
        *("format", "version", "coverage", "operations", "hardly_tested", "never_reached", "left_out"),
        *("missing_shards", "remarks", "exit_code", "next"),
    ]
    assert [(one["operation"], one["order"]) for one in data["never_reached"]] == [("cos", 2), ("cumprod", 2)]
    assert data["hardly_tested"] == [
        {
            "operation": "cos",
            "order": 1,
            "compared": 1,
            "lost": 0,
            "rejected": 0,
            "attempts": 1,
            "reason": "fewer than 5 comparisons",
        }
    ]
    assert data["operations"][0]["operation"] == "cos"


def test_coverage_tells_how_often_each_mode_and_number_type_was_compared_in_all_runs(call: Any, tmp_path: Path) -> None:
    for number, name in enumerate(("sin", "cos")):
        modes = {"reverse, in float16": 3, "forward, eager": number}
        event = structs.replace(done(name, 1, agree=5), modes=modes)
        run(tmp_path / "reports", [(structs.replace(started(), seed=str(number)), [event])])
    said = call("coverage")
    assert (
        "comparisons in modes and number types:\n"
        "  forward, eager       order 1: 1  order 2: 0\n"
        "  reverse, in float16  order 1: 6  order 2: 0\n"
    ) in said.out
    assert call("coverage", "--json").json["coverage"]["modes"] == [
        ["cos", 1, "forward, eager", 1],
        ["cos", 1, "reverse, in float16", 3],
        ["sin", 1, "reverse, in float16", 3],
    ]


def test_a_hunt_in_everything_after_one_in_a_few_operations_was_asked_for_everything(
    call: Any, tmp_path: Path, events: list[Event]
) -> None:
    few, everything = started(), structs.replace(started(), seed="8", operations=())
    run(tmp_path / "reports", [(few, events[:1]), (everything, [done("tan", 1, agree=9)])])
    never = {(one["operation"], one["order"]) for one in call("coverage", "--json").json["never_reached"]}
    assert {("cos", 1), ("exp", 1), ("tan", 2)} <= never
    assert not {("sin", 1), ("tan", 1)} & never


@pytest.mark.parametrize("command", ["coverage", "merge", "replay"])
def test_an_operation_of_ones_own_asks_for_its_module(call: Any, tmp_path: Path, command: str) -> None:
    path = run(tmp_path / "reports", [(started(), [done("sin", 1, agree=9)])]) / "events" / "worker0.jsonl"
    path.write_text(path.read_text().replace('"operation": "sin"', '"operation": "fused_gate"'))
    said = call(command, "reports")
    assert said.code == 2
    assert (
        "'fused_gate' was given; expected the name of an operation of the catalogue, or of one of your own" in said.err
    )
    assert "name that module with --import MODULE, take the file away, or" in said.err


@pytest.mark.parametrize("command", ["coverage", "merge"])
def test_folders_without_a_run_are_named(call: Any, tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()
    for given, complaint in (("nowhere", "nowhere: no such folder"), ("empty", "empty: a folder without events")):
        said = call(command, given)
        assert said.code == 2
        assert complaint in said.err


HUNT = """
    import pytest
    from gradcheck.result import Finding, Kind
    from gradcheck.graph import Graph, Input, Node, literal
    from gradcheck.hunt import confirmation
    from gradcheck.hunt.confirmation import Confirmation
    from gradcheck.hunt.finding import GraphFinding

    confirmation.confirm = lambda script: Confirmation(1, "WRONG")

    class Wrong(AssertionError):
        pass

    @pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp"])
    def test_operation(gradcheck_coverage, name):
        gradcheck_coverage.count(name, 1, verdict="agree")
        if name in ("sin", "tan"):
            gradcheck_coverage.count(name, 1, verdict="mismatch")
            graph = Graph((Input((1,), (0.5,)),), (Node.of(name, 0),))
            wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "2 instead of 1")
            error = Wrong("wrong gradient")
            error.finding = GraphFinding(graph, 1, (wrong,), name, 1, "none", literal([1.0]))
            raise error
"""


def test_shards_that_the_plugin_ran_merge_into_the_run_without_shards(
    call: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(HUNT)
    for folder, shard in (("whole", "1/1"), ("one", "1/2"), ("two", "2/2")):
        options = (f"--gradcheck-reports={folder}", f"--gradcheck-shard={shard}", "--hypothesis-seed=7")
        run_here(pytester, *options)
    monkeypatch.chdir(pytester.path)
    assert call("merge", "whole", "--into", "from-one").code == 0
    assert call("merge", "one", "two", "--into", "from-two").code == 0
    mine, theirs = (contents(pytester.path / name) for name in ("from-one", "from-two"))
    assert len([name for name in mine if name.endswith(".json")]) == 2
    assert json.loads(call("coverage", "one", "two", "--json").out)["coverage"]["outcomes"]
    assert mine.keys() == theirs.keys()
    for name in mine:
        if name not in ("index.html", "summary.md"):  # they show examples per second
            assert mine[name] == theirs[name], name
