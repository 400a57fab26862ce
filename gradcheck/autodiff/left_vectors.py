"""The vectors that the second derivatives of very many coordinates along a direction are multiplied with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
        length, count = self.length, self.vector.size // self.length
        whole = count * length
        rows = gradients[:, :whole].reshape(len(gradients), count, 1, length)
        columns = [(rows @ self.vector[:whole].reshape(count, length, 1))[..., 0, 0]]
        if whole < self.vector.size:
            columns.append(gradients[:, whole:] @ self.vector[whole:, None])
        columns.append(gradients @ self.direction[:, None])
        return np.concatenate([gradients[:, list(self.coordinates)], *columns], axis=1)

    def over(self, reduce: np.ufunc, of: Callable[[Array], Array]) -> Array:
        """Of each vector (c,), all that `of` makes of its entries (n,), reduced; what lies beside it is left out."""
        units = of(np.ones(self.vector.size))[list(self.coordinates)] if self.coordinates else ()
        parts = reduce.reduceat(of(self.vector), self.starts)
        return np.concatenate([units, parts, [reduce.reduce(of(self.direction))]])
