"""The behaviour that the tape records of reports/known/ call documented is right, by differences or by the lines here.

Each record replays what TensorFlow gives instead; tests/properties/test_known_tape_defects.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from msgspec.structs import replace

from gradcheck.defects.records import TapeDefect
from gradcheck.defects.tape_program import Constant, Derive, Literal, Open, Program, Statement, Structure, Tape
from gradcheck.hunt.tapes.interpreter import run
from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.sampling import sample
from tests.records import TAPE_DEFECTS

RECORDS = {one.name: one for one in TAPE_DEFECTS}
WATCH, TARGET, ZEROS = "tape-watch-while-stopped", "tape-target-and-source", "tape-traced-zeros"
SCALAR, UNCONNECTED = "tape-batch-jacobian-of-scalar", "tape-batch-jacobian-unconnected"


def given(program: Program) -> Any:
    """The value of the derivative g of a program."""
    observed = run(program)
    assert observed.raised is None
    part = observed.part("g")
    return part if part is None else part.tolist()


def changed(record: TapeDefect, change: Callable[[Derive], Derive]) -> Program:
    """The program of a record with its last statement, the derivative, changed."""
    *before, derive = record.program.body
    assert isinstance(derive, Derive)
    return replace(record.program, body=(*before, change(derive)))


def inside(tape: Tape, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return (Open((tape,), body),)


def test_the_records_are_those_of_which_this_file_tells() -> None:
    assert set(RECORDS) == {WATCH, TARGET, ZEROS, SCALAR, UNCONNECTED}


def test_a_tensor_watched_while_its_tape_is_stopped_has_the_derivative_of_what_was_recorded() -> None:
    record = RECORDS[WATCH]
    constant = record.program.body[0]
    assert isinstance(constant, Constant)
    point = constant.literal.array()
    estimate = first_difference(sample(lambda points: np.sin(points).sum(axis=1, keepdims=True), point, np.eye(2)))
    assert np.all(estimate.conclusive)
    assert np.all(np.abs(np.array(record.documented) - estimate.value[:, 0]) <= estimate.bound[:, 0])


def test_an_unrelated_tape_around_the_same_lines_gives_it() -> None:
    record = RECORDS[WATCH]
    found = given(replace(record.program, body=inside(Tape("unrelated"), record.program.body)))
    assert found == pytest.approx(record.documented)


def test_a_target_that_is_a_source_has_ones_where_it_is_alone() -> None:
    """Adding the target z takes the gradient away, though z has none to give: c is not watched."""
    record = RECORDS[TARGET]
    alone = changed(record, lambda derive: replace(derive, targets=Structure("one", ("c",))))
    other = changed(record, lambda derive: replace(derive, targets=Structure("one", ("z",))))
    assert given(alone) == list(record.documented)  # type: ignore[arg-type]
    assert given(other) is None


def test_the_other_targets_keep_their_gradient() -> None:
    record = RECORDS[TARGET]
    found = given(changed(record, lambda derive: replace(derive, sources=Structure("one", ("x",)))))
    constant = record.program.body[0]
    assert isinstance(constant, Constant)
    assert found == list(constant.literal.values)


def test_the_same_lines_outside_of_a_function_give_what_is_promised_inside() -> None:
    record = RECORDS[ZEROS]
    assert record.program.traced
    assert given(replace(record.program, traced=False)) == list(record.documented)  # type: ignore[arg-type]


def test_jacobian_keeps_to_what_batch_jacobian_is_asked_for() -> None:
    record = RECORDS[UNCONNECTED]
    assert record.documented == "None"
    assert given(changed(record, lambda derive: replace(derive, method="jacobian"))) is None


def test_a_vector_raises_what_is_promised_for_a_scalar() -> None:
    record = RECORDS[SCALAR]
    vector = changed(record, lambda derive: replace(derive, targets=Structure("one", ("v",))))
    body = (Constant("v", Literal((2,), (1.0, 2.0))), *vector.body)
    assert type(run(replace(vector, body=body)).raised).__name__ == record.documented


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (SCALAR, ("ValueError: If", "dimension of `target` and `source` do not match")),
        (UNCONNECTED, ("unconnected", "it defaults to 'none'")),
    ],
)
def test_the_documentation_says_so(name: str, words: tuple[str, ...]) -> None:
    told = " ".join(str(tf.GradientTape.batch_jacobian.__doc__).split())
    assert all(one in told for one in words), f"{name} quotes what is not there any more"
