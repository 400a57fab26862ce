from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import fields

from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.configuration import RunConfiguration, Shard
from gradcheck.hunt.coverage import OUTCOMES
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.events import (
    Crash,
    Ending,
    Event,
    FindingMade,
    Finished,
    Hang,
    Journal,
    KnownReplayed,
    OperationDone,
    Started,
    State,
    from_line,
    to_line,
)
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.run import read
from gradcheck.hunt.running.aggregate import Aggregate

KINDS = {kind.__struct_config__.tag: kind for kind in get_args(Event)}
README = Path(__file__).parents[3] / "reports" / "README.md"
SIN = Graph((Input((1,), (0.5,)),), (Node.of("sin", 0),))


def examples(machine: Environment, report: Report) -> list[Event]:
    return [
        Started(machine, "dev", "7", "1/4", ("sin", "(random graphs)"), 10.0),
        OperationDone("sin", 2, {"agree": 30, "inconclusive": 2}, 40, 8, 1.5, 1e-9, {"forward over reverse, eager": 3}),
        FindingMade(report),
        Crash.of("sin", 1, SIN, "killed by SIGABRT"),
        Hang.of("(random graphs)", 2, SIN, "no end within 60 s"),
        KnownReplayed("xlogy-zero-order1", State.CANNOT_TELL, "2.21.0", "no such kernel"),
        Finished(Ending.BUDGET_SPENT, 1000, 12.5, "1/4"),
    ]


def test_every_kind_is_one_line_and_comes_back(machine: Environment, report: Report) -> None:
    events = examples(machine, report)
    assert [event.kind for event in events] == list(KINDS)
    for event in events:
        line = to_line(event)
        assert "\n" not in line
        assert line.isascii()
        assert json.loads(line)["event"] == event.kind
        assert to_line(from_line(line)) == line
        if not isinstance(event, FindingMade):  # whose NaN is not equal to itself
            assert from_line(line) == event


