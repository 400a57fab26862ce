"""Into, within and out of the complex numbers (family `math`), and Fourier transforms (`signal`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at_zero, from_cuts, from_negative_reals, norms, second_at_zero
from gradcheck.hunt.catalogue.elementwise import BINARY, ELEMENTARY
from gradcheck.hunt.catalogue.language import operation, tf
from gradcheck.hunt.catalogue.reductions import REDUCTIONS
from gradcheck.hunt.catalogue.shapes import broadcasting, matmul, nonempty_matrix, several, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import REALS, Array, Distances, OpSpec

_math = partial(operation, "math")
_real = partial(_math, dtypes=("complex128",))
_complex = partial(_math, dtypes=("complex128",), result="complex128")
_complex_pair = partial(_complex, broadcasts=True, shapes=broadcasting)
_real_pair = partial(_real, broadcasts=True, shapes=broadcasting)
_real_row = partial(_real, shapes=vector, starts=((2,), (1,), (2, 2)))


PLANE: dict[str, Distances | None] = {
    **dict.fromkeys(("sin", "negative", "cos", "sigmoid", "expm1", "sinh", "cosh", "power", "add_n")),
    **dict.fromkeys(("reciprocal", "inv"), at_zero),
    "rsqrt": from_negative_reals,
    "log1p": lambda x: from_negative_reals(1 + x),
    **dict.fromkeys(("asin", "acos", "atanh"), from_cuts(1)),
    **dict.fromkeys(("atan", "asinh"), from_cuts(1j)),
    "acosh": lambda x: from_negative_reals(x - 1),
    **dict.fromkeys(("add", "subtract", "legacy_add", "multiply_no_nan")),
    **dict.fromkeys(("legacy_divide", "divide_no_nan"), second_at_zero),
    **dict.fromkeys(("tanh_grad", "sigmoid_grad", "reciprocal_grad", "inv_grad", "rsqrt_grad")),
    "sqrt_grad": at_zero,
    "squared_difference": None,
    "xlogy": lambda x, y: from_negative_reals(y),
    "xlog1py": lambda x, y: from_negative_reals(1 + y),
    "xdivy": second_at_zero,
    **dict.fromkeys(("sum_over_axis", "reduce_mean", "reduce_prod")),
    **dict.fromkeys(("cumsum_over_axis", "cumprod", "cumprod_over_axis")),
    "reduce_euclidean_norm": norms,
    **dict.fromkeys(("matmul_transposed", "batch_matmul", "batch_matmul_v3")),
}
"""Operations of real numbers that take complex ones, too, and where they are not smooth in the whole plane.

