"""For which arguments of an operation a known defect applies: a fixed vocabulary of conditions, no code from files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from gradcheck.defects.conditions import (
    CONDITIONS,
    ELEMENTS,
    MATRIX_CONDITIONS,
    PLACES,
    around_pixels,
    special,
)
from gradcheck.documents import Count, Description, Document, DocumentError, Order, Text
from gradcheck.typing import Array

ANY = "*"
"""The `op` of a region that lies in every operation's arguments."""

COMPLEX = "complex_"
"""The prefix in the name of an operation that is the complex form of a real one."""


def names(*ops: str) -> set[str]:
    """The names that a region may use for some operations: their own, and for complex forms those of the real ones.

    >>> sorted(names("complex_gather", "sin"))
    ['complex_gather', 'gather', 'sin']
    """
    return {name for op in ops for name in (op, op.removeprefix(COMPLEX))}


@dataclass(frozen=True)
class Ancestry:
    """The operations before a node: all `producers`, and the `neighbours`, whose results are its arguments.

    Operations that only pass gradients on are skipped, so that the operation before them is a neighbour. `apart`: no
    value is two of the node's arguments.
    """

    producers: Sequence[str] = ()
    neighbours: Sequence[str] = ()
    apart: bool = True


ALONE = Ancestry()
ARRIVING = ("zero", "varying", "varying zero")
MATRIX = (-2, -1)
"""The axes that a condition on matrices is about."""
ElementPlace = Annotated[str, Meta(extra_json_schema={"enum": list(PLACES)})]
"""The name of a condition on single elements of an argument."""


@dataclass(frozen=True)
class Arrival:
    """The cotangent that arrives at a node's result, and whether it depends on the graph's inputs, as tapes see it."""

    value: Array
    varies: bool

    def meets(self, condition: str) -> bool:
        """Whether an element is zero, whether it varies, or both: a "varying zero"."""
        if condition == "varying":
            return self.varies
        return bool(np.any(self.value == 0)) and (self.varies or condition == "zero")


