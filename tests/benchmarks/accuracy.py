"""Calibration of the differences: how often the true derivative lies inside the bound, and how tight the bound is.

    python tests/benchmarks/accuracy.py [--points N] [--confirm] [--no-peers]

prints one table per class of functions, for both orders, then the same functions through numdifftools and
scipy.differentiate (where installed). `outside` and `10x` count conclusive points outside the bound and outside
ten times the bound, `unknown` is the share of the others. `tightness` is the median, over the conclusive points, of
bound / (eps (|f| + |x f'|) / L), eps = 2**-53, which is to stay below 3,000 at first order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import peers
from functions import CANCELLING, SMOOTH, Function

from gradcheck.numerics.difference import Estimate, first_difference, second_difference
from gradcheck.numerics.sampling import CONFIRM, EPS64, FIRST, Sample, Stencil, coordinate_steps

Array = np.ndarray[Any, Any]

PEER_POINTS = 5


@dataclass(frozen=True)
class Row:
    """The results of one function at one order; `outside` are indices of points."""

    name: str
    points: int
    conclusive: int
    outside: Array
    far_outside: Array
    relative_bound: float
    tightness: float
    error_over_bound: float

    def __str__(self) -> str:
        undecided = 100 * (1 - self.conclusive / self.points)
        return (
            f"{self.name:26s} {self.points:6d} {undecided:7.1f}% {len(self.outside):8d} {len(self.far_outside):5d} "
            f"{self.relative_bound:10.1e} {self.tightness:10.0f} {self.error_over_bound:10.1e}"
        )


HEADER = (
    f"{'function':26s} {'points':>6s} {'unknown':>8s} {'outside':>8s} {'10x':>5s} "
    f"{'rel. bound':>10s} {'tightness':>10s} {'err/bound':>10s}"
)


def sampled(function: Function, x: Array, stencil: Stencil) -> Sample:
    """A sample with one line per point x (k,): the same as `sample` gives for each of them alone."""
    step = coordinate_steps(x, typical=1.0)
    values = function(x[:, None] + step[:, None] * stencil.offsets)
    return Sample(stencil, step, values[:, :, None], np.abs(x), EPS64)


def row(name: str, x: Array, values: Array, first: Array, exact: Array, estimate: Estimate) -> Row:
    """Compares an estimate (k, 1) with the exact derivatives (k,)."""
    conclusive = estimate.conclusive[:, 0]
    bound, radius = estimate.bound[:, 0], estimate.radius[:, 0]
    error = np.abs(estimate.value[:, 0] - exact)
    with np.errstate(all="ignore"):
        ratio = error / bound
        tightness = bound * radius / (EPS64 * (np.abs(values) + np.abs(x * first)))
        relative = bound / np.abs(exact)
    chosen = conclusive if conclusive.any() else np.ones_like(conclusive)
    return Row(
        name,
        x.size,
        int(conclusive.sum()),
        np.flatnonzero(conclusive & ~(error <= bound)),
        np.flatnonzero(conclusive & ~(error <= 10 * bound)),
        float(np.median(relative[chosen])),
        float(np.median(tightness[chosen])),
        float(np.median(ratio[chosen])),
    )


def measure(function: Function, points: int, stencil: Stencil, rng: np.random.Generator) -> tuple[Row, Row, list[str]]:
    """Both orders' rows, and a line for every point outside."""
    x = function.draw(rng, points)
    first, second = function.derivatives(x)
    lines = sampled(function, x, stencil)
    estimates = [first_difference(lines)]
    estimates.append(second_difference(lines, estimates[0]))
    values = function(x)
    rows = [
        row(function.name, x, values, first, exact, estimate)
        for exact, estimate in zip((first, second), estimates, strict=True)
    ]
    outside = [
        f"  order {order}  {function.name}  x = {float(x[i])!r}  true {exact[i]:.17g}  "
        f"value {estimate.value[i, 0]:.17g}  bound {estimate.bound[i, 0]:.2e}  "
        f"error/bound {abs(estimate.value[i, 0] - exact[i]) / estimate.bound[i, 0]:.2f}  L {estimate.radius[i, 0]:.1e}"
        for order, result, exact, estimate in zip((1, 2), rows, (first, second), estimates, strict=True)
        for i in result.outside
    ]
    return rows[0], rows[1], outside


def report(title: str, rows: Sequence[Row]) -> None:
    """Prints a table with its totals."""
    points, conclusive = sum(row.points for row in rows), sum(row.conclusive for row in rows)
    outside, far = sum(len(row.outside) for row in rows), sum(len(row.far_outside) for row in rows)
    print(f"\n{title}\n{HEADER}")
    print("\n".join(str(row) for row in rows))
    print(
        f"{len(rows)} functions, {points} points: {conclusive} conclusive, "
        f"{100 * (1 - conclusive / points):.2f} % unknown; {outside} outside the bound "
        f"({100 * (1 - outside / conclusive):.4f} % inside), {far} outside 10 times the bound; "
        f"median relative bound {np.median([row.relative_bound for row in rows]):.1e}, "
        f"worst tightness {max(row.tightness for row in rows):.0f}"
    )


def main() -> int:
    """Runs the benchmark; returns 0."""
    parser = argparse.ArgumentParser(description="Calibration of the finite differences.")
    parser.add_argument("--points", type=int, default=20_000, help="points over all functions of the promised class")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--confirm", action="store_true", help="measure the confirming tableau instead of the first")
    parser.add_argument("--no-peers", action="store_true", help="leave out numdifftools and scipy.differentiate")
    options = parser.parse_args()
    stencil = CONFIRM if options.confirm else FIRST
    each = -(-options.points // len(SMOOTH))
    rng = np.random.default_rng(options.seed)
    evaluations = stencil.offsets.size
    print(f"ratio {stencil.ratio}, {stencil.count} steps, {evaluations} evaluations a point, seed {options.seed}")
    for title, functions in (("small mixed error", SMOOTH), ("internally cancelling", CANCELLING)):
        measured = [measure(function, each, stencil, rng) for function in functions]
        report(f"first order, {title}", [item[0] for item in measured])
        report(f"second order, {title}", [item[1] for item in measured])
        print("\n".join(line for item in measured for line in item[2]))
        if not options.no_peers:
            print(f"\nfirst order, {title}, beside others ({PEER_POINTS} points a function)")
            print(peers.table(functions, PEER_POINTS, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
