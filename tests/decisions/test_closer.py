"""Stencils inside the radius that was found: their bounds hold, and points near kinks, poles and edges are decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.numerics.difference import Estimate
from gradcheck.numerics.reach import closer_steps, erratic
from gradcheck.numerics.sampling import CONFIRM, FIRST, Sample, Stencil, largest_steps, sample
from gradcheck.result import Kind, Verdict
from gradcheck.verdict.looks import closer_look, curvature_estimate, slope_estimate
from tests import slices
from tests.verdicts import check

Array = np.ndarray[Any, Any]
POINTS = 40

MISSED = {"curvature": 4.0}
"""By how many bounds a jump of the curvature among the steps may miss; a mismatch has to miss by ten."""


@pytest.fixture(scope="module")
def nonsmooth(instrument: Callable[[str], Any]) -> Any:
    return instrument("nonsmooth")


@dataclass(frozen=True)
class Edge:
    """A function of x and its first two derivatives, on the side of the edge from which it is approached."""

    f: Callable[[Array], Array]
    first: Callable[[Array], Array]
    second: Callable[[Array], Array]
    edge: float
    side: int = 1


EDGES = {
    "relu": Edge(lambda x: np.maximum(x - 1, 0) * x, lambda x: 2 * x - 1, lambda x: 2 + 0 * x, 1.0),
    "maximum": Edge(lambda x: np.maximum(x, x**3), lambda x: 3 * x**2, lambda x: 6 * x, 1.0),
    "branch": Edge(lambda x: np.where(x > 2, np.exp(x), np.sin(x)), np.exp, np.exp, 2.0),
    "jump": Edge(lambda x: x**2 * np.floor(x), lambda x: 4 * x, lambda x: 4 + 0 * x, 2.0),
    "sqrt": Edge(lambda x: np.sqrt(x - 1), lambda x: (x - 1) ** -0.5 / 2, lambda x: -((x - 1) ** -1.5) / 4, 1.0),
    "log": Edge(lambda x: np.log(3 - x), lambda x: -1 / (3 - x), lambda x: -1 / (3 - x) ** 2, 3.0, -1),
    "pole": Edge(lambda x: 1 / (x - 1), lambda x: -1 / (x - 1) ** 2, lambda x: 2 / (x - 1) ** 3, 1.0),
    "double pole": Edge(lambda x: (x - 1) ** -2.0, lambda x: -2 * (x - 1) ** -3.0, lambda x: 6 * (x - 1) ** -4.0, 1.0),
    "curvature": Edge(lambda x: x + np.maximum(x - 1, 0) ** 2, lambda x: 1 + 2 * (x - 1), lambda x: 2 + 0 * x, 1.0),
    "corner": Edge(lambda x: np.sin(x) + np.abs(x - 0.5), lambda x: np.cos(x) - 1, lambda x: -np.sin(x), 0.5, -1),
}


def look(edge: Edge, x: Array, stencil: Stencil, order: int, *, trusting: bool) -> Estimate:
    """The estimate of a closer look at a point (1,)."""
    line = np.eye(1)

    def sampled(stencil: Stencil, _: Array, shrink: Array) -> Sample:
        return sample(edge.f, x, line, stencil=stencil, step=shrink * largest_steps(x, line, stencil))

    with np.errstate(all="ignore"):
        wide = sampled(stencil, np.zeros(1, int), np.ones(1))
        estimate = slope_estimate(wide) if order == 1 else curvature_estimate(wide)
        return closer_look(sampled, wide, estimate, CONFIRM if trusting else None, order=order)


def points(edge: Edge, count: int, seed: int) -> Array:
    distances = 10.0 ** -np.random.default_rng(seed).uniform(0.5, 8.0, count)
    return edge.edge + edge.side * distances


LOOKS = list(product((FIRST, CONFIRM), (1, 2), (True, False)))


@pytest.mark.sliced
@pytest.mark.parametrize("name", EDGES)
def test_the_true_derivative_lies_within_the_bound(name: str) -> None:
    """With each stencil, at each order, trusting or not: all of these combinations, or one, the next for the next
    edge."""
    edge, outside, vague = EDGES[name], [], {}
    first = list(EDGES).index(name)
    for stencil, order, trusting in slices.sliced(LOOKS, lambda looks: [looks[first % len(looks)]]):
        conclusive = 0
        for x in points(edge, POINTS, seed=order):
            estimate = look(edge, np.array([x]), stencil, order, trusting=trusting)
            true = float((edge.first if order == 1 else edge.second)(x))
            conclusive += bool(estimate.conclusive[0, 0])
            error = abs(estimate.value[0, 0] - true)
            if estimate.conclusive[0, 0] and not error <= MISSED.get(name, 1.0) * estimate.bound[0, 0]:
                outside.append((stencil, order, trusting, x - edge.edge, true, estimate))
        if conclusive < (0.3 if order == 2 else 0.9 if trusting else 0.8) * POINTS:
            vague[stencil, order, trusting] = conclusive
    assert (outside, vague) == ([], {})


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "second"])
def test_an_edge_inside_the_first_closer_stencil_ends_the_next_one(stencil: Stencil) -> None:
    edge, x = EDGES["log"], np.array([3 - 1e-12])
    estimate = look(edge, x, stencil, order=1, trusting=True)
    assert estimate.conclusive.all()
    assert (np.abs(estimate.value - edge.first(x)) <= estimate.bound).all()


DECIDED = [
    "relu6 at 6 - 1e-5",
    "maximum 1e-6 above its switch",
    "asin at 1 - 1e-6",
    "acos at 1 - 1e-6",
    "reduce_max, values 1e-6 apart",
    "tf.cond 1e-6 from its branch",
    "atanh at 1 - 1e-6",
    "acosh at 1 + 1e-6",
]
FACTORS = (0.0, 0.5, 1.00001)


@slices.parametrized("name", [*DECIDED, "l2_normalize at 0"], slices.every(2))
def test_points_near_something_are_decided_and_wrong_gradients_found(nonsmooth: Any, name: str) -> None:
    place, distance = nonsmooth.POINTS[name]
    table = nonsmooth.table_of(place.function, np.float64(place.point(distance)), 1)
    true = place.derivative(place.point(distance), 1)
    assert table.where(Verdict.AGREE).all()
    assert table.bound[0, 0] <= 1e-6 * abs(true)
    assert abs(table.difference[0, 0] - true) <= table.bound[0, 0]
    next_factor = len(name) % len(FACTORS)
    for factor in slices.sliced(FACTORS, lambda factors: [factors[next_factor]]):
        wrong = nonsmooth.spoiled(place, factor, 1)
        (finding,) = check(wrong.function, np.float64(place.point(distance))).findings
        assert finding.kind is Kind.WRONG_VALUE


@slices.parametrized("name", DECIDED, lambda names: names[1::2])  # these, and first derivatives at the others
def test_so_are_second_derivatives_from_differences_of_gradients(nonsmooth: Any, name: str) -> None:
    place, distance = nonsmooth.POINTS[name]
    point = np.float64(place.point(distance))
    table = nonsmooth.table_of(place.function, point, 2)
    true = place.derivative(point, 2)
    assert table.where(Verdict.AGREE).all()
    assert table.bound[0, 0] <= 1e-6 * max(abs(true), 1.0)
    if abs(true) > 1e-9 and name in slices.sliced(DECIDED, lambda names: names[1::4]):
        (finding,) = check(nonsmooth.spoiled(place, 1.5, 2).function, point, order=2).findings
        assert (finding.order, finding.kind) == (2, Kind.WRONG_VALUE)


def test_nothing_can_be_planted_where_a_gradient_has_no_derivative(nonsmooth: Any) -> None:
    floor = nonsmooth.PLACES["floor"]
    assert nonsmooth.entry(nonsmooth.spoiled(floor, 1.00001, 2), 0.1, 2) == nonsmooth.entry(floor, 0.1, 2) == "=1e-12"


@pytest.mark.parametrize("distance", [2.0**-52, 1e-15])
def test_within_rounding_of_a_kink_nothing_is_said(distance: float) -> None:
    f = lambda x: tf.nn.relu(x - 1.0) * x  # noqa: E731
    assert check(f, 1.0 + distance).verdict != Verdict.MISMATCH
    assert check(f, 1.0 + distance, gradient=0.5).verdict != Verdict.MISMATCH


def test_one_coordinate_near_a_kink_among_many() -> None:
    x = np.random.default_rng(3).uniform(1.5, 2.5, 200)
    x[17] = 1.0 + 1e-6
    f = lambda x: tf.reduce_sum(tf.nn.relu(x - 1.0) * x**2)  # noqa: E731
    assert check(f, x).verdict == Verdict.AGREE
    wrong = 3 * x**2 - 2 * x
    wrong[50] *= 1.001
    assert check(f, x, gradient=wrong).verdict == Verdict.MISMATCH


@pytest.mark.parametrize("width", [1e-9, 1e-7, 1e-5])
def test_a_row_inside_a_single_stair_accuses_nobody(width: float) -> None:
    """The stairs hide a slope of one, which autodiff has; inside a stair the slope is a thousandth."""

    @tf.custom_gradient
    def f(x: Any) -> Any:
        return tf.floor(x / width) * width + 0.001 * x, lambda upstream: 1.001 * upstream

    for x in np.random.default_rng(4).uniform(0.5, 3.0, 5):
        assert check(f, x).verdict != Verdict.MISMATCH


def test_a_row_inside_a_single_stair_says_no_more_than_the_stairs_around_it() -> None:
    stairs = replace(EDGES["jump"], f=lambda x: np.floor(x / 7e-6) * 7e-6 + 5e-4 * x)
    for x in np.linspace(1.0, 1.9, 10):
        estimate = look(stairs, np.array([x]), FIRST, 1, trusting=False)
        assert not estimate.conclusive[0, 0] or abs(estimate.value[0, 0] - 1.0005) <= estimate.bound[0, 0]


def test_what_ends_the_reach() -> None:
    def steps(f: Callable[[Array], Array], x: float) -> float:
        with np.errstate(all="ignore"):
            row = sample(f, np.array([x]), np.eye(1))
            return float(closer_steps(row, slope_estimate(row))[0])

    for distance in (1e-6, 1e-7, 1e-8):
        assert distance / 4 <= steps(lambda x: np.abs(x - 1), 1 + distance) <= 8 * distance
        assert distance / 4 <= steps(lambda x: np.sqrt(x - 1), 1 + distance) <= 8 * distance
    assert np.isnan(steps(np.sin, 1.0))
    assert np.isnan(steps(lambda x: np.abs(x - 1), 1.0))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.floor(x * 1e7) * 1e-7, True),
        (lambda x: np.float64(np.float32(x)), True),
        (lambda x: x + 1e-9 * np.random.default_rng(1).normal(size=x.shape), True),
        (np.sin, False),
        (lambda x: np.abs(x - 1 - 1e-6), False),
        (lambda x: np.floor(x - 1e-6), False),
        (lambda x: 1 / (x - 1 - 1e-6), False),
        (lambda x: np.sqrt(x - 1 + 1e-6), False),
    ],
)
def test_what_is_erratic_and_what_stands_alone(f: Callable[[Array], Array], expected: bool) -> None:
    with np.errstate(all="ignore"):
        level = erratic(sample(f, np.array([1.0]), np.eye(1)))[0, 0]
    assert (level > 1e-13) == expected
