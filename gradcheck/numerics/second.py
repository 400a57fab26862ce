"""Second derivatives along lines, with error bounds, from the same function values."""

from __future__ import annotations

import numpy as np

from gradcheck.numerics.difference import Estimate, estimate
from gradcheck.numerics.rounding import Rounding, rounding_of
from gradcheck.numerics.stencil import Sample
from gradcheck.numerics.tableau import choose


def second_difference(sample: Sample, first: Estimate, rounding: Rounding | None = None) -> Estimate:
    """The second derivative along every line, from second differences of the values in `sample`.

    Only steps inside the radius that `first` (the first difference of the same sample) validated are used; where that
    has none, nothing can be said. Conclusive as for the first derivative, with the square of the radius. `rounding` is
    that of the sample, if it is known already.

    >>> import numpy as np
    >>> from gradcheck.numerics.difference import first_difference
    >>> from gradcheck.numerics.sampling import sample
    >>> lines = sample(np.sin, np.array([1.0]), np.eye(1))
    >>> estimate = second_difference(lines, first_difference(lines))
    >>> bool(abs(estimate.value[0, 0] + np.sin(1.0)) <= estimate.bound[0, 0] < 1e-9)
    True
    """
    with np.errstate(all="ignore"):
        rounding = rounding or rounding_of(sample)
        square = rounding.steps**2
        bends = np.where(rounding.steps <= first.radius, rounding.bends / square, np.nan)
        errors = 2 * (rounding.values + rounding.centre) / square
        choice = choose(bends, errors, rounding.resolved, sample.stencil)
        return estimate(choice, np.zeros_like(choice.bound), rounding, order=2)
