"""Clips of IndexedSlices: their values count repeated rows apart, which are summed when the gradient is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientWrongValue, assert_step
from gradcheck.result import Cause, Diagnosis
from gradcheck.training.step_check import SUM_FIRST

Change = Callable[[Any], Any]
REPEATED, ONCE = [0, 3, 3, 3, 1], [0, 3, 1]


def of_values(change: Change) -> Change:
    return lambda gradient: tf.IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)


CLIPS: dict[str, tuple[Change, Change, str]] = {
    "norm of values": (
        of_values(lambda values: tf.clip_by_norm(values, 1.0)),
        lambda gradient: tf.clip_by_norm(gradient, 1.0),
        "clipped to the norm 1 (it was ",
    ),
    "norm of slices": (
        lambda gradient: tf.clip_by_norm(gradient, 1.0),
        lambda gradient: tf.clip_by_norm(gradient, 1.0),
        "clipped to the norm 1 (it was ",
    ),
    "values": (
        of_values(lambda values: tf.clip_by_value(values, -0.5, 0.5)),
        lambda gradient: tf.clip_by_value(gradient, -0.5, 0.5),
        "clipped by value to at most 0.5 and at least -0.5",
    ),
    "values in NumPy": (
        of_values(lambda values: tf.numpy_function(lambda one: np.clip(one, -0.5, 0.5), [values], tf.float32)),
        lambda gradient: tf.clip_by_value(gradient, -0.5, 0.5),
        "clipped by value to at most 0.5 and at least -0.5",
    ),
}


def clipping(change: Change) -> Callable[[Any], Any]:
    """A step that changes the gradient of the rows of a table."""
    table = tf.Variable(np.random.default_rng(1).normal(size=(5, 2)).astype("float32"), name="table")
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([table])

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
        optimizer.apply_gradients([(change(tape.gradient(loss, table)), table)])
        return loss

    return step


def cause(step: Any, rows: Any) -> Diagnosis:
    with pytest.raises(GradientWrongValue) as caught:
        assert_step(step, tf.constant(rows))
    assert caught.value.result is not None
    (finding,) = caught.value.result.findings
    assert finding.diagnosis is not None
    return finding.diagnosis


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_before_repeated_rows_are_summed(name: str, traced: Any) -> None:
    change, dense, how = CLIPS[name]
    found = cause(traced(clipping(change)), REPEATED)
    assert found.cause is Cause.CHANGED_AFTERWARDS
    assert f": the .values of its IndexedSlices were {how}" in found.evidence
    assert found.remedy == SUM_FIRST
    followed = traced(clipping(lambda gradient: dense(tf.convert_to_tensor(gradient))))
    assert assert_step(followed, tf.constant(REPEATED)).verdict == "agree"


@pytest.mark.parametrize("name", CLIPS)
def test_without_repeated_rows_it_is_an_ordinary_clip(name: str, traced: Any) -> None:
    notes = assert_step(traced(clipping(CLIPS[name][0])), tf.constant(ONCE)).orders[1].notes
    assert any(note.startswith("changed after it was taken: clipped ") for note in notes)
    assert "IndexedSlices" not in "".join(notes)


CHANGES: dict[str, Change] = {
    "factor": of_values(lambda values: 0.3 * values),
    "rows": of_values(lambda values: tf.clip_by_norm(values, 1.0, axes=[1])),
    "a row lost": of_values(lambda values: values * [[1.0], [0.0], [1.0], [1.0], [1.0]]),
    "value beside a wrong row": of_values(
        lambda values: tf.clip_by_value(values, -0.5, 0.5) * [[1.0], [1.0], [0.7], [1.0], [1.0]]
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_changes_of_the_values_are_no_clips(name: str, traced: Any) -> None:
    found = cause(traced(clipping(CHANGES[name])), REPEATED)
    assert "IndexedSlices" not in found.evidence
    assert found.remedy != SUM_FIRST


def test_of_a_global_norm_the_note_has_both_lengths(traced: Any) -> None:
    step = traced(clipping(lambda gradient: tf.clip_by_global_norm([gradient], 1.0)[0][0]))
    *_, note = assert_step(step, tf.constant(REPEATED)).orders[1].notes
    assert note == (
        "changed after it was taken: clipped to the global norm 1.35589 (it was 5.7397); 1 for their IndexedSlices, "
        "whose repeated rows count apart"
    )
