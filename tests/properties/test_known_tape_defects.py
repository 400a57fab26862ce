"""Documented behaviour that tapes do not keep, as recorded: passes while it is there, says when it is fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from gradcheck.defects.known import tape_defects
from gradcheck.defects.records import TapeDefect
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.recheck import of_tape_defect
from gradcheck.hunt.tapes.interpreter import examine

FOLDER = Path(__file__).parents[2] / "reports" / "known"
DEFECTS = [pytest.param(defect, id=defect.name) for defect in tape_defects(FOLDER)]


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_defect_is_still_there(gradcheck_event: Callable[[Event], None], defect: TapeDefect) -> None:
    seen = of_tape_defect(defect)
    told = seen.message if seen.state is State.CANNOT_TELL else ""
    gradcheck_event(KnownReplayed(defect.name, seen.state, tf.__version__, told, defect.category))
    file = f"reports/known/{defect.name}.json"
    assert seen.state is not State.CANNOT_TELL, f"{file}: {seen.message}"
    if not defect.covers(tf.__version__):
        assert seen.state is State.FIXED, f"{defect.name}: back in TensorFlow {tf.__version__}: {seen.message}"
        return
    assert seen.state is not State.FIXED, (
        f"TensorFlow {tf.__version__} gives {defect.documented}, as documented: {defect.title!r} is FIXED. "
        f'Set "until" to "{tf.__version__}" in {file}.'
    )
    assert not seen.changed, f"{defect.title!r} has changed: {seen.message}; look at it again and correct {file}."


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_model_predicts_tensorflow_as_it_is(defect: TapeDefect) -> None:
    """Drawn programs are compared with the model, so that the hunt goes on behind what is known."""
    examine(defect.program)
