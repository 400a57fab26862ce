"""Where in an operation's arguments a known defect bites: a fixed vocabulary of conditions, no code from files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _zeros(groups: Array) -> Array:
    return np.asarray(np.sum(groups == 0, axis=-1))


def _repeats(groups: Array) -> bool:
    return any(np.unique(group).size < group.size for group in groups)


def _singular(groups: Array) -> bool:
    side = math.isqrt(groups.shape[-1])
    values = np.linalg.svd(groups.reshape(-1, side, side), compute_uv=False)
    return bool(np.any(values[:, -1] <= 64 * np.finfo(np.float64).eps * values[:, 0]))


CONDITIONS: dict[str, Callable[[Array], bool]] = {
    "always": lambda groups: True,
    "zero": lambda groups: bool(np.any(_zeros(groups) >= 1)),
    "zero of several": lambda groups: groups.shape[-1] > 1 and bool(np.any(_zeros(groups) >= 1)),
    "zeros only": lambda groups: groups.shape[-1] > 0 and bool(np.any(_zeros(groups) == groups.shape[-1])),
    "2 zeros": lambda groups: bool(np.any(_zeros(groups) == 2)),
    "zeros>=2": lambda groups: bool(np.any(_zeros(groups) >= 2)),
    "1 or 2 zeros of several": lambda groups: groups.shape[-1] > 1 and bool(np.any(np.isin(_zeros(groups), (1, 2)))),
    "one": lambda groups: bool(np.any(groups == 1)),
    "negative": lambda groups: bool(np.any(groups.real < 0)),
    "not real": lambda groups: bool(np.any(groups.imag != 0)),
    "several, not real": lambda groups: groups.shape[-1] > 1 and bool(np.any(groups.imag != 0)),
    "singular": _singular,
    "tie": _repeats,
    "repeat": _repeats,
    "single": lambda groups: groups.shape[-1] == 1,
    "several": lambda groups: groups.shape[-1] > 1,
    "gaps": lambda groups: any(np.setdiff1d(np.arange(np.max(group, initial=0)), group).size for group in groups),
    "empty": lambda groups: groups.size == 0,
    "large": lambda groups: bool(np.any(np.abs(groups) >= 1e4)),
    "huge": lambda groups: bool(np.any(np.abs(groups) >= 1e100)),
    "small": lambda groups: bool(np.any(np.max(np.abs(groups), axis=-1, initial=0.0) <= 1e-2)),
    "minute": lambda groups: bool(np.any(np.max(np.abs(groups), axis=-1, initial=0.0) <= 1e-4)),
    "tiny": lambda groups: bool(np.any((groups != 0) & (np.abs(groups) <= 1e-100))),
}
ELEMENTS = {
    "all": slice(None),
    "all but the first": slice(1, None),
    "all but the last": slice(None, -1),
}


ANY = "*"
"""The `op` of a region that lies in every operation's arguments."""

TRIGGERS = {
    "no element": "empty",
    "zero": "zero",
    "repeated index": "repeat",
    "tie": "tie",
    "one": "one",
    "huge value": "huge",
    "tiny value": "tiny",
    "a single element": "single",
}
"""What a report says is special about an argument, and the condition that holds there."""


@dataclass(frozen=True)
class Region:
    """The arguments of one operation, or of `ANY`, for which its derivative is known to be wrong.

    `attrs` are the attribute values it is limited to, `ranks` the argument's numbers of dimensions (empty: any).
    `argument` is looked at in groups along `along` (an axis, several, or the name of the attribute that holds them;
    None: the whole argument is one group), or in the groups that the attribute `segments` makes of its first dimension;
    or else the values of `indices`, names of attributes, are, as one group. Of each group the `elements` count; the
    `condition` holds if it holds for any group ("singular": of the elements of a square matrix). With `producers`, one
    of these operations has to stand somewhere before the arguments.
    """

    op: str
    condition: str
    orders: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    argument: int = 0
    along: int | str | tuple[int, ...] | None = None
    elements: str = "all"
    ranks: tuple[int, ...] = ()
    segments: str | None = None
    indices: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether every use of the operation lies in the region, at its orders."""
        return self.condition == "always" and not (self.attrs or self.ranks or self.producers)

    def contains(
        self,
        op: str,
        attrs: Mapping[str, Any],
        arguments: Sequence[Any],
        order: int,
        producers: Sequence[str] = (),
    ) -> bool:
        """Whether an operation with these attributes and argument values lies in the region, at this order.

        `producers` are the operations that stand before the arguments.
        """
        if self.op not in (ANY, op) or order not in self.orders or self.argument >= len(arguments):
            return False
        if self.producers and not set(self.producers) & set(producers):
            return False
        if any(name not in attrs or attrs[name] != value for name, value in self.attrs):
            return False
        array = np.asarray(arguments[self.argument])
        if self.ranks and array.ndim not in self.ranks:
            return False
        holds = CONDITIONS[self.condition]
        return any(holds(groups[..., ELEMENTS[self.elements]]) for groups in self._groups(array, attrs))

    def _groups(self, array: Array, attrs: Mapping[str, Any]) -> list[Array]:
        """Arrays (groups, members), each with groups of one length."""
        if self.indices:
            return [np.concatenate([np.ravel(attrs[name]) for name in self.indices])[np.newaxis]]
        if self.segments is not None:
            ids = np.asarray(attrs[self.segments])
            return [array[ids == segment].reshape(np.sum(ids == segment), -1).T for segment in np.unique(ids)]
        return [self._along(array, attrs)]

    def _along(self, array: Array, attrs: Mapping[str, Any]) -> Array:
        axis = attrs.get(self.along) if isinstance(self.along, str) else self.along
        if axis is None or array.ndim == 0:
            return array.reshape(1, -1)
        axes = [part % array.ndim for part in (axis if isinstance(axis, tuple) else (axis,))]
        moved = np.moveaxis(array, axes, range(-len(axes), 0))
        rest = moved.shape[: array.ndim - len(axes)]
        return moved.reshape(math.prod(rest), math.prod(moved.shape[len(rest) :]))


def narrowest(op: str, attrs: Mapping[str, Any], arguments: Sequence[Any], order: int, trigger: str) -> Region:
    """The smallest region around one example: its attributes, its argument's rank, and what its `trigger` says.

    `trigger` is a report's, as "zero in argument 0". Where it says nothing ("none"), the condition is "always".

    >>> narrowest("cumprod", {"reverse": False}, [np.array([0.0, 2.0])], 1, "zero in argument 0").condition
    'zero'
    """
    told = re.fullmatch(r"(.+) in argument (\d+)", trigger)
    condition = TRIGGERS.get(told[1]) if told else None
    argument = int(told[2]) if told and condition else 0
    rank = np.ndim(arguments[argument])
    return Region(op, condition or "always", (order,), tuple(sorted(attrs.items())), argument, ranks=(rank,))
