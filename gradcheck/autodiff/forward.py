"""First and second derivatives with ForwardAccumulators: Jacobian-vector products, and their compositions with tapes.

They have the form of those in `reverse`, so that the two can be compared: gradients of <w, y>, and products of its
second derivative with directions. None, where TensorFlow sees no connection, stays None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.reverse import (
    DerivativeRaisedError,
    Forward,
    SecondPullbacks,
    Tensors,
    gradient_of,
    original_cause,
    pullbacks,
)


def pushforward(forward: Forward, sources: Tensors, direction: Tensors) -> Tensors:
    """How the outputs move where the sources move along a direction: J v, one tensor or None an output.

    Raises DerivativeRaisedError where the accumulator throws although the function itself can be computed.

    >>> x = tf.constant([1.0, 2.0])
    >>> pushforward(lambda sources: [sources[0] ** 2], [x], [tf.constant([1.0, 0.0])])[0].numpy().tolist()
    [2.0, 0.0]
    """
    try:
        with tf.autodiff.ForwardAccumulator(sources, direction) as accumulator:
            outputs = forward(sources)
        return [accumulator.jvp(output) for output in outputs]
    except Exception as error:
        forward(sources)
        cause = original_cause(error)
        raise DerivativeRaisedError(1, cause) from cause


def forward_pullbacks(forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """The gradients of <w, y> for each cotangent w, each element from a pushforward along its own axis.

    Raises DerivativeRaisedError.
    """
    columns = [
        [pushforward(partial(_with_one_moving, forward, sources, place), [source], [axis]) for axis in _axes(source)]
        for place, source in enumerate(sources)
    ]
    return [
        [_assembled(source, column, cotangent) for source, column in zip(sources, columns, strict=True)]
        for cotangent in cotangents
    ]


def forward_over_reverse(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """The gradient g of <cotangent, y>, and how it moves along each direction. Raises DerivativeRaisedError."""
    gradient = gradient_of(forward, cotangent)
    taken = gradient(sources)
    connected = [place for place, part in enumerate(taken) if part is not None]

    def connected_gradient(inner: Tensors) -> Tensors:
        parts = gradient(inner)
        return [parts[place] for place in connected]

    products = []
    for direction in directions:
        moves = _as_second_order(partial(pushforward, connected_gradient, sources, direction))
        row: Tensors = [None] * len(sources)
        for place, move in zip(connected, moves, strict=True):
            row[place] = move
        products.append(row)
    return SecondPullbacks(taken, products)


def reverse_over_forward(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """The gradient of <cotangent, y>, and that of <cotangent, J v> for each direction v.

    Raises DerivativeRaisedError.
    """
    taken = pullbacks(forward, sources, [cotangent])[0]
    products = []
    for direction in directions:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for source in sources:
                tape.watch(source)
            # A direction may be one of the sources; it does not move with it.
            tangents = pushforward(forward, sources, [tf.stop_gradient(part) for part in direction])
        moving = [(t, w) for t, w in zip(tangents, cotangent, strict=True) if t is not None]
        if not moving:
            products.append([None] * len(sources))
            continue
        targets, weights = zip(*moving, strict=True)
        derivative = partial(tape.gradient, list(targets), sources, output_gradients=list(weights))
        products.append(_as_second_order(derivative))
    return SecondPullbacks(taken, products)


def _as_second_order(take: Callable[[], Any]) -> Tensors:
    try:
        return list(take())
    except Exception as error:
        cause = original_cause(error)
        raise DerivativeRaisedError(2, cause) from cause


def _with_one_moving(forward: Forward, sources: Tensors, place: int, moving: Tensors) -> Tensors:
    return forward([*sources[:place], *moving, *sources[place + 1 :]])


def _axes(source: Any) -> Iterator[Any]:
    """The directions that move one element of a source: by 1 and, where it is complex, by 1j."""
    for unit in (1.0, 1.0j) if source.dtype.is_complex else (1.0,):
        for element in np.ndindex(*source.shape):
            moved = np.zeros(source.shape, source.dtype.as_numpy_dtype)
            moved[element] = unit
            yield tf.constant(moved)


def _assembled(source: Any, column: Sequence[Tensors], cotangent: Tensors) -> Any:
    slopes = [_inner(tangents, cotangent) for tangents in column]
    known = [slope for slope in slopes if slope is not None]
    if not known:
        return None
    real = source.dtype.real_dtype
    flat = tf.stack([tf.zeros((), real) if slope is None else tf.cast(slope, real) for slope in slopes])
    if not source.dtype.is_complex:
        return tf.reshape(flat, source.shape)
    parts = tf.reshape(flat, [2, *source.shape])
    return tf.complex(parts[0], parts[1])


def _inner(tangents: Tensors, cotangent: Tensors) -> Any:
    """Re <cotangent, tangents>; None where no output moves."""
    terms = [
        tf.reduce_sum(tf.math.real(tf.math.conj(weight) * tangent))
        for tangent, weight in zip(tangents, cotangent, strict=True)
        if tangent is not None
    ]
    return tf.add_n(terms) if terms else None
