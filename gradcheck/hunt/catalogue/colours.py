"""Colours and brightness of images of shape (height, width, channels) (`image`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.images import SINGLE
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import at_least, vector
from gradcheck.hunt.opspec import NONNEGATIVE, Array

_image = partial(operation, "image", shapes=at_least(1, 1, 1), starts=((2, 2, 1), (1, 1, 1), (1, 2, 3), (2, 3, 2)))
_colours = partial(
    operation,
    "image",
    shapes=vector,
    when=lambda shape: shape[-1] == 3 and len(shape) > 1,
    starts=((1, 3), (2, 3), (1, 2, 3)),
)
_grey = partial(_colours, when=lambda shape: shape[-1] == 1 and len(shape) > 1, starts=((1, 1), (2, 1), (2, 2, 1)))


def standardized(x: tf.Tensor) -> tf.Tensor:
    """Divided by the deviation, or by that of one pixel of height 1 among all if that is larger."""
    deviation = tf.sqrt(
        tf.maximum(tf.math.reduce_variance(x, (-3, -2, -1), keepdims=True), 1.0 / np.prod(x.shape[-3:]))
    )
    return (x - tf.reduce_mean(x, (-3, -2, -1), keepdims=True)) / deviation


def _from_least_deviation(x: Array) -> Array:
    """How far a pixel moves until the deviation is the least one, which flat images are divided by."""
    return np.full((1,), np.inf) if x.size == 1 else np.abs(np.atleast_1d(np.std(x) - x.size**-0.5)) * x.size


def _from_black(x: Array, *, gamma: float, **_attributes: Any) -> Array:
    return np.abs(x) if gamma < 1 else np.full(x.shape, np.inf)


COLOURS = (
    _colours("rgb_to_yiq", lambda x: tf.image.rgb_to_yiq(x), "MatMul"),
    _colours("yiq_to_rgb", lambda x: tf.image.yiq_to_rgb(x), "MatMul"),
    _colours("rgb_to_yuv", lambda x: tf.image.rgb_to_yuv(x), "MatMul"),
    _colours("yuv_to_rgb", lambda x: tf.image.yuv_to_rgb(x), "MatMul"),
    _colours(
        "rgb_to_grayscale",
        lambda x: tf.image.rgb_to_grayscale(x),
        "MatMul Cast",
        reference=lambda x: tf.reduce_sum(x * [0.2989, 0.587, 0.114], axis=-1, keepdims=True),
        rtol=SINGLE,
    ),
    _grey("grayscale_to_rgb", lambda x: tf.image.grayscale_to_rgb(x), "Tile"),
    _image(
        "adjust_brightness",
        lambda x, y: tf.image.adjust_brightness(x, y),
        "AddV2 Cast",
        others=lambda _shape: [((),)],
        batched=lambda x, y: tf.transpose(tf.transpose(x) + y),
        reference=lambda x, y: tf.transpose(tf.transpose(x) + y),
        rtol=SINGLE,
    ),
    _image(
        "adjust_gamma",
        lambda x, *, gamma, gain: tf.image.adjust_gamma(x, gamma, gain),
        "Pow Cast",
        NONNEGATIVE,
        gamma=(2.0, 0.5, 1.0),
        gain=(1.0, 3.0),
        singular=_from_black,
        reference=lambda x, *, gain, gamma: gain * x**gamma,
        rtol=SINGLE,
    ),
    _image(
        "per_image_standardization",
        lambda x: tf.cast(tf.image.per_image_standardization(x), tf.float64),
        "Maximum Sqrt Mean Cast",
        starts=((1, 2, 1), (2, 2, 1), (1, 1, 1), (2, 3, 2)),
        kinks=_from_least_deviation,
        reference=standardized,
        rtol=SINGLE,
    ),
    _image(
        "random_brightness",
        lambda x: tf.image.stateless_random_brightness(x, 0.5, (1, 2)),
        "AddV2 Cast",
        reference=lambda x: (
            x + tf.cast(tf.image.stateless_random_brightness(tf.zeros([1, 1, 1]), 0.5, (1, 2)), tf.float64)
        ),
        rtol=SINGLE,
    ),
)
