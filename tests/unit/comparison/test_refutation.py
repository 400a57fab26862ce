"""What refutes a mismatch: a residue of cancelled terms, a row that aliased the function; and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck import check
from gradcheck.comparison.filters import without_aliases, without_residue
from gradcheck.comparison.tables import AGREE, INCONCLUSIVE, MISMATCH, Comparison, code_of
from gradcheck.numerics.difference import Estimate
from gradcheck.result import Kind


def entries(autodiff: float, difference: float, bound: float) -> Comparison:
    def one(value: Any) -> Any:
        return np.array([[value]])

    code = code_of(Kind.WRONG_VALUE)
    return Comparison(one(autodiff), one(difference), one(bound), one(10 * bound), one(MISMATCH), one(code))


def test_a_residue_of_large_terms_is_rounding() -> None:
    table = entries(1e-16, 0.0, 1e-300)
    assert without_residue(table, 1.0, np.ones((1, 1)), 2.0**-53).status.item() == AGREE
    assert without_residue(table, 1e-4, np.ones((1, 1)), 2.0**-53).status.item() == MISMATCH


def test_what_is_not_finite_is_no_residue() -> None:
    assert without_residue(entries(np.nan, 0.0, 1.0), 1.0, np.ones((1, 1)), 2.0**-53).status.item() == MISMATCH


@pytest.mark.parametrize(("finer", "bound", "status"), [(5.0, 0.1, INCONCLUSIVE), (1.05, 0.1, MISMATCH)])
def test_a_finer_row_refutes_only_what_it_contradicts(finer: float, bound: float, status: int) -> None:
    estimate = Estimate(np.array([[finer]]), np.array([[bound]]), np.array([[True]]), np.array([[1.0]]))
    assert without_aliases(entries(2.0, 1.0, 1e-9), estimate).status.item() == status


def test_a_vanishing_imaginary_part_agrees() -> None:
    assert check(lambda x: tf.math.imag(tf.signal.rfft2d(x)), [[1.0, 2.0], [3.0, 5.0]]).verdict == "agree"


def test_a_fast_wave_is_never_a_mismatch() -> None:
    assert check(lambda x: tf.sin(x) + x, [2e7, 0.3]).verdict != "mismatch"


def test_a_wrong_gradient_of_a_small_function_is_still_wrong() -> None:
    @tf.custom_gradient
    def small(x: Any) -> Any:
        return 1e-20 * tf.sin(x), lambda d: d * 2e-20 * tf.cos(x)

    assert check(small, [0.5, 1.0]).verdict == "mismatch"
