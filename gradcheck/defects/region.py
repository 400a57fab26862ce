"""Where in an operation's arguments a known defect bites: a fixed vocabulary of conditions, no code from files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from gradcheck.documents import Count, Description, Document, DocumentError, Order, Text

Array = np.ndarray[Any, Any]


ZERO = 64 * np.finfo(np.float64).eps
"""A singular value that is so small beside the largest may be 0."""


def _zeros(groups: Array) -> Array:
    return np.asarray(np.count_nonzero(groups == 0, axis=-1))


def _equal(groups: Array) -> bool:
    return groups.shape[-1] > 1 and bool(np.any(np.all(groups == groups[:, :1], axis=-1)))


def _below(groups: Array, limit: float) -> bool:
    """Of matrices with gaps between their eigenvalues: not of one element, and not zero."""
    tiny = np.all(np.abs(groups) <= limit, axis=-1) & np.any(groups != 0, axis=-1)
    return groups.shape[-1] > 1 and bool(np.any(tiny))


def _ties_on_top(groups: Array) -> bool:
    return any(np.count_nonzero(group == np.max(group)) > 1 for group in groups if group.size)


def _singular(groups: Array) -> bool:
    side = math.isqrt(groups.shape[-1])
    values = np.linalg.svd(groups.reshape(-1, side, side), compute_uv=False)
    return bool(np.any(values[:, -1] <= ZERO * values[:, 0]))


def _singular_values(groups: Array) -> list[tuple[bool, Array]]:
    """Those in any shape that the elements may have, the largest first, and whether that is a square."""
    count = groups.shape[-1]
    rows = [size for size in range(2, count // 2 + 1) if count % size == 0]
    return [
        (size**2 == count, np.linalg.svd(groups.reshape(-1, size, count // size), compute_uv=False)) for size in rows
    ]


def _equal_singular_values(groups: Array) -> bool:
    """Whether two singular values differ by rounding at most, which are not 0 but for rounding."""
    values = [v for _, v in _singular_values(groups)]
    return any(bool(np.any((-np.diff(v) <= 1e-6 * v[:, :1]) & (v[:, 1:] > ZERO * v[:, :1]))) for v in values)


def _vanishing_singular_values(groups: Array) -> bool:
    """Whether a singular value, of a square two, vanish beside others: by so much that 1e-20 matters beside z**2.

    Of a matrix that is not square z is the value itself, of two values it is the difference of their squares.
    """
    found = []
    for square, values in _singular_values(groups):
        gone = (values[:, -2] <= 1e-2) | (not square and values[:, -1] <= 1e-4)
        found.append(np.any(gone & (values[:, 0] > 1e-2)))
    return bool(np.any(found))


def _monotone(groups: Array) -> bool:
    steps = np.diff(groups, axis=-1)
    return groups.shape[-1] > 1 and bool(np.any(np.all(steps > 0, axis=-1) | np.all(steps < 0, axis=-1)))


def _around_pixels(image: Array, boxes: Array) -> Array:
    """What an image (rows, columns, channels) is one pixel before, at and behind each corner of boxes, (n, 3).

    Along each edge (top, left, bottom, right, as fractions of the image's sides) that lies on a pixel, but
    for four roundings in float32, where the second edge is the first plus a difference. Outside there is nothing.
    """
    found = [np.empty((0, 3))]
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
                    found.append(((1 - part) * left + part * right).T)
    return np.concatenate(found)


CONDITIONS: dict[str, Callable[[Array], bool]] = {
    "always": lambda groups: True,
    "empty": lambda groups: groups.size == 0,
    "single": lambda groups: groups.shape[-1] == 1,
    "several": lambda groups: groups.shape[-1] > 1,
    "zero": lambda groups: bool(np.any(_zeros(groups) >= 1)),
    "2 zeros": lambda groups: bool(np.any(_zeros(groups) == 2)),
    "1 or 2 zeros of several": lambda groups: groups.shape[-1] > 1 and bool(np.any(np.isin(_zeros(groups), (1, 2)))),
    "zeros only": lambda groups: groups.shape[-1] > 0 and bool(np.any(_zeros(groups) == groups.shape[-1])),
    "not zero": lambda groups: bool(np.any(groups != 0)),
    "one": lambda groups: bool(np.any(groups == 1)),
    "monotone": _monotone,
    "tie": lambda groups: any(np.unique(group).size < group.size for group in groups),
    "equal": _equal,
    "equal in float32": lambda groups: _equal(groups.astype(np.float32)),
    "gaps": lambda groups: any(np.setdiff1d(np.arange(np.max(group, initial=0)), group).size for group in groups),
    "uneven": lambda groups: any(np.unique(np.unique(group, return_counts=True)[1]).size > 1 for group in groups),
    "not real": lambda groups: bool(np.any(groups.imag != 0)),
    "over 4": lambda groups: groups.shape[-1] > 4,
    "over 2, not real": lambda groups: groups.shape[-1] > 2 and bool(np.any(groups.imag != 0)),
    "largest twice": _ties_on_top,
    "several, not real": lambda groups: groups.shape[-1] > 1 and bool(np.any(groups.imag != 0)),
    "singular": _singular,
    "equal singular values": _equal_singular_values,
    "vanishing singular values": _vanishing_singular_values,
    "over 88": lambda groups: bool(np.any(np.abs(groups) > 88)),
    "over 709": lambda groups: bool(np.any(np.abs(groups.imag if np.iscomplexobj(groups) else groups) > 709)),
    "over 5000": lambda groups: bool(np.any(np.abs(groups) > 5000)),
    "large": lambda groups: bool(np.any(np.abs(groups) >= 1e4)),
    "small": lambda groups: _below(groups, 1e-2),
    "minute": lambda groups: _below(groups, 1e-4),
}
"""Whether one of some groups, an array (groups, members), meets a condition; reports/README.md has an example each."""

SPECIAL = {
    "empty": "no element",
    "zero": "zero",
    "tie": "tie",
    "one": "one",
    "single": "a single element",
}
"""The conditions looked for in the arguments of a finding, in this order, and their names in its description."""

ELEMENTS: dict[str, Callable[[Array], Array]] = {
    "all": lambda groups: groups,
    "all but the first": lambda groups: groups[..., 1:],
    "all but the last": lambda groups: groups[..., :-1],
    "running largest": lambda groups: np.maximum.accumulate(groups, axis=-1),
    "running largest from the last": lambda groups: np.maximum.accumulate(groups[..., ::-1], axis=-1),
}
"""Which elements of groups count, or what is made of them."""

ANY = "*"
"""The `op` of a region that lies in every operation's arguments."""

COMPLEX = "complex_"
"""What the name of an operation of complex numbers begins with, if it is a form of one of real numbers."""


def names(*ops: str) -> set[str]:
    """What a region may call some operations: their own names, and of complex forms those of the real ones, too.

    >>> sorted(names("complex_gather", "sin"))
    ['complex_gather', 'gather', 'sin']
    """
    return {name for op in ops for name in (op, op.removeprefix(COMPLEX))}


@dataclass(frozen=True)
class Ancestry:
    """The operations before a node: all `producers`, and the `neighbours`, whose results are its arguments.

    What only hands gradients on counts as not being there, so that the operation before it is a neighbour. `apart`:
    no value is two of the node's arguments.
    """

    producers: Sequence[str] = ()
    neighbours: Sequence[str] = ()
    apart: bool = True


ALONE = Ancestry()
ARRIVING = ("zero", "varying", "varying zero")


@dataclass(frozen=True)
class Arrival:
    """The gradient that arrives at a node's result, and whether it depends on the graph's inputs, as tapes see it."""

    value: Array
    varies: bool

    def meets(self, condition: str) -> bool:
        """Whether an element is zero, whether it varies, or both: a "varying zero"."""
        if condition == "varying":
            return self.varies
        return bool(np.any(self.value == 0)) and (self.varies or condition == "zero")


class Region(Document, frozen=True, omit_defaults=True):
    """The arguments of one operation, or of `ANY`, for which its derivative is known to be wrong.

    An operation of real numbers stands for its complex form, too, in `op`, `producers` and `neighbours`.
    `attrs` are the attribute values it is limited to, `ranks` the argument's numbers of dimensions (empty: any), and
    `sides` the least number of elements along each. The elements of `argument` are compared in groups: along `along`
    (an axis, several, or the name of the attribute that holds them; None: the whole argument is one group), in all
    `windows` of these sizes along it (with `padding` "SAME", beyond its ends, too, where nothing counts), or those that
    the attribute `segments` makes of its first dimension; or else the values of `indices`, names of attributes, are the
    one group. Of each group the `elements` count; the `condition` holds if it holds for any group ("singular": of the
    elements of a square matrix). With `minus` or `plus`, the number of another argument, the elements are those of the
    difference or the sum, so that "zero" finds equal or opposite ones. With `pixels`, the number of an image, the
    elements are edges of boxes, as fractions of its sides, and the groups are what the image is one pixel before, at
    and behind each corner, along an edge that lies on a pixel. With `producers`, one of these operations has to stand
    somewhere before the arguments, with `neighbours` right before; with `apart`, no value may be two of the arguments.

    With `arriving`, an element of the gradient that arrives at the result has to be zero, or that gradient has to
    depend on the inputs ("varying"), or both ("varying zero"). Generation cannot know that, and draws there
    nevertheless, as it does where that is asked for (`drawn`), since most of what lies inside is right. What is found
    there is known. With `error`, what is raised has to contain that text; generation cannot know that either. A
    `pushforward` passes through a gradient function and its derivative: of a region at order 2, whether that of forward
    mode, at order 1, is wrong there, too.
    """

    op: Text
    condition: Annotated[str, Meta(extra_json_schema={"enum": list(CONDITIONS)})]
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
    pixels: Count | None = None

    def __post_init__(self) -> None:
        for name, choices in (("condition", CONDITIONS), ("elements", ELEMENTS), ("arriving", ("", *ARRIVING))):
            if getattr(self, name) not in choices:
                raise DocumentError(f"$.{name}", getattr(self, name), f"one of {', '.join(filter(None, choices))}")
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
        """Whether generation draws nothing there; what arrives and what is raised it cannot know."""
        return not (self.drawn or self.arriving or self.error)

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

        `ancestry` is what stands before the arguments, `arrival` what comes from behind and `error` what is raised, as
        far as is known; `pushforward`: the derivative is one.
        """
        places = (self.argument, self.minus or 0, self.plus or 0, self.pixels or 0)
        if self.op not in {ANY, *names(op)} or max(places) >= len(arguments):
            return False
        if not self.concerns(order, pushforward=pushforward):
            return False
        if self.error not in error:
            return False
        if self.arriving and (arrival is None or not arrival.meets(self.arriving)):
            return False
        if self.producers and not names(*ancestry.producers) & set(self.producers):
            return False
        if self.neighbours and not names(*ancestry.neighbours) & set(self.neighbours):
            return False
        if self.apart and not ancestry.apart:
            return False
        if any(name not in attrs or _listed(attrs[name]) != _listed(value) for name, value in self.attrs.items()):
            return False
        array = np.asarray(arguments[self.argument])
        if self.minus is not None:
            array = np.asarray(array - arguments[self.minus])
        if self.plus is not None:
            array = np.asarray(array + arguments[self.plus])
        if self.pixels is not None:
            array = _around_pixels(np.asarray(arguments[self.pixels]), array)
        if (self.ranks and array.ndim not in self.ranks) or min(array.shape, default=self.sides) < self.sides:
            return False
        holds = CONDITIONS[self.condition]
        return any(holds(ELEMENTS[self.elements](groups)) for groups in self._groups(array, attrs))

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
            if attrs.get("padding") == "SAME":  # whatever the stride, less of it is part of a window
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


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def special(arguments: Sequence[Any]) -> tuple[str, int] | None:
    """The first of the conditions `SPECIAL` that one of some arguments meets, and its number; None if none does.

    >>> special([np.array([1.5, 2.5]), np.array([0.0, 0.0])])
    ('zero', 1)
    """
    for condition in SPECIAL:
        for number, argument in enumerate(arguments):
            if CONDITIONS[condition](np.reshape(argument, (1, -1))):
                return condition, number
    return None


def describe(arguments: Sequence[Any]) -> str:
    """What is special about an operation's arguments, in a few words; "none" if nothing is.

    >>> describe([np.array([1.5, 0.0])])
    'zero in argument 0'
    """
    found = special(arguments)
    return "none" if found is None else f"{SPECIAL[found[0]]} in argument {found[1]}"


def narrowest(op: str, attrs: Mapping[str, Any], arguments: Sequence[Any], order: Order) -> Region:
    """The smallest region around one example: its attributes, and the rank and what is special of an argument.

    Where nothing is special, the condition is "always".

    >>> narrowest("cumprod", {"reverse": False}, [np.array([0.0, 2.0])], 1).condition
    'zero'
    """
    condition, argument = special(arguments) or ("always", 0)
    rank = np.ndim(arguments[argument])
    return Region(op, condition, (order,), dict(sorted(attrs.items())), argument, ranks=(rank,))
