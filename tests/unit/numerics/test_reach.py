"""Behaviour between the point and the finest step of the usual stencil, found with a much finer one."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

from gradcheck.numerics.difference import first_difference, second_difference
from gradcheck.numerics.reach import closer_steps, hidden_transition, stepped_over
from gradcheck.numerics.sampling import CONFIRM, FIRST, Stencil, coordinate_steps, sample

Array = np.ndarray[Any, Any]


def shown(f: Any, x: float, stencil: Stencil = FIRST) -> bool:
    usual = sample(f, np.array([x]), np.eye(1), stencil=stencil)
    finer = sample(f, np.array([x]), np.eye(1), step=2.0**-20 * coordinate_steps(np.array([x])))
    estimate = first_difference(usual)
    return bool(stepped_over(usual, finer, estimate.value, estimate.bound)[0, 0])


@pytest.mark.parametrize("stencil", [FIRST, CONFIRM], ids=["first", "confirm"])
def test_a_transition_before_the_finest_step_is_stepped_over(stencil: Stencil) -> None:
    exact = np.vectorize(erf, otypes=[np.float64])
    assert shown(lambda t: exact((2.6 - 1e9 * t) ** 2), 0.0, stencil)
    assert shown(lambda t: exact((2.6 - 1e9 * t) ** 2) + np.sin(t), 0.0, stencil)
    assert not shown(lambda t: exact((2.6 - 1e3 * t) ** 2), 0.0, stencil)


def repeated(f: Any, x: float) -> bool:
    finer = sample(f, np.array([x]), np.eye(1), step=2.0**-20 * coordinate_steps(np.array([x])))
    return bool(hidden_transition(finer)[0, 0])


def test_a_small_transition_shows_in_rises_that_are_alike() -> None:
    assert repeated(lambda t: 1 + 1e-9 * np.tanh(1e11 * t + 0.7), 0.0)
    assert repeated(lambda t: 1 + 1e-9 * np.arctan(1e12 * t) + 1e-3 * np.sin(t), 0.0)
    assert not repeated(lambda t: 1 + 1e-9 * np.sign(t), 0.0)  # a jump at the point itself
    assert not repeated(lambda t: np.ones_like(t), 0.0)


def test_one_stair_beside_the_point_is_no_transition() -> None:
    """A low precision repeats its rise on all steps beyond the edge, and shows none nearer to the point."""
    assert not repeated(lambda t: np.floor(1e4 * t + 1 - 1e-8), 0.0)
    assert not repeated(lambda t: 1 + 2.0**-23 * np.floor(1e4 * t + 1 - 1e-8), 0.0)


NONE: dict[str, Any] = {
    "sine": np.sin,
    "arctangent": np.arctan,
    "kink": lambda t: np.abs(t - 0.7),
    "cancels": lambda t: t - np.sin(t),
    "noise": lambda t: np.cos(t) + 1e-9 * np.sin(1e17 * t),
    "stairs": lambda t: 1e-5 * np.floor(1e5 * t + 0.5),
}


def test_neither_rounding_nor_noise_nor_a_kink_at_the_point_is() -> None:
    points = (-40.0, 1e-3, 0.7, 3.0, 1e5)
    assert [(name, x) for name, f in NONE.items() for x in points if shown(f, x) or repeated(f, x)] == []


def test_a_pole_beyond_the_finest_step_is_not() -> None:
    """The slope is that of a closer stencil, from which the usual one departs at its finest step, too."""
    x, distance = np.array([1.0 + 1e-7]), 1e-7
    f = lambda t: np.log(np.maximum(t - 1.0, 0.0) + 1e-300)  # noqa: E731
    usual, finer = (sample(f, x, np.eye(1), step=np.array([size])) for size in (0.42, 4e-7))
    assert not stepped_over(usual, finer, np.full((1, 1), 1 / distance), np.full((1, 1), 1e-6 / distance)).any()


def closer(f: Any, x: float, *, order: int = 1, step: Array | None = None) -> float:
    """The largest step of a closer stencil."""
    with np.errstate(all="ignore"):
        usual = sample(f, np.array([x]), np.eye(1), step=step)
        return float(closer_steps(usual, (first_difference, second_difference)[order - 1](usual))[0])


def test_a_bound_that_an_edge_widens_gains_from_a_closer_look_though_it_is_conclusive() -> None:
    assert 1e-6 <= closer(lambda t: np.sqrt(t - 1.0), 1.0 + 1e-5) <= 1e-4


def test_a_bound_that_lost_digits_leave_does_not() -> None:
    assert np.isnan(closer(lambda t: np.sin(t) + 1e-9 * np.sin(1e13 * t**2), 1.0))


def test_nor_does_a_second_derivative_whose_reach_ends_at_the_widest_steps() -> None:
    assert np.isnan(closer(lambda t: np.sin(19.7 * (t - 0.17)), 1.0, order=2))


def test_no_closer_stencil_has_steps_that_the_point_does_not_resolve() -> None:
    for distance, resolved in ((2.0**-40, True), (2.0**-44, False)):
        found = closer(lambda t: np.abs(t - 1.0), 1.0 + distance, step=np.array([1e-6]))
        assert np.isfinite(found) == resolved
