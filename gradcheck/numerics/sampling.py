"""Evaluating a function at all points of all lines, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import EPS64, FIRST, Sample, Stencil

Array = np.ndarray[Any, Any]

MANTISSA = 0.4236067977499790
"""No step is a power of two: on such steps the roundings of neighbouring values repeat instead of scattering, so that
lost digits would pass for a slope; and a sample would hit the round numbers where people put their kinks and periods.
"""


def typical_magnitude(x: Array) -> float:
    """The magnitude that a zero coordinate of `x` (n,) is given: the median of the others, within [1e-4, 100], or 1."""
    sizes = np.sort(np.abs(x[x != 0]))
    if not sizes.size:
        return 1.0
    median = float(sizes[(sizes.size - 1) // 2] + sizes[sizes.size // 2]) / 2
    return min(max(median, 1e-4), 100.0)


def coordinate_steps(x: Array, *, eps: float = EPS64, typical: float | None = None) -> Array:
    """The largest step of each coordinate, shape (n,), in (0.21 |x|, 0.43 |x|].

    A coordinate that is zero, or below sqrt(eps) / 4 of the typical magnitude, is taken for one of that size: there a
    function of ordinary scale would change by less than its rounding.
    """
    size = np.abs(x)
    usual = typical_magnitude(x) if typical is None else typical
    floor = np.where(size == 0, usual, np.sqrt(eps) / 4 * usual)
    return np.asarray(MANTISSA * np.exp2(np.floor(np.log2(np.maximum(size, floor)))))


def largest_steps(x: Array, directions: Array, stencil: Stencil, *, eps: float = EPS64) -> Array:
    """The largest step t of each line x + t * direction, shape (k,): no coordinate moves further than its own step.

    `x` is (n,), `directions` (k, n); a direction of zeros gets the step 1. `eps` is the unit roundoff of the function's
    arithmetic. A row that would be mostly finer than the arithmetic resolves (float32) starts one power of two wider.
    """
    steps = coordinate_steps(x, eps=eps)
    if stencil.ratio ** (1 - stencil.count) < eps:
        steps = 2 * steps
    moves = np.abs(directions)
    with np.errstate(divide="ignore"):
        lines = np.min(steps / moves, axis=1)
    return np.where(np.isfinite(lines), lines, 1.0)


def points(x: Array, directions: Array, step: Array, stencil: Stencil) -> Array:
    """All points of k lines, shape (1 + k * (P - 1), n): `x` itself, then line by line its other offsets.

    `x` is (n,), `directions` (k, n), `step` (k,); P is the number of the stencil's offsets.
    """
    moves = (step[:, None] * stencil.offsets[1:])[:, :, None] * directions[:, None, :]
    return np.concatenate([x[None, :], (x + moves).reshape(-1, x.size)])


def gather(values: Array, lines: int, stencil: Stencil) -> Array:
    """From values (1 + k * (P - 1), m) at `points` to values (k, P, m): every line gets the shared centre."""
    outputs = values.shape[-1]
    others = values[1:].reshape(lines, stencil.offsets.size - 1, outputs)
    centre = np.broadcast_to(values[0], (lines, 1, outputs))
    return np.concatenate([centre, others], axis=1)


def magnitude(x: Array, directions: Array) -> Array:
    """The largest |x_i / direction_i| over the coordinates that move, shape (k,); 0 where none does."""
    moves = np.abs(directions)
    ratios = np.divide(np.abs(x), moves, out=np.zeros_like(moves), where=moves > 0)
    return np.asarray(ratios.max(axis=1, initial=0.0))


def sample(
    f: Callable[[Array], Array],
    x: Array,
    directions: Array,
    *,
    stencil: Stencil = FIRST,
    eps: float = EPS64,
    step: Array | None = None,
) -> Sample:
    """Samples `f` on the lines x + t * direction.

    `f` maps points (p, n) to values (p, m) and is called once. `x` is (n,), `directions` (k, n), both float64; `step`
    (k,) are the largest steps, by default `largest_steps`. `eps` is the unit roundoff of the arithmetic that evaluates
    `f`.

    >>> import numpy as np
    >>> lines = sample(np.sin, np.array([1.0]), np.eye(1))
    >>> lines.values.shape
    (1, 47, 1)
    """
    if step is None:
        step = largest_steps(x, directions, stencil, eps=eps)
    values = np.asarray(f(points(x, directions, step, stencil)), dtype=np.float64)
    return Sample(stencil, step, gather(values, len(directions), stencil), magnitude(x, directions), eps)
