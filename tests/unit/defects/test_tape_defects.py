from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gradcheck.defects import known
from gradcheck.defects.records import TapeDefect
from gradcheck.defects.tape_program import Apply, Derive, Literal, Program, Structure, Variable
from gradcheck.documents import DocumentError
from gradcheck.hunt import known_graphs
from gradcheck.hunt.events import State
from gradcheck.hunt.recheck import Recheck, of_known, of_tape_defect
from gradcheck.hunt.tapes import interpreter
from tests import forging
from tests.records import COMMITTED, TAPE_DEFECTS, copied, document

RECORDS = {one.name: one for one in TAPE_DEFECTS}
WATCH = RECORDS["tape-watch-while-stopped"]
SCALAR = RECORDS["tape-batch-jacobian-of-scalar"]
UNCONNECTED = RECORDS["tape-batch-jacobian-unconnected"]
DOCUMENT = document(WATCH.name)


def changed(defect: TapeDefect, **fields: Any) -> TapeDefect:
    return structs.replace(defect, **fields)


def test_both_formats_lie_in_one_folder_and_only_defects_are_left_out_of_generation() -> None:
    both = known.records(COMMITTED)
    assert [one.name for one in both] == sorted(one.name for one in both)
    assert len(known.load(COMMITTED)) + len(known.tape_defects(COMMITTED)) == len(both)
    assert not {one.name for one in known.load(COMMITTED)} & {*RECORDS}
    assert known.current()
    assert not [one for one in known.current() if isinstance(one, TapeDefect)]


def forged(*path: Any, value: Any) -> str:
    return json.dumps(forging.forged(DOCUMENT, *path, value=value))


BROKEN = [
    (forged("version", value=2), "$.version:", "one of 1"),
    (forged("format", value="gradcheck tape program"), "$.format:", "one of gradcheck known defect"),
    (forged("surplus", value=1), "$:", "only format"),
    (forged("name", value="../escape"), "$.name:", "a text like"),
    (forged("title", value=""), "$.title:", "a text"),
    (forged("program", value=[]), "$.program:", "an object"),
    (forged("program", "body", 0, "statement", value="eval"), "$.program.body[0].statement:", "one of constant"),
    (forged("program", "body", 0, "name", value="d"), "$.program.body[1].body[0].body[0].name:", "bound before"),
    (forged("derivative", value="y"), "$.derivative:", "what a statement `derive` of the program binds"),
    (forged("derivative", value=["g"]), "$.derivative:", "a text"),
    (forged("documented", value="none"), "$.documented:", "the name of an exception"),
    (forged("documented", value=1.0), "$.documented:", "a list"),
    (forged("documented", value=[0.0, 0.0]), "$.documented:", "'zeros', or numbers not all of which are zero"),
    (forged("documented", value=[1.0, "nan"]), "$.documented[1]:", "a finite number"),
    (forged("documented", value="None"), "$.given:", "something else than what is documented"),
    (forged("given", value=None), "$.given:", "a list"),
    (forged("source", value=None), "$.source:", "a text"),
    (forged("releases", value={"from": "2.21"}), "$.releases:", "all of from, until"),
    (forged("upstream", value="javascript:alert(1)"), "$.upstream:", "a text like"),
]


def test_a_broken_file_is_named_with_the_place_and_the_fix(tmp_path: Path, subtests: pytest.Subtests) -> None:
    copied(tmp_path, "cumprod-zero-order1")
    path = tmp_path / "tape.json"
    for text, place, expected in BROKEN:
        path.write_text(text)
        for load in (known.load, known.records):
            with subtests.test(f"{place} {expected}, by {load.__name__}"):
                with pytest.raises(known.KnownDefectError) as caught:
                    load(tmp_path, known_graphs.check)
                message = str(caught.value)
                assert message.startswith(f"{path}: not a known defect of this format: {place}")
                assert expected in message
                assert "Correct the file or take it out" in message


def test_a_defect_with_a_program_that_cannot_be_read_back_is_not_written() -> None:
    derive = Derive("d", "tape", "gradient", Structure("one", ("y",)), Structure("one", ("x",)))
    broken = changed(WATCH, program=Program((), (Apply("y", "sin", ("x",)), derive)), derivative="d")
    with pytest.raises(DocumentError, match="a name that was bound before"):
        known_graphs.check(broken)


@pytest.mark.parametrize("defect", RECORDS.values(), ids=lambda defect: defect.name)
def test_the_installed_release_has_it(defect: TapeDefect) -> None:
    assert of_tape_defect(defect) == Recheck(State.STILL, f"{defect.kind}, as recorded")
    swapped = changed(defect, documented=defect.given, given=defect.documented)
    assert of_known(swapped) == Recheck(State.FIXED, "gives what is documented")


@pytest.mark.parametrize(
    ("defect", "kind", "seen"),
    [
        (changed(WATCH, given="zeros"), "zeros, not a value", "None"),
        (changed(WATCH, given=(1.0, 1.0)), "a value, not another", "None"),
        (changed(WATCH, given="ValueError"), "ValueError, not a value", "None"),
        (changed(UNCONNECTED, given=(1.0,)), "a value, not None", "[[[0.0, 0.0], [0.0, 0.0]]]"),
        (changed(SCALAR, given="zeros"), "zeros, not ValueError", "IndexError: list index out of range"),
    ],
)
def test_what_is_neither_has_changed(defect: TapeDefect, kind: str, seen: str) -> None:
    assert defect.kind == kind
    assert of_tape_defect(defect) == Recheck(State.STILL, f"gives {seen}, which is neither", changed=True)


def test_one_part_of_several_is_looked_at() -> None:
    variables = (Variable("m", Literal((1,), (2.0,))), Variable("other", Literal((1,), (3.0,))))
    opened, derive = UNCONNECTED.program.body
    assert isinstance(derive, Derive)
    both = structs.replace(derive, method="gradient", sources=Structure("list", ("m", "other")))
    program = Program(variables, (opened, both))
    for derivative, given in (("g[0]", "a value"), ("g[1]", "None")):
        found = of_tape_defect(changed(WATCH, program=program, derivative=derivative, given="None", documented="zeros"))
        assert found.changed is (given != "None")


def test_what_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> None:
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(interpreter, "run", broken)
    assert of_tape_defect(WATCH) == Recheck(State.CANNOT_TELL, "RuntimeError: no such kernel")
