"""Left vectors for second derivatives of very many coordinates along a direction, which are compared by products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradcheck.typing import Array

AT_A_TIME = 8
"""Number of parts that are processed at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class LeftVectors:
    """Unit vectors of some `coordinates`, a `vector` (n,) in parts, and a `direction` (n,).

    Products with the parts of a vector cost one pass over a gradient, however many parts there are, and each part shows
    entries that are small compared with those of others. Each of the `sources`, by default one of all coordinates,
    begins with a part of its own; a part has up to `length` coordinates.

    >>> left = LeftVectors(np.array([1.0, -1.0, 2.0]), np.ones(3), length=2, coordinates=[1])
    >>> left.products(np.array([[3.0, 4.0, 5.0]])).tolist()
    [[4.0, -1.0, 10.0, 12.0]]
    """

    vector: Array
    direction: Array
    length: int
    coordinates: Sequence[int] = ()
    sources: Sequence[slice] = ()

    @cached_property
    def _sources(self) -> Sequence[slice]:
        return self.sources or [slice(0, self.vector.size)]

    @cached_property
    def owners(self) -> list[int]:
        """The number of the source that each part belongs to."""
        counts = [-(-(part.stop - part.start) // self.length) for part in self._sources]
        return [number for number, count in enumerate(counts) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.coordinates) + len(self.owners) + 1

    def products(self, gradients: Array) -> Array:
        """The products (p, c) of gradients (p, n) with the unit vectors, the parts, and last the direction."""
        return np.stack([self.of_pieces([gradient[part] for part in self._sources]) for gradient in gradients])

    def of_pieces(self, pieces: Sequence[Array]) -> Array:
        """The products (c,) of one gradient that is given source by source, so that it need not be concatenated."""
        parts: list[Array] = []
        along, units = 0.0, np.zeros(len(self.coordinates))
        for piece, at in zip(pieces, self._sources, strict=True):
            along += float(piece @ self.direction[at])
            whole = piece.size // self.length * self.length
            rows, left = (array[:whole].reshape(-1, 1, self.length) for array in (piece, self.vector[at]))
            parts.append((rows @ left.transpose(0, 2, 1))[:, 0, 0])
            if whole < piece.size:
                parts.append(piece[None, whole:] @ self.vector[at][whole:])
            for number, coordinate in enumerate(self.coordinates):
                if at.start <= coordinate < at.stop:
                    units[number] = piece[coordinate - at.start]
        return np.concatenate([units, *parts, [along]])

    def over(self, reduce: np.ufunc, of: Callable[[Array, slice], Array]) -> Array:
        """Reduce `of(entries, slice)` over the entries of each vector, (c,); entries outside of a part are left out.

        `of` gets some entries at a time, which lie in a slice of the coordinates.
        """
        units = [of(np.ones(1), slice(place, place + 1))[0] for place in self.coordinates]
        parts, along = [], []
        for source in self._sources:
            for start in range(source.start, source.stop, AT_A_TIME * self.length):
                some = slice(start, min(start + AT_A_TIME * self.length, source.stop))
                starts = np.arange(0, some.stop - start, self.length)
                parts.append(reduce.reduceat(of(self.vector[some], some), starts))
                along.append(reduce.reduce(of(self.direction[some], some)))
        return np.concatenate([units, *parts, [reduce.reduce(along)]])
