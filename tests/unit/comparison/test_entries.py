"""Tables of derivatives: tolerances, the excess of an error, the order of kinds."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck.comparison.first_order import settle
from gradcheck.comparison.tables import (
    AGREE,
    EXCLUSION,
    INCONCLUSIVE,
    KINDS,
    KINK,
    MISMATCH,
    Comparison,
    Tolerance,
    code_of,
    confirmed,
    stacked,
)
from gradcheck.numerics.difference import Estimate
from gradcheck.result import Kind, Reason


def entries(**changes: object) -> Comparison:
    table = {
        "autodiff": np.array([[1.0, 2.0], [np.nan, 4.0]]),
        "difference": np.array([[1.0, 3.0], [1.0, 9.0]]),
        "bound": np.full((2, 2), 0.01),
        "allowed": np.full((2, 2), 0.1),
        "status": np.array([[AGREE, MISMATCH], [MISMATCH, INCONCLUSIVE]]),
        "code": np.array([[0, code_of(Kind.WRONG_VALUE)], [code_of(Kind.MISSING), code_of(Reason.STAIRCASE)]]),
    }
    return Comparison(**{**table, **changes})  # type: ignore[arg-type]


def settled(autodiff: list[float], difference: list[float], bound: float, *, conclusive: bool) -> Comparison:
    values = np.array(difference)
    whole = np.full(values.shape, bound)
    estimate = Estimate(values, whole, np.full(values.shape, conclusive), np.ones(values.shape))
    return settle(np.array(autodiff), estimate, Tolerance(), np.zeros(values.shape), factor=1.0)


def test_the_design_asks_for_a_factor_of_ten() -> None:
    assert EXCLUSION == 10.0


def test_tolerance_is_absolute_plus_relative() -> None:
    wanted = Tolerance(rtol=0.1, atol=2.0).of(np.array([0.0, -10.0, np.nan, np.inf]))
    np.testing.assert_allclose(wanted, [2.0, 3.0, 2.0, 2.0])
    assert Tolerance(rtol=0.0).given
    assert not Tolerance().given
    assert Tolerance().of(np.ones(2)).tolist() == [0.0, 0.0]


def test_kinds_come_with_the_most_severe_first() -> None:
    assert entries().kinds() == (Kind.MISSING, Kind.WRONG_VALUE)
    assert entries().reasons() == (Reason.STAIRCASE,)
    assert entries().any(INCONCLUSIVE)
    assert not entries().any(KINK)


def test_excess() -> None:
    np.testing.assert_allclose(entries().excess(), [[0.0, 10.0], [np.inf, 0.0]])


def test_stacked_flattens_all_tables() -> None:
    whole = stacked([entries(), entries()])
    assert whole.status.tolist() == [AGREE, MISMATCH, MISMATCH, INCONCLUSIVE] * 2


@pytest.mark.parametrize("value", [*Kind, *Reason])
def test_codes_are_places_in_the_order_of_severity(value: Kind | Reason) -> None:
    assert list(type(value))[code_of(value)] is value


def test_a_rescued_entry_carries_the_difference_that_rescued_it() -> None:
    vague = settled([1.0], [0.0], np.inf, conclusive=False)
    sharp = settled([1.0], [1.0], 1e-9, conclusive=True)
    table = confirmed(vague, sharp)
    assert table.status.tolist() == [AGREE]
    assert (table.difference[0], table.bound[0]) == (1.0, 1e-9)
    assert table.allowed[0] == sharp.allowed[0]


def test_a_mismatch_needs_both_tableaux() -> None:
    wrong = settled([1.0], [2.0], 1e-9, conclusive=True)
    right = settled([1.0], [1.0], 1e-9, conclusive=True)
    vague = settled([1.0], [2.0], 1e-9, conclusive=False)
    assert confirmed(wrong, wrong).status.tolist() == [MISMATCH]
    assert confirmed(wrong, right).status.tolist() == [AGREE]
    assert confirmed(wrong, vague).reasons() == (Reason.ILL_CONDITIONED,)
    assert confirmed(right, wrong).status.tolist() == [AGREE]


def test_wrong_values_get_their_names() -> None:
    wrong = settled([1.0, np.nan, 0.0], [2.0, 2.0, 2.0], 1e-9, conclusive=True)
    named = wrong.named(np.array([False, False, True]))
    assert [KINDS[code] for code in named.code] == [Kind.WRONG_VALUE, Kind.NON_FINITE, Kind.MISSING]
    assert wrong.named().kinds() == (Kind.NON_FINITE, Kind.WRONG_VALUE)
