"""Crops, borders, flips and turns of images of shape (height, width, channels) (`image`)."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.images import SINGLE
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import at_least
from gradcheck.hunt.opspec import BOOL

IMAGES = ((2, 2, 1), (1, 2, 1), (2, 3, 1), (2, 2, 2))
SIZES = ((2, 2), (4, 4), (3, 2), (1, 1))

_image = partial(operation, "image", shapes=at_least(1, 1, 1), starts=IMAGES)
_large = partial(operation, "image", shapes=at_least(2, 2, 1), starts=((2, 2, 1), (2, 3, 1), (2, 2, 2)))
_random = partial(_image, looped=True, seed=((0, 0), (1, 0)))

CROPPINGS = (
    _image("flip_left_right", lambda x: tf.image.flip_left_right(x), "ReverseV2"),
    _image("flip_up_down", lambda x: tf.image.flip_up_down(x), "ReverseV2"),
    _image("rot90", lambda x, *, turns: tf.image.rot90(x, k=turns), "Transpose", turns=(1, 2, 3, 0, -1)),
    _image("transpose_image", lambda x: tf.image.transpose(x), "Transpose"),
    _image(
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
    _image(
        "pad_to_bounding_box",
        lambda x, *, top, left: tf.image.pad_to_bounding_box(x, top, left, x.shape[-3] + 2, x.shape[-2] + 1),
        "Pad",
        top=(0, 1, 2),
        left=(0, 1),
    ),
    _image(
        "resize_with_crop_or_pad",
        lambda x, *, size: tf.image.resize_with_crop_or_pad(x, size[0], size[1]),
        "Pad Slice",
        size=SIZES,
    ),
    # ResizeArea has no registered gradient.
    _image(
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
