"""Which of TensorFlow's gradients a run reaches: recorded, merged, compared with the source."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from gradcheck import check, documents
from gradcheck.hunt.gradient_code import reachable_code
from gradcheck.hunt.gradient_run import GradientRecorder, GradientRun, NoCoverageError
from gradcheck.hunt.report import gradient_reach
from gradcheck.hunt.report.gradient_reach import reach_of
from tests import slices


@pytest.fixture(scope="module")
def run() -> GradientRun:
    """Determinants at both orders, minima at first order."""
    recorder, plain = GradientRecorder(), ops.gradient_registry.lookup("Sin")
    recorder.start()
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]], tf.float64)
    check(lambda x: tf.linalg.det(x) ** 2, x, order=2)
    check(tf.reduce_min, x)
    ran = recorder.stop()
    assert ops.gradient_registry.lookup("Sin") is plain
    return ran


def test_orders_are_told_apart(run: GradientRun) -> None:
    assert {"MatrixDeterminant", "Pow", "Min", "MatrixInverse"} <= set(run.first)
    assert {"MatrixDeterminant", "Pow"} <= set(run.second) <= set(run.first)
    assert "Min" not in run.second
    assert "Sin" not in run.first


def test_what_ran_so_far_is_known_while_more_is_recorded() -> None:
    recorder, x = GradientRecorder(), tf.constant([1.0, 2.0], tf.float64)
    recorder.start()
    try:
        check(tf.sin, x)
        before = recorder.so_far()
        check(tf.cos, x)
    finally:
        after = recorder.stop()
    assert ("Sin" in before.first, "Cos" in before.first) == (True, False)
    assert {"Sin", "Cos"} <= set(after.first)
    assert before.arcs
    assert all(set(pairs) <= set(after.arcs[place]) for place, pairs in before.arcs.items())


def test_a_document_is_read_as_it_was_written(run: GradientRun) -> None:
    assert documents.convert(documents.parse(documents.to_text(run)), GradientRun) == run


@pytest.mark.parametrize("place", ["/etc/passwd.py", "a/b.txt", "a b.py", ""])
def test_a_place_that_is_no_file_within_tensorflow_is_refused(run: GradientRun, place: str) -> None:
    data = documents.parse(documents.to_text(run)) | {"arcs": {place: []}}
    with pytest.raises(documents.DocumentError):
        documents.convert(data, GradientRun)


def test_processes_are_put_together(run: GradientRun) -> None:
    other = GradientRun.of(run.tensorflow, {"Sin"}, {"Cos"}, {"a_grad.py": [(2, 3), (1, 2)]})
    both = GradientRun.merged([run, other, run])
    assert set(both.first) == {*run.first, "Sin", "Cos"}
    assert set(both.second) == {*run.second, "Cos"}
    assert both.arcs == {**run.arcs, "a_grad.py": ((1, 2), (2, 3))}
    with pytest.raises(ValueError, match=r"TensorFlow 1\.0 and"):
        GradientRun.merged([run, GradientRun.of("1.0", set(), set(), {})])


FEW = ("MatrixDeterminant", "Max", "Min", "Pow", "Sin")


@pytest.mark.sliced
def test_the_reach_knows_lines_and_branches(run: GradientRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test command takes the code of a few gradients and their helpers."""
    codes = reachable_code()
    chosen = {name: codes[name] for name in slices.sliced(codes, lambda _: FEW)}
    monkeypatch.setattr(gradient_reach, "reachable_code", lambda: chosen)
    reach = reach_of(run)
    rows = {each.gradient.operation: each for each in reach.gradients}
    determinant, sine = rows["MatrixDeterminant"], rows["Sin"]
    assert determinant.first
    assert determinant.second
    assert determinant.code is not None
    assert determinant.code.missing == ()
    assert sine.code is not None
    assert (sine.first, sine.code.lines[0]) == (False, 0)
    assert sine.code.source(sine.code.missing[0]).startswith("x = op.inputs[0]")
    power = rows["Pow"].code
    assert power is not None
    assert 0 < power.lines[0] < power.lines[1]
    assert 0 < power.branches[0] < power.branches[1]
    assert any("skip_input_indices" in power.source(line) for line in (*power.missing, *power.partial))
    assert rows["Max"].code is not None
    assert rows["Max"].code.lines[0] == 0
    assert any(code.code.name == "_MinOrMaxGrad" for code in reach.helpers)
    assert reach.lines[0] >= sum(each.code.lines[0] for each in (determinant, rows["Pow"]) if each.code)
    assert len(reach.judged) < len(reach.gradients)


def test_another_release_has_other_lines(run: GradientRun) -> None:
    with pytest.raises(ValueError, match=r"of TensorFlow 1\.15\.0; .* is installed"):
        reach_of(GradientRun.of("1.15.0", set(), set(), {}))


def test_without_coverage_the_message_says_how_to_get_it(run: GradientRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coverage", None)
    with pytest.raises(NoCoverageError, match=r"pip install 'gradcheck\[reach\]'"):
        GradientRecorder()
    with pytest.raises(NoCoverageError):
        reach_of(run)
