"""The catalogue's float64 formulas for kernels without one are the right functions, in value and in gradient.

The oracles are loops in NumPy at one point. References that are local to a point (quantisation, random samples) have
their own tests in test_local_references.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.hunt.evaluation import over_points, single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import OpSpec
from tests import slices
from tests.catalogue.test_local_references import DOCUMENTED

Array = np.ndarray[Any, Any]
LOCAL = ("quantization", "random (implicit reparam)")


def affine_image(y: Array) -> Array:
    """Each pixel between the four around its place, of a matrix that moves it by about a quarter."""
    matrix = np.array([[1.0, 0.0, 0.25], [0.0, 1.0, 0.25]]) + 0.05 * np.sin(y).reshape(2, 3)
    image, result = np.sin(1.0 + np.arange(9)).reshape(3, 3), np.empty((2, 2))
    for row, column in np.ndindex(2, 2):
        across, down = matrix @ (column, row, 1)
        i, j = int(down), int(across)
        (a, b), (c, d) = image[i : i + 2, j : j + 2]
        upper, lower = a + (across - j) * (b - a), c + (across - j) * (d - c)
        result[row, column] = upper + (down - i) * (lower - upper)
    return result


def pool3d(fold: Any, x: Array, ksize: Any, stride: Any, padding: str, count: int) -> Array:
    """What becomes of windows, by loops; of padding nothing counts."""
    counts, offsets = [], []
    edges, strides = np.broadcast_to(ksize, 3), np.broadcast_to(stride, 3)
    for length, edge, step in zip(x.shape[:3], edges, strides, strict=True):
        counts.append(len(range(0, length if padding == "SAME" else length - edge + 1, step)))
        offsets.append(max((counts[-1] - 1) * step + edge - length, 0) // 2 if padding == "SAME" else 0)
    values = np.zeros([*counts, x.shape[-1]])
    for place in np.ndindex(*counts):
        corner = np.array(place) * strides - offsets
        cuts = tuple(slice(max(c, 0), c + edge) for c, edge in zip(corner, edges, strict=True))
        values[place] = fold(x[cuts], axis=(0, 1, 2))
    return values * OF_MULTIPLES[count]


OF_MULTIPLES = {1: 1, 2: 5}
"""How many times as large the weighted sum over a batch of multiples is."""


def of_batch(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arguments, count, **attributes: function(*arguments, **attributes) * OF_MULTIPLES[count]


def ctc_loss_of_labels(x: Array, labels: Sequence[int], blank: int, merged: bool = True) -> Array:
    """Minus the log of the probability of all paths that collapse to the labels."""
    rows = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        symbols = [symbol for symbol, _ in itertools.groupby(path)] if merged else path
        collapsed = [symbol for symbol in symbols if symbol != blank]
        if collapsed == [*labels]:
            total += float(np.prod([row[symbol] for row, symbol in zip(rows, path, strict=True)]))
    return np.asarray(-np.log(total))


def ctc_loss(x: Array, label: int, merged: bool = True, **_ways: bool) -> Array:
    """The last class is the blank."""
    return ctc_loss_of_labels(x, [label], x.shape[1] - 1, merged)


def ctc_losses(
    x: Array,
    labels: Sequence[Sequence[int]],
    cut: int,
    blank: int = -1,
    merged: bool = True,
    collapsed: bool = False,
    **_ways: Any,
) -> Array:
    """Of two sequences, the second of which has `cut` frames less; one with more labels than frames has no loss."""
    classes = [number for number in range(x.shape[-1]) if number != blank % x.shape[-1]]
    losses = []
    for rows, given in ((x[0], labels[0]), (x[1, : x.shape[1] - cut], labels[1])):
        kept = [label for label, _ in itertools.groupby(given)] if collapsed else given
        named = [classes[label] for label in kept]
        loss = ctc_loss_of_labels(rows, named, blank % x.shape[-1], merged) if len(kept) <= len(rows) else 0.0
        losses.append(loss)
    return np.array(losses)


def batch_norm(
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    training: bool = True,
    epsilon: float = 0.1,
    **_layout: str,
) -> Array:
    if not training:
        mean, variance = 0.5 + 0 * scale, 2.0 + 0 * scale
    result = np.empty_like(x)
    for channel in range(x.shape[-1]):
        plane = x[..., channel]
        centre = plane.mean() if mean is None else mean[channel]
        spread = plane.var() if variance is None else variance[channel]
        result[..., channel] = (plane - centre) / np.sqrt(spread + epsilon) * scale[channel] + offset[channel]
    return result


def response_normalization(x: Array, radius: int, bias: float, alpha: float, beta: float, count: int) -> Array:
    if count > 1:
        last = response_normalization(count * x, radius, bias, alpha, beta, 1)
        return response_normalization(x, radius, bias, alpha, beta, count - 1) + count * last
    result = np.empty_like(x)
    for channel in range(x.shape[-1]):
        near = x[..., max(channel - radius, 0) : channel + radius + 1]
        result[..., channel] = x[..., channel] / (bias + alpha * (near**2).sum(axis=-1)) ** beta
    return result


def lstm(kept: str, order: str = "igfo", forget_bias: float = 1.0) -> Callable[..., Array]:
    """Two steps of one unit: `order` are the gates' columns (input i, candidate g, forget f, output o)."""

    def sigmoid(z: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-z)))

    def run(
        x: Array, w: Array, b: Array, h: Array, c: Array, wci: Any = 0, wcf: Any = 0, wco: Any = 0, clip: float = np.inf
    ) -> Array:
        values = []
        for frame in x:
            z = dict(zip(order, (np.concatenate([frame, h], axis=1) @ w + b).T[..., np.newaxis], strict=True))
            entering = sigmoid(z["i"] + wci * c) * np.tanh(z["g"])
            c = np.clip(sigmoid(z["f"] + wcf * c + forget_bias) * c + entering, -clip, clip)
            o = sigmoid(z["o"] + wco * c)
            h = o * np.tanh(c)
            values.append({"h": h, "c": c, "o": o}[kept])
        return np.stack(values)

    return run


