"""A table of derivatives held against differences, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gradcheck.result import Kind, Reason

Array = np.ndarray[Any, Any]

AGREE, KINK, INCONCLUSIVE, MISMATCH = range(4)
KINDS = tuple(Kind)
REASONS = tuple(Reason)

EXCLUSION = 10.0
"""By how many error bounds autodiff has to miss an interval before that counts as excluded (the design's rule)."""


@dataclass(frozen=True)
class Tolerance:
    """Errors up to `atol + rtol * |difference|` do not matter; None: every error that can be noticed matters."""

    rtol: float | None = None
    atol: float | None = None

    @property
    def given(self) -> bool:
        """Whether somebody asked for a tolerance."""
        return self.rtol is not None or self.atol is not None

    def of(self, difference: Array) -> Array:
        """The allowed error of each entry."""
        sizes = np.where(np.isfinite(difference), np.abs(difference), 0.0)
        allowed: Array = (self.atol or 0.0) + (self.rtol or 0.0) * sizes
        return allowed


@dataclass(frozen=True)
class Comparison:
    """Arrays of one shape: (lines, rows) for first derivatives, (directions, coordinates) for second ones.

    `status` holds AGREE, KINK (agree at a kink), INCONCLUSIVE or MISMATCH; `code` indexes KINDS or REASONS accordingly.
    `allowed` is the error that would not have been noticed.
    """

    autodiff: Array
    difference: Array
    bound: Array
    allowed: Array
    status: Array
    code: Array

    def any(self, status: int) -> bool:
        """Whether an entry has this status."""
        return bool(np.any(self.status == status))

    def reasons(self) -> tuple[Reason, ...]:
        """Why entries are inconclusive, each reason once."""
        return tuple(REASONS[code] for code in sorted(set(self.code[self.status == INCONCLUSIVE].tolist())))

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of mismatch, the most severe first."""
        return tuple(KINDS[code] for code in sorted(set(self.code[self.status == MISMATCH].tolist())))

    @property
    def turned(self) -> Comparison:
        """The table with lines and columns exchanged."""
        return combined(np.transpose, self)

    def marked(self, mask: Array, status: int, cause: Kind | Reason) -> Comparison:
        """The table with this status, for this cause, where `mask` says so."""
        code = np.where(mask, code_of(cause), self.code)
        return replace(self, status=np.where(mask, status, self.status), code=code)

    def named(self, missing: Array | bool = False) -> Comparison:
        """The wrong values by their names: missing where TensorFlow said None, non-finite, else as they are."""
        wrong = self.status == MISMATCH
        endless = wrong & (self.code == code_of(Kind.WRONG_VALUE)) & ~np.isfinite(self.autodiff)
        return self.marked(endless, MISMATCH, Kind.NON_FINITE).marked(wrong & missing, MISMATCH, Kind.MISSING)

    def excess(self) -> Array:
        """The error over what is allowed: below 1 unless something is wrong (inf where autodiff is not finite)."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = np.abs(self.autodiff - self.difference) / np.maximum(self.allowed, np.finfo(np.float64).tiny)
        ratio = np.where(np.isfinite(self.autodiff), ratio, np.inf)
        return np.where(self.status == INCONCLUSIVE, 0.0, ratio)


def code_of(value: Kind | Reason) -> int:
    """The code of a kind or a reason."""
    return KINDS.index(value) if isinstance(value, Kind) else REASONS.index(value)


def stacked(tables: list[Comparison]) -> Comparison:
    """Several tables as one, flattened."""
    if len(tables) == 1:
        return combined(np.ravel, *tables)
    return combined(lambda *arrays: np.concatenate([np.ravel(array) for array in arrays]), *tables)


def combined(function: Callable[..., Array], *tables: Comparison) -> Comparison:
    """The table whose arrays are the function of the tables' arrays, name by name."""
    return Comparison(*(function(*(getattr(table, name) for table in tables)) for name in ARRAYS))


ARRAYS = tuple(field.name for field in fields(Comparison))


def chosen(mask: Array, first: Comparison, second: Comparison) -> Comparison:
    """The first table where `mask` says so, the second one elsewhere."""

    def pick(one: Array, other: Array) -> Array:
        return np.where(mask, one, other)

    return combined(pick, first, second)


def confirmed(first: Comparison, second: Comparison) -> Comparison:
    """A mismatch needs both tableaux; where only the first was inconclusive, the second may still agree."""
    rescued = (first.status == INCONCLUSIVE) & (second.status == AGREE)
    table = chosen(rescued, second, first)
    doubted = (first.status == MISMATCH) & (second.status != MISMATCH)
    table = replace(table, status=np.where(doubted, second.status, table.status))
    return table.marked(table.status == INCONCLUSIVE, INCONCLUSIVE, Reason.ILL_CONDITIONED)
