"""The values of the tables as an array of any dtype holds them: rounded, and still inside the domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from gradcheck.hunt.opspec import Interval

from .values import Table, table

Array = np.ndarray[Any, Any]

PARTS = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the real and imaginary parts."""
WHOLE_ENDS = {"int32": (-(2.0**31), 2.0**31 - 1), "int64": (-(2.0**63), 2.0**63 - 1024), "bool": (0.0, 1.0)}
"""The smallest and the largest value, as far as float64 holds them."""
TINY = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""The smallest normal number."""
DTYPES = (*TINY, *PARTS, *WHOLE_ENDS)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's dtype of one of `DTYPES`."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@cache
def ends(interval: Interval, dtype: str) -> tuple[float, float]:
    """The smallest and the largest number inside an interval that a real dtype holds; the first is larger if none is.

    Subnormal numbers do not count: TensorFlow takes them for zero.

    >>> ends(Interval(0.0, 10.0), "int32"), ends(Interval(0.0, 1.0), "float16")
    ((1.0, 9.0), (6.103515625e-05, 0.99951171875))
    """
    inside = opened(interval)
    if dtype not in WHOLE_ENDS:
        return _least_above(inside.low, dtype), -_least_above(-inside.high, dtype)
    # Of large numbers, the next one that float64 holds is further away than one.
    low = max(np.floor(inside.low) + 1.0, np.nextafter(inside.low, math.inf), WHOLE_ENDS[dtype][0])
    high = min(np.ceil(inside.high) - 1.0, np.nextafter(inside.high, -math.inf), WHOLE_ENDS[dtype][1])
    return float(low), float(high)


def _least_above(low: float, dtype: str) -> float:
    held = rounded([low], dtype)
    if held[0] <= low:
        kind = numpy_dtype(dtype)
        held = np.nextafter(held.astype(kind), np.array([math.inf], kind)).astype(np.float64)
    return TINY[dtype] if 0 < held[0] < TINY[dtype] else float(rounded(held, dtype)[0])


def rounded(values: Sequence[float] | Array, dtype: str) -> Array:
    """Values as a real dtype holds them, in float64; no subnormal ones, no minus zero, infinite if they are too large.

    >>> rounded([0.7, -0.3, 1e5], "float16").tolist(), rounded([0.7, -0.3, 1e5], "int32").tolist()
    ([0.7001953125, -0.300048828125, inf], [1.0, 0.0, 100000.0])
    """
    exact = np.asarray(values, np.float64)
    if dtype in WHOLE_ENDS:
        low, high = WHOLE_ENDS[dtype]
        whole = np.rint(exact) + 0.0
        return np.where(whole > high, math.inf, np.where(whole < low, -math.inf, whole))
    with np.errstate(over="ignore", under="ignore"):
        held = exact.astype(numpy_dtype(dtype)).astype(np.float64)
    return np.where(np.abs(held) < TINY[dtype], 0.0, held)


def clipped(values: Sequence[float] | Array, interval: Interval, dtype: str) -> Array:
    """Values as a real dtype holds them; those that rounding moves out of the interval become its nearest end."""
    return np.clip(rounded(values, dtype), *ends(interval, dtype))


@cache
def held_table(interval: Interval, style: str, dtype: str) -> Table:
    """The values of `table` inside an interval as a real dtype holds them, without those too large for it; never empty.

    Integers are sorted by size, so that the smallest are the simplest in every style.

    >>> held_table(Interval(0.0), "plain", "float16")[:4], held_table(Interval(-2.0, 4.0), "rough", "int32")
    ((1.0, 2.0, 0.5, 3.0), (0.0, 1.0, -1.0, 2.0, 3.0))
    """
    values = np.array(table(opened(interval), style))
    kept = clipped(values[np.isfinite(rounded(values, dtype))], interval, dtype).tolist()
    if dtype in WHOLE_ENDS:
        kept = sorted(set(kept), key=lambda value: (abs(value), -value))
    return tuple(kept) or ends(interval, dtype)


def opened(interval: Interval) -> Interval:
    """The open interval that holds the same float64 numbers."""
    if not interval.closed:
        return interval
    return Interval(float(np.nextafter(interval.low, -math.inf)), float(np.nextafter(interval.high, math.inf)))