No number is exactly at the poles of tan, tanh and sigmoid.
"""
REAL = {spec.name: spec for spec in (*ELEMENTARY, *BINARY, *REDUCTIONS)}


def _lost_next_to_1(value: Array, *factors: Array) -> Array:
    """The kernel takes the logarithm of 1 + z as it is, and loses a unit of 1; times a factor, if there is one."""
    unit = np.where(value == 0, 0.0, np.finfo(np.float64).eps)
    return np.asarray(unit * np.prod(np.abs(factors), axis=0))


LOSES: dict[str, Callable[..., Array]] = {
    "log1p": lambda value, _: _lost_next_to_1(value),
    "xlog1py": lambda value, x, _: _lost_next_to_1(value, x),
}
"""What the kernels of complex numbers lose, where those of real ones do not."""
# Of several factors the second derivative is known to be wrong wherever they lie.
STARTS = dict.fromkeys(("cumprod", "cumprod_over_axis"), ((1,), (1, 1), (1, 1, 1), (2, 1), (2,)))


def over_plane(spec: OpSpec, singular: Distances | None = None) -> OpSpec:
    """An operation of real numbers as one of complex numbers, and where that is not smooth in the whole plane."""
    kinks = singular if spec.kinks else None
    return replace(
        spec,
        starts=STARTS.get(spec.name, spec.starts),
        name=f"complex_{spec.name}",
        domains=(REALS,),
        kinks=kinks,
        singular=None if kinks else singular,
        loses=LOSES.get(spec.name, spec.loses),
        dtypes=("complex128",),
        result="complex128",
    )


COMPLEX = (
    _math(
        "complex", lambda x, y: tf.complex(x, y), "Complex", broadcasts=True, shapes=broadcasting, result="complex128"
    ),
    _real("real", lambda x: tf.math.real(x), "Real"),
    _real("imag", lambda x: tf.math.imag(x), "Imag"),
    _complex("conj", lambda x: tf.math.conj(x), "Conj"),
    _real("complex_abs", lambda x: tf.abs(x), "ComplexAbs", kinks=at_zero),
    _real("angle", lambda x: tf.math.angle(x), "Angle", singular=from_negative_reals),
    _complex("complex_exp", lambda x: tf.exp(x), "Exp"),
    _complex("complex_square", lambda x: tf.square(x), "Square"),
    _complex("complex_tanh", lambda x: tf.tanh(x), "Tanh"),
    _complex("complex_log", lambda x: tf.math.log(x), "Log", singular=from_negative_reals),
    _complex("complex_sqrt", lambda x: tf.sqrt(x), "Sqrt", singular=from_negative_reals),
    _complex("complex_sign", lambda x: tf.sign(x), "ComplexAbs", singular=at_zero),
    _complex_pair("complex_multiply", lambda x, y: x * y, "Mul"),
    _complex_pair("complex_divide", lambda x, y: x / y, "RealDiv", singular=second_at_zero),
    _complex_pair("complex_pow", lambda x, y: tf.pow(x, y), "Pow", singular=from_negative_reals),
    _complex_pair(
        "complex_matmul",
        lambda x, y: tf.matmul(tf.math.conj(x), y),
        "BatchMatMulV2 MatMul Conj",
        shapes=matmul,
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 1)),
    ),
    *(over_plane(REAL[name], singular) for name, singular in PLANE.items()),
    # Beyond an imaginary part of 709, where cos overflows, the second derivative is NaN.
    _complex("complex_tan", lambda x: tf.tan(x), "Tan"),
    _real("cast_to_real", lambda x: tf.cast(x, tf.float64), "Cast"),
    _real_pair(
        "real_squared_difference", lambda x, y: tf.math.real(tf.math.squared_difference(x, y)), "SquaredDifference Real"
    ),
    _real_row("complex_variance", lambda x: tf.math.reduce_variance(x, axis=-1), "Mean Real Mul Conj Sub"),
)


MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (2, 2, 2))

_signal = partial(operation, "signal", shapes=vector, starts=((2,), (1,), (3,), (4,), (2, 2)))
_to_spectrum = partial(_signal, result="complex128")
_from_spectrum = partial(_signal, dtypes=("complex128",))
_transform = partial(_from_spectrum, result="complex128")
_transform_2d = partial(_transform, shapes=nonempty_matrix, starts=MATRICES)
_transform_3d = partial(_transform, when=lambda shape: len(shape) > 2, starts=((1, 2, 2), (2, 2, 2), (2, 1, 3)))


def _lengths(shape: Shape) -> tuple[int, ...]:
    """Those of real signals with half a spectrum of this shape, even and odd; the longer ones are padded."""
    return tuple(range(2 * shape[-1] - 2, 2 * shape[-1] + 2))


def _sizes(shape: Shape) -> tuple[int, ...]:
    """The size of the last axis, one more, and, of what is left, at least two."""
    return tuple(size for size in (shape[-1], shape[-1] + 1, shape[-1] - 1) if size > 1)


def _padded(axis: int) -> Callable[[Shape], range]:
    """The size of this axis, and one more."""
    return lambda shape: range(shape[axis], shape[axis] + 2)


SIGNAL = (
    _to_spectrum("rfft", lambda x, *, length: tf.signal.rfft(x, fft_length=[length]), "RFFT", length=_padded(-1)),
    _to_spectrum("rfft_truncated", lambda x: tf.signal.rfft(x, fft_length=[x.shape[-1] - 1]), "RFFT", when=several),
    _from_spectrum(
        "irfft", lambda x, *, length: tf.signal.irfft(x, fft_length=[length]), "IRFFT", when=several, length=_lengths
    ),
    _from_spectrum(
        "irfft_truncated",
        lambda x: tf.signal.irfft(x, fft_length=[2 * x.shape[-1] - 4]),
        "IRFFT",
        when=lambda shape: shape[-1] > 2,
    ),
    _transform("fft", lambda x: tf.signal.fft(x), "FFT"),
    _transform("ifft", lambda x: tf.signal.ifft(x), "IFFT"),
    _transform_2d("fft2d", lambda x: tf.signal.fft2d(x), "FFT2D"),
    _transform_2d("ifft2d", lambda x: tf.signal.ifft2d(x), "IFFT2D"),
    _transform_3d("fft3d", lambda x: tf.signal.fft3d(x), "FFT3D"),
    _transform_3d("ifft3d", lambda x: tf.signal.ifft3d(x), "IFFT3D"),
    _to_spectrum(
        "rfft2d",
        lambda x, *, rows, length: tf.signal.rfft2d(x, fft_length=[rows, length]),
        "RFFT2D",
        shapes=nonempty_matrix,
        starts=MATRICES,
        rows=_padded(-2),
        length=_padded(-1),
    ),
    _from_spectrum(
        "irfft2d",
        lambda x, *, rows, length: tf.signal.irfft2d(x, fft_length=[rows, length]),
        "IRFFT2D",
        shapes=nonempty_matrix,
        when=several,
        starts=MATRICES,
        rows=_padded(-2),
        length=_lengths,
    ),
    _signal(
        "power_spectrum", lambda x: tf.math.real(tf.signal.rfft(x) * tf.math.conj(tf.signal.rfft(x))), "RFFT Conj Real"
    ),
    _signal(
        "dct",
        lambda x, *, kind, norm: tf.signal.dct(x, type=kind, norm=norm),
        "Mul",
        when=several,
        kind=(2, 3, 4),
        norm=(None, "ortho"),
    ),
    _signal(
        "dct_type_1", lambda x, *, length: tf.signal.dct(x, type=1, n=length), "RFFT Real", when=several, length=_sizes
    ),
    _signal(
        "dct_of_length",
        lambda x, *, kind, length: tf.signal.dct(x, type=kind, n=length),
        "Mul",
        kind=(2, 3, 4),
        when=several,
        length=_sizes,
    ),
    _to_spectrum(
        "rfft2d_truncated",
        lambda x: tf.signal.rfft2d(x, fft_length=[x.shape[-2], x.shape[-1] - 1]),
        "RFFT2D",
        shapes=nonempty_matrix,
        when=several,
        starts=MATRICES,
    ),
    _from_spectrum(
        "irfft2d_truncated",
        lambda x: tf.signal.irfft2d(x, fft_length=[x.shape[-2] - 1, 2 * x.shape[-1] - 1]),
        "IRFFT2D",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] > 1,
        starts=((2, 2), (2, 1), (2, 3), (3, 1), (2, 2, 2)),
    ),
)
