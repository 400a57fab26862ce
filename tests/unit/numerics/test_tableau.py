from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gradcheck.numerics.sampling import CONFIRM, FIRST, Stencil
from gradcheck.numerics.tableau import LEAST, choose, orderly, weights


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


STENCILS = pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])


def column(stencil: Stencil, *series: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Differences whose error is the series in h**2, without rounding: (count, 1, 1)."""
    return np.polynomial.Polynomial(series)(stencil.steps**2).reshape(-1, 1, 1)


@STENCILS
def test_weights_sum_to_one_and_eliminate_even_powers(stencil: Stencil) -> None:
    table = weights(stencil)
    for c in range(len(table)):
        np.testing.assert_allclose(table[c, c:].sum(axis=1), 1.0)
        for power in range(1, c + 1):
            moments = table[c, c:] @ stencil.steps ** (2 * power)
            np.testing.assert_allclose(moments, 0.0, atol=1e-15)


@STENCILS
def test_entry_of_a_polynomial_is_exact(stencil: Stencil) -> None:
    values = column(stencil, 3.0, 1.0, -2.0)
    resolved = np.ones((stencil.count, 1), dtype=bool)
    value, bound, _, _ = choose(values, 1e-14 / stencil.steps[:, None, None], resolved, stencil)
    assert abs(value[0, 0] - 3.0) <= bound[0, 0] < 1e-10


@STENCILS
def test_bound_covers_a_series_with_vanishing_coefficients(stencil: Stencil) -> None:
    rounding = 1e-16 / stencil.steps[:, None, None]
    resolved = np.ones((stencil.count, 1), dtype=bool)
    for series in ([1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 0.0, 1.0]):
        value, bound, _, _ = choose(column(stencil, *series), rounding, resolved, stencil)
        assert abs(value[0, 0] - 1.0) <= bound[0, 0]


@STENCILS
def test_a_step_over_a_pole_ends_the_reach(stencil: Stencil) -> None:
    values = (1.0 / (1.0 - (stencil.steps / 0.3) ** 2)).reshape(-1, 1, 1)
    rounding = 1e-16 / stencil.steps[:, None, None]
    reach = orderly(values, rounding, np.ones((stencil.count, 1, 1), dtype=bool), stencil)[:, 0, 0]
    np.testing.assert_array_equal(reach[stencil.steps > 0.3], False)
    np.testing.assert_array_equal(reach[stencil.steps < 0.3 / stencil.ratio], True)


def test_an_incompatible_finer_difference_disqualifies_what_is_wider() -> None:
    values, rounding = column(FIRST, 1.0), 1e-12 / FIRST.steps[:, None, None]
    values[5:] += 0.5
    value, bound, widest, _ = choose(values, rounding, np.ones((FIRST.count, 1), dtype=bool), FIRST)
    assert abs(value[0, 0] - 1.5) <= bound[0, 0]
    assert widest[0, 0] >= 5


def test_unresolved_steps_neither_count_nor_contradict() -> None:
    values, rounding = column(FIRST, 1.0, 0.1), 1e-9 / FIRST.steps[:, None, None]
    resolved = np.ones((FIRST.count, 1), dtype=bool)
    resolved[9:] = False
    values[9:] = 0.0
    value, bound, _, _ = choose(values, rounding, resolved, FIRST)
    assert abs(value[0, 0] - 1.0) <= bound[0, 0] < 1e-5


def test_a_hole_near_the_point_leaves_nothing() -> None:
    values, rounding = column(FIRST, 1.0), 1e-12 / FIRST.steps[:, None, None]
    values[11] = np.nan
    value, bound, _, _ = choose(values, rounding, np.ones((FIRST.count, 1), dtype=bool), FIRST)
    assert np.isnan(value[0, 0])
    assert np.isinf(bound[0, 0])
    assert weights(FIRST).shape[0] > LEAST


@STENCILS
def test_the_sums_of_an_entry_round_though_the_differences_do_not(stencil: Stencil) -> None:
    squares, resolved = stencil.steps**2, np.ones((stencil.count, 1), dtype=bool)
    for limit in np.random.default_rng(0).uniform(1.0, 2.0, 50):
        values = (limit + 0.3 * squares + 0.1 * squares**2)[:, None, None]
        value, bound, _, _ = choose(values, np.zeros_like(values), resolved, stencil)
        assert abs(value[0, 0] - limit) <= bound[0, 0]
