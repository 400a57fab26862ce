"""Operations of the census's family `quantization`: staircases whose gradients are meant to pass straight through.

The reference stands on the operation's own step at the unperturbed point (row 0), so that what follows is evaluated
where it really is, and moves from there as the function whose derivative the gradient is meant to be.
"""

from __future__ import annotations

import numpy as np

from gradcheck.hunt.opspec import REALS, Array, Distances, Interval, OpSpec
from gradcheck.hunt.shape_rules import ranked

FAMILY = "quantization"
LOW, HIGH = -1.0, 0.9921875  # 255 steps of 1/128: nudging, which puts zero on a step, leaves these ends as they are

ARGS = f"tf.cast(tf.quantization.fake_quant_with_min_max_args(tf.cast({{0}}, tf.float32), {LOW}, {HIGH}), tf.float64)"
VARS = (
    "tf.cast(tf.quantization.fake_quant_with_min_max_vars(tf.cast({0}, tf.float32), -tf.cast({1}, tf.float32), "
    "tf.cast({2}, tf.float32), num_bits=2, narrow_range=True), tf.float64)"
)
V2 = "tf.raw_ops.QuantizeAndDequantizeV2(input={0}, input_min=-1.0, input_max=1.0, range_given=True)"
V3 = "tf.raw_ops.QuantizeAndDequantizeV3(input={0}, input_min=-1.0, input_max=1.0, range_given=True, num_bits=8)"
V4 = "tf.quantization.quantize_and_dequantize_v2({0}, -1.0, 1.0, range_given=True)"
# The ends after nudging (Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3), here for two
# steps. They follow the given ends one to one, which is what the gradient means, although they really jump.
VARS_REFERENCE = (
    "(lambda x, low, high: (lambda step: (lambda below: tf.cast(tf.quantization.fake_quant_with_min_max_vars("
    "tf.cast(x[:1], tf.float32), tf.cast(tf.reshape(low[0], []), tf.float32), tf.cast(tf.reshape(high[0], []), "
    "tf.float32), num_bits=2, narrow_range=True), tf.float64) "
    "+ tf.maximum(tf.minimum(x, (2.0 - below) * step + high - high[:1]), low - low[:1] - below * step) "
    "- tf.clip_by_value(x[:1], -below * step, (2.0 - below) * step))(tf.round(-low[:1] / step)))"
    "((high[:1] - low[:1]) / 2.0))({0}, tf.reshape(-{1}, [-1, *[1] * (len({0}.shape) - 1)]), "
    "tf.reshape({2}, [-1, *[1] * (len({0}.shape) - 1)]))"
)


def _ends(low: float, high: float) -> Distances:
    return lambda x: np.minimum(np.abs(x - low), np.abs(x - high))


def _nudged_ends(x: Array, below: Array, high: Array) -> Array:
    step = (high + below) / 2
    count = np.round(below / step)
    return np.minimum(np.abs(x + count * step), np.abs(x - (2 - count) * step))


def _straight(text: str, meant: str) -> str:
    centre = "{0}[:1]"
    return f"{text.replace('{0}', centre)} + {meant} - {meant.replace('{0}', centre)}"


OPERATIONS = (
    OpSpec(
        "fake_quant_with_min_max_args",
        FAMILY,
        ARGS,
        ("FakeQuantWithMinMaxArgs",),
        reference=_straight(ARGS, f"tf.clip_by_value({{0}}, {LOW}, {HIGH})"),
        kinks=_ends(LOW, HIGH),
        rtol=1e-6,
    ),
    OpSpec(
        "fake_quant_with_min_max_vars",
        FAMILY,
        VARS,
        ("FakeQuantWithMinMaxVars",),
        arity=3,
        looped=True,
        shapes=lambda shape: [(shape, (), ())],
        domains=(REALS, Interval(0.5, 2.0), Interval(0.5, 2.0)),
        reference=VARS_REFERENCE,
        kinks=_nudged_ends,
        rtol=1e-6,
    ),
    OpSpec(
        "quantize_and_dequantize_v2",
        FAMILY,
        V2,
        ("QuantizeAndDequantizeV2",),
        reference=_straight(V2, "{0}"),
    ),
    OpSpec(
        "quantize_and_dequantize_v3",
        FAMILY,
        V3,
        ("QuantizeAndDequantizeV3",),
        shapes=ranked,
        reference=_straight(V3, "{0}"),
    ),
    OpSpec(
        "quantize_and_dequantize_v4",
        FAMILY,
        V4,
        ("QuantizeAndDequantizeV4",),
        reference=_straight(V4, "tf.clip_by_value({0}, -1.0, 1.0)"),
        kinks=_ends(-1.0, 1.0),
    ),
)
