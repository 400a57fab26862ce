"""The vectors that the second derivatives of very many coordinates along a direction are multiplied with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

AT_A_TIME = 8
"""So many parts are taken at a time, which stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class LeftVectors:
    """Unit vectors of some `coordinates`, a `vector` (n,) in parts of `length` coordinates, and a `direction` (n,).

    In parts a vector costs one pass over a gradient, however many there are, and each shows what is small elsewhere.

    >>> left = LeftVectors(np.array([1.0, -1.0, 2.0]), np.ones(3), length=2, coordinates=[1])
    >>> left.products(np.array([[3.0, 4.0, 5.0]])).tolist()
    [[4.0, -1.0, 10.0, 12.0]]
    """

    vector: Array
    direction: Array
    length: int
    coordinates: Sequence[int] = ()

    @cached_property
    def starts(self) -> Array:
        """Where the parts begin, (parts,)."""
        return np.arange(0, self.vector.size, self.length)

    def __len__(self) -> int:
        return len(self.coordinates) + len(self.starts) + 1

    def products(self, gradients: Array) -> Array:
        """The products (p, c) of gradients (p, n): with the unit vectors, the parts, and at last the direction."""
        return np.stack([self.of_pieces([gradient]) for gradient in gradients])

    def of_pieces(self, pieces: Sequence[Array]) -> Array:
        """The products (c,) of one gradient (n,) that is given in pieces, which need not be put together first."""
        parts, along, start = np.zeros(len(self.starts)), 0.0, 0
        units = np.zeros(len(self.coordinates))
        for piece in pieces:
            stop = start + piece.size
            along += float(piece @ self.direction[start:stop])
            for first, last in self._runs(start, stop):
                count = max(1, (last - first) // self.length)
                rows = piece[first - start : last - start].reshape(count, 1, -1)
                place = first // self.length
                parts[place : place + count] += (rows @ self.vector[first:last].reshape(count, -1, 1))[:, 0, 0]
            for number, coordinate in enumerate(self.coordinates):
                if start <= coordinate < stop:
                    units[number] = piece[coordinate - start]
            start = stop
        return np.concatenate([units, parts, [along]])

    def _runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """What lies between two coordinates: the rest of a part, whole parts, and the beginning of another."""
        whole = min(-(-start // self.length) * self.length, stop)
        rest = max(stop // self.length * self.length, whole)
        return ((first, last) for first, last in ((start, whole), (whole, rest), (rest, stop)) if first < last)

    def over(self, reduce: np.ufunc, of: Callable[[Array, slice], Array]) -> Array:
        """Of each vector (c,), all that `of` makes of its entries, reduced; what lies beside it is left out.

        `of` is asked for some entries at a time, which lie in a slice of the coordinates.
        """
        units = [of(np.ones(1), slice(place, place + 1))[0] for place in self.coordinates]
        parts, along = [], []
        for start in range(0, self.vector.size, AT_A_TIME * self.length):
            some = slice(start, min(start + AT_A_TIME * self.length, self.vector.size))
            parts.append(reduce.reduceat(of(self.vector[some], some), np.arange(0, some.stop - start, self.length)))
            along.append(reduce.reduce(of(self.direction[some], some)))
        return np.concatenate([units, *parts, [reduce.reduce(along)]])
