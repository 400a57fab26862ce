"""The filters of verdicts: what each one lets pass, and what it does not; tests/decisions has a case of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.one_sided import Smoothness
from gradcheck.numerics.sampling import CONFIRM, sample
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.verdict import filters
from gradcheck.verdict.aliasing import aliasing
from gradcheck.verdict.filters import FIRST_ORDER, VALUE_DIFFERENCES, filtered
from gradcheck.verdict.own_rounding import Neighbourhood, OwnRounding
from gradcheck.verdict.suspicion import Evidence
from gradcheck.verdict.tables import Comparison, Tolerance

AGREE, INCONCLUSIVE, MISMATCH = Verdict


ONE = np.ones((1, 1))


def wrong(autodiff: float, difference: float, bound: float) -> Comparison:
    table = Comparison.agreeing(autodiff * ONE, difference * ONE, bound * ONE, 10 * bound * ONE)
    return table.marked(ONE > 0, MISMATCH, Kind.WRONG_VALUE)


def evidence(**parts: Any) -> Evidence:
    """Evidence with only these parts."""
    blank = dict.fromkeys(Evidence.__dataclass_fields__, None)
    return Evidence(**{**blank, "lines": lines_with(lambda **_: None), **parts})


def lines_with(sample: Callable[..., Any]) -> Any:
    """Lines of a smooth function with these samples."""
    return SimpleNamespace(
        problem=SimpleNamespace(smooth=True, in_float64=None, point=np.zeros(1)), directions=ONE, sample=sample
    )


def estimated(value: float, bound: float) -> Estimate:
    return Estimate(value * ONE, bound * ONE, ONE > 0, ONE, 0 * ONE)


def test_values_that_are_constant_around_the_point_have_no_curvature() -> None:
    values = sample(lambda p: np.where(np.abs(p) < 1e-3, 0.0, p**2), np.zeros(1), np.eye(1), stencil=CONFIRM)
    seen = evidence(
        samples=(values, values),
        estimate=lambda _: estimated(2.0, 0.1),
        lines=lines_with(lambda **_: values),
        residue=0 * ONE,
        beside=0 * ONE,
        own=SimpleNamespace(at=lambda *_: 0 * ONE),
    )
    found = filtered(wrong(0.0, 2.0, 0.1), seen, VALUE_DIFFERENCES)
    assert found.where(INCONCLUSIVE, Reason.STAIRCASE).all()
    less = tuple(each for each in VALUE_DIFFERENCES if each.name != "locally constant")
    assert filtered(wrong(0.0, 2.0, 0.1), seen, less).any(MISMATCH)


@pytest.mark.parametrize(("residue", "verdict"), [(1e-15, AGREE), (1e-19, MISMATCH)])
def test_a_residue_of_large_terms_is_rounding(residue: float, verdict: Verdict) -> None:
    found = filters.cancelled_terms(wrong(1e-16, 0.0, 1e-300), evidence(residue=residue * ONE))
    assert found.any(verdict)
    assert found.allowed >= (residue if verdict == AGREE else 0)


@pytest.mark.parametrize(("off", "draws"), [(1.0, 1), (1e-9, 4), (0.0, 1)], ids=["far", "near", "inside"])
def test_what_is_far_off_needs_few_perturbed_values(off: float, draws: int) -> None:
    taken = []

    def derivative(*_: Any) -> Any:
        taken.append(1)
        return (1.0 + 1e-12 * len(taken)) * ONE

    problem: Any = SimpleNamespace(in_float64=None, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, derivative), ONE, 1e-16 * ONE)
    assert own.moved(off * ONE) == pytest.approx(draws * 1e-12, rel=1e-3)
    assert len(taken) == draws


def test_what_is_not_finite_is_no_residue() -> None:
    assert filters.cancelled_terms(wrong(np.nan, 0.0, 1.0), evidence(residue=ONE)).any(MISMATCH)


@pytest.mark.parametrize(
    ("slope", "finer", "bound", "verdict"),
    [
        (3.0, 5.0, 0.1, INCONCLUSIVE),
        (3.0, 1.05, 0.1, MISMATCH),
        (3.0, 2.0005, 3.0, INCONCLUSIVE),
        (3.0, 1.99, 3.0, MISMATCH),
        (0.0, 2.0005, 3.0, MISMATCH),
    ],
)
def test_a_finer_row_refutes_only_what_it_contradicts(
    slope: float, finer: float, bound: float, verdict: Verdict
) -> None:
    """Autodiff gives 2, the usual stencil 1; a finer one that agrees with autodiff counts unless it is constant."""
    seen = beside_a_finer_row(lambda p: slope * p, estimated(finer, bound), autodiff=2.0 * ONE)
    assert aliasing(wrong(2.0, 1.0, 1e-9), seen).any(verdict)


@pytest.mark.parametrize(("finer", "verdict"), [(2.2, INCONCLUSIVE), (2.3, MISMATCH), (1.2, MISMATCH)])
def test_a_finer_row_that_excludes_the_difference_and_allows_autodiff_need_not_be_conclusive(
    finer: float, verdict: Verdict
) -> None:
    """Its bound is a quarter; if digits that look lost on the usual stencil are allowed for, it says nothing."""
    close = replace(estimated(finer, 0.25), conclusive=ONE < 0)
    seen = beside_a_finer_row(lambda p: 3 * p, close, autodiff=2.0 * ONE)
    granted = replace(close, bound=np.inf * ONE)
    seen = replace(seen, estimate=lambda row: granted if np.any(row.floor > 0) else close)
    assert aliasing(wrong(2.0, 1.0, 1e-9), seen).any(verdict)


class OneLine(SimpleNamespace):
    """A line of which some are the line itself."""

    def __getitem__(self, _: Any) -> OneLine:
        return self


def beside_a_finer_row(f: Any, estimate: Estimate, autodiff: Any, gradients: bool = False) -> Evidence:
    """Evidence in which every stencil samples `f` at 1 without lost digits, and every estimate is the given one."""
    values = sample(f, np.ones(1), np.eye(1))
    problem: Any = SimpleNamespace(smooth=True, point=np.ones(1), perturbed=lambda _: problem)
    lines: Any = OneLine(
        problem=problem,
        directions=ONE,
        sample=lambda *_, **__: values,
        values=lambda points, _: f(points[:]),
        tolerance=Tolerance(),
        gradients=gradients,
    )
    own = SimpleNamespace(autodiff=autodiff, beside=lambda *_: 0 * ONE)
    return evidence(estimate=lambda _: estimate, samples=(values, values), lines=lines, own=own)


@pytest.mark.parametrize(
    ("gradients", "bound", "left"), [(True, 1e3, 0), (True, 0.5, 1), (False, 1e3, 1)], ids=["", "seen", "outputs"]
)
def test_what_one_entry_of_a_gradient_aliases_is_aliased_for_those_that_cannot_tell(
    gradients: bool, bound: float, left: int
) -> None:
    """The finer stencil contradicts the first entry, 1, and leaves open whether the second is 1 or autodiff's 2."""
    both = np.ones((1, 2))
    finer = Estimate(np.array([[5.0, 1.0]]), np.array([[0.1, bound]]), both > 0, both, 0 * both)
    seen = beside_a_finer_row(lambda p: 3 * p * both, finer, 2 * both, gradients)
    table = Comparison.agreeing(2 * both, both, 1e-9 * both, 1e-8 * both).marked(both > 0, MISMATCH, Kind.WRONG_VALUE)
    assert aliasing(table, seen).where(MISMATCH).sum() == left


