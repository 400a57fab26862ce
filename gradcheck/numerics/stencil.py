"""Where a function is sampled on a line: at a geometric row of steps to both sides, and at noise samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

EPS64 = 2.0**-53
"""The unit roundoff of float64."""


@dataclass(frozen=True)
class Stencil:
    """A row of `count` steps 1, 1/ratio, 1/ratio**2, … on both sides, and two equidistant rows for the noise.

    All offsets are multiples of a largest step that is chosen for each line. `noise_spacings` are two (or more)
    multiples of the largest step; `noise_points` equidistant points around 0 are sampled at each.
    """

    ratio: float
    count: int
    noise_spacings: tuple[float, ...]
    noise_points: int

    @cached_property
    def steps(self) -> Array:
        """The row of steps, shape (count,), descending from 1."""
        return self.ratio ** -np.arange(self.count, dtype=np.float64)

    @cached_property
    def offsets(self) -> Array:
        """All offsets, shape (points,): 0, then +steps, then -steps, then the noise samples."""
        around = np.arange(self.noise_points) - (self.noise_points - 1) / 2
        noise = [spacing * around for spacing in self.noise_spacings]
        return np.concatenate([[0.0], self.steps, -self.steps, *noise])


FIRST = Stencil(ratio=4.0, count=14, noise_spacings=(2.0**-9, 2.0**-16), noise_points=9)
"""The tableau that every check takes: 47 evaluations on a line."""

CONFIRM = Stencil(ratio=2.7, count=18, noise_spacings=(0.0017, 0.000013), noise_points=9)
"""The second tableau, of an unrelated ratio, that confirms a mismatch: 55 evaluations on a line."""


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
    def noise(self) -> Array:
        """The values at the noise samples, (k, spacings, noise points, m)."""
        stencil, (lines, _, outputs) = self.stencil, self.values.shape
        shape = lines, len(stencil.noise_spacings), stencil.noise_points, outputs
        return self.values[:, 1 + 2 * stencil.count :].reshape(shape)

    def lines(self, chosen: Array | slice) -> Sample:
        """The sample on some of its lines."""
        return replace(self, step=self.step[chosen], values=self.values[chosen], magnitude=self.magnitude[chosen])

    def apart(self) -> Sample:
        """Every output as a line of its own, with one output; those of the first line come first."""
        lines, points, outputs = self.values.shape
        values = self.values.transpose(0, 2, 1).reshape(lines * outputs, points, 1)
        return Sample(self.stencil, self.step.repeat(outputs), values, self.magnitude.repeat(outputs), self.eps)


def joined(first: Sample, second: Sample) -> Sample:
    """The lines of both samples, which have one stencil, one number of outputs and one `eps`."""
    return Sample(
        first.stencil,
        np.concatenate([first.step, second.step]),
        np.concatenate([first.values, second.values]),
        np.concatenate([first.magnitude, second.magnitude]),
        first.eps,
    )
