"""The variables of a training as they move along a line, and whether their values are finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.sources import variable_of

NAMED = 3
"""The number of variables that are not finite that are named."""


@dataclass(frozen=True)
class MovedVariables:
    """Variables with their original values, and their displacements for the offset 1; also in a graph."""

    variables: Sequence[Any]
    start: Sequence[Any]
    moves: Sequence[Any]

    @staticmethod
    def of(variables: Sequence[Any], line: Any) -> MovedVariables:
        """Return the same for a line (n,) in all of their coordinates."""
        parts = tf.split(line, [variable.shape.num_elements() for variable in variables])
        moves = [tf.reshape(tf.cast(part, one.dtype), one.shape) for part, one in zip(parts, variables, strict=True)]
        return MovedVariables(variables, [variable.read_value() for variable in variables], moves)

    def move(self, offset: Any) -> None:
        """Set the variables to their original values plus the offset times the displacements."""
        for variable, value, move in zip(self.variables, self.start, self.moves, strict=True):
            variable.assign(value + tf.cast(offset, move.dtype) * move)

    def leave(self) -> None:
        """Set the variables to their original values."""
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)


def not_finite(variables: Sequence[Any]) -> str:
    """Describe which of the variables, Keras's or TensorFlow's, hold NaN or infinity; "" if none does."""
    endless: dict[int, Any] = {}
    for item in variables:
        held = variable_of(item)
        if held is not None and held.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(held)):
            endless.setdefault(id(held), item)
    names = [getattr(item, "path", None) or item.name for item in endless.values()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more} hold{'s' * (len(names) == 1)} NaN or infinity" if names else ""
