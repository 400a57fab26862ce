"""Samples a function on lines through a point: the points, the steps, and the values from a single call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradcheck.typing import Array

EPS64 = 2.0**-53
"""The unit roundoff of float64."""


@dataclass(frozen=True)
class Stencil:
    """A geometric sequence of `count` steps 1, 1/ratio, 1/ratio**2, … on both sides, and equidistant points for the
    noise.

    All offsets are multiples of a largest step that is chosen for each line. `noise_spacings` are multiples of the
    largest step, none or at least two; `noise_points` equidistant points around 0 are sampled at each.
    """

    ratio: float
    count: int
    noise_spacings: tuple[float, ...] = ()
    noise_points: int = 9

    def __str__(self) -> str:
        """The points in words, for a largest step h.

        >>> print(QUICK)
        17 points: 0 and ±h/4**k, k = 0 to 7
        """
        noise = "".join(f", {self.noise_points} in steps of {spacing:.2g}h" for spacing in self.noise_spacings)
        return f"{len(self.offsets)} points: 0 and ±h/{self.ratio:g}**k, k = 0 to {self.count - 1}{noise}"

    @cached_property
    def steps(self) -> Array:
        """The sequence of steps, shape (count,), descending from 1."""
        return self.ratio ** -np.arange(self.count, dtype=np.float64)

    @cached_property
    def offsets(self) -> Array:
        """All offsets, shape (points,): 0, then +steps, then -steps, then the noise samples."""
        around = np.arange(self.noise_points) - (self.noise_points - 1) / 2
        noise = [spacing * around for spacing in self.noise_spacings]
        return np.concatenate([[0.0], self.steps, -self.steps, *noise])


QUICK = Stencil(ratio=4.0, count=8)
"""The stencil of the screening, where only tight agreement counts: the wide steps of `FIRST`, 17 evaluations on a line.
"""

FIRST = Stencil(ratio=4.0, count=14, noise_spacings=(2.0**-9, 2.0**-16))
"""The stencil of a detailed check: 47 evaluations on a line."""

CONFIRM = Stencil(ratio=2.7, count=18, noise_spacings=(0.0017, 0.000013))
"""The second stencil, of an unrelated ratio, that confirms a mismatch: 55 evaluations on a line."""

SECOND = {FIRST: CONFIRM, QUICK: Stencil(ratio=2.7, count=11)}
"""The stencil that confirms what another one shows; for the screening, one of the same reach, 23 evaluations."""

FINE = {FIRST: FIRST, QUICK: replace(FIRST, noise_spacings=())}
"""The stencil that shows, with far smaller steps, what another one steps over: down to the last digits in any case."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A function's values on k lines: `values` has shape (k, points, m), `step` (k,) is each line's largest step.

    Row 0 of the points is the centre; the others follow `stencil.offsets`. A line is x + t * direction with
    t = step * offset; `magnitude` (k,) is the largest |x_i / direction_i| over the line's moving coordinates: how far
    one relative rounding of the inputs moves t. `eps` is the unit roundoff of the arithmetic that evaluated f. `floor`
    (m,) is an error of every value that was measured by other means.
    """

    stencil: Stencil
    step: Array
    values: Array
    magnitude: Array
    eps: float
    floor: Array | float = 0.0

    @property
    def row(self) -> Array:
        """The values at the centre and at all steps, but not at the noise samples, (k, 1 + 2 count, m)."""
        return self.values[:, : 1 + 2 * self.stencil.count]

    @property
    def right(self) -> Array:
        """The values at the steps to the right, (k, count, m), the widest first."""
        return self.values[:, 1 : 1 + self.stencil.count]

    @property
    def left(self) -> Array:
        """The values at the steps to the left, (k, count, m), the widest first."""
        return self.row[:, 1 + self.stencil.count :]

    @property
    def differences(self) -> Array:
        """The central differences at all steps, (k, count, m), the widest first."""
        return np.asarray((self.right - self.left) / (2 * self.step[:, None, None] * self.stencil.steps[:, None]))

    @property
    def noise(self) -> Array:
        """The values at the noise samples, (k, spacings, noise points, m)."""
        stencil, (lines, _, outputs) = self.stencil, self.values.shape
        shape = lines, len(stencil.noise_spacings), stencil.noise_points, outputs
        return self.values[:, 1 + 2 * stencil.count :].reshape(shape)

    def within(self, radius: Array) -> Array:
        """Which points lie within a radius (k, m) in t of the centre, boolean (k, points, m)."""
        distances = np.abs(self.stencil.offsets) * self.step[:, None]
        return np.asarray(distances[:, :, None] <= radius[:, None, :])

    def __getitem__(self, chosen: Array | slice) -> Sample:
        """The sample on some of its lines."""
        return replace(self, step=self.step[chosen], values=self.values[chosen], magnitude=self.magnitude[chosen])

    def of_outputs(self, chosen: Array | slice) -> Sample:
        """The sample of some of its outputs."""
        floor = self.floor if np.ndim(self.floor) == 0 else np.asarray(self.floor)[..., chosen]
        return replace(self, values=self.values[:, :, chosen], floor=floor)

    def apart(self) -> Sample:
        """Every output as a line of its own, with one output; those of the first line come first."""
        lines, points, outputs = self.values.shape
        values = self.values.transpose(0, 2, 1).reshape(lines * outputs, points, 1)
        return Sample(self.stencil, self.step.repeat(outputs), values, self.magnitude.repeat(outputs), self.eps)


def joined(first: Sample, second: Sample) -> Sample:
    """The lines of both samples, which have one stencil, one number of outputs and one `eps`."""
    step, values, magnitude = (
        np.concatenate([getattr(one, name) for one in (first, second)]) for name in ("step", "values", "magnitude")
    )
    return replace(first, step=step, values=values, magnitude=magnitude)


MANTISSA = 0.4236067977499790
"""No step is a power of two: on such steps the roundings of neighbouring values repeat instead of scattering, so that
lost digits would pass for a slope; and a sample would hit the round numbers at which kinks and periods usually lie.
"""


MANY = 2**14
"""The median of many coordinates is taken over about this many of them, evenly spaced. Temporary arrays are computed
for this many coordinates at a time, so that they stay in the processor's cache."""


