"""How images differ, from one another and from place to place: quality measures, edges, variation (`image`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.distances import norms
from gradcheck.hunt.catalogue.images import SINGLE
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.opspec import BOOL, Array, Interval

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
        dear=(2,),
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
