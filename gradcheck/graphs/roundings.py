"""Other roundings of a graph's inner values, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.roundings import UNIT, moved, other_roundings
from gradcheck.graphs.catalogue import CATALOGUE


@dataclass(frozen=True)
class Roundings:
    """Moves every node's value by one unit in the last place, up or down, as `seed` draws it.

    Digits that an inner value has lost show up, which one rounding of the inputs does not tell (asin(sigmoid(31))).
    Zeros stay zeros; so do the values at `exempt` positions, on which a tie may rest.
    """

    seed: int
    exempt: frozenset[int] = frozenset()

    def of(self, position: int, op: str, value: Any) -> Any:
        """The value of a node (with one leading dimension more, of points that all round alike)."""
        if position in self.exempt:
            return value
        return moved(value, np.random.default_rng((self.seed, position)), max(UNIT, CATALOGUE[op].rtol))

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Moves what the gradient functions see, too, unless a tie is among it."""
        if self.exempt:
            yield
        else:
            with other_roundings(self.seed):
                yield
