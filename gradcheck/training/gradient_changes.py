"""What a step did to gradients after its tape gave them: clipped by value, norm or global norm, averaged, scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import ROUNDOFF, to_coordinates

Array = np.ndarray[Any, Any]

SAME, DIFFERENT = 1e-5, 1e-3
"""Sizes count as equal, or as different, if they differ by at most, or at least, this part of them."""
SLACK = 1e3
"""Two ways of computing one gradient agree within so many units of roundoff of its largest element."""


@dataclass(frozen=True)
class GradientPair:
    """One variable's gradient as it was taken and as it was used, in real coordinates, both of shape (n,).

    `slack` is by how much two computations of the same element may differ.
    """

    taken: Array
    used: Array
    slack: float

    def is_used(self, expected: Array) -> bool:
        """Whether `expected` is what was used."""
        return bool(np.all(np.abs(self.used - expected) <= self.slack))


def gradient_pairs(
    taken: Sequence[Array | None], used: Sequence[Array | None], error: float = 0.0
) -> list[GradientPair] | None:
    """The pairs of two lists of gradients; None where only one has a gradient, or where one is not finite.

    `error` is that of `taken`, beside its rounding.
    """
    pairs = []
    for one, other in zip(taken, used, strict=True):
        if (one is None) != (other is None):
            return None
        if one is not None and other is not None:
            if one.shape != other.shape or not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
                return None
            unit = max(ROUNDOFF[one.dtype.name], ROUNDOFF[other.dtype.name])
            slack = error + SLACK * unit * float(np.max(np.abs(one), initial=0.0))
            pairs.append(GradientPair(to_coordinates(one), to_coordinates(other), slack))
    return pairs


def unchanged(pairs: Sequence[GradientPair]) -> bool:
    """Whether the gradients used are those that were taken."""
    return all(pair.is_used(pair.taken) for pair in pairs)


def clipping(pairs: Sequence[GradientPair], functions: Sequence[str]) -> str | None:
    """How the gradients were clipped, such as "clipped to the global norm 1 (it was 5)"; None where they were not.

    `functions` are those that gradients went through, such as clip_by_norm. Where there are none, two elements (or the
    gradients of two variables) of different sizes must have got the same one before that counts as clipping.
    """
    called, found = set(functions), None
    if "clip_by_value" in called or not called:
        found = _by_value(pairs, known=bool(called))
    if found is None and ({"clip_by_norm", "norm"} & called or not called):
        found = _by_norm(pairs, known=bool(called))
    if found is None and {"clip_by_global_norm", "global_norm", "norm"} & called:
        found = _by_global_norm(pairs)
    return found


def averaging(pairs: Sequence[GradientPair], counts: dict[int, str]) -> str | None:
    """Whether the gradients were divided by one of the counts, such as {8: "the 8 samples of inputs[0]"}."""
    for count, of in counts.items():
        if count > 1 and all(pair.is_used(pair.taken / count) for pair in pairs):
            return f"averaged over {of}"
    return None


def common_factor(pairs: Sequence[GradientPair]) -> float | None:
    """The one number by which all gradients were multiplied; None where there is none."""
    taken, used = _joined(pairs)
    if not np.any(taken):
        return None
    ratio = float(taken @ used / (taken @ taken))
    return ratio if all(pair.is_used(ratio * pair.taken) for pair in pairs) else None


def _by_value(pairs: Sequence[GradientPair], *, known: bool) -> str | None:
    taken, used = _joined(pairs)
    changed = np.concatenate([np.zeros(0, bool), *(np.abs(p.used - p.taken) > p.slack for p in pairs)])
    if not changed.any() or not (known or _levelled(np.abs(taken[changed]), np.abs(used[changed]))):
        return None
    low, high = float(used.min()), float(used.max())
    above, below = bool(np.any(changed & (taken > used))), bool(np.any(changed & (taken < used)))
    if (above and high < 0) or (below and low > 0):
        return None  # clipping reverses no gradient
    if not all(pair.is_used(np.clip(pair.taken, low, high)) for pair in pairs):
        return None
    bounds = [f"at most {high:.6g}"] * above + [f"at least {low:.6g}"] * below
    return f"clipped by value to {' and '.join(bounds)}"


def _by_norm(pairs: Sequence[GradientPair], *, known: bool) -> str | None:
    taken = np.array([np.linalg.norm(pair.taken) for pair in pairs])
    used = np.array([np.linalg.norm(pair.used) for pair in pairs])
    changed = used < taken - np.array([pair.slack * pair.taken.size for pair in pairs])
    if not changed.any() or not (known or _levelled(taken[changed], used[changed])):
        return None
    limit = float(used[changed].max())
    nonzero = [(pair, norm) for pair, norm in zip(pairs, taken, strict=True) if norm]
    if not all(pair.is_used(pair.taken * min(1.0, limit / norm)) for pair, norm in nonzero):
        return None
    return f"clipped to the norm {limit:.6g} for each variable (the longest was {taken.max():.6g})"


def _by_global_norm(pairs: Sequence[GradientPair]) -> str | None:
    ratio = common_factor(pairs)
    if ratio is None or not 0 < ratio < 1:
        return None
    before = float(np.linalg.norm(_joined(pairs)[0]))
    return f"clipped to the global norm {ratio * before:.6g} (it was {before:.6g})"


def _levelled(taken: Array, used: Array) -> bool:
    """Whether two different sizes became one."""
    equal = np.abs(used[:, None] - used) <= SAME * np.abs(used)
    return bool(np.any(equal & (np.abs(taken[:, None] - taken) > DIFFERENT * np.abs(taken))))


def _joined(pairs: Sequence[GradientPair]) -> tuple[Array, Array]:
    """All elements as they were taken, and as they were used."""
    empty = np.zeros(0)
    return np.concatenate([empty, *(p.taken for p in pairs)]), np.concatenate([empty, *(p.used for p in pairs)])
