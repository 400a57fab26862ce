"""Functions and layers of Keras for images (height, width, channels) and signals that have formulas of their own."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import from_negative_reals
from gradcheck.operations.images import SINGLE
from gradcheck.operations.keras_nn import LAYOUTS, spread, weighted_layer
from gradcheck.operations.keras_ops import from_ties_of_quantile
from gradcheck.operations.language import operation, tf
from gradcheck.operations.shapes import alike, at_least, broadcasting, several, vector
from gradcheck.operations.spec import BOOL, Indices, Interval, Shapes
from gradcheck.operations.special_sets import CANCELLING_FRAME
from gradcheck.typing import Array

REACH = 2.75
"""Places lie between -2.75 and 2.75, inside of small images and beyond all of their edges."""
SAMPLES = (3, 2)
"""So high and so wide is what scale_and_translate makes."""

_image = partial(operation, "image", shapes=at_least(2, 2, 1), starts=((2, 2, 1), (3, 3, 1), (2, 3, 2)))
# Keras's fifth mode, "mirror", asks for the pixel behind the last one, which GatherNd refuses.
FILLS = ("constant", "nearest", "wrap", "reflect")
# In modes these are what gather_nd is there.
_places = partial(operation, "image", looped=True, fill=FILLS, value=(0.0, 1.0), modes=())


def _carried_on(x: Array, pixel: Array, fill: str, value: float) -> float:
    """The pixel, of inside of the image or of beyond its edges."""
    sizes = np.array(x.shape)
    if fill == "constant":
        return float(x[tuple(pixel)]) if np.all((pixel >= 0) & (pixel < sizes)) else value
    turned = np.abs(pixel) % (2 * sizes)
    folded = {
        "nearest": np.clip(pixel, 0, sizes - 1),
        "wrap": pixel % sizes,
        "reflect": np.where(turned < sizes, turned, 2 * sizes - 1 - turned),
    }
    return float(x[tuple(folded[fill])])


def _between_pixels(x: Array, place: Array, fill: str, value: float) -> float:
    lower = np.floor(place)
    corners = [np.array(corner) for corner in product((0, 1), repeat=x.ndim)]
    shares = [float(np.prod(np.where(corner, place - lower, 1 - place + lower))) for corner in corners]
    pixels = [_carried_on(x, (lower + corner).astype(int), fill, value) for corner in corners]
    return float(np.dot(shares, pixels))


def _from_bends(x: Array, angles: Array, *, fill: str, value: float) -> Array:
    """How far the places are from pixels, where the image, carried on beyond its edges, bends at these."""
    uneven = x + np.sin(1.0 + np.arange(x.size)).reshape(x.shape)
    places = REACH * np.sin(angles).reshape(x.ndim, -1).T
    distances = []
    for place, step in product(places, np.eye(x.ndim)):
        pixel = np.where(step, np.round(place), place)
        before, there, behind = (_between_pixels(uneven, pixel + side * step, fill, value) for side in (-1, 0, 1))
        bends = abs(before - 2 * there + behind) > 1e-9
        distances.append(np.max(np.abs(place - pixel)) if bends else np.inf)
    return np.array(distances)


def _samples(sizes: Shape, scales: Array, shifts: Array) -> list[tuple[Array, float, int]]:
    """Along each axis the places of the samples between pixels, the scale, and the number of pixels."""
    axes = zip(SAMPLES, 1.0 + 0.5 * np.sin(scales), shifts, sizes, strict=False)
    return [((np.arange(count) + 0.5 - shift) / scale - 0.5, scale, size) for count, scale, shift, size in axes]


def _from_edges(x: Array, scales: Array, shifts: Array, **_attributes: Any) -> Array:
    """Samples beyond the edges are 0."""
    return np.concatenate(
        [np.abs(places - edge) for places, _, size in _samples(x.shape, scales, shifts) for edge in (-0.5, size - 0.5)]
    )


def _from_corners(x: Array, scales: Array, shifts: Array, *, smoothed: bool, method: str) -> Array:
    """Where a sample inside of the image meets a corner of a pixel's weights, or these are about to become wider."""
    distances = []
    for gaps, scale, width in _gaps(x.shape, scales, shifts, smoothed=smoothed):
        distances += [gaps, np.abs(gaps - width)] if method == "linear" else []
        distances += [np.abs(scale - 1.0)[np.newaxis]] if smoothed else []
    return np.concatenate([np.full(1, np.inf), *distances])


