"""Choose the derivatives to compare: all while they are few, else random probes, and a search where one fails.

Random probes come first wherever they are cheaper, and are enough where they agree and hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradcheck.numerics.difference import Estimate, first_difference
from gradcheck.numerics.one_sided import ROUGH, classify
from gradcheck.numerics.probing import (
    FEW_INPUTS,
    FEW_OUTPUTS,
    PAIR,
    axes,
    cotangents,
    directions_at,
    locate_entry,
    probe_directions,
)
from gradcheck.numerics.sampling import CONFIRM, EPS64, FIRST, QUICK, Sample, Stencil
from gradcheck.problem.problem import Problem
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.first_order import compare_first
from gradcheck.verdict.lines import Lines, sample_values, some_rows
from gradcheck.verdict.looks import closer_look, screened, sharp_beside
from gradcheck.verdict.measured_rounding import slope_rounding, ulp_rounding
from gradcheck.verdict.probe_pairs import FAINT, SMALL, Probes, PulledBack
from gradcheck.verdict.resolution import shares_of
from gradcheck.verdict.second_order import SHARE
from gradcheck.verdict.suspicion import WIDE
from gradcheck.verdict.tables import GROSS, Comparison, Tolerance, compare

PROBES = PAIR
"""The default number of random probes on each side: those of one random pair."""

GLANCES = 4
"""The largest number of times that probes are taken again: of entries too small to show, without the others that hid
them; behind a failing probe, without the outputs in which a search has found nothing wrong."""

JACOBIAN = 2**20
"""With a tolerance, all outputs are taken one by one in Jacobians of up to this many entries."""

ROWS = 64
"""The number of outputs that are looked at one by one where probes cannot combine them."""

SPLITS, SPLIT_VALUES = 256, 2**26
"""The number of times that coordinates are split, lower where the points of all splits would hold more than
SPLIT_VALUES numbers."""

ROUNDING = 0.01
"""The rounding that autodiff is granted in a probe is at most this share of the largest contribution."""


def first_order(problem: Problem, tolerance: Tolerance, probes: int) -> list[Comparison]:
    """Compare all first derivatives: one by one while there are few, else by `probes` random ones on each side.

    For functions, whose values are expensive, a random pair comes first, and is enough where it agrees and shows every
    entry. Raises DerivativeRaisedError and WrongShapeError.
    """
    n, m = problem.point.size, problem.outputs
    rng = np.random.default_rng(0)

    def most(outputs: int) -> int:
        # The tolerance of an entry is known only for outputs that are taken one by one.
        return max(outputs, m) if tolerance.given and m * n <= JACOBIAN else outputs

    if not problem.batched and (n > FEW_INPUTS or m > SMALL):
        # A gradient for each of a few outputs is expensive in a large function; below float64 a sum would hide some.
        outputs = 1 if n > WIDE and problem.precision <= EPS64 else FEW_OUTPUTS
        light = _Probing.of(problem, tolerance, FEW_INPUTS, most(outputs), probes // PAIR, rng)
        if tables := light.quickly():
            return tables
        if (max(n, m) > SMALL or problem.expensive) and light.contradicted():
            tables = light.tables()
            if any(table.any(Verdict.MISMATCH) for table in tables):
                return tables
    if n <= SMALL and m <= SMALL:
        return [one_by_one(problem, tolerance, range(n), range(m))]
    probing = _Probing.of(problem, tolerance, SMALL, most(SMALL), probes, rng)
    finite = np.isfinite(problem.gradients(probe_directions(rng, 1, np.ones(m))).values[0])
    apart = _apart(problem, tolerance, np.flatnonzero(~finite))
    if not finite.any():
        return apart
    return apart + probing.where(finite).tables()


def _apart(problem: Problem, tolerance: Tolerance, columns: Array) -> list[Comparison]:
    """Compare coordinates whose gradient is not finite, one by one, for the outputs that depend on them."""
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
    problem: Problem,
    tolerance: Tolerance,
    coordinates: Iterable[int],
    outputs: Iterable[int],
    among: Array | None = None,
) -> Comparison:
    """Compare the entries of some coordinates and outputs, in a check of lines that are these or `among` them."""
    moved, seen = tuple(map(int, coordinates)), tuple(map(int, outputs))
    lines, weights = axes(moved, problem.point.size), axes(seen, problem.outputs)
    return replace(compare_first(problem, lines, weights, tolerance, among), coordinates=moved, outputs=seen)


@dataclass(frozen=True)
class _Glance:
    """Random probes, and the coordinates (n,) and outputs (m,) that are visible in them.

    Few are visible together if an error of a small share of each would show; for a coordinate whose derivative is zero,
    or rounding compared with the others, a share of the largest. Many are visible together if an error of a tenth of
    each source's own share would show. With a tolerance, every error that it does not allow has to show.
    """

    table: Comparison
    coordinates: Array
    outputs: Array


@dataclass(frozen=True)
class _Probing(Probes):
    """Probes that are compared quickly, or closely, and narrowed or searched for what they do not show.

    More than `outputs` outputs are taken together, in `probes` random combinations.
    """

    outputs: int
    probes: int
    rng: np.random.Generator

    @staticmethod
    def of(
        problem: Problem, tolerance: Tolerance, inputs: int, outputs: int, probes: int, rng: np.random.Generator
    ) -> _Probing:
        """Probe up to `inputs` inputs and `outputs` outputs one by one, more in `probes` random combinations."""
        n = problem.point.size
        few = n <= inputs
        directions = np.eye(n) if few else problem.directions(rng, probes)
        columns: tuple[int | None, ...] = tuple(range(n)) if few else (None,) * probes
        return _Probing(problem, tolerance, directions, columns, np.ones(n, bool), outputs, probes, rng)

    def where(self, finite: Array) -> _Probing:
        """The same probes where the gradient is finite (n,)."""
        columns, directions = self.coordinates, self.directions
        if None not in columns:
            columns, directions = tuple(map(int, np.flatnonzero(finite))), directions[finite]
        return replace(self, directions=directions * finite, coordinates=columns, finite=finite)

    def only(self, coordinates: Array) -> _Probing:
        """Return new random probes of these coordinates (n,) alone.

        For a single output, the first follows the signs of the gradient: there no entries cancel in a source's share,
        while their roundings do.
        """
        drawn = directions_at(self.rng, len(self.directions), self.problem.point)
        if self.problem.outputs == 1:
            drawn[0] = np.where(self._gradient == 0, drawn[0], np.copysign(drawn[0], self._gradient))
        return replace(self, directions=drawn * (coordinates & self.finite))

    @cached_property
    def _gradient(self) -> Array:
        """The gradient (n,) of a single output."""
        return np.asarray(self.pulled(np.ones((1, 1)))[0])

    def _sampled(self, stencil: Stencil, lines: Array, shrink: Array) -> Sample:
        return sample_values(self.problem, some_rows(self.directions, lines), stencil=stencil, shrink=shrink)

    def quickly(self) -> list[Comparison] | None:
        """Compare the probes with tight estimates from few values; None unless all agree and hide nothing.

        Outputs, and then coordinates, that are too small to show among the others are taken together again without
        them.
        """
        estimate = self._tight()
        if estimate is None:
            return None
        rows = self.rows(self._left(estimate))
        seen: list[_Glance] = []
        glance = self._glance(estimate, rows)
        while glance is not None:
            seen.append(glance)
            outputs = ~np.any([one.outputs for one in seen], axis=0)
            coordinates = ~np.any([one.coordinates for one in seen], axis=0)
            if not (outputs.any() or coordinates.any()):
                return self._told(seen)
            if len(seen) > GLANCES or (None not in self.coordinates and coordinates.any()):
                # Among many coordinates taken together, a source that is not seen is no reason for a closer look.
                apart = outputs.any() or self.directions.shape[1] <= SMALL or self.tolerance.given
                return None if apart else self._told(seen)
            if outputs.any():
                glance = self._glance(estimate, self.rows(self._left(estimate) * outputs))
            else:
                narrowed = self.only(coordinates)
                again = narrowed._tight(FAINT * np.max(estimate.little, axis=0))
                glance = None if again is None else narrowed._glance(again, rows)
        return None

    def contradicted(self) -> bool:
        """Whether few values contradict a probe whose gradients are finite."""
        if self.problem.outputs > self.outputs or (estimate := self._tight()) is None:
            return False
        rows = self.rows(np.eye(self.problem.outputs))
        return bool(np.isfinite(rows.pulled).all()) and self.test(estimate, rows, 0.0)[1] is not None

    def _told(self, seen: Sequence[_Glance]) -> list[Comparison]:
        """The comparisons of several glances; a source has a share in those that first show it, or a part of it.

        A source that is seen in none has its share in the last.
        """
        shown, outputs = np.zeros(self.problem.point.size, bool), np.zeros(self.problem.outputs, bool)
        tables = []
        for turn, glance in enumerate(seen):
            new = (glance.coordinates & ~shown) | (glance.outputs & ~outputs).any() * bool(turn)
            shown, outputs, last = shown | glance.coordinates, outputs | glance.outputs, turn == len(seen) - 1
            told = [new[part].any() or (last and not shown[part].all()) for part in self.problem.parts]
            tables.append(replace(glance.table, shares=np.asarray(glance.table.shares) * told, again=turn > 0))
        return tables

    def _tight(self, little: Array | float = 0.0) -> Estimate | None:
        """Estimate the derivatives along the directions from few values; None where these are not enough.

        A bound of `little` (m,), relative to what the outputs do elsewhere, is enough.
        """

        def enough(estimate: Estimate) -> Estimate:
            least, conclusive = np.maximum(estimate.little, little), sharp_beside(estimate, SHARE, axis=0)
            return replace(estimate, little=least, conclusive=conclusive | (estimate.bound <= little))

        estimate = screened(self._sampled, len(self.directions), enough, beyond=True)
        return estimate if estimate.conclusive.all() else None

    def _glance(self, estimate: Estimate, rows: PulledBack) -> _Glance | None:
        """Test the probes with these cotangents; None unless they agree.

        They agree within a tenth of what is allowed, so that an error of two tenths would have shown. In float32 the
        rounding of a loop, whose gradient is expensive, is measured only where its upper bound hides something.
        """
        loops = self.problem.in_float64 is not None and not self.problem.in_float64.straight
        for measured in (False, True) if loops and self.problem.precision <= np.finfo(np.float32).eps else (True,):
            table, wrong = self.test(estimate, rows, 0.0, measured=measured)
            if wrong is not None or not table.where(Verdict.AGREE).all():
                return None
            if not self.tolerance.given and not self.close(table, rows).all():
                return None
            shown = self.shown(table, rows), self.shown_outputs(table, estimate, rows)
            if all(one.all() for one in shown):
                break
        return _Glance(self.weighed(self.stated(table, rows), rows), *shown)

    def tables(self) -> list[Comparison]:
        """Compare the probes closely, then new ones of only those coordinates that were too small to show in them."""
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
            if None not in self.coordinates:
                others += self._too_small(left)
                break
        else:
            others += self._too_small(left) if self.tolerance.given else []
        return [*self._told(seen), *others]

    def _too_small(self, left: Array) -> list[Comparison]:
        """Compare one by one the coordinates (n,) in which errors beyond the tolerance would not have shown."""
        if left.sum() > SMALL or self.problem.outputs > SMALL:
            return _uncompared(int(left.sum()), Reason.TOLERANCE)
        return [self._one_by_one(np.flatnonzero(left), range(self.problem.outputs))]

    def _one_by_one(self, coordinates: Iterable[int], outputs: Iterable[int]) -> Comparison:
        return one_by_one(self.problem, self.tolerance, coordinates, outputs, self.directions)

    def _closely(self, done: Array) -> tuple[_Glance | None, list[Comparison], Array]:
        """Compare the probes closely, without the outputs (m,) that are `done`.

        Returns the glance, None if no output is left, the comparisons of single entries, and which outputs are done
        then.
        """
        sample = sample_values(self.problem, self.directions)
        estimate = closer_look(self._sampled, sample, first_difference(sample), CONFIRM)
        left = self._left(estimate)
        rough: Array = np.asarray(~estimate.conclusive.all(axis=0)) | done
        rounding: Array = np.zeros((len(self.directions), len(left)))

        def tested() -> tuple[PulledBack, Comparison, tuple[int, int] | None]:
            rows = self.rows(left * ~rough)
            return rows, *self.test(estimate, rows, rounding)

        rows, table, wrong = tested()
        if wrong is not None:
            if not self.problem.smooth:
                rough = rough | np.isin(classify(sample).kind, ROUGH).any(axis=0)
            if table.lost is None:
                # Autodiff's own rounding in each probe, limited to a small part of the largest contribution.
                own = slope_rounding(self.problem, table.autodiff, left * ~rough, self.directions)
                measured = own.beside(table.difference - table.bound, table.difference + table.bound)
                rounding = np.minimum(np.maximum(measured, own.lost), ROUNDING * np.asarray(table.contribution))
            rows, table, wrong = tested()
        searched: list[Comparison] = []
        while wrong is not None and len(searched) < GLANCES:
            line, row = wrong
            lost = rounding if table.lost is None else table.lost
            stencil = QUICK if table.excess()[wrong] > GROSS or self.problem.expensive else FIRST
            located = self._search(self.directions[line], left[row] * ~rough, float(lost[wrong]), stencil)
            if located is None:
                break
            output, coordinate = located
            found = replace(self._one_by_one([coordinate], [output]), searched=True)
            # The probe fails although measured rounding is granted: an entry that agrees by more does not explain it.
            searched.append(found.marked(found.where(Verdict.AGREE), Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED))
            if found.any(Verdict.MISMATCH):
                break
            rough[output] = True
            rows, table, wrong = tested()
        others = [*searched, *self._outputs_one_by_one(np.flatnonzero(rough & ~done))]
        kept = _of_some_output(self.stated(table, rows), rows.weights)
        return None if kept is None else _Glance(kept, self.shown(table, rows), ~rough), others, rough

    def _left(self, estimate: Estimate) -> Array:
        if self.problem.outputs <= self.outputs:
            return np.eye(self.problem.outputs)
        sizes = np.max(np.where(np.isfinite(estimate.value), np.abs(estimate.value), 0.0), axis=0)
        return cotangents(self.rng, self.probes, sizes)

    def _search(self, direction: Array, weight: Array, rounding: float, stencil: Stencil) -> tuple[int, int] | None:
        """Find one wrong (output, coordinate) behind a failing pair, whose rounding is divided among the outputs."""
        share = rounding / max(float(np.abs(weight).sum()), np.finfo(np.float64).tiny)

        def difference(masked: Array) -> tuple[Array, Array]:
            estimate = first_difference(sample_values(self.problem, masked[None, :], stencil=stencil))
            bound = estimate.bound[0] + share + ulp_rounding(estimate.value[0], self.problem.precision)
            return np.where(weight == 0, 0.0, estimate.value[0]), np.where(weight == 0, 0.0, bound)

        return locate_entry(difference, lambda w: self.pulled(w[None, :])[0], direction, weight, rng=self.rng)

    def _outputs_one_by_one(self, outputs: Array) -> list[Comparison]:
        """Compare the outputs that are not smooth, or not conclusive, along a probe."""
        looked = outputs[:ROWS]
        tables = _uncompared(len(outputs) - len(looked), Reason.TOO_EXPENSIVE)
        if not len(looked):
            return tables
        rows = axes(looked, self.problem.outputs)
        if None in self.coordinates:
            return tables + self._split(self.directions[0], rows, looked)
        table = compare_first(self.problem, self.directions, rows, self.tolerance)
        return [*tables, replace(table, coordinates=self.coordinates, outputs=tuple(map(int, looked)))]

    def _split(self, direction: Array, rows: Array, outputs: Array) -> list[Comparison]:
        """Halve the coordinates, for all these outputs at once, until each part is clear for every output or single."""
        pulled = self.pulled(rows)
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
            entries = replace(entries, coordinates=(None,), outputs=tuple(map(int, outputs[still])), shares=shares)
            clear = entries.where(Verdict.AGREE)[0] & ~np.isin(classify(sample).kind[0], ROUGH)
            if self.tolerance.given:
                each = PulledBack(rows[still], pulled[still], lambda: None)
                clear &= replace(self, directions=line).tolerated(entries, each)[0][:, part].all(axis=1)
            if clear.any():
                tables.append(entries.kept(clear, axis=1))
            if not clear.all():
                middle = len(part) // 2
                waiting += [(part[:middle], still[~clear]), (part[middle:], still[~clear])]
        if single.any():
            tables.append(self._one_by_one(np.flatnonzero(single), outputs))
        return tables + _uncompared(sum(len(part) * len(still) for part, still in waiting), Reason.TOO_EXPENSIVE)


def _of_some_output(table: Comparison, weights: Array) -> Comparison | None:
    """The comparison of combinations with these weights, without those that have no output left; None if none has."""
    shown: Array = np.asarray(weights.any(axis=1))
    if shown.all():
        return table
    return table.kept(shown, axis=1) if shown.any() else None


def _uncompared(count: int, reason: Reason) -> list[Comparison]:
    """A comparison of `count` entries that were not compared, with the reason."""
    if not count:
        return []
    blank = np.full((count, 1), np.nan)
    table = Comparison.agreeing(blank, blank, blank, blank)
    table = table.marked(np.ones((count, 1), bool), Verdict.INCONCLUSIVE, reason)
    return [replace(table, coordinates=(None,) * count, outputs=(None,))]
