"""Inputs for a user's own tests: NumPy arrays with the special values that trigger gradient defects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from gradcheck.operations.declared_types import given_dtype
from gradcheck.operations.domains import DOMAINS, Domain, interval_of
from gradcheck.operations.spec import MOST_ELEMENTS, REALS, SHAPES, Interval
from gradcheck.typing import Array

from .values import STYLES, Draw, Table, choice, elements, index, large, plane_of, table

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


FreeShape = tuple[int | None, ...]

LARGEST = 2**24
"""The most elements of an array: 128 MiB of float64."""

SHAPE_EXPECTED = "a tuple of sizes, with None for a free one, such as (2, 3) or (None, 3), or a strategy of such tuples"
DOMAIN_EXPECTED = f"one of {', '.join(DOMAINS)}, or bounds such as (0.0, 1.0) or (2.0, None), or range(10) for integers"
SIGNATURE_EXPECTED = (
    "tf.TensorSpec in lists, tuples and dicts, such as [tf.TensorSpec((None, 3), tf.float32)], "
    "or a tf.function or concrete function that has them"
)
FIRST, FURTHER, MOST = 16, 3, 4
"""One free dimension in FIRST is empty; each row is followed by another one with probability 1 - 1 / FURTHER, up to
MOST rows."""


@dataclass(frozen=True)
class ArrayForm:
    """The form that an array is drawn in: None in its shape is a free dimension, None instead of it any shape."""

    shape: FreeShape | None
    dtype: str
    interval: Interval

    @property
    def part(self) -> str:
        """The dtype of the elements' real parts."""
        return PARTS.get(self.dtype, self.dtype)


