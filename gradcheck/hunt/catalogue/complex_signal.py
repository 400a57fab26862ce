"""Into, within and out of the complex numbers (family `math`), and Fourier transforms (`signal`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from gradcheck.hunt.catalogue.distances import at_zero, from_cuts, from_negative_reals, norms, second_at_zero
from gradcheck.hunt.catalogue.elementwise import BINARY, ELEMENTARY
from gradcheck.hunt.catalogue.language import operation
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
    _math("complex", "tf.complex({0}, {1})", "Complex", broadcasts=True, shapes=broadcasting, result="complex128"),
    _real("real", "tf.math.real({0})", "Real"),
    _real("imag", "tf.math.imag({0})", "Imag"),
    _complex("conj", "tf.math.conj({0})", "Conj"),
    _real("complex_abs", "tf.abs({0})", "ComplexAbs", kinks=at_zero),
    _real("angle", "tf.math.angle({0})", "Angle", singular=from_negative_reals),
    _complex("complex_exp", "tf.exp({0})", "Exp"),
    _complex("complex_square", "tf.square({0})", "Square"),
    _complex("complex_tanh", "tf.tanh({0})", "Tanh"),
    _complex("complex_log", "tf.math.log({0})", "Log", singular=from_negative_reals),
    _complex("complex_sqrt", "tf.sqrt({0})", "Sqrt", singular=from_negative_reals),
    _complex("complex_sign", "tf.sign({0})", "ComplexAbs", singular=at_zero),
    _complex_pair("complex_multiply", "{0} * {1}", "Mul"),
    _complex_pair("complex_divide", "{0} / {1}", "RealDiv", singular=second_at_zero),
    _complex_pair("complex_pow", "tf.pow({0}, {1})", "Pow", singular=from_negative_reals),
    _complex_pair(
        "complex_matmul",
        "tf.matmul(tf.math.conj({0}), {1})",
        "BatchMatMulV2 MatMul Conj",
        shapes=matmul,
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 1)),
    ),
    *(over_plane(REAL[name], singular) for name, singular in PLANE.items()),
    # Beyond an imaginary part of 709, where cos overflows, the second derivative is NaN.
    _complex("complex_tan", "tf.tan({0})", "Tan"),
    _real("cast_to_real", "tf.cast({0}, tf.float64)", "Cast"),
    _real_pair(
        "real_squared_difference", "tf.math.real(tf.math.squared_difference({0}, {1}))", "SquaredDifference Real"
    ),
    _real_row("complex_variance", "tf.math.reduce_variance({0}, axis=-1)", "Mean Real Mul Conj Sub"),
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
    _to_spectrum("rfft", "tf.signal.rfft({0}, fft_length=[{length}])", "RFFT", length=_padded(-1)),
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
    _to_spectrum(
        "rfft2d",
        "tf.signal.rfft2d({0}, fft_length=[{rows}, {length}])",
        "RFFT2D",
        shapes=nonempty_matrix,
        starts=MATRICES,
        rows=_padded(-2),
        length=_padded(-1),
    ),
    _from_spectrum(
        "irfft2d",
        "tf.signal.irfft2d({0}, fft_length=[{rows}, {length}])",
        "IRFFT2D",
        shapes=nonempty_matrix,
        when=several,
        starts=MATRICES,
        rows=_padded(-2),
        length=_lengths,
    ),
    _signal(
        "power_spectrum", "tf.math.real(tf.signal.rfft({0}) * tf.math.conj(tf.signal.rfft({0})))", "RFFT Conj Real"
    ),
    _signal(
        "dct", "tf.signal.dct({0}, type={kind}, norm={norm})", "Mul", when=several, kind=(2, 3, 4), norm=(None, "ortho")
    ),
    _signal("dct_type_1", "tf.signal.dct({0}, type=1, n={length})", "RFFT Real", when=several, length=_sizes),
    _signal(
        "dct_of_length",
        "tf.signal.dct({0}, type={kind}, n={length})",
        "Mul",
        kind=(2, 3, 4),
        when=several,
        length=_sizes,
    ),
    _to_spectrum(
        "rfft2d_truncated",
        "tf.signal.rfft2d({0}, fft_length=[{0}.shape[-2], {0}.shape[-1] - 1])",
        "RFFT2D",
        shapes=nonempty_matrix,
        when=several,
        starts=MATRICES,
    ),
    _from_spectrum(
        "irfft2d_truncated",
        "tf.signal.irfft2d({0}, fft_length=[{0}.shape[-2] - 1, 2 * {0}.shape[-1] - 1])",
        "IRFFT2D",
        shapes=nonempty_matrix,
        when=lambda shape: shape[-2] > 1,
        starts=((2, 2), (2, 1), (2, 3), (3, 1), (2, 2, 2)),
    ),
)