def bilinear(image: Array, row: float, column: float) -> Array:
    """The image between its pixels, whose centres lie at whole numbers."""
    top, left = min(int(row), image.shape[0] - 1), min(int(column), image.shape[1] - 1)
    bottom, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
    down, across = row - top, column - left
    upper = image[top, left] * (1 - across) + image[top, right] * across
    lower = image[bottom, left] * (1 - across) + image[bottom, right] * across
    return np.asarray(upper * (1 - down) + lower * down)


def resize_bilinear(image: Array, size: tuple[int, int]) -> Array:
    def centre(place: int, axis: int) -> float:
        length = image.shape[axis]
        return min(max((place + 0.5) * length / size[axis] - 0.5, 0.0), length - 1.0)

    return np.array([[bilinear(image, centre(i, 0), centre(j, 1)) for j in range(size[1])] for i in range(size[0])])


def crop_and_resize(image: Array, boxes: Array) -> Array:
    height, width = image.shape[0] - 1, image.shape[1] - 1
    corners = [[(top, left), (top, right), (bottom, left), (bottom, right)] for top, left, bottom, right in boxes]
    crops = [[bilinear(image, row * height, column * width) for row, column in box] for box in corners]
    return np.array(crops).reshape(len(boxes), 2, 2, image.shape[2])


def projected(image: Array, transform: tuple[float, ...]) -> Array:
    """3 by 3 samples; a frame of zeros stands for what lies outside."""
    framed = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    rows = [min(transform[4] * i + transform[5], image.shape[0]) + 1 for i in range(3)]
    columns = [min(transform[0] * j + transform[2], image.shape[1]) + 1 for j in range(3)]
    return np.array([[bilinear(framed, row, column) for column in columns] for row in rows])


def batch_norm_back(x: Array, scale: Array, back: Array, part: int) -> Array:
    """Ioffe and Szegedy, "Batch Normalization" (2015), section 3, with the sums over a channel carried out."""
    results: list[Array] = [np.empty_like(x), np.empty_like(scale), np.empty_like(scale)]
    for channel in range(x.shape[-1]):
        plane, given = x[..., channel], back[..., channel]
        spread = np.sqrt(plane.var() + 0.1)
        z, count = (plane - plane.mean()) / spread, plane.size
        to_z = given * scale[channel]
        results[0][..., channel] = (to_z - to_z.sum() / count - z * (to_z * z).sum() / count) / spread
        results[1][channel], results[2][channel] = (given * z).sum(), given.sum()
    return results[part]


