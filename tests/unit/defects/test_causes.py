"""The files of root causes: read into records, written from them, refused by file and place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gradcheck import documents
from gradcheck.defects import known
from gradcheck.defects.causes import SHAREABLE, text_of
from gradcheck.defects.records import Releases
from gradcheck.hunt import known_graphs
from tests.forging import forged
from tests.records import COMMITTED, RECORDS, alone, copied, document, from_json
from tests.unit.defects import test_known, test_tape_defects

FIRST, SECOND, CAUSE = "cumprod-zero-order1", "cumprod-zero-order2", "cumprod-at-zero"
BOTH = json.loads(text_of([from_json(document(name)) for name in (FIRST, SECOND)]))


def written(folder: Path, data: Any, name: str = CAUSE) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(data))
    return path


def test_every_committed_file_is_what_its_records_make(subtests: pytest.Subtests) -> None:
    for path in COMMITTED.glob("*.json"):
        with subtests.test(path.stem):
            records = known.read(path)
            assert {one.cause for one in records} == {path.stem}
            assert text_of(records) == text_of(records[::-1]) == path.read_text(encoding="utf-8")


def test_records_come_by_name_from_files_by_cause() -> None:
    assert [one.name for one in RECORDS] == sorted({one.name for one in RECORDS})
    assert sorted(path.stem for path in COMMITTED.glob("*.json")) == sorted({one.cause for one in RECORDS})
    for one in (RECORDS[0], RECORDS[-1]):
        assert known.file_of(COMMITTED, one.name) == COMMITTED / f"{one.cause}.json"
    assert known.file_of(COMMITTED, "no-such-record") is None


def test_an_example_with_the_shared_fields_is_the_record(tmp_path: Path) -> None:
    assert (list(BOTH), list(BOTH["shared"])) == (
        ["format", "version", "cause", "shared", "examples"],
        ["format", "releases", "upstream", "class", "remedy", "kernels"],
    )
    assert known.records(written(tmp_path, BOTH).parent) == tuple(map(from_json, map(document, (FIRST, SECOND))))


def test_what_only_looks_alike_is_not_shared() -> None:
    one = document(FIRST)
    other = forged(one, "kernels", 0, "fixed", value={"1": -1.0}) | {"name": "other"}
    assert one["kernels"] == other["kernels"]
    data = json.loads(text_of([from_json(one), from_json(other)]))
    assert "kernels" not in data["shared"]
    assert [repr(example["kernels"][0]["fixed"]["1"]) for example in data["examples"]] == ["-1", "-1.0"]


def test_both_kinds_of_records_may_have_one_cause(tmp_path: Path) -> None:
    tape = from_json(document("tape-watch-while-stopped") | {"group": CAUSE})
    defect = from_json(document(FIRST) | {"remedy": None})
    known.write(tmp_path / f"{CAUSE}.json", [tape, defect])
    assert known.records(tmp_path) == (defect, tape)
    assert [*json.loads((tmp_path / f"{CAUSE}.json").read_text())["shared"]] == ["releases", "class"]


BROKEN: dict[str, tuple[Any, str, str]] = {
    "a field in both places": (
        forged(BOTH, "examples", 1, "class", value="defect"),
        "$.examples[1].class: 'defect' was given",
        "expected no class here, since $.shared has it",
    ),
    "a shared field that is another in an example": (
        forged(BOTH, "examples", 0, "releases", value={"from": "2.1", "until": None}),
        "$.examples[0].releases: a dict of 2 was given",
        "expected no releases here, since $.shared has it",
    ),
    "a cause in an example": (
        forged(BOTH, "examples", 0, "group", value=CAUSE),
        f"$.examples[0].group: '{CAUSE}' was given",
        "expected no group here, since $.cause is it",
    ),
    "a field that is never shared": (
        forged(BOTH, "shared", "description", value="zero"),
        "$.shared: 'description' was given",
        "expected only format, title, ",
    ),
    "an unknown shared field": (forged(BOTH, "shared", "\x1b", value=1), "$.shared: '\\x1b' was given", "only format"),
    "an unknown field of an example": (
        forged(BOTH, "examples", 1, "surplus", value=1),
        "$.examples[1]: the name 'surplus' was given",
        "expected only format, version, name",
    ),
    "an unknown field of the file": (forged(BOTH, "surplus", value=1), "$: the name 'surplus'", "only format, version"),
    "a name twice": (
        forged(BOTH, "examples", 1, "name", value=FIRST),
        f"$.examples[1].name: '{FIRST}' was given",
        "expected a name that no example before it has",
    ),
    "no name": (forged(BOTH, "examples", 1, value={}), "$.examples[1]: an object without 'name'", "all of format"),
    "no format": (
        forged(BOTH, "shared", value={}),
        "$.examples[0]: an object without 'format' was given",
        "expected all of format",
    ),
    "no examples": (forged(BOTH, "examples", value=[]), "$.examples: a list of 0 was given", "at least 1"),
    "an example that is no object": (forged(BOTH, "examples", 1, value=7), "$.examples[1]: 7 was given", "an object"),
    "another version": (forged(BOTH, "version", value=2), "$.version: 2 was given", "one of 1"),
    "a cause that is a path": (forged(BOTH, "cause", value="../x"), "$.cause: '../x' was given", "a text like"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_named_with_the_place_and_the_fix(tmp_path: Path, what: str) -> None:
    data, given, expected = BROKEN[what]
    message = refusal(written(tmp_path, data))
    assert message.startswith(f"{tmp_path / CAUSE}.json: not a known defect of this format: {given}")
    assert expected in message
    assert "Correct the file or take it out of the folder" in message


def test_what_is_refused_in_a_record_is_refused_in_an_example_by_its_place(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    of_records = [one for one in (*test_known.BROKEN, *test_tape_defects.BROKEN) if one[0].startswith('{"format"')]
    for text, place, expected in of_records:
        field = re.match(r"\$\.(\w+)", place)
        if field is not None and field[1] in ("version", "group"):
            continue
        with subtests.test(f"{place} {expected}"):
            part = "shared" if field is not None and field[1] in SHAREABLE else "examples[0]"
            message = refusal(written(tmp_path, alone(json.loads(text), CAUSE)))
            assert place.replace("$", f"$.{part}", 1) in message
            assert expected in message
    assert len(of_records) > 40


def refusal(path: Path) -> str:
    """The complaint about a folder with one broken file."""
    with pytest.raises(known.KnownDefectError) as caught:
        known.records(path.parent, known_graphs.check)
    return str(caught.value)


def test_a_file_is_called_as_its_cause(tmp_path: Path) -> None:
    path = written(tmp_path, BOTH, "another")
    with pytest.raises(known.KnownDefectError, match=f"{path}: holds {CAUSE}; the file has to be called {CAUSE}.json"):
        known.records(tmp_path)


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    one, other = copied(tmp_path, FIRST), written(tmp_path, document(FIRST), FIRST)
    with pytest.raises(
        known.KnownDefectError,
        match=f"{other}: holds the record {FIRST}, as does {one}; take it out of one of them",
    ):
        known.records(tmp_path)


def test_files_of_both_forms_lie_in_one_folder(tmp_path: Path) -> None:
    one, other = copied(tmp_path, FIRST), written(tmp_path, document(SECOND), SECOND)
    assert known.records(tmp_path) == tuple(map(from_json, map(document, (FIRST, SECOND))))
    assert (known.file_of(tmp_path, FIRST), known.file_of(tmp_path, SECOND)) == (one, other)


@pytest.mark.parametrize("form", ["a cause", "one record"])
def test_a_project_s_record_takes_the_place_of_one_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    project, packaged = tmp_path / "project", tmp_path / "packaged"
    for folder in (project, packaged):
        folder.mkdir()
    written(packaged, BOTH)
    ours = document(SECOND) | {"title": "ours"}
    written(project, *((alone(ours), CAUSE) if form == "a cause" else (ours, SECOND)))
    monkeypatch.setattr(known, "installed", lambda: packaged)
    monkeypatch.setattr(known, "home", lambda: project)
    monkeypatch.delenv("GRADCHECK_KNOWN", raising=False)
    assert [(one.name, one.title == "ours") for one in known.records()] == [(SECOND, True), (FIRST, False)]


def test_writing_changes_the_file_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, BOTH)
    first, second = known.read(path)
    marked = structs.replace(second, releases=Releases("2.18", "2.30"))
    known.write(path, [marked, first])
    assert known.read(path) == (first, marked)
    assert path.read_text() == text_of([first, marked])

    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("gradcheck.files.os.replace", fail)
    with pytest.raises(OSError, match="full"):
        known.write(path, [first, second])
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {path.name: text_of([first, marked])}


def test_a_text_depends_on_the_records_alone() -> None:
    records = [from_json(document(name)) for name in (FIRST, SECOND)]
    again = [from_json(json.loads(documents.to_text(one))) for one in records]
    assert text_of(again) == text_of(records[::-1]) == documents.to_text(BOTH)