def _from_ends_of_cubes(x: Array, scales: Array, shifts: Array, *, smoothed: bool, method: str) -> Array:
    """The shifts to where, for a sample inside of the image, the weights of cubes go over into others, or end."""
    every = _gaps(x.shape, scales, shifts, smoothed=smoothed) if method == "cubic" else []
    ends = [scale * np.abs(gaps - at * width) for gaps, scale, width in every for at in (1, 2)]
    return np.concatenate([np.full(1, np.inf), *ends])


def _gaps(sizes: Shape, scales: Array, shifts: Array, *, smoothed: bool) -> list[tuple[Array, float, float]]:
    """Along each axis how far samples inside of the image are from pixels, the scale, and how wide weights are.

    There are none where all lie beside the image along an axis.
    """
    found = []
    for places, scale, size in _samples(sizes, scales, shifts):
        inside = places[(places > -0.5) & (places < size - 0.5)]
        gaps = np.abs(inside[:, np.newaxis] - np.arange(size)).ravel()
        found.append((gaps, scale, max(1 / scale, 1.0) if smoothed else 1.0))
    return found if all(gaps.size for gaps, _, _ in found) else []


def _some_places(shape: Shape) -> Shapes:
    return [((len(shape), 2),), ((len(shape), 1),), ((len(shape), 2, 2),)]


