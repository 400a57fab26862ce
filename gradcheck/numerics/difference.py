"""First derivatives along lines, with error bounds, from central differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.numerics.rounding import Rounding, rounding_of
from gradcheck.numerics.stencil import EPS64, Sample
from gradcheck.numerics.tableau import Choice, choose, extrapolate

Array = np.ndarray[Any, Any]

RELATIVE = 0.1
ABSOLUTE = 1e-6


@dataclass(frozen=True)
class Estimate:
    """A derivative along each of k lines, of each of m outputs; all arrays have the shape (k, m).

    `value` is the derivative with respect to t, `bound` its error bound, `radius` the largest step that the value
    rests on. `conclusive`: the bound is at most a tenth of the value, or at most 1e-6 of the largest |f| within the
    radius, over the radius. Where nothing could be said the value is NaN, the bound infinite.
    """

    value: Array
    bound: Array
    conclusive: Array
    radius: Array


def first_difference(sample: Sample) -> Estimate:
    """The first derivative along every line.

    Central differences over a geometric row of steps, extrapolated (Romberg; Ridders 1982, "Accurate computation of F'(x)
    and F'(x) F''(x)"). The bound adds truncation, from successive columns, and rounding, from `rounding_of`.

    >>> import numpy as np
    >>> from gradcheck.numerics.sampling import sample
    >>> estimate = first_difference(sample(np.sin, np.array([1.0]), np.eye(1)))
    >>> bool(abs(estimate.value[0, 0] - np.cos(1.0)) <= estimate.bound[0, 0] < 1e-11)
    True
    """
    with np.errstate(all="ignore"):
        rounding = rounding_of(sample)
        values, errors = extrapolate(rounding.slopes, rounding.pairs / rounding.steps, sample.stencil)
        return estimate(choose(values, errors, rounding.resolved, sample.stencil), rounding, sample, order=1)


def estimate(choice: Choice, rounding: Rounding, sample: Sample, *, order: int) -> Estimate:
    """Applies the rule for conclusive to the entry chosen."""
    valid = np.isfinite(choice.bound)
    radius = np.where(valid, rounding.steps[choice.widest, np.arange(len(sample.step))[:, None], 0], 0.0)
    bound = np.where(valid, choice.bound + 4 * EPS64 * np.abs(choice.value), np.inf)
    size = np.take_along_axis(rounding.sizes, choice.widest[None], axis=0)[0]
    small = ABSOLUTE * np.maximum(size, rounding.zero) / radius**order
    conclusive = valid & ((bound <= RELATIVE * np.abs(choice.value)) | (bound <= small))
    return Estimate(choice.value, bound, conclusive, radius)
