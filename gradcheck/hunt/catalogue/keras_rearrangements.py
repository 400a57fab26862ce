"""Functions of `keras.ops` that move, pick, spread and fold elements, transform signals, or loop over a function."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import operation
from gradcheck.hunt.catalogue.linalg import POSITIVE_DEFINITE
from gradcheck.hunt.catalogue.reductions import STARTS
from gradcheck.hunt.catalogue.shapes import alike, at_least, axes, square, vector
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import BOOL, POSITIVE, Array, Interval

_array = partial(operation, "array", shapes=vector, starts=STARTS, looped=True)
_last = partial(operation, "array", shapes=vector, starts=STARTS)
_matrix = partial(operation, "array", shapes=at_least(1, 1), starts=((2, 2), (1, 1), (2, 3), (3, 2)), looped=True)
_rows = partial(operation, "array", shapes=vector, starts=((2,), (3,), (2, 2), (3, 1)), looped=True)


def _all_axes(shape: Shape, *_others: Shape) -> tuple[int | None, ...]:
    return (*axes(shape), None, *range(len(shape)))


def _meeting(sign: int, x: Array, updates: Array, first: int, second: int) -> Array:
    """The gap between the two largest (or, with a sign of -1, smallest) of what meets at each place."""
    groups = [np.stack([x[first], updates[0]]), np.stack([x[second], updates[1]])]
    if first == second:
        groups = [np.stack([x[first], *updates])]
    return np.stack([np.diff(np.sort(sign * group, axis=0), axis=0)[-1] for group in groups])


MEETING: dict[str, dict[str, Any]] = {"max": {"kinks": partial(_meeting, 1)}, "min": {"kinks": partial(_meeting, -1)}}


def _diagonals(shape: Shape) -> list[int]:
    """The diagonals of a matrix, the main one first."""
    return sorted(range(1 - shape[0], shape[1]), key=abs)


KERAS_REARRANGEMENTS = (
    _array("keras_flip", "tf.keras.ops.flip({0}, axis={axis})", "ReverseV2", axis=_all_axes),
    _array("keras_roll", "tf.keras.ops.roll({0}, {shift}, axis={axis})", "Roll", axis=_all_axes, shift=(1, -1, 2, 0)),
    _matrix("keras_rot90", "tf.keras.ops.rot90({0}, k={turns})", "Transpose ReverseV2", turns=(1, 2, 3, -1)),
    _array(
        "keras_diff",
        "tf.keras.ops.diff({0}, n={n}, axis={axis})",
        "Sub StridedSlice",
        when=lambda shape: all(size > 1 for size in shape),
        axis=lambda shape: (*axes(shape), *range(len(shape))),
        n=lambda shape: range(1, min(shape)),
    ),
    _array(
        "keras_repeat",
        "tf.keras.ops.repeat({0}, {repeats}, axis={axis})",
        "Tile",
        axis=_all_axes,
        repeats=(2, 1, 3),
        when=lambda shape: np.prod(shape) < 7,
    ),
    _array("keras_tile", "tf.keras.ops.tile({0}, {repeats})", "Tile", repeats=(2, (2, 1), (1, 2, 1))),
    _matrix("keras_diagonal", "tf.keras.ops.diagonal({0}, offset={offset})", "MatrixDiagPartV3", offset=_diagonals),
    operation(
        "array",
        "keras_diagonal_of_axes",
        "tf.keras.ops.diagonal({0}, offset={offset}, axis1={first}, axis2={second})",
        "MatrixDiagPartV3 Transpose",
        shapes=at_least(2, 2, 2),
        starts=((2, 2, 2), (2, 3, 2)),
        looped=True,
        offset=(0, 1, -1),
        first=(0, 2),
        second=(1, -2),
    ),
    _matrix("keras_trace", "tf.keras.ops.trace({0}, offset={offset})", "Sum SelectV2", offset=_diagonals),
    _matrix("keras_tril", "tf.keras.ops.tril({0}, k={offset})", "MatrixBandPart SelectV2", offset=_diagonals),
    _matrix("keras_triu", "tf.keras.ops.triu({0}, k={offset})", "MatrixBandPart SelectV2", offset=_diagonals),
    _array("keras_diagflat", "tf.keras.ops.diagflat({0}, k={offset})", "MatrixDiagV3", offset=(0, 1, -1)),
    _rows("keras_dstack", "tf.keras.ops.dstack([{0}, {1}])", "ConcatV2", others=alike),
    _rows("keras_hstack", "tf.keras.ops.hstack([{0}, {1}])", "ConcatV2", others=alike),
    _array("keras_append", "tf.keras.ops.append({0}, {1}, axis=None)", "ConcatV2", others=lambda s: [((2,),), (s,)]),
    _array(
        "keras_array_split",
        "tf.keras.ops.array_split({0}, 2, axis=0)[{part}]",
        "SplitV",
        when=lambda shape: shape[0] > 1,
        part=(0, 1),
    ),
    _array(
        "keras_rearrange",
        "tf.keras.ops.rearrange({0}, 'a b -> (b a)')",
        "Reshape Transpose",
        starts=((2, 2), (2, 3)),
        when=lambda shape: len(shape) == 2,
    ),
    _array(
        "keras_take",
        "tf.keras.ops.take({0}, {indices}, axis={axis})",
        "GatherV2",
        axis=(None, 0, -1),
        indices=lambda shape: [(-1, 0), (0, 0, -1), (0,), ((0, -1), (-1, 0))],
    ),
    _array(
        "keras_take_along_axis",
        "tf.keras.ops.take_along_axis({0}, np.array({indices}), axis={axis})",
        "GatherV2",
        starts=((2, 2), (2, 3), (3, 2)),
        when=lambda shape: len(shape) == 2,
        axis=(-1, 0, 1, -2),
        indices=lambda shape: [((0, -1), (1, 1)), ((0,), (-1,)), ((1, 0),)],
    ),
    _rows(
        "keras_scatter",
        "tf.keras.ops.scatter([[{first}], [{second}]], {0}, [3, *{0}.shape[1:]])",
        "ScatterNd",
        starts=((2,), (2, 2)),
        when=lambda shape: shape[0] == 2,
        first=(0, 2),
        second=(0, 1),
    ),
    *(
        _rows(
            f"keras_scatter_{reduction}",
            f"tf.keras.ops.scatter_update({{0}}, [[{{first}}], [{{second}}]], {{1}}, reduction='{reduction}')",
            gradients,
            when=lambda shape: shape[0] > 1,
            others=lambda shape: [((2, *shape[1:]),)],
            first=(0, 1),
            second=(0, 1),
            **MEETING.get(reduction, {}),
        )
        for reduction, gradients in (
            ("add", "TensorScatterAdd"),
            ("max", "TensorScatterMax"),
            ("min", "TensorScatterMin"),
        )
    ),
    _last(
        "keras_extract_sequences",
        "tf.keras.ops.extract_sequences({0}, {length}, {stride})",
        "Reshape",
        when=lambda shape: shape[-1] > 1,
        length=(2, 1),
        stride=(1, 2),
    ),
    operation(
        "array",
        "keras_vander",
        "tf.keras.ops.vander({0}, N={count}, increasing={increasing})",
        "Pow",
        shapes=at_least(1),
        starts=((2,), (1,), (3,)),
        looped=True,
        count=(None, 3, 1),
        increasing=BOOL,
    ),
    _array(
        "keras_linspace",
        "tf.keras.ops.linspace({0}, {1}, num={count}, endpoint={closed}, axis={axis})",
        "Sub",
        others=alike,
        when=lambda shape: np.prod(shape) < 7,
        count=(3, 1, 2),
        closed=BOOL,
        axis=(0, -1),
    ),
    _array(
        "keras_logspace",
        "tf.keras.ops.logspace({0}, {1}, num={count}, base={base})",
        "Pow",
        Interval(-4.0, 4.0),
        others=alike,
        when=lambda shape: np.prod(shape) < 7,
        count=(3, 2),
        base=(10, 2),
    ),
    _array(
        "keras_geomspace",
        "tf.keras.ops.geomspace({0}, {1}, num={count}, dtype='float64')",
        "Pow Log",
        POSITIVE,
        others=alike,
        when=lambda shape: np.prod(shape) < 7,
        count=(3, 2),
    ),
)


_signal = partial(operation, "signal", shapes=vector, starts=((2,), (4,), (3,), (2, 2)))
_pair = partial(_signal, others=alike)

KERAS_SIGNALS = (
    _pair("keras_fft", "tf.stack(tf.keras.ops.fft(({0}, {1})), -1)", "FFT Complex"),
    _pair(
        "keras_fft2",
        "tf.stack(tf.keras.ops.fft2(({0}, {1})), -1)",
        "FFT2D",
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3)),
    ),
    _pair(
        "keras_ifft2",
        "tf.stack(tf.keras.ops.ifft2(({0}, {1})), -1)",
        "FFT2D",
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3)),
    ),
    _signal("keras_rfft", "tf.stack(tf.keras.ops.rfft({0}), -1)", "RFFT"),
    _pair("keras_irfft", "tf.keras.ops.irfft(({0}, {1}))", "IRFFT", when=lambda shape: shape[-1] > 1),
    _signal(
        "keras_stft",
        "tf.stack(tf.keras.ops.stft({0}, 2, 1, {length}, window={window}, center={centred}), -1)",
        "RFFT Mul",
        starts=((4,), (5,)),
        when=lambda shape: shape[-1] > 3,
        length=(2, 3, 4),
        window=("hann", "hamming", None),
        centred=BOOL,
    ),
    _pair(
        "keras_istft",
        "tf.keras.ops.istft(({0}, {1}), 2, 1, 2, window='hamming', center={centred})",
        "IRFFT Mul",
        shapes=at_least(2, 2),
        when=lambda shape: shape[-1] == 2,
        starts=((2, 2), (3, 2)),
        looped=True,
        centred=BOOL,
    ),
    _pair("keras_polar", "tf.keras.ops.view_as_real(tf.keras.ops.polar({0}, {1}))", "Complex Cos Sin"),
)

_square = partial(operation, "linalg", shapes=square, starts=((2, 2), (1, 1), (2, 2, 2)))
_system = partial(_square, others=lambda shape: [(shape[:-1],), (shape,)])
TRIANGULAR = "(tf.linalg.band_part({0}, -1, 0) / 4.0 + tf.linalg.eye({0}.shape[-1], dtype=tf.float64))"

KERAS_LINALG = (
    _square("keras_cholesky", f"tf.keras.ops.cholesky({POSITIVE_DEFINITE}, upper={{upper}})", "Cholesky", upper=BOOL),
    _square(
        "keras_cholesky_inverse",
        f"tf.keras.ops.cholesky_inverse(tf.keras.ops.cholesky({POSITIVE_DEFINITE}, upper={{upper}}), upper={{upper}})",
        "MatrixTriangularSolve Cholesky",
        upper=BOOL,
    ),
    _system("keras_solve", f"tf.keras.ops.solve({POSITIVE_DEFINITE}, {{1}})", "MatrixSolve"),
    _system(
        "keras_solve_triangular",
        f"tf.keras.ops.solve_triangular({POSITIVE_DEFINITE}, {{1}}, lower={{lower}})",
        "MatrixTriangularSolve",
        lower=BOOL,
    ),
    _square("keras_logdet", f"tf.keras.ops.logdet({POSITIVE_DEFINITE})", "Cholesky Log"),
    operation(
        "linalg",
        "keras_lstsq",
        "tf.keras.ops.lstsq({0}, {1})",
        "Svd MatMul",
        shapes=at_least(1, 1),
        starts=((2, 2), (3, 2), (1, 1)),
        when=lambda shape: shape in ((2, 2), (3, 2), (1, 1)),
        others=lambda shape: [((shape[0], 1),), ((shape[0],),)],
        looped=True,
        singular=lambda a, _b: np.linalg.svd(a, compute_uv=False)[..., -1:],
    ),
    operation(
        "linalg",
        "keras_pinv",
        "tf.keras.ops.pinv({0})",
        shapes=at_least(1, 1),
        starts=((2, 2), (3, 2), (1, 1)),
        when=lambda shape: shape in ((2, 2), (3, 2), (1, 1)),
        looped=True,
        singular=lambda a: np.linalg.svd(a, compute_uv=False)[..., -1:],
    ),
)

KERAS_LOOPS = (
    _rows(
        "keras_associative_scan",
        "tf.keras.ops.associative_scan(tf.multiply, {0}, reverse={reverse}, axis={axis})",
        "Mul",
        reverse=BOOL,
        axis=(0, -1),
    ),
    _rows("keras_map", "tf.keras.ops.map(tf.sin, {0})", "Sin"),
    _rows("keras_switch", "tf.keras.ops.switch({index}, [tf.sin, tf.cos, tf.square], {0})", index=(0, 1, 2, 5)),
)