KERAS_IMAGES = (
    _places(
        "keras_map_coordinates",
        # A flat image would have kinks of second order alone.
        lambda x, y, *, fill, value: tf.keras.ops.image.map_coordinates(
            x + spread(*x.shape), REACH * tf.sin(y), 1, fill_mode=fill, fill_value=value
        ),
        "GatherNd Mul Sub",
        shapes=vector,
        when=lambda shape: len(shape) < 3,
        others=_some_places,
        starts=((2,), (3,), (2, 2), (1,), (2, 3)),
        kinks=_from_bends,
    ),
    _places(
        "keras_map_coordinates_of_places",
        lambda x, *, rows, columns, degree, fill, value: tf.keras.ops.image.map_coordinates(
            x, np.array([rows, columns]), degree, fill_mode=fill, fill_value=value
        ),
        "GatherNd Mul",
        shapes=at_least(1, 1),
        starts=((2, 2), (1, 2), (2, 3)),
        rows=((0.0, 1.0), (0.5, 0.5), (-1.25, 7.75)),
        columns=((1.0, 0.0), (0.25, 0.25), (2.5, -4.5)),
        degree=(1, 0),
    ),
    _image(
        "keras_gaussian_blur",
        lambda x, y, *, size, layout: tf.keras.ops.image.gaussian_blur(x, size, 0.5 + tf.square(y), data_format=layout),
        "DepthwiseConv2dNative Exp RealDiv",
        looped=True,
        others=lambda _: [((2,),)],
        size=((3, 3), (2, 2), (3, 1)),
        layout=LAYOUTS,
    ),
    _image(
        "keras_elastic_transform",
        lambda x, *, alpha, sigma, between, fill, layout: tf.keras.ops.image.elastic_transform(
            x,
            alpha=alpha,
            sigma=sigma,
            interpolation=between,
            fill_mode=fill,
            fill_value=1.0,
            seed=1,
            data_format=layout,
        ),
        "GatherNd Mul",
        looped=True,
        alpha=(2.0, 20.0),
        sigma=(1.5, 0.5),
        between=("bilinear", "nearest"),
        fill=FILLS,
        layout=LAYOUTS,
        modes=(),
    ),
    # The weights of cubes bend at second order, wherever a sample meets a pixel.
    _image(
        "keras_scale_and_translate",
        lambda x, y, z, *, method, smoothed: tf.keras.ops.image.scale_and_translate(
            x + spread(*x.shape), (3, 2, x.shape[-1]), 1.0 + 0.5 * tf.sin(y), z, (0, 1), method, antialias=smoothed
        ),
        "Abs MatMul RealDiv",
        looped=True,
        others=lambda _: [((2,), (2,))],
        method=("linear", "cubic"),
        smoothed=(False, True),
        kinks=_from_corners,
        singular=_from_edges,
        curvature_jumps=_from_ends_of_cubes,
        expensive=(2,),
    ),
    _image(
        "keras_scale_and_translate_of_places",
        lambda x, *, scale, shift, method, smoothed: tf.keras.ops.image.scale_and_translate(
            tf.identity(x), (3, 2, x.shape[-1]), np.array(scale), np.array(shift), (0, 1), method, antialias=smoothed
        ),
        "MatMul",
        batched=lambda x, *, scale, shift, method, smoothed: tf.keras.ops.image.scale_and_translate(
            x, (x.shape[0], 3, 2, x.shape[-1]), np.array(scale), np.array(shift), (1, 2), method, antialias=smoothed
        ),
        scale=((1.0, 1.0), (2.0, 0.5), (0.75, 1.5)),
        shift=((0.0, 0.0), (0.25, 0.0), (-0.5, 1.0)),
        method=("linear", "cubic", "lanczos3", "lanczos5"),
        smoothed=(True, False),
    ),
    _image(
        "keras_ssim",
        lambda x, y, *, size, sigma: tf.keras.ops.image.ssim(
            x, y, filter_size=size, filter_sigma=sigma, k1=0.2, k2=0.4, data_format="channels_last"
        ),
        "Conv2D RealDiv Mean",
        Interval(0.0, 1.0, closed=True),
        others=alike,
        size=(2, 1),
        sigma=(1.5, 0.5),
    ),
    # ResizeArea has no registered gradient, and ScaleAndTranslateGrad takes single precision only. In modes these are
    # what resize_bilinear, resize_bicubic and resize_antialiased are there.
    _image(
        "keras_resize_to_aspect",
        lambda x, *, size, how, cut, fill, layout: tf.cast(
            tf.keras.ops.image.resize(
                tf.cast(x, tf.float32),
                size,
                interpolation=how,
                crop_to_aspect_ratio=cut,
                pad_to_aspect_ratio=not cut,
                fill_value=fill,
                data_format=layout,
            ),
            tf.float64,
        ),
        "Cast",
        starts=((2, 2, 1), (3, 2, 2), (2, 5, 1)),
        size=((2, 2), (1, 2), (4, 2)),
        how=("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5"),
        cut=BOOL,
        fill=(0.0, 1.0),
        layout=LAYOUTS,
        rtol=SINGLE,
        modes=(),
    ),
)


_signal = partial(operation, "signal", window=("hann", "hamming", None), centred=BOOL)
_correlation = partial(operation, "math", shapes=vector, when=several, others=alike, starts=((2,), (3,), (2, 3)))

