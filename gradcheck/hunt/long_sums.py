"""Compares a gradient in 16 bits, or float32, with its exact terms, where so many are added up that the sum may stop.

The rounding of values does not decide there: 4,096 terms may each be right to 8 bits while their sum has stopped at
256, as 256 + 1 is no number of bfloat16. A sum in float32, rounded at the end, loses a bit or two.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF
from gradcheck.autodiff.mode import PLAIN
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.result import Kind, Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.tables import Comparison

LOST = 0.1
"""The share of the terms of a derivative that may be lost; a coarser resolution is no agreement anyway."""
WORST = 8
"""The number of coordinates whose terms are taken: those with the largest errors."""
DRAWS, MARGIN = 4, 4.0
"""Numbers of points whose inputs are rounded otherwise, and the factor on what changes between them."""
WIDEST = 2.0**20
STEP = STRAIGHT = 2.0**-10
"""The step of a difference, and how far the values may be off a straight line, relative to the largest difference."""


def compare_sums(problem: GraphProblem) -> Comparison | None:
    """Compares the gradient in a mode's number type with that of the float64 form, and with sums of its terms.

    Entries agree within a tenth of the float64 form's own derivative, which others check. The worst of the rest are
    compared with the sum over all outputs of cotangent times difference quotient, in float64: it is exact where the
    function is straight along the coordinate, and the magnitudes of its terms say how much of them is lost. None if
    that decides nothing. What overflows stays undecided.
    """
    number_type = str(problem.mode.number_type)
    plain, one = replace(problem, mode=PLAIN, taped=None), np.ones((1, 1))
    taken, expected = problem.gradients(one).values[0], plain.gradients(one).values[0]
    allowed, endless = LOST * np.abs(expected), ~np.isfinite(taken)
    excess = np.where(endless, -1.0, np.abs(taken - expected) - allowed)
    far = np.argsort(-excess, kind="stable")[: np.count_nonzero(excess > 0)]
    sums, lost = _sums(plain, far[:WORST], number_type)
    lost = lost + ROUNDOFF[number_type] * np.max(np.abs(expected), initial=0.0)
    straight = np.isfinite(lost)
    decided = far[:WORST][straight]
    expected[decided], allowed[decided] = sums[straight], lost[straight]
    wrong = np.zeros((taken.size, 1), bool)
    wrong[decided, 0] = np.abs(taken[decided] - expected[decided]) > allowed[decided]
    undecided = (endless | np.isin(np.arange(taken.size), np.setdiff1d(far, decided)))[:, None]
    if undecided.any() and not (wrong.any() or endless.any()):
        return None
    columns = (column[:, None] for column in (taken, expected, np.zeros(taken.size), allowed))
    table = replace(Comparison.agreeing(*columns), coordinates=tuple(range(taken.size)), outputs=(0,))
    table = table.marked(undecided, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
    return table.marked(wrong, Verdict.MISMATCH, Kind.WRONG_VALUE)


def _sums(plain: GraphProblem, coordinates: Array, number_type: str) -> tuple[Array, Array]:
    """The derivatives by some coordinates as sums of terms, and how much of them may be lost; NaN if that is unknown.

    A term may cancel by itself, as log(1 + 1e-7) does, which values that are rounded otherwise show; and one below the
    least normal number may be lost.
    """
    if not coordinates.size:
        return np.empty(0), np.empty(0)
    point, unit, rng = plain.point, ROUNDOFF[number_type], np.random.default_rng(coordinates.size)
    moves = unit * rng.choice([-1.0, 1.0], size=(DRAWS, point.size))
    terms, *beside = (_terms(plain, coordinates, point * (1 + move)) for move in (0.0, *moves))
    sums, most = (one.sum(axis=1) for one in (terms, np.abs(terms)))
    change = np.ptp([sums, *(one.sum(axis=1) for one in beside)], axis=0)
    least = float(ml_dtypes.finfo(number_type).tiny)  # type: ignore[no-untyped-call]
    return sums, LOST * most + MARGIN * change + terms.shape[1] * least


def _terms(plain: GraphProblem, coordinates: Array, point: Array) -> Array:
    """The terms of the derivatives by some coordinates (k, m): NaN for one along which the function is not straight.

    The steps move the values by a tenth, as sums among them may be off by that.
    """
    outputs, axes = replace(plain, cotangent=None), np.eye(point.size)[coordinates]
    steps = STEP * np.maximum(1.0, np.abs(point[coordinates]))
    for widened in (False, True):
        moves = steps[:, None] * axes
        values = outputs.values(np.concatenate([point[None, :], point + moves, point - moves]))
        middle, (above, below) = values[0], np.split(values[1:], 2)
        bent, apart = (np.abs(part).max(axis=1, initial=0.0) for part in (above + below - 2 * middle, above - below))
        if not widened:
            with np.errstate(divide="ignore", invalid="ignore"):
                wanted = np.clip(LOST * np.abs(middle).max(initial=0.0) / apart, 1.0, WIDEST)
            steps *= np.exp2(np.ceil(np.log2(wanted)))
    straight = (bent <= STRAIGHT * apart)[:, None]
    assert plain.cotangent is not None
    return np.where(straight, (above - below) / (2 * steps[:, None]) * plain.cotangent, np.nan)
