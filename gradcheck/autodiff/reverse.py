"""First and second derivatives with nested GradientTapes, by `gradient` or `jacobian`, as pullbacks of cotangents.

A *pullback* maps a cotangent w of the outputs to the gradient of <w, y> with respect to the sources. None, where
TensorFlow sees no connection, stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.sources import Source

Tensors = list[Any]
Forward = Callable[[Tensors], Tensors]


class DerivativeRaisedError(Exception):
    """The function was computed, its derivative threw; the cause is chained."""

    def __init__(self, order: int, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.order = order
        self.cause = self.__cause__ = cause


def original_cause(error: BaseException) -> BaseException:
    """What a derivative raised, where an error wraps it; the error itself otherwise."""
    return error.cause if isinstance(error, DerivativeRaisedError) else error


@dataclass(frozen=True)
class SecondPullbacks:
    """One cotangent's gradient and its pullbacks along directions: each entry a list with one item a source."""

    gradient: Tensors
    products: list[Tensors]


def pullbacks(forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """The gradients of <w, forward(sources)> for each cotangent w: one list (tensor or None a source) a cotangent.

    `forward` maps the tensors or variables to a flat list of tensors. Raises DerivativeRaisedError where the backward
    pass throws.
    """
    tape, outputs = watched(forward, sources, persistent=len(cotangents) > 1)
    return [pulled_back(tape, outputs, sources, cotangent, order=1) for cotangent in cotangents]


def second_pullbacks(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """The gradient g of <cotangent, forward(sources)> and, for each direction v, the gradient of <v, g>: (dg/dx)^T v.

    For a right second derivative that is the Hessian-vector product (reverse over reverse).
    """
    return differentiate(gradient_of(forward, cotangent), sources, directions)


def gradient_of(forward: Forward, cotangent: Tensors) -> Forward:
    """The function from sources to the gradient of <cotangent, forward(sources)>, of dense tensors or None."""
    return lambda sources: [dense(part) for part in pullbacks(forward, sources, [cotangent])[0]]


def differentiate(gradient_function: Forward, sources: Tensors, directions: Sequence[Tensors]) -> SecondPullbacks:
    """The same for any function that computes the gradient (of dense tensors or None), such as a hand-written one."""
    tape, gradient = watched(gradient_function, sources, persistent=len(directions) > 1)
    connected = [i for i, part in enumerate(gradient) if part is not None]
    products = [
        pulled_back(tape, [gradient[i] for i in connected], sources, [direction[i] for i in connected], order=2)
        for direction in directions
    ]
    return SecondPullbacks(gradient, products)


def watched(forward: Forward, sources: Tensors, *, persistent: bool = False) -> tuple[Any, Tensors]:
    """A tape that watched the sources, and nothing else, while `forward` ran; and what that gave."""
    with tf.GradientTape(persistent=persistent, watch_accessed_variables=False) as tape:
        for source in sources:
            tape.watch(source)
        outputs = forward(sources)
    return tape, outputs


def pulled_back(tape: Any, targets: Tensors, sources: Tensors, cotangents: Tensors, *, order: int) -> Tensors:
    """The tape's gradient of <cotangents, targets>. Raises DerivativeRaisedError, with the order, where it throws."""
    if not targets:
        return [None] * len(sources)
    try:
        return list(tape.gradient(targets, sources, output_gradients=cotangents))
    except Exception as error:
        raise DerivativeRaisedError(order, error) from error


def dense(part: Any) -> Any:
    """A tensor or None; the gradient of a gather is an IndexedSlices, which no tape takes as a target."""
    return tf.convert_to_tensor(part) if isinstance(part, tf.IndexedSlices) else part


def jacobian_pullbacks(
    forward: Forward, sources: Tensors, cotangents: Sequence[Tensors], *, pfor: bool
) -> list[Tensors]:
    """The gradients of <w, y> for each cotangent w: w times `tape.jacobian`, vectorized with pfor or looped.

    Raises DerivativeRaisedError.

    >>> x = tf.constant([1.0, 2.0])
    >>> rows = jacobian_pullbacks(lambda sources: [sources[0] ** 2], [x], [[tf.ones(2)]], pfor=True)
    >>> rows[0][0].numpy().tolist()
    [2.0, 4.0]
    """
    return _contracted(forward, sources, cotangents, pfor=pfor, order=1)[1]


def jacobian_second_pullbacks(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors], *, pfor: bool
) -> SecondPullbacks:
    """The gradient of <cotangent, y>, and each direction times the Jacobian of that. Raises DerivativeRaisedError."""
    gradient = gradient_of(forward, cotangent)
    return SecondPullbacks(*_contracted(gradient, sources, directions, pfor=pfor, order=2))


def _contracted(
    function: Forward, sources: Tensors, weights: Sequence[Tensors], *, pfor: bool, order: int
) -> tuple[Tensors, list[Tensors]]:
    targets: Tensors = []

    def real_parts(inner: Tensors) -> Tensors:
        targets.extend(function(inner))
        return [None if target is None else _real_parts(target) for target in targets]

    tape, parts = watched(real_parts, sources, persistent=True)
    try:
        jacobians = [
            part if part is None else tape.jacobian(part, sources, experimental_use_pfor=pfor) for part in parts
        ]
    except Exception as error:
        raise DerivativeRaisedError(order, error) from error
    return targets, [_weighted_sum(jacobians, weight, len(sources)) for weight in weights]


def _weighted_sum(jacobians: Sequence[Tensors | None], weights: Tensors, count: int) -> Tensors:
    """The sum over the targets of weight times Jacobian, for each of `count` sources."""
    rows = [
        [None if part is None else _product(weight, part) for part in row]
        for weight, row in zip(weights, jacobians, strict=True)
        if row is not None
    ]
    columns = [[row[place] for row in rows if row[place] is not None] for place in range(count)]
    return [tf.add_n(column) if column else None for column in columns]


def _product(weight: Any, jacobian: Any) -> Any:
    if weight.dtype.is_complex:  # the weights of the two targets of `_real_parts`
        weight = tf.stack([tf.math.real(weight), tf.math.imag(weight)])
    return tf.tensordot(tf.cast(weight, jacobian.dtype), jacobian, axes=len(weight.shape))


def _real_parts(target: Any) -> Any:
    """For a complex target y, y and -iy: `jacobian` differentiates only the real part of what it is given."""
    return tf.stack([target, -1j * target]) if target.dtype.is_complex else target


Array = np.ndarray[Any, Any]


class WrongShapeError(Exception):
    """A derivative has another shape or dtype than its source."""

    def __init__(self, source: str, given: str, expected: str) -> None:
        super().__init__(f"the derivative with respect to {source} is {given}; its source is {expected}")
        self.source = source


@dataclass(frozen=True)
class Gradients:
    """`values` (k, n): zero where TensorFlow gives None; `connected` (k, n): False there."""

    values: Array
    connected: Array

    @staticmethod
    def undefined(count: int, size: int) -> Gradients:
        """NaN for `count` gradients where the function is not defined."""
        return Gradients(np.full((count, size), np.nan), np.ones((count, size), bool))

    def scaled(self, factors: Array) -> Gradients:
        """The rows multiplied by factors (k,)."""
        return Gradients(self.values * factors[:, None], self.connected)


def gradient_matrix(rows: Sequence[Sequence[Any]], sources: Sequence[Source]) -> Gradients:
    """Stack the gradients of k cotangents, each a tensor or None a source. Raises WrongShapeError."""
    values = [[_coordinates(part, source) for part, source in zip(row, sources, strict=True)] for row in rows]
    seen = np.array([[part is not None for part in row] for row in rows])
    counts = [source.count for source in sources]
    return Gradients(np.stack([np.concatenate(parts) for parts in values]), np.repeat(seen, counts, axis=1))


def _coordinates(part: Any, source: Source) -> Array:
    if part is None:
        return np.zeros(source.count)
    tensor = tf.convert_to_tensor(part)
    if tuple(tensor.shape) != source.shape:
        raise WrongShapeError(source.name, f"of shape {tuple(tensor.shape)}", f"of shape {source.shape}")
    if tensor.dtype.is_complex != np.iscomplexobj(source.value) or not (
        tensor.dtype.is_floating or tensor.dtype.is_complex
    ):
        raise WrongShapeError(source.name, f"of dtype {tensor.dtype.name}", f"of dtype {source.dtype}")
    return source.derivatives(tensor.numpy())
