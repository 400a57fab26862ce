"""The derivatives of pooling as operations (family `nn`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.pooling import (
    IMAGES,
    PADDINGS,
    STRIDES,
    VOLUMES,
    from_cubes,
    in_cubes,
    in_windows,
    largest_in_cubes,
    on_images,
    on_volumes,
    unpooled,
    window_ties,
)
from gradcheck.hunt.catalogue.shapes import alike, at_least
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Array, Formula, OpSpec, Rule, Shapes

_nn = partial(operation, "nn")


def put_at_largest(x: tf.Tensor, values: tf.Tensor, *, windows: tuple[int, str]) -> tf.Tensor:
    """The transpose of `taken_at_largest`: one value a window, added to the largest element's place."""
    if len(x.shape) == 4:
        return put_at_largest(x[tf.newaxis], values[tf.newaxis], windows=windows)[0]
    return from_cubes(largest_in_cubes(x, *windows) * values[..., tf.newaxis, :], x.shape[1:4], *windows)


def taken_at_largest(x: tf.Tensor, values: tf.Tensor, *, windows: tuple[int, str]) -> tf.Tensor:
    """Of every window of volumes of values the one that stands where the window of `x` is largest."""
    if len(x.shape) == 4:
        return taken_at_largest(x[tf.newaxis], values[tf.newaxis], windows=windows)[0]
    return tf.reduce_sum(largest_in_cubes(x, *windows) * in_cubes(values, *windows), 4)


def spread_means(x: tf.Tensor, *, stride: int, padding: str) -> tf.Tensor:
    """The transpose of the means of all windows in volumes; padding does not count."""
    if len(x.shape) == 4:
        return spread_means(x[tf.newaxis], stride=stride, padding=padding)[0]
    lengths = unpooled(x.shape, stride, padding)[1:4]
    count = tf.reduce_sum(in_cubes(tf.ones([1, *lengths, 1], x.dtype), stride, padding), 4)
    return from_cubes(tf.repeat((x / count)[..., tf.newaxis, :], 8, 4), lengths, stride, padding)


