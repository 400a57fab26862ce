"""What the catalogue's texts and functions are written with.

Functions of the catalogue are printed into reproduction scripts: they may use `tf`, `np`, `functools`, builtins and one
another, and nothing else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class TensorFlow:
        """TensorFlow, loaded when an operation first runs: reading the catalogue must not load it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("tensorflow"), name)

    tf = TensorFlow()

__all__ = ["float32", "points_last", "tf", "traced"]

ARGUMENT = re.compile(r"(\{\d+\})")


def points_last(source: str) -> str:
    """The text with the points of every argument moved behind its other dimensions, and back to the front at the end.

    It serves operations that leave trailing dimensions alone.
    """
    moved = ARGUMENT.sub(r"tf.experimental.numpy.moveaxis(\1, 0, -1)", source)
    return f"tf.experimental.numpy.moveaxis({moved}, -1, 0)"


@functools.cache
def traced(function: Callable[..., tf.Tensor]) -> Any:
    """The function as a tf.function, made once: one that is made on every call is traced on every call."""
    return tf.function(function, autograph=False, reduce_retracing=True)


def float32(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """The tensors in single precision, for kernels that have no other."""
    return [tf.cast(tensor, tf.float32) for tensor in tensors]
