"""The description of an operation in the catalogue: its source, its domain, its shapes, where it is not smooth."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from gradcheck.autodiff.mode import Mode
from gradcheck.documents import EXACT, MAX_ITEMS, DocumentError
from gradcheck.graph import Shape
from gradcheck.typing import Array

Distances = Callable[..., Array]

Formula: TypeAlias = Callable[..., Any]
"""An operation in Python: it takes the arguments by position and the attributes as keywords, which have no defaults."""


@cache
def parameters(form: Formula) -> Mapping[str, inspect.Parameter]:
    """The parameters of a form: its arguments, then its attributes."""
    return inspect.signature(form).parameters


def attribute_names(form: Formula) -> tuple[str, ...]:
    """The names of the attributes that a form takes, sorted.

    >>> attribute_names(lambda x, *, keepdims, axis: x)
    ('axis', 'keepdims')
    """
    named = (name for name, one in parameters(form).items() if one.kind is inspect.Parameter.KEYWORD_ONLY)
    return tuple(sorted(named))


@dataclass(frozen=True)
class Interval:
    """An open interval that every element of an argument lies in; `closed` adds its ends."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = False

    def contains(self, values: Array) -> bool:
        """Whether all elements lie inside (complex values: their real and imaginary parts)."""
        parts = np.stack([values.real, values.imag]) if np.iscomplexobj(values) else values
        if self.closed:
            return bool(np.all((parts >= self.low) & (parts <= self.high)))
        return bool(np.all((parts > self.low) & (parts < self.high)))


REALS = Interval()
POSITIVE = Interval(0.0)
NONNEGATIVE = Interval(0.0, closed=True)


@dataclass(frozen=True)
class Choice:
    """An attribute that takes one of these literals, the simplest first."""

    values: tuple[Any, ...]

    def offers(self, value: Any) -> bool:
        """Whether it may be this value; True is not 1."""
        return any(_same(value, choice) for choice in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(repr(value) for value in self.values[:8])}"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


@dataclass(frozen=True)
class Indices:
    """An attribute that is a tuple of `count` integers in [0, below), repeats allowed, drawn towards 0.

    With `longer`, it may be longer in a file.
    """

    count: int
    below: int
    distinct: bool = False
    sorted: bool = False
    longer: bool = False

    def __post_init__(self) -> None:
        if self.distinct and self.count > self.below:  # a draw would look for them forever
            raise ValueError(f"{self.count} distinct integers below {self.below} were asked for; there are none")

    def offers(self, value: Any) -> bool:
        """Whether it may be this value."""
        return (
            isinstance(value, tuple)
            and (len(value) == self.count or (self.longer and self.count < len(value) <= MAX_ITEMS))
            and all(type(index) is int and 0 <= index < self.below for index in value)
            and (not self.distinct or len(set(value)) == len(value))
            and (not self.sorted or list(value) == sorted(value))
        )

    def __str__(self) -> str:
        kinds = "distinct " * self.distinct + "sorted " * self.sorted
        return f"{self.count} {'or more ' * self.longer}{kinds}integers from 0 to {self.below - 1}"


Attribute = Choice | Indices
BOOL = Choice((False, True))

MOST_ELEMENTS = 64
"""A value of a drawn graph has at most so many elements, but for those that are about large tensors."""
SHAPES: tuple[Shape, ...] = ((2,), (1,), (3,), (), (2, 2), (2, 3), (1, 3), (2, 1, 2), (0,))


def no_attributes(*_shapes: Shape) -> Mapping[str, Attribute]:
    """The attributes of an operation that has none."""
    return {}


Shapes: TypeAlias = Sequence[tuple[Shape, ...]]
Rule: TypeAlias = Callable[[Shape], Shapes]


def unary(shape: Shape) -> Shapes:
    """One argument of any shape."""
    return [(shape,)]


@dataclass(frozen=True)
class SpecialSet:
    """A set of an operation's arguments, under a name, such as "one or two zeros among several".

    `holds` says whether the arguments with the numbers `arguments` lie in it. Its keywords are those attributes of the
    operation that decide as well; where the operation lacks one, the default counts.
    """

    name: str
    holds: Callable[..., object]
    arguments: tuple[int, ...] = (0,)

    def asked(self, attributes: Iterable[str]) -> set[str]:
        """The names of the operation's `attributes` that decide."""
        return {*attribute_names(self.holds)}.intersection(attributes)

    def contains(self, attributes: Mapping[str, Any], arguments: Sequence[Any]) -> bool:
        """Whether an operation with these attributes and arguments lies in the set."""
        given = (np.asarray(arguments[number]) for number in self.arguments)
        return bool(self.holds(*given, **{name: attributes[name] for name in self.asked(attributes)}))


