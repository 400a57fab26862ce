"""The commands on documented behaviour that tapes do not keep, beside a known defect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gradcheck.defects import known
from tests import records
from tests.records import TAPE_DEFECTS, alone, document

CUMPROD, TAPE = "cumprod-zero-order1", "tape-watch-while-stopped"
SINCE = {"from": "2.18", "until": None}
RELEASE = tf.__version__.partition("-")[0]
RECORD = next(one for one in TAPE_DEFECTS if one.name == TAPE)
SWAPPED: dict[str, Any] = {"documented": RECORD.given, "given": RECORD.documented}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of known defects with one of a graph, where the commands look for it."""
    place = tmp_path / "reports" / "known"
    place.mkdir(parents=True)
    records.copied(place, CUMPROD)
    return place


def copied(folder: Path, **fields: Any) -> Path:
    """The record of a tape, with some fields of its JSON replaced."""
    return records.copied(folder, TAPE, **fields)


def test_list(call: Any, folder: Path) -> None:
    copied(folder)
    said = call("known", "list")
    assert said.code == 0
    assert f"{CUMPROD}       wrong value        silently wrong  " in said.out
    assert (
        f"{TAPE}  None, not a value  None            from 2.18  here  tf.GradientTape: watch() is ignored " in said.out
    )
    assert f"1 known defects, 1 of them in TensorFlow {tf.__version__}" in said.out
    assert (
        f"1 cases of documented behaviour that tapes do not keep, 1 of them in TensorFlow {tf.__version__}" in said.out
    )
    data = call("known", "list", "--json").json
    assert [one["name"] for one in data["defects"]] == [CUMPROD]
    assert data["tape_defects"] == [
        {
            "name": TAPE,
            "title": RECORD.title,
            "documented": list(RECORD.documented),
            "given": "None",
            "from": "2.18",
            "until": None,
            "here": True,
            "upstream": None,
            "class": "defect",
            "cause": TAPE,
            "severity": "None",
        }
    ]


def test_check_tells_all_states_apart(call: Any, folder: Path) -> None:
    ended = {"from": "2.0", "until": "2.1"}
    copied(folder)
    copied(folder, name="recorded", releases=ended, **SWAPPED)
    said = call("known", "check", "--json")
    assert [one["state"] for one in said.json["defects"]] == ["still wrong"]
    assert [one["state"] for one in said.json["tape_defects"]] == ["fixed, as recorded", "still wrong"]
    assert list(said.json["tape_defects"][0]) == ["name", "state", "message", "title", "upstream"]
    assert said.code == 0
    assert f"still wrong         {TAPE}" in call("known", "check").out
    copied(folder, name="gone", **SWAPPED)
    copied(folder, name="other", given="zeros")
    copied(folder, name="returned", releases=ended)
    copied(folder, name="older", releases={"from": "99.1", "until": None})
    said = call("known", "check", "--json")
    assert {one["name"]: one["state"] for one in said.json["tape_defects"]} == {
        "gone": "fixed",
        "older": "wrong earlier",
        "other": "changed",
        "recorded": "fixed, as recorded",
        "returned": "back",
        TAPE: "still wrong",
    }
    assert (said.code, said.json["next"]) == (1, "python -m gradcheck known fixed gone")
    assert call("known", "check", TAPE).code == 0
    assert "did you mean tape-watch-while-stopped?" in call("known", "check", "tape-watch-stopped").err


def test_fixed_writes_the_release_and_nothing_else(call: Any, folder: Path) -> None:
    path = copied(folder)
    before = path.read_text()
    said = call("known", "fixed", TAPE, "--release", "99.1.0")
    assert said.code == 0
    assert said.next == f"git diff {path}, then python -m pytest tests/properties/test_known_tape_defects.py"
    assert path.read_text() == before.replace('"until": null', '"until": "99.1.0"')


def test_fixed_asks_the_installed_release(call: Any, folder: Path) -> None:
    path = copied(folder, releases=SINCE)
    before = path.read_bytes()
    for more, complaint in (
        ((), f"{TAPE} is still wrong on TensorFlow {tf.__version__} (None, not a value, as recorded)"),
        (("--release", "2.18"), "release 2.18 is not after 2.18"),
    ):
        said = call("known", "fixed", TAPE, *more)
        assert said.code == 2
        assert complaint in said.err
        assert path.read_bytes() == before
    copied(folder, releases=SINCE, **SWAPPED)
    assert call("known", "fixed", TAPE).code == 0
    assert known.tape_defects(folder)[0].releases.until == RELEASE
    assert call("known", "check").code == 0


def test_replay(call: Any, folder: Path) -> None:
    path = copied(folder)
    said = call("replay", path, "--json")
    assert said.code == 1
    assert said.json["findings"] == [
        {
            "file": str(path),
            "state": "still wrong",
            "message": "None, not a value, as recorded",
            "source": "known",
            "name": TAPE,
            "operation": None,
            "order": None,
            "kind": "None, not a value",
            "known": TAPE,
            "changed": False,
        }
    ]
    copied(folder, **SWAPPED)
    said = call("replay")
    assert (said.code, said.next) == (1, f"python -m gradcheck known fixed {TAPE}")


@pytest.mark.parametrize(
    "fields",
    [
        {"program": {"format": "gradcheck tape program", "version": 1, "variables": [], "body": [{}], "traced": False}},
        {"derivative": "__import__('os').mkdir('EXECUTED')"},
        {"given": "os.system"},
        {"name": "../../EXECUTED"},
        {"format": "gradcheck tape defect"},
    ],
)
def test_a_forged_one_is_refused_by_every_command(call: Any, folder: Path, fields: dict[str, Any]) -> None:
    path = folder / "forged.json"
    path.write_text(json.dumps(alone(document(TAPE) | fields, "forged")))
    for command in (("known", "list"), ("known", "check"), ("known", "fixed", CUMPROD), ("replay", path)):
        said = call(*command)
        assert said.code == 2
        assert str(path) in said.out + said.err
    assert sorted(one.name for one in folder.parents[1].iterdir()) == ["reports"]
