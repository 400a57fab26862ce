"""Layers of Keras (family `nn`), made anew in each call with weights that are constants.

A layer takes a batch: the points are that batch, but for what is normalized over it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import between, norms
from gradcheck.hunt.catalogue.elementwise import LOGITS
from gradcheck.hunt.catalogue.language import in_batch, operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.opspec import BOOL, Array, Interval

_nn = partial(operation, "nn", batching=in_batch)
_sequence = partial(_nn, shapes=at_least(2, 1), starts=((2, 1), (2, 2), (3, 1)))
_row = partial(_nn, shapes=at_least(2), starts=((2,), (3,), (4,)))
_image = partial(_nn, shapes=at_least(2, 2, 1), starts=((2, 2, 1), (2, 3, 2), (3, 2, 1)))
MODERATE = Interval(-8.0, 8.0)


def fixed_weights(kernel: float, recurrent: float | None = None) -> dict[str, Any]:
    """What makes a layer of float64 with a constant kernel, and perhaps a recurrent one."""
    given = {} if recurrent is None else {"recurrent_initializer": tf.keras.initializers.Constant(recurrent)}
    return {"kernel_initializer": tf.keras.initializers.Constant(kernel), "dtype": "float64", **given}


def _zero_steps(x: Array, *_: Array, **_attributes: Any) -> Array:
    """Steps that are zero are left out, with a jump."""
    return norms(x)


KERAS_RECURRENT = (
    _sequence(
        "keras_simple_rnn",
        "tf.keras.layers.SimpleRNN("
        "1, return_sequences={sequences}, go_backwards={backwards}, **fixed_weights(0.5, 0.25))({0}[tf.newaxis])[0]",
        "Tanh MatMul",
        sequences=BOOL,
        backwards=BOOL,
    ),
    _sequence(
        "keras_lstm",
        "tf.keras.layers.LSTM(1, return_sequences={sequences}, **fixed_weights(0.5, 0.25))({0}[tf.newaxis])[0]",
        "Tanh Sigmoid",
        MODERATE,
        sequences=BOOL,
    ),
    _sequence(
        "keras_gru",
        "tf.keras.layers.GRU(1, reset_after={after}, **fixed_weights(0.5, 0.25))({0}[tf.newaxis])[0]",
        "Tanh Sigmoid",
        MODERATE,
        after=(True, False),
    ),
    _sequence(
        "keras_masked_rnn",
        "tf.keras.layers.SimpleRNN(1, **fixed_weights(0.5, 0.25))("
        "tf.keras.layers.Masking(0.0, dtype='float64')({0}[tf.newaxis]))[0]",
        "Tanh SelectV2",
        singular=_zero_steps,
    ),
    _sequence(
        "keras_bidirectional",
        "tf.keras.layers.Bidirectional(tf.keras.layers.SimpleRNN(1, **fixed_weights(0.5, 0.25)), "
        "merge_mode={mode}, dtype='float64')({0}[tf.newaxis])[0]",
        "Tanh MatMul",
        mode=("concat", "sum", "mul", "ave"),
    ),
)

_self_attention = partial(_sequence, domains=(Interval(-4.0, 4.0),))

KERAS_ATTENTION = (
    _sequence(
        "keras_attention",
        "tf.keras.layers.Attention(score_mode={mode}, dtype='float64')([{0}[tf.newaxis], {1}[tf.newaxis]], "
        "use_causal_mask={causal})[0]",
        "Softmax",
        Interval(-4.0, 4.0),
        others=alike,
        mode=("dot", "concat"),
        causal=BOOL,
    ),
    _sequence(
        "keras_additive_attention",
        "tf.keras.layers.AdditiveAttention(use_scale=False, dtype='float64')([{0}[tf.newaxis], {1}[tf.newaxis]])[0]",
        "Softmax Tanh",
        others=alike,
    ),
    _self_attention(
        "keras_multi_head_attention",
        "tf.keras.layers.MultiHeadAttention(2, 1, **fixed_weights(0.5))("
        "{0}[tf.newaxis], {0}[tf.newaxis], use_causal_mask={causal})[0]",
        "Softmax Einsum",
        causal=BOOL,
    ),
    _self_attention(
        "keras_group_query_attention",
        "tf.keras.layers.GroupQueryAttention(1, 2, 1, **fixed_weights(0.5))({0}[tf.newaxis], {0}[tf.newaxis])[0]",
        "Softmax Einsum",
    ),
)

KERAS_LAYERS = (
    _row(
        "keras_dense",
        "tf.keras.layers.Dense(2, activation={activation}, **fixed_weights(0.5))({0}[tf.newaxis])[0]",
        "MatMul",
        activation=("tanh", "sigmoid", "softplus", "mish"),
    ),
    _row(
        "keras_einsum_dense",
        "tf.keras.layers.EinsumDense('ab,bc->ac', 2, **fixed_weights(0.5))({0}[tf.newaxis])[0]",
        "MatMul",
    ),
    _sequence(
        "keras_time_distributed",
        "tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(2, **fixed_weights(0.5)), dtype='float64')("
        "{0}[tf.newaxis])[0]",
        "MatMul Reshape",
    ),
    _row(
        "keras_prelu",
        "tf.keras.layers.PReLU(tf.keras.initializers.Constant(0.25), dtype='float64')({0}[tf.newaxis])[0]",
        "Relu Neg",
        kinks=lambda x: np.abs(x),
    ),
    _row(
        "keras_masked_softmax",
        "tf.keras.layers.Softmax(dtype='float64')({0}[tf.newaxis], mask=tf.range({0}.shape[-1])[tf.newaxis] < 2)[0]",
        "Softmax",
        LOGITS,
    ),
    _row(
        "keras_spectral_normalization",
        "tf.keras.layers.SpectralNormalization(tf.keras.layers.Dense(2, **fixed_weights(0.5)), dtype='float64')("
        "{0}[tf.newaxis], training=False)[0]",
        "MatMul",
    ),
    _row(
        "keras_unit_normalization",
        "tf.keras.layers.UnitNormalization(dtype='float64')({0}[tf.newaxis])[0]",
        "Rsqrt Minimum",
        singular=norms,
    ),
    _row(
        "keras_dot_of_units",
        "tf.keras.layers.Dot(1, normalize=True, dtype='float64')([{0}[tf.newaxis], {1}[tf.newaxis]])[0]",
        "Rsqrt Maximum",
        others=alike,
        singular=lambda x, y: np.stack([norms(x), norms(y)]),
    ),
    _image(
        "keras_group_normalization",
        "tf.keras.layers.GroupNormalization({groups}, epsilon=0.1, dtype='float64')({0}[tf.newaxis])[0]",
        "Rsqrt SquaredDifference Mean",
        groups=lambda shape: [count for count in (1, 2, -1) if shape[-1] % count == 0],
    ),
    _row(
        "keras_batch_normalization_layer",
        "tf.keras.layers.BatchNormalization(epsilon=0.1, dtype='float64')({0}[:, tf.newaxis], training=True)[:, 0]",
        "Rsqrt SquaredDifference Mean",
        batched="tf.transpose(tf.keras.layers.BatchNormalization(epsilon=0.1, dtype='float64')("
        "tf.transpose({0}), training=True))",
    ),
    _sequence(
        "keras_masked_average",
        "tf.keras.layers.GlobalAveragePooling1D(dtype='float64')("
        "{0}[tf.newaxis], mask=tf.range({0}.shape[-2])[tf.newaxis] < 2)[0]",
        "Sum RealDiv",
    ),
    _sequence(
        "keras_causal_conv",
        "tf.keras.layers.Conv1D(2, 2, padding='causal', dilation_rate={dilation}, **fixed_weights(0.5))("
        "{0}[tf.newaxis])[0]",
        "Conv2D",
        dilation=(1, 2),
    ),
    _image(
        "keras_upsampling",
        "tf.keras.layers.UpSampling2D(2, interpolation={interpolation}, dtype='float64')({0}[tf.newaxis])[0]",
        "Reshape",
        interpolation=("nearest",),
    ),
    _row(
        "keras_normalization_layer",
        "tf.keras.layers.Normalization(mean=0.5, variance=2.0, invert={inverted}, dtype='float64')({0}[tf.newaxis])[0]",
        "AddV2 Mul RealDiv Sub",
        inverted=BOOL,
    ),
    *(
        _row(
            f"keras_{name}_layer",
            f"tf.keras.layers.{name.capitalize()}(dtype='float64')([{{0}}[tf.newaxis], {{1}}[tf.newaxis]])[0]",
            gradients,
            others=alike,
            **declared,
        )
        for name, gradients, declared in (
            ("average", "AddV2 RealDiv", {}),
            ("maximum", "Maximum", {"kinks": between}),
            ("minimum", "Minimum", {"kinks": between}),
        )
    ),
)
