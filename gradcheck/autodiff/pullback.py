"""First and second derivatives with nested GradientTapes, as pullbacks of cotangents.

A *pullback* maps a cotangent w of the outputs to the gradient of <w, y> with respect to the sources. None, where
TensorFlow sees no connection, stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Tensors = list[Any]
Forward = Callable[[Tensors], Tensors]


class DerivativeRaisedError(Exception):
    """The function was computed, its derivative threw; the cause is chained."""

    def __init__(self, order: int, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.order = order
        self.__cause__ = cause


@dataclass(frozen=True)
class Second:
    """One cotangent's gradient and its pullbacks along directions: each entry a list with one item a source."""

    gradient: Tensors
    products: list[Tensors]


def pullbacks(forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """The gradients of <w, forward(sources)> for each cotangent w: one list (tensor or None a source) a cotangent.

    `forward` maps the tensors or variables to a flat list of tensors. Raises DerivativeRaisedError where the backward
    pass throws.
    """
    with tf.GradientTape(persistent=len(cotangents) > 1, watch_accessed_variables=False) as tape:
        _watch(tape, sources)
        outputs = forward(sources)
    return [_gradient(tape, outputs, sources, cotangent, order=1) for cotangent in cotangents]


def second_pullbacks(forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]) -> Second:
    """The gradient g of <cotangent, forward(sources)> and, for each direction v, the gradient of <v, g>: (dg/dx)^T v.

    For a right second derivative that is the Hessian-vector product (reverse over reverse).
    """

    def first(inner: Tensors) -> Tensors:
        return pullbacks(forward, inner, [cotangent])[0]

    return differentiate(first, sources, directions)


def differentiate(first: Forward, sources: Tensors, directions: Sequence[Tensors]) -> Second:
    """The same for a first derivative that `first` computes, such as a hand-written one."""
    with tf.GradientTape(persistent=len(directions) > 1, watch_accessed_variables=False) as tape:
        _watch(tape, sources)
        gradient = [dense(part) for part in first(sources)]
    connected = [i for i, part in enumerate(gradient) if part is not None]
    products = [
        _gradient(tape, [gradient[i] for i in connected], sources, [direction[i] for i in connected], order=2)
        for direction in directions
    ]
    return Second(gradient, products)


def _gradient(tape: Any, targets: Tensors, sources: Tensors, cotangents: Tensors, *, order: int) -> Tensors:
    if not targets:
        return [None] * len(sources)
    try:
        return list(tape.gradient(targets, sources, output_gradients=cotangents))
    except Exception as error:
        raise DerivativeRaisedError(order, error) from error


def _watch(tape: Any, sources: Tensors) -> None:
    for source in sources:
        tape.watch(source)


def dense(part: Any) -> Any:
    """A tensor or None; the gradient of a gather is an IndexedSlices, which no tape takes as a target."""
    return tf.convert_to_tensor(part) if isinstance(part, tf.IndexedSlices) else part
