"""Pooling and its gradients (family `nn`). Images have no batch dimension: the points are the batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import added_up, multiples, operation, sum_of_squares, tf
from gradcheck.operations.shapes import alike, at_least
from gradcheck.operations.spec import BOOL, Formula, OpSpec, Rule, Shapes
from gradcheck.operations.special_sets import LARGEST_TWICE
from gradcheck.typing import Array

IMAGES: tuple[Shape, ...] = ((2, 2, 1), (3, 3, 1), (2, 3, 2))
FRACTIONAL: tuple[Shape, ...] = ((3, 3, 1), (2, 3, 2), (5, 4, 1))
VOLUMES: tuple[Shape, ...] = ((2, 2, 2, 1), (3, 2, 2, 1), (2, 2, 3, 2))

STRIDES, PADDINGS, COUNTS = (1, 2), ("VALID", "SAME"), (1, 2)

_nn = partial(operation, "nn")
on_images = partial(_nn, shapes=at_least(2, 2, 1), starts=IMAGES, stride=STRIDES, padding=PADDINGS)
_pool = partial(on_images, in_batch=True, count=COUNTS)
on_volumes = partial(_nn, shapes=at_least(2, 2, 2, 1), starts=VOLUMES, stride=STRIDES)
_pool_volumes = partial(on_volumes, in_batch=True, padding=PADDINGS, count=COUNTS, rtol=1e-6)


def margins(lengths: Any, stride: Any, padding: str, rate: Any = 1) -> list[tuple[int, int]]:
    """How much "SAME" or "VALID" padding lies around each axis, for windows whose ends are `rate` apart."""
    axes = zip(lengths, *(np.broadcast_to(one, len(lengths)) for one in (stride, rate)), strict=True)
    missing = [
        max((-(-length // step) - 1) * step + apart + 1 - length, 0) * (padding == "SAME")
        for length, step, apart in axes
    ]
    return [(size // 2, size - size // 2) for size in missing]


def in_windows(values: Array, stride: Any, padding: str, rate: int = 1, ksize: Any = 2) -> Array:
    """The elements of every window, (..., channels, *ksize), for values (*space, channels).

    Padding is minus infinity, and never wins.
    """
    axes = tuple(range(values.ndim - 1))
    spans = rate * (np.broadcast_to(ksize, len(axes)) - 1)
    padded = np.pad(values, [*margins(values.shape[:-1], stride, padding, spans), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(spans + 1), axis=axes)
    apart = (slice(None),) * values.ndim + (slice(None, None, rate),) * len(axes)
    return np.asarray(windows[tuple(slice(None, None, step) for step in np.broadcast_to(stride, len(axes)))][apart])


def window_ties(
    values: Array, stride: Any, padding: str, added: Array | None = None, rate: int = 1, ksize: Any = 2, **_others: Any
) -> Array:
    """How far the largest element of every window lies above the second.

    `added` (2, ..., 2, channels) is added to every window first, as a dilation does.
    """
    windows = in_windows(values, stride, padding, rate, ksize)
    raised = windows if added is None else windows + np.moveaxis(added, -1, 0)
    largest_two = np.sort(raised.reshape(-1, math.prod(windows.shape[values.ndim :])))[:, -2:]
    return np.diff(largest_two)


def means_of_windows(length: int, edge: int, stride: int, padding: str) -> np.ndarray[Any, Any]:
    """The mean of every window of a sequence as weights of its elements, (windows, length); padding does not count."""
    windows = -(-(length - (edge - 1) * (padding == "VALID")) // stride)
    before = max((windows - 1) * stride + edge - length, 0) // 2 if padding == "SAME" else 0
    behind = np.arange(length) - (np.arange(windows)[:, np.newaxis] * stride - before)
    inside = (behind >= 0) & (behind < edge)
    return np.asarray(inside / inside.sum(1, keepdims=True))


def means_in_volumes(x: tf.Tensor, *, ksize: Any, stride: Any, padding: str, count: int) -> tf.Tensor:
    """The means of all windows, one axis after the other; those of a batch of multiples are multiples."""
    edges, strides = np.broadcast_to(ksize, 3), np.broadcast_to(stride, 3)
    sizes = zip(x.shape[-4:-1], edges, strides, strict=True)
    planes, rows, columns = [means_of_windows(length, edge, step, padding) for length, edge, step in sizes]
    means = tf.einsum("iu,jv,kw,...uvwc->...ijkc", planes, rows, columns, x)
    return means * sum_of_squares(count)


def places(length: int, stride: int, padding: str) -> np.ndarray[Any, Any]:
    """Which of `length` elements are the two of each window, (windows, 2, length); none is where there is padding."""
    windows = -(-(length - (padding == "VALID")) // stride)
    ((before, _),) = margins([length], stride, padding)
    corners = np.arange(windows)[:, np.newaxis] * stride - before + np.arange(2)
    return np.asarray(corners[..., np.newaxis] == np.arange(length), np.float64)


def in_cubes(x: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """The elements of every window of edge 2 in volumes, (points, *windows, 8, channels); padding is zero."""
    planes, rows, columns = (places(length, stride, padding) for length in x.shape[1:4])
    pieces = tf.einsum("pabcz,iua,jvb,kwc->pijkuvwz", x, planes, rows, columns)
    return tf.reshape(pieces, [*pieces.shape[:4], 8, -1])


def from_cubes(pieces: tf.Tensor, lengths: list[int], stride: int, padding: str) -> tf.Tensor:
    """The transpose of `in_cubes`: the cotangent of every element of volumes of these lengths."""
    planes, rows, columns = (places(length, stride, padding) for length in lengths)
    corners = tf.reshape(pieces, [*pieces.shape[:4], 2, 2, 2, -1])
    return tf.einsum("pijkuvwz,iua,jvb,kwc->pabcz", corners, planes, rows, columns)


def largest_in_volumes(x: tf.Tensor, *, stride: Any, padding: str, count: int, ksize: Any = 2) -> tf.Tensor:
    """The largest element of every window, one axis after the other; those of a batch of multiples are multiples."""
    for axis, edge, step in zip((-4, -3, -2), np.broadcast_to(ksize, 3), np.broadcast_to(stride, 3), strict=True):
        windows = [np.flatnonzero(weights) for weights in means_of_windows(x.shape[axis], edge, step, padding)]
        x = tf.stack([tf.reduce_max(tf.gather(x, each, axis=axis), axis) for each in windows], axis)
    return x * sum_of_squares(count)


def largest_in_cubes(x: tf.Tensor, stride: int, padding: str) -> tf.Tensor:
    """One for the largest element of every window and zero for the others."""
    inside = in_cubes(tf.ones_like(x), stride, padding) > 0
    largest = tf.argmax(tf.where(inside, in_cubes(x, stride, padding), -np.inf), 4)
    return tf.one_hot(largest, 8, axis=4, dtype=x.dtype)


def largest_margins(padding: Any, count: int) -> Any:
    """How much padding lies around each of so many axes at most, for windows of edge 2."""
    return [(0, int(padding == "SAME"))] * count if isinstance(padding, str) else padding


def unpooled(shape: list[int], stride: Any, padding: Any) -> list[int]:
    """The largest shape (points, *space, channels) on which as many windows of edge 2 lie as `shape` has elements.

    Padding is "SAME", "VALID", or that before and behind each axis.
    """
    points, *space, channels = shape
    steps = np.broadcast_to(stride, len(space))
    added = map(sum, largest_margins(padding, len(space)))
    sizes = [length * step + 1 - more for length, step, more in zip(space, steps, added, strict=True)]
    return [points, *sizes, channels]


def _padded_ties(values: Array, stride: int, below: int) -> Array:
    padded = np.pad(values, [(1, below), (0, 1), (0, 0)], constant_values=-np.inf)
    return window_ties(padded, stride, "VALID")


def in_random_cells(kernel: Callable[..., Any], x: tf.Tensor, overlapping: bool, pseudo: bool) -> Any:
    """Fractional pooling, and where its cells end; they are the same ones every time."""
    same = {"pooling_ratio": [1.0, 1.5, 1.5, 1.0], "deterministic": True, "seed": 1, "seed2": 2}
    return kernel(value=x, overlapping=overlapping, pseudo_random=pseudo, **same)


def _cell_ties(x: Array, overlapping: bool, pseudo: bool, **_others: Any) -> Array:
    """How far the largest element of every cell with more than one lies above the second."""
    _, *ends = in_random_cells(tf.raw_ops.FractionalMaxPool, x[np.newaxis], overlapping, pseudo)
    rows, columns = ([slice(a, b + overlapping) for a, b in pairwise(end.numpy())] for end in ends)
    cells = [x[row, column].reshape(-1, x.shape[-1]) for row in rows for column in columns]
    return np.concatenate([[np.inf], *(np.diff(np.sort(cell, axis=0)[-2:], axis=0).ravel() for cell in cells)])


_unequal = partial(
    _nn,
    shapes=at_least(3, 3, 1),
    starts=((3, 3, 1), (4, 3, 2)),
    in_batch=True,
    ksize=((3, 3), (1, 2), (3, 1)),
    stride=((1, 1), (2, 1), (1, 3)),
    padding=PADDINGS,
    count=COUNTS,
)

POOLING = (
    _pool(
        "avg_pool2d",
        lambda x, *, count, stride, padding: added_up(tf.nn.avg_pool2d(multiples(x, count), 2, stride, padding), count),
        "AvgPool",
    ),
    _pool(
        "max_pool2d",
        lambda x, *, count, stride, padding: added_up(tf.nn.max_pool2d(multiples(x, count), 2, stride, padding), count),
        "MaxPool",
        kinks=window_ties,
    ),
    _pool(
        "max_pool_with_argmax",
        lambda x, *, count, stride, padding, batched_index: added_up(
            tf.nn.max_pool_with_argmax(multiples(x, count), 2, stride, padding, include_batch_in_index=batched_index)[
                0
            ],
            count,
        ),
        "MaxPoolWithArgmax",
        batched_index=BOOL,
        kinks=window_ties,
    ),
    _pool_volumes(
        "avg_pool3d",
        lambda x, *, count, ksize, stride, padding: tf.cast(
            added_up(tf.nn.avg_pool3d(tf.cast(multiples(x, count), tf.float32), ksize, stride, padding), count),
            tf.float64,
        ),
        "AvgPool3D",
        ksize=(2, (1, 2, 2), (2, 1, 2)),
        stride=(*STRIDES, (2, 1, 1), (1, 2, 3)),
        reference=means_in_volumes,
    ),
    _pool_volumes(
        "max_pool3d",
        lambda x, *, count, stride, padding: tf.cast(
            added_up(tf.nn.max_pool3d(tf.cast(multiples(x, count), tf.float32), 2, stride, padding), count), tf.float64
        ),
        "MaxPool3D",
        kinks=window_ties,
        reference=largest_in_volumes,
        special=(LARGEST_TWICE,),
    ),
    _pool_volumes(
        "max_pool3d_unequal",
        lambda x, *, count, ksize, stride, padding: tf.cast(
            added_up(tf.nn.max_pool3d(tf.cast(multiples(x, count), tf.float32), ksize, stride, padding), count),
            tf.float64,
        ),
        "MaxPool3D",
        ksize=((1, 2, 2), (2, 1, 2)),
        stride=(*STRIDES, (2, 1, 1), (1, 2, 3)),
        kinks=window_ties,
        reference=largest_in_volumes,
        special=(LARGEST_TWICE,),
    ),
    _pool(
        "max_pool_v2",
        lambda x, *, count, stride, padding: added_up(
            tf.raw_ops.MaxPoolV2(
                input=multiples(x, count), ksize=[1, 2, 2, 1], strides=[1, stride, stride, 1], padding=padding
            ),
            count,
        ),
        "MaxPoolV2",
        kinks=window_ties,
    ),
)

POOLING_FORMS = (
    _nn(
        "fractional_max_pool",
        lambda x, *, count, overlapping, pseudo: added_up(
            in_random_cells(tf.raw_ops.FractionalMaxPool, multiples(x, count), overlapping, pseudo).output, count
        ),
        shapes=at_least(2, 2, 1),
        starts=FRACTIONAL,
        in_batch=True,
        overlapping=BOOL,
        pseudo=BOOL,
        count=COUNTS,
        kinks=_cell_ties,
    ),
    _nn(
        "fractional_avg_pool",
        lambda x, *, count, overlapping, pseudo: added_up(
            in_random_cells(tf.raw_ops.FractionalAvgPool, multiples(x, count), overlapping, pseudo).output, count
        ),
        shapes=at_least(2, 2, 1),
        starts=FRACTIONAL,
        in_batch=True,
        overlapping=BOOL,
        pseudo=BOOL,
        count=COUNTS,
    ),
    _nn(
        "max_pool2d_padded",
        lambda x, *, stride, below: tf.nn.max_pool2d(x, 2, stride, [[0, 0], [1, below], [0, 1], [0, 0]]),
        "MaxPool",
        shapes=at_least(2, 2, 1),
        starts=IMAGES,
        in_batch=True,
        stride=STRIDES,
        below=(0, 1),
        kinks=_padded_ties,
    ),
    _unequal(
        "avg_pool2d_unequal",
        lambda x, *, ksize, stride, padding, count: added_up(
            tf.nn.avg_pool2d(multiples(x, count), ksize, stride, padding), count
        ),
        "AvgPool",
    ),
    _unequal(
        "max_pool2d_unequal",
        lambda x, *, ksize, stride, padding, count: added_up(
            tf.nn.max_pool2d(multiples(x, count), ksize, stride, padding), count
        ),
        "MaxPool",
        kinks=window_ties,
    ),
)


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


def _jumping(jumps: Callable[[Array, Array, tuple[int, str]], Array]) -> dict[str, Any]:
    """Special points of operations that put values to, or take them from, the place of each window's largest element.

    At a tie the result jumps where `jumps` holds for the window; elsewhere it has a kink.
    """

    def ties(x: Array, values: Array, windows: tuple[int, str], *, jump: bool) -> Array:
        return np.asarray(np.where(jumps(x, values, windows) == jump, window_ties(x, *windows)[:, 0], np.inf))

    return {
        "kinks": lambda x, values, windows: ties(x, values, windows, jump=False),
        "singular": lambda x, values, windows: ties(x, values, windows, jump=True),
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


def _of_max_pooling(name: str, form: Formula, jumps: Callable[..., Array], others: Rule, **fields: Any) -> OpSpec:
    return _nn(
        name,
        form,
        in_batch=True,
        others=others,
        windows=windows_of if others is one_a_window else OF_ANOTHER_SIZE,
        **_jumping(jumps),
        **fields,
    )


_of_images = partial(_of_max_pooling, shapes=at_least(2, 2, 1), starts=IMAGES)
_of_volumes = partial(_of_max_pooling, shapes=at_least(2, 2, 2, 1), starts=VOLUMES, rtol=1e-6)

POOLING_GRADIENTS = (
    _of_images(
        "max_pool_grad",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGrad, x, values, windows),
        gradients="MaxPoolGrad",
        jumps=_not_zero,
        others=one_a_window,
    ),
    _of_images(
        "max_pool_grad_v2",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGradV2, x, values, windows),
        gradients="MaxPoolGradV2",
        jumps=_not_zero,
        others=one_a_window,
    ),
    _of_images(
        "max_pool_grad_grad",
        lambda x, values, *, windows: of_max_pooling(tf.raw_ops.MaxPoolGradGrad, x, values, windows),
        gradients="MaxPoolGradGrad",
        jumps=_differ_at_the_largest_two,
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
        jumps=_not_zero,
        others=one_a_window,
        reference=put_at_largest,
        special=(LARGEST_TWICE,),
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
        jumps=_differ_at_the_largest_two,
        others=alike,
        reference=taken_at_largest,
        special=(LARGEST_TWICE,),
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
