"""The terms of verdicts: what each one lets pass, and what it does not; tests/decisions has a case of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.one_sided import Smoothness
from gradcheck.numerics.sampling import CONFIRM, sample
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.verdict import doubts
from gradcheck.verdict.measured_rounding import Neighbourhood, OwnRounding, with_inner_rounding
from gradcheck.verdict.suspicion import Evidence
from gradcheck.verdict.tables import PARTS, Comparison, Tolerance
from gradcheck.verdict.terms import (
    ALIASING,
    FIRST_ORDER,
    RESIDUE,
    SMALL_KINK,
    VALUE_DIFFERENCES,
    Term,
    Terms,
    decided,
    judged,
    with_allowances,
)

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
        problem=SimpleNamespace(smooth=True, in_float64=None, point=np.zeros(1), precision=2.0**-53),
        directions=ONE,
        sample=sample,
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
    found = judged(wrong(0.0, 2.0, 0.1), seen, VALUE_DIFFERENCES)
    assert found.where(INCONCLUSIVE, Reason.STAIRCASE).all()
    less = tuple(each for each in VALUE_DIFFERENCES.doubts if each.name != "locally constant")
    assert judged(wrong(0.0, 2.0, 0.1), seen, replace(VALUE_DIFFERENCES, doubts=less)).any(MISMATCH)


@pytest.mark.parametrize(("residue", "verdict"), [(1e-15, AGREE), (1e-19, MISMATCH)])
def test_a_residue_of_large_terms_is_rounding(residue: float, verdict: Verdict) -> None:
    values = sample(np.zeros_like, np.zeros(1), np.eye(1))
    beside = evidence(residue=residue * ONE, beside=residue * ONE, samples=(values, values))
    found = with_allowances(wrong(1e-16, 0.0, 1e-300), beside, [RESIDUE])
    assert found.any(verdict)
    assert found.allowed >= (residue if verdict == AGREE else 0)


@pytest.mark.parametrize(("off", "draws"), [(1.0, 2), (1e-9, 4), (0.0, 1)], ids=["far", "near", "inside"])
def test_what_is_far_off_needs_few_perturbed_values(off: float, draws: int) -> None:
    taken = []

    def derivative(*_: Any) -> Any:
        taken.append(1)
        return (1.0 + 1e-12 * len(taken)) * ONE

    problem: Any = SimpleNamespace(in_float64=None, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, derivative), ONE, 1e-16 * ONE)
    assert own.moved(off * ONE) == pytest.approx(draws * 1e-12, rel=1e-3)
    assert len(taken) == draws


def test_one_value_that_is_off_alike_by_chance_does_not_show_how_far_rounding_moves() -> None:
    values = iter((-4.0 + 2.0**-50, 28.0, -16.0, 32.0))
    problem: Any = SimpleNamespace(in_float64=None, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, lambda *_: next(values) * ONE), -4.0 * ONE, 4e-15 * ONE)
    assert own.moved(3.6 * ONE) == 36.0


@pytest.mark.parametrize(
    ("form", "off", "draws"),
    [(None, 5e-8, 4 + 8 + 8), (None, 5e-7, 4), ("float64", 5e-6, 4 + 8 + 8), ("float64", 5e-5, 4)],
)
def test_what_is_too_far_off_for_its_rounding_and_what_is_lost_needs_no_neighbours(
    form: Any, off: float, draws: int
) -> None:
    """Values that move by 1e-8, and are off alike at all neighbours; with a float64 form, more may be granted."""
    taken = []

    def derivative(*_: Any) -> Any:
        taken.append(1)
        return (1.0 + off + 1e-8 * (len(taken) % 2)) * ONE

    problem: Any = SimpleNamespace(in_float64=form, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, derivative), (1.0 + off) * ONE, 1e-16 * ONE)
    assert own.beside(ONE, ONE) == pytest.approx(1e-8, rel=1e-3)
    assert len(taken) == draws


@pytest.mark.parametrize(
    ("off", "conclusive", "moved", "draws"),
    [
        (5e-9, True, lambda draw: 1e-7 * draw, 1),
        (5e-8, False, lambda draw: 1e-7 * draw, 1),
        (5e-8, True, lambda draw: 1e-7 * draw, 4 + 1),
        (5e-8, True, lambda draw: 1e-8 * (draw % 2), 4 + 8 + 8),
    ],
    ids=["within ten bounds", "inconclusive", "scattered", "alike"],
)
def test_rounding_is_measured_as_far_as_it_decides(off: float, conclusive: bool, moved: Any, draws: int) -> None:
    """Four draws at the point, of eight neighbours as many as decide, and if all are off alike, eight on its sides."""
    taken = []

    def derivative(*_: Any) -> Any:
        taken.append(1)
        return (1.0 + off + moved(len(taken))) * ONE

    problem: Any = SimpleNamespace(in_float64=None, point=np.zeros(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, derivative), (1.0 + off) * ONE, 1e-16 * ONE)
    estimate = replace(estimated(1.0, 1e-9), conclusive=np.full((1, 1), conclusive))
    assert not evidence(own=own, lines=SimpleNamespace(tolerance=Tolerance())).compare(estimate).any(MISMATCH)
    assert len(taken) == draws


def test_what_is_wrong_within_a_few_roundings_of_the_point_alone_is_no_rounding() -> None:
    def derivative(_: Any, point: Any) -> Any:
        away = float(point[0] - 1.0) / 2.0**-53
        return (1.0 + (abs(away) <= 5) * (1e-12 if away <= 0 else 2e-12)) * ONE

    problem: Any = SimpleNamespace(in_float64=None, point=np.ones(1), precision=2.0**-53, perturbed=lambda _: problem)
    own = OwnRounding(Neighbourhood(problem, derivative), (1.0 + 1e-12) * ONE, 1e-16 * ONE)
    assert own.moved(1e-12 * ONE) == pytest.approx(1e-12, rel=1e-3)
    assert own.beside(ONE, ONE) == 1e-16


def test_digits_that_one_of_six_neighbours_shows_are_lost() -> None:
    taken = []

    def derivative(of: Any, _: Any) -> Any:
        taken.append(of is problem)
        return (1.0 + 1e-4 * (of is problem and sum(taken) == 1 + 6)) * ONE

    form: Any = SimpleNamespace(same_gradients=True, point=np.ones(1), perturbed=lambda _: form)
    problem: Any = SimpleNamespace(in_float64=form, point=np.ones(1), rounded=lambda point: point)
    assert OwnRounding(Neighbourhood(problem, derivative), ONE, 1e-7 * ONE).lost == pytest.approx(1e-4)


def test_two_draws_are_enough_for_what_agrees_without_rounding() -> None:
    taken = []

    def values(points: Any, *_: Any) -> Any:
        taken.append(1)
        return np.full((len(points), 1), 1.0 + 1e-12 * len(taken))

    problem: Any = SimpleNamespace(point=np.ones(1), perturbed=lambda _: problem)
    lines: Any = SimpleNamespace(problem=problem, values=values, gradients=True)
    row = sample(lambda p: p, np.ones(1), np.eye(1))
    (settled,) = with_inner_rounding(lines, row, enough=lambda _: True)
    assert settled.floor == pytest.approx(2 * 2e-12, rel=1e-3), "twice the largest change"
    assert len(taken) == 1 + 2
    (other,) = with_inner_rounding(lines, row, enough=lambda _: False)
    assert len(taken) == 3 + 1 + 8
    assert other.floor == pytest.approx(2 * 8e-12, rel=1e-3)


def test_what_is_not_finite_is_no_residue() -> None:
    assert with_allowances(wrong(np.nan, 0.0, 1.0), evidence(residue=ONE), [RESIDUE]).any(MISMATCH)


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
    assert decided(wrong(2.0, 1.0, 1e-9), seen, [ALIASING]).any(verdict)


@pytest.mark.parametrize(
    ("ratio", "late", "draws", "verdict"),
    [
        (100.0, 99, 5, INCONCLUSIVE),
        (10.0, 99, 16, INCONCLUSIVE),
        (50.0, 8, 12, MISMATCH),
        (1000.0, 3, 7, MISMATCH),
        (1000.0, 6, 5, INCONCLUSIVE),
    ],
)
def test_a_finer_row_is_no_rounding_if_few_draws_or_all_of_them_move_it_far_less(
    ratio: float, late: int, draws: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perturbed values move by 1 / `ratio` of their departures from the estimate; from the draw `late` on, by these."""
    taken: list[int] = []

    def moved(_: Any, row: Any, places: Any, draw: int) -> Any:
        taken.append(len(places))
        departures = 2 * np.abs(row.step[:, None] * row.stencil.offsets[places])
        return departures[:, :, None] / (ratio if draw < late else 1.0)

    monkeypatch.setattr(doubts, "inner_rounding", moved)
    seen = beside_a_finer_row(lambda p: 3 * p, estimated(5.0, 0.1), autodiff=2.0 * ONE)
    assert decided(wrong(2.0, 1.0, 1e-9), seen, [ALIASING]).any(verdict)
    assert len(taken) == draws
    assert max(taken[1:]) == 10, "only the points that rounding explains least are perturbed again"


