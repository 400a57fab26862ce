"""Images of shape (height, width, channels): resizing, cropping, warping, colour (`image`), patches (`array`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import at_integers
from gradcheck.hunt.catalogue.language import float32, in_batch, operation, sum_of_squares, tf
from gradcheck.hunt.catalogue.shapes import at_least, vector
from gradcheck.hunt.opspec import REALS, Array, Interval, OpSpec, unary

SINGLE = 1e-6
CONSTANT = "fill_value=0.0, fill_mode='CONSTANT'"
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHIFT = (1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0)
STRETCH = (0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHRINK = (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
ONE_ON = (1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
MIRRORED = (-1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0)
TURNED = (0.0, 1.0, 0.0, -1.0, 0.0, 2.0, 0.0, 0.0)

IMAGES = "multiples({0}[tf.newaxis], {count})"

_image = partial(operation, "image", shapes=at_least(1, 1, 1), starts=((2, 2, 1), (1, 2, 1), (2, 3, 1), (3, 3, 2)))


def _resize(name: str, gradient: str, how: str, **fields: Any) -> OpSpec:
    return _resized(name, f"tf.image.resize({IMAGES}, {{size}}, method={how})", gradient, **fields)


def _resized(name: str, images: str, gradient: str, **fields: Any) -> OpSpec:
    source = f"tf.cast(added_up({images}, {{count}})[0], tf.float64)"
    sizes = ((2, 2), (4, 4), (3, 2), (1, 1))
    return _image(name, source, gradient, batching=in_batch, size=sizes, count=(1, 2), **fields)


def _projected(name: str, version: int, fill: str, *transforms: tuple[float, ...], **fields: Any) -> OpSpec:
    source = (
        f"tf.raw_ops.ImageProjectiveTransformV{version}(images={{0}}[tf.newaxis], transforms=[{{transform}}], "
        f"output_shape=[3, 3], interpolation='BILINEAR', {fill})[0]"
    )
    gradient = f"ImageProjectiveTransformV{version}"
    return _image(name, source, gradient, batching=in_batch, transform=transforms, rtol=SINGLE, **fields)


def pixel_weights(places: Any, size: int) -> tf.Tensor:
    """How much each of `size` pixels counts at each place between them; outside there is nothing."""
    return tf.maximum(np.float64(0.0), 1.0 - tf.abs(places[..., tf.newaxis] - np.arange(size, dtype=np.float64)))


def resized_bilinearly(x: tf.Tensor, *, size: tuple[int, int], count: int) -> tf.Tensor:
    """Samples at the centres of equal parts, moved to the nearest pixel's centre at the edges."""
    lengths = x.shape[-3], x.shape[-2]
    centres = [(np.arange(k) + 0.5) * length / k - 0.5 for k, length in zip(size, lengths, strict=True)]
    rows, columns = [pixel_weights(np.clip(c, 0, n - 1), n) for c, n in zip(centres, lengths, strict=True)]
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x) * sum_of_squares(count)


def projected_bilinearly(x: tf.Tensor, *, transform: tuple[float, ...]) -> tf.Tensor:
    rows = pixel_weights(np.arange(3) * transform[4] + transform[5], x.shape[-3])
    columns = pixel_weights(np.arange(3) * transform[0] + transform[2], x.shape[-2])
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x)


