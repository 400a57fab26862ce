"""A forgotten factor is not a clip, whatever norms are logged and whatever clips have no effect."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import GradientMismatch, GradientWrongUpdate, GradientWrongValue, assert_step
from tests import slices
from tests.training.conftest import FORMS

Gradients = list[Any]
AFTERWARDS = "changed after it was taken: "


def after_a_logged_global_norm(gradients: Gradients) -> Gradients:
    tf.linalg.global_norm(gradients)
    return [0.1 * gradient for gradient in gradients]


def after_a_logged_norm(gradients: Gradients) -> Gradients:
    return [0.5 * gradient for gradient in gradients if tf.norm(gradient) is not None]


def after_a_norm_of_numpy(gradients: Gradients) -> Gradients:
    return [0.5 * gradient for gradient in gradients if np.linalg.norm(gradient) > 0]


def after_an_idle_clip(gradients: Gradients) -> Gradients:
    return [0.5 * gradient for gradient in tf.clip_by_global_norm(gradients, 1e3)[0]]


def after_an_idle_clip_by_hand(gradients: Gradients) -> Gradients:
    return [0.5 * gradient * tf.minimum(1.0, 1e3 / tf.cast(tf.norm(gradient), "float32")) for gradient in gradients]


def after_an_idle_clip_by_value(gradients: Gradients) -> Gradients:
    return [0.5 * tf.clip_by_value(gradient, -100.0, 100.0) for gradient in gradients]


def after_an_idle_clip_by_norm(gradients: Gradients) -> Gradients:
    return [0.5 * tf.clip_by_norm(gradient, 100.0) for gradient in gradients]


def after_a_clip(gradients: Gradients) -> Gradients:
    return [2.0 * gradient for gradient in tf.clip_by_global_norm(gradients, 0.1)[0]]


FACTORS = [
    after_a_logged_global_norm,
    after_a_logged_norm,
    after_a_norm_of_numpy,
    after_an_idle_clip,
    after_an_idle_clip_by_hand,
    after_an_idle_clip_by_value,
    after_an_idle_clip_by_norm,
    after_a_clip,
]
ALONE = (False, True)


@pytest.fixture
def z() -> tf.Variable:
    return tf.Variable(2.0, name="z", dtype=tf.float32)


@slices.parametrized(
    ("change", "alone", "traced"),
    product(FACTORS, ALONE, FORMS),
    lambda _: ((change, *form) for change, form in zip(FACTORS[1::2], product(ALONE, FORMS), strict=True)),
    indirect=["traced"],
)
def test_a_factor_beside_it_is_wrong(
    z: tf.Variable, optimizer: Any, traced: Any, change: Callable[[Gradients], Gradients], alone: bool
) -> None:
    other = tf.Variable([1.0, 3.0], name="other")
    sources = [z] if alone else [z, other]
    optimizer.build(sources)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = z**3 if alone else z**3 + tf.reduce_sum(other**2)
        optimizer.apply_gradients(zip(change(tape.gradient(loss, sources)), sources, strict=True))
        return loss

    step = step if change is after_a_norm_of_numpy else traced(step)
    with pytest.raises(GradientWrongValue):
        assert_step(step)


@pytest.mark.parametrize("size", [1, 3])
def test_so_is_one_at_a_learning_rate_by_hand(size: int) -> None:
    weights = tf.Variable(np.linspace(1.0, 2.0, size), name="weights")

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights**3)
        gradient = tape.gradient(loss, weights)
        (clipped,), _ = tf.clip_by_global_norm([gradient], 1e3)
        weights.assign_sub(0.03 * clipped)
        return loss, [gradient]

    with pytest.raises(GradientWrongUpdate):
        assert_step(step, learning_rate=0.1)


def half_of_norm(gradient: Any) -> Any:
    return gradient * tf.minimum(tf.ones((), gradient.dtype), 0.5 / tf.norm(gradient))


CLIPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "by hand": (half_of_norm, "clipped to the norm 0.5 for each variable"),
    "averaged before": (lambda g: tf.clip_by_global_norm([g / 4], 0.5)[0][0], "clipped to the global norm 0.5"),
    "by a tensor": (lambda g: tf.clip_by_norm(g, tf.constant(0.5, g.dtype)), "clipped to the norm 0.5"),
    "by arrays": (lambda g: tf.clip_by_value(g, -0.5 * tf.ones_like(g), 0.5 * tf.ones_like(g)), "clipped by value"),
    "by name": (lambda g: tf.clip_by_value(t=g, clip_value_min=-0.5, clip_value_max=0.5), "clipped by value"),
}


@slices.parametrized(("name", "traced"), product(CLIPS, FORMS), lambda _: zip(CLIPS, cycle(FORMS)), indirect=["traced"])
def test_clips_are_no_factors(optimizer: Any, traced: Any, name: str) -> None:
    clip, note = CLIPS[name]
    weights = tf.Variable([1.0, 2.0, -1.5], name="weights", dtype=tf.float64)
    optimizer.build([weights])

    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(batch) * tf.reduce_sum(weights**3)
        optimizer.apply_gradients([(clip(tape.gradient(loss, weights)), weights)])
        return loss

    result = assert_step(traced(step), tf.ones(4, tf.float64))
    (found,) = result.orders[1].notes
    assert found.startswith(AFTERWARDS + note)


def test_a_clip_of_more_variables_than_are_checked(optimizer: Any) -> None:
    one, other = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    optimizer.build([one, other])

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(one**3) + tf.reduce_sum(other**3)
        clipped, _ = tf.clip_by_global_norm(tape.gradient(loss, [one, other]), 1.0)
        optimizer.apply_gradients(zip(clipped, [one, other], strict=True))
        return loss

    (note,) = assert_step(step, variables=[one]).orders[1].notes
    assert note.startswith(f"{AFTERWARDS}clipped to the global norm")


def test_what_the_tape_gave_and_was_used_as_it_is_was_not_clipped(optimizer: Any) -> None:
    weights = tf.Variable([1.0, 2.0])
    optimizer.build([weights])

    def step() -> Any:
        square = weights**2
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(square + weights)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    with pytest.raises(GradientMismatch, match="computed outside the tape"):
        assert_step(step)