@pytest.mark.parametrize(("finer", "verdict"), [(2.2, INCONCLUSIVE), (2.3, MISMATCH), (1.2, MISMATCH)])
def test_a_finer_row_that_excludes_the_difference_and_allows_autodiff_need_not_be_conclusive(
    finer: float, verdict: Verdict
) -> None:
    """Its bound is a quarter; if digits that look lost on the usual stencil are allowed for, it says nothing."""
    close = replace(estimated(finer, 0.25), conclusive=ONE < 0)
    seen = beside_a_finer_row(lambda p: 3 * p, close, autodiff=2.0 * ONE)
    granted = replace(close, bound=np.inf * ONE)
    seen = replace(seen, estimate=lambda row: granted if np.any(row.floor > 0) else close)
    assert decided(wrong(2.0, 1.0, 1e-9), seen, [ALIASING]).any(verdict)


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
    own = SimpleNamespace(autodiff=autodiff, granted=0 * ONE, beside=lambda *_: 0 * ONE)
    return evidence(estimate=lambda _: estimate, samples=(values, values), lines=lines, own=own)


@pytest.mark.parametrize(("width", "verdict"), [(1e-3, INCONCLUSIVE), (1e-9, INCONCLUSIVE), (3e-5, MISMATCH)])
def test_steps_inside_a_stair_excuse_the_slope_of_many_stairs(width: float, verdict: Verdict) -> None:
    """The usual steps, and those a millionth as wide, show the slope of many stairs; autodiff has that inside a stair,
    which steps of about its width show.
    """
    f = lambda p: 3 * p  # noqa: E731
    seen = beside_a_finer_row(f, estimated(1.0, 1e-9), autodiff=2.0 * ONE)
    usual = seen.samples[0].step
    lines: Any = seen.lines
    lines.sample = lambda *_, shrink, **__: sample(f, np.ones(1), np.eye(1), step=usual * shrink)

    def estimate(row: Any) -> Estimate:
        inside = width / 2 < float(row.step[0] / usual[0]) < width * 2
        return estimated(2.0, 0.1) if inside else estimated(1.0, 1e-9)

    assert decided(wrong(2.0, 1.0, 1e-9), replace(seen, estimate=estimate), [ALIASING]).any(verdict)


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
    assert decided(table, seen, [ALIASING]).where(MISMATCH).sum() == left


