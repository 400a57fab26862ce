"""Probes and bisection on plain matrices: what is caught, what is located, and how often an error hides by chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.probing import ProbeTests, cotangents, locate, locate_entry, probe_directions, probe_tests
from tests import slices

Array = np.ndarray[Any, Any]

K = 8


class Oracle:
    """Differences of a true Jacobian within a bound, pullbacks of a wrong one, and the number of calls of each."""

    def __init__(self, true: Array, wrong: Array, rng: np.random.Generator) -> None:
        self.true, self.wrong, self.rng = true, wrong, rng
        self.differences = self.pullbacks = 0

    def difference(self, u: Array) -> tuple[Array, Array]:
        self.differences += 1
        exact = np.einsum("ij,j->i", self.true, u)
        bound = np.full(exact.shape, 1e-10 * np.abs(exact).max(initial=1e-300))
        return np.asarray(exact + self.rng.uniform(-1.0, 1.0, exact.shape) * bound), bound

    def pullback(self, w: Array) -> Array:
        self.pullbacks += 1
        return np.asarray(np.einsum("ij,i->j", self.wrong, w))


def identity_like(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(np.eye(n) + 0.01 / np.sqrt(n) * rng.standard_normal((n, n)))


@pytest.mark.sliced
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_one_wrong_entry_is_always_caught_and_located(n: int) -> None:
    true = identity_like(np.random.default_rng(n), n)
    wrong = true.copy()
    for seed in slices.sliced(range(100), slices.every(5)):
        rng = np.random.default_rng([n, seed])
        row, column = rng.integers(n, size=2)
        wrong[row, column] += 1.0
        oracle = Oracle(true, wrong, rng)
        directions, weights = probe_directions(rng, K, np.ones(n)), cotangents(rng, K, np.ones(n))
        values, bounds = directions @ true.T, np.full((K, n), 1e-10)
        pulled = weights @ true
        right = probe_tests(values, pulled, directions, weights, bounds)
        assert not wrong_tests(right).any()
        assert np.max(right.bound / right.contribution) < 1e-6
        pulled[:, column] += weights[:, row]
        tests = probe_tests(values, pulled, directions, weights, bounds)
        assert wrong_tests(tests).all()
        i, j = np.unravel_index(np.argmax(np.abs(tests.residual) / tests.bound), tests.residual.shape)
        oracle.differences = 0
        found = locate_entry(oracle.difference, oracle.pullback, directions[j], weights[i], rng=rng)
        assert found == (row, column)
        budget = int(np.ceil(np.log2(n))) + 3
        assert oracle.differences <= budget
        assert oracle.pullbacks <= budget
        wrong[row, column] = true[row, column]


def wrong_tests(tests: ProbeTests) -> np.ndarray:
    """Where the residual is more than 10 times its bound, or NaN."""
    return np.asarray(~(np.abs(tests.residual) <= 10.0 * tests.bound))


def test_residual_is_bounded_below_by_a_single_error() -> None:
    rng = np.random.default_rng(3)
    true = rng.standard_normal((6, 4))
    wrong = true.copy()
    wrong[2, 1] += 0.5
    u, w = probe_directions(rng, K, np.ones(4)), cotangents(rng, K, np.ones(6))
    tests = probe_tests(u @ true.T, w @ wrong, u, w)
    np.testing.assert_allclose(tests.residual, -0.5 * np.outer(w[:, 2], u[:, 1]), atol=1e-14)
    assert wrong_tests(tests).all()


def test_contribution_is_the_largest_product_and_bounds_add_up() -> None:
    tests = probe_tests(
        np.array([[3.0, -5.0]]), np.array([[2.0, 0.5]]), np.array([[1.0, 4.0]]), np.array([[1.0, 2.0]]), 0.25
    )
    np.testing.assert_allclose(tests.residual, [[-7.0 - 4.0]])
    np.testing.assert_allclose(tests.contribution, [[10.0]])
    np.testing.assert_allclose(tests.bound, [[0.75]], rtol=1e-12)
    blank = probe_tests(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2)))
    assert not wrong_tests(blank).any()
    assert not blank.contribution.any()


def test_a_residual_that_is_not_a_number_is_wrong() -> None:
    tests = probe_tests(np.ones((1, 2)), np.array([[np.nan, 1.0]]), np.ones((1, 2)), np.ones((1, 2)), 1.0)
    assert wrong_tests(tests).all()


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_chance_hides_an_error_less_often_than_promised(probes: int) -> None:
    """Errors made to cancel: a rank-one error e f^T with e = f = (1, -1, 1, -1, …), which plain signs often miss."""
    rng = np.random.default_rng(4)
    n, trials = 8, 2000
    error = np.outer(*[np.resize([1.0, -1.0], n)] * 2)
    passed = 0
    for _ in range(trials):
        u, w = probe_directions(rng, probes, np.ones(n)), cotangents(rng, probes, np.ones(n))
        tests = probe_tests(np.zeros((probes, n)), w @ error, u, w, 1e-6)
        passed += not wrong_tests(tests).any()
    assert passed / trials <= 2.0 ** (1 - probes)
    assert passed / trials <= 0.01


def test_coordinates_of_very_different_magnitude_are_located() -> None:
    for seed in range(50):
        rng = np.random.default_rng([5, seed])
        n = 64
        scale = 10.0 ** rng.uniform(-6, 6, n)
        true = identity_like(rng, n) / scale
        row, column = rng.integers(n, size=2)
        wrong = true.copy()
        wrong[row, column] += 1.0 / scale[column]
        oracle = Oracle(true, wrong, rng)
        direction, weight = probe_directions(rng, 1, scale)[0], cotangents(rng, 1, np.ones(n))[0]
        assert locate_entry(oracle.difference, oracle.pullback, direction, weight, rng=rng) == (row, column)


def test_one_of_several_wrong_entries_is_found() -> None:
    for seed in range(100):
        rng = np.random.default_rng([6, seed])
        true = identity_like(rng, 50)
        rows, columns = rng.choice(50, 5, replace=False), rng.choice(50, 5, replace=False)
        wrong = true.copy()
        wrong[rows, columns] += rng.choice([-1.0, 1.0], 5)
        oracle = Oracle(true, wrong, rng)
        direction, weight = probe_directions(rng, 1, np.ones(50))[0], cotangents(rng, 1, np.ones(50))[0]
        found = locate_entry(oracle.difference, oracle.pullback, direction, weight, rng=rng)
        assert found in set(zip(rows.tolist(), columns.tolist(), strict=True))


def test_locate_recovers_from_errors_that_cancel_in_a_half() -> None:
    """Coordinates 1 and 2 cancel exactly; coordinate 5 is wrong as well, but only seen beside coordinate 1 or 2."""
    errors = np.array([0.0, 4.0, -4.0, 0.0, 0.0, 2.0, 0.0, 0.0])
    asked = []

    def score(mask: Array) -> float:
        asked.append(mask.copy())
        return float(errors[mask].sum())

    assert locate(score, 8, rng=np.random.default_rng(0)) == 5
    assert len(asked) <= 5


def test_locate_repeats_with_other_halves_where_the_bisection_ends_on_nothing() -> None:
    """The score of the whole comes from a pair that only scores together: no coordinate is wrong alone."""
    pair = np.array([False, True, False, True])
    assert locate(lambda mask: 2.0 * bool((mask & pair).sum() == 2), 4, rng=np.random.default_rng(1)) is None
    hidden = [9.0, 0.0, 0.0]

    def flaky(mask: Array) -> float:
        return hidden.pop() if mask.sum() < 4 and len(hidden) > 1 else 2.0 * bool(mask[2])

    assert locate(flaky, 4, rng=np.random.default_rng(2)) == 2


def test_nothing_is_located_where_nothing_is_wrong() -> None:
    rng = np.random.default_rng(8)
    true = identity_like(rng, 20)
    oracle = Oracle(true, true, rng)
    u, w = probe_directions(rng, 1, np.ones(20))[0], cotangents(rng, 1, np.ones(20))[0]
    assert locate_entry(oracle.difference, oracle.pullback, u, w, rng=rng) is None
    assert locate(lambda mask: 0.0, 0, rng=rng) is None


def test_not_a_number_is_located() -> None:
    rng = np.random.default_rng(9)
    wrong = np.eye(16)
    wrong[11, 3] = np.nan

    def pullback(w: Array) -> Array:
        return np.array([np.nan if i == 3 and w[11] else w[i] for i in range(16)])

    oracle = Oracle(np.eye(16), wrong, rng)
    u, w = probe_directions(rng, 1, np.ones(16))[0], cotangents(rng, 1, np.ones(16))[0]
    assert locate_entry(oracle.difference, pullback, u, w, rng=rng) == (11, 3)


def test_sums_of_a_million_products_are_right_within_their_bound() -> None:
    for seed in range(3):
        row, direction = np.random.default_rng([10, seed]).uniform(0.5, 1.0, (2, 10**6))
        exact = np.array([[math.fsum((row * direction).tolist())]])
        tests = probe_tests(exact, row[None], direction[None], np.ones((1, 1)))
        assert abs(tests.residual[0, 0]) <= tests.bound[0, 0]


def test_errors_that_pass_in_one_half_and_in_the_other_are_located_all_the_same() -> None:
    """Two errors may cancel in one half down to too little to show, and the third be too small in the other half."""
    found = 0
    for seed in range(200):
        rng, errors = np.random.default_rng([11, seed]), np.zeros(64)
        errors[rng.permutation(64)[:3]] = [1.5, -1.0, 0.7]
        found += locate(lambda mask, errors=errors: float(errors[mask].sum()), 64, rng=rng) is not None  # type: ignore[misc]
    assert found >= 197
