"""From tables to findings, a verdict and a resolution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.sources import Source
from gradcheck.result import ESTIMATE, Finding, Kind, Reason, Result, Verdict
from gradcheck.verdict.failure import failure
from gradcheck.verdict.resolution import MARGIN
from gradcheck.verdict.summary import broken, direction_text, element_of, summarise, undecided
from gradcheck.verdict.tables import GRANTED, WORD, Comparison, Tolerance
from tests.verdicts import check

SOURCES = Source("x", np.ones(2), "float64"), Source("z", np.ones((1, 2), complex), "complex128")
AGREE, INCONCLUSIVE, MISMATCH = Verdict


def table(verdict: list[Verdict], cause: list[str], *, searched: bool = False) -> Comparison:
    """One output, coordinates from 0: autodiff the same as, or 0 against, 1, 2, 3, …"""
    count = len(verdict)
    difference = np.arange(1.0, count + 1)[:, None]
    blank = np.full((count, 1), 0.1)
    agrees = np.array([[one is AGREE] for one in verdict])
    whole = Comparison.agreeing(agrees * difference, difference, blank / 10, blank)
    whole = replace(whole, coordinates=tuple(range(count)), outputs=(0,), searched=searched)
    return replace(whole, verdict=np.array(verdict, WORD)[:, None], cause=np.array(cause, WORD)[:, None])


def test_places_of_coordinates() -> None:
    assert element_of(SOURCES, 1) == ("x", (1,), "")
    assert element_of(SOURCES, 2) == ("z (real part)", (0, 0), "")
    assert element_of(SOURCES, 5) == ("z (imaginary part)", (0, 1), "")
    assert element_of(SOURCES, None) == ("a combination of inputs", None, "")
    with pytest.raises(IndexError, match="coordinate 6"):
        element_of(SOURCES, 6)


def test_one_finding_an_input_and_kind_at_its_worst_element() -> None:
    wrong, missing = Kind.WRONG_VALUE, Kind.MISSING
    result = summarise(1, [table([MISMATCH] * 3, [wrong, wrong, missing])], SOURCES)
    assert [(finding.kind, finding.element) for finding in result.findings] == [
        (Kind.MISSING, "z (real part)[0, 0]"),
        (Kind.WRONG_VALUE, "x[1]"),
    ]
    assert result.findings[1].reason.endswith("; 2 entries are wrong, this is the worst relative to its error bound")
    assert result.verdict == "mismatch"


def test_an_entry_found_by_search_is_at_least_one() -> None:
    result = summarise(1, [table([MISMATCH], [Kind.WRONG_VALUE], searched=True)], SOURCES)
    assert "at least this entry is wrong" in result.findings[0].reason


def test_verdict_and_counts() -> None:
    kinked = replace(table([AGREE, INCONCLUSIVE, AGREE], ["", Reason.STAIRCASE, ""]), at_kink=np.eye(3, 1, -2) > 0)
    result = summarise(1, [kinked], SOURCES, notes=("said",))
    assert (result.verdict, result.compared, result.inconclusive) == ("inconclusive", 2, 1)
    assert result.reasons == (Reason.STAIRCASE,)
    assert result.notes == ("said", "1 of 3 entries lie at a kink, between the one-sided slopes")
    # Only the entry that agrees shows how precise the estimates are.
    assert result.resolution == pytest.approx(MARGIN * 0.1)
    assert result.relative_resolution == pytest.approx(MARGIN * 0.1)
    assert summarise(1, [table([AGREE], [""])], SOURCES).verdict == "agree"


def test_probes_quote_their_resolution_by_the_largest_contribution() -> None:
    plain = table([AGREE], [""])
    probe = replace(plain, coordinates=(None,), outputs=(None,), contribution=np.array([[0.01]]))
    assert summarise(1, [probe], SOURCES).relative_resolution == pytest.approx(4 * GRANTED * MARGIN * 10.0)
    assert summarise(1, [plain], SOURCES).relative_resolution == pytest.approx(MARGIN * 0.1)


def test_findings_may_be_explained() -> None:
    seen = []

    def explain(finding: Finding, coordinate: int | None) -> Finding:
        seen.append(coordinate)
        return finding

    summarise(1, [table([AGREE, MISMATCH], ["", Kind.WRONG_VALUE])], SOURCES, explain=explain)
    assert seen == [1]


def test_orders_without_entries() -> None:
    assert undecided(2, Reason.NOT_DETERMINISTIC, "why").verdict == "inconclusive"
    assert broken(1, Kind.RAISES, "x", "boom").findings[0].kind is Kind.RAISES
    both = Result({1: summarise(1, [table([AGREE], [""])], SOURCES), 2: undecided(2, Reason.STAIRCASE, "why")})
    assert both.verdict == "inconclusive"
    assert set(both.resolution) == {1, 2}


def test_a_direction_is_named_by_its_elements() -> None:
    assert direction_text(SOURCES, np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])) == "x[1]"
    assert direction_text(SOURCES, np.array([-0.5, 0.75, 0.0, 0.0, 0.0, 0.0])) == "-0.5 x[0] + 0.75 x[1]"
    assert direction_text(SOURCES, np.array([0.5, -1.0, 0.0, 0.0, 0.0, 0.0])) == "0.5 x[0] - x[1]"
    assert direction_text(SOURCES, np.full(6, 2.0)).endswith(" + 2 z (imaginary part)[0, 0] + … (6 terms)")


def test_second_order_says_what_was_differentiated() -> None:
    wrong = table([MISMATCH], [Kind.WRONG_VALUE])
    way = np.array([[0.0, 0.5, 0.0, 0.0, 0.0, 0.0]])
    (mixed,) = summarise(2, [replace(wrong, coordinates=(0,), directions=way)], SOURCES).findings
    assert mixed.element == "x[0]"
    assert mixed.reason.endswith("; the other derivative is taken along 0.5 x[1]")
    (twice,) = summarise(2, [replace(wrong, coordinates=(None,), directions=way)], SOURCES).findings
    assert twice.element == "the direction 0.5 x[1]"
    assert twice.reason.endswith("; both derivatives are taken along it")


def test_the_estimate_that_contradicts_the_others_is_named() -> None:
    alone = replace(table([MISMATCH], [Kind.WRONG_VALUE]), alone="autodiff of autodiff")
    result = summarise(2, [table([AGREE], [""]), alone], SOURCES)
    assert result.notes == ("the one that disagrees with the other two estimates: autodiff of autodiff",)
    assert result.findings[0].reason.endswith(
        "; the one that disagrees with the other two estimates: autodiff of autodiff"
    )


def test_failing_probes_are_told_by_the_wrong_entry_that_was_found_behind_them() -> None:
    probes = table([AGREE, INCONCLUSIVE], ["", Reason.ILL_CONDITIONED])
    probes = replace(probes, coordinates=(None, None), outputs=(None,), behind=30)
    wrong = table([MISMATCH], [Kind.WRONG_VALUE], searched=True)
    result = summarise(1, [probes, wrong], SOURCES)
    assert (result.verdict, result.compared, result.inconclusive, result.reasons) == ("mismatch", 30, 0, ())
    assert result.resolution == pytest.approx(4 * GRANTED * MARGIN * 0.1), "a failing probe has none"
    for comparisons in ([probes], [probes, table([AGREE], [""], searched=True)]):
        result = summarise(1, comparisons, SOURCES)
        assert (result.verdict, result.inconclusive, result.reasons) == ("inconclusive", 1, (Reason.ILL_CONDITIONED,))


def test_a_tolerance_that_is_too_fine_is_told_with_what_would_be_seen() -> None:
    fine = table([INCONCLUSIVE, AGREE], [Reason.TOLERANCE, ""])
    result = summarise(1, [fine], SOURCES, tolerance=Tolerance(rtol=0.01, atol=0.002))
    assert result.reasons == (Reason.TOLERANCE,)
    assert result.notes == (
        "with rtol=0.01 and atol=0.002, errors of 1.2e-02 have to be detected, but this check detects only 1.0e-01 or "
        "more; use a larger tolerance",
    )
    probes = replace(fine, coordinates=(None, None), outputs=(None,), behind=30)
    *_, note = summarise(1, [probes], SOURCES, tolerance=Tolerance(rtol=0.01)).notes
    assert note == (
        "with rtol=0.01, smaller errors than 1.0e-01 have to be detected, but this check detects only that or more; "
        "use a larger tolerance"
    )


def test_a_finding_names_the_larger_terms_of_what_is_allowed() -> None:
    one = np.ones((1, 1))
    entry = Comparison.agreeing(2 * one, one, 1e-9 * one, 1e-7 * one).marked(one > 0, MISMATCH, Kind.WRONG_VALUE)
    entry.parts["rounding"], entry.parts["cancelled terms"] = 6e-8, 3e-8
    entry = replace(entry, coordinates=(0,), outputs=(0,))
    (finding,) = summarise(1, [entry], [Source("x", np.ones(()))]).findings
    assert [name for name, _ in finding.terms] == [ESTIMATE, "rounding", "cancelled terms"]
    text = failure("f", Result({1: summarise(1, [entry], [Source("x", np.ones(()))])}))
    assert (
        "off by       1   (allowed 1.3e-07: error of the estimate 4.0e-08, rounding 6.0e-08, cancelled terms 3.0e-08)"
        in text
    )
    entry.parts["rounding"], entry.parts["cancelled terms"], entry.parts["tolerance"] = 0.0, 0.0, 9.9e-8
    text = failure("f", Result({1: summarise(1, [entry], [Source("x", np.ones(()))])}))
    assert "off by       1   (allowed 1.0e-07: tolerance)" in text


def with_gradient(value: Any, gradient: Any) -> Any:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return value(x), lambda cotangent: gradient(x, cotangent)

    return f


MATRIX = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7], [0.9, 2.2, -1.1]])
CUBES = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]])


@pytest.mark.parametrize(
    ("f", "x", "words"),
    [
        (with_gradient(lambda x: x**2, lambda x, d: 4 * x * d), [1.0, 2.0, 3.0], "all are 2 times the estimate"),
        (with_gradient(lambda x: tf.reduce_sum(x**2), lambda x, d: x * d), MATRIX, "all are 0.5 times the estimate"),
        (with_gradient(tf.sin, lambda x, d: -d * tf.cos(x)), [1.0, 2.0, 3.0], "all have the wrong sign"),
        (
            with_gradient(lambda x: tf.reduce_sum(MATRIX * x), lambda x, d: d * MATRIX.T),
            np.ones((3, 3)),
            "they are those of the transpose",
        ),
        (
            with_gradient(lambda x: tf.linalg.matvec(MATRIX, x), lambda x, d: tf.linalg.matvec(MATRIX, d)),
            [1.0, 2.0, 3.0],
            "they are those of the transpose",
        ),
        (
            with_gradient(lambda x: tf.reduce_sum(x**3), lambda x, d: d * (3 * x**2 + [[0.0], [1.0]])),
            CUBES,
            "all of them in x[1, :]",
        ),
        (
            with_gradient(lambda x: tf.reduce_sum(x**3), lambda x, d: d * (3 * x**2 + [[0.0, 1.0, 0.0]])),
            CUBES,
            "all of them in x[:, 1]",
        ),
    ],
)
def test_how_derivatives_are_wrong_together_is_said(f: Any, x: Any, words: str) -> None:
    (finding,) = check(lambda x: f(x), x).findings
    assert finding.reason.endswith(f"relative to its error bound; {words}")


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (with_gradient(tf.sin, lambda x, d: d * tf.sin(x)), [1.0, 2.0, 3.0]),
        (with_gradient(lambda x: x**2, lambda x, d: 4 * x * d), 3.0),
        (with_gradient(lambda x: x**2, lambda x, d: d * (2 * x + 1)), [1j, 2 + 1j]),
        (with_gradient(lambda x: x**3, lambda x, d: tf.constant([np.nan, np.inf], x.dtype) * d), [1.0, 2.0]),
    ],
)
def test_where_there_is_no_pattern_none_is_said(f: Any, x: Any) -> None:
    for finding in check(f, x).findings:
        assert finding.reason.endswith(("relative to its error bound", ")"))


def test_inputs_whose_names_begin_alike_are_told_apart() -> None:
    half = with_gradient(lambda x: tf.reduce_sum(x**2), lambda x, d: x * d)
    (finding,) = check(lambda a, ab: tf.reduce_sum(a) * half(ab), [1.0, 2.0], [3.0, 4.0]).findings
    assert (finding.input, finding.reason.rpartition("; ")[2]) == ("ab", "all are 0.5 times the estimate")
