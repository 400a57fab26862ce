"""Other roundings of what a derivative is computed from: what changes with them is nothing but rounding.

Discrete stochastic arithmetic (Vignes 1993), one unit in the last place up or down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

UNIT = 2.0**-52

SELECTING = frozenset(
    (
        *("Max", "Min", "NthElement", "SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"),
        *("TensorScatterMax", "TensorScatterMin"),
    )
)
"""Operations whose gradient looks for the output among the inputs: one that is moved is not found, and the gradient
becomes 0 or NaN. What they select has lost no digits."""


def perturbed(value: Any, generator: np.random.Generator, unit: float = UNIT) -> Any:
    """A tensor whose elements are one unit in the last place larger or smaller; what is not floating stays."""
    if not tf.is_tensor(value) or not (value.dtype.is_floating or value.dtype.is_complex):
        return value
    signs = generator.choice([-1.0, 1.0], size=value.shape[-1:])
    return value * tf.constant(1 + unit * signs, value.dtype)


@contextmanager
def perturbed_gradients(seed: int) -> Iterator[None]:
    """Inside the block every gradient function has its operands and its results rounded another way.

    A gradient that is written in its operation's output, y * (1 - y) for one, has lost the digits that y has lost,
    which no rounding of the inputs tells; parts of a sum that cancel leave what each of them was rounded by. Functions
    that are traced meanwhile are left alone: they would keep it.
    """
    registry: dict[str, dict[str, Any]] = ops.gradient_registry._registry
    generator = np.random.default_rng(seed)
    kept = {name: entry["type"] for name, entry in registry.items()}
    for name, function in kept.items():
        if function is not None:
            registry[name]["type"] = _rounding(function, generator, selecting=name in SELECTING)
    try:
        yield
    finally:
        for name, function in kept.items():
            registry[name]["type"] = function


def _rounding(function: Callable[..., Any], generator: np.random.Generator, *, selecting: bool) -> Callable[..., Any]:
    def rounded(op: Any, *cotangents: Any) -> Any:
        if not tf.executing_eagerly():
            return function(op, *cotangents)
        other = copy(op)
        if op.outputs and not selecting:  # the tape keeps no outputs that the gradient function does not read
            other.outputs = [perturbed(output, generator) for output in op.outputs]
        parts = function(other, *(perturbed(cotangent, generator) for cotangent in cotangents))
        many = isinstance(parts, (list, tuple))
        return [perturbed(part, generator) for part in parts] if many else perturbed(parts, generator)

    return rounded