@dataclass(frozen=True)
class OpSpec:
    """An operation, written once, as a person would write it.

    `source` is the operation on one point; it yields one tensor. `batched` is the form for arguments that all carry one
    more leading dimension (points), where it differs; `**_` stands for attributes that it does not depend on. With
    `in_batch`, `source` is of batches, which every argument is and the result: it serves points as it is, and takes one
    point as a batch of one.
    `looped` says that there is no form for points, so that they are evaluated one by one. With `broadcasts`, arguments
    of lower rank get ones behind the leading dimension first. `reference`, if given, is the same mathematical function
    (or the function whose derivative the gradient is *meant* to be: straight-through, implicit reparametrisation) in
    float64, on points; differences are taken of it instead of `source`. Row 0 of a batch is always the unperturbed
    point.

    `shapes` maps the shape of the first argument to the possible shapes of all arguments, the simplest first, and
    to nothing if the first cannot have that shape; `starts` are the shapes that a fresh first argument may have.
    `attributes` maps the arguments' shapes to what may be drawn. `domains`: one for each argument, or one for all.

    `kinks` and `singular` map the arguments' values (and attributes, as keywords) to distances from the nearest point
    where the operation's own derivative does not exist, or is infinite; `curvature_jumps` to those from points where it
    is C1 but not C2. They are never declared for a failure of a formula. `special` are named sets of its arguments, to
    which a known defect is limited.

    `gradients` are the names in TensorFlow's gradient registry that its backward pass goes through. `dtypes` are those
    of the arguments, `result` that of the value. `rtol` is the relative rounding of a kernel that has no float64 form.
    `terms` is the size of the terms that cancel inside of a kernel, whose rounding is left in the value however small
    that is: 1 where it takes the logarithm of 1 + x, which has lost the digits of a small x. `loses` maps the value and
    the arguments to how far the value may be off where more than a rounding is lost by an algorithm in its nature.
    `modes` are those in which it is drawn besides the plain one, all if None. `expensive` are the orders at which a
    graph of it takes seconds, so that fewer are drawn.
    """

    name: str
    source: Formula
    gradients: tuple[str, ...]
    family: str
    arity: int = 1
    batched: Formula | None = None
    in_batch: bool = False
    looped: bool = False
    broadcasts: bool = False
    reference: Formula | None = None
    shapes: Rule = unary
    starts: tuple[Shape, ...] = SHAPES
    attributes: Callable[..., Mapping[str, Attribute]] = no_attributes
    domains: tuple[Interval, ...] = (REALS,)
    kinks: Distances | None = None
    singular: Distances | None = None
    curvature_jumps: Distances | None = None
    special: tuple[SpecialSet, ...] = ()
    dtypes: tuple[str, ...] = ("float64",)
    result: str = "float64"
    orders: tuple[int, ...] = (1, 2)
    expensive: tuple[int, ...] = ()
    rtol: float = 0.0
    terms: float = 0.0
    loses: Callable[..., Array] | None = None
    modes: tuple[Mode, ...] | None = None

    def domain(self, argument: int) -> Interval:
        """The domain of an argument."""
        return self.domains[argument] if len(self.domains) > 1 else self.domains[0]

    def dtype(self, argument: int) -> str:
        """The dtype of an argument."""
        return self.dtypes[argument] if len(self.dtypes) > 1 else self.dtypes[0]


MAX_DEPTH = 4
WORD = re.compile(r"[A-Za-z0-9_,.\->= ]{0,64}")


def attribute_literal(data: Any, place: str, depth: int = 0) -> Any:
    """An attribute's value, with tuples for lists; raises DocumentError if it is not a literal."""
    if data is None or type(data) in (bool, float):
        return data
    if type(data) is int and abs(data) <= EXACT:
        return data
    if isinstance(data, str) and WORD.fullmatch(data):
        return data
    if isinstance(data, (list, tuple)) and depth < MAX_DEPTH and len(data) <= MAX_ITEMS:
        return tuple(attribute_literal(part, f"{place}[{i}]", depth + 1) for i, part in enumerate(data))
    raise DocumentError(place, data, "null, a bool, a number, a plain word, or a list of these")