class Region(Document, frozen=True, omit_defaults=True):
    """The arguments of one operation, or of `ANY`, for which its derivative is known to be wrong.

    In `op`, `producers` and `neighbours`, an operation of real numbers stands for its complex form, too. The region is
    limited to the attribute values `attrs`, to arguments whose number of dimensions is one of `ranks` (empty: any), and
    to at least `sides` elements along each dimension.

    The `condition` is about groups of elements of the argument with the number `argument`, and holds if it holds for
    one group. The groups lie along `along`: an axis, several, or the name of the attribute that holds them (None: the
    whole argument is one group). With `windows`, they are all windows of these sizes there, with `padding` "SAME" also
    beyond the ends, where nothing counts; with `segments`, those that the attribute of this name makes of the first
    dimension; with `indices`, names of attributes, the values of these are the only group. Of each group the `elements`
    count. A condition on matrices, such as "singular", is about those along the last two axes.

    With `minus` or `plus`, the number of another argument, the elements are those of the difference or the sum, so that
    "zero" finds equal or opposite ones. With `where`, only those elements count beside which the arguments of these
    numbers are what it says. With `pixels`, the number of an image, the elements are edges of boxes, as fractions of
    its sides, and the groups are the image's values one pixel before, at and behind each corner, along every edge that
    lies on a pixel. With `producers`, one of these operations has to stand somewhere before the arguments, with
    `neighbours` right before them; with `apart`, no value may be two of the arguments.

    With `arriving`, an element of the gradient that arrives at the result has to be zero, or that gradient has to
    depend on the inputs ("varying"), or both ("varying zero"). With `error`, what is raised has to contain this text.
    Generation can know neither, and draws there, as it does with `drawn`, where most of the region is right. What is
    found there is known. `pushforward`, of a region at order 2, says whether forward mode is wrong there, too, whatever
    arrives, at order 1 as well: it passes through the gradient function and its derivative.
    """

    op: Text
    condition: Annotated[str, Meta(extra_json_schema={"enum": [*CONDITIONS, *MATRIX_CONDITIONS]})]
    orders: Annotated[tuple[Order, ...], Meta(min_length=1, max_length=2)]
    attrs: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)
    argument: Count = 0
    along: int | str | tuple[int, ...] | None = None
    elements: Annotated[str, Meta(extra_json_schema={"enum": list(ELEMENTS)})] = "all"
    ranks: Annotated[tuple[Count, ...], Meta(max_length=8)] = ()
    sides: Count = 0
    windows: Annotated[tuple[Count, ...], Meta(max_length=8)] = ()
    segments: Text | None = None
    indices: Annotated[tuple[Text, ...], Meta(max_length=8)] = ()
    producers: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    neighbours: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    apart: bool = False
    arriving: Annotated[str, Meta(extra_json_schema={"enum": ["", *ARRIVING]})] = ""
    drawn: bool = False
    error: Annotated[str, Meta(max_length=200)] = ""
    pushforward: bool = False
    minus: Count | None = None
    plus: Count | None = None
    where: Annotated[dict[str, ElementPlace], Meta(extra_json_schema={"propertyNames": {"pattern": "^[0-9]$"}})] = {}  # noqa: RUF012
    pixels: Count | None = None

    def __post_init__(self) -> None:
        conditions = (*CONDITIONS, *MATRIX_CONDITIONS)
        for name, choices in (("condition", conditions), ("elements", ELEMENTS), ("arriving", ("", *ARRIVING))):
            if getattr(self, name) not in choices:
                raise DocumentError(f"$.{name}", getattr(self, name), f"one of {', '.join(filter(None, choices))}")
        if self.condition in MATRIX_CONDITIONS and self.along != MATRIX:
            raise DocumentError("$.along", self.along, f"{list(MATRIX)}, for {self.condition}")
        if not all(number.isdigit() and place in PLACES for number, place in self.where.items()):
            raise DocumentError("$.where", self.where, f"numbers of arguments, each with one of {', '.join(PLACES)}")
        if self.where and self.along is not None:
            raise DocumentError("$.along", self.along, "none, beside where")
        if self.op == ANY and self.everywhere:
            given = Description("every operation, always")
            raise DocumentError("$", given, "a condition, attrs, ranks, producers, neighbours or error")

    @property
    def everywhere(self) -> bool:
        """Whether every use of the operation lies in the region, at its orders."""
        return self.condition == "always" and not (
            self.attrs
            or self.ranks
            or self.sides
            or self.producers
            or self.neighbours
            or self.apart
            or self.arriving
            or self.error
        )

    @property
    def excluding(self) -> bool:
        """Whether generation draws nothing there; it cannot know arriving cotangents and errors."""
        return not (self.drawn or self.arriving or self.error)

    @property
    def read(self) -> set[int]:
        """The numbers of the arguments that are read; by default, the first."""
        others = (number for number in (self.minus, self.plus, self.pixels) if number is not None)
        return {self.argument, *others, *map(int, self.where)}

    @property
    def deciding(self) -> set[int]:
        """The numbers of the arguments whose values or shapes decide, none where all of them lie in the region."""
        return self.read if self.condition != "always" or self.ranks or self.sides else set()

    @property
    def asked(self) -> set[str]:
        """The names of the attributes that decide, or hold what the elements are grouped by."""
        names = (*self.attrs, self.along, self.segments, *self.indices)
        return {name for name in names if isinstance(name, str)}

    def concerns(self, order: int, *, pushforward: bool = False) -> bool:
        """Whether the region is about derivatives of this order, or about forward mode's, a pushforward."""
        return order in self.orders or (pushforward and self.pushforward)

    def contains(
        self,
        op: str,
        attrs: Mapping[str, Any],
        arguments: Sequence[Any],
        order: int,
        ancestry: Ancestry = ALONE,
        *,
        arrival: Arrival | None = None,
        error: str = "",
        pushforward: bool = False,
    ) -> bool:
        """Whether an operation with these attributes and argument values lies in the region, at this order.

        `ancestry` are the operations before the arguments, `arrival` is the incoming cotangent and `error` what is
        raised, as far as is known; `pushforward`: the derivative is one.
        """
        if self.op not in {ANY, *names(op)} or max(self.read) >= len(arguments):
            return False
        if not self.concerns(order, pushforward=pushforward):
            return False
        if self.error not in error:
            return False
        passed = self.pushforward and pushforward  # then the cotangent is the variable of the gradient function
        if self.arriving and not passed and (arrival is None or not arrival.meets(self.arriving)):
            return False
        if self.producers and not names(*ancestry.producers) & set(self.producers):
            return False
        if self.neighbours and not names(*ancestry.neighbours) & set(self.neighbours):
            return False
        if self.apart and not ancestry.apart:
            return False
        if any(name not in attrs or _listed(attrs[name]) != _listed(value) for name, value in self.attrs.items()):
            return False
        array = self._array(arguments)
        if (self.ranks and array.ndim not in self.ranks) or min(array.shape, default=self.sides) < self.sides:
            return False
        if self.condition in MATRIX_CONDITIONS:
            matrices = _matrices(array)
            return matrices.size > 0 and MATRIX_CONDITIONS[self.condition](matrices)
        if self.where:
            counting = (PLACES[place](np.asarray(arguments[int(number)])) for number, place in self.where.items())
            array, *masks = np.broadcast_arrays(array, *counting)
            array = array[np.logical_and.reduce(masks)]
        holds = CONDITIONS[self.condition]
        return any(holds(ELEMENTS[self.elements](groups)) for groups in self._groups(array, attrs))

    def _array(self, arguments: Sequence[Any]) -> Array:
        """The elements that the condition is about, before they are grouped."""
        array = np.asarray(arguments[self.argument])
        if self.minus is not None:
            array = np.asarray(array - arguments[self.minus])
        if self.plus is not None:
            array = np.asarray(array + arguments[self.plus])
        if self.pixels is not None:
            array = around_pixels(np.asarray(arguments[self.pixels]), array)
        return array

    def _groups(self, array: Array, attrs: Mapping[str, Any]) -> list[Array]:
        """Arrays (groups, members), each with groups of one length."""
        if self.pixels is not None:
            return [array]
        if self.indices:
            return [np.concatenate([np.ravel(attrs[name]) for name in self.indices])[np.newaxis]]
        if self.segments is not None:
            ids = np.asarray(attrs[self.segments])
            return [array[ids == segment].reshape(np.sum(ids == segment), -1).T for segment in np.unique(ids)]
        axis = attrs.get(self.along) if isinstance(self.along, str) else self.along
        if axis is None or array.ndim == 0:
            return [array.reshape(1, -1)]
        axes = [part % array.ndim for part in (axis if isinstance(axis, tuple) else (axis,))]
        if self.windows:
            if attrs.get("padding") == "SAME":  # whatever the stride, no window reaches further
                edges = {place: (size - 1, size - 1) for place, size in zip(axes, self.windows, strict=True)}
                widths = [edges.get(place, (0, 0)) for place in range(array.ndim)]
                array = np.pad(array, widths, constant_values=-np.inf)
            if any(array.shape[place] < size for place, size in zip(axes, self.windows, strict=True)):
                return []
            array = np.lib.stride_tricks.sliding_window_view(array, self.windows, axis=tuple(axes))
            axes = list(range(array.ndim - len(axes), array.ndim))
        last = np.moveaxis(array, axes, range(-len(axes), 0))
        groups = last.shape[: array.ndim - len(axes)]
        return [last.reshape(math.prod(groups), math.prod(last.shape[len(groups) :]))]


def _matrices(array: Array) -> Array:
    """The finite matrices along the last two axes, (matrices, rows, columns); none of fewer axes, or of no elements."""
    if array.ndim < 2 or array.size == 0:
        return np.empty((0, 0, 0))
    matrices = array.reshape(-1, *array.shape[-2:])
    return matrices[np.isfinite(matrices).all(axis=MATRIX)]


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def narrowest(op: str, attrs: Mapping[str, Any], arguments: Sequence[Any], order: Order) -> Region:
    """The smallest region around one example: its attributes, and the rank and special value of an argument.

    If nothing is special, the condition is "always".

    >>> narrowest("cumprod", {"reverse": False}, [np.array([0.0, 2.0])], 1).condition
    'zero'
    """
    condition, argument = special(arguments) or ("always", 0)
    rank = np.ndim(arguments[argument])
    return Region(op, condition, (order,), dict(sorted(attrs.items())), argument, ranks=(rank,))
