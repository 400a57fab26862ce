"""Watching what somebody's code asks its tapes."""

from __future__ import annotations

import pytest
import tensorflow as tf

from gradcheck.autodiff.tape_uses import METHODS, tape_uses


def test_calls_are_named_and_a_lost_second_derivative_is_noticed() -> None:
    x = tf.constant(2.0)
    with tape_uses() as uses:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x**3
        dy = tape.gradient(target=y, sources=x)
        with tf.GradientTape() as late:
            late.watch(x)
        assert late.gradient(dy, x) is None
    assert uses.names == ["gradient", "gradient"]
    assert uses.second_lost


def test_a_second_derivative_that_was_recorded() -> None:
    x = tf.constant([2.0])
    with tape_uses() as uses, tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        dy = inner.gradient(y, x)
    assert not uses.second_lost
    with tape_uses() as uses:
        outer.jacobian(dy, x)
    assert uses.names[0] == "jacobian"
    assert not uses.second_lost


def test_the_tape_is_put_back_whatever_happens() -> None:
    before = [getattr(tf.GradientTape, name) for name in METHODS]
    with pytest.raises(KeyError), tape_uses():
        raise KeyError
    assert [getattr(tf.GradientTape, name) for name in METHODS] == before
