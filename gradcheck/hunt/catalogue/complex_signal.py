"""Into, within and out of the complex numbers (family `math`), and Fourier transforms (`signal`)."""

from __future__ import annotations

from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at_zero
from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.shapes import broadcasting, matmul, nonempty_matrix, ranked, several, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, Array

_math = partial(operation, "math")
_real = partial(_math, dtypes=("complex128",))
_complex = partial(_math, dtypes=("complex128",), result="complex128")
_complex_pair = partial(_complex, broadcasts=True, shapes=broadcasting)
_complex_row = partial(_complex, shapes=ranked, starts=((2,), (1,), (2, 2)))


def _from_negative_reals(x: Array) -> Array:
    return np.where(x.real > 0, np.abs(x), np.abs(x.imag))


COMPLEX = (
    _math("complex", "tf.complex({0}, {1})", "Complex", broadcasts=True, shapes=broadcasting, result="complex128"),
    _real("real", "tf.math.real({0})", "Real"),
    _real("imag", "tf.math.imag({0})", "Imag"),
    _complex("conj", "tf.math.conj({0})", "Conj"),
    _real("complex_abs", "tf.abs({0})", "ComplexAbs", kinks=at_zero),
    _real("angle", "tf.math.angle({0})", "Angle", singular=_from_negative_reals),
    _complex("complex_exp", "tf.exp({0})", "Exp"),
    _complex("complex_square", "tf.square({0})", "Square"),
    _complex("complex_tanh", "tf.tanh({0})", "Tanh", POSITIVE),
    _complex("complex_log", "tf.math.log({0})", "Log", POSITIVE),
    _complex("complex_sqrt", "tf.sqrt({0})", "Sqrt", POSITIVE),
    _complex("complex_sign", "tf.sign({0})", "ComplexAbs", singular=at_zero),
    _complex_pair("complex_multiply", "{0} * {1}", "Mul"),
    _complex_pair("complex_divide", "{0} / {1}", "RealDiv", POSITIVE),
    _complex_pair("complex_pow", "tf.pow({0}, {1})", "Pow", POSITIVE),
    _complex_pair(
        "complex_matmul",
        "tf.matmul(tf.math.conj({0}), {1})",
        "BatchMatMulV2 MatMul Conj",
        shapes=matmul,
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 1)),
    ),
    _complex_row("complex_cumprod", "tf.math.cumprod({0}, axis=-1, reverse={reverse})", "Cumprod", reverse=BOOL),
    _complex_row("complex_reduce_prod", "tf.reduce_prod({0}, axis=-1)", "Prod"),
)


MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (2, 2, 2))

_signal = partial(operation, "signal", shapes=vector, starts=((2,), (1,), (3,), (4,), (2, 2)))
_to_spectrum = partial(_signal, result="complex128")
_from_spectrum = partial(_signal, dtypes=("complex128",))
_transform = partial(_from_spectrum, result="complex128")
_transform_2d = partial(_transform, shapes=nonempty_matrix, starts=MATRICES)
_transform_3d = partial(_transform, when=lambda shape: len(shape) > 2, starts=((1, 2, 2), (2, 2, 2), (2, 1, 3)))


def _lengths(shape: Shape) -> tuple[int, ...]:
    """Those of real signals with half a spectrum of this shape."""
    return 2 * shape[-1] - 2, 2 * shape[-1] - 1


SIGNAL = (
    _to_spectrum(
        "rfft", "tf.signal.rfft({0}, fft_length=[{length}])", "RFFT", length=lambda shape: (shape[-1], shape[-1] + 1)
    ),
    _to_spectrum("rfft_truncated", "tf.signal.rfft({0}, fft_length=[{0}.shape[-1] - 1])", "RFFT", when=several),
    _from_spectrum("irfft", "tf.signal.irfft({0}, fft_length=[{length}])", "IRFFT", when=several, length=_lengths),
    _from_spectrum(
        "irfft_truncated",
        "tf.signal.irfft({0}, fft_length=[2 * {0}.shape[-1] - 4])",
        "IRFFT",
        when=lambda shape: shape[-1] > 2,
    ),
    _transform("fft", "tf.signal.fft({0})", "FFT"),
    _transform("ifft", "tf.signal.ifft({0})", "IFFT"),
    _transform_2d("fft2d", "tf.signal.fft2d({0})", "FFT2D"),
    _transform_2d("ifft2d", "tf.signal.ifft2d({0})", "IFFT2D"),
    _transform_3d("fft3d", "tf.signal.fft3d({0})", "FFT3D"),
    _transform_3d("ifft3d", "tf.signal.ifft3d({0})", "IFFT3D"),
    _to_spectrum("rfft2d", "tf.signal.rfft2d({0})", "RFFT2D", shapes=nonempty_matrix, starts=MATRICES),
    _from_spectrum(
        "irfft2d",
        "tf.signal.irfft2d({0}, fft_length=[{0}.shape[-2], {length}])",
        "IRFFT2D",
        shapes=nonempty_matrix,
        when=several,
        starts=MATRICES,
        length=_lengths,
    ),
    _signal(
        "power_spectrum", "tf.math.real(tf.signal.rfft({0}) * tf.math.conj(tf.signal.rfft({0})))", "RFFT Conj Real"
    ),
    _signal(
        "dct", "tf.signal.dct({0}, type={kind}, norm={norm})", "Mul", when=several, kind=(2, 3), norm=(None, "ortho")
    ),
)