@dataclass(frozen=True)
class ElementSource:
    """The source of the elements of one array: decided once, before its rows are drawn."""

    form: ArrayForm
    shape: FreeShape
    place: int
    style: str
    plane: str | None

    @property
    def rows(self) -> bool:
        """Whether it is drawn row by row."""
        return self.shape[:1] == (None,)

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row, or that of the array."""
        return tuple(size for size in self.shape if size is not None)

    def drawn(self, draw: Draw) -> list[complex]:
        """Draws the elements of a row, or of the array; each is a draw, unless there are many."""
        count, interval = prod(self.row), opened(self.form.interval)
        if count > MOST_ELEMENTS:
            dtype = "float64" if self.plane is None else "complex128"
            return list(large(draw, (count,), dtype, interval, self.place).values)
        table = held_table(self.form.interval, self.style, self.form.part)
        return elements(draw, count, table, self.plane)

    def array(self, drawn: Sequence[complex], rows: int) -> Array:
        """The elements as an array."""
        shape = (rows, *self.row) if self.rows else self.row
        values, interval, part = np.array(drawn), self.form.interval, self.form.part
        held = clipped(values.real, interval, part).astype(numpy_dtype(self.form.dtype))
        if self.plane is not None:
            held += held.dtype.type(1j) * clipped(values.imag, interval, part).astype(numpy_dtype(part))
        return held.reshape(shape)


def tensors(
    shape: Sequence[int | None] | tf.TensorShape | st.SearchStrategy[Any] | None,
    dtype: Any = "float64",
    domain: Domain = "reals",
) -> st.SearchStrategy[Array]:
    """Arrays with the values that trigger gradient defects: zeros, ones, ties, huge and tiny numbers, ends of a domain.

    None in `shape` is a free dimension, of 0 to 4, one in sixteen of 0 (for other sizes give a strategy of shapes,
    such as `st.tuples(st.integers(1, 9), st.just(3))`); None instead of a shape is any small one. `dtype` is float64,
    float32, float16, bfloat16, complex64, complex128, int32, int64 or bool, by name or as a dtype of NumPy or
    TensorFlow. `domain` is "reals", "positive", "nonnegative", "negative", "probabilities" (0 and 1 are among them),
    bounds `(low, high)`, which are excluded (None is no bound), or, for integers, `range(10)`; it bounds real and
    imaginary parts.

    Arrays shrink to the fewest rows and to zeros, or the plainest numbers of the domain. Beyond 64 elements (in a row,
    if there are rows), all but a few are spread over the domain. Raises ValueError, at once, for anything else.

    >>> from hypothesis import find
    >>> find(tensors((None, 2)), lambda x: 1.0 in x)
    array([[0., 1.]])
    """
    name = _dtype(dtype, "dtype")
    interval = _interval(domain, name, "domain")
    shapes = shape if isinstance(shape, st.SearchStrategy) else st.just(_shape(shape, "shape"))

    @st.composite
    def tensor(draw: st.DrawFn) -> Array:
        return _arrays(draw, [ArrayForm(_shape(draw(shapes), "shape"), name, interval)])[0]

    return tensor()


def arguments_of(signature: Any, domain: Domain | Mapping[Any, Domain] = "reals") -> st.SearchStrategy[Any]:
    """The arguments of a function: an array for each `tf.TensorSpec`, in the same lists, tuples and dicts.

    A function of `tf.function` with an `input_signature`, or a concrete function, gives a tuple of its positional
    arguments, or a dict if it has keywords only. All free (None) first dimensions have the same size, the batch; every
    other free dimension is drawn by itself. `domain` is that of `tensors`, for all arguments, or a dict of them by
    position, key, or name of a TensorSpec; arguments that it does not name are real numbers. Arrays are drawn as in
    `tensors`. Raises ValueError, at once, for anything else.

    >>> from hypothesis import find
    >>> signature = [tf.TensorSpec((None, 2)), tf.TensorSpec((None,), tf.int32, name="labels")]
    >>> find(arguments_of(signature, {"labels": range(10)}), lambda given: 1 in given[1])
    [array([[0., 0.]], dtype=float32), array([1], dtype=int32)]
    """
    structure, forms = _opened_function(signature), list[ArrayForm]()
    domains = _Domains(domain)
    _mapped(structure, lambda spec, place: forms.append(_form(spec, place, domains)))
    domains.refuse_unused()

    @st.composite
    def arguments(draw: st.DrawFn) -> Any:
        arrays = iter(_arrays(draw, forms))
        return _mapped(structure, lambda spec, place: next(arrays))

    return arguments()


def _arrays(draw: Draw, forms: Sequence[ArrayForm]) -> list[Array]:
    sources = [_source(draw, form, place) for place, form in enumerate(forms)]
    drawn = [[] if source.rows else source.drawn(draw) for source in sources]
    rows = 0
    while any(source.rows for source in sources) and _more(draw, rows):
        rows += 1
        for source, values in zip(sources, drawn, strict=True):
            values += source.drawn(draw) if source.rows else []
    return [source.array(values, rows) for source, values in zip(sources, drawn, strict=True)]


def _source(draw: Draw, form: ArrayForm, place: int) -> ElementSource:
    shape = choice(draw, SHAPES) if form.shape is None else form.shape
    inner = tuple(_size(draw) if size is None else size for size in shape[1:])
    plane = plane_of(draw, opened(form.interval)) if form.dtype in PARTS else None
    return ElementSource(form, (*shape[:1], *inner), place, choice(draw, STYLES), plane)


def _size(draw: Draw) -> int:
    size = 0
    while _more(draw, size):
        size += 1
    return size


def _more(draw: Draw, rows: int) -> bool:
    return rows < MOST and index(draw, FURTHER if rows else FIRST) > 0


def _refused(what: str, given: Any, expected: str) -> ValueError:
    return ValueError(f"{what} was {given!r}; expected {expected}")


def _dtype(given: Any, what: str) -> str:
    name = given_dtype(given)
    if name not in DTYPES:
        raise _refused(what, given, f"one of {', '.join(DTYPES)}, by name or as a dtype of NumPy or TensorFlow")
    return str(name)


def _shape(given: Any, what: str) -> FreeShape | None:
    if isinstance(given, tf.TensorShape):
        given = None if given.rank is None else given.as_list()
    if given is None:
        return None
    if not isinstance(given, (tuple, list)) or not all(map(_is_size, given)):
        raise _refused(what, given, SHAPE_EXPECTED)
    if prod(MOST if size is None else size for size in given) > LARGEST:
        raise _refused(what, given, f"at most {LARGEST:,} elements: Hypothesis draws hundreds of arrays")
    return tuple(None if size is None else int(size) for size in given)


def _is_size(size: Any) -> bool:
    return size is None or (isinstance(size, (int, np.integer)) and not isinstance(size, bool) and int(size) >= 0)


def _interval(given: Any, dtype: str, what: str) -> Interval:
    interval = interval_of(given)
    if interval is None:
        raise _refused(what, given, DOMAIN_EXPECTED)
    if isinstance(given, range) and dtype not in WHOLE_ENDS:
        raise _refused(what, given, f"exclusive bounds for {dtype}, such as ({given.start - 1}, {given.stop})")
    low, high = ends(interval, PARTS.get(dtype, dtype))
    if low > high:
        raise _refused(what, given, f"exclusive bounds with a number of {dtype} between them")
    return interval


class _Domains:
    """The domains of arguments by their names; remembers which names were asked for."""

    def __init__(self, given: Any) -> None:
        self.given, self.named = given, isinstance(given, Mapping)
        self.known: list[Any] = []

    def of(self, names: Sequence[Any], dtype: str) -> Interval:
        """The domain of an argument with these names."""
        self.known += names
        if not self.named:
            return _interval(self.given, dtype, "domain")
        name = next((name for name in names if name in self.given), None)
        return REALS if name is None else _interval(self.given[name], dtype, f"domain[{name!r}]")

    def refuse_unused(self) -> None:
        """Raises ValueError for a name that no argument has."""
        for name in self.given if self.named else ():
            if name not in self.known:
                known = ", ".join(map(repr, dict.fromkeys(self.known)))
                raise _refused("domain", self.given, f"positions or names of arguments, here {known}; not {name!r}")


def _form(spec: Any, place: tuple[Any, ...], domains: _Domains) -> ArrayForm:
    what = "signature" + "".join(f"[{key!r}]" for key in place)
    if not isinstance(spec, tf.TensorSpec):
        raise _refused(what, spec, SIGNATURE_EXPECTED)
    dtype = _dtype(spec.dtype, f"the dtype of {what}")
    names = [*place[:1], *([] if spec.name is None else [spec.name])]
    return ArrayForm(_shape(spec.shape, f"the shape of {what}"), dtype, domains.of(names[::-1], dtype))


def _opened_function(signature: Any) -> Any:
    kinds = tf.types.experimental
    if isinstance(signature, kinds.ConcreteFunction):
        positional, keywords = signature.structured_input_signature
        if positional and keywords:
            raise _refused(
                "signature", signature, "only positional arguments, or only keywords; give it as a list of specs"
            )
        return keywords or positional
    if isinstance(signature, kinds.PolymorphicFunction):
        if signature.input_signature is None:
            raise _refused("the input_signature of the function", None, SIGNATURE_EXPECTED)
        return tuple(signature.input_signature)
    return signature


def _mapped(structure: Any, leaf: Callable[[Any, tuple[Any, ...]], Any], place: tuple[Any, ...] = ()) -> Any:
    if isinstance(structure, Mapping):
        return {key: _mapped(value, leaf, (*place, key)) for key, value in structure.items()}
    if isinstance(structure, (tuple, list)):
        values = [_mapped(value, leaf, (*place, number)) for number, value in enumerate(structure)]
        if hasattr(structure, "_fields"):
            return type(structure)(*values)
        return values if isinstance(structure, list) else tuple(values)
    return leaf(structure, place)
