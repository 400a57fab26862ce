"""Malicious files, given to every command: each is refused, and nothing happens."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradcheck import documents
from gradcheck.hunt.events import Started, to_line
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from tests.machine import MACHINE
from tests.records import alone, copied, document

CUMPROD = "cumprod-zero-order1"
FIRST = to_line(Started(MACHINE, "ci", "7", "1/1", ())) + "\n"
WORDS = ("--title", "a title", "--source", "By hand.")
SINK = {"op": "sin", "parents": [0], "attrs": {}}
HTML = "<script>alert(1)</script>"


class Executes:
    """Leaves a folder behind when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("EXECUTED",)


Change = tuple[tuple[Any, ...], Any]

CHANGES: dict[str, Change] = {
    "an unknown operation": (("graph", "nodes", 0, "op"), "os.system"),
    "an operation of Python": (("graph", "nodes", 0, "op"), "__import__('os').mkdir('EXECUTED')"),
    "an attribute that is code": (("graph", "nodes", 0, "attrs", "reverse"), "__import__('os').mkdir('EXECUTED')"),
    "an attribute that is not offered": (("graph", "nodes", 0, "attrs", "reverse"), 2**40),
    "a wrong type": (("graph", "inputs", 0, "values"), ["0", "2", "3"]),
    "thirty thousand nodes": (("graph", "nodes"), [SINK] * 30_000),
    "a hundred nodes": (("graph", "nodes"), [SINK] * 100),
    "a huge shape": (("graph", "inputs", 0, "shape"), [2**31]),
    "not a number": (("graph", "inputs", 0, "values", 0), float("nan")),
    "infinity as a text": (("graph", "inputs", 0, "values", 0), "inf"),
    "a cotangent of another shape": (("cotangent",), {"dtype": "float64", "shape": [2], "values": [1.0, 1.0]}),
    "HTML in the name": (("name",), HTML),
    "a path in the name": (("name",), "../../EXECUTED"),
    "HTML in the kind": (("signature", "kind"), HTML),
    "a path in the operation": (("signature", "operation"), "../../EXECUTED"),
    "a signature that is a list": (("signature",), []),
    "half of a character": (("class",), "\ud800"),
}
TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"import os; os.mkdir('EXECUTED')",
    "a pickle": pickle.dumps(Executes()),
    "deep nesting": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": b'{"format":' * 100_000 + b"1" + b"}" * 100_000,
    "a long number": b"1" * 900_000,
    "a name twice": b'{"format": "gradcheck report", "format": "gradcheck known defect"}',
    "another format": b'{"format": "something", "version": 1}',
    "bytes": b"\xff\xfe\x00",
    "control characters": b'{"format": "\\u001b[2J\\u0007"}',
}
FORGERIES = (*CHANGES, *TEXTS, "a symbolic link", "a named pipe", "a huge file")


def changed(document: Any, way: tuple[Any, ...], value: Any) -> Any:
    forged = copy.deepcopy(document)
    inner = forged
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = value
    return forged


def forge(path: Path, forgery: str, document: Any, wrap: Callable[[str], str] = str) -> None:
    """Writes a forgery of a document to a path; `wrap` turns its text into that of the whole file."""
    if forgery in CHANGES:
        path.write_text(wrap(json.dumps(changed(document, *CHANGES[forgery]))))
    elif forgery in TEXTS:
        path.write_bytes(FIRST.encode() + TEXTS[forgery] + b"\n" if wrap is not str else TEXTS[forgery])
    elif forgery == "a symbolic link":
        target = path.parent.parent / "elsewhere"
        target.write_text(wrap(json.dumps(document)))
        path.symlink_to(target)
    elif forgery == "a named pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(2**40)


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything below a folder: names, kinds, and the bytes of small files."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        small = path.is_file() and not path.is_symlink() and path.stat().st_size < 2**28
        found[path.relative_to(folder).as_posix()] = (path.lstat().st_mode, path.read_bytes() if small else None)
    return found


def refused(call: Any, folder: Path, *command: object) -> Any:
    """Runs a command that has to fail with printable text and without any effect."""
    before = snapshot(folder)
    said = call(*command)
    assert snapshot(folder) == before
    assert said.code == 2, said.out
    for text in (said.out, said.err):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert max(map(len, text.split("\n"))) < 2000
    as_json = call(*command, "--json")
    assert as_json.code == 2
    assert as_json.json["exit_code"] == 2
    assert snapshot(folder) == before
    return said


@pytest.fixture
def report(discovered: Callable[[str], GraphFinding]) -> Any:
    return documents.plain(Report.of(discovered(CUMPROD)))


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_report(call: Any, tmp_path: Path, report: Any, forgery: str) -> None:
    folder = tmp_path / "reports"
    (folder / "known").mkdir(parents=True)
    forge(folder / "x.json", forgery, report)
    for command in (("replay",), ("replay", folder / "x.json")):
        assert "cannot tell" in refused(call, tmp_path, *command).out
    said = refused(call, tmp_path, "known", "add", folder / "x.json", *WORDS)
    assert any(words in said.err for words in ("x.json: ", "cannot run", "cannot tell"))


