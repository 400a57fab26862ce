"""For which arguments of an operation a known defect applies: sets that the catalogue declares, no code from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field

from gradcheck.documents import Count, Description, Document, DocumentError, Order, Text
from gradcheck.operations.catalogue import CATALOGUE, special_set
from gradcheck.operations.registry import REGISTERED
from gradcheck.operations.spec import SpecialSet, attribute_names
from gradcheck.operations.special_sets import VALUES, special
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
    limited to a special set of the operation's arguments, by its name (None: no such limit), to the attribute values
    `attrs`, and to arguments whose number of dimensions is one of `ranks` (empty: any); that is of the first argument
    which the set is about. With `producers`, one of these operations has to stand somewhere before the arguments, with
    `neighbours` right before them; with `apart`, no value may be two of the arguments.

    With `arriving`, an element of the gradient that arrives at the result has to be zero, or that gradient has to
    depend on the inputs ("varying"), or both ("varying zero"). With `error`, what is raised has to contain this text.
    Generation can know neither, and draws there, as it does with `drawn`, where most of the region is right. What is
    found there is known. `pushforward`, of a region at order 2, says whether forward mode is wrong there, too, whatever
    arrives, at order 1 as well: it passes through the gradient function and its derivative.
    """

    op: Text
    orders: Annotated[tuple[Order, ...], Meta(min_length=1, max_length=2)]
    set_name: Text | None = field(name="set", default=None)
    attrs: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)
    ranks: Annotated[tuple[Count, ...], Meta(max_length=8)] = ()
    producers: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    neighbours: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    apart: bool = False
    arriving: Annotated[str, Meta(extra_json_schema={"enum": ["", *ARRIVING]})] = ""
    drawn: bool = False
    error: Annotated[str, Meta(max_length=200)] = ""
    pushforward: bool = False

    def __post_init__(self) -> None:
        if self.arriving not in ("", *ARRIVING):
            raise DocumentError("$.arriving", self.arriving, f"one of {', '.join(ARRIVING)}")
        if self.set_name is not None and self.special is None:
            if self.op not in {ANY, *CATALOGUE}:
                raise DocumentError("$.op", self.op, "an operation of the catalogue, which has such a set")
            own = [one.name for one in CATALOGUE[self.op].special] if self.op in CATALOGUE else []
            usual = [f"{value} in argument 0" for value in VALUES]
            raise DocumentError("$.set", self.set_name, f"one of {', '.join(map(repr, (*own, *usual)))}")
        if self.op == ANY and self.everywhere:
            raise DocumentError(
                "$", Description("every operation, always"), "a set, attrs, ranks, producers, neighbours or error"
            )

    @property
    def special(self) -> SpecialSet | None:
        """The set of the operation's arguments to which the region is limited."""
        return None if self.set_name is None else special_set(self.op, self.set_name)

    @property
    def everywhere(self) -> bool:
        """Whether every use of the operation lies in the region, at its orders."""
        limits = (self.set_name, self.attrs, self.ranks, self.producers, self.neighbours, self.apart)
        return not any((*limits, self.arriving, self.error))

    @property
    def excluding(self) -> bool:
        """Whether generation draws nothing there; it cannot know arriving cotangents and errors."""
        return not (self.drawn or self.arriving or self.error)

    @property
    def deciding(self) -> tuple[int, ...]:
        """The numbers of the arguments whose values or shapes decide, none where all of them lie in the region."""
        return (0,) * bool(self.ranks) if self.special is None else self.special.arguments

    @property
    def asked(self) -> set[str]:
        """The names of the attributes that decide."""
        there = attribute_names(CATALOGUE[self.op].source) if self.op in CATALOGUE else ()
        return {*self.attrs} | (set() if self.special is None else self.special.asked(there))

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
        if self.op not in {ANY, *names(op)} or max(self.deciding, default=0) >= len(arguments):
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
        if self.ranks and np.ndim(arguments[self.deciding[0]]) not in self.ranks:
            return False
        return self.special is None or self.special.contains(attrs, arguments)


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def narrowest(op: str, attrs: Mapping[str, Any], arguments: Sequence[Any], order: Order) -> Region:
    """The smallest region around one example: its attributes, and the rank and special value of an argument.

    Of an operation of a project, a set that it declares comes before those that every operation has.

    >>> narrowest("cumprod", {"reverse": False}, [np.array([0.0, 2.0])], 1).set_name
    'zero in argument 0'
    """
    own = CATALOGUE[op].special if op in REGISTERED else ()
    found = next((one for one in own if one.contains(attrs, arguments)), special(arguments))
    name, argument = (None, 0) if found is None else (found.name, found.arguments[0])
    return Region(op, (order,), name, dict(sorted(attrs.items())), ranks=(np.ndim(arguments[argument]),))
