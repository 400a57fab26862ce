"""Images of shape (height, width, channels): resizing, cropping, warping, colour (`image`), patches (`array`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.operations.distances import at_integers
from gradcheck.operations.language import added_up, float32, multiples, operation, sum_of_squares, tf
from gradcheck.operations.shapes import at_least, vector
from gradcheck.operations.spec import REALS, Formula, Interval, unary
from gradcheck.operations.special_sets import EDGE_ON_SLOPE, NEAR_CHANNELS, ONE_OR_TWO_ZEROS
from gradcheck.typing import Array

SINGLE = 1e-6
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHIFT = (1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0)
STRETCH = (0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
SHRINK = (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
ONE_ON = (1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
MIRRORED = (-1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0)
TURNED = (0.0, 1.0, 0.0, -1.0, 0.0, 2.0, 0.0, 0.0)

_image = partial(operation, "image", shapes=at_least(1, 1, 1), starts=((2, 2, 1), (1, 2, 1), (2, 3, 1), (3, 3, 2)))


_batch = partial(_image, in_batch=True)
_resized = partial(_batch, size=((2, 2), (4, 4), (3, 2), (1, 1)), count=(1, 2))
# A kernel for images that is linear.
_linear = partial(_batch, count=(1, 2), rtol=SINGLE)
_projected = partial(_batch, rtol=SINGLE)
projected: Formula = lambda x, *, transform: tf.raw_ops.ImageProjectiveTransformV3(
    images=x,
    transforms=[transform],
    output_shape=[3, 3],
    interpolation="BILINEAR",
    fill_value=0.0,
    fill_mode="CONSTANT",
)


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


IMAGE = (
    _resized(
        "resize_nearest",
        lambda x, *, size, count: tf.cast(
            added_up(tf.image.resize(multiples(x, count), size, method="nearest"), count), tf.float64
        ),
        "ResizeNearestNeighbor",
    ),
    _resized(
        "resize_bilinear",
        lambda x, *, size, count: tf.cast(
            added_up(tf.image.resize(multiples(x, count), size, method="bilinear"), count), tf.float64
        ),
        "ResizeBilinear",
        reference=resized_bilinearly,
        rtol=SINGLE,
    ),
    _resized(
        "resize_bicubic",
        lambda x, *, size, count: tf.cast(
            added_up(tf.image.resize(multiples(x, count), size, method="bicubic"), count), tf.float64
        ),
        "ResizeBicubic",
        rtol=SINGLE,
    ),
    _resized(
        "resize_antialiased",
        lambda x, *, size, count: tf.cast(
            added_up(tf.image.resize(multiples(x, count), size, method="bilinear", antialias=True), count), tf.float64
        ),
        "ScaleAndTranslate",
        rtol=SINGLE,
    ),
    _image(
        "rgb_to_hsv",
        lambda x: tf.image.rgb_to_hsv(x),
        "RGBToHSV",
        Interval(0.0, 1.0, closed=True),
        shapes=vector,
        when=lambda shape: shape[-1] == 3,
        # Each of the six orders of the channels has formulas of its own.
        starts=((3,), (6, 3), (2, 3), (12, 3), (2, 4, 3)),
        kinks=lambda x: np.abs(x - np.roll(x, -1, axis=-1)),
        singular=_from_leaping_hue,
        special=(ONE_OR_TWO_ZEROS, NEAR_CHANNELS),
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
        special=(EDGE_ON_SLOPE,),
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
    _projected(
        "projective_transform",
        projected,
        reference=projected_bilinearly,
        transform=(IDENTITY, SHIFT),
    ),
    _projected(
        "legacy_projective_transform",
        lambda x, *, transform: tf.raw_ops.ImageProjectiveTransformV2(
            images=x, transforms=[transform], output_shape=[3, 3], interpolation="BILINEAR", fill_mode="CONSTANT"
        ),
        reference=projected_bilinearly,
        transform=(IDENTITY, SHIFT),
    ),
    _projected(
        "projective_transform_scaled",
        projected,
        reference=projected_bilinearly,
        transform=(STRETCH, SHRINK),
    ),
    # Where each pixel is put on another one as a whole, the inverse transform is the adjoint.
    _linear(
        "projective_transform_of_places",
        lambda x, *, transform, between, fill, count: tf.cast(
            added_up(
                tf.raw_ops.ImageProjectiveTransformV3(
                    images=multiples(x, count),
                    transforms=[transform],
                    output_shape=[3, 3],
                    interpolation=between,
                    fill_value=fill,
                    fill_mode="CONSTANT",
                ),
                count,
            ),
            tf.float64,
        ),
        "ImageProjectiveTransformV3",
        transform=(IDENTITY, ONE_ON, MIRRORED, TURNED),
        between=("NEAREST", "BILINEAR"),
        fill=(0.0, 1.0),
    ),
    _projected(
        "projective_transform_filled",
        lambda x, *, transform, mode: tf.raw_ops.ImageProjectiveTransformV3(
            images=x,
            transforms=[transform],
            output_shape=[3, 3],
            interpolation="BILINEAR",
            fill_value=0.0,
            fill_mode=mode,
        ),
        transform=(SHIFT,),
        mode=("NEAREST", "REFLECT", "WRAP"),
    ),
    _resized(
        "resize_nearest_corners",
        lambda x, *, size, count, corners: tf.cast(
            added_up(
                tf.raw_ops.ResizeNearestNeighbor(images=multiples(x, count), size=size, align_corners=corners), count
            ),
            tf.float64,
        ),
        corners=(True, False),
    ),
    _resized(
        "resize_bilinear_corners",
        lambda x, *, size, count: tf.cast(
            added_up(tf.raw_ops.ResizeBilinear(images=multiples(x, count), size=size, align_corners=True), count),
            tf.float64,
        ),
        reference=resized_by_corners,
        rtol=SINGLE,
    ),
    _resized(
        "resize_bilinear_v1",
        lambda x, *, size, count: tf.cast(
            added_up(tf.raw_ops.ResizeBilinear(images=multiples(x, count), size=size, align_corners=False), count),
            tf.float64,
        ),
        reference=resized_by_ratios,
        rtol=SINGLE,
    ),
    _resized(
        "resize_bicubic_corners",
        lambda x, *, size, count, corners: tf.cast(
            added_up(tf.raw_ops.ResizeBicubic(images=multiples(x, count), size=size, align_corners=corners), count),
            tf.float64,
        ),
        corners=(True, False),
        rtol=SINGLE,
    ),
    _linear(
        "scale_and_translate",
        lambda x, *, scale, shift, kernel, antialias, count: tf.cast(
            added_up(
                tf.raw_ops.ScaleAndTranslate(
                    images=tf.cast(multiples(x, count), tf.float32),
                    size=[3, 2],
                    scale=scale,
                    translation=shift,
                    kernel_type=kernel,
                    antialias=antialias,
                ),
                count,
            ),
            tf.float64,
        ),
        "ScaleAndTranslate",
        scale=((1.0, 1.0), (2.0, 1.0), (0.5, 1.5)),
        shift=((0.0, 0.0), (0.5, 0.0), (-0.5, 1.0)),
        kernel=("triangle", "box", "gaussian", "lanczos1", "lanczos3", "lanczos5", "keyscubic", "mitchellcubic"),
        antialias=(True, False),
    ),
    _linear(
        "crops_of_given_boxes",
        lambda x, *, box, method, outside, count: tf.cast(
            added_up(crops_of_each(multiples(x, count), box, method, outside), count), tf.float64
        ),
        "CropAndResize",
        box=((0.0, 0.0, 1.0, 1.0), (-0.5, 0.25, 1.5, 0.75), (1.0, 0.75, 0.25, -0.5)),
        method=("bilinear", "nearest"),
        outside=(0.0, 1.0),
    ),
)

_blocks = partial(operation, "array", in_batch=True)

BLOCKS = (
    _blocks(
        "space_to_depth",
        lambda x: tf.nn.space_to_depth(x, 2),
        "SpaceToDepth",
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[0] % 2 == shape[1] % 2 == 0,
        starts=((2, 2, 1), (2, 4, 1), (2, 2, 2)),
    ),
    _blocks(
        "depth_to_space",
        lambda x: tf.nn.depth_to_space(x, 2),
        "DepthToSpace",
        shapes=at_least(1, 1, 1),
        when=lambda shape: shape[2] % 4 == 0,
        starts=((1, 1, 4), (1, 2, 4)),
    ),
    _blocks(
        "extract_patches",
        lambda x, *, count, edges, stride, rate, padding: added_up(
            tf.image.extract_patches(multiples(x, count), [1, *edges, 1], [1, stride, 1, 1], [1, 1, rate, 1], padding),
            count,
        ),
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
        lambda x, *, count, edges, strides, padding: added_up(
            tf.raw_ops.ExtractVolumePatches(
                input=multiples(x, count), ksizes=[1, *edges, 1], strides=[1, *strides, 1], padding=padding
            ),
            count,
        ),
        "ExtractVolumePatches",
        shapes=at_least(1, 2, 2, 1),
        starts=((1, 2, 2, 1), (2, 2, 2, 1), (2, 2, 3, 2)),
        padding=("VALID", "SAME"),
        edges=lambda shape: ((1, 2, 2), (shape[0], 1, 2), (1, 2, 1)),
        strides=((1, 1, 1), (1, 2, 1), (2, 1, 2)),
        count=(1, 2),
    ),
)
