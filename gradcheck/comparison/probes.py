"""Which derivatives are compared: all while they are few, beyond that random probes, and a search where one fails.

Random probes come first wherever they are cheaper, and are enough where they agree and hide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from gradcheck.autodiff.problem import Problem
from gradcheck.autodiff.reverse import DerivativeRaisedError, WrongShapeError
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
from gradcheck.comparison.resolution import shares_of, unseen
from gradcheck.comparison.second_order import SHARE, WIDE
from gradcheck.comparison.tables import EXCLUSION, Comparison, Tolerance, combined, compare
from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.one_sided import ROUGH, classify
from gradcheck.numerics.probing import (
    FEW_INPUTS,
    FEW_OUTPUTS,
    PAIR,
    ProbeTests,
    axes,
    cotangents,
    directions_at,
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

SCATTER = 4.0
"""So many times the root of the sum of the squares of many roundings, their signs at random, bounds their sum."""

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
        if tables := light.quickly():
            return tables
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
    return [
        one_by_one(problem, tolerance, looked, outputs),
        *_uncompared(len(columns) - len(looked), Reason.TOO_EXPENSIVE),
    ]


def one_by_one(
    problem: Problem, tolerance: Tolerance, coordinates: Iterable[int], outputs: Iterable[int]
) -> Comparison:
    """The entries of some coordinates and outputs."""
    columns, rows = tuple(map(int, coordinates)), tuple(map(int, outputs))
    lines, weights = axes(columns, problem.point.size), axes(rows, problem.outputs)
    return replace(compare_first(problem, lines, weights, tolerance), columns=columns, rows=rows)


@dataclass(frozen=True)
class _Rows:
    """Cotangents (l, m), and autodiff's products with them (l, n); `wide` takes those of the float64 form."""

    weights: Array
    pulled: Array
    wide: Callable[[], Array | None]

    @cached_property
    def gaps(self) -> Array | None:
        """What the products lost in low precision, (l, n); None where that cannot be told."""
        wide = self.wide()
        return None if wide is None else self.pulled - wide


