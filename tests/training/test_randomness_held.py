"""Randomness is held fixed while a step is checked or explained, and the result says so."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import gradcheck
from tests import slices
from tests.benchmarks.steps import autoencoder_step, divergence

Step = Callable[[], Any]
GENERATOR = tf.random.Generator.from_seed(3)
DROPOUT = keras.layers.Dropout(0.5, seed=3)
NOISE: dict[str, tuple[Callable[[], Any], str]] = {
    "Keras": (lambda: tf.reduce_sum(tf.cast(DROPOUT(tf.ones(9), training=True), tf.float64)), "1 variable"),
    "a generator": (lambda: GENERATOR.uniform((), 1, 2, tf.float64), "1 variable"),
    "TensorFlow": (lambda: tf.random.uniform((), 1, 2, tf.float64), "the generator of TensorFlow"),
    "NumPy": (lambda: np.random.uniform(1, 2), "the generator of NumPy"),
    "Python": (lambda: random.uniform(1, 2), "the generator of Python"),
    "nobody": (lambda: 1.5, ""),
}


@pytest.fixture(autouse=True)
def without_a_seed() -> Iterator[None]:
    """Keeps tests of other files from seeding TensorFlow for these."""
    before = context.global_seed()
    context.context()._set_global_seed(None)
    yield
    context.context()._set_global_seed(before)


def noisy(x: tf.Variable, noise: Callable[[], Any], factor: float) -> Step:
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = noise() * x**3
        gradient = factor * tape.gradient(loss, x)
        x.assign_sub(0.1 * gradient)
        return loss, [gradient]

    return step


@pytest.mark.parametrize("name", NOISE)
def test_a_step_that_draws_does_so_alike_and_leaves_no_seed_behind(name: str) -> None:
    x = tf.Variable(1.5, name="x", dtype=tf.float64)
    noise, held = NOISE[name]
    for result in (gradcheck.assert_step(noisy(x, noise, 1.0)), gradcheck.explain(noisy(x, noise, 1.0))):
        assert result.verdict == "agree"
        assert context.global_seed() is None
        notes = [note for note in result.orders[1].notes if "all calls start from the same state" in note]
        told = f"restored before every call, so that all calls start from the same state: {held}"
        assert notes == ([told] if held else [])
        assert all(note in str(result) for note in notes)
    assert float(x) == 1.5


@slices.parametrized("name", NOISE, slices.every(3))
def test_a_wrong_gradient_of_a_step_that_draws(name: str) -> None:
    x = tf.Variable(1.5, name="x", dtype=tf.float64)
    with pytest.raises(gradcheck.GradientWrongValue):
        gradcheck.assert_step(noisy(x, NOISE[name][0], 1.01))


@slices.parametrized("traced", [True, False], slices.every(2), ids=str)
def test_a_model_with_dropout(traced: bool) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "tanh"), keras.layers.Dropout(0.4)])
    model.add(keras.layers.Dense(1))
    x = tf.constant(np.random.default_rng(1).normal(size=(8, 3)), tf.float32)
    optimizer, variables = keras.optimizers.Adam(0.01), model.trainable_variables

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - 1.0) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    checked = tf.function(step) if traced else step
    for check in (gradcheck.assert_step, gradcheck.explain):
        result = check(checked)
        assert result.verdict == "agree"
        told = "restored before every call, so that all calls start from the same state: 1 variable"
        assert told in result.orders[1].notes


def test_a_function_that_draws_is_explained_as_it_runs_eagerly() -> None:
    x = tf.Variable(1.5, name="x", dtype=tf.float64)
    result = gradcheck.explain(tf.function(noisy(x, NOISE["TensorFlow"][0], 1.0)))
    assert result.verdict == "agree"
    assert "RandomUniform: a tf.function draws different random numbers than eager code" in str(result)


@pytest.mark.parametrize("seed", [None, 4])
def test_what_cannot_be_held_is_named(seed: int | None) -> None:
    x = tf.Variable(1.5, name="x", dtype=tf.float64)
    step = noisy(x, lambda: tf.random.uniform((), 1, 2, tf.float64, seed=4), 1.0)
    if seed is not None:
        tf.random.set_seed(seed)
    named = "it runs RandomUniform, whose state cannot be put back"
    with pytest.raises(ValueError, match=named):
        gradcheck.assert_step(step)
    result = gradcheck.explain(step)
    assert result.orders[1].reasons == ("not deterministic",)
    assert named in str(result)


def test_operations_with_seeds_of_their_own_go_on_where_they_were() -> None:
    """A check of a function that draws nothing leaves the kernels with hidden state alone."""
    x = tf.Variable(1.5, name="x", dtype=tf.float64)

    def drawn() -> float:
        return float(tf.random.uniform((), seed=11))

    plain, checked = [drawn(), drawn()], []
    for check in (gradcheck.assert_step, gradcheck.explain):
        check(noisy(x, NOISE["nobody"][0], 1.0))
        checked.append(drawn())
    assert len({*plain, *checked}) == 4


@tf.custom_gradient
def half_more(divergence: Any) -> Any:
    return tf.identity(divergence), lambda upstream: 1.5 * upstream


def test_the_numbers_that_a_step_draws_are_those_of_its_float64_form() -> None:
    """A form that drew others would differ from call to call, and leave nothing conclusive."""
    keras.utils.set_random_seed(2)
    result = gradcheck.assert_step(autoencoder_step(divergence))
    assert result.orders[1].compared == 170
    with pytest.raises(gradcheck.GradientWrongValue):
        gradcheck.assert_step(autoencoder_step(lambda *code: half_more(divergence(*code))))
