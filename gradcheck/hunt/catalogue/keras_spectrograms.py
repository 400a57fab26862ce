"""Spectrograms of `keras.layers` (family `nn`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import from_negative_reals
from gradcheck.hunt.catalogue.keras_layers import weighted_layer
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.shapes import at_least
from gradcheck.hunt.opspec import BOOL, Array

_batch = partial(operation, "nn", in_batch=True)

LEAST_SIZE = 1e-7**0.5
"""What is less than that in a spectrum counts as that."""
SOFT_TONE = LEAST_SIZE / 4
"""Silence is given a tone so soft that it is as much."""
SHARES = (0.49789438, 0.5021056)
"""So much of the middle one of three frequencies either bin holds."""
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


_signal = partial(_batch, shapes=at_least(4, 1), starts=((4, 1), (6, 1), (5, 2)))

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
        dear=(2,),
        modes=(),  # what keras_mel_spectrogram is there
    ),
    # A window that has a name is made by SciPy, which the project does not need.
    _signal(
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
    _signal(
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
    _signal(
        "keras_stft_spectrogram_of_logarithms",
        lambda x: weighted_layer(tf.keras.layers.STFTSpectrogram, x + SOFT_TONE, [], frame_length=4, window=None),
        "Conv2D Log Sqrt Maximum",
        singular=_from_least_size,  # behind the cut the slope is 3,000
    ),
    # Of the lowest and the highest frequency the imaginary part is rounding alone, whose sign is that of the angle.
    _signal(
        "keras_stft_spectrogram_of_angles",
        lambda x: weighted_layer(tf.keras.layers.STFTSpectrogram, x, [], frame_length=4, window=None, mode="angle")[
            ..., 1:2
        ],
        "Conv2D Atan2",
        when=lambda shape: shape[-1] == 1,
        starts=((4, 1), (6, 1), (5, 1)),
        singular=_from_leaping_angle,
    ),
)
