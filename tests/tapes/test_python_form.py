"""The source text of a program gives the same as the interpreter."""

from __future__ import annotations

import contextlib
import io
import linecache
from itertools import count
from typing import Any

import numpy as np
from gradcheck.strategies.tape_programs import tape_programs
from hypothesis import given, settings

from gradcheck.defects.tape_program import Apply, Derive, Literal, Open, Program, Stop, Structure, Tape, Variable, Watch
from gradcheck.hunt.tapes import interpreter
from gradcheck.hunt.tapes.program_forms import to_python

NUMBERS = count()


def executed(program: Program) -> tuple[dict[str, Any], BaseException | None]:
    """The names that the script leaves behind, and what it raised."""
    names: dict[str, Any] = {}
    text, file = to_python(program), f"program_{next(NUMBERS)}.py"
    # AutoGraph asks for the source of what it converts.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(text, file, "exec"), names)
        except Exception as error:
            return names, error
    return names, None


@settings(max_examples=3 * settings().max_examples)
@given(tape_programs(traced=False))
def test_the_script_gives_what_the_interpreter_gives(program: Program) -> None:
    observed, (names, raised) = interpreter.run(program), executed(program)
    assert type(raised) is type(observed.raised)
    assert str(raised) == str(observed.raised)
    last = {path: value for parts in observed.derivatives for path, value in parts.items()}
    derived = {s.name: s for s in program.statements() if isinstance(s, Derive)}
    for path, value in last.items():
        assert path.partition("[")[0] in derived
        given_value = eval(path, names)
        np.testing.assert_equal(None if given_value is None else np.asarray(given_value), value)


@settings(max_examples=settings().max_examples)
@given(tape_programs(traced=True))
def test_a_traced_script_runs_as_far_as_the_interpreter_does(program: Program) -> None:
    observed, (_, raised) = interpreter.run(program), executed(program)
    assert (raised is None) == (observed.raised is None), f"{raised}\n{to_python(program)}"


TEXT = """\
import numpy as np
import tensorflow as tf

v0 = tf.Variable([1.0, 2.0], dtype=tf.float64, trainable=False)
with tf.GradientTape(persistent=True) as tape0, tf.GradientTape(watch_accessed_variables=False) as tape1:
    tape0.watch(v0)
    t0 = tf.sin(v0)
    with tape1.stop_recording():
        pass
g0 = tape0.jacobian(t0, {'a': v0, 'b': t0}, unconnected_gradients='zero')
print('g0', g0)
"""


def test_a_program_reads_like_one() -> None:
    variable = Variable("v0", Literal((2,), (1.0, 2.0)), trainable=False)
    tapes = (Tape("tape0", persistent=True), Tape("tape1", accessed=False))
    body = (Watch("tape0", "v0"), Apply("t0", "sin", ("v0",)), Stop("tape1", ()))
    sources = Structure("dict", ("v0", "t0"))
    derive = Derive("g0", "tape0", "jacobian", Structure("one", ("t0",)), sources, zeros=True)
    assert to_python(Program((variable,), (Open(tapes, body), derive))) == TEXT