def test_the_table_in_the_readme_is_the_schema() -> None:
    section = README.read_text(encoding="utf-8").split("\n## Events\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)
    documented = {kind: re.findall(r"`(\w+)`(\?)?", names) for kind, names in rows}
    written = {
        kind: [(f.encode_name, "" if f.required else "?") for f in fields(record)] for kind, record in KINDS.items()
    }
    assert documented == written


def test_the_readme_names_every_choice() -> None:
    text = " ".join(README.read_text(encoding="utf-8").split())
    for choice in (*OUTCOMES, *(state.value for state in State), *(ending.value for ending in Ending)):
        assert f"`{choice}`" in text


FORGED: list[tuple[int, str, Any, str]] = [
    (0, "format", "gradcheck graph", "one of gradcheck events"),
    (0, "version", 2, "one of 1"),
    (0, "shard", "5/4", '"K/N" with K from 1 to N'),
    (0, "shard", "1/4; rm -rf /", '"K/N"'),
    (0, "operations", "sin", "expected a list"),
    (0, "operations", ["<script>"], "an operation of the catalogue"),
    (0, "operations", ["../sin"], "an operation of the catalogue"),
    (0, "budget_minutes", 0, "more than 0"),
    (0, "budget_minutes", "inf", "a finite number or null"),
    (0, "environment", None, "expected an object"),
    (1, "operation", "os.system", "an operation of the catalogue"),
    (1, "order", 3, "one of 1, 2"),
    (1, "order", 1.0, "one of 1, 2"),
    (1, "counts", {"fine": 1}, "one of agree"),
    (1, "counts", {"agree": -1}, "an integer of at least 0"),
    (1, "counts", {"agree": 1.5}, "an integer"),
    (1, "counts", [["agree", 1]], "expected an object"),
    (1, "attempts", -1, "at least 0"),
    (1, "seconds", "nan", "a finite number"),
    (1, "resolution", "inf", "a finite number"),
    (2, "report", {"format": "gradcheck report"}, "an object without"),
    (2, "report", None, "expected an object"),
    (3, "graph", {"op": "sin"}, "only format, version"),
    (3, "message", ["x"], "a text"),
    (4, "operation", "(Random)", "an operation of the catalogue"),
    (5, "state", "gone", "one of cannot tell, fixed, still wrong"),
    (5, "release", 2.21, "a text"),
    (6, "how", "crashed", "one of budget spent, completed"),
    (6, "examples", True, "an integer"),
    (6, "seconds", -1.0, "a finite number of at least 0"),
]


def test_a_forged_line_is_refused(machine: Environment, report: Report, subtests: pytest.Subtests) -> None:
    lines = [to_line(event) for event in examples(machine, report)]
    for number, name, value, complaint in FORGED:
        forged = json.dumps({**json.loads(lines[number]), name: value})
        with (
            subtests.test(f"{name} of event {number}: {complaint}"),
            pytest.raises(ValueError, match=re.escape(complaint)),
        ):
            from_line(forged)


NO_EVENTS = [
    ('{"event": "applause"}', "$.event: 'applause' was given; expected one of started, operation, finding"),
    ('{"event": ["known"]}', "$.event"),
    ('{"name": "known"}', "an object without 'event'"),
    ("[]", "expected an object"),
    ("", "not JSON"),
    ('{"event": "known", "name": "a", "state": "still wrong", "release": "2.21", "x": 1}', "the name 'x'"),
    ('{"event": "known", "state": "still wrong", "release": "2.21"}', "without 'name'"),
    ('{"event": "finished", "how": "completed", "examples": 1, "seconds": NaN}', "finite numbers only"),
    ('{"event": "known", "event": "known"}', "each name once"),
    ("[" * 100_000, "deep nesting"),
    (" " * 1_000_001, "a line of 1000001 characters"),
    ("\x80\x04\x95", "not JSON"),
]


def test_what_is_no_event_is_refused(subtests: pytest.Subtests) -> None:
    for line, complaint in NO_EVENTS:
        with subtests.test(complaint), pytest.raises(ValueError, match=re.escape(complaint)):
            from_line(line)


def test_what_could_not_be_read_is_not_written() -> None:
    graph = Graph((Input((1,), (float("inf"),)),), (Node.of("sin", 0),))
    with pytest.raises(ValueError, match="finite number"):
        to_line(Crash.of("sin", 1, graph, "killed"))
    with pytest.raises(ValueError, match="an operation of the catalogue"):
        OperationDone("nothing", 1, {}, 0, 0, 0.0)
    with pytest.raises(ValueError, match=r"\$\.modes: 'backwards' was given; expected a path and a mode of execution"):
        OperationDone("sin", 1, {"agree": 1}, 1, 0, 0.0, None, {"backwards": 1})
    with pytest.raises(ValueError, match="at most 50000"):
        to_line(KnownReplayed("x" * 60_000, State.STILL, "2.21"))


def test_a_crash_is_named_after_its_operations_only() -> None:
    other = Graph((Input((2,), (0.5, 7.0)),), (Node.of("sin", 0), Node.of("sin", 1)))
    names = {Crash.of("sin", 1, SIN, "a").name, Crash.of("(random graphs)", 1, other, "b").name}
    assert len(names) == 1
    assert re.fullmatch(r"crash-order1-sin-[0-9a-f]{6}", names.pop())
    assert Hang.of("sin", 1, SIN, "a").name != Crash.of("sin", 1, SIN, "a").name != Crash.of("sin", 2, SIN, "a").name


@pytest.fixture
def journal(tmp_path: Path, machine: Environment, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """The journal of a process of a run, without importing TensorFlow."""
    monkeypatch.setattr("gradcheck.hunt.environment.current", lambda _: machine)
    return Journal(RunConfiguration("a", tmp_path, Shard(), None, 60.0, 60.0, None, math.inf, {}, "7"), "main")


def test_an_event_that_could_not_be_read_back_is_told_and_those_after_it_are_written(
    journal: Journal, tmp_path: Path
) -> None:
    assert journal.write(Crash.of("sin", 1, SIN, "before"))
    too_long = KnownReplayed("x" * 60_000, State.STILL, "2.21")
    assert not journal.write(too_long)
    assert journal.write(Hang.of("sin", 1, SIN, "after"))
    journal.close()
    run = read(tmp_path / "events")
    assert (len(run.crashes), len(run.hangs), len(run.known)) == (1, 1, 0)
    (problem,) = journal.problems
    assert problem.startswith("the event 'known' of xxx")
    assert f" is missing in {tmp_path / 'events' / 'a-main.jsonl'}: $.name: " in problem
    aggregate = Aggregate(journal._configuration)
    aggregate.add("a test", {"problems": journal.problems}, skipped=False)
    assert list(aggregate.remarks) == [problem]


def test_a_disk_that_takes_no_more_ends_the_events(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    assert journal.write(Crash.of("sin", 1, SIN, "before"))
    with monkeypatch.context() as context:
        context.setattr("gradcheck.hunt.events.os.write", full)
        assert not journal.write(Hang.of("sin", 1, SIN, "now"))
    assert not journal.write(Hang.of("sin", 1, SIN, "after"))
    (problem,) = journal.problems
    assert "No space left on device" in problem
    assert "what follows is missing there" in problem
    assert not read(tmp_path / "events").hangs
