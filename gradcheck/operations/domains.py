"""Domains, declared by name or as bounds, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck.operations.spec import NONNEGATIVE, POSITIVE, REALS, Interval

Domain = str | tuple[float | None, float | None] | range

DOMAINS: Mapping[str, Interval] = {
    "reals": REALS,
    "positive": POSITIVE,
    "nonnegative": NONNEGATIVE,
    "negative": Interval(high=0.0),
    "probabilities": Interval(0.0, 1.0, closed=True),
}


def interval_of(given: Any) -> Interval | None:
    """The interval of a name, of exclusive bounds, or of a range of integers; None for anything else.

    >>> interval_of((2.0, None)), interval_of((2, 1))
    (Interval(low=2.0, high=inf, closed=False), None)
    """
    if isinstance(given, str):
        return DOMAINS.get(given)
    if isinstance(given, range):
        return Interval(given.start, given.stop - 1, closed=True) if given.step == 1 else None
    if not isinstance(given, (tuple, list)) or len(given) != 2 or not all(map(_is_bound, given)):
        return None
    low, high = (-math.inf if given[0] is None else given[0]), (math.inf if given[1] is None else given[1])
    return Interval(float(low), float(high)) if low < high else None


def _is_bound(bound: Any) -> bool:
    numbers = (int, float, np.integer, np.floating)
    return bound is None or (isinstance(bound, numbers) and not isinstance(bound, bool) and not math.isnan(bound))
