"""The reference model: it needs no TensorFlow, and predicts what the scenarios say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gradcheck.defects import tape_program as form
from gradcheck.defects.tape_program import (
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
from gradcheck.hunt.tapes.interpreter import compare
from gradcheck.hunt.tapes.model import NoneOperandError, run
from gradcheck.hunt.tapes.recording import NONE, VALUE, ZEROS

X = Variable("x", Literal((2,), (3.0, 0.7)))
Y = Variable("y", Literal((2,), (-1.0, 0.5)))
FIXED = Variable("w", Literal((2,), (0.3, 2.0)), trainable=False)
SCALE = Constant("c", Literal((2,), (1.5, 0.2)))
MATRIX = Variable("m", Literal((2, 2), (1.0, -0.3, 0.7, 2.0)))


def one(name: str) -> Structure:
    return Structure("one", (name,))


def several(*names: str) -> Structure:
    return Structure("list", names)


def gradient(target: str, *sources: str, tape: str = "tape", **options: bool) -> Derive:
    return Derive("g", tape, "gradient", one(target), several(*sources), **options)


def recorded(*body: Statement, name: str = "tape", **options: bool) -> Open:
    return Open((Tape(name, **options),), body)


def square(name: str, of: str) -> Apply:
    return Apply(name, "square", (of,))


A2 = (square("s", "x"), recorded(Apply("l", "identity", ("s",))), gradient("l", "x"))
A4 = (square("s", "x"), recorded(square("q", "y"), Apply("l", "add", ("s", "q"))), gradient("l", "x", "y"))
B2 = (recorded(recorded(square("a", "x"), name="inner"), Apply("b", "sin", ("a",))), gradient("b", "x"))
B3 = (recorded(square("a", "x")), gradient("a", "x"), gradient("a", "x"))
INNER = Derive("d", "inner", "gradient", one("a"), one("x"))
B4 = (recorded(recorded(Apply("a", "sin", ("x",)), name="inner"), INNER), gradient("d", "x"))
B5 = (recorded(recorded(Apply("a", "sin", ("x",)), name="inner")), INNER, gradient("d", "x"))
D4 = (
    SCALE,
    Apply("t", "add", ("y", "c")),
    recorded(Apply("a", "mul", ("x", "w")), Apply("b", "mul", ("a", "t"))),
    gradient("b", "x", "w", "t", "c"),
)
D6 = (recorded(Watch("tape", "y"), Apply("a", "mul", ("x", "y")), accessed=False), gradient("a", "x", "y"))
D7 = (recorded(square("a", "x"), square("b", "a")), gradient("b", "a"))
D11 = (
    recorded(Branch("r", "x", 0.3, (Apply("r", "sin", ("x",)),), (Apply("r", "sin", ("y",)),))),
    gradient("r", "x", "y"),
)
D12 = (
    SCALE,
    Loop(2, (recorded(square("a", "x")), gradient("a", "x"), Apply("x", "add", ("x", "c")))),
)
D13 = (recorded(Apply("n", "numpy", ("x",)), square("a", "n")), gradient("a", "x"))
D14 = (recorded(Apply("i", "to_integer", ("x",)), Apply("a", "to_float", ("i",))), gradient("a", "x"))
D15 = (recorded(Assign("x", "assign_add", "y"), square("a", "x")), gradient("a", "x", "y"))
D16 = (recorded(Apply("a", "remainder", ("x",))), gradient("a", "x"))
D17 = (recorded(square("a", "x")), gradient("a", "x", "y", zeros=True))

SIGN = (
    recorded(recorded(Apply("a", "sign", ("x",)), name="inner"), INNER, square("b", "d")),
    gradient("b", "d"),
)

CASES = {
    "the gradient of a sign": (SIGN, [VALUE, VALUE], None),
    "A2": (A2, [NONE], None),
    "A4": (A4, [NONE, VALUE], None),
    "B2": (B2, [VALUE], None),
    "B3": (B3, [VALUE], "RuntimeError: A non-persistent GradientTape"),
    "B4": (B4, [VALUE, VALUE], None),
    "B5": (B5, [VALUE, NONE], None),
    "D4": (D4, [VALUE, NONE, NONE, NONE], None),
    "D6": (D6, [NONE, VALUE], None),
    "D7": (D7, [VALUE], None),
    "D11": (D11, [VALUE, NONE], None),
    "D12": (D12, [VALUE, NONE], None),
    "D13": (D13, [NONE], None),
    "D14": (D14, [NONE], None),
    "D15": (D15, [VALUE, NONE], None),
    "D16": (D16, [], "LookupError: gradient registry has no entry for: TruncateMod"),
    "D17": (D17, [VALUE, ZEROS], None),
    "stopped": ((recorded(Stop("tape", (square("a", "x"),))), gradient("a", "x")), [NONE], None),
    "reset": (
        (recorded(square("a", "x"), Reset("tape"), square("b", "a")), gradient("b", "x", "a")),
        [NONE, NONE],
        None,
    ),
    "resumed": ((recorded(square("a", "x")), Resume("tape", (square("b", "a"),)), gradient("b", "x")), [VALUE], None),
    "reset after the end": ((recorded(square("a", "x")), Reset("tape")), [], "ValueError: Tape is not recording"),
    "watched after the end": (
        (recorded(square("a", "x")), gradient("a", "x"), Watch("tape", "x")),
        [VALUE],
        "AttributeError: 'NoneType' object has no attribute '_tape'",
    ),
    "used up while stopped, it starts a new record": (
        (recorded(Stop("tape", (gradient("x", "x"),)), square("a", "x")), gradient("a", "x")),
        [VALUE, VALUE],
        None,
    ),
    "an operand that is not followed": (
        (SCALE, recorded(Apply("a", "mul", ("x", "c"))), Derive("g", "tape", "gradient", several("a", "c"), one("c"))),
        [NONE],
        None,
    ),
    "a target that is a source": ((SCALE, recorded(), gradient("c", "c")), [VALUE], None),
    "a function is one operation": (
        (recorded(Call("f", ("a", "b"), (), (square("a", "x"), square("b", "y")))), gradient("a", "x", "y")),
        [VALUE, VALUE],
        None,
    ),
    "a Jacobian": ((recorded(square("a", "x")), Derive("g", "tape", "jacobian", one("a"), one("x"))), [VALUE], None),
    "a batch Jacobian": (
        (recorded(square("a", "m")), Derive("g", "tape", "batch_jacobian", one("a"), one("m"))),
        [VALUE],
        None,
    ),
    "an unconnected batch Jacobian": (
        (recorded(), Derive("g", "tape", "batch_jacobian", one("m"), one("m"))),
        [VALUE],
        None,
    ),
    "a batch Jacobian of a vector": (
        (recorded(square("a", "x")), Derive("g", "tape", "batch_jacobian", one("a"), one("x"))),
        [],
        r"ValueError: Shape \(2,\) must have rank at least 2",
    ),
    "watched while nothing records": (
        (SCALE, recorded(Stop("tape", (Watch("tape", "c"),)), square("a", "c")), gradient("a", "c")),
        [NONE],
        None,
    ),
    "watched while another tape records": (
        (
            SCALE,
            recorded(recorded(Stop("tape", (Watch("tape", "c"),)), square("a", "c")), name="other"),
            gradient("a", "c"),
        ),
        [VALUE],
        None,
    ),
    "assigned to a tensor": ((square("x", "x"), Assign("x", "assign", "y")), [], "AttributeError: object has no"),
}
EAGER = ("D13",)
TRACED = {"D11": [VALUE, VALUE], "the gradient of a sign": [VALUE, NONE]}
"""Other predictions in a tf.function: tf.cond gives zeros for a branch that was not taken; zeros are a constant."""


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_what_it_predicts_and_that_tensorflow_does_it(traced: bool, subtests: pytest.Subtests) -> None:
    for name, (body, kinds, raised) in CASES.items():
        if traced and name in EAGER:
            continue  # a traced tensor has no value for NumPy
        with subtests.test(name):
            program = Program((X, Y, FIXED, MATRIX), body, traced)
            model = run(program)
            wanted = TRACED.get(name, kinds) if traced else kinds
            assert [part.kind for parts in model.derivatives for part in parts.values()] == wanted
            if raised is None:
                assert model.raised is None
            else:
                assert re.match(raised, str(model.raised))
            assert compare(program).differences == []


def test_none_as_an_operand_is_refused() -> None:
    body = (recorded(), gradient("x", "y"), square("a", "g[0]"))
    with pytest.raises(NoneOperandError, match=r"g\[0\] is None"):
        run(Program((X, Y), body))


def test_the_model_needs_no_tensorflow() -> None:
    """The oracle has to be independent: neither the model nor its texts import what it predicts."""
    code = (
        "import sys\n"
        "import gradcheck.hunt.tapes.model, gradcheck.hunt.tapes.program_forms\n"
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_size_counts_inner_statements() -> None:
    assert len([*Program((X,), D12).statements()]) == 6
    assert isinstance(next(form.Program((X,), D12).statements()), Constant)


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_a_jacobian_that_is_not_vectorized_is_counted_apart(method: form.Method) -> None:
    """pfor cannot stack what the gradient of a tf.cond keeps for a persistent tape: a ValueError, as documented."""
    sines = tuple((Apply("s", operation, ("m",)),) for operation in ("sin", "tanh"))
    inner = recorded(Branch("s", "m", 0.0, *sines), Derive("j", "tape", method, one("s"), one("m")))
    assert compare(Program((MATRIX,), (inner,), traced=True)).outcomes == {f"{method}: value": 1}
    found = compare(Program((MATRIX,), (Open((Tape("other", persistent=True),), (inner,)),), traced=True))
    assert found.differences == []
    assert found.outcomes == {"raises ValueError, not vectorized": 1}
