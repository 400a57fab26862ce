"""Literal tensors: one draw per element, an index into a table of values inside the domain, simplest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle, islice, product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from gradcheck.graph import Input, Shape
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Attribute, Choice, Interval

Draw = Callable[[st.SearchStrategy[Any]], Any]


@cache
def below(count: int) -> st.SearchStrategy[int]:
    """The integers 0 to count - 1."""
    return st.integers(0, count - 1)


def index(draw: Draw, count: int) -> int:
    """An integer in [0, count); nothing is drawn where there is no choice."""
    return int(draw(below(count))) if count > 1 else 0


def choice(draw: Draw, options: Sequence[Any]) -> Any:
    """One of several, the simplest first."""
    return options[index(draw, len(options))]


Table = tuple[float, ...]

PLAIN: Table = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0, -2.0, -0.5, 1.5, 4.0, 0.25, -3.0)
ROUGH: Table = (
    0.7, -0.3, 1.3, 0.6, -1.7, 2.3, 0.43, -0.84, 1.86, -2.6, 0.17, 3.3, -0.61, 0.93, 1.13, -1.19,
    2.74, 0.29, -3.4, 1.62, 0.81, -0.13, 5.7, 0.37, -1.41, 2.09, 0.55, 4.2, -0.97, 1.07, 0.23, -2.17,
)  # fmt: skip
EXTREME: Table = (1e-3, 1e3, 1e-5, -1e-3, 1e5, 100.0, -1e-5, -1e3)
FRACTIONS: Table = (0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875, 0.3, 0.7, 0.43, 0.57, 0.81)
DISTANCES: Table = (1.0, 2.0, 0.5, 3.0, 1.5, 4.0, 0.25, 0.7, 1.3, 2.6, 0.61, 1.86)
WHOLE: Table = (5.0, -4.0, 8.0, 2.5, -2.5, 3.5, -7.0, 10.0, -6.5, 13.0, 16.0, -9.0, 27.0, -31.0, 40.0)
TURNS: Table = tuple(sign * count * np.pi / 2 for count in (1, 2, 3, 4, 6, 8) for sign in (1.0, -1.0))
LOGITS: Table = tuple(
    sign * size for size in (20.0, 30.0, 50.0, 88.5, 120.0, 300.0, 700.0, 745.0) for sign in (1.0, -1.0)
)
POWERS: Table = tuple(
    mantissa * 10.0**exponent
    for exponent in (-12, -9, -7, -6, -4, -2, 2, 4, 6, 7, 9, 12)
    for mantissa in (1.0, -2.5, 7.3, -3.1)
)
WIDE: Table = (*WHOLE, *TURNS, *LOGITS, *POWERS)
"""Values all over the reals: where formulas switch, exponentials saturate and digits are lost."""
NEAR_EDGES = (1e-1, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12)
STYLES = ("plain", "plain", "rough", "tied", "plain", "rough", "rough", "extreme", "wide")
SPECIAL_COPIES = 2
POINTS: tuple[complex, ...] = (0j, 1 + 0j, 1j, -1 + 0j, 2 + 0j, 0j, 1 + 1j, -1j, 0.5 + 0j, 0j, 1 + 0j, -2j)
PLANES = ("points", "whole", "points", "real", "whole", "imaginary")
"""Where complex numbers lie: zeros and ones, cuts and poles are on the axes, where independent parts seldom lie."""
IMAGINARY = 5
"""The imaginary part of a number is this many places behind its real part in a table."""
FEWEST, MANY = 2, 4096
LIMITS = {"float32": (2.0**-20, 2.0**20), "float16": (2.0**-6, 2.0**6), "bfloat16": (2.0**-6, 2.0**6)}
"""The magnitudes that are drawn in less than float64: powers of others would overflow or underflow."""


def _inside(table: Table, interval: Interval, number_type: str) -> Table:
    """The values of a table, as a number type holds them, that lie inside an interval."""
    return tuple(value for value in held(table, number_type) if interval.low < value < interval.high)


@cache
def held(table: Table, number_type: str) -> Table:
    """The values of a table as a number type holds them, without those that are too large or too small for it.

    >>> held((0.5, 0.7, 1e5), "float16")
    (0.5, 0.7001953125)
    """
    if number_type == "float64":
        return table
    kind = np.dtype(ml_dtypes.bfloat16 if number_type == "bfloat16" else number_type)
    (low, high), rounded = LIMITS[number_type], [float(kind.type(value)) for value in table]
    return tuple(dict.fromkeys(value for value in rounded if value == 0 or low <= abs(value) <= high))


def _mapped(interval: Interval) -> Table:
    """A dozen values inside an interval that the tables of plain values may miss."""
    if np.isfinite(interval.low) and np.isfinite(interval.high):
        return tuple(interval.low + (interval.high - interval.low) * fraction for fraction in FRACTIONS)
    bounded_below = np.isfinite(interval.low)
    return tuple(interval.low + value if bounded_below else interval.high - value for value in DISTANCES)


def _near_edges(interval: Interval) -> Table:
    """Values that approach the finite ends of an interval."""
    ends = ((end, way) for end, way in ((interval.low, 1.0), (interval.high, -1.0)) if np.isfinite(end))
    return tuple(end + way * distance * (abs(end) or 1.0) for end, way in ends for distance in NEAR_EDGES)


@cache
def table(interval: Interval, style: str, number_type: str = "float64") -> Table:
    """The values inside an interval that a number type holds, never empty.

    The style is `plain`, `tied` (three plain ones), `rough`, `extreme`, or `wide`: anywhere, and near both ends.
    """
    plain, rough = _inside(PLAIN, interval, number_type), _inside(ROUGH, interval, number_type)
    mapped = _inside(_mapped(interval), interval, number_type)
    if len(plain) < 3:
        plain += tuple(value for value in mapped[:6] if value not in plain)
    if len(rough) < 6:
        rough += tuple(value for value in mapped if value not in rough)
    if style == "plain":
        return plain + tuple(value for value in plain if value in (0.0, 1.0)) * SPECIAL_COPIES
    if style == "tied":
        return plain[:3]
    if style == "wide":
        return plain[:3] + _inside(WIDE + _near_edges(interval), interval, number_type)
    return rough if style == "rough" else rough + _inside(EXTREME, interval, number_type)


def literal(draw: Draw, shape: Shape, dtype: str, interval: Interval, number_type: str = "float64") -> Input:
    """A literal tensor of a shape and a dtype, whose elements lie in an interval and are held by a number type."""
    size = prod(shape)
    # A value near an end may round to it.
    held_by = "float32" if dtype == "float32" and number_type == "float64" else number_type
    values = table(interval, choice(draw, STYLES), held_by)
    # Fewer draws are simpler to Hypothesis; padded, an empty tensor or a scalar is no simpler than two elements.
    if dtype != "complex128":
        return _input(shape, dtype, elements(draw, size, values, fewest=FEWEST), [])
    return Input(shape, tuple(elements(draw, size, values, plane_of(draw, interval), fewest=FEWEST)), dtype)


def plane_of(draw: Draw, interval: Interval) -> str:
    """Where the complex numbers of one tensor lie, one of `PLANES`."""
    return str(choice(draw, PLANES)) if interval.contains(np.array(POINTS)) else "whole"


def elements(draw: Draw, size: int, values: Table, plane: str | None = None, fewest: int = 0) -> list[Any]:
    """`size` elements, one draw each: floats from a table, or complex numbers in a plane.

    At least `fewest` are drawn; those beyond `size` are dropped.
    """
    options = POINTS if plane == "points" else values
    drawn = [choice(draw, options) for _ in range(max(size, fewest))][:size]
    if plane == "whole":
        return [complex(real, choice(draw, values)) for real in drawn]
    if plane in ("real", "imaginary"):
        return [complex(one, 0.0) if plane == "real" else complex(0.0, one) for one in drawn]
    return drawn


def smooth(shape: Shape, dtype: str, interval: Interval, offset: int = 0, number_type: str = "float64") -> Input:
    """A tensor without any special value: no zeros or ones, and no ties below the length of the table."""
    values = cycle(table(interval, "rough", number_type))
    taken = list(islice(values, offset, offset + prod(shape) + IMAGINARY))
    return _input(shape, dtype, taken[: prod(shape)], taken[IMAGINARY:])


def _input(shape: Shape, dtype: str, reals: Sequence[float], imaginary: Sequence[float]) -> Input:
    if dtype == "complex128":
        return Input(shape, tuple(map(complex, reals, imaginary)), dtype)
    return Input(shape, tuple(float(np.float32(real)) if dtype == "float32" else real for real in reals), dtype)


GOLDEN = (5**0.5 - 1) / 2
"""Its multiples modulo 1 are spread evenly, whatever their number (Weyl)."""
SPAN = 4.0
DIGITS = 5
"""Enough for thousands of values without ties."""
PLACES = 3
"""Number of elements of a large tensor whose place and value are drawn; each may be a special value."""


def large(draw: Draw, shape: Shape, dtype: str, interval: Interval, argument: int = 0) -> Input:
    """A literal of many elements: spread over the interval without ties, except for a few that are drawn.

    Different arguments get different elements.
    """
    size, start = prod(shape), index(draw, MANY)
    places = range(2 * argument, 2 * argument + (2 if dtype == "complex128" else 1))
    parts = [_spread(interval, size, start + 2 * MANY * place) for place in places]
    special = table(interval, "plain")
    for _ in range(PLACES):
        place = index(draw, size)
        for part in parts:
            part[place] = choice(draw, (part[place], *special))
    return _input(shape, dtype, parts[0], parts[-1])


def _spread(interval: Interval, size: int, start: int) -> list[float]:
    """`size` different values inside an interval, none of them special."""
    low, high = interval.low, interval.high
    if not np.isfinite([low, high]).all():
        low, high = max(low, min(-SPAN, high - SPAN)), min(high, max(SPAN, low + SPAN))
    values = low + (high - low) * ((np.arange(start + 1, start + size + 1) * GOLDEN) % 1)
    return list(np.round(values, DIGITS if high - low >= 1 else 17).tolist())


def without_zeros(values: Input, interval: Interval, number_type: str = "float64") -> Input:
    """The same tensor with exact zeros replaced by the simplest other value of the interval."""
    others = table(interval, "plain", number_type) + table(interval, "rough", number_type)
    other = next(value for value in others if value != 0.0)
    return Input(values.shape, tuple(other if value == 0 else value for value in values.values), values.dtype)


def is_special(values: Input) -> bool:
    """Whether a literal has an exact zero or one, a tie, an extreme magnitude, or a dimension of size 0 or 1."""
    return (
        0 in values.shape
        or 1 in values.shape
        or len(set(values.values)) < len(values.values)
        or any(value in (0, 1) or not 2e-3 <= abs(value) <= 99 for value in values.values)
    )


@cache
def offered(op: str, shapes: tuple[Shape, ...]) -> Mapping[str, Attribute]:
    """The possible values of an operation's attributes, for arguments of these shapes."""
    return CATALOGUE[op].attributes(*shapes)


