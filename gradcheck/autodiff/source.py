"""What a derivative is taken with respect to, in real coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count, element_of, from_coordinates, to_coordinates
from gradcheck.autodiff.sets import Set

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Source:
    """A tensor or variable with its name for messages, its value and its dtype (TensorFlow's name for it).

    It is perturbed in its real coordinates; what leaves it as a tensor is of float64 or complex128.
    """

    name: str
    value: Array
    dtype: str
    variable: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    @property
    def count(self) -> int:
        """The number of coordinates."""
        return coordinate_count(self.value.shape, self.value.dtype)

    def coordinates(self, tensor: Array) -> Array:
        """The coordinates (count,) of a tensor of the source's shape."""
        return to_coordinates(tensor)

    def at(self, point: Array) -> Array:
        """The tensor with coordinates (count,)."""
        return from_coordinates(point, self.shape, np.complex128 if np.iscomplexobj(self.value) else np.float64)

    def moved(self, move: Array) -> Array:
        """How the tensor moves when its coordinates do, by (count,)."""
        return self.at(move)

    def pulled(self, gradient: Array) -> Array:
        """The derivatives (count,) with respect to the coordinates, from a gradient of the source's shape."""
        return self.coordinates(gradient)

    def holds(self, point: Array) -> bool:
        """Whether the tensor with coordinates (count,) is one that the function may be asked for."""
        return True

    def place(self, coordinate: int) -> tuple[str, tuple[int, ...], str]:
        """The name (with the part of a complex number), the element behind a coordinate, and what moves with it."""
        index, part = element_of(coordinate, self.shape, self.value.dtype)
        return self.name + part, index, ""


@dataclass(frozen=True)
class SourceWithin(Source):
    """A source that stays `within` a set; its coordinates are those that are free there."""

    within: Set = field(kw_only=True)

    @property
    def count(self) -> int:
        return int(self._free.size)

    def coordinates(self, tensor: Array) -> Array:
        return super().coordinates(tensor)[self._free]

    def at(self, point: Array) -> Array:
        return self._start + self.moved(point - self.coordinates(self._start))

    def moved(self, move: Array) -> Array:
        whole = np.zeros(super().count)
        whole[self._free] = move
        return self.within.spread(self._start, super().at(whole))

    def pulled(self, gradient: Array) -> Array:
        return self.coordinates(self.within.fold(self._start, gradient))

    def holds(self, point: Array) -> bool:
        return self.within.holds(self.at(point))

    def place(self, coordinate: int) -> tuple[str, tuple[int, ...], str]:
        name, index, _ = super().place(int(self._free[coordinate]))
        return name, index, self.within.also(self.name, index)

    @cached_property
    def _start(self) -> Array:
        return super().at(to_coordinates(self.value))

    @cached_property
    def _free(self) -> Array:
        return np.flatnonzero(to_coordinates(self.within.marked(self._start)))