def frozen_batch_norm_back(x: Array, scale: Array, back: Array, part: int) -> Array:
    """The chain rule of (x - 0.5) / sqrt(2 + 0.1) * scale + offset, element by element."""
    results: list[Array] = [np.empty_like(x), np.zeros_like(scale), np.zeros_like(scale)]
    for place, given in np.ndenumerate(back):
        channel = place[-1]
        results[0][place] = given * scale[channel] / np.sqrt(2.1)
        results[1][channel] += given * (x[place] - 0.5) / np.sqrt(2.1)
        results[2][channel] += given
    return results[part]


def places(lengths: tuple[int, ...], stride: int, padding: str) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """The windows of edge 2, each with the places of its elements; half of the padding, rounded down, comes first."""
    axes = []
    for length in lengths:
        count = -(-length // stride) if padding == "SAME" else (length - 2) // stride + 1
        before = max((count - 1) * stride + 2 - length, 0) // 2 if padding == "SAME" else 0
        starts = [index * stride - before for index in range(count)]
        axes.append([[place for place in (start, start + 1) if 0 <= place < length] for start in starts])
    for window in np.ndindex(*map(len, axes)):
        yield window, list(itertools.product(*(axis[index] for axis, index in zip(axes, window, strict=True))))


def put_at_largest(x: Array, values: Array, windows: tuple[int, str]) -> Array:
    result = np.zeros_like(x)
    for window, inside in places(x.shape[:-1], *windows):
        for channel in range(x.shape[-1]):
            result[(*max(inside, key=lambda place: x[(*place, channel)]), channel)] += values[(*window, channel)]
    return result


def taken_at_largest(x: Array, values: Array, windows: tuple[int, str]) -> Array:
    found = {
        (*window, channel): values[(*max(inside, key=lambda place: x[(*place, channel)]), channel)]
        for window, inside in places(x.shape[:-1], *windows)
        for channel in range(x.shape[-1])
    }
    result = np.empty([1 + max(place[axis] for place in found) for axis in range(x.ndim)])
    for place, value in found.items():
        result[place] = value
    return result


def spread_means(x: Array, stride: int, padding: str) -> Array:
    lengths = tuple(length * stride + (padding == "VALID") for length in x.shape[:-1])
    result = np.zeros((*lengths, x.shape[-1]))
    for window, inside in places(lengths, stride, padding):
        for place in inside:
            result[place] += x[window] / len(inside)
    return result


def sampled(image: Array, rows: Any, columns: Any) -> Array:
    return np.array([[bilinear(image, float(row), float(column)) for column in columns] for row in rows])


def similarities(x: Array, y: Array, size: int, sigma: float, k: tuple[float, float]) -> Array:
    """Luminance and contrast of every window (Wang et al., "Image quality assessment", 2004, equations 6 and 9)."""
    places = np.arange(size) - (size - 1) / 2
    weights = np.exp(-(places[:, np.newaxis] ** 2 + places**2) / (2 * sigma**2))
    weights /= weights.sum()
    result = np.empty((2, x.shape[0] - size + 1, x.shape[1] - size + 1, x.shape[2]))
    for row, column, channel in np.ndindex(result.shape[1:]):
        a, b = (z[row : row + size, column : column + size, channel] for z in (x, y))
        m, n = np.sum(weights * a), np.sum(weights * b)
        covariance = np.sum(weights * (a - m) * (b - n))
        variances = np.sum(weights * (a - m) ** 2) + np.sum(weights * (b - n) ** 2)
        result[0, row, column, channel] = (2 * m * n + k[0] ** 2) / (m**2 + n**2 + k[0] ** 2)
        result[1, row, column, channel] = (2 * covariance + k[1] ** 2) / (variances + k[1] ** 2)
    return result


def ssim(x: Array, y: Array, size: int, sigma: float, k: tuple[float, float], mapped: bool) -> Array:
    return np.asarray(similarities(x, y, size, sigma, k).prod(axis=0).mean(axis=-1 if mapped else None))


def ssim_multiscale(x: Array, y: Array, power: float, k: tuple[float, float]) -> Array:
    one, two = (z.reshape(len(z) // 2, 2, -1, 2, z.shape[-1]).mean(axis=(1, 3)) for z in (x, y))
    first = similarities(x, y, 2, 1.5, k)[1].mean(axis=(0, 1))
    second = similarities(one, two, 2, 1.5, k).prod(axis=0).mean(axis=(0, 1))
    return np.asarray(np.mean(np.maximum(first, 0) ** power * np.maximum(second, 0) ** (1 - power)))


def standardized(x: Array) -> Array:
    return np.asarray((x - x.mean()) / max(x.std(), x.size**-0.5))


def product(x: Array, y: Array, options: Sequence[str]) -> Array:
    return np.asarray((x.T if "transpose_a" in options else x) @ (y.T if "transpose_b" in options else y))


def max_pool_channels_first(x: Array, stride: int, padding: str) -> Array:
    last = np.moveaxis(x, 0, -1)
    return np.moveaxis(taken_at_largest(last, last, (stride, padding)), -1, 0)


ORACLES: dict[str, Callable[..., Array]] = {
    "avg_pool3d": partial(pool3d, np.mean),
    "max_pool3d": partial(pool3d, np.max, ksize=2),
    "max_pool3d_unequal": partial(pool3d, np.max),
    "ctc_loss": ctc_loss,
    "ctc_loss_of_batch": ctc_losses,
    "ctc_loss_of_sparse_labels": ctc_losses,
    "ctc_loss_of_dense_labels": ctc_losses,
    "max_pool2d_channels_first": max_pool_channels_first,
    "max_pool_v2_channels_first": max_pool_channels_first,
    "max_pool3d_channels_first": max_pool_channels_first,
    "compute_average_loss": lambda x, weights, size: np.asarray(np.sum(x * weights) / size),
    "batch_norm_training": batch_norm,
    "batch_norm_inference": batch_norm,
    "batch_norm_with_global_normalization": lambda x, mean, variance, offset, scale, scaled: (
        (x - mean) / np.sqrt(variance + 0.1) * (scale if scaled else 1.0) + offset
    ),
    "batch_norm_frozen": lambda x, scale, offset: batch_norm(x, scale, offset, 0.5 + 0 * scale, 2.0 + 0 * scale),
    "batch_norm_v1": batch_norm,
    "batch_norm_v2": batch_norm,
    "batch_norm_in_layout": batch_norm,
    "batch_norm_grad": batch_norm_back,
    "batch_norm_grad_of_itself": lambda x, scale: batch_norm_back(x, scale, x, 0),
    "batch_norm_grad_frozen": frozen_batch_norm_back,
    "batch_norm_grad_v1": batch_norm_back,
    "batch_norm_grad_v2": batch_norm_back,
    "avg_pool3d_grad": spread_means,
    "max_pool3d_grad": put_at_largest,
    "max_pool3d_grad_grad": taken_at_largest,
    "batch_norm_mean": lambda x: x.mean(axis=(0, 1, 2)),
    "batch_norm_variance": lambda x: x.var(axis=(0, 1, 2), ddof=1),
    "local_response_normalization": response_normalization,
    "block_lstm": lstm("h"),
    "block_lstm_state": lstm("c"),
    "block_lstm_gate": lstm("o"),
    "block_lstm_peepholes": lstm("c"),
    "block_lstm_clipped": lstm("h"),
    "block_lstm_v2": lstm("h", "ifgo", 0.0),
    "block_lstm_v2_peepholes": lstm("h", "ifgo", 0.0),
    "resize_bilinear": of_batch(resize_bilinear),
    "resize_bilinear_corners": of_batch(
        lambda x, size: sampled(x, *(np.linspace(0, n - 1, k) for k, n in zip(size, x.shape[:2], strict=True)))
    ),
    "resize_bilinear_v1": of_batch(
        lambda x, size: sampled(
            x, *(np.minimum(np.arange(k) * n / k, n - 1) for k, n in zip(size, x.shape[:2], strict=True))
        )
    ),
    "crop_and_resize": crop_and_resize,
    "crop_and_resize_of_integers": lambda boxes: crop_and_resize(np.pad([[[9.0]]], ((1, 1), (1, 1), (0, 0))), boxes),
    "projective_transform": projected,
    "legacy_projective_transform": projected,
    "projective_transform_scaled": projected,
    "rgb_to_grayscale": lambda x: 0.2989 * x[..., :1] + 0.587 * x[..., 1:2] + 0.114 * x[..., 2:],
    "adjust_brightness": lambda x, delta: x + delta,
    "adjust_gamma": lambda x, gamma, gain: gain * x**gamma,
    "per_image_standardization": standardized,
    # The first of numbers between -0.5 and 0.5 from this seed.
    "random_brightness": lambda x: x + tf.random.stateless_uniform([], (1, 2), -0.5, 0.5).numpy(),
    "approx_max_k": lambda x, k: -np.sort(-x)[..., :k],
    "ctc_loss_dense": ctc_loss,
    "psnr": lambda x, y, largest: np.asarray(10 * np.log10(largest**2 / np.mean((x - y) ** 2))),
    "ssim": ssim,
    "keras_affine_transform_of_matrix": affine_image,
    "sparse_matmul": product,
    "ssim_multiscale": ssim_multiscale,
    "ssim_multiscale_of_opposites": lambda x: np.zeros([]),
}
NAMES = sorted(ORACLES)


def test_every_reference_has_an_oracle() -> None:
    own = {s.name for s in CATALOGUE.values() if s.reference and s.family not in LOCAL} - set(DOCUMENTED)
    assert own == set(ORACLES)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_the_operation(name: str, sampler: Any, subtests: pytest.Subtests) -> None:
    spec, oracle, rng = CATALOGUE[name], ORACLES[name], np.random.default_rng(7)
    examples = list(sampler.generic(spec, each=2))
    rights = [oracle(*example.arguments, **example.attributes) for example in examples]
    with subtests.test("the operation has the value of its oracle"):
        for example, right in zip(examples, rights, strict=True):
            value = single(spec)(*map(tf.constant, example.arguments), **example.attributes).numpy()
            np.testing.assert_allclose(value, right, rtol=spec.rtol, atol=spec.rtol)
    with subtests.test("the reference has the value, alone and in a batch"):
        for example, right in zip(examples, rights, strict=True):
            points = [np.stack([x, x * 0.75, x * 0.875]) for x in example.arguments]
            others = [oracle(*(p[row] for p in points), **example.attributes) for row in (1, 2)]
            batch = over_points(spec, reference=True)(*map(tf.constant, points), **example.attributes)
            one = over_points(spec, reference=True)(*(tf.constant(p[1]) for p in points), **example.attributes)
            np.testing.assert_allclose(batch.numpy(), [right, *others], rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(one.numpy(), others[0], rtol=1e-13, atol=1e-13)
    with subtests.test("the reference has the gradient"):
        for example, right in list(zip(examples, rights, strict=True))[::2]:
            assert_gradient(spec, oracle, example, rng.standard_normal(np.shape(right)))


def assert_gradient(spec: OpSpec, oracle: Callable[..., Array], example: Any, weights: Array) -> None:
    arguments = [tf.constant(x) for x in example.arguments]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = tf.reduce_sum(weights * over_points(spec, reference=True)(*arguments, **example.attributes))
    gradients = tape.gradient(value, arguments, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    for position, gradient in enumerate(gradients):
        slopes = _slopes(oracle, example, position, weights)
        np.testing.assert_allclose(gradient.numpy(), slopes, rtol=1e-7, atol=1e-8)


@pytest.mark.sliced
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("ctc_loss")])
def test_ctc_rounds_as_float32_does_and_by_no_more_than_is_declared(name: str, sampler: Any) -> None:
    """The float64 kernel, too, adds logarithms in float32 (ctc_loss_util.h): else it would need no `rtol`."""
    spec, worst = CATALOGUE[name], 0.0
    for example in sampler.generic(spec, each=20 if slices.exhaustively else 4):
        x = tf.constant(example.arguments[0])
        of_tensorflow, of_formula = (
            _value_and_gradient(function, x, example.attributes)
            for function in (single(spec), over_points(spec, reference=True))
        )
        for one, right in zip(of_tensorflow, of_formula, strict=True):
            # Logarithms of at least 1 are added up, and differences taken of probabilities: smaller results cancel.
            worst = max(worst, np.max(np.abs(one - right)) / max(1.0, np.max(np.abs(right))))
    assert 2.0**-26 < worst < spec.rtol


def _value_and_gradient(function: Callable[..., Any], x: tf.Tensor, attributes: dict[str, Any]) -> tuple[Array, Array]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x, **attributes)
    return value.numpy(), tape.gradient(value, x).numpy()


def _slopes(oracle: Callable[..., Array], example: Any, position: int, weights: Array, step: float = 1e-5) -> Array:
    """Central differences of an oracle's weighted sum in one of its arguments."""

    def moved(element: tuple[int, ...], by: float) -> float:
        arguments = [np.array(x) for x in example.arguments]
        arguments[position][element] += by
        return float(np.sum(weights * oracle(*arguments, **example.attributes)))

    shape = example.arguments[position].shape
    slopes = [(moved(element, step) - moved(element, -step)) / (2 * step) for element in np.ndindex(shape)]
    return np.array(slopes).reshape(shape)