KERAS_SIGNAL = (
    _signal(
        "keras_stft",
        lambda x, *, stride, window, centred, which: tf.keras.ops.stft(x, 4, stride, 4, window=window, center=centred)[
            which
        ],
        "RFFT MirrorPad",
        shapes=at_least(4),
        starts=((4,), (6,), (5,)),
        stride=(2, 1),
        which=(0, 1),
    ),
    _signal(
        "keras_istft",
        lambda x, y, *, stride, window, centred: tf.keras.ops.istft(
            (x, y), 4, stride, 4, window=window, center=centred
        ),
        "IRFFT Complex",
        shapes=at_least(2, 3),
        when=lambda shape: shape[-1] == 3,
        others=lambda shape: [(shape,)],
        starts=((2, 3), (3, 3)),
        stride=(2, 1),
    ),
    operation(
        "math",
        "keras_polar",
        lambda x, y: tf.keras.ops.polar(x, y),
        "Cos Sin Complex Mul",
        shapes=broadcasting,
        broadcasts=True,
        result="complex128",
    ),
    operation(
        "array",
        "keras_scatter_multiply",
        lambda x, y, *, ids: tf.keras.ops.scatter_update(x, [[index] for index in ids], y, reduction="mul"),
        "TensorScatterUpdate GatherNd",
        looped=True,
        shapes=vector,
        others=lambda shape: [((2, *shape[1:]),)],
        starts=((2,), (3,), (2, 2)),
        ids=lambda shape, *_: Indices(2, shape[0]),
    ),
    # Along an axis every row is a call of its own in a tf.map_fn, as mapped operations have it.
    operation(
        "math",
        "keras_nanquantile",
        lambda x, *, q, method: tf.keras.ops.nanquantile(
            tf.concat([x, tf.zeros_like(x) + np.nan], 0), q, method=method
        ),
        "SelectV2 GatherV2 TopKV2",
        looped=True,
        shapes=vector,
        starts=((2,), (3,), (2, 2)),
        q=(0.25, 0.9, 0.0, 1.0),  # of equal elements the median is odd: no line shows its kink
        method=("linear", "lower", "higher", "midpoint", "nearest"),
        kinks=partial(from_ties_of_quantile, axis=None),
    ),
    _correlation(
        "keras_pearson_correlation",
        lambda x, y: tf.keras.metrics.pearson_correlation(x, y),
        "RealDiv Sqrt Mean",
        singular=lambda x, y: np.stack([np.std(x, axis=-1), np.std(y, axis=-1)]),
    ),
    _correlation(
        "keras_concordance_correlation",
        # Where all are equal it bends with a second derivative of 1e7; what is added keeps some apart.
        lambda x, y: tf.keras.metrics.concordance_correlation(x, y + spread(y.shape[-1])),
        "RealDiv Square Mean",
    ),
)


_batch = partial(operation, "nn", in_batch=True)

LEAST_SIZE = 1e-7**0.5
"""Lower limit that the layer applies to the values of a spectrum."""
SOFT_TONE = LEAST_SIZE / 4
"""Silence is given a tone so soft that it is as much."""
SHARES = (0.49789438, 0.5021056)
"""Shares of the middle one of three frequencies in the two bins around it."""
LEAST_POWER = 1e-10
SOFTEST = (LEAST_POWER / SHARES[1]) ** 0.5


def _spectra(x: Array) -> Array:
    """The frequencies of frames of four steps, two apart, along the first axis."""
    frames = np.lib.stride_tricks.sliding_window_view(x, 4, axis=0)[::2]
    return np.asarray(np.fft.rfft(frames, axis=-1))


def _from_least_size(x: Array) -> Array:
    return np.asarray(np.abs(np.abs(_spectra(x + SOFT_TONE)) - LEAST_SIZE))


def _from_leaping_angle(x: Array) -> Array:
    return from_negative_reals(_spectra(x)[..., 1])


def _from_cuts_of_decibels(x: Array, *, range: float) -> Array:
    """A power below the least one, or so far below the largest, counts as that."""
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(x + SOFTEST, 2, mode="reflect"), 4)[::2]
    sizes = np.abs(np.fft.rfft(frames * [0.0, 0.5, 1.0, 0.5])[..., 1:2])
    powers = np.maximum(sizes**2 * SHARES, LEAST_POWER)
    least = np.max(powers) * 10 ** (-range / 10)
    cuts = [LEAST_POWER, *([least] if least > LEAST_POWER else [])]
    largest = np.diff(np.sort(sizes.ravel()))[-1:] if np.any(powers < least) else np.full(1, np.inf)
    return np.concatenate([largest, *(np.abs(sizes - np.sqrt(cut / np.array(SHARES))).ravel() for cut in cuts)])


