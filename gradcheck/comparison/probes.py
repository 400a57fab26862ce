"""Which derivatives are compared: all while they are few, beyond that random probes, and a search where one fails.

Random probes come first wherever they are cheaper, and are enough where they agree and hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.comparison.closer import closer_look
from gradcheck.comparison.first_order import compare_first
from gradcheck.comparison.lines import (
    LITTLE,
    Lines,
    first_look,
    sample_values,
    sharp_beside,
    some_rows,
    ulp_rounding,
)
from gradcheck.comparison.own_rounding import slope_rounding
from gradcheck.comparison.second_order import SHARE, WIDE
from gradcheck.comparison.tables import EXCLUSION, Comparison, Tolerance, combined, compare
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.one_sided import ROUGH, classify
from gradcheck.numerics.probing import (
    FEW_INPUTS,
    FEW_OUTPUTS,
    PAIR,
    axes,
    cotangents,
    locate_entry,
    probe_directions,
    probe_tests,
)
from gradcheck.numerics.sampling import CONFIRM, EPS64, FIRST, QUICK, Sample, Stencil
from gradcheck.result import Reason, Verdict

Array = np.ndarray[Any, Any]

PROBES = 8
"""So many random probes of each side are taken, where nothing else is asked for."""

SMALL = 24
"""Up to so many coordinates (outputs) a close look takes them one by one."""

FAINT = 1e-6
"""A first look at up to `SMALL` coordinates (outputs) together is enough where each shows to this share of itself.