def attributes(draw: Draw, op: str, shapes: tuple[Shape, ...]) -> dict[str, Any]:
    """One literal for each attribute of the operation."""
    return {name: _literal(draw, attribute) for name, attribute in offered(op, shapes).items()}


def _literal(draw: Draw, attribute: Attribute) -> Any:
    if isinstance(attribute, Choice):
        return choice(draw, attribute.values)
    indices: list[int] = []
    for _ in range(attribute.count):
        drawn = index(draw, attribute.below)
        while attribute.distinct and drawn in indices:
            drawn = (drawn + 1) % attribute.below
        indices.append(drawn)
    return tuple(sorted(indices)) if attribute.sorted else tuple(indices)


def alternatives(op: str, shapes: tuple[Shape, ...], count: int = 8) -> Iterator[dict[str, Any]]:
    """The first few combinations of an operation's attributes, the simplest first, without any draw."""
    attributes_of = offered(op, shapes)
    for combination in islice(product(*map(_simplest, attributes_of.values())), count):
        yield dict(zip(attributes_of, combination, strict=True))


def _simplest(attribute: Attribute) -> tuple[Any, ...]:
    if isinstance(attribute, Choice):
        return attribute.values
    ascending = attribute.count <= attribute.below
    return (tuple(range(attribute.count)) if ascending else (0,) * attribute.count,)