def typical_magnitude(x: Array) -> float:
    """The magnitude that a zero coordinate of `x` (n,) is given: the median of the others, within [1e-4, 100], or 1."""
    some = x[:: max(1, x.size // MANY)]
    some = some if some.any() else x
    sizes = np.abs(some[some != 0])
    return min(max(float(np.median(sizes)), 1e-4), 100.0) if sizes.size else 1.0


def least_magnitude(typical: float, eps: float = EPS64) -> float:
    """The least magnitude of a coordinate beside the `typical` one; a smaller coordinate counts as one of this size.

    A function of ordinary scale would change by less than its rounding over smaller steps.
    """
    return float(np.sqrt(eps) / 4 * typical)


def coordinate_steps(x: Array, *, eps: float = EPS64, typical: float | None = None, own: bool = False) -> Array:
    """The largest step of each coordinate, shape (n,), in (0.21 |x|, 0.43 |x|].

    A coordinate that is zero counts as a typical one, and one below the `least_magnitude` as one of that size, or, if
    requested, of its `own`.
    """
    size = np.abs(np.asarray(x, dtype=np.float64))
    usual = typical_magnitude(x) if typical is None else typical
    zero = size == 0
    np.maximum(size, 0.0 if own else least_magnitude(usual, eps), out=size)
    size[zero] = usual
    powers = size.view(np.int64)  # the same memory: a sign, an exponent and a mantissa each
    powers &= 0x7FF0000000000000  # the bits of the exponent
    size *= MANTISSA
    return size


def largest_steps(x: Array, directions: Array, stencil: Stencil, *, eps: float = EPS64, own: bool = False) -> Array:
    """The largest step t of each line x + t * direction, shape (k,): no coordinate moves further than its own step.

    `x` is (n,), `directions` (k, n); a direction of zeros gets the step 1. `eps` is the unit roundoff of the function's
    arithmetic. A stencil that would be mostly finer than the arithmetic resolves (float32) starts one power of two
    wider. `own` is that of `coordinate_steps`.
    """
    usual, lines = typical_magnitude(x), np.full(len(directions), np.inf)
    wider = 2.0 if stencil.ratio ** (1 - stencil.count) < eps else 1.0
    for part in slices(x.size, MANY):
        steps = wider * coordinate_steps(x[part], eps=eps, typical=usual, own=own)
        with np.errstate(divide="ignore"):
            ratios = steps / directions[:, part]
        np.minimum(lines, np.min(np.abs(ratios, out=ratios), axis=1), out=lines)
    return np.where(np.isfinite(lines), lines, 1.0)


@dataclass(frozen=True, eq=False)
class LinePoints:
    """The points x + t * direction on k lines, after x itself; only the rows that are asked for take memory.

    `x` is (n,), `directions` (k, n); `lines` and `moves`, both (p,), say on which line each point is, and its t.

    >>> points = LinePoints.on(np.array([1.0, 2.0]), np.eye(2), np.array([[0.5], [0.25]]))
    >>> len(points), points[1].tolist(), points[1:].tolist()
    (3, [1.5, 2.0], [[1.5, 2.0], [1.0, 2.25]])
    """

    x: Array
    directions: Array
    lines: Array
    moves: Array

    @staticmethod
    def on(x: Array, directions: Array, offsets: Array) -> LinePoints:
        """The point itself, and then line by line those at the line's offsets (k, p)."""
        lines = np.repeat(np.arange(len(directions)), offsets.shape[1])
        return LinePoints(x, directions, np.concatenate([[0], lines]), np.concatenate([[0.0], offsets.ravel()]))

    def __len__(self) -> int:
        return len(self.moves)

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: int | slice | list[int]) -> Array:
        """One point (n,), or some of them (p, n)."""
        points = self.directions[self.lines[rows]]
        points = points * self.moves[rows] if isinstance(rows, int) else points * self.moves[rows][:, None]
        points += self.x
        return np.asarray(points)

    @property
    def nbytes(self) -> int:
        """The memory that they take, in bytes."""
        return int(self.directions.nbytes + self.moves.nbytes)


def same_points(one: Array | LinePoints, other: Array | LinePoints) -> bool:
    """Whether two arrays hold the same points, or the same points are asked for on the same lines."""
    if isinstance(one, LinePoints) and isinstance(other, LinePoints):
        parts = [(one.moves, other.moves), (one.lines, other.lines), (one.directions, other.directions)]
        return all(first is second or np.array_equal(first, second) for first, second in [*parts, (one.x, other.x)])
    if isinstance(one, LinePoints) or isinstance(other, LinePoints) or one.shape != other.shape:
        return False
    return np.array_equal(one[-1], other[-1]) and np.array_equal(one, other)


def sample(
    f: Callable[[Array], Array],
    x: Array,
    directions: Array,
    *,
    stencil: Stencil = FIRST,
    eps: float = EPS64,
    step: Array | None = None,
) -> Sample:
    """Sample `f` on the lines x + t * direction.

    `f` maps points (p, n) to values (p, m) and is called once, with `x` first and then line by line the other offsets.
    `x` is (n,), `directions` (k, n), both float64; `step` (k,) are the largest steps, by default `largest_steps`. `eps`
    is the unit roundoff of the arithmetic that evaluates `f`.

    >>> import numpy as np
    >>> lines = sample(np.sin, np.array([1.0]), np.eye(1))
    >>> lines.values.shape
    (1, 47, 1)
    """
    if step is None:
        step = largest_steps(x, directions, stencil, eps=eps)
    return sample_lines(lambda points: f(points[:]), x, directions, stencil, eps, step)


def sample_lines(
    f: Callable[[LinePoints], Array], x: Array, directions: Array, stencil: Stencil, eps: float, step: Array
) -> Sample:
    """Sample a function of `LinePoints`, which take memory only where they are asked for."""
    offsets = step[:, None] * stencil.offsets[1:]
    flat = np.asarray(f(LinePoints.on(x, directions, offsets)), dtype=np.float64)
    centre = np.broadcast_to(flat[0], (len(directions), 1, flat.shape[-1]))
    values = np.concatenate([centre, flat[1:].reshape(*offsets.shape, flat.shape[-1])], axis=1)
    return Sample(stencil, step, values, _magnitude(x, directions), eps)


def _magnitude(x: Array, directions: Array) -> Array:
    """The largest |x_i / direction_i| over the moving coordinates of each line, (k,)."""
    largest = np.zeros(len(directions))
    for part in slices(x.size, MANY):
        moving = directions[:, part]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = x[part] / moving
        ratios[moving == 0] = 0.0
        np.maximum(largest, np.max(np.abs(ratios, out=ratios), axis=1), out=largest)
    return largest


def slices(n: int, length: int) -> Iterator[slice]:
    """Slices that split n coordinates into parts of `length`; the last one may be shorter."""
    return (slice(start, start + length) for start in range(0, n, length))
