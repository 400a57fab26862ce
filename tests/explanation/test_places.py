"""Lines are those of the user's files: generated wrappers and installed packages stand back behind their callers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gradcheck import Diagnosis, check, explain
from tests.loading import loaded

LOGARITHM = "import tensorflow as tf\n\n\ndef logarithm(x):\n    return tf.math.log(x)\n"
w = tf.Variable([0.0, 1.0], name="w")


def generated(folder: Path) -> Any:
    names: dict[str, Any] = {}
    exec(compile(LOGARITHM, "<string>", "exec"), names)
    return names["logarithm"]


def installed(folder: Path) -> Any:
    return loaded(folder / "site-packages" / "logarithms.py", LOGARITHM, "logarithms").logarithm


def own(folder: Path) -> Any:
    return loaded(folder / "project" / "logarithms.py", LOGARITHM, "logarithms").logarithm


def origin_of(function: Any) -> Diagnosis:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.where(w > 0.5, function(w), 0.0))  # the call
        return tape.gradient(loss, w)

    (one,) = explain(step).sources
    assert one.diagnosis is not None
    return one.diagnosis


INSIDE = [(generated, "at <string>:5"), (installed, "logarithm of logarithms, at logarithms.py:5")]


@pytest.mark.parametrize(("made", "inside"), INSIDE)
def test_the_caller_is_named_with_the_place_inside(made: Any, inside: str, tmp_path: Path) -> None:
    found = origin_of(made(tmp_path))
    assert found.place is not None
    assert found.place.code.endswith("# the call")
    assert f" ({inside})" in found.evidence


def test_a_file_of_the_project_is_named_itself(tmp_path: Path) -> None:
    found = origin_of(own(tmp_path))
    assert found.place is not None
    assert found.place.code == "return tf.math.log(x)"


def test_without_a_caller_that_can_be_read_the_place_is_the_innermost(tmp_path: Path) -> None:
    logarithm = generated(tmp_path)
    names = {"tf": tf, "logarithm": logarithm}
    exec(compile("def f(x):\n    return tf.where(x > 0.5, logarithm(x), 0.0)\n", "<stdin>", "exec"), names)
    (finding,) = check(names["f"], tf.constant([0.0, 1.0])).orders[1].findings
    assert finding.diagnosis is not None
    assert finding.diagnosis.place is not None
    assert (finding.diagnosis.place.file, finding.diagnosis.place.line) == ("<string>", 5)