def _counts(image: Shape, stride: int, padding: str) -> Shape:
    return tuple(-(-(length - (padding == "VALID")) // stride) for length in image[:-1])


def windows_of(image: Shape, values: Shape) -> list[tuple[int, str]]:
    """The strides and paddings with which there are as many windows on an image as values."""
    return [way for way in product(STRIDES, PADDINGS) if _counts(image, *way) == values[:-1]]


def one_a_window(image: Shape) -> Shapes:
    counts = dict.fromkeys(_counts(image, *way) for way in product(STRIDES, PADDINGS))
    return [((*each, image[-1]),) for each in counts]


def _leaping(leaps: Callable[[Array, Array, tuple[int, str]], Array]) -> dict[str, Any]:
    """What happens at the ties of windows to values that are put to, or taken from, the place of the largest element.

    The result leaps there if `leaps` says so of a window, and has a kink if not.
    """

    def ties(x: Array, values: Array, windows: tuple[int, str], *, leap: bool) -> Array:
        return np.asarray(np.where(leaps(x, values, windows) == leap, window_ties(x, *windows)[:, 0], np.inf))

    return {
        "kinks": lambda x, values, windows: ties(x, values, windows, leap=False),
        "singular": lambda x, values, windows: ties(x, values, windows, leap=True),
    }


def _not_zero(_x: Array, values: Array, _windows: tuple[int, str]) -> Array:
    return np.asarray(np.ravel(values) != 0)


def _differ_at_the_largest_two(x: Array, values: Array, windows: tuple[int, str]) -> Array:
    size = 2 ** (x.ndim - 1)
    candidates, offered = (in_windows(one, *windows).reshape(-1, size) for one in (x, values))
    largest = candidates >= np.sort(candidates)[:, -2:-1]
    offered_least, offered_most = (np.where(largest, offered, end) for end in (np.inf, -np.inf))
    return np.asarray(offered_least.min(axis=1) != offered_most.max(axis=1))


def of_max_pooling(
    derivative: Callable[..., tf.Tensor], x: tf.Tensor, values: tf.Tensor, windows: tuple[int, str]
) -> tf.Tensor:
    """A derivative of max pooling over images or volumes, as an operation."""
    stride, padding = windows
    edges = len(x.shape) - 2
    pooled = (tf.nn.max_pool2d if edges == 2 else tf.nn.max_pool3d)(x, 2, stride, padding)
    ksize, strides = [1, *[2] * edges, 1], [1, *[stride] * edges, 1]
    return derivative(orig_input=x, orig_output=pooled, grad=values, ksize=ksize, strides=strides, padding=padding)


# Without (1, "SAME"): there MaxPoolGradGrad and MaxPool3DGradGrad, in a tf.function, write their result over the
# argument that they are still to read: it is their value that is wrong, for which there are no records.
OF_ANOTHER_SIZE = ((1, "VALID"), (2, "VALID"), (2, "SAME"))


def _of_max_pooling(name: str, form: Formula, leaps: Callable[..., Array], others: Rule, **fields: Any) -> OpSpec:
    return _nn(
        name,
        form,
        in_batch=True,
        others=others,
        windows=windows_of if others is one_a_window else OF_ANOTHER_SIZE,
        **_leaping(leaps),
        **fields,
    )


_of_images = partial(_of_max_pooling, shapes=at_least(2, 2, 1), starts=IMAGES)
_of_volumes = partial(_of_max_pooling, shapes=at_least(2, 2, 2, 1), starts=VOLUMES, rtol=1e-6)

POOLING_GRADIENTS = (
    _of_images(
        "max_pool_grad",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGrad, x, values, windows),
        gradients="MaxPoolGrad",
        leaps=_not_zero,
        others=one_a_window,
    ),
    _of_images(
        "max_pool_grad_v2",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGradV2, x, values, windows),
        gradients="MaxPoolGradV2",
        leaps=_not_zero,
        others=one_a_window,
    ),
    _of_images(
        "max_pool_grad_grad",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGradGrad, x, values, windows),
        gradients="MaxPoolGradGrad",
        leaps=_differ_at_the_largest_two,
        others=alike,
    ),
    _of_volumes(
        "max_pool3d_grad",
        lambda x, values, *, windows: tf.cast(
            of_max_pooling(
                tf.raw_ops.MaxPool3DGrad,
                tf.cast(x, tf.float32),
                tf.cast(values, tf.float32),
                windows,
            ),
            tf.float64,
        ),
        gradients="MaxPool3DGrad",
        leaps=_not_zero,
        others=one_a_window,
        reference=put_at_largest,
    ),
    _of_volumes(
        "max_pool3d_grad_grad",
        lambda x, values, *, windows: tf.cast(
            of_max_pooling(
                tf.raw_ops.MaxPool3DGradGrad,
                tf.cast(x, tf.float32),
                tf.cast(values, tf.float32),
                windows,
            ),
            tf.float64,
        ),
        gradients="MaxPool3DGradGrad",
        leaps=_differ_at_the_largest_two,
        others=alike,
        reference=taken_at_largest,
    ),
    on_images(
        "avg_pool_grad",
        lambda x, *, stride, padding: tf.raw_ops.AvgPoolGrad(
            orig_input_shape=unpooled(x.shape, stride, padding),
            grad=x,
            ksize=[1, 2, 2, 1],
            strides=[1, stride, stride, 1],
            padding=padding,
        ),
        shapes=at_least(1, 1, 1),
        in_batch=True,
    ),
    on_volumes(
        "avg_pool3d_grad",
        lambda x, *, stride, padding: tf.cast(
            tf.raw_ops.AvgPool3DGrad(
                orig_input_shape=unpooled(x.shape, stride, padding),
                grad=tf.cast(x, tf.float32),
                ksize=[1, 2, 2, 2, 1],
                strides=[1, stride, stride, stride, 1],
                padding=padding,
            ),
            tf.float64,
        ),
        shapes=at_least(1, 1, 1, 1),
        starts=((1, 1, 1, 1), (1, 2, 2, 1), (2, 1, 1, 2)),
        padding=PADDINGS,
        in_batch=True,
        reference=spread_means,
        rtol=1e-6,
    ),
)