@pytest.mark.parametrize(("autodiff", "verdict"), [(1.0, INCONCLUSIVE), (1.5, MISMATCH)])
def test_a_kink_that_only_a_finer_row_of_the_slope_shows_excuses_what_lies_between(
    autodiff: float, verdict: Verdict
) -> None:
    smooth, kinked = (sample(f, np.zeros(1), np.eye(1)) for f in (lambda p: p / 3, np.abs))
    own = SimpleNamespace(beside=lambda *_: 0 * ONE)
    seen = evidence(samples=(smooth, smooth), lines=lines_with(lambda *_, **__: kinked), own=own)
    vars(seen)["nearest"] = np.full((1, 1), Smoothness.UNKNOWN)
    assert decided(wrong(autodiff, 1 / 3, 1e-9), seen, [SMALL_KINK]).any(verdict)


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
    assert decided(wrong(side * autodiff, 0.0, 1e-9), seen, [SMALL_KINK]).any(verdict)


def test_terms_of_kinks_are_not_asked_of_smooth_functions() -> None:
    asked = []

    def note(comparison: Comparison, _: Evidence) -> Any:
        asked.append(comparison)
        return 0 * ONE > 0

    doubts = tuple(replace(each, of=note) for each in FIRST_ORDER.doubts)
    judged(wrong(2.0, 1.0, 1e-9), evidence(), Terms(doubts=doubts))
    assert 0 < len(asked) == sum(not each.nonsmooth for each in doubts) < len(doubts)


MASK = npst.arrays(bool, (2, 3))
SMALL = npst.arrays(float, (2, 3), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0]))


@given(st.lists(SMALL, max_size=4), st.lists(MASK, max_size=4), st.lists(MASK, max_size=3), SMALL, st.randoms())
def test_terms_commute_within_their_kind(allowed: Any, doubted: Any, reviewed: Any, errors: Any, rng: Any) -> None:
    """Each entry is off by an error of 0 to 2, and 0.25 is allowed without a term."""
    table = Comparison.agreeing(errors, 0 * errors, 0 * errors, 0.25 + 0 * errors)
    table = table.marked(errors > 0.25, MISMATCH, Kind.WRONG_VALUE)
    beside = evidence(samples=(sample(lambda p: np.ones((len(p), 3)), np.zeros(2), np.eye(2)),) * 2, beside=np.inf)

    def drawn(shuffled: bool) -> Terms:
        kinds: list[list[Term]] = [
            [Term(name, lambda *_, part=part: part) for name, part in zip(PARTS.names or (), allowed, strict=False)],
            [Term(f"doubt {place}", lambda *_, part=part: part) for place, part in enumerate(doubted)],
            [Term(f"review {place}", lambda *_, part=part: part, about=AGREE) for place, part in enumerate(reviewed)],
        ]
        return Terms((), *(tuple(rng.sample(kind, len(kind)) if shuffled else kind) for kind in kinds))

    one, other = judged(table, beside, drawn(False)), judged(table, beside, drawn(True))
    assert (one.verdict == other.verdict).all()
    wrong, off = (
        np.any([np.zeros((2, 3), bool), *doubted], axis=0),
        errors > 0.25 + np.max([0 * errors, *allowed], axis=0),
    )
    unsure = np.where(off, wrong, np.any([np.zeros((2, 3), bool), *reviewed], axis=0))
    assert (one.where(INCONCLUSIVE) == unsure).all()
    assert (one.where(MISMATCH) == off & ~wrong).all()
