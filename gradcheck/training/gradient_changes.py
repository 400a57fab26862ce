"""Changes of gradients between a step's tape and their use: clipped by value, norm or global norm, averaged, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates
from gradcheck.problem.mapped import as_array
from gradcheck.typing import Array

ClipLimits = Sequence[tuple[str, tuple[float, ...] | None]]
"""Clip functions that gradients went through, with their limits: the bounds of values, a norm, or the factor by which
clip_by_global_norm multiplied; None where it is not known."""

SAME, DIFFERENT = 1e-5, 1e-3
"""Sizes count as equal, or as different, if they differ by at most, or at least, this part of them."""
CLIPPED_AT_ZERO = "clip_by_value with zero as a bound"
"""Marks a call that turned gradients of one sign into zeros."""
SLACK = 1e3
"""Two ways of computing one gradient agree within this many units of roundoff of its largest element."""


def dense(gradient: Any) -> Array | None:
    """Convert a gradient (a tensor, IndexedSlices, a number) to an array of its source's shape; None stays None."""
    if gradient is None:
        return None
    array = as_array(tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient)
    return array.astype(np.float64) if array.dtype.kind in "iu" else array


def repeats_rows(gradient: Any) -> bool:
    """Whether a gradient is IndexedSlices with several values for one row, whose sum counts."""
    return isinstance(gradient, tf.IndexedSlices) and len(np.unique(gradient.indices)) < len(gradient.indices)


def clipping_of_values(taken: Any, used: Any, functions: Sequence[str], limits: ClipLimits) -> str | None:
    """Describe how the values of IndexedSlices were clipped before repeated rows were summed; None if they were not."""
    if not (repeats_rows(taken) and repeats_rows(used) and np.array_equal(taken.indices, used.indices)):
        return None
    change = GradientChange.between([taken.values], [used.values])
    clipping = None if change is None or change.nothing else change.clipping(functions, limits)
    return None if clipping is None else clipping.note.replace("for each variable (the longest", "(it")


def norm_of_values(gradients: Sequence[Any]) -> float:
    """The norm of all gradients where repeated rows of IndexedSlices count apart, as TensorFlow's clips take it."""
    values = [dense(one.values if isinstance(one, tf.IndexedSlices) else one) for one in gradients]
    return float(np.linalg.norm([np.linalg.norm(one) for one in values if one is not None]))


@dataclass(frozen=True)
class Clipping:
    """How gradients were clipped, such as "clipped to the global norm 1 (it was 5)".

    `by_a_norm`: it is only known that they were multiplied and that their norm was computed.
    """

    note: str
    by_a_norm: bool = False


