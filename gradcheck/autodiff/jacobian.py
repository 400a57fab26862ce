"""First and second derivatives through `tape.jacobian`, vectorised with pfor or looped over the target's elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from gradcheck.autodiff.reverse import DerivativeRaisedError, Forward, SecondPullbacks, Tensors, dense, pullbacks


def jacobian_pullbacks(
    forward: Forward, sources: Tensors, cotangents: Sequence[Tensors], *, pfor: bool
) -> list[Tensors]:
    """The gradients of <w, y> for each cotangent w: w times the Jacobian. Raises DerivativeRaisedError.

    >>> x = tf.constant([1.0, 2.0])
    >>> rows = jacobian_pullbacks(lambda sources: [sources[0] ** 2], [x], [[tf.ones(2)]], pfor=True)
    >>> rows[0][0].numpy().tolist()
    [2.0, 4.0]
    """
    return _contracted(forward, sources, cotangents, pfor=pfor, order=1)[1]


def jacobian_second(
    forward: Forward, sources: Tensors, cotangent: Tensors, directions: Sequence[Tensors], *, pfor: bool
) -> SecondPullbacks:
    """The gradient of <cotangent, y>, and each direction times the Jacobian of that. Raises DerivativeRaisedError."""

    def gradient(inner: Tensors) -> Tensors:
        return [dense(part) for part in pullbacks(forward, inner, [cotangent])[0]]

    return SecondPullbacks(*_contracted(gradient, sources, directions, pfor=pfor, order=2))


def _contracted(
    function: Forward, sources: Tensors, weights: Sequence[Tensors], *, pfor: bool, order: int
) -> tuple[Tensors, list[Tensors]]:
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        for source in sources:
            tape.watch(source)
        targets = function(sources)
        parts = [None if target is None else _parts(target) for target in targets]
    try:
        rows = [None if part is None else tape.jacobian(part, sources, experimental_use_pfor=pfor) for part in parts]
    except Exception as error:
        raise DerivativeRaisedError(order, error) from error
    return targets, [_summed(rows, weight, len(sources)) for weight in weights]


def _summed(rows: Sequence[Tensors | None], weight: Tensors, count: int) -> Tensors:
    products = [
        [None if part is None else _product(_reals(one), part) for part in row]
        for one, row in zip(weight, rows, strict=True)
        if row is not None
    ]
    columns = [[row[place] for row in products if row[place] is not None] for place in range(count)]
    return [tf.add_n(column) if column else None for column in columns]


def _product(weight: Any, jacobian: Any) -> Any:
    return tf.tensordot(tf.cast(weight, jacobian.dtype), jacobian, axes=len(weight.shape))


def _reals(value: Any) -> Any:
    """Real and imaginary part of a weight, which are the weights of `_parts`."""
    return tf.stack([tf.math.real(value), tf.math.imag(value)]) if value.dtype.is_complex else value


def _parts(target: Any) -> Any:
    """A target whose Jacobian says everything: that of a complex one is that of its real part alone."""
    return tf.stack([target, -1j * target]) if target.dtype.is_complex else target
