"""Nearly singular matrices: a kernel is right for a matrix next to the given one, and its gradient is off by as
much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.verdicts import check


def determinant(factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def scaled(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda dy: dy * factor

    return lambda x: tf.linalg.det(tf.reshape(scaled(x), (2, 2)))


@pytest.mark.parametrize("gap", [1e-6, 1e-8, 1e-10])
def test_the_rounding_of_a_determinant_is_excused_up_to_the_condition_of_its_matrix(gap: float) -> None:
    x = np.array([1.0, 1 + gap, 1.0, 1.0])
    assert check(determinant(), x).verdict != "mismatch"
    if gap > 1e-8:  # the cofactors are 1, of which 1e-10 are lost
        assert check(determinant(1.001), x).verdict == "mismatch"


def test_a_well_conditioned_matrix_excuses_nothing() -> None:
    x = np.array([2.0, 0.5, -0.25, 1.5])
    assert check(determinant(), x).resolution[1] < 1e-9
    assert check(determinant(1 + 1e-8), x).verdict == "mismatch"
