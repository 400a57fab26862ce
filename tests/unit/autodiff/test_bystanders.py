"""Variables and generators are put back, whatever happens inside."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.state import variables_restored


def drawn() -> list[float]:
    generator = tf.random.get_global_generator()
    return [random.random(), float(np.random.uniform()), float(tf.random.normal(())), float(generator.normal(()))]


def test_the_next_numbers_are_those_that_would_have_come() -> None:
    tf.random.set_seed(3)
    tf.random.get_global_generator()
    with variables_restored():
        first = drawn()
    with variables_restored():
        assert drawn() == first
    assert drawn() == first
    assert drawn() != first


def test_kernels_with_a_seed_of_their_own_go_on_if_nothing_else_was_drawn() -> None:
    tf.random.set_seed(3)
    first = [float(tf.random.normal((), seed=7)) for _ in range(3)]
    tf.random.set_seed(3)
    assert float(tf.random.normal((), seed=7)) == first[0]
    with variables_restored():
        pass
    assert float(tf.random.normal((), seed=7)) == first[1]


def test_variables() -> None:
    variable = tf.Variable([1.0, 2.0])

    def interrupted() -> None:
        with variables_restored([variable]):
            variable.assign([3.0, 4.0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert variable.numpy().tolist() == [1.0, 2.0]
