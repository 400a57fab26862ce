"""Random probes that miss no single wrong entry of a Jacobian, and the search for the entry that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gradcheck.numerics.difference import EXCLUSION
from gradcheck.numerics.sampling import EPS64, MANY, least_magnitude, slices, typical_magnitude
from gradcheck.typing import Array

FEW_INPUTS = 6
FEW_OUTPUTS = 4
"""Up to these numbers, the screening of first derivatives, and second derivatives, take all axes and all outputs. For
thousands of inputs in float64, the screening takes any number of outputs together."""

PAIR = 8
"""Number of probes for each random cotangent w, which comes with a random direction v of its own (or all axes).

Such pairs are what the screening of first derivatives takes, which compares w . J v where inputs and outputs are more
than a few, and all that second derivatives take, for the whole column H_w v of every output's Hessian at once. An error
e of an entry is there an error of e |w_o v_j|, at least e / 4, whatever is drawn. Two wrong entries that would cancel
leave at most r with a probability of at most 3 r / e, since the product of two magnitudes in [1/2, 1] has a density of
at most 4 ln 2 and the signs are alike in half of the cases; with the resolution r of a column, 1e-9 of its entries and
better, that happens once in 1e8 times. More pairs would add little but their cost.
"""


def axes(places: Iterable[int], n: int) -> Array:
    """The unit vectors of some of n coordinates, shape (number of places, n).

    >>> axes([2, 0], 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    columns = np.fromiter(places, dtype=np.int64)
    vectors = np.zeros((columns.size, n))
    vectors[np.arange(columns.size), columns] = 1.0
    return vectors


def probe_directions(rng: np.random.Generator, count: int, scale: Array) -> Array:
    """Random directions, shape (count, n): a random sign times a magnitude uniform in [1/2, 1], times `scale` (n,).

    Plain signs make two wrong entries of equal size cancel with probability 1/2; unit-normalised directions lose a
    single wrong entry as n grows.

    >>> np.abs(probe_directions(np.random.default_rng(0), 2, np.array([1.0, 100.0]))) >= [0.5, 50.0]
    array([[ True,  True],
           [ True,  True]])
    """
    drawn = _signed(rng, (count, np.size(scale)))
    drawn *= scale
    return drawn


def directions_at(rng: np.random.Generator, count: int, x: Array) -> Array:
    """The `probe_directions` (count, n) times the `magnitudes` of x (n,).

    A coordinate that is far smaller than the typical one moves as far as it does alone; otherwise its derivative would
    not show beside the others.
    """
    drawn, usual = _signed(rng, (count, x.size)), typical_magnitude(x)
    for part in slices(x.size, MANY):
        drawn[:, part] *= np.maximum(magnitudes(x[part], usual), least_magnitude(usual))
    return drawn


def _signed(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Random signs times magnitudes in [1/2, 1]; drawn in parts, since touching new memory is slower than drawing."""
    drawn = np.empty(shape)
    parts = [drawn.reshape(-1)[part] for part in slices(drawn.size, MANY)]
    for part in parts:
        part[:] = rng.choice([-1.0, 1.0], size=part.size)
    for part in parts:
        part *= rng.uniform(0.5, 1.0, size=part.size)
    return drawn


def cotangents(rng: np.random.Generator, count: int, scale: Array) -> Array:
    """Random cotangents for m outputs, shape (count, m): `probe_directions`, divided by the outputs' magnitudes.

    Dividing by `scale` (m,) makes every output weigh the same in w . f, whatever its own magnitude; a scale of 0
    counts as 1.
    """
    scale = np.asarray(scale, dtype=np.float64)
    return probe_directions(rng, count, 1.0 / np.where(scale == 0.0, 1.0, scale))


def magnitudes(x: Array, typical: float | None = None) -> Array:
    """Each coordinate's own magnitude, in the shape of x, float64.

    Zeros get `typical`, by default the `typical_magnitude` of the others.
    """
    size = np.abs(np.asarray(x, dtype=np.float64))
    zero = size == 0.0
    if zero.any():
        size[zero] = typical_magnitude(size) if typical is None else typical
    return size


Difference = Callable[[Array], tuple[Array, Array]]
Pullback = Callable[[Array], Array]

ATTEMPTS = 4
"""Number of times that the bisection is started with other halves."""

PRODUCTS = 16 * EPS64
"""The relative rounding of the sums of products in a test."""


@dataclass(frozen=True)
class ProbeTests:
    """All tests w_i . (J u_j) = (J^T w_i) . u_j of left probes w against right probes u, each array (left, right).

    `residual` is the left side, from differences, less the right side, from autodiff; `bound` is its error bound,
    `contribution` the largest single product in either sum, `size` the sum of the magnitudes of the products on the
    right side, and `largest` the largest of these. An entry of J that is wrong by e contributes at least e |w_a u_b| to
    the residual.
    """

    residual: Array
    bound: Array
    contribution: Array
    size: Array
    largest: Array


def probe_tests(
    difference: Array, autodiff_pullbacks: Array, directions: Array, cotangents: Array, bound: Array | float = 0.0
) -> ProbeTests:
    """Combine k right and l left probes into l * k tests.

    `difference` (k, m) are the directional derivatives J u_j with error bounds `bound` (broadcast to (k, m)),
    `autodiff_pullbacks` (l, n) the J^T w_i, `directions` (k, n) the u_j and `cotangents` (l, m) the w_i. With
    components that are a random sign times a magnitude in [1/2, 1], a wrong Jacobian passes all k * k tests with a
    probability of at most 2**(1 - k): half of the left probes see nothing of it, or half of the right ones (Freivalds
    1977).
    """
    bound = np.broadcast_to(np.asarray(bound, dtype=np.float64), difference.shape)
    left, right = cotangents @ difference.T, autodiff_pullbacks @ directions.T
    left_size, left_largest = _sizes(cotangents, difference)
    size, largest = _sizes(autodiff_pullbacks, directions)
    bounds = np.abs(cotangents) @ bound.T + PRODUCTS * (left_size + size)
    return ProbeTests(left - right, bounds, np.maximum(left_largest, largest), size, largest)


def _sizes(ones: Array, others: Array) -> tuple[Array, Array]:
    """The sum of the magnitudes of the products of each of `ones` (l, n) and of `others` (k, n), and the largest."""
    sums, largest = np.zeros((2, len(ones), len(others)))
    for place, one in enumerate(ones):
        for part in slices(one.size, MANY):
            products = np.abs(one[part] * others[:, part])
            sums[place] += products.sum(axis=1)
            np.maximum(largest[place], products.max(axis=1), out=largest[place])
    return sums, largest


def locate(score: Callable[[Array], float], n: int, *, rng: np.random.Generator) -> int | None:
    """Find one wrong coordinate of n by bisection, in about log2(n) + 2 tests.

    `score(mask)` tests the coordinates of a boolean mask (n,) together: |score| > 1 says that something among them is
    wrong. Where the first half passes, the error is taken to be in the second; the last coordinate is tested by
    itself. If it passes, two errors had cancelled, and the bisection is repeated with other halves. Returns None
    where all coordinates together pass (draw other probes) or no attempt holds.
    """
    order = np.arange(n)

    def wrong(among: Array) -> bool:
        return abs(score(np.isin(np.arange(n), among))) > 1.0

    if not wrong(order):
        return None
    for _ in range(ATTEMPTS):
        among = order
        while len(among) > 1:
            first, second = among[: len(among) // 2], among[len(among) // 2 :]
            among = first if wrong(first) else second
        if wrong(among):
            return int(among[0])
        order = rng.permutation(n)
    return None


def locate_entry(
    difference: Difference, pullback: Pullback, direction: Array, cotangent: Array, *, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Find one wrong entry (output, input) of a Jacobian, given a probe pair whose test is wrong.

    `difference(u)` returns J u and its error bound, both (m,), for a direction (n,); `pullback(w)` returns J^T w (n,)
    for a cotangent (m,). Bisects the inputs of `direction` (n,) first, with about log2(n) differences, then the
    outputs of `cotangent` (m,) with about log2(m) pullbacks. Returns None where the pair's test passes or its error
    is not found.
    """
    row = pullback(cotangent)

    def inputs(mask: Array) -> float:
        value, bound = difference(direction * mask)
        return _score(value, bound, row, direction * mask, cotangent)

    column = locate(inputs, direction.size, rng=rng)
    if column is None:
        return None
    single = np.where(np.arange(direction.size) == column, direction, 0.0)
    value, bound = difference(single)

    def outputs(mask: Array) -> float:
        return _score(value, bound, pullback(cotangent * mask), single, cotangent * mask)

    output = locate(outputs, cotangent.size, rng=rng)
    return None if output is None else (output, column)


def _score(value: Array, bound: Array, row: Array, direction: Array, cotangent: Array) -> float:
    # A NaN outside of the masks must not spread through 0 * NaN.
    row = np.where(direction != 0.0, row, 0.0)
    value, bound = np.where(cotangent != 0.0, value, 0.0), np.where(cotangent != 0.0, bound, 0.0)
    test = probe_tests(value[None], row[None], direction[None], cotangent[None], bound[None])
    allowed = EXCLUSION * float(test.bound[0, 0])
    residual = abs(float(test.residual[0, 0]))
    if np.isnan(residual):
        return np.inf
    return residual / allowed if allowed > 0 else (np.inf if residual > 0 else 0.0)
