"""The census's family `signal`: Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Choice, OpSpec
from gradcheck.hunt.shape_rules import only_if, vector

VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (4,), (2, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (2, 2, 2))
BLOCKS: tuple[Shape, ...] = ((1, 2, 2), (2, 2, 2), (2, 1, 3))

_complex: Callable[..., OpSpec] = partial(
    OpSpec, family="signal", shapes=vector, starts=VECTORS, dtypes=("complex128",), result="complex128"
)
_plane = only_if(lambda shape: len(shape) >= 2 and all(shape))
_block = only_if(lambda shape: len(shape) >= 3 and all(shape))

OPERATIONS = (
    OpSpec(
        "rfft",
        "signal",
        "tf.signal.rfft({0}, fft_length=[{length}])",
        ("RFFT",),
        shapes=vector,
        starts=VECTORS,
        attributes=lambda shape: {"length": Choice((shape[-1], shape[-1] + 1))},
        result="complex128",
    ),
    OpSpec(
        "rfft_truncated",
        "signal",
        "tf.signal.rfft({0}, fft_length=[{0}.shape[-1] - 1])",
        ("RFFT",),
        shapes=only_if(lambda shape: bool(vector(shape)) and shape[-1] > 1),
        starts=VECTORS,
        result="complex128",
    ),
    OpSpec(
        "irfft",
        "signal",
        "tf.signal.irfft({0}, fft_length=[{length}])",
        ("IRFFT",),
        shapes=only_if(lambda shape: bool(vector(shape)) and shape[-1] > 1),
        starts=VECTORS,
        attributes=lambda shape: {"length": Choice((2 * shape[-1] - 2, 2 * shape[-1] - 1))},
        dtypes=("complex128",),
    ),
    OpSpec(
        "irfft_truncated",
        "signal",
        "tf.signal.irfft({0}, fft_length=[2 * {0}.shape[-1] - 4])",
        ("IRFFT",),
        shapes=only_if(lambda shape: bool(vector(shape)) and shape[-1] > 2),
        starts=VECTORS,
        dtypes=("complex128",),
    ),
    _complex("fft", source="tf.signal.fft({0})", gradients=("FFT",)),
    _complex("ifft", source="tf.signal.ifft({0})", gradients=("IFFT",)),
    _complex("fft2d", source="tf.signal.fft2d({0})", gradients=("FFT2D",), shapes=_plane, starts=MATRICES),
    _complex("ifft2d", source="tf.signal.ifft2d({0})", gradients=("IFFT2D",), shapes=_plane, starts=MATRICES),
    _complex("fft3d", source="tf.signal.fft3d({0})", gradients=("FFT3D",), shapes=_block, starts=BLOCKS),
    _complex("ifft3d", source="tf.signal.ifft3d({0})", gradients=("IFFT3D",), shapes=_block, starts=BLOCKS),
    OpSpec(
        "rfft2d",
        "signal",
        "tf.signal.rfft2d({0})",
        ("RFFT2D",),
        shapes=_plane,
        starts=MATRICES,
        result="complex128",
    ),
    OpSpec(
        "irfft2d",
        "signal",
        "tf.signal.irfft2d({0}, fft_length=[{0}.shape[-2], {length}])",
        ("IRFFT2D",),
        shapes=only_if(lambda shape: len(shape) >= 2 and all(shape) and shape[-1] > 1),
        starts=MATRICES,
        attributes=lambda shape: {"length": Choice((2 * shape[-1] - 2, 2 * shape[-1] - 1))},
        dtypes=("complex128",),
    ),
    OpSpec(
        "power_spectrum",
        "signal",
        "tf.math.real(tf.signal.rfft({0}) * tf.math.conj(tf.signal.rfft({0})))",
        ("RFFT", "Conj", "Real"),
        shapes=vector,
        starts=VECTORS,
    ),
    OpSpec(
        "dct",
        "signal",
        "tf.signal.dct({0}, type={kind}, norm={norm})",
        ("Mul",),
        shapes=only_if(lambda shape: bool(vector(shape)) and shape[-1] > 1),
        starts=VECTORS,
        attributes=lambda shape: {"kind": Choice((2, 3)), "norm": Choice((None, "ortho"))},
    ),
)
