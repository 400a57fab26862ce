"""Complex numbers (family `math`), Fourier transforms and frames of signals (`signal`), complex forms of operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.arrays import ARRAYS, DIAGONALS
from gradcheck.operations.convolution import CONVOLUTION_FORMS, CONVOLUTIONS
from gradcheck.operations.distances import at_zero, from_cuts, from_negative_reals, norms, second_at_zero
from gradcheck.operations.elementwise import ACTIVATIONS, BINARY, ELEMENTARY
from gradcheck.operations.gather_scatter import GATHERING, REARRANGEMENTS, SEGMENTS
from gradcheck.operations.images import BLOCKS
from gradcheck.operations.language import along_axis, operation, tf
from gradcheck.operations.linalg import CONTRACTIONS, LINALG, MATRIX_FUNCTIONS, bounded, each_permuted
from gradcheck.operations.ragged import RAGGED
from gradcheck.operations.reductions import MOMENTS, REDUCTIONS
from gradcheck.operations.shapes import (
    at_least,
    axes,
    broadcasting,
    matmul,
    nonempty_matrix,
    several,
    square,
    vector,
)
from gradcheck.operations.sparse import SPARSE
from gradcheck.operations.spec import BOOL, POSITIVE, REALS, Distances, Formula, OpSpec
from gradcheck.operations.special_sets import FLOAT32_OVERFLOW, IMAGINARY_OVERFLOW, REAL_ABOVE_1, REAL_BELOW_MINUS_1
from gradcheck.typing import Array

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
"""Rounding that only the complex kernels lose, by operation."""
ON_CUTS = dict.fromkeys(("acos", "asin"), (REAL_BELOW_MINUS_1, REAL_ABOVE_1))
"""Special sets that only the complex forms have, by operation."""
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
        special=(*spec.special, *ON_CUTS.get(spec.name, ())),
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
    _complex("complex_tan", lambda x: tf.tan(x), "Tan", special=(IMAGINARY_OVERFLOW,)),
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


REAL_FORMS = {
    spec.name: spec
    for group in (
        *(ARRAYS, GATHERING, DIAGONALS, BLOCKS, ACTIVATIONS, CONVOLUTIONS, CONVOLUTION_FORMS, SEGMENTS, LINALG),
        *(CONTRACTIONS, MOMENTS, MATRIX_FUNCTIONS, REARRANGEMENTS, SPARSE, RAGGED),
    )
    for spec in group
}

SMOOTH = (
    *("expand_dims", "reshape", "transpose", "concat", "legacy_concat", "stack", "unstack", "split", "split_v"),
    *("squeeze", "slice", "slice_from", "strided_slice", "strided_slice_shrink", "pad", "pad_constant"),
    *("pad_symmetric", "pad_reflect", "broadcast_to", "broadcast_to_rank", "reverse", "reverse_sequence", "tile"),
    *("roll", "gather", "gather_rows", "gather_each_row", "legacy_gather", "gather_nd", "scatter_nd"),
    *("tensor_scatter_nd_add", "tensor_scatter_nd_sub", "tensor_scatter_nd_update", "scatter_nd_non_aliasing_add"),
    *("tensor_strided_slice_update", "dynamic_partition", "dynamic_stitch", "parallel_dynamic_stitch"),
    *("legacy_reverse", "matrix_diag", "matrix_diag_offset", "matrix_diag_part", "matrix_set_diag"),
    *("matrix_set_diag_below", "matrix_diag_part_band", "matrix_band_part", "legacy_matrix_diag"),
    *("legacy_matrix_diag_part", "legacy_matrix_set_diag", "legacy_matrix_diag_offset"),
    *("legacy_matrix_set_diag_offset", "legacy_matrix_diag_part_band", "legacy_matrix_diag_part_band_tall"),
    *("legacy_matrix_set_diag_band",),
    *("tensor_diag", "tensor_diag_part", "space_to_depth", "depth_to_space", "extract_patches", "silu"),
    *("bias_add", "bias_add_channels_first", "bias_add_v1", "bias_add_grad", "bias_add_grad_channels_first"),
    *("segment_sum", "segment_mean", "segment_prod", "unsorted_segment_sum", "unsorted_segment_prod"),
    *("determinant", "log_determinant", "inverse", "cholesky", "solve", "triangular_solve", "matrix_solve_ls"),
    *("matrix_square_root", "matrix_exponential", "tridiagonal_matmul", "tridiagonal_solve"),
    *("banded_triangular_solve", "einsum", "einsum_trace", "einsum_diagonal", "einsum_pair"),
    *("moments", "moments_shifted"),
    *("trace", "matvec", "matvec_transposed", "tensordot", "logdet", "cholesky_solve", "lu_solve"),
    *("lu_matrix_inverse", "lu_reconstruct", "repeat", "boolean_mask", "polyval"),
    *("sparse_to_dense", "sparse_reduce_sum", "sparse_slice", "sparse_fill_empty_rows", "sparse_dense_add"),
    *("sparse_dense_matmul", "sparse_reorder", "sparse_transpose", "sparse_add", "csr_matrix_matmul"),
    *("ragged_to_tensor", "ragged_gather", "ragged_to_sparse", "ragged_fill_empty_rows"),
)
"""Those that have a kernel, and a gradient, of complex numbers, and are smooth in the whole plane."""

AS_OF_REAL = (
    *("qr", "singular_values", "singular_vectors", "eigenvalues", "eigenvectors", "largest_eigenvector"),
    "spectral_abscissa",
)
"""Those that are singular without full rank, or at equal values, as of real matrices."""
REAL_RESULTS = (
    *("logdet", "singular_values", "singular_vectors", "eigenvectors", "largest_eigenvector"),
    "spectral_abscissa",
)


bounded_dominant: Formula = lambda x: bounded(x) + (1 + x.shape[-1]) * tf.eye(x.shape[-1], dtype=x.dtype)
bounded_regular: Formula = lambda x: bounded(x) + x.shape[-1] * tf.eye(x.shape[-1], dtype=x.dtype)
OF_REGULAR: dict[str, Formula] = {
    "log_determinant": lambda x: tf.linalg.slogdet(bounded_dominant(x))[1],
    "inverse": lambda x, *, adjoint: tf.linalg.inv(bounded_dominant(x), adjoint=adjoint),
    "solve": lambda x, y, *, adjoint: tf.linalg.solve(bounded_dominant(x), y, adjoint=adjoint),
    "triangular_solve": lambda x, y, *, lower, adjoint: tf.linalg.triangular_solve(
        bounded_dominant(x), y, lower=lower, adjoint=adjoint
    ),
    "cholesky_solve": lambda x, y: tf.linalg.cholesky_solve(bounded_regular(x), y),
    "lu_solve": lambda x, y, *, permutation: tf.linalg.lu_solve(bounded_regular(x), each_permuted(x, permutation), y),
    "lu_matrix_inverse": lambda x, *, permutation: tf.linalg.lu_matrix_inverse(
        bounded_regular(x), each_permuted(x, permutation)
    ),
}
"""Of matrices that are regular in the whole plane: a sine grows along the imaginary axis, and tanh has poles there."""


def _form(name: str) -> OpSpec:
    spec = REAL_FORMS[name]
    spec = replace(spec, source=OF_REGULAR.get(name, spec.source))
    form = over_plane(spec, (spec.kinks or spec.singular) if name in AS_OF_REAL else None)
    return replace(form, result="float64") if name in REAL_RESULTS else form


_square = partial(
    operation, "linalg", dtypes=("complex128",), shapes=square, starts=((2, 2), (1, 1), (3, 3), (2, 2, 2))
)

COMPLEX_FORMS = (
    *map(_form, (*SMOOTH, *AS_OF_REAL)),
    _square(
        "real_log_determinant",
        lambda x: tf.math.real(tf.linalg.slogdet(bounded_dominant(x))[1]),
        "LogMatrixDeterminant Real",
    ),
    _square(
        "determinant_phase",
        lambda x: tf.linalg.slogdet(bounded_dominant(x))[0],
        "LogMatrixDeterminant",
        result="complex128",
    ),
)


_framed = partial(operation, "signal", shapes=vector)
_long = partial(_framed, when=lambda shape: shape[-1] >= 4, starts=((4,), (5,), (8,), (2, 4)))
_shifted = partial(_framed, batching=along_axis, starts=((2,), (3,), (2, 3)), axis=axes)
_of_coefficients = partial(_framed, starts=((2,), (3,), (4,), (2, 3)))
_of_frames = partial(_framed, shapes=nonempty_matrix)


def _frame_steps(shape: Shape) -> range:
    return range(1, shape[-1] + 1)


def loss_of_sequence(x: tf.Tensor, labels: Any, blank: int, *, merged: bool = True) -> tf.Tensor:
    """Minus the log of the probability that the classes of all frames collapse to the labels.

    A frame leads from a label or blank to itself, to the next, or over a blank between labels that differ (Graves et
    al., "Connectionist temporal classification", 2006, section 4.1). Where repetitions are not merged, a label stands
    at one frame only, and needs no blank before an equal one.
    """
    impossible = -1e300  # the logarithm of 0, but differences of it exist
    blank %= x.shape[-1]
    states = [blank, *(state for label in labels for state in (label, blank))]
    log_p = tf.gather(tf.nn.log_softmax(x), states, axis=-1)
    here, there = np.indices([len(states)] * 2)
    stays = (there == here) & (merged | (there % 2 == 0))
    leaps = (there == here + 2) & (there % 2 == 1) & ((not merged) | np.not_equal.outer(states, states))
    ways = np.where(stays | (there == here + 1) | leaps, 0.0, impossible)
    reached = log_p[..., 0, :] + np.where(there[0] < 2, 0.0, impossible)
    for frame in range(1, x.shape[-2]):
        reached = log_p[..., frame, :] + tf.reduce_logsumexp(reached[..., tf.newaxis] + ways, -2)
    return -tf.reduce_logsumexp(reached[..., -2:], -1)


def losses_of_sequences(
    x: tf.Tensor,
    *,
    labels: Any,
    cut: int,
    blank: int = -1,
    merged: bool = True,
    collapsed: bool = False,
    **_ways: Any,
) -> tf.Tensor:
    """The losses of two sequences, of which the second has fewer frames; one with more labels than frames has none."""
    losses = []
    for row, (sequence, frames) in enumerate(zip(labels, (x.shape[-2], x.shape[-2] - cut), strict=True)):
        kept = [one for at, one in enumerate(sequence) if not (collapsed and at and sequence[at - 1] == one)]
        classes = [label + (0 <= blank <= label) for label in kept]
        part = x[..., row, :frames, :]
        fits = len(kept) <= frames
        losses.append(loss_of_sequence(part, classes, blank, merged=merged) if fits else 0.0 * part[..., 0, 0])
    return tf.stack(losses, -1)


def sparse_labels(labels: Any) -> tf.SparseTensor:
    places = [(row, place) for row, sequence in enumerate(labels) for place in range(len(sequence))]
    return tf.sparse.SparseTensor(places, [label for sequence in labels for label in sequence], [len(labels), 3])


def ctc_loss_of_batch(x: tf.Tensor, *, labels: Any, cut: int, collapsed: bool, merged: bool) -> tf.Tensor:
    """The losses of two sequences of frames, (2, frames, classes); the last class is the blank."""
    given = sparse_labels(labels)
    return tf.raw_ops.CTCLoss(
        inputs=tf.transpose(x, [1, 0, 2]),
        labels_indices=given.indices,
        labels_values=given.values,
        sequence_length=[x.shape[1], x.shape[1] - cut],
        preprocess_collapse_repeated=collapsed,
        ctc_merge_repeated=merged,
        ignore_longer_outputs_than_inputs=True,
    ).loss


def ctc_loss_of_labels(x: tf.Tensor, *, labels: Any, cut: int, blank: int, time_major: bool, form: str) -> tf.Tensor:
    """The losses of two sequences of frames, (2, frames, classes); labels are counted without the blank."""
    classes = [[label + (0 <= blank <= label) for label in sequence] for sequence in labels]
    frames, logits = [x.shape[1], x.shape[1] - cut], tf.transpose(x, [1, 0, 2]) if time_major else x
    if form == "sparse":
        return tf.nn.ctc_loss(sparse_labels(classes), logits, None, frames, time_major, None, blank)
    padded = [(*sequence, 0, 0, 0)[:3] for sequence in classes]
    unique = tf.nn.ctc_unique_labels(padded) if form == "unique" else None
    counts, single = [len(sequence) for sequence in labels], tf.cast(logits, tf.float32)
    return tf.cast(tf.nn.ctc_loss(padded, single, counts, frames, time_major, unique, blank), tf.float64)


SEQUENCES = ((0, 1), (1,)), ((0, 0), (1, 0)), ((1, 0, 1), (1,))

_ctc_batch = partial(
    operation,
    "nn",
    looped=True,
    shapes=at_least(2, 4, 3),
    when=lambda shape: shape[0] == 2,
    starts=((2, 4, 3), (2, 5, 3), (2, 4, 4)),
    labels=SEQUENCES,
    reference=losses_of_sequences,
    # The kernel, too, takes logarithms of sums in float32 (ctc_loss_util.h): a few units of 2**-24 a step.
    rtol=1e-6,
)


_ctc_labels = partial(_ctc_batch, cut=(0, 1), blank=(0, -1, 1), time_major=BOOL)

FRAMES = (
    _shifted("fftshift", lambda x, *, axis: tf.signal.fftshift(x, axes=axis), "Roll"),
    _shifted("ifftshift", lambda x, *, axis: tf.signal.ifftshift(x, axes=axis), "Roll"),
    _framed(
        "frame",
        lambda x, *, length, step, padded, axis: tf.signal.frame(
            x, length, step, pad_end=padded, pad_value=2.0, axis=axis
        ),
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
        lambda x, *, step: tf.signal.overlap_and_add(x, step),
        "Sum Pad",
        starts=((2, 2), (3, 2), (2, 3), (2, 2, 2)),
        step=_frame_steps,
    ),
    _long(
        "stft",
        lambda x, *, length, step, bins, windowed, padded: tf.signal.stft(
            x, length, step, fft_length=bins, window_fn=[None, tf.signal.hann_window][windowed], pad_end=padded
        ),
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
        lambda x, *, length, step, window: tf.signal.inverse_stft(
            x,
            length,
            step,
            fft_length=2 * x.shape[-1] - 2,
            window_fn=[None, tf.signal.hann_window, tf.signal.inverse_stft_window_fn(step)][window],
        ),
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
        lambda x, *, length, windowed, padded, norm: tf.signal.mdct(
            x, length, window_fn=[None, tf.signal.vorbis_window][windowed], pad_end=padded, norm=norm
        ),
        "RFFT Real",
        length=(4, 8),
        windowed=BOOL,
        padded=lambda shape: (True, False) if shape[-1] >= 8 else (True,),
        norm=(None, "ortho"),
    ),
    _of_frames(
        "inverse_mdct",
        lambda x, *, windowed, norm: tf.signal.inverse_mdct(
            x, window_fn=[None, tf.signal.vorbis_window][windowed], norm=norm
        ),
        "Real",
        when=lambda shape: shape[-1] % 2 == 0,
        starts=((2, 2), (1, 4), (2, 2, 2)),
        windowed=BOOL,
        norm=(None, "ortho"),
    ),
    _of_coefficients(
        "idct",
        lambda x, *, type, norm: tf.signal.idct(x, type=type, norm=norm),
        "RFFT",
        type=(2, 3, 4),
        norm=(None, "ortho"),
    ),
    _of_coefficients("idct_type_1", lambda x: tf.signal.idct(x, type=1), "RFFT", when=lambda shape: shape[-1] > 1),
    _of_coefficients("mfccs_from_log_mel_spectrograms", lambda x: tf.signal.mfccs_from_log_mel_spectrograms(x), "RFFT"),
    operation(
        "signal",
        "kaiser_window",
        lambda x, *, length: tf.signal.kaiser_window(length, beta=x, dtype=tf.float64),
        "BesselI0e",
        POSITIVE,
        looped=True,
        when=lambda shape: shape == (),
        starts=((),),
        length=(3, 4, 2),
    ),
    _ctc_batch(
        "ctc_loss_of_batch",
        ctc_loss_of_batch,
        "CTCLoss",
        cut=lambda shape: (0, 1, shape[1] - 1),
        collapsed=BOOL,
        merged=(True, False),
    ),
    _ctc_labels(
        "ctc_loss_of_sparse_labels",
        ctc_loss_of_labels,
        "CTCLoss ConcatV2 Transpose",
        form=("sparse",),
    ),
    # In forward mode every loop of it is traced anew, a second each time: ctc_loss_dense is drawn in modes.
    _ctc_labels(
        "ctc_loss_of_dense_labels",
        ctc_loss_of_labels,
        "Cast ConcatV2 Transpose",
        form=("dense", "unique"),
        labels=(*SEQUENCES, ((1, 0), ())),
        modes=(),
        special=(FLOAT32_OVERFLOW,),
    ),
)
