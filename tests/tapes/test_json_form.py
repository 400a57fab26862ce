"""The JSON form of programs: nothing is lost, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from gradcheck.strategies.tape_programs import tape_programs
from hypothesis import given, settings

from gradcheck.defects.tape_program import (
    MAX_STATEMENTS,
    Apply,
    Assign,
    Branch,
    Call,
    Constant,
    Derive,
    Literal,
    Loop,
    Open,
    Program,
    Reset,
    Resume,
    Statement,
    Stop,
    Structure,
    Tape,
    Variable,
    Watch,
)
from gradcheck.documents import DocumentError, convert, plain
from gradcheck.hunt.tapes.program_forms import MAX_DEPTH, checked
from tests import forging

PAIR = Literal((2,), (3.0, -0.0))
SOURCES = Structure("dict", ("v", "c"))
INSIDE = (
    Watch("tape", "c"),
    Apply("y", "mul", ("v", "c")),
    Stop("tape", (Assign("v", "assign_add", "c"),)),
    Branch("b", "y", 0.3, (Apply("b", "sin", ("y",)),), (Apply("i", "cos", ("y",)), Apply("b", "neg", ("i",)))),
    Call("f", ("r", "s"), ("y",), (Apply("r", "exp", ("y",)), Apply("s", "add", ("r", "v")))),
)
WHOLE = Program(
    (Variable("v", PAIR, trainable=False),),
    (
        Constant("c", PAIR),
        Open((Tape("tape", persistent=True), Tape("other", accessed=False)), INSIDE),
        Resume("tape", (Reset("tape"), Loop(3, (Apply("y", "sin", ("y",)),)))),
        Derive("g", "tape", "jacobian", Structure("one", ("y",)), SOURCES, zeros=True),
        Apply("z", "add", ("g['a']", "g['b']")),
    ),
    traced=True,
)
DOCUMENT = plain(WHOLE)
BODY, OPENED, DERIVE = ("body",), ("body", 1, "body"), ("body", 3)
NESTED: Any = {"statement": "apply", "name": "y", "operation": "sin", "arguments": ["v"]}
for _ in range(MAX_DEPTH + 1):
    NESTED = {"statement": "loop", "count": 1, "body": [NESTED]}


def from_json(data: Any) -> Program:
    """The program of a JSON form, as a record of reports/known reads it."""
    return checked(convert(data, Program))


def test_every_kind_of_statement_stands_in_the_example() -> None:
    assert {type(statement) for statement in WHOLE.statements()} == set(get_args(Statement))
    assert from_json(json.loads(json.dumps(DOCUMENT, allow_nan=False))) == WHOLE


@settings(max_examples=5 * settings().max_examples)
@given(tape_programs())
def test_a_drawn_program_is_the_same_after_a_round_trip(program: Program) -> None:
    found = from_json(json.loads(json.dumps(plain(program), allow_nan=False)))
    assert found == program
    assert repr(found) == repr(program), "numbers keep their signs and types"


def forged(*path: Any, value: Any) -> Any:
    return forging.forged(DOCUMENT, *path, value=value)


REFUSED: list[tuple[Any, str, str]] = [
    ([], "$", "an object"),
    (forged("format", value="gradcheck graph"), "$.format", "one of gradcheck tape program"),
    (forged("version", value=2), "$.version", "one of 1"),
    (forged("version", value=True), "$.version", "one of 1"),
    (forged("surplus", value=1), "$", "only format"),
    (forged("traced", value=1), "$.traced", "true or false"),
    (forged("body", value={}), "$.body", "a list"),
    (forged(*BODY, 0, value="apply"), "$.body[0]", "an object"),
    (forged(*BODY, 0, "statement", value="import"), "$.body[0].statement", "one of constant"),
    (forged(*BODY, 0, "statement", value="__class__"), "$.body[0].statement", "one of constant"),
    (forged(*BODY, 0, "statement", value=["apply"]), "$.body[0].statement", "one of constant"),
    (forged(*BODY, 0, "surplus", value=1), "$.body[0]", "only statement, name, literal"),
    (forged(*BODY, 0, "name", value="a b"), "$.body[0].name", "a text like"),
    (forged(*BODY, 0, "name", value="x\n"), "$.body[0].name", "a text like"),
    (forged(*BODY, 0, "name", value="lambda"), "$.body[0].name", "no keyword"),
    (forged(*BODY, 0, "literal", "dtype", value="int64"), "$.body[0].literal.dtype", "float64"),
    (forged(*BODY, 0, "literal", "values", 0, value="1"), "$.body[0].literal.values[0]", "a finite number"),
    (forged(*BODY, 0, "literal", "values", 0, value=float("nan")), "$.body[0].literal.values[0]", "finite"),
    (forged(*BODY, 0, "literal", "shape", value=[3]), "$.body[0].literal.values", "3, as shape"),
    (
        forged(*BODY, 0, "literal", value={"dtype": "float64", "shape": [17], "values": [0.0] * 17}),
        "$.body[0].literal",
        "at most 16 elements",
    ),
    (forged("variables", 0, "trainable", value=None), "$.variables[0].trainable", "true or false"),
    (forged(*OPENED, 1, "operation", value="os.system"), "$.body[1].body[1].operation", "one of square"),
    (forged(*OPENED, 1, "operation", value="read"), "$.body[1].body[1].operation", "one of square"),
    (forged(*OPENED, 1, "arguments", value=["v"]), "$.body[1].body[1].arguments", "at least 2"),
    (forged(*OPENED, 1, "arguments", 0, value="w"), "$.body[1].body[1].arguments[0]", "bound before"),
    (forged(*OPENED, 1, "arguments", 0, value="y"), "$.body[1].body[1].arguments[0]", "bound before"),
    (forged(*OPENED, 0, "tape", value="v"), "$.body[1].body[0].tape", "bound before"),
    (
        forged(*OPENED, 2, "body", 0, "method", value="__class__"),
        "$.body[1].body[2].body[0].method",
        "one of assign",
    ),
    (forged(*OPENED, 3, "threshold", value="0"), "$.body[1].body[3].threshold", "a finite number"),
    (forged(*OPENED, 3, "then", value=[]), "$.body[1].body[3].then", "the last of which binds b"),
    (forged(*OPENED, 3, "then", 0, "name", value="i"), "$.body[1].body[3].then", "the last of which binds b"),
    (
        forged(*OPENED, 3, "then", 0, "statement", value="loop"),
        "$.body[1].body[3].then[0].statement",
        "one of apply",
    ),
    (forged(*OPENED, 4, "names", 0, value="y"), "$.body[1].body[4].names[0]", "bound before"),
    (forged(*OPENED, 4, "arguments", 0, value="i"), "$.body[1].body[4].arguments[0]", "bound before"),
    (forged(*BODY, 1, "tapes", 0, "persistent", value=0), "$.body[1].tapes[0].persistent", "true or false"),
    (forged(*BODY, 2, "body", 1, "count", value=0), "$.body[2].body[1].count", "an integer of at least 1"),
    (forged(*BODY, 2, "body", 1, "count", value=2.0), "$.body[2].body[1].count", "an integer"),
    (forged(*BODY, 2, "body", 1, "count", value=256), "$.body[2].body[1].body[0]", "256 runs"),
    (
        forged(*DERIVE, "method", value="watched_variables"),
        "$.body[3].method",
        "one of batch_jacobian, gradient",
    ),
    (
        forged("body", value=[*DOCUMENT["body"], {**DOCUMENT["body"][3], "name": "h"}]),
        "$.body[5].method",
        "at most 1, in no loop",
    ),
    (
        forged("body", value=[*DOCUMENT["body"][:3], {"statement": "loop", "count": 2, "body": DOCUMENT["body"][3:4]}]),
        "$.body[3].body[0].method",
        "at most 1, in no loop",
    ),
    (forged(*DERIVE, "targets", "form", value="list"), "$.body[3].targets.form", "one of one"),
    (forged(*DERIVE, "targets", "names", value=[]), "$.body[3].targets.names", "at least 1"),
    (forged(*DERIVE, "sources", "names", value=["v"] * 5), "$.body[3].sources.names", "at most 4"),
    (forged(*DERIVE, "zeros", value="zero"), "$.body[3].zeros", "true or false"),
    (forged(*BODY, 4, "arguments", 0, value="g['c']"), "$.body[4].arguments[0]", "bound before"),
    (forged("body", value=[DOCUMENT["body"][0]] * (MAX_STATEMENTS + 1)), "$.body", "at most 64"),
    (forged("body", value=[NESTED]), "$.body[0]" + ".body[0]" * MAX_DEPTH + ".body", "at most 8"),
]


def test_anything_else_is_refused_by_its_place() -> None:
    offenders = {}
    for number, (data, place, expected) in enumerate(REFUSED):
        try:
            offenders[number, place] = f"was read as {from_json(data)}"
        except DocumentError as error:
            if error.place != place or expected not in str(error):
                offenders[number, place] = str(error)
    assert offenders == {}


def test_the_statements_of_all_blocks_count_together() -> None:
    half = [DOCUMENT["body"][0]] * (MAX_STATEMENTS // 2)
    opened = {"statement": "open", "tapes": [{"name": "tape", "persistent": False, "accessed": True}], "body": half}
    assert len([*from_json(forged("body", value=[opened, *half[1:]])).statements()]) == MAX_STATEMENTS
    with pytest.raises(DocumentError, match=r"\$\.body\[32\]: one more was given; expected at most 64 statements"):
        from_json(forged("body", value=[opened, *half]))


def test_a_program_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(DocumentError, match="a name that was bound before"):
        checked(Program((), (Apply("y", "sin", ("x",)),)))


def test_nothing_is_run_while_a_program_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "__import__('os').mkdir('EXECUTED')"
    for path in ((*BODY, 0, "name"), (*OPENED, 1, "operation"), (*OPENED, 1, "arguments", 0), (*DERIVE, "method")):
        with pytest.raises(DocumentError):
            from_json(forged(*path, value=code))
    assert not list(tmp_path.iterdir())
