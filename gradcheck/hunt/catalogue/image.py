"""The census's family `image`: resizing, cropping, warping, colour; one image of shape (height, width, channels)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.distances import at_integers
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import REALS, Array, Choice, Interval, OpSpec
from gradcheck.hunt.shape_rules import Shapes, of_rank, only_if

IMAGES: tuple[Shape, ...] = ((2, 2, 1), (1, 2, 1), (2, 3, 1), (3, 3, 2))
SIZES = Choice(((2, 2), (4, 4), (3, 2), (1, 1)))
SINGLE = 1e-6
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHIFT = (1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0)
STRETCH = (0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHRINK = (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)

_image: Callable[..., OpSpec] = partial(OpSpec, family="image", shapes=of_rank(3), starts=IMAGES)


def _resize(name: str, gradient: str, method: str, more: str = "", **fields: Any) -> OpSpec:
    return _image(
        name,
        source=f"tf.cast(tf.image.resize({{0}}, {{size}}, method={method!r}{more}), tf.float64)",
        gradients=(gradient,),
        attributes=lambda shape: {"size": SIZES},
        **fields,
    )


def _bilinear_weights(axis: int) -> str:
    """The matrix of bilinear weights along an axis, pixels being sampled at their centres."""
    count, size = f"{{size}}[{axis}]", f"{{0}}.shape[{axis - 3}]"
    centres = f"np.clip((np.arange({count})[:, np.newaxis] + 0.5) * {size} / {count} - 0.5, 0, {size} - 1)"
    return f"np.maximum(0.0, 1.0 - np.abs({centres} - np.arange({size})))"


def _crop_weights(axis: int) -> str:
    """The matrices of bilinear weights of two samples for each box, one at either end of it."""
    size = f"{{0}}.shape[{axis - 3}]"
    ends = f"tf.stack([{{1}}[..., {axis}], {{1}}[..., {axis + 2}]], axis=-1)[..., tf.newaxis] * ({size} - 1.0)"
    return f"tf.maximum(np.float64(0.0), 1.0 - tf.abs({ends} - np.arange({size}, dtype=np.float64)))"


def _boxes(shape: Shape) -> Shapes:
    return [(shape, (1, 4)), (shape, (2, 4))] if len(shape) == 3 and min(shape[:2]) > 1 and shape[2] else []


def _from_pixel_centres(image: Array, boxes: Array) -> Array:
    return at_integers(boxes * (np.array(image.shape)[[0, 1, 0, 1]] - 1.0))


def _from_equal_channels(x: Array) -> Array:
    red, green, blue = np.moveaxis(x, -1, 0)
    return np.stack([np.abs(red - green), np.abs(green - blue), np.abs(blue - red)])


def _from_outside(axis: int) -> str:
    """The matrix of bilinear weights of a shifted or stretched row or column of 3 samples; there is nothing outside."""
    scale, start = f"{{transform}}[{4 * axis}]", f"{{transform}}[{2 + 3 * axis}]"
    size = f"{{0}}.shape[{-2 - axis}]"
    centres = f"(np.arange(3)[:, np.newaxis] * {scale} + {start})"
    return f"np.maximum(0.0, 1.0 - np.abs({centres} - np.arange({size})))"


def _projected(name: str, version: int, mode: str, transforms: tuple[Any, ...]) -> OpSpec:
    call = (
        f"tf.raw_ops.ImageProjectiveTransformV{version}(images={{0}}, transforms=[{{transform}}], "
        f"output_shape=[3, 3], interpolation='BILINEAR', {mode})"
    )
    modes = {"mode": Choice(("NEAREST", "REFLECT", "WRAP"))} if "{mode}" in mode else {}
    exact = f"tf.einsum('ih,jw,...hwc->...ijc', {_from_outside(1)}, {_from_outside(0)}, {{0}})"
    return _image(
        name,
        source=call.replace("{0}", "{0}[tf.newaxis]") + "[0]",
        batched=call,
        gradients=(f"ImageProjectiveTransformV{version}",),
        attributes=lambda shape: {"transform": Choice(transforms), **modes},
        reference=None if modes else exact,
        rtol=SINGLE,
    )


OPERATIONS = (
    _resize(
        "resize_nearest",
        "ResizeNearestNeighbor",
        "nearest",
        orders=(1,),
    ),
    _resize(
        "resize_bilinear",
        "ResizeBilinear",
        "bilinear",
        reference=f"tf.einsum('ih,jw,...hwc->...ijc', {_bilinear_weights(0)}, {_bilinear_weights(1)}, {{0}})",
        rtol=SINGLE,
    ),
    _resize("resize_bicubic", "ResizeBicubic", "bicubic", rtol=SINGLE, orders=(1,)),
    _resize("resize_antialiased", "ScaleAndTranslate", "bilinear", ", antialias=True", rtol=SINGLE),
    _image(
        "rgb_to_hsv",
        source="tf.image.rgb_to_hsv({0})",
        gradients=("RGBToHSV",),
        shapes=only_if(lambda shape: shape[-1:] == (3,) and all(shape)),
        starts=((3,), (2, 3)),
        domains=(Interval(0.0, 1.0),),
        singular=_from_equal_channels,
        orders=(1,),  # the second derivative takes half a second
    ),
    _image(
        "crop_and_resize",
        source="tf.cast(tf.image.crop_and_resize(tf.cast({0}, tf.float32)[tf.newaxis], tf.cast({1}, tf.float32), "
        "[0] * {1}.shape[0], (2, 2)), tf.float64)",
        gradients=("CropAndResize", "Cast"),
        arity=2,
        looped=True,
        reference=f"tf.einsum('...nih,...njw,...hwc->...nijc', {_crop_weights(0)}, {_crop_weights(1)}, {{0}})",
        shapes=_boxes,
        starts=((2, 2, 1), (2, 3, 1), (3, 3, 2)),
        domains=(REALS, Interval(0.0, 1.0)),
        kinks=_from_pixel_centres,
        orders=(1,),  # CropAndResizeGradBoxes has no registered gradient
        rtol=SINGLE,
    ),
    _projected("projective_transform", 3, "fill_value=0.0, fill_mode='CONSTANT'", (IDENTITY, SHIFT)),
    _projected("legacy_projective_transform", 2, "fill_mode='CONSTANT'", (IDENTITY, SHIFT)),
    _projected("projective_transform_scaled", 3, "fill_value=0.0, fill_mode='CONSTANT'", (STRETCH, SHRINK)),
    _projected("projective_transform_filled", 3, "fill_value=0.0, fill_mode={mode}", (SHIFT,)),
)
