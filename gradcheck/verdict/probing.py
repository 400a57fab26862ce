"""Large Jacobians: random probes from both sides, and a search for one wrong entry where a test fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.finding import Reason
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.directions import axes, cotangents, magnitudes, probe_directions
from gradcheck.numerics.locate import locate_entry, probe_tests
from gradcheck.numerics.smoothness import Smoothness, classify
from gradcheck.verdict.entries import AGREE, INCONCLUSIVE, MISMATCH, Entries, Tolerance, code_of
from gradcheck.verdict.first import compare_first, settle
from gradcheck.verdict.observation import observe, ulp_rounding

Array = np.ndarray[Any, Any]

SMALL = 24
"""Up to so many coordinates (outputs) are looked at one by one."""
ROWS = 64
SPLITS = 256
SEARCHES = 4
ROUGH = (Smoothness.KINK, Smoothness.JUMP, Smoothness.SINGULAR)


@dataclass(frozen=True)
class Table:
    """Entries with their places: `columns` (a coordinate a line, or None for a probe), `rows` likewise for outputs."""

    entries: Entries
    columns: tuple[int | None, ...]
    rows: tuple[int | None, ...]


def first_order(problem: Problem, tolerance: Tolerance, probes: int) -> list[Table]:
    """All first derivatives: one by one while there are few, by `probes` random ones on each side beyond that.

    Raises DerivativeRaisedError and WrongShapeError.
    """
    n, m = problem.point.size, problem.outputs
    if n <= SMALL and m <= SMALL:
        return [Table(compare_first(problem, axes(n), axes(m), tolerance).entries, tuple(range(n)), tuple(range(m)))]
    return _Probing(problem, tolerance, probes).tables()


@dataclass(frozen=True)
class _Probing:
    problem: Problem
    tolerance: Tolerance
    probes: int

    def tables(self) -> list[Table]:
        rng = np.random.default_rng(0)
        n = self.problem.point.size
        scale = magnitudes(self.problem.point)
        directions = axes(n) if n <= SMALL else probe_directions(rng, self.probes, scale)
        sample = observe(self.problem, directions, None)
        estimate = first_difference(sample)
        left = self._left(rng, estimate)
        rough = ~estimate.conclusive.all(axis=0)
        table, wrong = self._test(directions, estimate, left, rough)
        if wrong is not None and not self.problem.smooth:
            rough = rough | np.isin(classify(sample).kind, ROUGH).any(axis=0)
            table, wrong = self._test(directions, estimate, left, rough)
        found = [table]
        while wrong is not None and len(found) <= SEARCHES:
            located = self._search(directions[wrong[0]], left[wrong[1]] * ~rough, rng)
            if located is None:
                break
            found.append(self._entry(*located))
            if found[-1].entries.any(MISMATCH):
                break
            rough[located[0]] = True
            table, wrong = self._test(directions, estimate, left, rough)
            found[0] = table
        return found + self._one_by_one(np.flatnonzero(rough), directions)

    def _left(self, rng: np.random.Generator, estimate: Estimate) -> Array:
        if self.problem.outputs <= SMALL:
            return axes(self.problem.outputs)
        sizes = np.max(np.where(np.isfinite(estimate.value), np.abs(estimate.value), 0.0), axis=0)
        return cotangents(rng, self.probes, sizes)

    def _test(
        self, directions: Array, estimate: Estimate, left: Array, rough: Array
    ) -> tuple[Table, tuple[int, int] | None]:
        """The probes against each other, without the rough outputs; and the worst failing pair (line, row)."""
        weights = left * ~rough
        value = np.where(rough, 0.0, estimate.value)
        bound = np.where(rough, 0.0, estimate.bound)
        pulled = self.problem.gradients(weights).values
        tests = probe_tests(value, pulled, directions, weights, bound)
        difference = value @ weights.T
        spread = np.abs(value) @ np.abs(weights).T * (self.tolerance.rtol or 0.0)
        spread = spread + (self.tolerance.atol or 0.0) * np.outer(np.abs(directions).sum(1), np.abs(weights).sum(1))
        allowed = np.maximum(10 * tests.bound.T, spread)
        failing = ~(np.abs(tests.residual.T) <= allowed)
        status = np.where(failing, INCONCLUSIVE, AGREE)
        code = np.full(status.shape, code_of(Reason.ILL_CONDITIONED))
        entries = Entries(difference - tests.residual.T, difference, tests.bound.T, allowed, status, code)
        columns = tuple(range(len(directions))) if len(directions) == directions.shape[1] else (None,) * len(directions)
        rows = tuple(range(len(left))) if len(left) == left.shape[1] else (None,) * len(left)
        table = Table(entries, columns, rows)
        if not failing.any():
            return table, None
        with np.errstate(invalid="ignore", divide="ignore"):
            excess = np.where(failing, np.nan_to_num(np.abs(tests.residual.T) / allowed, nan=np.inf), -1.0)
        line, row = np.unravel_index(int(np.argmax(excess)), excess.shape)
        return table, (int(line), int(row))

    def _search(self, direction: Array, weight: Array, rng: np.random.Generator) -> tuple[int, int] | None:
        """One wrong (output, coordinate) behind a failing pair."""

        def difference(masked: Array) -> tuple[Array, Array]:
            estimate = first_difference(observe(self.problem, masked[None, :], None))
            idle = weight == 0
            return np.where(idle, 0.0, estimate.value[0]), np.where(idle, 0.0, estimate.bound[0])

        def pullback(masked: Array) -> Array:
            return self.problem.gradients(masked[None, :]).values[0]

        return locate_entry(difference, pullback, direction, weight, rng=rng)

    def _entry(self, output: int, coordinate: int) -> Table:
        n, m = self.problem.point.size, self.problem.outputs
        axis, row = axes(n)[coordinate : coordinate + 1], axes(m)[output : output + 1]
        return Table(compare_first(self.problem, axis, row, self.tolerance).entries, (coordinate,), (output,))

    def _one_by_one(self, outputs: Array, directions: Array) -> list[Table]:
        """Outputs that are not smooth, or not conclusive, along a probe."""
        looked, n = outputs[:ROWS], self.problem.point.size
        tables = [_unseen(len(outputs) - len(looked))] if len(outputs) > len(looked) else []
        if not len(looked):
            return tables
        rows = np.eye(self.problem.outputs)[looked]
        if n <= SMALL:
            entries = compare_first(self.problem, directions, rows, self.tolerance).entries
            return [*tables, Table(entries, tuple(range(n)), tuple(map(int, looked)))]
        return tables + self._split(directions[0], rows, looked)

    def _split(self, direction: Array, rows: Array, outputs: Array) -> list[Table]:
        """Halve the coordinates, for all these outputs at once, until every output is clear on every part or single."""
        pulled = self.problem.gradients(rows).values
        n, tests, tables = direction.size, 0, []
        waiting, single = [(np.arange(n), np.arange(len(rows)))], np.zeros((n, len(rows)), bool)
        while waiting and tests < SPLITS:
            part, still = waiting.pop(0)
            if len(part) == 1:
                single[part[0], still] = True
                continue
            tests += 1
            line = (direction * np.isin(np.arange(n), part))[None, :]
            entries, clear = self._glance(line, rows[still], pulled[still])
            if clear.any():
                tables.append(Table(_columns(entries, clear), (None,), tuple(int(o) for o in outputs[still[clear]])))
            if not clear.all():
                middle = len(part) // 2
                waiting += [(part[:middle], still[~clear]), (part[middle:], still[~clear])]
        columns = np.flatnonzero(single.any(axis=1))
        if len(columns):
            entries = compare_first(self.problem, np.eye(n)[columns], rows, self.tolerance).entries
            tables.append(Table(entries, tuple(map(int, columns)), tuple(map(int, outputs))))
        unseen = sum(len(part) * len(still) for part, still in waiting)
        return [*tables, _unseen(unseen)] if unseen else tables

    def _glance(self, line: Array, rows: Array, pulled: Array) -> tuple[Entries, Array]:
        """One line against the outputs' pullbacks; clear: smooth along the line, conclusive, and in agreement."""
        sample = observe(self.problem, line, rows)
        autodiff = line @ pulled.T
        rounding = ulp_rounding(autodiff, self.problem.precision)
        entries = settle(autodiff, first_difference(sample), self.tolerance, rounding, factor=1.0)
        clear: Array = (entries.status[0] == AGREE) & ~np.isin(classify(sample).kind[0], ROUGH)
        return entries, clear


def _columns(entries: Entries, keep: Array) -> Entries:
    return Entries(*(getattr(entries, name)[:, keep] for name in Entries.__dataclass_fields__))


def _unseen(count: int) -> Table:
    """Entries that nobody looked at, because that would have cost too much."""
    blank = np.full((count, 1), np.nan)
    status = np.full((count, 1), INCONCLUSIVE)
    code = np.full((count, 1), code_of(Reason.TOO_EXPENSIVE))
    return Table(Entries(blank, blank, blank, blank, status, code), (None,) * count, (None,))
