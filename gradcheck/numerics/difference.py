"""First and second derivatives along lines, with error bounds, from central differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from gradcheck.numerics.rounding import Rounding, finest, rounding_of
from gradcheck.numerics.sampling import Sample, Stencil
from gradcheck.numerics.tableau import choose, orderly, vanishing
from gradcheck.typing import Array

RELATIVE = 0.1
"""A bound of at most this share of the value is conclusive."""

ABSOLUTE = 1e-6
"""For derivatives near zero, a bound of at most this share of max |f| / radius**order is conclusive, too."""

EXCLUSION = 10.0
"""Whatever departs from an estimate by more than this many error bounds is another value."""

TIGHT = 2.0**13
"""A bound of at most this many roundings of f and of x f', over the radius, is one that more values cannot improve."""

INSIDE = 4.0
"""Noise samples lie well inside the radius if this many times their span fits into it."""


@dataclass(frozen=True)
class Estimate:
    """A derivative along each of k lines, of each of m outputs; all arrays have the shape (k, m).

    `value` is the derivative with respect to t, `bound` its error bound, `radius` the widest step that the value
    rests on. `little` is 1e-6 of the largest |f| within the radius, over the radius: a negligible derivative for a
    function of this size. `conclusive`: the bound is at most a tenth of the value, or at most `little`. Where there is
    no estimate, the value is NaN, the bound infinite, and the radius and `little` are 0.
    """

    value: Array
    bound: Array
    conclusive: Array
    radius: Array
    little: Array

    def __getitem__(self, chosen: Array | slice) -> Estimate:
        """The estimate on some of its lines."""
        return Estimate(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def replaced(self, places: Array, other: Estimate) -> Estimate:
        """The estimate with some of its lines replaced by those of another one."""
        arrays = [np.array(getattr(self, field.name)) for field in fields(self)]
        for array, field in zip(arrays, fields(self), strict=True):
            array[places] = getattr(other, field.name)
        return Estimate(*arrays)

    def better(self, other: Estimate) -> Estimate:
        """Entry by entry, the estimate that is conclusive; if both or neither are, that with the smaller bound."""
        alike = self.conclusive == other.conclusive
        return self.where(np.where(alike, other.bound < self.bound, other.conclusive), other)

    def where(self, chosen: Array, other: Estimate) -> Estimate:
        """The estimate with the chosen entries (k, m) of another one."""
        return Estimate(*(np.where(chosen, getattr(other, f.name), getattr(self, f.name)) for f in fields(self)))

    @property
    def turned(self) -> Estimate:
        """The estimate with lines and outputs exchanged."""
        return Estimate(*(getattr(self, field.name).T for field in fields(self)))


def first_difference(sample: Sample, rounding: Rounding | None = None) -> Estimate:
    """The first derivative along every line.

    Central differences over a geometric sequence of steps, extrapolated (Romberg; Ridders 1982, "Accurate computation
    of F'(x) and F'(x) F''(x)"). The bound adds truncation, from successive columns, rounding, from `rounding_of`, and
    the jump between the one-sided slopes, where f(x) shows one. `rounding` is that of the sample, if it is known
    already.

    >>> import numpy as np
    >>> from gradcheck.numerics.sampling import sample
    >>> estimate = first_difference(sample(np.sin, np.array([1.0]), np.eye(1)))
    >>> bool(abs(estimate.value[0, 0] - np.cos(1.0)) <= estimate.bound[0, 0] < 1e-11)
    True
    """
    with np.errstate(all="ignore"):
        rounding = rounding or rounding_of(sample)
        errors = rounding.values / rounding.steps
        centre = sample.values[:, :1]
        sizes = np.maximum(np.abs(sample.right - centre), np.abs(sample.left - centre)).transpose(1, 0, 2)
        jump = _jump(rounding, sample.stencil.ratio)
        return _estimate(rounding, sample.stencil, rounding.slopes, errors, sizes / rounding.steps, jump)


def crude_difference(sample: Sample) -> tuple[Array, Array]:
    """A cheap first derivative along every line, and its approximate error; (k, m) each.

    Of the differences that are extrapolated once, it is the one that is nearest to both of its neighbours.

    >>> import numpy as np
    >>> from gradcheck.numerics.sampling import sample
    >>> value, error = crude_difference(sample(np.sin, np.array([1.0]), np.eye(1)))
    >>> bool(abs(value[0, 0] - np.cos(1.0)) < 1e-9), bool(error[0, 0] < 1e-8)
    (True, True)
    """
    square = sample.stencil.ratio**2
    with np.errstate(all="ignore"):
        slopes = sample.differences
        extrapolated = (square * slopes[:, 1:] - slopes[:, :-1]) / (square - 1)
        gaps = np.abs(np.diff(extrapolated, axis=1))
        errors = np.maximum(gaps[:, 1:], gaps[:, :-1])
    best = np.argmin(np.where(np.isnan(errors), np.inf, errors), axis=1)[:, None]
    value, error = (np.take_along_axis(array, best, axis=1)[:, 0] for array in (extrapolated[:, 1:-1], errors))
    return value, error


def _estimate(
    rounding: Rounding,
    stencil: Stencil,
    column: Array,
    errors: Array,
    sizes: Array,
    jump: Array | float,
    *,
    order: int = 1,
) -> Estimate:
    """The best entry of the tableau over a column of differences, with `jump` (k, m) or else noise added to its bound.

    Where a function is smooth up to the radius, noise samples well inside show nothing but noise: digits that its inner
    values lose in stairs too wide for the finest differences. The `lost` digits count whatever the radius. Where that
    is not conclusive, the `sizes` of the differences on either side may show that the derivative vanishes.
    """
    value, bound, widest, finest_step = choose(column, errors, rounding.resolved, stencil)
    valid = np.isfinite(bound)
    lines, outputs = np.ogrid[: valid.shape[0], : valid.shape[1]]
    radius = np.where(valid, rounding.steps[widest, lines, 0], 0.0)
    inside = (INSIDE * rounding.spans)[:, :, None] <= radius[:, None]
    seen = np.maximum(np.where(inside, rounding.level, 0.0).max(axis=1, initial=0.0), rounding.lost)
    noise = np.maximum(seen - rounding.values[finest_step, lines, outputs], 0.0)
    noise = order**2 * noise / rounding.steps[finest_step, lines, 0] ** order
    bound = np.where(valid, bound + np.where(jump > 0, jump, noise), np.inf)
    little = np.where(valid, ABSOLUTE * rounding.sizes[widest, lines, outputs] / radius**order, 0.0)
    conclusive = valid & ((bound <= RELATIVE * np.abs(value)) | (bound <= little))
    estimate = Estimate(value, bound, conclusive, radius, little)
    if conclusive.all():
        return estimate
    least, widest = vanishing(sizes, errors, rounding.resolved, stencil)
    radius = rounding.steps[widest, lines, 0]
    little = ABSOLUTE * rounding.sizes[widest, lines, outputs] / radius**order
    none = ~conclusive & np.isfinite(least) & (least <= little)
    return estimate.where(none, Estimate(np.zeros_like(least), least, none, radius, little))


def _jump(rounding: Rounding, ratio: float) -> Array:
    """Half the jump between the slopes on both sides, 0 where rounding explains it, shape (k, m).

    For a smooth function (f(x + h) + f(x - h) - 2 f(x)) / (2 h) is an odd series in h; extrapolated twice, it vanishes
    like h**5. At a kink it does not; the smallest of the finest values counts.
    """
    halves = rounding.seconds / (2 * rounding.steps)
    errors = (rounding.values + rounding.centre) / rounding.steps
    cube = ratio**3
    limits = np.abs(cube * ratio * halves[2:] - (cube + ratio) * halves[1:-1] + halves[:-2])
    blurred = cube * ratio * errors[2:] + (cube + ratio) * errors[1:-1] + errors[:-2]
    shown = finest(rounding.resolved)[2:, :, None] & (limits > blurred)
    smallest = np.min(limits, axis=0, where=shown, initial=np.inf) / ((cube - 1) * (ratio - 1))
    return np.asarray(np.where(shown.any(axis=0), smallest, 0.0))


def tight(estimate: Estimate, sample: Sample) -> Estimate:
    """The first difference of a sample, conclusive only where nothing but rounding limits it.

    There the bound is at most `TIGHT` eps (|f| + |x f'|) / L, with the largest |f| within the radius L.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.max(np.abs(sample.values), axis=1, where=sample.within(estimate.radius), initial=0.0)
        size += sample.magnitude[:, None] * np.abs(estimate.value)
        limited = estimate.bound * estimate.radius <= TIGHT * sample.eps * size
    return replace(estimate, conclusive=estimate.conclusive & limited)


def orderly_part(sample: Sample, rounding: Rounding) -> Array:
    """The widest step up to which every output is orderly, as a share of the largest step, (k,); 0 if there is none.

    At orderly steps, the differences change like a series in the square of the step. `rounding` is that of the sample.
    """
    with np.errstate(all="ignore"):
        errors = rounding.values / rounding.steps
        within = orderly(rounding.slopes, errors, rounding.resolved[:, :, None], sample.stencil).all(axis=2)
        return np.asarray(np.where(within, sample.stencil.steps[:, None], 0.0).max(axis=0))


def second_difference(sample: Sample, first: Estimate | None = None, rounding: Rounding | None = None) -> Estimate:
    """The second derivative along every line, from second differences of the values in `sample`.

    Only steps inside the radius that `first` (the first difference of the same sample) validated are used; without a
    radius there is no estimate. Conclusive as for the first derivative, with the square of the radius. `rounding` is
    that of the sample; both are computed if they are not given.

    >>> import numpy as np
    >>> from gradcheck.numerics.sampling import sample
    >>> estimate = second_difference(sample(np.sin, np.array([1.0]), np.eye(1)))
    >>> bool(abs(estimate.value[0, 0] + np.sin(1.0)) <= estimate.bound[0, 0] < 1e-9)
    True
    """
    with np.errstate(all="ignore"):
        rounding = rounding or rounding_of(sample)
        first = first or first_difference(sample, rounding)
        square = rounding.steps**2
        column = np.where(rounding.steps <= first.radius, rounding.seconds / square, np.nan)
        errors = 2 * (rounding.values + rounding.centre) / square
        return _estimate(rounding, sample.stencil, column, errors, np.abs(column), 0.0, order=2)


def difference_quotient(f: Callable[[Array], Array], x: Array, direction: Array, step: float | Array) -> Array:
    """The plain central differences (f(x + h d) - f(x - h d)) / 2h along directions; they carry no error bound.

    For tables, drawings and scripts, which show what a reader would compute by hand; `first_difference` decides. `f`
    maps points (p, n) to values (p, ...) and is called once. Points `x` (..., n), directions d (..., n) and steps h
    (...) broadcast; the result has their shape before that of a value.

    >>> import numpy as np
    >>> print(difference_quotient(lambda x: x**2, np.array([3.0]), np.array([1.0]), 2.0**-10))
    [6.]
    """
    steps = np.asarray(step, dtype=np.float64)
    moves = steps[..., None] * direction
    sides = np.stack([x + moves, x - moves])
    _, *shape, size = sides.shape
    values = np.asarray(f(sides.reshape(2 * math.prod(shape), size)))
    ahead, behind = values.reshape(2, *shape, *values.shape[1:])
    widths = 2 * np.broadcast_to(steps, shape)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((ahead - behind) / widths.reshape(*shape, *[1] * (values.ndim - 1)))
