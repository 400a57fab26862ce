"""The drawn programs that are broken in a known way: they run, lose what their label says, and mark the line."""

from __future__ import annotations

import linecache
from itertools import count
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.python.autograph.impl.api import StagingError

from gradcheck.result import Cause
from tests.benchmarks.broken_programs import BROKEN, WrittenProgram, broken_programs, right_programs

NUMBERS = count()
# In a tf.function AutoGraph wraps a LookupError, whose type it cannot recreate.
RAISES: dict[Cause, Any] = {
    Cause.USED_TAPE: RuntimeError,
    Cause.NO_GRADIENT: (LookupError, StagingError),
    Cause.RAISES: (ValueError, NotImplementedError, TypeError),
}
KEEPS = (Cause.STOP_GRADIENT, Cause.CUSTOM_GRADIENT, Cause.CHANGED_AFTERWARDS, Cause.OUTSIDE_TAPE, Cause.NOT_WATCHED)
"""The causes that may leave a value behind, but a wrong one."""


def result(program: WrittenProgram) -> list[Any]:
    """The flattened result of the program's function."""
    name, names = f"written_{next(NUMBERS)}.py", dict[str, Any]()
    linecache.cache[name] = (len(program.text), None, program.text.splitlines(keepends=True), name)
    exec(compile(program.text, name, "exec"), names)
    found: list[Any] = tf.nest.flatten(names["program"]())
    return found


@pytest.mark.parametrize("cause", BROKEN, ids=lambda cause: cause.name)
def test_a_broken_program_loses_its_gradient(cause: Cause) -> None:
    @settings(max_examples=max(4, settings().max_examples // 2))
    @given(broken_programs(cause))
    def run(program: WrittenProgram) -> None:
        assert program.cause is cause
        assert program.line is not None
        assert program.text.splitlines()[program.line - 1].strip()
        if cause in RAISES:
            with pytest.raises(RAISES[cause]):
                result(program)
        else:
            assert cause in KEEPS or any(part is None for part in result(program)), program.text

    run()


@settings(max_examples=2 * settings().max_examples)
@given(right_programs())
def test_a_right_program_gives_finite_gradients(program: WrittenProgram) -> None:
    assert (program.cause, program.line) == (None, None)
    parts = [part for part in result(program) if part is not None]
    assert parts
    assert all(np.all(np.isfinite(part)) for part in parts)


OF_OPERATIONS = {
    *(Cause.OPERATION, Cause.KNOWN_DEFECT, Cause.NOT_COMPARED),
    *(Cause.COMPOSITION, Cause.NOT_FINITE, Cause.CAME_IN, Cause.BRANCH),
}
"""Causes in the operations of a program, and not in its tapes; tests/planted has their faults."""


@given(st.data())
def test_every_cause_is_drawn(data: st.DataObject) -> None:
    assert set(BROKEN) == set(Cause) - OF_OPERATIONS
    assert data.draw(broken_programs()).cause in BROKEN