_spectral = partial(_batch, shapes=at_least(4, 1), starts=((4, 1), (6, 1), (5, 2)))

KERAS_SPECTROGRAMS = (
    operation(
        "nn",
        "keras_mel_spectrogram",
        lambda x: weighted_layer(
            tf.keras.layers.MelSpectrogram,
            x,
            [],
            fft_length=4,
            sequence_stride=2,
            sequence_length=4,
            window=None,
            sampling_rate=8,
            num_mel_bins=2,
            min_freq=0.0,
            max_freq=4.0,
            power_to_db=False,
        ),
        "RFFT Sqrt Pow",
        shapes=at_least(4),
        starts=((4,), (5,)),
    ),
    operation(
        "nn",
        "keras_mel_spectrogram_in_decibels",
        # A reference of Python's is a number in single precision, which signals in double precision refuse.
        lambda x, *, range: weighted_layer(
            tf.keras.layers.MelSpectrogram,
            x + SOFTEST,
            [],
            fft_length=4,
            sequence_stride=2,
            sampling_rate=8,
            num_mel_bins=2,
            min_freq=0.0,
            top_db=range,
            ref_power=np.float64(1.0),
        ),
        "RFFT Maximum Log Max",
        looped=True,  # what is cut off depends on the largest of all signals
        shapes=at_least(5),
        when=lambda shape: shape[0] % 2,  # of an even number of steps, the last two frames are one mirrored
        starts=((5,), (7,)),
        range=(80.0, 3.0),
        singular=_from_cuts_of_decibels,
        expensive=(2,),
        modes=(),  # what keras_mel_spectrogram is there
    ),
    # A window that has a name is made by SciPy, which the project does not need.
    _spectral(
        "keras_stft_spectrogram",
        lambda x, *, mode, step, length, window, scaling, padding, expanded: weighted_layer(
            tf.keras.layers.STFTSpectrogram,
            x,
            [],
            frame_length=4,
            mode=mode,
            frame_step=step,
            fft_length=length,
            window=window,
            scaling=scaling,
            padding=padding,
            expand_dims=expanded,
        ),
        "Conv2D",
        mode=("psd", "real", "imag", "stft"),
        step=(None, 1, 4),
        length=(None, 8),
        window=(None, (0.5, 1.0, 1.0, 0.25)),
        scaling=("density", "spectrum", None),
        padding=("valid", "same"),
        expanded=BOOL,
    ),
    _spectral(
        "keras_stft_spectrogram_of_magnitudes",
        lambda x: weighted_layer(
            tf.keras.layers.STFTSpectrogram,
            x + SOFT_TONE,
            [],
            frame_length=4,
            window=None,
            mode="magnitude",
        ),
        "Conv2D Sqrt Maximum",
        kinks=_from_least_size,
    ),
    _spectral(
        "keras_stft_spectrogram_of_logarithms",
        lambda x: weighted_layer(tf.keras.layers.STFTSpectrogram, x + SOFT_TONE, [], frame_length=4, window=None),
        "Conv2D Log Sqrt Maximum",
        singular=_from_least_size,  # behind the cut the slope is 3,000
    ),
    # Of the lowest and the highest frequency the imaginary part is rounding alone, whose sign is that of the angle.
    _spectral(
        "keras_stft_spectrogram_of_angles",
        lambda x: weighted_layer(tf.keras.layers.STFTSpectrogram, x, [], frame_length=4, window=None, mode="angle")[
            ..., 1:2
        ],
        "Conv2D Atan2",
        when=lambda shape: shape[-1] == 1,
        starts=((4, 1), (6, 1), (5, 1)),
        singular=_from_leaping_angle,
        special=(CANCELLING_FRAME,),
    ),
)
