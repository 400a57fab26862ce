"""Parts of a vector, unit vectors and a direction, that gradients are multiplied with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gradcheck.autodiff.left_vectors import LeftVectors


def test_the_products_and_sums_are_those_of_the_dense_vectors() -> None:
    rng = np.random.default_rng(0)
    vector, direction, weights = rng.normal(size=(3, 10))
    left, gradients = LeftVectors(vector, direction, 4, [7, 2]), rng.normal(size=(3, 10))
    parts = [np.where(np.arange(10) // 4 == part, vector, 0.0) for part in range(3)]
    dense = np.stack([*np.eye(10)[[7, 2]], *parts, direction])
    assert len(left) == len(dense)
    np.testing.assert_allclose(left.products(gradients), gradients @ dense.T, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(left.over(np.add, lambda row, at: row**2 * weights[at]), dense**2 @ weights, rtol=1e-13)
    farthest = left.over(np.maximum, lambda row, at: np.abs(row * weights[at]))
    np.testing.assert_array_equal(farthest, np.max(np.abs(dense * weights), axis=1))


def test_what_is_not_finite_stays_in_its_part() -> None:
    left = LeftVectors(np.ones(6), np.ones(6), 2)
    products = left.products(np.array([[1.0, 2.0, np.nan, 4.0, 5.0, 6.0]]))
    np.testing.assert_array_equal(products, [[3.0, np.nan, 11.0, np.nan]])


@pytest.mark.parametrize("ends", [[10], [3, 10], [4, 8, 10], [1, 2, 9, 9, 10], [5, 6, 7, 10]])
def test_each_source_begins_with_a_part_of_its_own(ends: list[int]) -> None:
    rng = np.random.default_rng(1)
    vector, direction, gradient = rng.normal(size=(3, 10))
    sources = [slice(*pair) for pair in pairwise([0, *ends])]
    left = LeftVectors(vector, direction, 4, [7, 2], sources)
    parts = [slice(first, min(first + 4, one.stop)) for one in sources for first in range(one.start, one.stop, 4)]
    dense = np.stack([*np.eye(10)[[7, 2]], *(np.where(within(part), vector, 0.0) for part in parts), direction])
    assert len(left) == len(dense)
    assert [
        sources[owner].start <= part.start < sources[owner].stop for owner, part in zip(left.owners, parts, strict=True)
    ]
    np.testing.assert_allclose(left.of_pieces([gradient[one] for one in sources]), dense @ gradient, rtol=1e-13)
    np.testing.assert_allclose(left.products(gradient[None, :])[0], dense @ gradient, rtol=1e-13)
    sums = left.over(np.add, lambda row, at: row * gradient[at])
    np.testing.assert_allclose(sums, dense @ gradient, rtol=1e-13, atol=1e-14)


def within(part: slice) -> np.ndarray:
    return (np.arange(10) >= part.start) & (np.arange(10) < part.stop)
