"""What was done to gradients after they were taken: clipped by value, by norm, by global norm, averaged, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import to_coordinates
from gradcheck.autodiff.precision import ROUNDOFF
from gradcheck.finding import Cause

Array = np.ndarray[Any, Any]

AFTERWARDS = Cause.CHANGED_AFTERWARDS.value
ALIKE, DIFFERENT = 1e-5, 1e-3
SLACK = 1e3
"""Two ways of computing one gradient agree within so many units of roundoff of its largest element."""


@dataclass(frozen=True)
class Pair:
    """One variable's gradient as it was taken and as it was used, in real coordinates, both of shape (n,).

    `slack` is by how much two computations of the same element may differ.
    """

    taken: Array
    used: Array
    slack: float

    def is_used(self, expected: Array) -> bool:
        """Whether `expected` is what was used."""
        return bool(np.all(np.abs(self.used - expected) <= self.slack))


def pairs(taken: Sequence[Array | None], used: Sequence[Array | None], error: float = 0.0) -> list[Pair] | None:
    """The pairs of two lists of gradients; None where one has a gradient that the other has not, or not finite.

    `error` is that of `taken`, beside its rounding.
    """
    found = []
    for one, other in zip(taken, used, strict=True):
        if (one is None) != (other is None):
            return None
        if one is not None and other is not None:
            if one.shape != other.shape or not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
                return None
            found.append(Pair(to_coordinates(one), to_coordinates(other), error + slack_of(one, other)))
    return found


def slack_of(*gradients: Array) -> float:
    """By how much an element of a gradient may differ where it is computed in another way."""
    unit = max(ROUNDOFF[gradient.dtype.name] for gradient in gradients)
    return SLACK * unit * float(np.max(np.abs(gradients[0]), initial=0.0))


def unchanged(found: Sequence[Pair]) -> bool:
    """Whether the gradients used are those that were taken."""
    return all(pair.is_used(pair.taken) for pair in found)


def clipping(found: Sequence[Pair], clips: Sequence[str]) -> str | None:
    """How the gradients were clipped, such as "clipped to the global norm 1 (it was 5)"; None where they were not.

    `clips` are the functions that gradients went through. Without such a witness, two elements (or the gradients of two
    variables) that had different sizes must have got the same one before that counts as clipping.
    """
    said = None
    if "clip_by_value" in clips or not clips:
        said = _by_value(found, witness=bool(clips))
    if said is None and ({"clip_by_norm", "norm"} & set(clips) or not clips):
        said = _by_norm(found, witness=bool(clips))
    if said is None and {"clip_by_global_norm", "global_norm", "norm"} & set(clips):
        said = _by_global_norm(found)
    return said


def averaging(found: Sequence[Pair], counts: dict[int, str]) -> str | None:
    """Whether the gradients were divided by one of the counts, such as {8: "the 8 samples of inputs[0]"}."""
    for count, of in counts.items():
        if count > 1 and all(pair.is_used(pair.taken / count) for pair in found):
            return f"averaged over {of}"
    return None


def factor(found: Sequence[Pair]) -> float | None:
    """The one number by which all gradients were multiplied; None where there is none."""
    taken, used = _joined([pair.taken for pair in found]), _joined([pair.used for pair in found])
    if not np.any(taken):
        return None
    ratio = float(taken @ used / (taken @ taken))
    return ratio if all(pair.is_used(ratio * pair.taken) for pair in found) else None


def _by_value(found: Sequence[Pair], *, witness: bool) -> str | None:
    where = _joined([np.abs(pair.used - pair.taken) > pair.slack for pair in found]).astype(bool)
    taken, used = _joined([pair.taken for pair in found]), _joined([pair.used for pair in found])
    if not where.any() or not (witness or _levelled(np.abs(taken[where]), np.abs(used[where]))):
        return None
    low, high = float(used.min()), float(used.max())
    above, below = bool(np.any(where & (taken > used))), bool(np.any(where & (taken < used)))
    if (above and high < 0) or (below and low > 0):
        return None  # clipping turns no gradient round
    if not all(pair.is_used(np.clip(pair.taken, low, high)) for pair in found):
        return None
    bounds = [f"at most {high:.6g}"] * above + [f"at least {low:.6g}"] * below
    return f"clipped by value to {' and '.join(bounds)}"


def _by_norm(found: Sequence[Pair], *, witness: bool) -> str | None:
    taken = np.array([np.linalg.norm(pair.taken) for pair in found])
    used = np.array([np.linalg.norm(pair.used) for pair in found])
    where = used < taken - np.array([pair.slack * pair.taken.size for pair in found])
    if not where.any() or not (witness or _levelled(taken[where], used[where])):
        return None
    limit = float(used[where].max())
    if not all(
        pair.is_used(pair.taken * min(1.0, limit / size)) for pair, size in zip(found, taken, strict=True) if size
    ):
        return None
    return f"clipped to the norm {limit:.6g} for each variable (the longest was {taken.max():.6g})"


def _by_global_norm(found: Sequence[Pair]) -> str | None:
    ratio = factor(found)
    if ratio is None or not 0 < ratio < 1:
        return None
    before = float(np.linalg.norm(_joined([pair.taken for pair in found])))
    return f"clipped to the global norm {ratio * before:.6g} (it was {before:.6g})"


def _levelled(taken: Array, used: Array) -> bool:
    """Whether two different sizes became one."""
    equal = np.abs(used[:, None] - used) <= ALIKE * np.abs(used)
    return bool(np.any(equal & (np.abs(taken[:, None] - taken) > DIFFERENT * np.abs(taken))))


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)
