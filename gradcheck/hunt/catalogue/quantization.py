"""Staircases whose gradients are meant to pass straight through (family `quantization`).

A reference stands on the operation's own step at the unperturbed point (row 0), so that what follows is evaluated
where it really is, and moves from there as the function whose derivative the gradient is meant to be.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at
from gradcheck.hunt.catalogue.language import float32, operation, tf
from gradcheck.hunt.catalogue.shapes import ranked
from gradcheck.hunt.opspec import REALS, Array, Interval

_quantization = partial(operation, "quantization")


def fake_quantized(x: tf.Tensor) -> tf.Tensor:
    """255 steps of 1/128: nudging, which puts zero on a step, leaves these ends as they are."""
    stairs = tf.quantization.fake_quant_with_min_max_args(tf.cast(x, tf.float32), -1.0, 0.9921875)
    return tf.cast(stairs, tf.float64)


def fake_quantized_straight(x: tf.Tensor) -> tf.Tensor:
    moved = tf.clip_by_value(x, -1.0, 0.9921875)
    return fake_quantized(x[:1]) + moved - moved[:1]


def fake_quantized_between(x: tf.Tensor, below: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Two steps from -below to high; zero is put on one of the three values."""
    x, below, high = float32(x, below, high)
    stairs = tf.quantization.fake_quant_with_min_max_vars(x, -below, high, num_bits=2, narrow_range=True)
    return tf.cast(stairs, tf.float64)


def fake_quantized_between_straight(x: tf.Tensor, below: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """The ends after nudging (Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3).

    They follow the given ends one to one, which is what the gradient means, although they really jump.
    """
    low, high = (tf.reshape(end, [-1, *[1] * (len(x.shape) - 1)]) for end in (-below, high))
    here = fake_quantized_between(x[:1], tf.reshape(-low[0], []), tf.reshape(high[0], []))
    step = (high[:1] - low[:1]) / 2.0
    steps_below = tf.round(-low[:1] / step)
    bottom, top = -steps_below * step, (2.0 - steps_below) * step
    moved = tf.maximum(tf.minimum(x, top + high - high[:1]), low - low[:1] + bottom)
    return here + moved - tf.clip_by_value(x[:1], bottom, top)


def _nudged_ends(x: Array, below: Array, high: Array) -> Array:
    step = (high + below) / 2
    count = np.round(below / step)
    return np.minimum(np.abs(x + count * step), np.abs(x - (2 - count) * step))


def _straight(text: str, meant: str) -> str:
    centre = "{0}[:1]"
    return f"{text.replace('{0}', centre)} + {meant} - {meant.replace('{0}', centre)}"


V2 = "tf.raw_ops.QuantizeAndDequantizeV2(input={0}, input_min=-1.0, input_max=1.0, range_given=True)"
V3 = "tf.raw_ops.QuantizeAndDequantizeV3(input={0}, input_min=-1.0, input_max=1.0, range_given=True, num_bits=8)"
V4 = "tf.quantization.quantize_and_dequantize_v2({0}, -1.0, 1.0, range_given=True)"

QUANTIZATION = (
    _quantization(
        "fake_quant_with_min_max_args",
        fake_quantized,
        "FakeQuantWithMinMaxArgs",
        reference=fake_quantized_straight,
        kinks=at(-1.0, 0.9921875),
        rtol=1e-6,
    ),
    _quantization(
        "fake_quant_with_min_max_vars",
        fake_quantized_between,
        "FakeQuantWithMinMaxVars",
        REALS,
        Interval(0.5, 2.0),
        Interval(0.5, 2.0),
        looped=True,
        others=lambda shape: [((), ())],
        reference=fake_quantized_between_straight,
        kinks=_nudged_ends,
        rtol=1e-6,
    ),
    _quantization("quantize_and_dequantize_v2", V2, "QuantizeAndDequantizeV2", reference=_straight(V2, "{0}")),
    _quantization(
        "quantize_and_dequantize_v3", V3, "QuantizeAndDequantizeV3", shapes=ranked, reference=_straight(V3, "{0}")
    ),
    _quantization(
        "quantize_and_dequantize_v4",
        V4,
        "QuantizeAndDequantizeV4",
        reference=_straight(V4, "tf.clip_by_value({0}, -1.0, 1.0)"),
        kinks=at(-1.0, 1.0),
    ),
)