@pytest.mark.parametrize(
    ("forgery", "form"), [*((one, "a cause") for one in FORGERIES), *((one, "one record") for one in CHANGES)]
)
def test_a_forged_known_defect(call: Any, tmp_path: Path, report: Any, forgery: str, form: str) -> None:
    known = tmp_path / "reports" / "known"
    known.mkdir(parents=True)
    path = known / "x.json"
    forge(path, forgery, document(CUMPROD))
    if form == "a cause" and forgery in CHANGES:
        path.write_text(json.dumps(alone(json.loads(path.read_text()), "x")))
    good = tmp_path / "good.json"
    good.write_text(json.dumps(report))
    only_when_run = ("an attribute that is not offered", "a cotangent of another shape")
    for command in (
        ("replay", path),
        ("known", "check"),
        ("known", "fixed", CUMPROD),
        *(() if forgery in only_when_run else (("known", "list"), ("replay",), ("coverage",))),
    ):
        refused(call, tmp_path, *command)
    if forgery not in only_when_run:
        assert "x.json" in refused(call, tmp_path, "known", "add", good, *WORDS).err


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_event(call: Any, tmp_path: Path, report: Any, forgery: str) -> None:
    folder = tmp_path / "shard" / "events"
    folder.mkdir(parents=True)
    forge(
        folder / "x.jsonl",
        forgery,
        report,
        lambda text: FIRST + json.dumps({"event": "finding"})[:-1] + f', "report": {text}}}\n',
    )
    said = refused(call, tmp_path, "merge", "shard", "--into", "out")
    assert not (tmp_path / "out").exists()
    refused(call, tmp_path, "replay", "shard")
    assert "x.jsonl" in said.err or "cannot run" in said.err
    if forgery not in ("an attribute that is not offered", "a cotangent of another shape"):
        assert "x.jsonl" in refused(call, tmp_path, "coverage", "shard").err


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "applause"}',
        '{"event": "operation", "operation": "<b>", "order": 1}',
        '{"event": "known", "name": "../../x", "state": "still wrong", "release": "2.21.0", "surplus": 1}',
        '{"event": "finished", "how": "completed", "examples": -1, "seconds": 1.0}',
        '{"event": "operation", "operation": "sin", "order": 1, "counts": {"agree": 1e400}, "attempts": 1}',
        f'{{"event": "known", "name": "x", "state": "still wrong", "release": "{"2" * 5000}"}}',
    ],
)
@pytest.mark.parametrize("command", [("merge",), ("coverage",)])
def test_other_forged_events(call: Any, tmp_path: Path, line: str, command: tuple[str, ...]) -> None:
    folder = tmp_path / "shard" / "events"
    folder.mkdir(parents=True)
    (folder / "x.jsonl").write_text(FIRST + line + "\n")
    assert "x.jsonl: line 2: not an event of this project" in refused(call, tmp_path, *command, "shard").err


@pytest.mark.parametrize("amounts", ['"examples": 1, "seconds": 1e308', '"examples": 9007199254740992, "seconds": 1'])
def test_numbers_that_cannot_be_added_up_are_refused_before_anything_is_written(
    call: Any, tmp_path: Path, amounts: str
) -> None:
    folder = tmp_path / "shard" / "events"
    folder.mkdir(parents=True)
    for name in ("x", "y"):
        (folder / f"{name}.jsonl").write_text(FIRST + f'{{"event": "finished", "how": "completed", {amounts}}}\n')
    assert "cannot be added up" in refused(call, tmp_path, "merge", "shard", "--into", "out").err


def test_what_is_wrong_in_none_of_these_ways_is_accepted(call: Any, tmp_path: Path, report: Any) -> None:
    """The same files without a forgery work, so that the tests above fail for their forgeries."""
    known = tmp_path / "reports" / "known"
    known.mkdir(parents=True)
    (tmp_path / "reports" / "x.json").write_text(json.dumps(report))
    (tmp_path / "shard" / "events").mkdir(parents=True)
    finding = json.dumps({"event": "finding", "report": report})
    (tmp_path / "shard" / "events" / "x.jsonl").write_text(f"{FIRST}{finding}\n")
    assert call("known", "add", "reports/x.json", *WORDS, "--cause", "cumprod-at-zero").code == 0
    copied(known, CUMPROD)
    for command in (("replay",), ("known", "check"), ("known", "list"), ("merge", "shard"), ("coverage", "shard")):
        assert call(*command).code == (command == ("replay",)), command


def test_html_and_control_characters_that_a_report_may_hold_are_harmless(
    call: Any, tmp_path: Path, discovered: Callable[[str], GraphFinding]
) -> None:
    """A report may have any text; a terminal and a page must not interpret it."""
    found = discovered(CUMPROD)
    wrong = dataclasses.replace(found.findings[0], reason=f"\x1b[2J\u202e{HTML}", input=HTML)
    data = documents.plain(Report.of(dataclasses.replace(found, findings=(wrong,), description=f"\x1b[2J{HTML}")))
    (tmp_path / "reports" / "known").mkdir(parents=True)
    (tmp_path / "reports" / "x.json").write_text(json.dumps(data))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "x.jsonl").write_text(FIRST + json.dumps({"event": "finding", "report": data}) + "\n")
    said = [call("replay"), call("known", "add", "reports/x.json", *WORDS), call("merge", ".", "--into", "out")]
    assert [one.code for one in said] == [1, 0, 0]
    assert all(letter.isprintable() or letter == "\n" for one in said for letter in one.out + one.err)
    assert not any(HTML in path.read_text() for path in (tmp_path / "out").rglob("*.html"))


def test_a_description_that_is_code_stays_a_text_in_the_script(
    call: Any, tmp_path: Path, discovered: Callable[[str], GraphFinding]
) -> None:
    code = '"""\nimport os\nos.mkdir("EXECUTED")\n"""'
    data = documents.plain(Report.of(dataclasses.replace(discovered(CUMPROD), description=code)))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "x.jsonl").write_text(FIRST + json.dumps({"event": "finding", "report": data}) + "\n")
    assert call("merge", ".", "--into", "out").code == 0
    (script,) = (tmp_path / "out").glob("*.py")
    imported = [
        name.name
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.Import)
        for name in node.names
    ]
    assert imported == ["itertools", "sys", "numpy", "tensorflow"]
