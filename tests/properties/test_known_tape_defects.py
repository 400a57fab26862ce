"""Documented behaviour that tapes do not keep, as recorded: passes while it exists, and says when it is fixed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from gradcheck.defects.records import TapeDefect
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.recheck import Recheck, of_tape_defect
from gradcheck.hunt.tapes.interpreter import examine
from tests.records import TAPE_DEFECTS


@pytest.mark.parametrize("defect", TAPE_DEFECTS, ids=lambda defect: defect.name)
def test_what_a_record_says_is_so(
    gradcheck_event: Callable[[Event], None], subtests: pytest.Subtests, defect: TapeDefect
) -> None:
    with subtests.test("the defect is still there"):
        seen = of_tape_defect(defect)
        told = seen.message if seen.state is State.CANNOT_TELL else ""
        gradcheck_event(KnownReplayed(defect.name, seen.state, tf.__version__, told, defect.category))
        it_is_still_there(defect, seen)
    # Drawn programs are compared with the model, so that the hunt goes on after what is known.
    with subtests.test("the model predicts TensorFlow as it is"):
        examine(defect.program)


def it_is_still_there(defect: TapeDefect, seen: Recheck) -> None:
    file = f"reports/known/{defect.cause}.json"
    assert seen.state is not State.CANNOT_TELL, f"{file}: {seen.message}"
    if not defect.covers(tf.__version__):
        assert seen.state is State.FIXED, f"{defect.name}: back in TensorFlow {tf.__version__}: {seen.message}"
        return
    assert seen.state is not State.FIXED, (
        f"TensorFlow {tf.__version__} gives {defect.documented}, as documented: {defect.title!r} is FIXED. "
        f'Set "until" to "{tf.__version__}" in {file}.'
    )
    assert not seen.changed, f"{defect.title!r} has changed: {seen.message}; look at it again and correct {file}."
