"""Gradients of single samples: C3 minibatches, C4 samples of different sizes, C5 processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gradcheck
from gradcheck import assert_step
from tests import slices
from tests.training import processes

numbers = st.floats(-2, 2, allow_subnormal=False)
samples = st.tuples(numbers, numbers)


def loss_of(weights: tf.Variable, sample: Any) -> Any:
    """A loss of one sample (its inputs, of any number, and the target as the last) under two shared weights."""
    sample = tf.convert_to_tensor(sample, tf.float64)
    hidden = tf.tanh(weights[0] * sample[:-1] + weights[1])
    return (tf.reduce_sum(hidden) - sample[-1]) ** 2


def gradient_of(weights: tf.Variable, sample: Any) -> tuple[Any, Any]:
    with tf.GradientTape() as tape:
        loss = loss_of(weights, sample)
    return loss, tape.gradient(loss, weights)


def summed(weights: tf.Variable, batch: Any) -> Any:
    """The total loss of a batch, and the sum of the samples' own gradients."""
    parts = [gradient_of(weights, sample) for sample in batch]
    return tf.add_n([loss for loss, _ in parts]), [tf.add_n([gradient for _, gradient in parts])]


@pytest.fixture(scope="module")
def weights() -> tf.Variable:
    return tf.Variable([0.7, -0.3], dtype=tf.float64, name="weights")


@pytest.mark.sliced
@settings(max_examples=12 if slices.whole else 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch=st.lists(samples, min_size=1, max_size=4), divisor=st.sampled_from([1, 2, 7]), at=samples)
def test_c3_linearity_over_any_minibatch(weights: tf.Variable, batch: Any, divisor: int, at: Any) -> None:
    """The sum of the samples' gradients is the gradient of the sum of their losses, and likewise for any multiple."""
    weights.assign(at)

    @tf.function
    def step() -> Any:
        loss, (gradient,) = summed(weights, batch)
        return loss / divisor, [gradient / divisor]

    result = assert_step(step, variables=[weights], inconclusive="ignore")
    assert result.verdict != "mismatch"
    with tf.GradientTape() as tape:
        total = tf.add_n([loss_of(weights, sample) for sample in batch])
    _, (gradient,) = summed(weights, batch)
    scale = sum(float(tf.reduce_max(tf.abs(gradient_of(weights, sample)[1]))) for sample in batch)
    np.testing.assert_allclose(gradient, tape.gradient(total, weights), rtol=0, atol=1e-14 * len(batch) * scale)


def test_c3_a_sample_left_out_is_noticed(weights: tf.Variable) -> None:
    weights.assign([0.7, -0.3])
    batch = [(0.5, 1.0), (-1.0, 0.25), (2.0, 0.5)]

    @tf.function
    def step() -> Any:
        loss, _ = summed(weights, batch)
        return loss, summed(weights, batch[:-1])[1]

    with pytest.raises(gradcheck.GradientMismatch):
        assert_step(step, variables=[weights])


RAGGED = [[0.5, 1.0], [1.0, -0.5, 0.25, 2.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0]]


@slices.parametrized("traced", [True, False], slices.every(2), ids=str)
def test_c4_samples_that_cannot_be_stacked(weights: tf.Variable, traced: bool) -> None:
    weights.assign([0.7, -0.3])
    batch = [tf.constant(sample, tf.float64) for sample in RAGGED]
    result = assert_step(tf.function(summed) if traced else summed, weights, batch, variables=[weights])
    assert str(result).startswith("gradcheck: agree\norder 1: agree (2 compared, 0 inconclusive)\n")
    assert result.resolution[1] < 1e-9


@pytest.mark.exhaustive
def test_c5_gradients_from_processes(weights: tf.Variable) -> None:
    """Each process has half of the samples, and gets the other's gradients through a pipe."""
    weights.assign([0.7, -0.3])
    with processes.other() as pipe:

        def step(share: float) -> Any:
            pipe.send(weights.numpy())
            loss, gradient = processes.shard_gradient(weights.numpy(), processes.SAMPLES[:2])
            other_loss, other_gradient = pipe.recv()
            return loss + other_loss, [gradient + share * other_gradient]

        assert assert_step(step, 1.0, variables=[weights]).verdict == "agree"
        with pytest.raises(gradcheck.GradientWrongValue):
            assert_step(step, 0.5, variables=[weights])
