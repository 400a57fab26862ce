"""Batched texts for operations that work on an argument's leading dimensions."""

from __future__ import annotations

import re

ARGUMENT = re.compile(r"(\{\d+\})")


def points_last(source: str) -> str:
    """The text with the points of every argument moved behind its other dimensions, and back to the front at the end.

    It serves operations that leave trailing dimensions alone.
    """
    moved = ARGUMENT.sub(r"tf.experimental.numpy.moveaxis(\1, 0, -1)", source)
    return f"tf.experimental.numpy.moveaxis({moved}, -1, 0)"
