"""Special sets of an operation's arguments, which records of known defects name; each predicate is plain NumPy.

The catalogue declares an operation's own beside it. Those of single arguments, such as "zero in argument 0", every
operation has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from gradcheck.operations.distances import Axes, groups
from gradcheck.operations.spec import SpecialSet
from gradcheck.typing import Array

ZERO = 64 * np.finfo(np.float64).eps
"""A singular value that is this small relative to the largest may be 0."""
VALUES: dict[str, Callable[[Array], object]] = {
    "no element": lambda x: x.size == 0,
    "zero": lambda x: np.any(x == 0),
    "tie": lambda x: np.unique(x).size < x.size,
    "one": lambda x: np.any(x == 1),
    "a single element": lambda x: x.size == 1,
    "several elements": lambda x: x.size > 1,
    "not real": lambda x: np.any(x.imag != 0),
}
"""Special properties that an argument of any operation may have."""
DESCRIBED = tuple(VALUES)[:5]
"""The properties that are looked for in the arguments of a finding, in this order."""


@cache
def of_argument(name: str) -> SpecialSet | None:
    """The set of every operation with this name, such as "zero in argument 1"; None if there is none.

    >>> of_argument("zero in argument 1").contains({}, [np.array([2.0]), np.array([1.0, 0.0])])
    True
    """
    value, _, number = name.partition(" in argument ")
    return SpecialSet(name, VALUES[value], (int(number),)) if value in VALUES and re.fullmatch(r"\d", number) else None


def special(arguments: Sequence[Any]) -> SpecialSet | None:
    """The first of the sets of every operation in which some arguments lie, of those that describe findings.

    >>> special([np.array([1.5, 2.5]), np.array([0.0, 0.0])]).name
    'zero in argument 1'
    """
    sets = (of_argument(f"{value} in argument {number}") for value in DESCRIBED for number in range(len(arguments)))
    return next((one for one in sets if one is not None and one.contains({}, arguments)), None)


def describe(arguments: Sequence[Any]) -> str:
    """The special property of an operation's arguments, in a few words; "none" if there is none.

    >>> describe([np.array([1.5, 0.0])])
    'zero in argument 0'
    """
    found = special(arguments)
    return "none" if found is None else found.name


def along(x: Array, axis: Axes) -> Array:
    """The elements along the axes of an array, which come last, as one; a scalar is one element."""
    return groups(x, axis if x.ndim else None)


def _null(x: Array, axis: Axes = -1) -> bool:
    rows = along(x, axis)
    return rows.shape[-1] > 0 and bool(np.any(np.all(rows == 0, axis=-1)))


def _constant(x: Array, axis: Axes = -1) -> bool:
    rows = along(x, axis)
    return rows.shape[-1] > 1 and bool(np.any(np.all(rows == rows[..., :1], axis=-1)))


def _one_or_two_zeros(x: Array, *, axis: Axes = -1) -> bool:
    rows = along(x, axis)
    return rows.shape[-1] > 1 and bool(np.any(np.isin(np.count_nonzero(rows == 0, axis=-1), (1, 2))))


NULL_VECTOR = SpecialSet("zero vector", lambda x, *, axis=-1: _null(x, axis))
SECOND_NULL_VECTOR = SpecialSet("zero vector in argument 1", lambda x, *, axis=-1: _null(x, axis), (1,))
NULL_MATRIX = SpecialSet("zero matrix", lambda x: _null(x, (-2, -1)))
ALL_ZERO = SpecialSet("all elements zero", lambda x: _null(x, None))
COINCIDING_POINTS = SpecialSet("coinciding points", lambda x, y: _null(x - y), (0, 1))
ONE_OR_TWO_ZEROS = SpecialSet("one or two zeros among several", _one_or_two_zeros)
EQUAL_ELEMENTS = SpecialSet("all elements equal", lambda x, *, axis=-1: _constant(x, axis))
ONE_ELEMENT = SpecialSet("one element along axis", lambda x, *, axis=-1: along(x, axis).shape[-1] == 1)
SEVERAL_ELEMENTS = SpecialSet("several elements along axis", lambda x, *, axis=-1: along(x, axis).shape[-1] > 1)
NARROW_FILTER = SpecialSet("filter of width 1", lambda x: along(x, -3).shape[-1] == 1, (1,))
FLAT_IMAGE = SpecialSet(
    "flat image in float32",
    lambda x: along(x, (-3, -2, -1)).shape[-1] == 1 or _constant(x.astype(np.float32), (-3, -2, -1)),
)
CONSTANT_ROW_OR_COLUMN = SpecialSet(
    "constant row or column", lambda x: any(_constant(x, axis) or _null(x, axis) for axis in (-1, -2))
)
SCALAR_FACTOR = SpecialSet("scalar in argument 1", lambda x: x.ndim == 0, (1,))
SINGLE_BAND = SpecialSet("a single band", lambda x: x.shape[-2] == 1)
SEVERAL_ALONG_EACH = SpecialSet("several elements along each axis", lambda x: min(x.shape, default=2) > 1)


def over_rows(count: int) -> SpecialSet:
    """The set of more than `count` rows, which the last dimension is: so many terms a sum over all others has."""
    return SpecialSet(f"more than {count} rows", lambda x: math.prod(x.shape[:-1]) > count)


def over_repeats(count: int) -> SpecialSet:
    """The set of indices one of which is given more than `count` times: so many terms its gradient has."""

    def holds(_: Array, *, indices: Any = (), rows: Any = (), columns: Any = ()) -> bool:
        places = np.array([each for each in (indices, rows, columns) if len(each)])
        return bool(places.size and np.max(np.unique(places, axis=1, return_counts=True)[1]) > count)

    return SpecialSet(f"an index more than {count} times", holds)


def _many_along(count: int, x: Array, *, axis: Axes = -1) -> object:
    return along(x, axis).shape[-1] > count


# Where numbers stop counting by one: the significand of bfloat16 has 8 bits, that of float16 11.
OVER_256_ROWS, OVER_1024_ROWS = over_rows(256), over_rows(1024)
# Behind a number as large as 2048, a thousand ones count for nothing in float16.
OVER_256_IMAGES = SpecialSet("more than 256 images", lambda x: x.shape[0] > 256)
OVER_256_PIXELS = SpecialSet("more than 256 pixels", OVER_256_ROWS.holds)
OVER_1024_PIXELS = SpecialSet("more than 1024 pixels", OVER_1024_ROWS.holds)
MANY_ALONG_AXIS = tuple(
    SpecialSet(f"more than {count} elements along axis", partial(_many_along, count)) for count in (256, 1024)
)
ROW_FOR_MANY = SpecialSet(
    "a row for more than 1024", lambda x, y: y.ndim > 0 and y.shape[-1] > 1 and x.size > 1024 * y.size, (0, 1)
)
NEAR_CHANNELS = SpecialSet(
    "channels that differ by less than 2**-8",
    lambda x: np.any(((gaps := np.abs(x - np.roll(x, 1, axis=-1))) > 0) & (gaps < 2.0**-8)),
)
REPEATED_INDEX = (over_repeats(256), over_repeats(1024))


def _factors(x: Array, axis: Axes, exclusive: bool, reverse: bool) -> Array:
    """The elements that are factors of a cumulative product: all but the last if that is exclusive, or the first."""
    rows = along(x, axis)
    return rows if not exclusive else rows[..., 1:] if reverse else rows[..., :-1]


ZERO_FACTOR = SpecialSet(
    "zero factor",
    lambda x, *, axis=-1, exclusive=False, reverse=False: np.any(_factors(x, axis, exclusive, reverse) == 0),
)
SEVERAL_FACTORS = SpecialSet(
    "several factors",
    lambda x, *, axis=-1, exclusive=False, reverse=False: _factors(x, axis, exclusive, reverse).shape[-1] > 1,
)


def _several_not_real(x: Array, *, axis: Axes = -1, exclusive: bool = False, reverse: bool = False) -> bool:
    factors = _factors(x, axis, exclusive, reverse)
    return factors.shape[-1] > 1 and bool(np.any(factors.imag != 0))


SEVERAL_FACTORS_NOT_REAL = SpecialSet("several factors, not real", _several_not_real)
CUMULATIVE_PRODUCT = (ZERO_FACTOR, SEVERAL_FACTORS, SEVERAL_FACTORS_NOT_REAL)
MANY_FACTORS_NOT_REAL = SpecialSet(
    "more than two factors, not real",
    lambda x, *, axis=-1: along(x, axis).shape[-1] > 2 and np.any(x.imag != 0),
)


def many_factors_in_block(depth: int) -> SpecialSet:
    """The set of more than two factors, not all of them real, along the last `depth` axes."""
    axes = tuple(range(-depth, 0))
    return SpecialSet(MANY_FACTORS_NOT_REAL.name, lambda x: MANY_FACTORS_NOT_REAL.holds(x, axis=axes))


def _large_running_largest(x: Array, *, axis: Axes = -1, reverse: bool = False) -> bool:
    rows = along(x, axis)
    return bool(np.any(np.abs(np.maximum.accumulate(rows[..., ::-1] if reverse else rows, axis=-1)) >= 1e4))


LARGE_RUNNING_LARGEST = SpecialSet("running maximum of magnitude 1e4 or more", _large_running_largest)


def _of_segments(holds: Callable[[Array], object]) -> Callable[..., bool]:
    """Whether a predicate holds for a segment of the first dimension, as rows along which its elements lie last."""

    def of(x: Array, *, ids: Any) -> bool:
        given = np.asarray(ids)
        segments = (x[given == segment] for segment in np.unique(given[given >= 0]))  # rows of none have a negative id
        return any(holds(segment.reshape(len(segment), -1).T) for segment in segments)

    return of


def rows_in_segment(count: int) -> SpecialSet:
    """The set of segments one of which has more than `count` rows: so many terms a sum over it has."""
    return SpecialSet(f"more than {count} rows in a segment", _of_segments(lambda rows: rows.shape[-1] > count))


EMPTY_SEGMENT = SpecialSet(
    "empty segment", lambda _, *, ids: np.setdiff1d(np.arange(np.max(ids, initial=0)), ids).size > 0
)
TWO_ZEROS_IN_SEGMENT = SpecialSet(
    "two zeros in a segment", _of_segments(lambda rows: np.any(np.count_nonzero(rows == 0, axis=-1) == 2))
)
LONG_SEGMENT = SpecialSet("several rows in a segment", _of_segments(lambda rows: rows.shape[-1] > 1))
LONG_SEGMENT_NOT_REAL = SpecialSet(
    "several rows in a segment, not real",
    _of_segments(lambda rows: rows.shape[-1] > 1 and np.any(rows.imag != 0)),
)
UNEQUAL_PARTITIONS = SpecialSet(
    "partitions of unequal size",
    lambda _, *, partitions: np.unique(np.unique(partitions, return_counts=True)[1]).size > 1,
)
OVERWRITTEN_INDEX = SpecialSet(
    "index given twice",
    lambda _, *, first, second: VALUES["tie"](np.concatenate([np.ravel(first), np.ravel(second)])),
)
ONE_CLASS = SpecialSet("labels of one class", lambda _, *, labels: np.size(labels) > 1 and np.unique(labels).size == 1)


def _of_windows(x: Array, sizes: Sequence[int], axes: Sequence[int], padding: str) -> Array:
    """All windows of some sizes along axes, as rows, with "SAME" also beyond the ends, where nothing counts."""
    if padding == "SAME":  # whatever the stride, no window reaches further
        edges = {place % x.ndim: (size - 1, size - 1) for place, size in zip(axes, sizes, strict=True)}
        x = np.pad(x, [edges.get(place, (0, 0)) for place in range(x.ndim)], constant_values=-np.inf)
    if any(x.shape[place] < size for place, size in zip(axes, sizes, strict=True)):
        return np.empty((0, 1))
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(sizes), axis=tuple(axes))
    return windows.reshape(-1, int(np.prod(sizes)))


def _largest_twice(x: Array, *, ksize: Sequence[int] = (2, 2, 2), padding: str = "VALID") -> bool:
    windows = _of_windows(x, ksize, (-4, -3, -2), padding)
    return any(np.count_nonzero(window == np.max(window)) > 1 for window in windows)


def _cancelling(x: Array) -> bool:
    """Whether the elements of a frame, as they are or with alternating signs, add up to 0 up to rounding."""
    frames = _of_windows(x, (4,), (-2,), "VALID")
    sums = np.minimum(np.abs(np.sum(frames, axis=-1)), np.abs(frames @ np.resize([1.0, -1.0], frames.shape[-1])))
    return bool(np.any(sums <= ZERO * np.sum(np.abs(frames), axis=-1)))


LARGEST_TWICE = SpecialSet("largest twice in a window", _largest_twice)
CANCELLING_FRAME = SpecialSet("four samples that cancel", _cancelling)


def _matrices(holds: Callable[[Array], object]) -> Callable[[Array], bool]:
    """Whether a predicate holds for the finite matrices along the last two axes; not if there are none."""

    def of(x: Array) -> bool:
        if x.ndim < 2 or x.size == 0:
            return False
        matrices = x.reshape(-1, *x.shape[-2:])
        finite = matrices[np.isfinite(matrices).all(axis=(-2, -1))]
        return finite.size > 0 and bool(holds(finite))

    return of


def _entries_below(limit: float) -> Callable[[Array], bool]:
    """Whether all of several entries of a matrix are small, but not all 0: so are gaps between its eigenvalues."""

    def holds(x: Array) -> bool:
        entries = along(x, (-2, -1))
        return entries.shape[-1] > 1 and bool(
            np.any(np.all(np.abs(entries) <= limit, axis=-1) & np.any(entries != 0, axis=-1))
        )

    return holds


def _values(matrices: Array) -> Array:
    """The singular values of matrices, the largest first."""
    return np.asarray(np.linalg.svd(matrices, compute_uv=False))


def _singular(matrices: Array) -> Any:
    values = _values(matrices)
    return np.any(values[:, -1] <= ZERO * values[:, 0])


def _equal(matrices: Array) -> Any:
    """Whether two singular values are equal, and not 0, up to rounding."""
    values = _values(matrices)
    return np.any((-np.diff(values) <= 1e-6 * values[:, :1]) & (values[:, 1:] > ZERO * values[:, :1]))


def _far(matrices: Array) -> bool:
    """Whether the smallest singular value of a non-square matrix is lost beside the largest when squared."""
    values = _values(matrices)
    return matrices.shape[-2] != matrices.shape[-1] and bool(np.any(values[:, -1] <= 1e-6 * values[:, 0]))


def _vanishing(matrices: Array) -> bool:
    """Whether one singular value (two of a square matrix) vanishes beside others, so that 1e-20 matters beside z**2.

    For a matrix that is not square, z is the value itself; for two values, it is the difference of their squares.
    """
    values = _values(matrices)
    if values.shape[-1] < 2:
        return False
    square = matrices.shape[-2] == matrices.shape[-1]
    gone = (values[:, -2] <= 1e-2) | (not square and values[:, -1] <= 1e-4)
    return bool(np.any(gone & (values[:, 0] > 1e-2)))


def _equal_eigenvalues(matrices: Array) -> Any:
    """Whether two eigenvalues of a square matrix are so close that 1e-20 matters beside the square of their gap z."""
    values = np.linalg.eigvals(matrices)
    first, second = np.triu_indices(values.shape[-1], 1)
    gaps = np.abs(values[:, first] - values[:, second])
    return np.any(gaps <= 1e-5 * np.maximum(np.max(np.abs(values), axis=-1, keepdims=True), 1.0))


SINGULAR = SpecialSet("singular", _matrices(_singular))
EQUAL_SINGULAR_VALUES = SpecialSet("equal singular values", _matrices(_equal))
# The squares of two are so close that 1e-20 matters beside the square of their gap.
CLOSE_SINGULAR_VALUES = SpecialSet(
    "close singular values", _matrices(lambda x: np.any(-np.diff(_values(x) ** 2) <= 1e-5))
)
FAR_SINGULAR_VALUES = SpecialSet("singular values far apart", _matrices(_far))
VANISHING_SINGULAR_VALUES = SpecialSet("vanishing singular values", _matrices(_vanishing))
EQUAL_EIGENVALUES = SpecialSet("equal eigenvalues", _matrices(_equal_eigenvalues))
OVER_TWO_ROWS = SpecialSet("more than two rows and columns", _matrices(lambda x: min(x.shape[-2:]) > 2))
SMALL_ENTRIES = SpecialSet("all entries up to 1e-2", _entries_below(1e-2))
TINY_ENTRIES = SpecialSet("all entries up to 1e-4", _entries_below(1e-4))

REAL_BELOW_MINUS_1 = SpecialSet(
    "real number below -1", lambda x: np.any((x.imag == 0) & ~np.signbit(x.imag) & (x.real < -1))
)
REAL_ABOVE_1 = SpecialSet(
    "real number above 1, with -0 as imaginary part",
    lambda x: np.any((x.imag == 0) & np.signbit(x.imag) & (x.real > 1)),
)
LARGE = SpecialSet("magnitude of 1e4 or more", lambda x: np.any(np.abs(x) >= 1e4))
OVER_5000 = SpecialSet("magnitude over 5000", lambda x: np.any(np.abs(x) > 5000))
FLOAT32_OVERFLOW = SpecialSet("exp overflows in float32", lambda x: np.any(np.abs(x) > 88))
SECOND_FLOAT32_OVERFLOW = SpecialSet("exp of argument 1 overflows in float32", FLOAT32_OVERFLOW.holds, (1,))
SECOND_OVERFLOW = SpecialSet("exp of argument 1 overflows", lambda x: np.any(np.abs(x) > 709), (1,))
IMAGINARY_OVERFLOW = SpecialSet("exp of the imaginary part overflows", lambda x: np.any(np.abs(x.imag) > 709))
# Beyond 36, float64 rounds the probability to 0 or 1.
CERTAIN_OF_LABEL = SpecialSet(
    "probability of the label rounds to 1", lambda x, *, label: np.any(x * (1.0 if label else -1.0) > 36)
)


def _column_as_row(x: Array, y: Array) -> bool:
    """Whether y has several elements along one axis only, and is as long as the last or the second axis of x, which is
    not the axis that it belongs to by the rules of broadcasting."""
    long = [place for place, size in enumerate(y.shape, x.ndim - y.ndim) if size > 1]
    if len(long) != 1 or x.ndim < 2 or y.size not in (x.shape[1], x.shape[-1]):
        return False
    return long[0] != (x.ndim - 1 if x.shape[-1] == y.size else 1)


COLUMN_AS_ROW = SpecialSet("a column that fits as a row", _column_as_row, (0, 1))


def _several_in_support(x: Array) -> bool:
    """Whether several elements of a row are above the threshold of its projection onto the simplex, or about to be."""
    ordered = np.sort(x, axis=-1)[..., ::-1]
    return x.shape[-1] > 1 and bool(np.any(ordered[..., 0] - ordered[..., 1] <= 1.0))


UNEQUAL_WEIGHTS = SpecialSet("unequal weights", lambda _, *, alpha, beta: alpha != beta)
SEVERAL_IN_SUPPORT = SpecialSet("several elements in the support", _several_in_support)
EQUAL_PAIR = SpecialSet("equal arguments", lambda x, y: np.any(x - y == 0), (0, 1))
UNEQUAL_PAIR = SpecialSet("unequal arguments", lambda x, y: np.any(x - y != 0), (0, 1))
EQUAL_MAGNITUDES = SpecialSet(
    "equal magnitudes, not zero", lambda x, y: np.any(((x - y == 0) | (x + y == 0)) & (x != 0)), (0, 1)
)
BOTH_ZERO = SpecialSet("both arguments zero", lambda x, y: np.any((x == 0) & (y == 0)), (0, 1))
ZERO_ON_SLOPE = SpecialSet("zero beside a positive slope", lambda x, slope: np.any((x == 0) & (slope > 0)), (0, 1))


def _edge_on_slope(image: Array, boxes: Array) -> bool:
    """Whether an edge of a box (top, left, bottom, right, as fractions of the sides) lies on a pixel of a slope.

    Then the image (rows, columns, channels) rises or falls from one pixel before a corner over the corner's to the one
    after it. Up to four roundings in float32 count, where the second edge is the first plus a difference. Outside, the
    image is zero.
    """
    for pixels, edges in ((image, boxes), (image.swapaxes(0, 1), boxes[:, [1, 0, 3, 2]])):
        height, width = pixels.shape[:2]
        padded = np.pad(pixels, ((1, 2), (1, 2), (0, 0)))
        for ends in edges * np.resize([height - 1.0, width - 1.0], 4):
            rows, columns = ends[::2], ends[1::2]
            on_pixels = np.abs(rows - np.round(rows)) <= 2.0**-22 * np.maximum.accumulate(np.abs(rows))
            for row in np.round(rows[on_pixels & (rows > -0.5) & (rows < height - 0.5)]).astype(int):
                for column in columns[(columns >= 0) & (columns <= width - 1)]:
                    whole, part = int(column), column % 1
                    left, right = (padded[row : row + 3, whole + place] for place in (1, 2))
                    steps = np.diff((1 - part) * left + part * right, axis=0)
                    if np.any(np.all(steps > 0, axis=0) | np.all(steps < 0, axis=0)):
                        return True
    return False


EDGE_ON_SLOPE = SpecialSet("edge of a box on a pixel of a slope", _edge_on_slope, (0, 1))