In less than float64, whose roundings add up in a sum, to the square root of its unit roundoff: 2.4e-4 in float32.
"""

GLANCES = 4
"""What does not show beside the others is taken together without them so many times at most."""

ROWS = 64
SPLITS, SPLIT_VALUES = 256, 2**26
"""Coordinates are split so many times at most, fewer where the points of all splits would hold more numbers than that.
"""

ROUNDING = 0.01
SEARCHES = 4


def first_order(problem: Problem, tolerance: Tolerance, probes: int) -> list[Comparison]:
    """All first derivatives: one by one while there are few, by `probes` random ones on each side beyond that.

    Of functions, whose values are dear, a random pair comes first, and is enough where it agrees and shows every entry.
    Raises DerivativeRaisedError and WrongShapeError.
    """
    n, m = problem.point.size, problem.outputs
    rng = np.random.default_rng(0)
    if not problem.batched and (n > FEW_INPUTS or m > SMALL):
        # A gradient of each of a few outputs of a large function is dear; in less than float64 a sum would hide some.
        outputs = 1 if n > WIDE and problem.precision <= EPS64 else FEW_OUTPUTS
        light = _Probing.of(problem, tolerance, FEW_INPUTS, outputs, probes // PAIR, rng)
        if table := light.quickly():
            return [table]
    if n <= SMALL and m <= SMALL:
        return [one_by_one(problem, tolerance, range(n), range(m))]
    probing = _Probing.of(problem, tolerance, SMALL, SMALL, probes, rng)
    finite = np.isfinite(problem.gradients(probe_directions(rng, 1, np.ones(m))).values[0])
    apart = _apart(problem, tolerance, np.flatnonzero(~finite))
    if not finite.any():
        return apart
    return apart + probing.where(finite).tables()


def _apart(problem: Problem, tolerance: Tolerance, columns: Array) -> list[Comparison]:
    """Coordinates whose gradient is not finite, one by one, for the outputs that depend on them."""
    if not len(columns):
        return []
    looked = columns[:SMALL]
    estimate = first_difference(sample_values(problem, axes(looked, problem.point.size)))
    touched = (~estimate.conclusive | (np.abs(estimate.value) > estimate.bound)).any(axis=0)
    outputs = np.flatnonzero(touched)[:SMALL] if touched.any() else np.zeros(1, int)
    return [one_by_one(problem, tolerance, looked, outputs), *_too_expensive(len(columns) - len(looked))]


def one_by_one(
    problem: Problem, tolerance: Tolerance, coordinates: Iterable[int], outputs: Iterable[int]
) -> Comparison:
    """The entries of some coordinates and outputs."""
    columns, rows = tuple(map(int, coordinates)), tuple(map(int, outputs))
    lines, weights = axes(columns, problem.point.size), axes(rows, problem.outputs)
    return replace(compare_first(problem, lines, weights, tolerance), columns=columns, rows=rows)


@dataclass(frozen=True)
class _Glance:
    """Random probes that agree, and which coordinates (n,) and outputs (m,) an error of a small share would show of.

    Of a coordinate whose derivative is zero, or rounding beside the others, it is a share of the largest derivative.
    All need not show where there are more of them than a close look takes one by one.
    """

    table: Comparison
    coordinates: Array
    outputs: Array


def _side_by_side(tables: Sequence[Comparison]) -> Comparison:
    """The columns of tables of the same entries as one table."""
    first, *others = tables
    if not others:
        return first
    whole = combined(lambda *arrays: np.concatenate(arrays, axis=1), *tables)
    contribution = np.concatenate([np.asarray(table.contribution) for table in tables], axis=1)
    return replace(whole, rows=sum((table.rows for table in tables), ()), contribution=contribution)


@dataclass(frozen=True)
class _Probing:
    """`directions` (k, n), the coordinates behind them, and where the gradient is `finite` (n,): the rest is apart.

    Outputs are taken together, in `probes` random combinations, where there are more than `outputs` of them.
    """

    problem: Problem
    tolerance: Tolerance
    directions: Array
    columns: tuple[int | None, ...]
    finite: Array
    outputs: int
    probes: int
    rng: np.random.Generator

    @staticmethod
    def of(
        problem: Problem, tolerance: Tolerance, inputs: int, outputs: int, probes: int, rng: np.random.Generator
    ) -> _Probing:
        """Up to so many inputs and outputs are probed one by one, more in so many random combinations."""
        n = problem.point.size
        few = n <= inputs
        directions = np.eye(n) if few else problem.directions(rng, probes)
        columns: tuple[int | None, ...] = tuple(range(n)) if few else (None,) * probes
        return _Probing(problem, tolerance, directions, columns, np.ones(n, bool), outputs, probes, rng)

    def where(self, finite: Array) -> _Probing:
        """The same where the gradient is finite (n,)."""
        columns, directions = self.columns, self.directions
        if None not in columns:
            columns, directions = tuple(map(int, np.flatnonzero(finite))), directions[finite]
        return replace(self, directions=directions * finite, columns=columns, finite=finite)

    def _sampled(self, stencil: Stencil, lines: Array, shrink: Array) -> Sample:
        return sample_values(self.problem, some_rows(self.directions, lines), stencil=stencil, shrink=shrink)

    def quickly(self) -> Comparison | None:
        """The probes beside tight estimates from few values, if all agree and hide nothing.

        Outputs, and then coordinates, that do not show beside the others are taken together once more without them.
        """
        estimate = self._tight()
        if estimate is None:
            return None
        left = self._left(estimate)
        pulled = self._pulled(left)
        seen: list[_Glance] = []
        glance = self._glance(estimate, left, pulled)
        while glance is not None and len(seen) <= GLANCES:
            seen.append(glance)
            outputs = ~np.any([one.outputs for one in seen], axis=0)
            coordinates = ~np.any([one.coordinates for one in seen], axis=0)
            if outputs.any():
                some = self._left(estimate) * outputs
                glance = self._glance(estimate, some, self._pulled(some))
            elif coordinates.any():
                narrowed = replace(self, directions=self.directions * coordinates)
                again = narrowed._tight()
                glance = None if again is None else narrowed._glance(again, left, pulled)
            else:
                return _side_by_side([one.table for one in seen])
        return None

    def _tight(self) -> Estimate | None:
        """The derivatives along the directions from few values, where these are enough."""
        sampled = partial(self._sampled, QUICK)

        def enough(estimate: Estimate) -> Estimate:
            return replace(estimate, conclusive=sharp_beside(estimate, SHARE, axis=0))

        estimate = first_look(sampled, len(self.directions), enough)
        return estimate if estimate.conclusive.all() else None

    def _glance(self, estimate: Estimate, left: Array, pulled: Array) -> _Glance | None:
        """The probes with these cotangents (l, m) and autodiff's products with them (l, n), if they agree.

        They agree within a tenth of what is allowed, so that an error of two tenths would have shown.
        """
        table, wrong = self._test(estimate, left, pulled, 0.0)
        if wrong is not None or not table.where(Verdict.AGREE).all() or (table.excess() > 1 / EXCLUSION).any():
            return None
        n, m = self.directions.shape[1], self.problem.outputs
        least = 2 / EXCLUSION * np.max(table.allowed) / max(FAINT, self.problem.precision**0.5)
        coordinates, outputs = np.ones(n, bool), np.ones(m, bool)

        def vanish(parts: Array) -> Array:
            return np.asarray(parts <= LITTLE * self.problem.precision * np.max(parts, axis=2, keepdims=True))

        if len(self.directions) < n <= SMALL:
            moves, slopes = np.abs(self.directions[:, None, :]), np.abs(pulled)
            parts, largest = moves * slopes, np.max(slopes, axis=1, keepdims=True)
            visible = np.where(vanish(parts), moves * largest, parts) >= least * (largest > 0)
            coordinates = np.all(visible, axis=(0, 1))
        if len(left) < m <= SMALL:
            parts = np.abs(estimate.value[:, None, :] * left)
            outputs = np.all(vanish(parts) | (parts >= least), axis=(0, 1))
        return _Glance(table, coordinates, outputs)

    def tables(self) -> list[Comparison]:
        sample = sample_values(self.problem, self.directions)
        estimate = closer_look(self._sampled, sample, first_difference(sample), CONFIRM)
        left = self._left(estimate)
        rough: Array = np.asarray(~estimate.conclusive.all(axis=0))
        rounding: Array = np.zeros((len(self.directions), len(left)))

        def tested() -> tuple[Comparison, tuple[int, int] | None]:
            return self._test(estimate, left * ~rough, self._pulled(left * ~rough), rounding)

        table, wrong = tested()
        if wrong is not None:
            if not self.problem.smooth:
                rough = rough | np.isin(classify(sample).kind, ROUGH).any(axis=0)
            # Autodiff's own rounding in each probe, as far as it is small beside the largest contribution.
            own = slope_rounding(self.problem, table.autodiff, left * ~rough, self.directions)
            measured = np.maximum(own.beside(table.difference - table.bound, table.difference + table.bound), own.lost)
            rounding = np.minimum(measured, ROUNDING * np.asarray(table.contribution))
            table, wrong = tested()
        searched: list[Comparison] = []
        while wrong is not None and len(searched) < SEARCHES:
            line, row = wrong
            located = self._search(self.directions[line], left[row] * ~rough, float(rounding[wrong]))
            if located is None:
                break
            output, coordinate = located
            searched.append(replace(one_by_one(self.problem, self.tolerance, [coordinate], [output]), searched=True))
            if searched[-1].any(Verdict.MISMATCH):
                break
            rough[output] = True
            table, wrong = tested()
        return [*_of_some_output(table, left * ~rough), *searched, *self._outputs_one_by_one(np.flatnonzero(rough))]

    def _left(self, estimate: Estimate) -> Array:
        if self.problem.outputs <= self.outputs:
            return np.eye(self.problem.outputs)
        sizes = np.max(np.where(np.isfinite(estimate.value), np.abs(estimate.value), 0.0), axis=0)
        return cotangents(self.rng, self.probes, sizes)

    def _pulled(self, weights: Array) -> Array:
        values = self.problem.gradients(weights).values
        return values if self.finite.all() else np.where(self.finite, values, 0.0)

    def _test(
        self, estimate: Estimate, weights: Array, pulled: Array, rounding: Array | float
    ) -> tuple[Comparison, tuple[int, int] | None]:
        """The probes against each other, without outputs of no weight; and the worst failing pair (line, row)."""
        used = weights.any(axis=0)
        value, bound = np.where(used, estimate.value, 0.0), np.where(used, estimate.bound, 0.0)
        tests = probe_tests(value, pulled, self.directions, weights, bound)
        rounding = rounding + ulp_rounding(tests.size.T, self.problem.precision)
        difference, residual, noticed = value @ weights.T, tests.residual.T, EXCLUSION * (tests.bound.T + rounding)
        # The error of a probe that does not matter is what a single entry may be off by. Many small errors add up to
        # more, which then is inconclusive: a large one might hide among them.
        farthest = np.maximum(self.directions.max(axis=1), -self.directions.min(axis=1))[:, None]
        absolute = (self.tolerance.atol or 0.0) * farthest * np.abs(weights).max(axis=1)
        largest = np.where(np.isfinite(tests.largest), tests.largest, 0.0).T
        wanted = absolute + (self.tolerance.rtol or 0.0) * largest
        allowed = np.maximum(noticed, wanted)
        failing = ~(np.abs(residual) <= allowed)
        blurred = self.tolerance.given & (noticed > wanted) & (tests.contribution.T > 0)
        table = Comparison.agreeing(difference - residual, difference, tests.bound.T, allowed)
        table = table.marked(blurred, Verdict.INCONCLUSIVE, Reason.TOLERANCE)
        table = table.marked(failing, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
        each = len(weights) == self.problem.outputs
        rows = tuple(range(len(weights))) if each else (None,) * len(weights)
        behind = int(self.finite.sum() * used.sum())
        table = replace(table, columns=self.columns, rows=rows, contribution=tests.contribution.T, behind=behind)
        if not failing.any():
            return table, None
        # What cancels in a combination of outputs leaves its rounding: the surest test is searched.
        spread = ulp_rounding(np.abs(value) @ np.abs(weights).T, self.problem.precision)
        with np.errstate(invalid="ignore", divide="ignore"):
            excess = np.abs(residual) / (allowed + EXCLUSION * spread)
            excess = np.where(failing, np.nan_to_num(excess, nan=np.inf), -1.0)
        line, row = np.unravel_index(int(np.argmax(excess)), excess.shape)
        return table, (int(line), int(row))

    def _search(self, direction: Array, weight: Array, rounding: float) -> tuple[int, int] | None:
        """One wrong (output, coordinate) behind a failing pair, whose rounding is shared out among the outputs."""
        share = rounding / max(float(np.abs(weight).sum()), np.finfo(np.float64).tiny)

        def difference(masked: Array) -> tuple[Array, Array]:
            estimate = first_difference(sample_values(self.problem, masked[None, :]))
            bound = estimate.bound[0] + share + ulp_rounding(estimate.value[0], self.problem.precision)
            return np.where(weight == 0, 0.0, estimate.value[0]), np.where(weight == 0, 0.0, bound)

        return locate_entry(difference, lambda w: self._pulled(w[None, :])[0], direction, weight, rng=self.rng)

    def _outputs_one_by_one(self, outputs: Array) -> list[Comparison]:
        """Outputs that are not smooth, or not conclusive, along a probe."""
        looked = outputs[:ROWS]
        tables = _too_expensive(len(outputs) - len(looked))
        if not len(looked):
            return tables
        rows = axes(looked, self.problem.outputs)
        if None in self.columns:
            return tables + self._split(self.directions[0], rows, looked)
        table = compare_first(self.problem, self.directions, rows, self.tolerance)
        return [*tables, replace(table, columns=self.columns, rows=tuple(map(int, looked)))]

    def _split(self, direction: Array, rows: Array, outputs: Array) -> list[Comparison]:
        """Halve the coordinates, for all these outputs at once, until every output is clear on every part or single."""
        pulled = self._pulled(rows)
        n, tests, tables = direction.size, 0, []
        waiting, single = [(np.arange(n), np.arange(len(rows)))], np.zeros(n, bool)
        most = min(SPLITS, max(1, SPLIT_VALUES // (n * len(FIRST.offsets))))
        while waiting and tests < most:
            part, still = waiting.pop(0)
            if len(part) == 1:
                single[part] = True
                continue
            tests += 1
            line = (direction * np.isin(np.arange(n), part))[None, :]
            values, autodiff = Lines(self.problem, line, rows[still], self.tolerance).values, line @ pulled[still].T
            sample = sample_values(self.problem, line, values)
            rounding = ulp_rounding(autodiff, self.problem.precision)
            entries = compare(autodiff, first_difference(sample), self.tolerance, rounding, factor=1.0)
            clear = entries.where(Verdict.AGREE)[0] & ~np.isin(classify(sample).kind[0], ROUGH)
            if clear.any():
                table = combined(lambda array, keep=clear: array[:, keep], entries)
                tables.append(replace(table, columns=(None,), rows=tuple(map(int, outputs[still[clear]]))))
            if not clear.all():
                middle = len(part) // 2
                waiting += [(part[:middle], still[~clear]), (part[middle:], still[~clear])]
        if single.any():
            tables.append(one_by_one(self.problem, self.tolerance, np.flatnonzero(single), outputs))
        return tables + _too_expensive(sum(len(part) * len(still) for part, still in waiting))


def _of_some_output(table: Comparison, weights: Array) -> list[Comparison]:
    """The comparison of combinations with these weights, without those in which no output is left."""
    shown: Array = np.asarray(weights.any(axis=1))
    if shown.all():
        return [table]
    if not shown.any():
        return []
    kept = combined(partial(np.compress, shown, axis=1), table)
    rows = tuple(table.rows[row] for row in np.flatnonzero(shown))
    return [replace(kept, rows=rows, contribution=np.asarray(table.contribution)[:, shown])]


def _too_expensive(count: int) -> list[Comparison]:
    """So many entries that were not compared, because that would have cost too much."""
    if not count:
        return []
    blank = np.full((count, 1), np.nan)
    table = Comparison.agreeing(blank, blank, blank, blank)
    table = table.marked(np.ones((count, 1), bool), Verdict.INCONCLUSIVE, Reason.TOO_EXPENSIVE)
    return [replace(table, columns=(None,) * count, rows=(None,))]
