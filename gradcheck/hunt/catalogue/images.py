"""Images of shape (height, width, channels): resizing, cropping, warping, colour (`image`), patches (`array`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import tf
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import REALS, Array, Choice, Interval, OpSpec, Shapes, at_integers, of_rank, only_if

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
        f"tf.cast(tf.image.resize({{0}}, {{size}}, method={method!r}{more}), tf.float64)",
        (gradient,),
        attributes=lambda shape: {"size": SIZES},
        **fields,
    )


def bilinear_weights(count: int, size: int) -> Any:
    """How much each of `size` pixels counts in each of `count` samples, which lie at the centres of equal parts."""
    centres = np.clip((np.arange(count)[:, np.newaxis] + 0.5) * size / count - 0.5, 0, size - 1)
    return np.maximum(0.0, 1.0 - np.abs(centres - np.arange(size)))


def resized_bilinearly(x: tf.Tensor, *, size: tuple[int, int]) -> tf.Tensor:
    rows, columns = bilinear_weights(size[0], x.shape[-3]), bilinear_weights(size[1], x.shape[-2])
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x)


def cropped(x: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    image, boxes = tf.cast(x, tf.float32)[tf.newaxis], tf.cast(boxes, tf.float32)
    return tf.cast(tf.image.crop_and_resize(image, boxes, [0] * boxes.shape[0], (2, 2)), tf.float64)


def weights_at_ends(low: tf.Tensor, high: tf.Tensor, size: int) -> tf.Tensor:
    """How much each of `size` pixels counts in two samples for each box, one at either end of it."""
    ends = tf.stack([low, high], axis=-1)[..., tf.newaxis] * (size - 1.0)
    return tf.maximum(np.float64(0.0), 1.0 - tf.abs(ends - np.arange(size, dtype=np.float64)))


def crops_formula(x: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    rows = weights_at_ends(boxes[..., 0], boxes[..., 2], x.shape[-3])
    columns = weights_at_ends(boxes[..., 1], boxes[..., 3], x.shape[-2])
    return tf.einsum("...nih,...njw,...hwc->...nijc", rows, columns, x)


def weights_from_outside(scale: float, start: float, size: int) -> Any:
    """How much each of `size` pixels counts in 3 samples of a shifted or stretched line; there is nothing outside."""
    return np.maximum(0.0, 1.0 - np.abs(np.arange(3)[:, np.newaxis] * scale + start - np.arange(size)))


def projected_bilinearly(x: tf.Tensor, *, transform: tuple[float, ...]) -> tf.Tensor:
    rows = weights_from_outside(transform[4], transform[5], x.shape[-3])
    columns = weights_from_outside(transform[0], transform[2], x.shape[-2])
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x)


def _boxes(shape: Shape) -> Shapes:
    return [(shape, (1, 4)), (shape, (2, 4))] if len(shape) == 3 and min(shape[:2]) > 1 and shape[2] else []


def _from_pixel_centres(image: Array, boxes: Array) -> Array:
    return at_integers(boxes * (np.array(image.shape)[[0, 1, 0, 1]] - 1.0))


def _from_equal_channels(x: Array) -> Array:
    red, green, blue = np.moveaxis(x, -1, 0)
    return np.stack([np.abs(red - green), np.abs(green - blue), np.abs(blue - red)])


def _projected(name: str, version: int, mode: str, transforms: tuple[Any, ...]) -> OpSpec:
    call = (
        f"tf.raw_ops.ImageProjectiveTransformV{version}(images={{0}}, transforms=[{{transform}}], "
        f"output_shape=[3, 3], interpolation='BILINEAR', {mode})"
    )
    modes = {"mode": Choice(("NEAREST", "REFLECT", "WRAP"))} if "{mode}" in mode else {}
    return _image(
        name,
        call.replace("{0}", "{0}[tf.newaxis]") + "[0]",
        (f"ImageProjectiveTransformV{version}",),
        batched=call,
        attributes=lambda shape: {"transform": Choice(transforms), **modes},
        reference=None if modes else projected_bilinearly,
        rtol=SINGLE,
    )


IMAGE = (
    _resize("resize_nearest", "ResizeNearestNeighbor", "nearest", orders=(1,)),
    _resize("resize_bilinear", "ResizeBilinear", "bilinear", reference=resized_bilinearly, rtol=SINGLE),
    _resize("resize_bicubic", "ResizeBicubic", "bicubic", rtol=SINGLE, orders=(1,)),
    _resize("resize_antialiased", "ScaleAndTranslate", "bilinear", ", antialias=True", rtol=SINGLE),
    _image(
        "rgb_to_hsv",
        "tf.image.rgb_to_hsv({0})",
        ("RGBToHSV",),
        shapes=only_if(lambda shape: shape[-1:] == (3,) and all(shape)),
        starts=((3,), (2, 3)),
        domains=(Interval(0.0, 1.0),),
        singular=_from_equal_channels,
        orders=(1,),  # the second derivative takes half a second
    ),
    _image(
        "crop_and_resize",
        cropped,
        ("CropAndResize", "Cast"),
        arity=2,
        looped=True,
        reference=crops_formula,
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

_array: Callable[..., OpSpec] = partial(OpSpec, family="array")

BLOCKS = (
    _array(
        "space_to_depth",
        "tf.nn.space_to_depth({0}[tf.newaxis], 2)[0]",
        ("SpaceToDepth",),
        batched="tf.nn.space_to_depth({0}, 2)",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[0] % 2 == shape[1] % 2 == 0),
        starts=((2, 2, 1), (2, 4, 1), (2, 2, 2)),
    ),
    _array(
        "depth_to_space",
        "tf.nn.depth_to_space({0}[tf.newaxis], 2)[0]",
        ("DepthToSpace",),
        batched="tf.nn.depth_to_space({0}, 2)",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[2] % 4 == 0),
        starts=((1, 1, 4), (1, 2, 4)),
    ),
    _array(
        "extract_patches",
        "tf.image.extract_patches({0}[tf.newaxis], [1, 2, 2, 1], [1, {stride}, 1, 1], [1, 1, {rate}, 1], {padding})[0]",
        ("ExtractImagePatches",),
        batched="tf.image.extract_patches({0}, [1, 2, 2, 1], [1, {stride}, 1, 1], [1, 1, {rate}, 1], {padding})",
        shapes=only_if(lambda shape: len(shape) == 3 and all(shape) and shape[0] > 1 and shape[1] > 2),
        starts=((2, 3, 1), (3, 3, 1), (2, 3, 2)),
        attributes=lambda shape: {
            "stride": Choice((1, 2)),
            "rate": Choice((1, 2)),
            "padding": Choice(("VALID", "SAME")),
        },
    ),
    _array(
        "extract_volume_patches",
        "tf.raw_ops.ExtractVolumePatches(input={0}[tf.newaxis], ksizes=[1, 1, 2, 2, 1], strides=[1, 1, 1, 1, 1], "
        "padding={padding})[0]",
        ("ExtractVolumePatches",),
        batched="tf.raw_ops.ExtractVolumePatches(input={0}, ksizes=[1, 1, 2, 2, 1], strides=[1, 1, 1, 1, 1], "
        "padding={padding})",
        shapes=only_if(lambda shape: len(shape) == 4 and all(shape) and min(shape[1:3]) > 1),
        starts=((1, 2, 2, 1), (2, 2, 2, 1)),
        attributes=lambda shape: {"padding": Choice(("VALID", "SAME"))},
    ),
)