@dataclass(frozen=True)
class GradientChange:
    """The gradients of several variables, as taken and as used, in real coordinates, shape (n,).

    `slack` is the tolerance between two computations of an element, `owner` the number of its variable.
    """

    taken: Array
    used: Array
    slack: Array
    owner: Array

    @classmethod
    def between(
        cls, taken: Sequence[Any], used: Sequence[Any], error: float | Sequence[float] = 0.0
    ) -> GradientChange | None:
        """Compare two lists of gradients, in any form; None where only one has a gradient, or one is not finite.

        `error` is that of `taken`, or one for each of them, in addition to rounding.
        """
        parts = [np.zeros((4, 0))]
        triples = zip(map(dense, taken), map(dense, used), np.broadcast_to(error, len(taken)), strict=True)
        for number, (one, other, beside) in enumerate(triples):
            if one is None and other is None:
                continue
            if one is None or other is None or one.shape != other.shape:
                return None
            if not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
                if np.array_equal(one, other, equal_nan=True):
                    continue
                return None
            unit = max(ROUNDOFF[one.dtype.name], ROUNDOFF[other.dtype.name])
            slack = beside + SLACK * unit * float(np.max(np.abs(one), initial=0.0))
            parts.append(np.stack(np.broadcast_arrays(to_coordinates(one), to_coordinates(other), slack, number)))
        one, other, slacks, owner = np.concatenate(parts, axis=1)
        return cls(one, other, slacks, owner.astype(int))

    @property
    def nothing(self) -> bool:
        """Whether the gradients used are those that were taken."""
        return self._used_is(self.taken)

    @property
    def factor(self) -> float | None:
        """The common factor by which all gradients were multiplied; None if there is none."""
        if not np.any(self.taken):
            return None
        ratio = float(self.taken @ self.used / (self.taken @ self.taken))
        return ratio if self._used_is(ratio * self.taken) else None

    def averaging(self, counts: dict[int, str]) -> str | None:
        """Describe which of the counts, such as {8: "the 8 samples of inputs[0]"}, divided the gradients, if any."""
        divided = (of for count, of in counts.items() if count > 1 and self._used_is(self.taken / count))
        return next((f"averaged over {of}" for of in divided), None)

    def clipping(self, functions: Sequence[str], limits: ClipLimits = ()) -> Clipping | None:
        """Describe how the gradients were clipped; None where they were not.

        `functions` are those that gradients went through, such as clip_by_norm. If there are none, two elements (or the
        gradients of two variables) of different sizes must have become equal before that counts as clipping. A function
        with known `limits` clips to no others. A gradient that became zero was lost, not clipped, unless a clip
        function had zero as a bound (CLIPPED_AT_ZERO).
        """
        called, note = set(functions), None
        if "clip_by_value" in called or not called:
            bounds = _known("clip_by_value", limits)
            note = self._by_value(known=bool(called), at_zero=CLIPPED_AT_ZERO in called)
            if note and (bounds is None or any(self._used_is(np.clip(self.taken, low, high)) for low, high in bounds)):
                return Clipping(note)
        if {"clip_by_norm", "norm"} & called or not called:
            norms = _known("clip_by_norm", limits)
            if note := self._by_norm(known=bool(called)):
                if not called or any(self._used_is(self._shortened(limit)) for (limit,) in norms or ()):
                    return Clipping(note)
                if "norm" in called or norms is None:
                    return Clipping(note, by_a_norm=True)
        if {"clip_by_global_norm", "global_norm", "norm"} & called and (note := self._by_global_norm()):
            factors = _known("clip_by_global_norm", limits)
            if any(self._used_is(factor * self.taken) for (factor,) in factors or ()):
                return Clipping(note)
            if {"global_norm", "norm"} & called or factors is None:
                return Clipping(note, by_a_norm=True)
        return None

    def same_factors(self, other: GradientChange) -> bool:
        """Whether other gradients of these variables were multiplied by the same factors, whatever their length.

        No clipping does that: a clipped gradient always ends with the same length.
        """
        if not np.array_equal(self.owner, other.owner):
            return False
        lengths = float(np.linalg.norm(self.used)), float(np.linalg.norm(other.used))
        if abs(lengths[0] - lengths[1]) <= DIFFERENT * lengths[0]:
            return False
        before, after = self._norms(self.taken), self._norms(self.used)
        factors = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        return other._used_is(factors[self.owner] * other.taken)

    def _by_value(self, *, known: bool, at_zero: bool) -> str | None:
        taken, used = self.taken, self.used
        changed = np.abs(used - taken) > self.slack
        if not used.any() or (not at_zero and not np.all(used[changed])):
            return None
        if not changed.any() or not (known or _levelled(np.abs(taken[changed]), np.abs(used[changed]))):
            return None
        low, high = float(used.min()), float(used.max())
        above, below = bool(np.any(changed & (taken > used))), bool(np.any(changed & (taken < used)))
        if (above and high < 0) or (below and low > 0):
            return None  # clipping reverses no gradient
        if not self._used_is(np.clip(taken, low, high)):
            return None
        bounds = [f"at most {high:.6g}"] * above + [f"at least {low:.6g}"] * below
        return f"clipped by value to {' and '.join(bounds)}"

    def _by_norm(self, *, known: bool) -> str | None:
        taken, used = self._norms(self.taken), self._norms(self.used)
        changed = used < taken - np.bincount(self.owner, self.slack)
        if not changed.any() or not (known or _levelled(taken[changed], used[changed])):
            return None
        limit = float(used[changed].max())
        if not limit or not self._used_is(self._shortened(limit)):
            return None
        return f"clipped to the norm {limit:.6g} for each variable (the longest was {taken.max():.6g})"

    def _by_global_norm(self) -> str | None:
        ratio = self.factor
        if ratio is None or not 0 < ratio < 1:
            return None
        before = float(np.linalg.norm(self.taken))
        return f"clipped to the global norm {ratio * before:.6g} (it was {before:.6g})"

    def _norms(self, values: Array) -> Array:
        """The norms of the gradients of each variable."""
        return np.asarray(np.sqrt(np.bincount(self.owner, values**2)))

    def _shortened(self, limit: float) -> Array:
        """The gradients as taken, clipped to a norm for each variable."""
        norms = self._norms(self.taken)
        factors = np.minimum(1.0, limit / np.where(norms, norms, np.inf))
        return np.asarray(self.taken * factors[self.owner])

    def _used_is(self, expected: Array) -> bool:
        return bool(np.all(np.abs(self.used - expected) <= self.slack))


def _known(function: str, limits: ClipLimits) -> list[tuple[float, ...]] | None:
    """The limits of the calls of a clip function; None where these are not known."""
    found = [limit for name, limit in limits if name == function]
    return None if not found or None in found else [limit for limit in found if limit is not None]


def alike(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists of gradients, or of other values, are equal up to rounding."""
    change = GradientChange.between(some, others)
    return change is not None and change.nothing


def _levelled(taken: Array, used: Array) -> bool:
    """Whether two different sizes became equal."""
    equal = np.abs(used[:, None] - used) <= SAME * np.abs(used)
    return bool(np.any(equal & (np.abs(taken[:, None] - taken) > DIFFERENT * np.abs(taken))))
