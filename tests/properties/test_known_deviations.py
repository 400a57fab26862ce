"""What tapes do against their documentation, as recorded: passes while it is there, says when it is fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from gradcheck.defects.deviation import Deviation
from gradcheck.defects.known import deviations
from gradcheck.hunt.events import Event, KnownReplayed, State
from gradcheck.hunt.recheck import of_deviation
from gradcheck.hunt.tapes.prediction_check import examine

FOLDER = Path(__file__).parents[2] / "reports" / "known"
DEVIATIONS = [pytest.param(deviation, id=deviation.name) for deviation in deviations(FOLDER)]


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_deviation_is_still_there(gradcheck_event: Callable[[Event], None], deviation: Deviation) -> None:
    seen = of_deviation(deviation)
    told = seen.message if seen.state is State.CANNOT_RUN else ""
    gradcheck_event(KnownReplayed(deviation.name, seen.state, tf.__version__, told))
    file = f"reports/known/{deviation.name}.json"
    assert seen.state is not State.CANNOT_RUN, f"{file}: {seen.message}"
    if not deviation.covers(tf.__version__):
        assert seen.state is State.FIXED, f"{deviation.name}: back in TensorFlow {tf.__version__}: {seen.message}"
        return
    assert seen.state is not State.FIXED, (
        f"TensorFlow {tf.__version__} gives {deviation.promised}, as promised: {deviation.title!r} is FIXED. "
        f'Set "until" to "{tf.__version__}" in {file}.'
    )
    assert not seen.changed, f"{deviation.title!r} has changed: {seen.message}; look at it again and correct {file}."


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_model_predicts_tensorflow_as_it_is(deviation: Deviation) -> None:
    """Drawn programs are held against the model, so that the hunt goes on behind what is known."""
    examine(deviation.program)


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_file_is_named_after_the_deviation(deviation: Deviation) -> None:
    assert (FOLDER / f"{deviation.name}.json").is_file()