@pytest.mark.parametrize(("autodiff", "verdict"), [(1.0, INCONCLUSIVE), (1.5, MISMATCH)])
def test_a_kink_that_only_a_finer_row_of_the_slope_shows_excuses_what_lies_between(
    autodiff: float, verdict: Verdict
) -> None:
    smooth, kinked = (sample(f, np.zeros(1), np.eye(1)) for f in (lambda p: p / 3, np.abs))
    own = SimpleNamespace(beside=lambda *_: 0 * ONE)
    seen = evidence(samples=(smooth, smooth), lines=lines_with(lambda *_, **__: kinked), own=own)
    vars(seen)["nearest"] = np.full((1, 1), Smoothness.UNKNOWN)
    assert filters.small_kink(wrong(autodiff, 1 / 3, 1e-9), seen).any(verdict)


@pytest.mark.parametrize(("autodiff", "verdict"), [(4.6e-8, INCONCLUSIVE), (4.7e-8, MISMATCH), (-1e-8, MISMATCH)])
@pytest.mark.parametrize("side", [1, -1])
def test_a_kink_of_values_that_have_lost_digits_excuses_what_lies_between(
    side: int, autodiff: float, verdict: Verdict
) -> None:
    """Its side of slope 4.64e-8 moves in stairs of 1e-13, and both sides are flat on the finest steps."""

    def row(*_: Any, shrink: float = 1.0, **__: Any) -> Any:
        def kinked(p: Any) -> Any:
            return 831.0 + 4.64e-8 * np.maximum(side * p, 0.0) - 829.0

        return sample(kinked, np.zeros(1), np.eye(1), step=0.4 * shrink * np.ones(1))

    own = SimpleNamespace(beside=lambda *_: 0 * ONE)
    seen = evidence(samples=(row(), row()), lines=lines_with(row), own=own)
    vars(seen)["nearest"] = np.full((1, 1), Smoothness.SMOOTH)
    assert filters.small_kink(wrong(side * autodiff, 0.0, 1e-9), seen).any(verdict)


def test_filters_for_kinks_are_not_asked_of_smooth_functions() -> None:
    asked = []

    def note(comparison: Comparison, _: Evidence) -> Comparison:
        asked.append(comparison)
        return comparison

    everywhere = tuple(replace(each, apply=note) for each in FIRST_ORDER)
    filtered(wrong(2.0, 1.0, 1e-9), evidence(), everywhere)
    assert len(asked) == sum(each.on in (None, MISMATCH) and not each.nonsmooth for each in FIRST_ORDER)
