"""Second derivatives along lines, with error bounds, from the same function values."""

from __future__ import annotations

import numpy as np

from gradcheck.numerics.difference import Estimate, estimate
from gradcheck.numerics.rounding import rounding_of
from gradcheck.numerics.stencil import Sample
from gradcheck.numerics.tableau import choose, extrapolate


def second_difference(sample: Sample, first: Estimate) -> Estimate:
    """The second derivative along every line, from second differences of the values in `sample`.

    Only steps inside the radius that `first` (the first difference of the same sample) validated are used; where that has
    none, nothing can be said. Conclusive as for the first derivative, with the square of the radius.
    """
    with np.errstate(all="ignore"):
        rounding = rounding_of(sample)
        count = sample.stencil.count
        values = np.moveaxis(sample.values, 1, 0)
        steps = rounding.steps
        bends = (values[1 : 1 + count] + values[1 + count : 1 + 2 * count] - 2 * values[0]) / steps**2
        errors = 2 * (rounding.pairs + rounding.centre) / steps**2
        inside = (steps <= first.radius) & np.isfinite(bends)
        bends = np.where(steps <= first.radius, bends, np.nan)
        entries, carried = extrapolate(bends, np.where(inside, errors, np.inf), sample.stencil)
        return estimate(choose(entries, carried, rounding.resolved, sample.stencil), rounding, sample, order=2)
