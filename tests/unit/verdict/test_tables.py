"""Tables of derivatives: tolerances, the excess of an error, the order of kinds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from gradcheck.numerics.difference import EXCLUSION, Estimate
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.verdict.tables import PARTS, WORD, Comparison, Tolerance, combined, compare, confirmed

AGREE, INCONCLUSIVE, MISMATCH = Verdict


def entries(**changes: object) -> Comparison:
    table = {
        "autodiff": np.array([[1.0, 2.0], [np.nan, 4.0]]),
        "difference": np.array([[1.0, 3.0], [1.0, 9.0]]),
        "bound": np.full((2, 2), 0.01),
        "allowed": np.full((2, 2), 0.1),
        "little": np.zeros((2, 2)),
        "verdict": np.array([[AGREE, MISMATCH], [MISMATCH, INCONCLUSIVE]], WORD),
        "cause": np.array([["", Kind.WRONG_VALUE], [Kind.MISSING, Reason.STAIRCASE]], WORD),
        "at_kink": np.zeros((2, 2), bool),
        "parts": np.zeros((2, 2), PARTS),
    }
    return Comparison(**{**table, **changes})  # type: ignore[arg-type]


def compared(autodiff: list[float], difference: list[float], bound: float, *, conclusive: bool) -> Comparison:
    values = np.array(difference)
    whole = np.full(values.shape, bound)
    estimate = Estimate(values, whole, np.full(values.shape, conclusive), np.ones(values.shape), np.zeros(values.shape))
    return compare(np.array(autodiff), estimate, Tolerance(), np.zeros(values.shape), factor=1.0)


def test_the_design_asks_for_a_factor_of_ten() -> None:
    assert EXCLUSION == 10.0


def test_tolerance_is_absolute_plus_relative() -> None:
    wanted = Tolerance(rtol=0.1, atol=2.0).of(np.array([0.0, -10.0, np.nan, np.inf]))
    np.testing.assert_allclose(wanted, [2.0, 3.0, 2.0, 2.0])
    assert Tolerance(rtol=0.0).given
    assert not Tolerance().given
    assert Tolerance().of(np.ones(2)).tolist() == [0.0, 0.0]


def test_entries_are_found_by_verdict_and_cause() -> None:
    assert entries().where(MISMATCH, Kind.MISSING).tolist() == [[False, False], [True, False]]
    assert entries().where(INCONCLUSIVE, Reason.STAIRCASE).tolist() == [[False, False], [False, True]]
    assert entries().any(INCONCLUSIVE)
    assert not entries(verdict=np.full((2, 2), AGREE, WORD)).any(INCONCLUSIVE)


def test_excess() -> None:
    np.testing.assert_allclose(entries().excess(), [[0.0, 10.0], [np.inf, 0.0]])


def test_mismatches_are_excused_and_nothing_else() -> None:
    found = entries().excused(np.array([[True, True], [False, True]]), Reason.JUMP)
    assert found.verdict.tolist() == [[AGREE, INCONCLUSIVE], [MISMATCH, INCONCLUSIVE]]
    assert found.cause.tolist() == [["", Reason.JUMP], [Kind.MISSING, Reason.STAIRCASE]]


def test_the_longest_words_fit() -> None:
    for verdict, cause in product(Verdict, (*Kind, *Reason)):
        one = Comparison.agreeing(*np.zeros((4, 1))).marked(np.ones(1, bool), verdict, cause)
        assert (one.verdict.tolist(), one.cause.tolist()) == ([verdict], [cause])
        assert (one.verdict.dtype, one.cause.dtype) == (WORD, WORD)
        assert one.where(verdict, cause).all(), (verdict, cause)
        assert not any(one.where(other).any() for other in Verdict if other != verdict), (verdict, cause)


def test_all_entries_agree_until_they_are_marked() -> None:
    table = compared([1.0, 2.0], [1.0, 3.0], 1e-9, conclusive=True)
    assert table.verdict.tolist() == [AGREE, MISMATCH]
    assert table.cause.tolist() == ["", Kind.WRONG_VALUE]
    agreed = table.marked(np.array([False, True]), AGREE)
    assert (agreed.verdict.tolist(), agreed.cause.tolist()) == ([AGREE, AGREE], ["", ""])


def test_a_given_tolerance_that_is_finer_than_the_bound_is_inconclusive() -> None:
    estimate = Estimate(np.array([1.0, 0.0]), np.array([1e-3, 1e-3]), np.ones(2, bool), np.ones(2), np.zeros(2))
    table = compare(np.array([1.0, 0.0]), estimate, Tolerance(rtol=1e-6), np.zeros(2), factor=1.0)
    assert table.verdict.tolist() == [INCONCLUSIVE, AGREE], "zero within its bound needs no relative resolution"
    assert table.cause.tolist() == [Reason.TOLERANCE, ""]
    vague = replace(estimate, conclusive=np.zeros(2, bool))
    table = compare(np.array([1.0, 0.0]), vague, Tolerance(rtol=1e-6), np.zeros(2), factor=1.0)
    assert table.cause.tolist() == [Reason.ILL_CONDITIONED] * 2
    for tolerance, verdict in (
        (Tolerance(atol=1e-3), INCONCLUSIVE),
        (Tolerance(rtol=1e-6, atol=1e-3), INCONCLUSIVE),
        (Tolerance(atol=1e-1), AGREE),
    ):
        table = compare(np.array([1.0, 0.0]), estimate, tolerance, np.zeros(2), factor=1.0)
        assert table.verdict.tolist() == [verdict, verdict], "but an absolute one"


def test_places_stay_with_the_first() -> None:
    placed = replace(entries(), coordinates=(3, 4), outputs=(None, 1), alone="one")
    assert confirmed(placed, entries()).coordinates == (3, 4)
    turned = combined(np.transpose, placed)
    np.testing.assert_array_equal(turned.difference, [[1.0, 1.0], [3.0, 9.0]])
    assert turned.alone == "one"


def test_a_rescued_entry_carries_the_difference_that_rescued_it() -> None:
    vague = compared([1.0], [0.0], np.inf, conclusive=False)
    precise = compared([1.0], [1.0], 1e-9, conclusive=True)
    table = confirmed(vague, precise)
    assert table.verdict.tolist() == [AGREE]
    assert (table.difference[0], table.bound[0]) == (1.0, 1e-9)
    assert table.allowed[0] == precise.allowed[0]


def test_a_mismatch_needs_both_tableaux() -> None:
    wrong = compared([1.0], [2.0], 1e-9, conclusive=True)
    right = compared([1.0], [1.0], 1e-9, conclusive=True)
    vague = compared([1.0], [2.0], 1e-9, conclusive=False)
    assert confirmed(wrong, wrong).verdict.tolist() == [MISMATCH]
    assert confirmed(wrong, right).verdict.tolist() == [AGREE]
    assert confirmed(wrong, vague).where(INCONCLUSIVE, Reason.ILL_CONDITIONED).all()
    assert confirmed(right, wrong).verdict.tolist() == [AGREE]


def test_wrong_values_get_their_names() -> None:
    wrong = compared([1.0, np.nan, 0.0], [2.0, 2.0, 2.0], 1e-9, conclusive=True)
    named = wrong.named(np.array([False, False, True]))
    assert named.cause.tolist() == [Kind.WRONG_VALUE, Kind.NON_FINITE, Kind.MISSING]
    assert wrong.named().cause.tolist() == [Kind.WRONG_VALUE, Kind.NON_FINITE, Kind.WRONG_VALUE]
