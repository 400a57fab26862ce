"""Random probes of a Jacobian from both sides: autodiff's products, an estimate, and the errors that would show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradcheck.numerics.difference import EXCLUSION, Estimate
from gradcheck.numerics.probing import magnitudes, probe_tests
from gradcheck.numerics.rounding import FACTOR
from gradcheck.numerics.sampling import EPS64
from gradcheck.problem.problem import Problem
from gradcheck.result import Reason, Verdict
from gradcheck.typing import Array
from gradcheck.verdict.lines import LITTLE
from gradcheck.verdict.measured_rounding import ulp_rounding
from gradcheck.verdict.resolution import shares_of, unseen
from gradcheck.verdict.tables import LEFT, Comparison, Tolerance

SMALL = 24
"""Up to this many coordinates (outputs) a close look takes one by one."""

FAINT = 1e-6
"""A first look takes up to `SMALL` coordinates (outputs) together if each shows an error of this share of itself.

Below float64, where roundings add up in a sum, the square root of the unit roundoff: 2.4e-4 in float32.
"""


@dataclass(frozen=True)
class PulledBack:
    """Cotangents (l, m), and autodiff's products with them (l, n); `rounded` measures the products' rounding errors."""

    weights: Array
    pulled: Array
    rounded: Callable[[], Array | None]

    @cached_property
    def gaps(self) -> Array | None:
        """The rounding errors (l, n) of the products in low precision; None where they cannot be measured."""
        return self.rounded()


@dataclass(frozen=True)
class Probes:
    """`directions` (k, n), their coordinates if single, and where the gradient is `finite` (n,), hence probed."""

    problem: Problem
    tolerance: Tolerance
    directions: Array
    coordinates: tuple[int | None, ...]
    finite: Array

    def rows(self, weights: Array) -> PulledBack:
        """Cotangents (l, m) with autodiff's products. Raises DerivativeRaisedError and WrongShapeError."""
        pulled = self.pulled(weights)

        def rounded() -> Array | None:
            gaps = self.problem.gaps(weights, pulled)
            return None if gaps is None else np.where(self.finite, gaps, 0.0)

        return PulledBack(weights, pulled, rounded)

    def pulled(self, weights: Array) -> Array:
        """Autodiff's products (l, n) with cotangents (l, m), zero where the gradient is not finite."""
        values = self.problem.gradients(weights).values
        return values if self.finite.all() else np.where(self.finite, values, 0.0)

    def test(
        self, estimate: Estimate, rows: PulledBack, rounding: Array | float, *, measured: bool = True
    ) -> tuple[Comparison, tuple[int, int] | None]:
        """Test the probes against each other, without outputs of weight zero; return the worst failing pair, too.

        Low-precision rounding is `measured` with the float64 form, if there is one, or its upper bound is taken.
        """
        weights, pulled = rows.weights, rows.pulled
        used = weights.any(axis=0)
        value, bound, little = (
            np.where(used, array, 0.0) for array in (estimate.value, estimate.bound, estimate.little)
        )
        tests = probe_tests(value, pulled, self.directions, weights, bound)
        difference, residual, little = value @ weights.T, tests.residual.T, little @ np.abs(weights).T
        lost = self._lost(rows) if measured else None
        granted = ulp_rounding(tests.size.T, self.problem.precision)
        if lost is not None:
            granted = np.where(lost < granted, lost, granted)
        little = np.where(np.abs(difference) <= EXCLUSION * tests.bound.T, little, 0.0)
        if self.problem.precision > EPS64 and little.any():
            # In low precision a derivative of zero consists of the rounding of the others.
            left = self._left_of_zero(rows)
            granted, little = (np.where(little > 0, np.maximum(one, left), one) for one in (granted, little))
        shares = shares_of(self.directions, pulled, self.problem.parts, little)
        allowed = EXCLUSION * (tests.bound.T + rounding + granted)
        table = Comparison.agreeing(difference - residual, difference, tests.bound.T, allowed, little)
        failing = ~(np.abs(residual) <= allowed + self._waived(rows))
        if lost is not None and self._drifts and not self.tolerance.given:
            exactly = EXCLUSION * (tests.bound.T + ulp_rounding(tests.size.T, EPS64) + LEFT * lost)
            failing |= ~(np.abs(residual + self._drift(rows)) <= np.maximum(exactly, EXCLUSION * little))
        table = table.marked(failing, Verdict.INCONCLUSIVE, Reason.ILL_CONDITIONED)
        named = tuple(range(len(weights))) if self._each(rows) else (None,) * len(weights)
        behind = int(self.finite.sum() * used.sum())
        table = replace(table, coordinates=self.coordinates, outputs=named, behind=behind)
        table = replace(table, contribution=tests.contribution.T, shares=shares, lost=lost)
        if not failing.any():
            return table, None
        # Cancellation in a combination of outputs leaves rounding: the surest test is searched.
        spread = ulp_rounding(np.abs(value) @ np.abs(weights).T, self.problem.precision)
        with np.errstate(invalid="ignore", divide="ignore"):
            excess = np.abs(residual) / (allowed + EXCLUSION * spread)
            excess = np.where(failing, np.nan_to_num(excess, nan=np.inf), -1.0)
        line, row = np.unravel_index(int(np.argmax(excess)), excess.shape)
        return table, (int(line), int(row))

    def _lost(self, rows: PulledBack) -> Array | None:
        """Return the low-precision rounding error of each test (k, l), by the float64 form's gradient, if there is one.

        The signs of a probe are independent of those of the rounding errors, which add up as random ones do. Those of
        other derivatives than the ones under test may add up in phase: a probe may follow the signs of the gradient.
        """
        if self.problem.precision <= EPS64 or rows.gaps is None:
            return None
        with np.errstate(invalid="ignore", over="ignore"):
            scatter = FACTOR * np.sqrt(self.directions**2 @ (rows.gaps**2).T)
            return np.asarray(scatter if self._drifts else np.maximum(scatter, np.abs(self._drift(rows))))

    @property
    def _drifts(self) -> bool:
        """Whether the measured rounding is that of the derivatives under test, not of other formulas."""
        return self.problem.in_float64 is not None and self.problem.in_float64.same_gradients

    def _drift(self, rows: PulledBack) -> Array:
        """How far the measured rounding moves each test (k, l)."""
        assert rows.gaps is not None
        return np.asarray(self.directions @ rows.gaps.T)

    def close(self, table: Comparison, rows: PulledBack) -> Array:
        """Tests (k, l) that agree within a tenth of what is allowed, apart from measured rounding."""
        with np.errstate(invalid="ignore", over="ignore"):
            drift = self._drift(rows) if table.lost is not None and self._drifts else 0.0
            error = np.abs(table.autodiff - drift - table.difference)
        return np.asarray(np.isfinite(error) & (error <= table.allowed / EXCLUSION))

    def _left_of_zero(self, rows: PulledBack) -> Array:
        """The rounding (l,) of a whole gradient, each entry times the magnitude of its coordinate."""
        sizes = np.nan_to_num(np.abs(rows.pulled)) @ magnitudes(self.problem.point)
        return ulp_rounding(sizes, self.problem.precision)

    def _wanted(self, rows: PulledBack) -> Array:
        """The tolerated error (k, l, n) of each coordinate in each test; zeros (k, l, 1) without a tolerance."""
        if not self.tolerance.given:
            return np.zeros((len(self.directions), len(rows.weights), 1))
        moves = np.abs(self.directions[:, None, :])
        absolute = (self.tolerance.atol or 0.0) * np.abs(rows.weights).max(axis=1)[:, None]
        relative = np.nan_to_num((self.tolerance.rtol or 0.0) * np.abs(rows.pulled), posinf=0.0)
        return np.asarray(moves * (absolute + relative))

    def _waived(self, rows: PulledBack) -> Array:
        """The tolerated error (k, l) of each test; zero for combinations of outputs, with unknown derivatives."""
        return np.asarray(self._wanted(rows).max(axis=2) * self._each(rows))

    def stated(self, table: Comparison, rows: PulledBack) -> Comparison:
        """The tests, with at least the error allowed that the tolerance allows for their largest term."""
        return replace(table, allowed=np.maximum(table.allowed, self._wanted(rows).max(axis=2)))

    def _each(self, rows: PulledBack) -> bool:
        """Whether the outputs are taken one by one."""
        return len(rows.weights) == self.problem.outputs

    def shown(self, table: Comparison, rows: PulledBack) -> Array:
        """The coordinates (n,) that are visible in a test."""
        n, shown = self.directions.shape[1], np.ones(self.directions.shape[1], bool)
        if self.tolerance.given:
            moved = self.directions != 0
            seen = self.tolerated(table, rows) | ~moved[:, None, :]
            return np.asarray(seen.all(axis=(0, 1)) & (moved.any(axis=0) | ~self.finite))
        if len(self.directions) >= n:
            return shown
        if n > SMALL:
            for part, hidden in zip(self.problem.parts, unseen([table], self.problem.parts), strict=True):
                shown[part] = not hidden
            return shown
        moves, slopes = np.abs(self.directions[:, None, :]), np.abs(rows.pulled)
        parts, largest = moves * slopes, np.max(slopes, axis=1, keepdims=True)
        visible = np.where(self._vanish(parts), moves * largest, parts) >= self._least(table) * (largest > 0)
        return np.asarray(np.all(visible, axis=(0, 1)))

    def shown_outputs(self, table: Comparison, estimate: Estimate, rows: PulledBack) -> Array:
        """The outputs (m,) that are visible in a test."""
        m = self.problem.outputs
        if not len(rows.weights) < m <= SMALL:
            return np.ones(m, bool)
        parts = np.abs(estimate.value[:, None, :] * rows.weights)
        return np.asarray(np.all(self._vanish(parts) | (parts >= self._least(table)), axis=(0, 1)))

    def tolerated(self, table: Comparison, rows: PulledBack) -> Array:
        """Where a test shows every error of a coordinate beyond the tolerance, boolean (k, l, n).

        A derivative that is zero up to rounding requires no relative resolution.
        """
        error, allowed = np.abs(table.autodiff - table.difference)[:, :, None], table.allowed[:, :, None]
        terms = np.abs(self.directions[:, None, :] * np.nan_to_num(rows.pulled))
        rounding = self._vanish(terms)
        if self.problem.precision > EPS64 and rows.gaps is not None:
            rounding = (np.abs(np.nan_to_num(rows.pulled)) <= FACTOR * np.abs(rows.gaps))[None]
        strict = error <= allowed
        waived = rounding & (terms <= allowed / EXCLUSION) & strict & (not self.tolerance.atol)
        wanted = self._wanted(rows)
        shown = (wanted >= np.maximum(allowed, error)) & (strict | self._each(rows)) | waived
        return np.asarray(shown)

    def weighed(self, table: Comparison, rows: PulledBack) -> Comparison:
        """The tests of few coordinates, with the share of the largest derivative for a source that has none."""
        n, shares = self.directions.shape[1], np.array(table.shares)
        if not len(self.directions) < n <= SMALL:
            return table
        largest = np.max(np.abs(rows.pulled), axis=1)
        for number, part in enumerate(self.problem.parts):
            moved = np.max(np.abs(self.directions[:, part]), axis=1, initial=0.0)
            nothing = ~np.abs(rows.pulled[:, part]).any(axis=1)
            shares[:, :, number] = np.maximum(shares[:, :, number], nothing * np.multiply.outer(moved, largest))
        return replace(table, shares=shares)

    def _least(self, table: Comparison) -> float:
        """The smallest term that shows a relative error of FAINT."""
        least = 2 / EXCLUSION * np.max(table.allowed) / max(FAINT, self.problem.precision**0.5)
        return float(least)

    def _vanish(self, parts: Array) -> Array:
        return np.asarray(parts <= LITTLE * self.problem.precision * np.max(parts, axis=2, keepdims=True))
