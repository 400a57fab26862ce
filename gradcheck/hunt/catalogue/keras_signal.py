"""Spectra of frames, complex numbers and scattering in `keras.ops` (families `signal`, `math`, `array`)."""

from __future__ import annotations

from functools import partial

from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.shapes import at_least, broadcasting, vector
from gradcheck.hunt.opspec import BOOL, Indices

_signal = partial(operation, "signal", window=("hann", "hamming", None), centred=BOOL)

KERAS_SIGNAL = (
    _signal(
        "keras_stft",
        "tf.keras.ops.stft({0}, 4, {stride}, 4, window={window}, center={centred})[{which}]",
        "RFFT MirrorPad",
        shapes=at_least(4),
        starts=((4,), (6,), (5,)),
        stride=(2, 1),
        which=(0, 1),
    ),
    _signal(
        "keras_istft",
        "tf.keras.ops.istft(({0}, {1}), 4, {stride}, 4, window={window}, center={centred})",
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
        "tf.keras.ops.polar({0}, {1})",
        "Cos Sin Complex Mul",
        shapes=broadcasting,
        broadcasts=True,
        result="complex128",
    ),
    operation(
        "array",
        "keras_scatter_multiply",
        "tf.keras.ops.scatter_update({0}, [[index] for index in {ids}], {1}, reduction='mul')",
        "TensorScatterUpdate GatherNd",
        looped=True,
        shapes=vector,
        others=lambda shape: [((2, *shape[1:]),)],
        starts=((2,), (3,), (2, 2)),
        ids=lambda shape, *_: Indices(2, shape[0]),
    ),
)
