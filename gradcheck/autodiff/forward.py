"""First and second derivatives with ForwardAccumulators: Jacobian-vector products, and their compositions with tapes.

They have the form of those in `reverse`, so that both can be compared: gradients of <w, y>, and products of its second
derivative with directions. None, where TensorFlow sees no connection, stays None.
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
    pullbacks,
    taking_derivative,
)


def pushforward(forward: Forward, sources: Tensors, direction: Tensors) -> Tensors:
    """Return the Jacobian-vector product J v along a direction v: one tensor or None per output.

    Raises DerivativeRaisedError where the accumulator raises although the function itself can be computed.

    >>> x = tf.constant([1.0, 2.0])
    >>> pushforward(lambda sources: [sources[0] ** 2], [x], [tf.constant([1.0, 0.0])])[0].numpy().tolist()
    [2.0, 0.0]
    """
    try:
        with taking_derivative():
            with tf.autodiff.ForwardAccumulator(sources, direction) as accumulator:
                outputs = forward(sources)
            return [None if output is None else accumulator.jvp(output) for output in outputs]
    except DerivativeRaisedError:
        forward(sources)
        raise


def forward_pullbacks(forward: Forward, sources: Tensors, cotangents: Sequence[Tensors]) -> list[Tensors]:
    """Return the gradients of <w, y> for each cotangent w, each element from a pushforward along its own axis.

    Raises DerivativeRaisedError.
    """

    def with_one_moving(place: int, moving: Tensors) -> Tensors:
        return forward([*sources[:place], *moving, *sources[place + 1 :]])

    columns = [
        [pushforward(partial(with_one_moving, place), [source], [axis]) for axis in _axes(source)]
        for place, source in enumerate(sources)
    ]
    return [
        [_assembled(source, column, cotangent) for source, column in zip(sources, columns, strict=True)]
        for cotangent in cotangents
    ]


def forward_over_reverse(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """Return the gradient g of <cotangent, y>, and its JVP along each direction. Raises DerivativeRaisedError."""
    gradient = gradient_of(forward, cotangent)
    return gradient(sources), [pushforward(gradient, sources, direction) for direction in directions]


def reverse_over_forward(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """Return the gradient of <cotangent, y>, and that of <cotangent, J v> for each direction v.

    Raises DerivativeRaisedError.
    """
    return _over_forward(pullbacks, forward, sources, cotangent, directions)


def forward_over_forward(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors]
) -> SecondPullbacks:
    """As `reverse_over_forward`, each element from a pushforward along its own axis. Raises DerivativeRaisedError."""
    return _over_forward(forward_pullbacks, forward, sources, cotangent, directions)


def _over_forward(
    taken: Callable[..., list[Tensors]],
    forward: Forward,
    sources: Tensors,
    cotangent: Tensors,
    directions: Sequence[Tensors],
) -> SecondPullbacks:
    def tangents(direction: Tensors, at: Tensors) -> Tensors:
        # A direction may be one of the sources; it has to stay constant.
        return pushforward(forward, at, [tf.stop_gradient(part) for part in direction])

    (gradient,) = taken(forward, sources, [cotangent])
    return gradient, [taken(partial(tangents, direction), sources, [cotangent])[0] for direction in directions]


def _axes(source: Any) -> Iterator[Any]:
    """Yield the unit directions of a source: 1 for each element, and 1j if it is complex."""
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
    """Return Re <cotangent, tangents>; None where all tangents are None."""
    terms = [
        tf.reduce_sum(tf.math.real(tf.math.conj(weight) * tangent))
        for tangent, weight in zip(tangents, cotangent, strict=True)
        if tangent is not None
    ]
    return tf.add_n(terms) if terms else None