def cropped(x: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    image, boxes = float32(x[tf.newaxis], boxes)
    return tf.cast(tf.image.crop_and_resize(image, boxes, [0] * boxes.shape[0], (2, 2)), tf.float64)


def cropped_pixels(boxes: tf.Tensor) -> tf.Tensor:
    """Boxes in an image of integers with one summit."""
    image, single = tf.pad([[[[9]]]], [[0, 0], [1, 1], [1, 1], [0, 0]]), tf.cast(boxes, tf.float32)
    return tf.cast(tf.image.crop_and_resize(image, single, [0] * boxes.shape[0], (2, 2)), tf.float64)


def crops_of_summit(boxes: tf.Tensor) -> tf.Tensor:
    return crops_formula(tf.pad(tf.constant([[[9.0]]], tf.float64), [[1, 1], [1, 1], [0, 0]]), boxes)


def crops_formula(x: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
    """Samples at the corners of the boxes."""
    rows = pixel_weights(boxes[..., ::2] * (x.shape[-3] - 1.0), x.shape[-3])
    columns = pixel_weights(boxes[..., 1::2] * (x.shape[-2] - 1.0), x.shape[-2])
    return tf.einsum("...nih,...njw,...hwc->...nijc", rows, columns, x)


def crops_of_each(images: tf.Tensor, box: tuple[float, ...], method: str, outside: float) -> tf.Tensor:
    """The same crop of every image."""
    count = tf.shape(images)[0]
    boxes = tf.tile([box], [count, 1])
    return tf.image.crop_and_resize(tf.cast(images, tf.float32), boxes, tf.range(count), (2, 3), method, outside)


def resized_by_corners(x: tf.Tensor, *, size: tuple[int, int], count: int) -> tf.Tensor:
    """Samples at equal distances from the first pixel to the last; a single one is the first."""
    lengths = x.shape[-3], x.shape[-2]
    sizes = zip(size, lengths, strict=True)
    rows, columns = [pixel_weights(np.linspace(0.0, n - 1.0, samples), n) for samples, n in sizes]
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x) * sum_of_squares(count)


def resized_by_ratios(x: tf.Tensor, *, size: tuple[int, int], count: int) -> tf.Tensor:
    """Samples at the first pixels of equal parts."""
    lengths = x.shape[-3], x.shape[-2]
    sizes = zip(size, lengths, strict=True)
    rows, columns = [pixel_weights(np.minimum(np.arange(k) * n / k, n - 1), n) for k, n in sizes]
    return tf.einsum("ih,jw,...hwc->...ijc", rows, columns, x) * sum_of_squares(count)


def _from_leaping_hue(x: Array) -> Array:
    """How far a pixel is from grey, which has no hue, or where red is largest from where the hue leaps from 0 to 1."""
    others = np.abs(x[..., 1] - x[..., 2])
    return np.asarray(np.where(x[..., 0] >= np.max(x, -1), others, np.ptp(x, -1)))


def _resize_of_v1(name: str, kernel: str, how: str, **fields: Any) -> OpSpec:
    return _resized(name, f"tf.raw_ops.{kernel}(images={IMAGES}, size={{size}}, {how})", kernel, **fields)


def _linear(name: str, source: str, gradient: str, **fields: Any) -> OpSpec:
    """A kernel for images that is linear, on a batch."""
    batch = f"tf.cast(added_up({source.replace('{0}', IMAGES)}, {{count}})[0], tf.float64)"
    return _image(name, batch, gradient, batching=in_batch, count=(1, 2), rtol=SINGLE, **fields)


IMAGE = (
    _resize("resize_nearest", "ResizeNearestNeighbor", "'nearest'"),
    _resize("resize_bilinear", "ResizeBilinear", "'bilinear'", reference=resized_bilinearly, rtol=SINGLE),
    _resize("resize_bicubic", "ResizeBicubic", "'bicubic'", rtol=SINGLE),
    _resize("resize_antialiased", "ScaleAndTranslate", "'bilinear', antialias=True", rtol=SINGLE),
    _image(
        "rgb_to_hsv",
        "tf.image.rgb_to_hsv({0})",
        "RGBToHSV",
        Interval(0.0, 1.0, closed=True),
        shapes=vector,
        when=lambda shape: shape[-1] == 3,
        # Each of the six orders of the channels has formulas of its own.
        starts=((3,), (6, 3), (2, 3), (12, 3), (2, 4, 3)),
        kinks=lambda x: np.abs(x - np.roll(x, -1, axis=-1)),
        singular=_from_leaping_hue,
    ),
    _image(
        "crop_and_resize",
        cropped,
        "CropAndResize Cast",
        REALS,
        Interval(0.0, 1.0),
        looped=True,
        reference=crops_formula,
        shapes=at_least(2, 2, 1),
        others=lambda shape: [((1, 4),), ((2, 4),)],
        starts=((2, 2, 1), (2, 3, 1), (3, 3, 2)),
        kinks=lambda image, boxes: at_integers(boxes * (np.array(image.shape)[[0, 1, 0, 1]] - 1.0)),
        rtol=SINGLE,
    ),
    _image(
        "crop_and_resize_of_integers",
        cropped_pixels,
        "CropAndResize Cast",
        Interval(0.0, 1.0),
        looped=True,
        reference=crops_of_summit,
        shapes=unary,
        when=lambda shape: shape in ((1, 4), (2, 4)),
        starts=((1, 4), (2, 4)),
        kinks=lambda boxes: at_integers(2.0 * boxes),
        rtol=SINGLE,
    ),
    _projected("projective_transform", 3, CONSTANT, IDENTITY, SHIFT, reference=projected_bilinearly),
    _projected(
        "legacy_projective_transform", 2, "fill_mode='CONSTANT'", IDENTITY, SHIFT, reference=projected_bilinearly
    ),
    _projected("projective_transform_scaled", 3, CONSTANT, STRETCH, SHRINK, reference=projected_bilinearly),
    # Where each pixel is put on another one as a whole, the inverse transform is the adjoint.
    _linear(
        "projective_transform_of_places",
        "tf.raw_ops.ImageProjectiveTransformV3(images={0}, transforms=[{transform}], output_shape=[3, 3], "
        "interpolation={between}, fill_value={fill}, fill_mode='CONSTANT')",
        "ImageProjectiveTransformV3",
        transform=(IDENTITY, ONE_ON, MIRRORED, TURNED),
        between=("NEAREST", "BILINEAR"),
        fill=(0.0, 1.0),
    ),
    _projected(
        "projective_transform_filled", 3, "fill_value=0.0, fill_mode={mode}", SHIFT, mode=("NEAREST", "REFLECT", "WRAP")
    ),
    _resize_of_v1(
        "resize_nearest_corners",
        "ResizeNearestNeighbor",
        "align_corners={corners}",
        corners=(True, False),
    ),
    _resize_of_v1(
        "resize_bilinear_corners", "ResizeBilinear", "align_corners=True", reference=resized_by_corners, rtol=SINGLE
    ),
    _resize_of_v1(
        "resize_bilinear_v1", "ResizeBilinear", "align_corners=False", reference=resized_by_ratios, rtol=SINGLE
    ),
    _resize_of_v1(
        "resize_bicubic_corners",
        "ResizeBicubic",
        "align_corners={corners}",
        corners=(True, False),
        rtol=SINGLE,
    ),
    _linear(
        "scale_and_translate",
        "tf.raw_ops.ScaleAndTranslate(images=tf.cast({0}, tf.float32), size=[3, 2], scale={scale}, "
        "translation={shift}, kernel_type={kernel}, antialias={antialias})",
        "ScaleAndTranslate",
        scale=((1.0, 1.0), (2.0, 1.0), (0.5, 1.5)),
        shift=((0.0, 0.0), (0.5, 0.0), (-0.5, 1.0)),
        kernel=("triangle", "box", "gaussian", "lanczos1", "lanczos3", "lanczos5", "keyscubic", "mitchellcubic"),
        antialias=(True, False),
    ),
    _linear(
        "crops_of_given_boxes",
        "crops_of_each({0}, {box}, {method}, {outside})",
        "CropAndResize",
        box=((0.0, 0.0, 1.0, 1.0), (-0.5, 0.25, 1.5, 0.75), (1.0, 0.75, 0.25, -0.5)),
        method=("bilinear", "nearest"),
        outside=(0.0, 1.0),
    ),
)

_blocks = partial(operation, "array", batching=in_batch)

BLOCKS = (
    _blocks(
        "space_to_depth",
        "tf.nn.space_to_depth({0}[tf.newaxis], 2)[0]",
        "SpaceToDepth",
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[0] % 2 == shape[1] % 2 == 0,
        starts=((2, 2, 1), (2, 4, 1), (2, 2, 2)),
    ),
    _blocks(
        "depth_to_space",
        "tf.nn.depth_to_space({0}[tf.newaxis], 2)[0]",
        "DepthToSpace",
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[2] % 4 == 0,
        starts=((1, 1, 4), (1, 2, 4)),
    ),
    _blocks(
        "extract_patches",
        "added_up(tf.image.extract_patches(multiples({0}[tf.newaxis], {count}), [1, *{edges}, 1], "
        "[1, {stride}, 1, 1], [1, 1, {rate}, 1], {padding}), {count})[0]",
        "ExtractImagePatches",
        shapes=at_least(2, 3, 1),
        starts=((2, 3, 1), (3, 3, 1), (2, 3, 2)),
        stride=(1, 2),
        rate=(1, 2),
        padding=("VALID", "SAME"),
        edges=((2, 2), (2, 1), (1, 2)),
        count=(1, 2),
    ),
    _blocks(
        "extract_volume_patches",
        "added_up(tf.raw_ops.ExtractVolumePatches(input=multiples({0}[tf.newaxis], {count}), ksizes=[1, *{edges}, 1], "
        "strides=[1, *{strides}, 1], padding={padding}), {count})[0]",
        "ExtractVolumePatches",
        shapes=at_least(1, 2, 2, 1),
        starts=((1, 2, 2, 1), (2, 2, 2, 1), (2, 2, 3, 2)),
        padding=("VALID", "SAME"),
        edges=lambda shape: ((1, 2, 2), (shape[0], 1, 2), (1, 2, 1)),
        strides=((1, 1, 1), (1, 2, 1), (2, 1, 2)),
        count=(1, 2),
    ),
)
