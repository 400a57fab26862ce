"""Evaluating a function at all points of all lines, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck.numerics.stencil import EPS64, FIRST, Sample, Stencil
from gradcheck.numerics.step import largest_steps

Array = np.ndarray[Any, Any]


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
