"""From tables to findings, a verdict and a resolution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck.autodiff.sources import Source
from gradcheck.comparison.probes import ComparisonTable
from gradcheck.comparison.summary import Names, broken, summarise, undecided
from gradcheck.comparison.tables import AGREE, INCONCLUSIVE, KINK, MISMATCH, Comparison, code_of
from gradcheck.result import Finding, Kind, Reason, Result

NAMES = Names.of((Source("x", np.ones(2), "float64"), Source("z", np.ones((1, 2), complex), "complex128")))


def table(status: list[int], code: list[int], *, searched: bool = False) -> ComparisonTable:
    """One output, coordinates from 0: autodiff 0 against 1, 2, 3, …"""
    count = len(status)
    difference = np.arange(1.0, count + 1)[:, None]
    blank = np.full((count, 1), 0.1)
    filled = Comparison(
        0 * difference, difference, blank / 10, blank, np.array(status)[:, None], np.array(code)[:, None]
    )
    return ComparisonTable(filled, tuple(range(count)), (0,), searched=searched)


def test_places_of_coordinates() -> None:
    assert NAMES.place(1) == ("x", (1,), "")
    assert NAMES.place(2) == ("z (real part)", (0, 0), "")
    assert NAMES.place(5) == ("z (imaginary part)", (0, 1), "")
    assert NAMES.place(None) == ("a combination of inputs", None, "")
    with pytest.raises(IndexError, match="coordinate 6"):
        NAMES.place(6)


def test_one_finding_an_input_and_kind_at_its_worst_element() -> None:
    wrong, missing = code_of(Kind.WRONG_VALUE), code_of(Kind.MISSING)
    result = summarise(1, [table([MISMATCH] * 3, [wrong, wrong, missing])], NAMES)
    assert [(finding.kind, finding.element) for finding in result.findings] == [
        (Kind.MISSING, "z (real part)[0, 0]"),
        (Kind.WRONG_VALUE, "x[1]"),
    ]
    assert result.findings[1].reason.endswith("; 2 entries are wrong, this is the worst")
    assert result.verdict == "mismatch"


def test_an_entry_found_by_search_is_at_least_one() -> None:
    result = summarise(1, [table([MISMATCH], [code_of(Kind.WRONG_VALUE)], searched=True)], NAMES)
    assert "at least this entry is wrong" in result.findings[0].reason


def test_verdict_and_counts() -> None:
    reason = code_of(Reason.STAIRCASE)
    result = summarise(1, [table([AGREE, INCONCLUSIVE, KINK], [0, reason, 0])], NAMES, notes=("said",))
    assert (result.verdict, result.compared, result.inconclusive) == ("inconclusive", 2, 1)
    assert result.reasons == (Reason.STAIRCASE,)
    assert result.notes == ("said", "1 of 3 entries lie at a kink, between the one-sided slopes")
    # Only the entry that agrees says how sharp the differences are.
    assert result.resolution == pytest.approx(0.1)
    assert result.relative_resolution == pytest.approx(0.1)
    assert summarise(1, [table([AGREE], [0])], NAMES).verdict == "agree"


def test_probes_quote_their_resolution_by_the_largest_contribution() -> None:
    plain = table([AGREE], [0])
    probe = ComparisonTable(plain.entries, (None,), (None,), contribution=np.array([[0.01]]))
    assert summarise(1, [probe], NAMES).relative_resolution == pytest.approx(10.0)
    assert summarise(1, [plain], NAMES).relative_resolution == pytest.approx(0.1)


def test_findings_may_be_explained() -> None:
    seen = []

    def explain(finding: Finding, coordinate: int | None) -> Finding:
        seen.append(coordinate)
        return finding

    summarise(1, [table([AGREE, MISMATCH], [0, code_of(Kind.WRONG_VALUE)])], NAMES, explain=explain)
    assert seen == [1]


def test_orders_without_entries() -> None:
    assert undecided(2, Reason.NOT_DETERMINISTIC, "why").verdict == "inconclusive"
    assert broken(1, Kind.RAISES, "x", "boom").findings[0].kind is Kind.RAISES
    both = Result({1: summarise(1, [table([AGREE], [0])], NAMES), 2: undecided(2, Reason.STAIRCASE, "why")})
    assert both.verdict == "inconclusive"
    assert set(both.resolution) == {1, 2}


def test_a_direction_is_named_by_its_elements() -> None:
    assert NAMES.direction(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])) == "x[1]"
    assert NAMES.direction(np.array([-0.5, 0.75, 0.0, 0.0, 0.0, 0.0])) == "-0.5 x[0] + 0.75 x[1]"
    assert NAMES.direction(np.array([0.5, -1.0, 0.0, 0.0, 0.0, 0.0])) == "0.5 x[0] - x[1]"
    assert NAMES.direction(np.full(6, 2.0)).endswith(" + 2 z (imaginary part)[0, 0] + … (6 terms)")


def test_second_order_says_what_was_differentiated() -> None:
    wrong = table([MISMATCH], [code_of(Kind.WRONG_VALUE)])
    way = np.array([[0.0, 0.5, 0.0, 0.0, 0.0, 0.0]])
    (mixed,) = summarise(2, [replace(wrong, columns=(0,), directions=way)], NAMES).findings
    assert mixed.element == "x[0]"
    assert mixed.reason.endswith("; the other derivative goes along 0.5 x[1]")
    (twice,) = summarise(2, [replace(wrong, columns=(None,), directions=way)], NAMES).findings
    assert twice.element == "the direction 0.5 x[1]"
    assert twice.reason.endswith("; both derivatives go along it")
