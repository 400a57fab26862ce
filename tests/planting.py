"""Faults in TensorFlow's registered gradients, as long as a context lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import forwardprop
from tensorflow.python.framework import ops

Gradient = Callable[..., Any]


@contextmanager
def planted(operations: Sequence[str], faulty: Callable[[Gradient], Gradient]) -> Iterator[None]:
    """A context in which `faulty` replaces the registered gradient functions of these operations."""
    entries = [ops.gradient_registry._registry[operation] for operation in operations]
    rights = [entry["type"] for entry in entries]
    for entry, right in zip(entries, rights, strict=True):
        entry["type"] = faulty(right)
    forwardprop._jvp_function_cache.clear()  # pushforwards keep the gradient functions that they were traced with
    try:
        yield
    finally:
        for entry, right in zip(entries, rights, strict=True):
            entry["type"] = right
        forwardprop._jvp_function_cache.clear()
