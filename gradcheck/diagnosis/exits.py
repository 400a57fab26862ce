"""Tensors whose value leaves TensorFlow: numpy(), float(), bool(), and what NumPy does with them.

NumPy takes the memory of a tensor through the buffer protocol, which nobody can watch: np.sin(tensor) leaves no trace
here. The constant that comes back does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tensorflow.python.framework import ops

from gradcheck.diagnosis.patches import Wrapper, patched

METHODS = ("numpy", "__array__", "__float__", "__int__", "__bool__", "__index__", "__complex__")


@contextmanager
def watched_exits(left: Callable[[Any, str], Any]) -> Iterator[None]:
    """Call `left(tensor, method)` where a value leaves; the tensor that it returns is read in its place."""

    def wrapper(name: str) -> Wrapper:
        return lambda original, tensor, *args, **kwargs: original(left(tensor, name), *args, **kwargs)

    with patched(*((ops._EagerTensorBase, name, wrapper(name)) for name in METHODS)):
        yield
