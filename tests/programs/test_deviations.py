"""Where TensorFlow's tapes do something else than they say, with what shows it; the model predicts them as they are.

The records of reports/known/ hold a graph and a wrong derivative of one of its operations; these are about tapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.numerics.difference import first_difference
from gradcheck.numerics.sampling import sample

POINT = np.array([0.7, -0.4])


@pytest.fixture
def c() -> tf.Tensor:
    return tf.constant(POINT)


def watched_while_stopped(c: tf.Tensor, other: bool) -> Any:
    """watch() is called while the tape does not record; `other`: inside of a tape that has nothing to do with it."""
    with tf.GradientTape() if other else tf.name_scope("nothing"), tf.GradientTape() as tape:
        with tape.stop_recording():
            tape.watch(c)
        y = tf.sin(c)
    return tape.gradient(y, c)


def test_watch_is_ignored_while_no_tape_records(c: tf.Tensor) -> None:
    """ "Ensures that `tensor` is being traced by this tape": only if some tape, whichever, records at that moment.

    TFE_Py_TapeWatch returns at once where no tape is active. What the tape recorded is sin(c), whose differences with
    respect to c are not zero, and the same lines inside of an unrelated tape give them.
    """
    estimate = first_difference(sample(lambda points: np.sin(points).sum(axis=1, keepdims=True), POINT, np.eye(2)))
    assert watched_while_stopped(c, other=False) is None
    found = watched_while_stopped(c, other=True).numpy()
    assert np.all(np.abs(found - estimate.value[:, 0]) <= estimate.bound[:, 0])


def test_a_target_that_is_a_source_loses_its_ones_when_another_target_uses_it(c: tf.Tensor) -> None:
    """The gradient of z + c with respect to c is None, that of c alone is one: adding a target takes a gradient away.

    c is not watched, so that z has none to give; but dc/dc is there before the pass, and deleted in it with the flows
    to operands that the tape does not follow (ComputeGradient in tensorflow/c/eager/tape.h).
    """
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        z = x * c
    assert tape.gradient([c], c).numpy().tolist() == [1.0, 1.0]
    assert tape.gradient([z, c], c) is None
    np.testing.assert_array_equal(tape.gradient([z, c], x), c)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "tf.function"])
def test_zeros_for_the_unconnected_are_recorded_eagerly_only(traced: bool) -> None:
    """The same lines give a gradient eagerly and None in a graph: eager zeros are an operation on the source."""

    def program() -> Any:
        c, x = tf.constant(POINT), tf.constant([1.0, 2.0], tf.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(c)
            zeros = tape.gradient(x * x, c, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            y = tf.exp(zeros)
        return tape.gradient(y, zeros)

    found = (tf.function(program) if traced else program)()
    assert found is None if traced else found.numpy().tolist() == [1.0, 1.0]


def test_a_batch_jacobian_of_a_scalar_raises_an_index_error() -> None:
    """ "ValueError: if first dimension of `target` and `source` do not match" is what it promises."""
    m = tf.Variable([[1.0, 2.0]], dtype=tf.float64)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(m)
    with pytest.raises(IndexError, match="list index out of range"):
        tape.batch_jacobian(y, m)


def test_an_unconnected_batch_jacobian_is_zeros_though_none_was_asked_for() -> None:
    """`unconnected_gradients` is NONE by default; jacobian keeps to it, batch_jacobian does not."""
    m, other = (tf.Variable([[1.0, 2.0]], dtype=tf.float64) for _ in range(2))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.sin(m)
    assert tape.jacobian(y, other) is None
    assert tape.batch_jacobian(y, other).numpy().tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
