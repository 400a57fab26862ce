"""Other roundings of what passes between a graph's nodes, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.roundings import UNIT, moved


@dataclass(frozen=True)
class Roundings:
    """Moves values and cotangents between nodes by one unit in the last place, up or down, as `seed` draws it.

    Discrete stochastic arithmetic (Vignes 1993): digits that an inner value has lost show up, which one rounding of the
    inputs does not tell (asin(sigmoid(31))), and so do terms that cancel where a value is used twice. What a node does
    inside stays as it is: a formula that loses digits by itself is on trial. Zeros stay zeros; so do the values at
    `exempt` positions, on which a tie may rest.
    """

    seed: int
    exempt: frozenset[int] = frozenset()

    def of(self, position: int, value: Any, unit: float) -> Any:
        """The value of a node, whose kernel rounds by `unit`; points of a leading dimension all round alike."""
        return value if position in self.exempt else moved(value, self._generator(position), max(UNIT, unit))

    def argument(self, position: int, parent: int, value: Any) -> Any:
        """A value as the argument of a node: the same, but the cotangent that comes back is rounded."""

        def passed(tensor: Any) -> Any:
            return tf.identity(tensor), lambda cotangent: moved(cotangent, self._generator(position, 1 + parent))

        return tf.custom_gradient(passed)(value)

    def _generator(self, *place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *place))
