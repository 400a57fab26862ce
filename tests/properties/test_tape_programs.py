"""TensorFlow's tapes do what the reference model says, for drawn programs."""

from __future__ import annotations

from gradcheck.strategies.tape_programs import tape_programs
from hypothesis import given, settings

from gradcheck.defects.tape_program import Program
from gradcheck.hunt.tapes.interpreter import examine

EAGER, TRACED = 15, 2


@settings(max_examples=EAGER * settings().max_examples)
@given(tape_programs(traced=False))
def test_an_eager_program(program: Program) -> None:
    examine(program)


@settings(max_examples=TRACED * settings().max_examples)
@given(tape_programs(traced=True))
def test_a_traced_program(program: Program) -> None:
    examine(program)
