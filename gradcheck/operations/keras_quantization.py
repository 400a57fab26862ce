"""Layers of `keras.layers` with quantized weights, whose gradient passes straight through (family `quantization`).

The reference stands on the layer's own value at the unperturbed point (row 0), and moves from there with the weights
that the layer holds: whole numbers over a scale of each column.
"""

from __future__ import annotations

import functools
import random
from functools import partial
from typing import Any

from gradcheck.operations.keras_nn import spread
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import at_least
from gradcheck.operations.spec import Formula, OpSpec


@functools.cache
def quantized_layer(kind: Any, shape: tuple[int, ...], mode: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """A layer of this class and these options, with weights between -1 and 1 that are then quantized."""
    state = random.getstate()  # Keras draws a seed from Python's generator, which belongs to Hypothesis or to the user
    try:
        with tf.init_scope():
            layer = kind(dtype="float64", **dict(options))
            layer.build(shape)
            layer.set_weights([spread(*weight.shape).numpy() for weight in layer.weights])
            layer.quantize(mode)
    finally:
        random.setstate(state)
    return layer


def quantized(kind: Any, x: Any, mode: str, called: dict[str, Any] | None = None, **options: Any) -> tf.Tensor:
    """The output of a quantized layer for x; `called` are arguments of its call, `options` those of its class."""
    layer = quantized_layer(kind, tuple(x.shape), mode, tuple(sorted(options.items())))
    return layer(x, **(called or {}))


def whole_weights(layer: Any) -> tf.Tensor:
    """The kernel in whole numbers over its scales."""
    return tf.cast(tf.constant(layer.kernel), tf.float64) / tf.constant(layer.kernel_scale)


def dense_weights(x: tf.Tensor, mode: str) -> tf.Tensor:
    return whole_weights(quantized_layer(tf.keras.layers.Dense, tuple(x.shape), mode, (("units", 2),)))


def einsum_weights(x: tf.Tensor, mode: str) -> tf.Tensor:
    options = (("equation", "ab,cb->ac"), ("output_shape", 2))
    layer = quantized_layer(tf.keras.layers.EinsumDense, tuple(x.shape), mode, options)
    return tf.transpose(tf.cast(tf.constant(layer.kernel), tf.float64) / tf.reshape(layer.kernel_scale, [-1, 1]))


def table_weights(x: tf.Tensor, tied: bool) -> tf.Tensor:
    options = (("input_dim", 4), ("output_dim", x.shape[-1]), ("tie_weights", tied))
    layer = quantized_layer(tf.keras.layers.ReversibleEmbedding, tuple(x.shape), "int8", options)
    if not tied:
        return tf.cast(tf.constant(layer.reverse_embeddings), tf.float64) / tf.constant(layer.reverse_embeddings_scale)
    return tf.transpose(tf.cast(tf.constant(layer._embeddings), tf.float64)) / tf.constant(layer.embeddings_scale)


def _straight(name: str, source: Formula, weights: Formula, **fields: Any) -> OpSpec:
    """A layer whose gradient is that of the product with these weights."""
    reference: Formula = lambda x, **ways: source(x[0], **ways) + tf.matmul(x - x[:1], weights(x[0], **ways))
    return _layer("quantization", name, source, reference=reference, **fields)


# A layer keeps its variables, which no other mode than eager execution takes from outside.
_layer = partial(
    operation,
    looped=True,
    shapes=at_least(1, 1),
    starts=((1, 2), (2, 2), (1, 3), (2, 1)),
    modes=(),
)

KERAS_QUANTIZATION = (
    _straight(
        "keras_int8_dense",
        lambda x: quantized(tf.keras.layers.Dense, x, "int8", units=2),
        lambda x: dense_weights(x, "int8"),
    ),
    _straight(
        "keras_int8_einsum_dense",
        lambda x: quantized(tf.keras.layers.EinsumDense, x, "int8", equation="ab,cb->ac", output_shape=2),
        lambda x: einsum_weights(x, "int8"),
    ),
    # Weights alone are quantized: nothing is rounded that has a derivative.
    _layer("nn", "keras_int4_dense", lambda x: quantized(tf.keras.layers.Dense, x, "int4", units=2)),
    _straight(
        "keras_int8_reversible_embedding",
        lambda x, *, tied: quantized(
            tf.keras.layers.ReversibleEmbedding,
            x,
            "int8",
            {"reverse": True},
            input_dim=4,
            output_dim=x.shape[-1],
            tie_weights=tied,
        ),
        table_weights,
        tied=(True, False),
    ),
    # Traced, it keeps three binary digits of the gradient that arrives, which no difference tells.
    _straight(
        "keras_float8_dense",
        lambda x: quantized(tf.keras.layers.Dense, x, "float8", units=2),
        lambda x: spread(x.shape[-1], 2),
    ),
)
