"""Signals in frames, and what is made of frames: spectrograms, cosine transforms, windows (`signal`)."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.language import along_axis, operation
from gradcheck.hunt.catalogue.shapes import axes, nonempty_matrix, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE

_signal = partial(operation, "signal", shapes=vector)
_long = partial(_signal, when=lambda shape: shape[-1] >= 4, starts=((4,), (5,), (8,), (2, 4)))
_shifted = partial(_signal, batching=along_axis, starts=((2,), (3,), (2, 3)), axis=axes)
_of_coefficients = partial(_signal, starts=((2,), (3,), (4,), (2, 3)))
_of_frames = partial(_signal, shapes=nonempty_matrix)


def _frame_steps(shape: Shape) -> range:
    return range(1, shape[-1] + 1)


FRAMES = (
    _shifted("fftshift", "tf.signal.fftshift({0}, axes={axis})", "Roll"),
    _shifted("ifftshift", "tf.signal.ifftshift({0}, axes={axis})", "Roll"),
    _signal(
        "frame",
        "tf.signal.frame({0}, {length}, {step}, pad_end={padded}, pad_value=2.0, axis={axis})",
        "GatherV2 Reshape",
        batching=along_axis,
        starts=((3,), (4,), (2, 3)),
        length=(2, 1),
        step=(1, 2, 3),
        padded=BOOL,
        axis=axes,
        when=lambda shape: min(shape) > 1,
    ),
    _of_frames(
        "overlap_and_add",
        "tf.signal.overlap_and_add({0}, {step})",
        "Sum Pad",
        starts=((2, 2), (3, 2), (2, 3), (2, 2, 2)),
        step=_frame_steps,
    ),
    _long(
        "stft",
        "tf.signal.stft({0}, {length}, {step}, fft_length={bins}, window_fn=[None, tf.signal.hann_window][{windowed}], "
        "pad_end={padded})",
        "RFFT",
        result="complex128",
        length=(4, 3, 2),
        step=(1, 2, 3),
        bins=(None, 4, 8),
        windowed=BOOL,
        padded=BOOL,
    ),
    _of_frames(
        "inverse_stft",
        "tf.signal.inverse_stft({0}, {length}, {step}, fft_length=2 * {0}.shape[-1] - 2, "
        "window_fn=[None, tf.signal.hann_window, tf.signal.inverse_stft_window_fn({step})][{window}])",
        "IRFFT",
        when=lambda shape: shape[-1] > 1,
        starts=((2, 3), (1, 2), (2, 2, 3)),
        dtypes=("complex128",),
        length=lambda shape: (2 * shape[-1] - 2, 2, 2 * shape[-1]),
        step=(1, 2),
        window=(0, 1, 2),
    ),
    _long(
        "mdct",
        "tf.signal.mdct({0}, {length}, window_fn=[None, tf.signal.vorbis_window][{windowed}], pad_end={padded}, "
        "norm={norm})",
        "RFFT Real",
        length=(4, 8),
        windowed=BOOL,
        padded=(True,),
        norm=(None, "ortho"),
    ),
    _of_frames(
        "inverse_mdct",
        "tf.signal.inverse_mdct({0}, window_fn=[None, tf.signal.vorbis_window][{windowed}], norm={norm})",
        "Real",
        when=lambda shape: shape[-1] % 2 == 0,
        starts=((2, 2), (1, 4), (2, 2, 2)),
        windowed=BOOL,
        norm=(None, "ortho"),
    ),
    _of_coefficients(
        "idct", "tf.signal.idct({0}, type={type}, norm={norm})", "RFFT", type=(2, 3), norm=(None, "ortho")
    ),
    _of_coefficients("idct_type_1", "tf.signal.idct({0}, type=1)", "RFFT", when=lambda shape: shape[-1] > 1),
    _of_coefficients("mfccs_from_log_mel_spectrograms", "tf.signal.mfccs_from_log_mel_spectrograms({0})", "RFFT"),
    operation(
        "signal",
        "kaiser_window",
        "tf.signal.kaiser_window({length}, beta={0}, dtype=tf.float64)",
        "BesselI0e",
        POSITIVE,
        looped=True,
        when=lambda shape: shape == (),
        starts=((),),
        length=(3, 4, 2),
    ),
)
