"""Into, within and out of the complex numbers (family `math`), and Fourier transforms (`signal`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    BOOL,
    POSITIVE,
    Array,
    Choice,
    OpSpec,
    at_zero,
    broadcasting,
    matmul,
    nonempty_matrix,
    only_if,
    ranked,
    vector,
)

_math: Callable[..., OpSpec] = partial(OpSpec, family="math")
_signal: Callable[..., OpSpec] = partial(OpSpec, family="signal")
_complex: Callable[..., OpSpec] = partial(OpSpec, family="math", dtypes=("complex128",), result="complex128")
_complex_pair: Callable[..., OpSpec] = partial(_complex, arity=2, broadcasts=True, shapes=broadcasting)
_real: Callable[..., OpSpec] = partial(OpSpec, family="math", dtypes=("complex128",))


def _from_negative_reals(x: Array, *_: Array, **_attributes: Any) -> Array:
    return np.where(x.real > 0, np.abs(x), np.abs(x.imag))


COMPLEX = (
    _math(
        "complex",
        "tf.complex({0}, {1})",
        ("Complex",),
        arity=2,
        broadcasts=True,
        shapes=broadcasting,
        result="complex128",
    ),
    _real("real", "tf.math.real({0})", ("Real",)),
    _real("imag", "tf.math.imag({0})", ("Imag",)),
    _complex("conj", "tf.math.conj({0})", ("Conj",)),
    _real("complex_abs", "tf.abs({0})", ("ComplexAbs",), kinks=at_zero),
    _real("angle", "tf.math.angle({0})", ("Angle",), singular=_from_negative_reals),
    _complex("complex_exp", "tf.exp({0})", ("Exp",)),
    _complex("complex_square", "tf.square({0})", ("Square",)),
    _complex("complex_tanh", "tf.tanh({0})", ("Tanh",), domains=(POSITIVE,)),
    _complex("complex_log", "tf.math.log({0})", ("Log",), domains=(POSITIVE,)),
    _complex("complex_sqrt", "tf.sqrt({0})", ("Sqrt",), domains=(POSITIVE,)),
    _complex("complex_sign", "tf.sign({0})", ("ComplexAbs",), singular=at_zero),
    _complex_pair("complex_multiply", "{0} * {1}", ("Mul",)),
    _complex_pair("complex_divide", "{0} / {1}", ("RealDiv",), domains=(POSITIVE,)),
    _complex_pair("complex_pow", "tf.pow({0}, {1})", ("Pow",), domains=(POSITIVE,)),
    _complex(
        "complex_matmul",
        "tf.matmul(tf.math.conj({0}), {1})",
        ("BatchMatMulV2", "MatMul", "Conj"),
        arity=2,
        broadcasts=True,
        shapes=matmul,
        starts=((2, 2), (1, 1), (2, 3), (2, 2, 1)),
    ),
    _complex(
        "complex_cumprod",
        "tf.math.cumprod({0}, axis=-1, reverse={reverse})",
        ("Cumprod",),
        shapes=ranked,
        starts=((2,), (1,), (2, 2)),
        attributes=lambda shape: {"reverse": BOOL},
    ),
    _complex(
        "complex_reduce_prod", "tf.reduce_prod({0}, axis=-1)", ("Prod",), shapes=ranked, starts=((2,), (1,), (2, 2))
    ),
)


VECTORS: tuple[Shape, ...] = ((2,), (1,), (3,), (4,), (2, 2))
MATRICES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (2, 2, 2))
BLOCKS: tuple[Shape, ...] = ((1, 2, 2), (2, 2, 2), (2, 1, 3))

_transform: Callable[..., OpSpec] = partial(
    OpSpec, family="signal", shapes=vector, starts=VECTORS, dtypes=("complex128",), result="complex128"
)
_plane = nonempty_matrix
_block = only_if(lambda shape: len(shape) >= 3 and all(shape))

SIGNAL = (
    _signal(
        "rfft",
        "tf.signal.rfft({0}, fft_length=[{length}])",
        ("RFFT",),
        shapes=vector,
        starts=VECTORS,
        attributes=lambda shape: {"length": Choice((shape[-1], shape[-1] + 1))},
        result="complex128",
    ),
    _signal(
        "rfft_truncated",
        "tf.signal.rfft({0}, fft_length=[{0}.shape[-1] - 1])",
        ("RFFT",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] > 1),
        starts=VECTORS,
        result="complex128",
    ),
    _signal(
        "irfft",
        "tf.signal.irfft({0}, fft_length=[{length}])",
        ("IRFFT",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] > 1),
        starts=VECTORS,
        attributes=lambda shape: {"length": Choice((2 * shape[-1] - 2, 2 * shape[-1] - 1))},
        dtypes=("complex128",),
    ),
    _signal(
        "irfft_truncated",
        "tf.signal.irfft({0}, fft_length=[2 * {0}.shape[-1] - 4])",
        ("IRFFT",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] > 2),
        starts=VECTORS,
        dtypes=("complex128",),
    ),
    _transform("fft", "tf.signal.fft({0})", ("FFT",)),
    _transform("ifft", "tf.signal.ifft({0})", ("IFFT",)),
    _transform("fft2d", "tf.signal.fft2d({0})", ("FFT2D",), shapes=_plane, starts=MATRICES),
    _transform("ifft2d", "tf.signal.ifft2d({0})", ("IFFT2D",), shapes=_plane, starts=MATRICES),
    _transform("fft3d", "tf.signal.fft3d({0})", ("FFT3D",), shapes=_block, starts=BLOCKS),
    _transform("ifft3d", "tf.signal.ifft3d({0})", ("IFFT3D",), shapes=_block, starts=BLOCKS),
    _signal("rfft2d", "tf.signal.rfft2d({0})", ("RFFT2D",), shapes=_plane, starts=MATRICES, result="complex128"),
    _signal(
        "irfft2d",
        "tf.signal.irfft2d({0}, fft_length=[{0}.shape[-2], {length}])",
        ("IRFFT2D",),
        shapes=only_if(lambda shape: nonempty_matrix(shape) and shape[-1] > 1),
        starts=MATRICES,
        attributes=lambda shape: {"length": Choice((2 * shape[-1] - 2, 2 * shape[-1] - 1))},
        dtypes=("complex128",),
    ),
    _signal(
        "power_spectrum",
        "tf.math.real(tf.signal.rfft({0}) * tf.math.conj(tf.signal.rfft({0})))",
        ("RFFT", "Conj", "Real"),
        shapes=vector,
        starts=VECTORS,
    ),
    _signal(
        "dct",
        "tf.signal.dct({0}, type={kind}, norm={norm})",
        ("Mul",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] > 1),
        starts=VECTORS,
        attributes=lambda shape: {"kind": Choice((2, 3)), "norm": Choice((None, "ortho"))},
    ),
)
