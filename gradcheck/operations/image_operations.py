"""Quality measures, edges and variation of images, colour spaces, crops (`image`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.operations.distances import norms
from gradcheck.operations.images import SINGLE
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import alike, at_least, vector
from gradcheck.operations.spec import BOOL, NONNEGATIVE, Interval
from gradcheck.operations.special_sets import FLAT_IMAGE
from gradcheck.typing import Array

IMAGES = ((2, 2, 1), (2, 3, 1), (2, 2, 2))
_image = partial(operation, "image", shapes=at_least(2, 2, 1), starts=IMAGES)
_pair = partial(_image, others=alike, rtol=SINGLE)
_even = partial(
    operation,
    "image",
    shapes=at_least(4, 4, 1),
    when=lambda shape: shape[0] % 2 == shape[1] % 2 == 0,
    starts=((4, 4, 1),),
    rtol=SINGLE,
)


def gaussian(size: int, sigma: float) -> Any:
    """The weights of a square window, their sum 1."""
    along = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / sigma) ** 2)
    window = np.outer(along, along)
    return window / window.sum()


def blurred(x: tf.Tensor, size: int, sigma: float) -> tf.Tensor:
    """The means of all windows, weighted."""
    weights = gaussian(size, sigma)
    high, wide = x.shape[-3] - size + 1, x.shape[-2] - size + 1
    return sum(weights[i, j] * x[..., i : i + high, j : j + wide, :] for i in range(size) for j in range(size))


def luminance_and_contrast(
    x: tf.Tensor, y: tf.Tensor, size: int, sigma: float, k: tuple[float, float]
) -> list[tf.Tensor]:
    """The two factors of the similarity of every window; 1 is the largest value (Wang et al., 2004, 6 and 9)."""
    one, two = blurred(x, size, sigma), blurred(y, size, sigma)
    luminance = (2 * one * two + k[0] ** 2) / (one**2 + two**2 + k[0] ** 2)
    covariance = blurred(x * y, size, sigma) - one * two
    variances = blurred(x * x + y * y, size, sigma) - one**2 - two**2
    return [luminance, (2 * covariance + k[1] ** 2) / (variances + k[1] ** 2)]


def similarity(
    x: tf.Tensor, y: tf.Tensor, *, size: int, sigma: float, k: tuple[float, float], mapped: bool
) -> tf.Tensor:
    luminance, contrast = luminance_and_contrast(x, y, size, sigma, k)
    product = luminance * contrast
    return tf.reduce_mean(product, axis=-1 if mapped else (-3, -2, -1))


def factors_of_scales(x: tf.Tensor, y: tf.Tensor, k: tuple[float, float]) -> list[tf.Tensor]:
    """The contrast of all windows of two pixels, and the similarity of those of images of half the size."""
    _, contrast = luminance_and_contrast(x, y, 2, 1.5, k)
    one, two = (sum(z[..., i::2, j::2, :] for i in (0, 1) for j in (0, 1)) / 4 for z in (x, y))
    luminance, contrast_of_halves = luminance_and_contrast(one, two, 2, 1.5, k)
    return [contrast, luminance * contrast_of_halves]


def similarity_of_scales(x: tf.Tensor, y: tf.Tensor, *, power: float, k: tuple[float, float]) -> tf.Tensor:
    """The two factors to powers whose sum is 1."""
    one, two = (tf.reduce_mean(factor, axis=(-3, -2)) for factor in factors_of_scales(x, y, k))
    return tf.reduce_mean(one**power * two ** (1 - power), axis=-1)


def checkered(x: tf.Tensor) -> Any:
    """A board of 2 and -2 for images like these."""
    return 2.0 * (-1.0) ** (np.arange(x.shape[-3])[:, None, None] + np.arange(x.shape[-2])[:, None])


def _from_equal_neighbours(x: Array) -> Array:
    return np.concatenate([np.abs(np.diff(x, axis=axis)).ravel() for axis in (-3, -2)])


IMAGE_QUALITY = (
    _image(
        "image_gradients",
        lambda x, *, which: tf.image.image_gradients(x)[which],
        "ConcatV2 StridedSlice",
        in_batch=True,
        which=(0, 1),
    ),
    _image(
        "sobel_edges",
        # At a reflected border the edges across it are the rounding of what cancels, and at a corner all of them.
        lambda x: tf.reduce_sum(tf.image.sobel_edges(x)[..., 1:-1, :, :], -1),
        "DepthwiseConv2dNative MirrorPad",
        in_batch=True,
        shapes=at_least(3, 3, 1),
        starts=((3, 3, 1), (3, 3, 2), (3, 4, 1)),
    ),
    _image("total_variation", lambda x: tf.image.total_variation(x), "Abs Sum", kinks=_from_equal_neighbours),
    _pair(
        "psnr",
        lambda x, y, *, largest: tf.cast(tf.image.psnr(x, y, largest), tf.float64),
        "Log Mean SquaredDifference",
        largest=(1.0, 255.0),
        singular=lambda x, y, largest: norms(x - y, axis=None),
        reference=lambda x, y, *, largest: (
            20.0 * np.log10(largest) - 10.0 / np.log(10.0) * tf.math.log(tf.reduce_mean((x - y) ** 2, (-3, -2, -1)))
        ),
    ),
    _pair(
        "ssim",
        lambda x, y, *, size, sigma, k, mapped: tf.cast(
            tf.image.ssim(x, y, 1.0, size, sigma, *k, return_index_map=mapped), tf.float64
        ),
        "RealDiv Mean DepthwiseConv2dNative",
        Interval(0.0, 1.0, closed=True),
        size=(2, 1),
        sigma=(1.5, 0.5),
        k=((0.2, 0.4), (0.1, 0.3)),
        mapped=BOOL,
        reference=similarity,
    ),
    # The contrast is positive for pixels between 0 and 1: what is negative counts as 0, to a power with a pole there.
    _even(
        "ssim_multiscale",
        lambda x, y, *, power, k: tf.cast(
            tf.image.ssim_multiscale(x, y, 1.0, (power, 1.0 - power), 2, 1.5, *k), tf.float64
        ),
        "Pow Prod Relu AvgPool",
        Interval(0.0, 1.0, closed=True),
        others=alike,
        power=(0.5, 0.25),
        k=((0.2, 1.0), (0.4, 2.0)),
        reference=similarity_of_scales,
        expensive=(2,),
    ),
    # What is negative counts as 0: the similarity is 0 throughout.
    _even(
        "ssim_multiscale_of_opposites",
        lambda x: tf.cast(
            tf.image.ssim_multiscale(x + checkered(x), x - checkered(x), 1.0, (0.5, 0.5), 2, 1.5), tf.float64
        ),
        "Pow Prod Relu AvgPool",
        Interval(0.0, 1.0, closed=True),
        reference=lambda x: 0.0 * tf.reduce_sum(x, axis=(-3, -2, -1)),
    ),
)


_coloured = partial(operation, "image", shapes=at_least(1, 1, 1), starts=((2, 2, 1), (1, 1, 1), (1, 2, 3), (2, 3, 2)))
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
    _coloured(
        "adjust_brightness",
        lambda x, y: tf.image.adjust_brightness(x, y),
        "AddV2 Cast",
        others=lambda _shape: [((),)],
        batched=lambda x, y: tf.transpose(tf.transpose(x) + y),
        reference=lambda x, y: tf.transpose(tf.transpose(x) + y),
        rtol=SINGLE,
    ),
    _coloured(
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
    _coloured(
        "per_image_standardization",
        lambda x: tf.cast(tf.image.per_image_standardization(x), tf.float64),
        "Maximum Sqrt Mean Cast",
        starts=((1, 2, 1), (2, 2, 1), (1, 1, 1), (2, 3, 2)),
        kinks=_from_least_deviation,
        reference=standardized,
        rtol=SINGLE,
        special=(FLAT_IMAGE,),
    ),
    _coloured(
        "random_brightness",
        lambda x: tf.image.stateless_random_brightness(x, 0.5, (1, 2)),
        "AddV2 Cast",
        reference=lambda x: (
            x + tf.cast(tf.image.stateless_random_brightness(tf.zeros([1, 1, 1]), 0.5, (1, 2)), tf.float64)
        ),
        rtol=SINGLE,
    ),
)


TO_CROP = ((2, 2, 1), (1, 2, 1), (2, 3, 1), (2, 2, 2))
SIZES = ((2, 2), (4, 4), (3, 2), (1, 1))

_cropped = partial(operation, "image", shapes=at_least(1, 1, 1), starts=TO_CROP)
_large = partial(operation, "image", shapes=at_least(2, 2, 1), starts=((2, 2, 1), (2, 3, 1), (2, 2, 2)))
_random = partial(_cropped, looped=True, seed=((0, 0), (1, 0)))

CROPPINGS = (
    _cropped("flip_left_right", lambda x: tf.image.flip_left_right(x), "ReverseV2"),
    _cropped("flip_up_down", lambda x: tf.image.flip_up_down(x), "ReverseV2"),
    _cropped("rot90", lambda x, *, turns: tf.image.rot90(x, k=turns), "Transpose", turns=(1, 2, 3, 0, -1)),
    _cropped("transpose_image", lambda x: tf.image.transpose(x), "Transpose"),
    _cropped(
        "central_crop",
        lambda x, *, fraction: tf.image.central_crop(x, fraction),
        "Slice",
        fraction=(0.5, 0.25, 0.9, 1.0),
    ),
    _large(
        "crop_to_bounding_box",
        lambda x, *, top, left: tf.image.crop_to_bounding_box(x, top, left, 1, 1),
        "Slice",
        top=(0, 1),
        left=(0, 1),
    ),
    _cropped(
        "pad_to_bounding_box",
        lambda x, *, top, left: tf.image.pad_to_bounding_box(x, top, left, x.shape[-3] + 2, x.shape[-2] + 1),
        "Pad",
        top=(0, 1, 2),
        left=(0, 1),
    ),
    _cropped(
        "resize_with_crop_or_pad",
        lambda x, *, size: tf.image.resize_with_crop_or_pad(x, size[0], size[1]),
        "Pad Slice",
        size=SIZES,
    ),
    # ResizeArea has no registered gradient.
    _cropped(
        "resize_with_pad",
        lambda x, *, size, method, antialias: tf.cast(
            tf.image.resize_with_pad(tf.cast(x, tf.float32), size[0], size[1], method, antialias), tf.float64
        ),
        "Pad",
        when=lambda shape: max(shape[:2]) <= 2 * min(shape[:2]),
        size=SIZES[:-1],
        method=("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"),
        antialias=BOOL,
        rtol=SINGLE,
    ),
    _random(
        "random_crop",
        lambda x, *, seed: tf.image.stateless_random_crop(x, [1, 2, 1], seed),
        "Slice",
        when=lambda shape: shape[1] > 1,
    ),
    _random(
        "random_flip_left_right", lambda x, *, seed: tf.image.stateless_random_flip_left_right(x, seed), "ReverseV2"
    ),
    _random("random_flip_up_down", lambda x, *, seed: tf.image.stateless_random_flip_up_down(x, seed), "ReverseV2"),
)