@dataclass(frozen=True)
class _Glance:
    """Random probes, and which coordinates (n,) and outputs (m,) are seen in them.

    Where few are taken together, an error of a small share of each would show, or of the largest one for a coordinate
    whose derivative is zero, or rounding beside the others. Of many, each source would show an error of a tenth of its
    own share. With a tolerance, all errors show that it does not allow.
    """

    table: Comparison
    coordinates: Array
    outputs: Array


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

    def only(self, coordinates: Array) -> _Probing:
        """Other random probes, of these coordinates (n,) alone."""
        drawn = directions_at(self.rng, len(self.directions), self.problem.point)
        return replace(self, directions=drawn * (coordinates & self.finite))

    def _sampled(self, stencil: Stencil, lines: Array, shrink: Array) -> Sample:
        return sample_values(self.problem, some_rows(self.directions, lines), stencil=stencil, shrink=shrink)

    def quickly(self) -> list[Comparison] | None:
        """The probes beside tight estimates from few values, if all agree and hide nothing.

        Outputs, and then coordinates, that do not show beside the others are taken together once more without them.
        """
        estimate = self._tight()
        if estimate is None:
            return None
        rows = self._rows(self._left(estimate))
        seen: list[_Glance] = []
        glance = self._glance(estimate, rows)
        while glance is not None:
            seen.append(glance)
            outputs = ~np.any([one.outputs for one in seen], axis=0)
            coordinates = ~np.any([one.coordinates for one in seen], axis=0)
            if not (outputs.any() or coordinates.any()):
                return self._told(seen)
            if len(seen) > GLANCES:
                # Of many coordinates taken together, a source that is not seen is no matter for a closer look.
                apart = outputs.any() or self.directions.shape[1] <= SMALL or self.tolerance.given
                return None if apart else self._told(seen)
            if outputs.any():
                glance = self._glance(estimate, self._rows(self._left(estimate) * outputs))
            else:
                narrowed = self.only(coordinates)
                again = narrowed._tight()
                glance = None if again is None else narrowed._glance(again, rows)
        return None

    def _told(self, seen: Sequence[_Glance]) -> list[Comparison]:
        """The comparisons of several glances, in each of which a source has a share if it, or a part of it, is new.

        One that is not seen in any has its share in the last.
        """
        shown, outputs = np.zeros(self.problem.point.size, bool), np.zeros(self.problem.outputs, bool)
        tables = []
        for turn, glance in enumerate(seen):
            new = (glance.coordinates & ~shown) | (glance.outputs & ~outputs).any() * bool(turn)
            shown, outputs, last = shown | glance.coordinates, outputs | glance.outputs, turn == len(seen) - 1
            told = [new[part].any() or (last and not shown[part].all()) for part in self.problem.parts]
            tables.append(replace(glance.table, shares=np.asarray(glance.table.shares) * told, again=turn > 0))
        return tables

    def _tight(self) -> Estimate | None:
        """The derivatives along the directions from few values, where these are enough."""
        sampled = partial(self._sampled, QUICK)

        def enough(estimate: Estimate) -> Estimate:
            return replace(estimate, conclusive=sharp_beside(estimate, SHARE, axis=0))

        estimate = first_look(sampled, len(self.directions), enough)
        return estimate if estimate.conclusive.all() else None

    def _glance(self, estimate: Estimate, rows: _Rows) -> _Glance | None:
        """The probes with these cotangents, if they agree.

        They agree within a tenth of what is allowed, so that an error of two tenths would have shown.
        """
        table, wrong = self._test(estimate, rows, 0.0)
        if wrong is not None or not table.where(Verdict.AGREE).all():
            return None
        if not self.tolerance.given and (table.excess() > 1 / EXCLUSION).any():
            return None
        shown = self._shown(table, rows), self._shown_outputs(table, estimate, rows)
        return _Glance(self._stated(table, rows), *shown)

    def _shown(self, table: Comparison, rows: _Rows) -> Array:
        """Which coordinates (n,) are seen in a test."""
        n, shown = self.directions.shape[1], np.ones(self.directions.shape[1], bool)
        if len(self.directions) >= n:
            return shown
        if self.tolerance.given:
            return np.asarray(self._tolerated(table, rows).all(axis=(0, 1)))
        if n > SMALL:
            for part, hidden in zip(self.problem.parts, unseen([table], self.problem.parts), strict=True):
                shown[part] = not hidden
            return shown
        moves, slopes = np.abs(self.directions[:, None, :]), np.abs(rows.pulled)
        parts, largest = moves * slopes, np.max(slopes, axis=1, keepdims=True)
        visible = np.where(self._vanish(parts), moves * largest, parts) >= self._least(table) * (largest > 0)
        return np.asarray(np.all(visible, axis=(0, 1)))

    def _shown_outputs(self, table: Comparison, estimate: Estimate, rows: _Rows) -> Array:
        """Which outputs (m,) are seen in a test."""
        m = self.problem.outputs
        if not len(rows.weights) < m <= SMALL:
            return np.ones(m, bool)
        parts = np.abs(estimate.value[:, None, :] * rows.weights)
        return np.asarray(np.all(self._vanish(parts) | (parts >= self._least(table)), axis=(0, 1)))

    def _least(self, table: Comparison) -> float:
        """The least term of which an error of a small share would show."""
        least = 2 / EXCLUSION * np.max(table.allowed) / max(FAINT, self.problem.precision**0.5)
        return float(least)

    def _vanish(self, parts: Array) -> Array:
        return np.asarray(parts <= LITTLE * self.problem.precision * np.max(parts, axis=2, keepdims=True))

    def tables(self) -> list[Comparison]:
        """The probes beside close estimates, and again without what they show, for what does not show beside it."""
        done, left = np.zeros(self.problem.outputs, bool), self.finite
        seen: list[_Glance] = []
        others: list[Comparison] = []
        for turn in range(1 + GLANCES):
            probing = self if turn == 0 else self.only(left)
            glance, further, done = probing._closely(done)
            others += further
            if glance is None:
                break
            seen, left = [*seen, glance], left & ~glance.coordinates
            if not left.any() or any(table.any(Verdict.MISMATCH) for table in others):
                break
        else:
            others += self._too_small(left) if self.tolerance.given else []
        return [*self._told(seen), *others]

    def _too_small(self, left: Array) -> list[Comparison]:
        """Coordinates (n,) of which errors that the tolerance does not allow would not have shown, one by one."""
        if left.sum() > SMALL or self.problem.outputs > SMALL:
            return _uncompared(int(left.sum()), Reason.TOLERANCE)
        return [one_by_one(self.problem, self.tolerance, np.flatnonzero(left), range(self.problem.outputs))]

    def _closely(self, done: Array) -> tuple[_Glance | None, list[Comparison], Array]:
        """The probes, without the outputs (m,) that are `done`, if any is left, and the comparisons of single entries.

        With these, which outputs are done by then.
        """
        sample = sample_values(self.problem, self.directions)
        estimate = closer_look(self._sampled, sample, first_difference(sample), CONFIRM)
        left = self._left(estimate)
        rough: Array = np.asarray(~estimate.conclusive.all(axis=0)) | done
        rounding: Array = np.zeros((len(self.directions), len(left)))

        def tested() -> tuple[Comparison, tuple[int, int] | None]:
            return self._test(estimate, self._rows(left * ~rough), rounding)

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
        rows = self._rows(left * ~rough)
        others = [*searched, *self._outputs_one_by_one(np.flatnonzero(rough & ~done))]
        kept = _of_some_output(self._stated(table, rows), rows.weights)
        return None if kept is None else _Glance(kept, self._shown(table, rows), ~rough), others, rough

    def _left(self, estimate: Estimate) -> Array:
        if self.problem.outputs <= self.outputs:
            return np.eye(self.problem.outputs)
        sizes = np.max(np.where(np.isfinite(estimate.value), np.abs(estimate.value), 0.0), axis=0)
        return cotangents(self.rng, self.probes, sizes)

    def _rows(self, weights: Array) -> _Rows:
        form = self.problem.in_float64 if self.problem.precision > EPS64 else None

        def wide() -> Array | None:
            if form is None or not form.same_gradients:
                return None
            try:
                return np.where(self.finite, form.gradients(weights).values, 0.0)
            except (DerivativeRaisedError, WrongShapeError):
                return None

        return _Rows(weights, self._pulled(weights), wide)

    def _pulled(self, weights: Array) -> Array:
        values = self.problem.gradients(weights).values
        return values if self.finite.all() else np.where(self.finite, values, 0.0)

    def _test(
        self, estimate: Estimate, rows: _Rows, rounding: Array | float
    ) -> tuple[Comparison, tuple[int, int] | None]:
        """The probes against each other, without outputs of no weight; and the worst failing pair (line, row)."""
        weights, pulled = rows.weights, rows.pulled
        used = weights.any(axis=0)
        value, bound, little = (
            np.where(used, array, 0.0) for array in (estimate.value, estimate.bound, estimate.little)
        )
        tests = probe_tests(value, pulled, self.directions, weights, bound)
        little = little @ np.abs(weights).T
        shares = shares_of(self.directions, pulled, self.problem.parts, little)
        granted = self._granted(tests, rows)
        difference, residual = value @ weights.T, tests.residual.T
        allowed = EXCLUSION * (tests.bound.T + rounding + granted)
        table = Comparison.agreeing(difference - residual, difference, tests.bound.T, allowed, little)
        failing = ~(np.abs(residual) <= allowed + self._waived(rows))
        table = table.marked(failing, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
        named = tuple(range(len(weights))) if self._each(rows) else (None,) * len(weights)
        behind = int(self.finite.sum() * used.sum())
        table = replace(
            table, columns=self.columns, rows=named, contribution=tests.contribution.T, shares=shares, behind=behind
        )
        if not failing.any():
            return table, None
        # What cancels in a combination of outputs leaves its rounding: the surest test is searched.
        spread = ulp_rounding(np.abs(value) @ np.abs(weights).T, self.problem.precision)
        with np.errstate(invalid="ignore", divide="ignore"):
            excess = np.abs(residual) / (allowed + EXCLUSION * spread)
            excess = np.where(failing, np.nan_to_num(excess, nan=np.inf), -1.0)
        line, row = np.unravel_index(int(np.argmax(excess)), excess.shape)
        return table, (int(line), int(row))

    def _granted(self, tests: ProbeTests, rows: _Rows) -> Array:
        """The rounding (k, l) that autodiff is granted in each test.

        In low precision it is what the gradient lost beside that of the float64 form, if that is less than the
        roundings of all terms together: the signs of a probe know nothing of those of the roundings.
        """
        granted = ulp_rounding(tests.size.T, self.problem.precision)
        if self.problem.precision <= EPS64 or rows.gaps is None:
            return granted
        with np.errstate(invalid="ignore", over="ignore"):
            lost = SCATTER * np.sqrt(self.directions**2 @ (rows.gaps**2).T)
        return np.where(lost < granted, lost, granted)

    def _wanted(self, rows: _Rows) -> Array:
        """The part (k, l, n) of each test by which each coordinate may be off; (k, l, 1) without a tolerance."""
        if not self.tolerance.given:
            return np.zeros((len(self.directions), len(rows.weights), 1))
        moves = np.abs(self.directions[:, None, :])
        absolute = (self.tolerance.atol or 0.0) * np.abs(rows.weights).max(axis=1)[:, None]
        relative = np.nan_to_num((self.tolerance.rtol or 0.0) * np.abs(rows.pulled), posinf=0.0)
        return np.asarray(moves * (absolute + relative))

    def _stated(self, table: Comparison, rows: _Rows) -> Comparison:
        """The tests, of which the tolerance allows as much as it does of the largest term."""
        return replace(table, allowed=np.maximum(table.allowed, self._wanted(rows).max(axis=2)))

    def _waived(self, rows: _Rows) -> Array:
        """How far the tests (k, l) may be off: of combinations of outputs, none of whose derivatives is known, not."""
        return np.asarray(self._wanted(rows).max(axis=2) * self._each(rows))

    def _each(self, rows: _Rows) -> bool:
        """Whether the outputs are taken one by one."""
        return len(rows.weights) == self.problem.outputs

    def _tolerated(self, table: Comparison, rows: _Rows) -> Array:
        """In which tests every error of a coordinate shows that the tolerance does not allow, boolean (k, l, n).

        One whose derivative is zero, beside the bound, asks for no relative resolution.
        """
        error, allowed = np.abs(table.autodiff - table.difference)[:, :, None], table.allowed[:, :, None]
        terms = np.abs(self.directions[:, None, :] * np.nan_to_num(rows.pulled))
        strict = error <= allowed
        waived = (terms <= allowed / EXCLUSION) & strict & (not self.tolerance.atol)
        wanted = self._wanted(rows)
        shown = (wanted >= np.maximum(allowed, error)) & (strict | self._each(rows)) | waived
        return np.asarray(shown & (self.directions != 0)[:, None, :])

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
        tables = _uncompared(len(outputs) - len(looked), Reason.TOO_EXPENSIVE)
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
            entries = compare(autodiff, first_difference(sample), Tolerance(), rounding, factor=1.0)
            shares = shares_of(line, pulled[still], self.problem.parts, entries.little)
            entries = replace(entries, columns=(None,), rows=tuple(map(int, outputs[still])), shares=shares)
            clear = entries.where(Verdict.AGREE)[0] & ~np.isin(classify(sample).kind[0], ROUGH)
            if self.tolerance.given:
                each = _Rows(rows[still], pulled[still], lambda: None)
                clear &= replace(self, directions=line)._tolerated(entries, each)[0][:, part].all(axis=1)
            if clear.any():
                tables.append(_of_rows(entries, clear))
            if not clear.all():
                middle = len(part) // 2
                waiting += [(part[:middle], still[~clear]), (part[middle:], still[~clear])]
        if single.any():
            tables.append(one_by_one(self.problem, self.tolerance, np.flatnonzero(single), outputs))
        return tables + _uncompared(sum(len(part) * len(still) for part, still in waiting), Reason.TOO_EXPENSIVE)


def _of_some_output(table: Comparison, weights: Array) -> Comparison | None:
    """The comparison of combinations with these weights, without those in which no output is left; None for none."""
    shown: Array = np.asarray(weights.any(axis=1))
    if shown.all():
        return table
    return _of_rows(table, shown) if shown.any() else None


def _of_rows(table: Comparison, kept: Array) -> Comparison:
    """The comparison of some of its outputs or combinations of them, (l,)."""
    some = combined(partial(np.compress, kept, axis=1), table)
    contribution, shares = (None if of is None else of[:, kept] for of in (table.contribution, table.shares))
    rows = tuple(table.rows[row] for row in np.flatnonzero(kept))
    return replace(some, rows=rows, contribution=contribution, shares=shares)


def _uncompared(count: int, reason: Reason) -> list[Comparison]:
    """So many entries that were not compared for a reason, such as what it would have cost."""
    if not count:
        return []
    blank = np.full((count, 1), np.nan)
    table = Comparison.agreeing(blank, blank, blank, blank)
    table = table.marked(np.ones((count, 1), bool), Verdict.INCONCLUSIVE, reason)
    return [replace(table, columns=(None,) * count, rows=(None,))]
