"""Staircases whose gradients are meant to pass straight through (family `quantization`).

A reference stands on the operation's own step at the unperturbed point (row 0), so that what follows is evaluated
where it really is, and moves from there as the function whose derivative the gradient is meant to be.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.operations.language import float32, operation, tf
from gradcheck.operations.shapes import ranked, vector
from gradcheck.operations.spec import BOOL, REALS, Formula, Interval, OpSpec
from gradcheck.operations.tensorflow_1 import in_tensorflow_1
from gradcheck.typing import Array

_quantization = partial(operation, "quantization")


def _straight(
    name: str, source: Formula, gradient: str = "", meant: Formula = lambda x, **_: x, **fields: Any
) -> OpSpec:
    """An operation whose gradient is that of `meant`."""
    reference: Formula = lambda x, **ways: source(x[:1], **ways) + meant(x, **ways) - meant(x[:1], **ways)
    return _quantization(name, source, gradient, reference=reference, **fields)


def nudged(low: float, high: float, bits: int, narrow: bool) -> tuple[float, float]:
    """The ends, moved so that zero is one of the values."""
    steps = 2**bits - 1 - narrow
    step = (high - low) / steps
    steps_below = round(-low / step)
    return -steps_below * step, (steps - steps_below) * step


def fake_quantized_between(x: tf.Tensor, below: tf.Tensor, high: tf.Tensor, *, bits: int, narrow: bool) -> tf.Tensor:
    """Steps from -below to high; zero is put on one of their ends."""
    x, below, high = float32(x, below, high)
    stairs = tf.quantization.fake_quant_with_min_max_vars(x, -below, high, bits, narrow)
    return tf.cast(stairs, tf.float64)


def fake_quantized_between_straight(
    x: tf.Tensor, below: tf.Tensor, high: tf.Tensor, *, bits: int, narrow: bool
) -> tf.Tensor:
    """The ends after nudging (Jacob et al., "Quantization and Training of Neural Networks", 2018, section 3).

    They follow the given ends one to one, which is what the gradient means, although they really jump.
    """
    here = fake_quantized_between(x[:1], below[0], high[0], bits=bits, narrow=narrow)
    low, high = (tf.reshape(end, [-1, *[1] * (len(x.shape) - 1)]) for end in (-below, high))
    return here + moved_with_ends(x, low, high, 2**bits - 1 - narrow)


def moved_with_ends(x: tf.Tensor, low: tf.Tensor, high: tf.Tensor, steps: int) -> tf.Tensor:
    """How far values go from those of row 0, if ends that were nudged there are then moved one to one."""
    step = (high[:1] - low[:1]) / steps
    steps_below = tf.round(-low[:1] / step)
    bottom, top = -steps_below * step, (steps - steps_below) * step
    moved = tf.maximum(tf.minimum(x, top + high - high[:1]), low - low[:1] + bottom)
    return moved - tf.clip_by_value(x[:1], bottom, top)


def fake_quantized_by_channel(x: tf.Tensor, below: tf.Tensor, high: tf.Tensor, *, bits: int, narrow: bool) -> tf.Tensor:
    """Steps from -below to high in every channel."""
    x, below, high = float32(x, below, high)
    stairs = tf.quantization.fake_quant_with_min_max_vars_per_channel(x, -below, high, bits, narrow)
    return tf.cast(stairs, tf.float64)


def fake_quantized_by_channel_straight(
    x: tf.Tensor, below: tf.Tensor, high: tf.Tensor, *, bits: int, narrow: bool
) -> tf.Tensor:
    here = fake_quantized_by_channel(x[0], below[0], high[0], bits=bits, narrow=narrow)
    low, high = (tf.reshape(end, [-1, *[1] * (len(x.shape) - 2), end.shape[-1]]) for end in (-below, high))
    return here + moved_with_ends(x, low, high, 2**bits - 1 - narrow)


def old_quantized(x: tf.Tensor, *, signed: bool) -> tf.Tensor:
    return tf.raw_ops.QuantizeAndDequantize(
        input=x, signed_input=signed, input_min=-1.0 * signed, input_max=1.0, range_given=True
    )


def _nudged_ends(x: Array, below: Array, high: Array, bits: int, narrow: bool) -> Array:
    steps = 2**bits - 1 - narrow
    step = (high + below) / steps
    count = np.round(below / step)
    return np.asarray(np.minimum(np.abs(x + count * step), np.abs(x - (steps - count) * step)))


_of_own_range = partial(_straight, shapes=vector, looped=True)
SIGNED, ROUNDINGS = (True, False), ("HALF_TO_EVEN", "HALF_UP")

QUANTIZATION = (
    # 255 steps of 1/128: nudging leaves the first ends as they are. It moves the second ones to -0.75 and 1.5.
    _straight(
        "fake_quant_with_min_max_args",
        lambda x, *, way: tf.cast(
            tf.quantization.fake_quant_with_min_max_args(tf.cast(x, tf.float32), *way), tf.float64
        ),
        "FakeQuantWithMinMaxArgs",
        lambda x, *, way: tf.clip_by_value(x, *nudged(*way)),
        way=((-1.0, 0.9921875, 8, False), (-1.0, 1.25, 2, False), (-0.75, 1.5, 3, True)),
        kinks=lambda x, way: np.min([np.abs(x - end) for end in nudged(*way)], axis=0),
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
        bits=(2, 3),
        narrow=(True, False),
        kinks=_nudged_ends,
        rtol=1e-6,
    ),
    # Outside of the range, too, where values rest at its ends: TensorFlow's documentation of version 4 says that those
    # before pass gradients through everywhere, and that 0 outside is new with it.
    _straight(
        "quantize_and_dequantize_v1",
        lambda x, *, signed: in_tensorflow_1(old_quantized, x, producer=21, signed=signed),
        "QuantizeAndDequantize",
        signed=SIGNED,
        modes=(),
    ),
    _straight(
        "quantize_and_dequantize_v2",
        lambda x, *, signed, rounding, narrow: tf.raw_ops.QuantizeAndDequantizeV2(
            input=x,
            input_min=-1.0 * signed,
            input_max=1.0,
            range_given=True,
            signed_input=signed,
            round_mode=rounding,
            narrow_range=narrow,
        ),
        signed=SIGNED,
        rounding=ROUNDINGS,
        narrow=BOOL,
    ),
    _straight(
        "quantize_and_dequantize_v3",
        lambda x, *, signed, narrow: tf.raw_ops.QuantizeAndDequantizeV3(
            input=x,
            input_min=-1.0 * signed,
            input_max=1.0,
            range_given=True,
            num_bits=8,
            signed_input=signed,
            narrow_range=narrow,
        ),
        shapes=ranked,
        signed=SIGNED,
        narrow=BOOL,
    ),
    _straight(
        "quantize_and_dequantize_v4",
        lambda x, *, signed, rounding, narrow: tf.quantization.quantize_and_dequantize_v2(
            x, -1.0 * signed, 1.0, signed_input=signed, range_given=True, round_mode=rounding, narrow_range=narrow
        ),
        "QuantizeAndDequantizeV4",
        lambda x, *, signed, **_: tf.clip_by_value(x, -1.0 * signed, 1.0),
        signed=SIGNED,
        rounding=ROUNDINGS,
        narrow=BOOL,
        kinks=lambda x, signed, **_ways: np.minimum(np.abs(x + signed), np.abs(x - 1.0)),
    ),
    # Every value lies in the range that is found. With an axis the kernel of version 4 takes no range on the CPU.
    _straight(
        "quantize_and_dequantize_of_own_range",
        lambda x: tf.quantization.quantize_and_dequantize_v2(x, 0.0, 0.0, range_given=False),
        "QuantizeAndDequantizeV4",
        shapes=vector,
        looped=True,
    ),
    _of_own_range(
        "quantize_and_dequantize_v2_of_own_range",
        lambda x: tf.raw_ops.QuantizeAndDequantizeV2(input=x, input_min=0.0, input_max=0.0, range_given=False),
    ),
    _of_own_range(
        "quantize_and_dequantize_v3_of_own_range",
        lambda x: tf.raw_ops.QuantizeAndDequantizeV3(
            input=x, input_min=0.0, input_max=0.0, range_given=False, num_bits=8
        ),
    ),
    _straight("grad_pass_through", lambda x: tf.grad_pass_through(tf.round)(x)),
    _quantization(
        "fake_quant_per_channel",
        fake_quantized_by_channel,
        "FakeQuantWithMinMaxVarsPerChannel",
        REALS,
        Interval(0.5, 2.0),
        Interval(0.5, 2.0),
        looped=True,
        shapes=vector,
        others=lambda shape: [(shape[-1:], shape[-1:])],
        reference=fake_quantized_by_channel_straight,
        bits=(2, 3),
        narrow=(True, False),
        kinks=_nudged_ends,
        rtol=1e-6,
    ),
)
