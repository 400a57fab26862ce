"""First and second derivatives with nested GradientTapes, by `gradient` or `jacobian`, as pullbacks of cotangents.

A *pullback* maps a cotangent w of the outputs to the gradient of <w, y> with respect to the sources. None, where
TensorFlow sees no connection, stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.left_vectors import LeftVectors
from gradcheck.autodiff.sources import Source
from gradcheck.typing import Array

Tensors = list[Any]
Forward = Callable[[Tensors], Tensors]
T = TypeVar("T")

SecondPullbacks = tuple[Tensors, list[Tensors]]
"""The gradient for one cotangent, and its pullbacks along directions: lists with one item per source."""


class DerivativeRaisedError(Exception):
    """The function was computed, but its derivative raised; the cause is chained."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {str(cause) or _raised_at(cause)}")
        self.cause = self.__cause__ = cause


def _raised_at(cause: BaseException) -> str:
    """The innermost line, for errors without a message, such as TensorFlow's assertions."""
    frames = extract_tb(cause.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


@contextmanager
def taking_derivative() -> Iterator[None]:
    """Wrap what the block raises in DerivativeRaisedError."""
    try:
        yield
    except DerivativeRaisedError:
        raise
    except Exception as error:  # from a gradient function
        raise DerivativeRaisedError(error) from error


def pullbacks(forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """Return the gradients of <w, forward(sources)>: one list per cotangent w, with one tensor or None per source.

    `forward` maps the tensors or variables to a flat list of tensors. Raises DerivativeRaisedError where the backward
    pass raises.
    """
    return differentiate(forward, sources, cotangents)[1]


def second_pullbacks(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """Return the gradient g of <cotangent, forward(sources)> and, for each direction v, that of <v, g>: (dg/dx)^T v.

    For a correct second derivative that is the Hessian-vector product (reverse over reverse).
    """
    return differentiate(gradient_of(forward, cotangent), sources, directions)


Differentiate = Callable[[Forward, Tensors, Sequence[Tensors]], tuple[Tensors, list[Tensors]]]
"""A function such as `differentiate`."""


def differentiate(function: Forward, sources: Tensors, weights: Sequence[Tensors]) -> tuple[Tensors, list[Tensors]]:
    """Return the values of a function (of dense tensors or None), such as a gradient, and the pullbacks of weights."""

    def from_one_tape(weights: Sequence[Tensors]) -> list[tuple[Tensors, Tensors]]:
        tape, targets = watched(function, sources, persistent=len(weights) > 1)
        return [(targets, pulled_back(tape, targets, sources, weight)) for weight in weights]

    taken = together_or_each(from_one_tape, weights)
    return taken[0][0], [row for _, row in taken]


def together_or_each(take: Callable[[Sequence[Tensors]], list[T]], weights: Sequence[Tensors]) -> list[T]:
    """Apply `take` to all weights with one persistent tape, or to each with its own tape where that one refuses.

    It refuses operations that other code records, such as a saved model's loop that reads a variable, and gradients
    that can be taken only once, such as that of tf.py_function.
    """
    try:
        return take(weights)
    except DerivativeRaisedError:
        if len(weights) == 1:
            raise
        return [one for weight in weights for one in take([weight])]


def gradient_of(forward: Forward, cotangent: Tensors, taken: Differentiate = differentiate) -> Forward:
    """Return the function from sources to the gradient of <cotangent, forward(sources)>, dense tensors or None."""

    def first(sources: Tensors) -> Tensors:
        return [dense(*pair) for pair in zip(taken(forward, sources, [cotangent])[1][0], sources, strict=True)]

    return first


def differentiate_one_by_one(
    function: Forward, sources: Tensors, weights: Sequence[Tensors]
) -> tuple[Tensors, list[Tensors]]:
    """As `differentiate`, with one tape per source, for which the others are constants.

    Gradient functions omit the gradients of inputs that are not watched.

    >>> x, y = tf.constant(2.0), tf.constant(3.0)
    >>> _, (row,) = differentiate_one_by_one(lambda sources: [sources[0] * sources[1]], [x, y], [[tf.constant(1.0)]])
    >>> [float(part) for part in row]
    [3.0, 2.0]
    """

    def with_one_watched(place: int, source: Tensors) -> Tensors:
        return function([*sources[:place], *source, *sources[place + 1 :]])

    taken = [differentiate(partial(with_one_watched, i), [source], weights) for i, source in enumerate(sources)]
    return taken[0][0], [[rows[number][0] for _, rows in taken] for number in range(len(weights))]


def differentiate_by_variables(
    function: Forward, sources: Tensors, weights: Sequence[Tensors]
) -> tuple[Tensors, list[Tensors]]:
    """As `differentiate`, with respect to variables that hold the sources."""
    return differentiate(function, [tf.Variable(source) for source in sources], weights)


def watched(forward: Forward, sources: Tensors, *, persistent: bool = False) -> tuple[Any, Tensors]:
    """Run `forward` under a tape that watches the sources only; return the tape and the outputs.

    Raises DerivativeRaisedError where `forward` raises only under the tape, otherwise what `forward` raises.
    """
    try:
        with tf.GradientTape(persistent=persistent, watch_accessed_variables=False) as tape:
            for source in sources:
                tape.watch(source)
            outputs = forward(sources)
    except DerivativeRaisedError:
        raise
    except Exception as error:  # from the function
        forward(sources)
        raise DerivativeRaisedError(error) from error
    return tape, outputs


def pulled_back(tape: Any, targets: Tensors, sources: Tensors, weights: Tensors) -> Tensors:
    """Return the tape's gradient of <weights, targets>; targets may be None. Raises DerivativeRaisedError."""
    with taking_derivative():
        pairs = [pair for pair in zip(targets, weights, strict=True) if pair[0] is not None]
        if not pairs:
            return [None] * len(sources)
        connected, seeds = map(list, zip(*pairs, strict=True))
        return list(tape.gradient(connected, sources, output_gradients=seeds))


def dense(part: Any, source: Any = None) -> Any:
    """Convert a gradient to a dense tensor of its source's shape, if a source is given; None stays None.

    The gradient of a gather is an IndexedSlices, which no tape accepts as a target. Raises DerivativeRaisedError for
    rows that the source does not have.
    """
    with taking_derivative():
        return None if part is None else tf.convert_to_tensor(shaped(part, source))


def shaped(part: Any, source: Any) -> Any:
    """Give an IndexedSlices without a shape, as custom gradients may return, its source's; return others unchanged."""
    if not isinstance(part, tf.IndexedSlices) or part.dense_shape is not None or source is None:
        return part
    static = tf.TensorShape(source.shape)
    sizes = tf.constant(static.as_list()) if static.is_fully_defined() else tf.shape(source)
    return tf.IndexedSlices(part.values, part.indices, tf.cast(sizes, part.indices.dtype))


def all_shaped(parts: Sequence[Any], sources: Sequence[Any]) -> Tensors:
    """Apply `shaped` to one gradient per source."""
    return [shaped(*pair) for pair in zip(parts, sources, strict=True)]


def connected(parts: Tensors, tensors: Tensors) -> Tensors:
    """Return gradients as dense tensors, with zeros for None."""
    pairs = zip(parts, tensors, strict=True)
    return [tf.zeros_like(tensor) if part is None else dense(part, tensor) for part, tensor in pairs]


def differentiate_by_jacobian(
    function: Forward, sources: Tensors, weights: Sequence[Tensors], *, pfor: bool
) -> tuple[Tensors, list[Tensors]]:
    """As `differentiate`, each weight times `tape.jacobian`, vectorized with pfor or looped.

    Raises DerivativeRaisedError.

    >>> x = tf.constant([1.0, 2.0])
    >>> _, rows = differentiate_by_jacobian(lambda sources: [sources[0] ** 2], [x], [[tf.ones(2)]], pfor=True)
    >>> rows[0][0].numpy().tolist()
    [2.0, 4.0]
    """
    targets: Tensors = []

    def real_parts(inner: Tensors) -> Tensors:
        targets.extend(function(inner))
        # `jacobian` differentiates only the real part of its target: for a complex target y, y and -iy.
        return [tf.stack([y, -1j * y]) if y is not None and y.dtype.is_complex else y for y in targets]

    tape, parts = watched(real_parts, sources, persistent=True)
    with taking_derivative():
        jacobians = [
            None if part is None else tape.jacobian(part, sources, experimental_use_pfor=pfor) for part in parts
        ]
    return targets, [_weighted_sum(weight, jacobians, len(sources)) for weight in weights]


def _weighted_sum(weights: Tensors, jacobians: Sequence[Tensors | None], count: int) -> Tensors:
    """Sum weight times Jacobian over the targets, for each of `count` sources."""
    columns: list[Tensors] = [[] for _ in range(count)]
    for weight, row in zip(weights, jacobians, strict=True):
        if weight.dtype.is_complex:
            weight = tf.stack([tf.math.real(weight), tf.math.imag(weight)])
        for column, jacobian in zip(columns, row or [None] * count, strict=True):
            if jacobian is not None:
                column.append(tf.tensordot(tf.cast(weight, jacobian.dtype), jacobian, axes=len(weight.shape)))
    return [tf.add_n(column) if column else None for column in columns]


class WrongShapeError(Exception):
    """A derivative has another shape or dtype than its source."""

    def __init__(self, source: str, given: str, expected: str) -> None:
        super().__init__(f"the derivative with respect to {source} is {given}; its source is {expected}")
        self.source = source


@contextmanager
def wrong_shape_first(gradient: Callable[[], object]) -> Iterator[None]:
    """Raise the WrongShapeError of a gradient where its derivative, taken in the block, raises DerivativeRaisedError.

    No direction fits such a gradient, which the error of TensorFlow does not say.
    """
    try:
        yield
    except DerivativeRaisedError:
        with suppress(DerivativeRaisedError):
            gradient()
        raise


@dataclass(frozen=True)
class Gradients:
    """`values` (k, n): zero where TensorFlow gives None; `connected` (k, n): False there."""

    values: Array
    connected: Array

    @staticmethod
    def undefined(count: int, size: int) -> Gradients:
        """Return NaN for `count` gradients where the function is undefined."""
        return Gradients(np.full((count, size), np.nan), np.ones((count, size), bool))

    def __getitem__(self, rows: Array) -> Gradients:
        """Some of the rows."""
        return Gradients(self.values[rows], self.connected[rows])

    def scaled(self, factors: Array) -> Gradients:
        """The rows multiplied by factors (k,)."""
        return Gradients(self.values * factors[:, None], self.connected)


def gradient_matrix(rows: Sequence[Sequence[Any]], sources: Sequence[Source]) -> Gradients:
    """Stack the gradients of k cotangents, each with one tensor or None per source. Raises WrongShapeError."""
    seen = np.array([[part is not None for part in row] for row in rows])
    counts = [source.count for source in sources]
    values = np.empty((len(rows), sum(counts)))
    columns = np.split(values, np.cumsum(counts)[:-1], axis=1)
    for number, row in enumerate(rows):
        for column, part, source in zip(columns, row, sources, strict=True):
            column[number] = 0.0 if part is None else _coordinates(part, source)
    connected = np.ones(1, bool) if seen.all() else np.repeat(seen, counts, axis=1)
    return Gradients(values, np.broadcast_to(connected, values.shape))


def _coordinates(part: Any, source: Source) -> Array:
    tensor = dense(part, source)
    if tuple(tensor.shape) != source.shape:
        raise WrongShapeError(source.name, f"of shape {tuple(tensor.shape)}", f"of shape {source.shape}")
    if tensor.dtype.is_complex != np.iscomplexobj(source.value) or not (
        tensor.dtype.is_floating or tensor.dtype.is_complex
    ):
        raise WrongShapeError(source.name, f"of dtype {tensor.dtype.name}", f"of dtype {source.dtype}")
    return source.derivatives(tensor.numpy())


def along(directions: Array, gradients: Array) -> Array:
    """The derivatives (k, l) along directions (k, n) of gradients (l, n); a NaN counts only where the line moves."""
    finite = np.isfinite(gradients)
    if finite.all():
        return np.asarray(directions @ gradients.T)
    product: Array = directions @ np.where(finite, gradients, 0.0).T
    for row in np.flatnonzero(~finite.all(axis=1)):
        for line in np.flatnonzero((directions[:, ~finite[row]] != 0).any(axis=1)):
            moving = directions[line] != 0
            product[line, row] = np.sum(directions[line, moving] * gradients[row, moving])
    return product


def seen(gradients: Array, left: LeftVectors | None) -> Array:
    """Gradients (p, n), or, given c left vectors, their products with these (p, c)."""
    return gradients if left is None else left.products(gradients)
