"""Joining, cutting, rearranging, padding, repeating, diagonals (family `array`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.language import along_axis, of_unknown_dimensions, operation, points_last, tf
from gradcheck.operations.shapes import (
    alike,
    at_least,
    axes,
    nonempty,
    nonempty_matrix,
    of_rank,
    only_if,
    ranked,
    several,
    square,
    vector,
)
from gradcheck.operations.spec import Formula, Indices, Shapes, unary
from gradcheck.operations.special_sets import ONE_ELEMENT, SEVERAL_ALONG_EACH, SEVERAL_ELEMENTS

STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (1, 3), (2, 1, 2))
ENDS = (0, -1)
WITH_POINTS: dict[str, Callable[[tf.Tensor, Any], tuple[Any, ...]]] = {
    "shape": lambda x, shape: (x.shape[0], *shape),
    "perm": lambda _, perm: (0, *(axis + 1 for axis in perm)),
    "begin": lambda _, begin: (0, *begin),
    "size": lambda _, size: (-1, *size),
    "paddings": lambda _, paddings: ((0, 0), *paddings),
    "multiples": lambda _, multiples: (1, *multiples),
    "dims": lambda _, dims: (False, *dims),
}
"""Attributes that are given for every dimension, with that of points in front."""


def _with_points(form: Formula) -> Formula:
    def of_points(x: tf.Tensor, *others: tf.Tensor, **ways: Any) -> tf.Tensor:
        given = {name: WITH_POINTS[name](x, value) if name in WITH_POINTS else value for name, value in ways.items()}
        return form(x, *others, **given)

    return of_points


def _reshapes(shape: Shape) -> Iterable[Shape]:
    size = math.prod(shape)
    return dict.fromkeys([(size,), (size, 1), (1, size), shape[::-1] or (1, 1)])


def _permutations(shape: Shape) -> Iterable[Shape]:
    straight = tuple(range(len(shape)))
    return dict.fromkeys([straight[::-1], straight[1:] + straight[:1], straight])


def _moving_permutations(shape: Shape) -> Iterable[Shape]:
    """Without the identity, which is not drawn: Grappler, in TensorFlow 2.21, crashes."""
    return [perm for perm in _permutations(shape) if perm != tuple(range(len(shape)))]


def _paddings(*options: tuple[int, int]) -> Callable[[Shape], Iterable[Any]]:
    """Behind or around the last dimension, and the first option for all."""

    def paddings(shape: Shape) -> Iterable[Any]:
        last = [(*[(0, 0)] * (len(shape) - 1), option) for option in options]
        return dict.fromkeys([*last, (options[0],) * len(shape)])

    return paddings


def _stretched(shape: Shape) -> Iterable[Shape]:
    every = tuple(2 if size == 1 else size for size in shape)
    return dict.fromkeys([every, (*shape[:-1], every[-1]), shape])


def _reversals(shape: Shape) -> Iterable[tuple[bool, ...]]:
    last = (*[False] * (len(shape) - 1), True)
    return dict.fromkeys([last, (True,) * len(shape), last[::-1]])


def _filled_up(*block: int) -> Callable[[Shape], Iterable[Any]]:
    """Paddings to multiples of the block's sides behind, before, and around all dimensions but the first."""

    def paddings(shape: Shape) -> Iterable[Any]:
        missing = [(-size % side, side) for size, side in zip(shape[1:], block, strict=True)]
        behind = tuple((0, count) for count, _ in missing)
        around = tuple((count + side - 1, 1) for count, side in missing)
        return dict.fromkeys([behind, tuple(pair[::-1] for pair in behind), around])

    return paddings


def _image_batches(shape: Shape) -> bool:
    return len(shape) == 3 and all(shape)


_unary = partial(operation, "array", shapes=vector, starts=STARTS, batching=_with_points)
_along = partial(_unary, batching=along_axis)
_pad = partial(_unary, shapes=only_if(of_rank(5), ranked), paddings=_paddings((1, 0), (0, 2)))
_mirror = partial(_unary, shapes=only_if(of_rank(4), vector), paddings=_paddings((1, 0), (1, 1)))
_pair = partial(operation, "array", shapes=ranked, others=alike, starts=(*STARTS, (0,)))

ARRAYS = (
    _unary("expand_dims", lambda x: tf.expand_dims(x, axis=-1), "ExpandDims", shapes=unary),
    _unary("reshape", lambda x, *, shape: tf.reshape(x, shape), "Reshape", shapes=nonempty, shape=_reshapes),
    _unary("transpose", lambda x, *, perm: tf.transpose(x, perm), "Transpose", perm=_permutations),
    _unary(
        "conjugate_transpose",
        lambda x, *, perm: tf.transpose(x, perm, conjugate=True),
        "ConjugateTranspose",
        when=lambda shape: len(shape) > 1,
        perm=_moving_permutations,
        dtypes=("complex128",),
        result="complex128",
    ),
    _pair("concat", lambda x, y, *, axis: tf.concat([x, y], axis=axis), "ConcatV2", axis=axes),
    _pair(
        "legacy_concat",
        lambda x, y: tf.raw_ops.Concat(concat_dim=0, values=[x, y]),
        batched=lambda x, y: tf.raw_ops.Concat(concat_dim=1, values=[x, y]),
    ),
    # TensorFlow's gradient takes another branch for more than 16 parts; in `concat_gathered` it gets IndexedSlices.
    _pair(
        "concat_many",
        lambda x, y, *, axis: tf.concat([x, y] * 9, axis=axis),
        "ConcatV2",
        batched=lambda x, y, *, axis: tf.concat([x, y] * 9, axis=axis + (axis >= 0)),
        when=lambda shape: math.prod(shape) <= 2,
        others=lambda shape: [((2, *shape[1:]),), ((1, *shape[1:]),)],
        starts=((1,), (2,), (1, 1), (2, 1)),
        axis=lambda shape, _: (0, -len(shape)),
    ),
    _pair(
        "concat_gathered",
        lambda x, y, *, axis, rows: tf.gather(tf.concat([x, y], axis=axis), rows),
        "ConcatV2 GatherV2",
        batched=lambda x, y, *, axis, rows: tf.gather(tf.concat([x, y], axis=axis + (axis >= 0)), rows, axis=1),
        shapes=vector,
        axis=lambda shape, _: (*range(len(shape)), *axes(shape)),
        rows=lambda shape, _: Indices(3, below=shape[0]),
    ),
    _pair(
        "stack",
        lambda x, y, *, axis: tf.stack([x, y], axis=axis),
        "Pack",
        shapes=unary,
        axis=lambda shape, _: axes((*shape, 1)),
    ),
    _along("unstack", lambda x, *, axis, which: tf.unstack(x, axis=axis)[which], "Unpack", axis=axes, which=ENDS),
    _along(
        "split",
        lambda x, *, axis, which: tf.split(x, 2, axis=axis)[which],
        "Split",
        when=lambda shape: any(size % 2 == 0 for size in shape),
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] % 2 == 0],
        which=ENDS,
    ),
    _along(
        "split_v",
        lambda x, *, axis, which: tf.split(x, [1, x.shape[axis] - 1], axis=axis)[which],
        "SplitV",
        when=lambda shape: max(shape) > 1,
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] > 1],
        which=ENDS,
    ),
    _unary(
        "squeeze",
        lambda x, *, axis: tf.squeeze(x, axis=axis),
        "Squeeze",
        shapes=unary,
        when=lambda shape: 1 in shape,
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] == 1],
    ),
    _unary(
        "slice",
        lambda x, *, begin, size: tf.slice(x, begin, size),
        "Slice",
        begin=lambda shape: [(0,) * len(shape)],
        size=lambda shape: [(1,) * len(shape), shape],
    ),
    _unary(
        "slice_from",
        lambda x, *, begin, size: tf.slice(x, begin, size),
        "Slice",
        begin=lambda shape: [tuple(size - 1 for size in shape), (0,) * len(shape)],
        size=lambda shape: [(-1,) * len(shape), (1,) * len(shape)],
    ),
    _unary("strided_slice", lambda x, *, step: x[..., ::step], "StridedSlice", step=(2, -1, -2)),
    _unary("strided_slice_shrink", lambda x, *, which: x[..., which, tf.newaxis], "StridedSlice", which=ENDS),
    _unary(
        "strided_slice_range",
        lambda x, *, begin, end, step: x[begin:end:step, ...],
        "StridedSlice",
        batched=lambda x, *, begin, end, step: x[:, begin:end:step, ...],
        begin=(0, -1, 1, None),
        end=lambda shape: (shape[0], -1, None),
        step=(1, 2),
    ),
    _pad("pad", lambda x, *, paddings: tf.pad(x, paddings), "Pad"),
    _pad("pad_constant", lambda x, *, paddings: tf.pad(x, paddings, constant_values=2.0), "PadV2"),
    _mirror("pad_symmetric", lambda x, *, paddings: tf.pad(x, paddings, mode="SYMMETRIC"), "MirrorPad"),
    _mirror(
        "pad_reflect",
        lambda x, *, paddings: tf.pad(x, paddings, mode="REFLECT"),
        "MirrorPad",
        when=lambda shape: min(shape) > 1,
    ),
    _unary(
        "tile",
        lambda x, *, multiples: tf.tile(x, multiples),
        "Tile",
        multiples=lambda shape: [(2,) * len(shape), (*[1] * (len(shape) - 1), 3)],
        special=(SEVERAL_ALONG_EACH,),
    ),
    _unary(
        "tile_gathered",
        lambda x, *, multiples, rows: tf.gather(tf.tile(x, multiples), rows),
        "Tile GatherV2",
        batched=lambda x, *, multiples, rows: tf.gather(tf.tile(x, (1, *multiples)), rows, axis=1),
        multiples=lambda shape: [(2,) * len(shape), (3, *[1] * (len(shape) - 1))],
        rows=lambda shape: Indices(3, below=2 * shape[0]),
        special=(SEVERAL_ALONG_EACH,),
    ),
    _unary(
        "broadcast_to",
        lambda x, *, shape: tf.broadcast_to(x, shape),
        "BroadcastTo",
        when=lambda shape: 1 in shape,
        shape=_stretched,
    ),
    _unary(
        "broadcast_to_rank",
        lambda x: tf.broadcast_to(x, (2, *x.shape)),
        "BroadcastTo",
        batched=lambda x: tf.broadcast_to(x[:, tf.newaxis], (x.shape[0], 2, *x.shape[1:])),
        shapes=nonempty,
        starts=((), *STARTS),
    ),
    _unary("fill", lambda x: tf.fill((2, 3), x), "Fill", looped=True, shapes=at_least(), starts=((),)),
    _unary(
        "reverse",
        lambda x, *, axis: tf.reverse(x, np.ravel(axis)),
        "ReverseV2",
        axis=lambda shape: (*axes(shape), *combinations(axes(shape), 2)),
    ),
    _unary(
        "reverse_sequence",
        lambda x, *, lengths: tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0),
        "ReverseSequence",
        batched=lambda x, *, lengths: tf.reverse_sequence(x, lengths, seq_axis=2, batch_axis=1),
        shapes=only_if(of_rank(4), nonempty_matrix),
        starts=((1, 2), (2, 2), (2, 3), (2, 2, 2)),
        lengths=lambda shape: Indices(shape[0], below=shape[1] + 1),
    ),
    _along("roll", lambda x, *, shift, axis: tf.roll(x, shift=shift, axis=axis), "Roll", shift=(1, -1, 2), axis=axes),
    _unary(
        "roll_over_axes",
        lambda x, *, shifts, axis: tf.roll(x, shift=shifts, axis=axis),
        "Roll",
        shapes=nonempty_matrix,
        shifts=((1, 1), (1, -1), (2, 1)),
        axis=((-1, -2), (-1, -1)),
    ),
    _unary(
        "space_to_batch",
        lambda x: tf.space_to_batch(x, [2], [[1, 1]]),
        "SpaceToBatchND",
        batching=points_last,
        shapes=nonempty_matrix,
        when=lambda shape: shape[1] % 2 == 0,
        starts=((1, 2), (2, 2), (1, 4), (2, 2, 2)),
    ),
    _unary(
        "batch_to_space",
        lambda x: tf.batch_to_space(x, [2], [[1, 0]]),
        "BatchToSpaceND",
        batching=points_last,
        shapes=nonempty_matrix,
        when=lambda shape: shape[0] % 2 == 0,
        starts=((2, 1), (2, 2), (4, 1), (2, 2, 2)),
    ),
    _unary("legacy_reverse", lambda x, *, dims: tf.raw_ops.Reverse(tensor=x, dims=dims), dims=_reversals),
    _unary(
        "legacy_space_to_batch",
        lambda x, *, paddings: tf.raw_ops.SpaceToBatch(input=x[..., tf.newaxis], paddings=paddings, block_size=2)[
            ..., 0
        ],
        batched=points_last(lambda x, *, paddings: tf.raw_ops.SpaceToBatch(input=x, paddings=paddings, block_size=2)),
        when=_image_batches,
        starts=((1, 2, 2), (2, 1, 2), (1, 3, 1)),
        paddings=_filled_up(2, 2),
    ),
    _unary(
        "legacy_batch_to_space",
        lambda x, *, crops: tf.raw_ops.BatchToSpace(input=x[..., tf.newaxis], crops=crops, block_size=2)[..., 0],
        batched=points_last(lambda x, *, crops: tf.raw_ops.BatchToSpace(input=x, crops=crops, block_size=2)),
        when=lambda shape: _image_batches(shape) and shape[0] % 4 == 0,
        starts=((4, 1, 1), (4, 1, 2), (8, 1, 1)),
        crops=(((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, 0), (1, 0))),
    ),
    _unary(
        "space_to_batch_2d",
        lambda x, *, paddings: tf.space_to_batch(x, [3, 2], paddings),
        "SpaceToBatchND",
        batching=points_last,
        when=_image_batches,
        starts=((1, 3, 2), (2, 1, 2), (1, 2, 3)),
        paddings=_filled_up(3, 2),
    ),
    _unary(
        "batch_to_space_2d",
        lambda x, *, crops: tf.batch_to_space(x, [3, 2], crops),
        "BatchToSpaceND",
        batching=points_last,
        when=lambda shape: _image_batches(shape) and shape[0] % 6 == 0,
        starts=((6, 1, 1), (6, 1, 2)),
        crops=(((0, 0), (0, 0)), ((1, 1), (0, 1)), ((0, 2), (1, 0))),
    ),
)


def diagonals_set(x: tf.Tensor, y: tf.Tensor, *, kernel: str, k: int) -> tf.Tensor:
    return getattr(tf.raw_ops, kernel)(input=x, diagonal=y, k=k)


def diagonals_of(x: tf.Tensor, *, k: int) -> tf.Tensor:
    return tf.raw_ops.MatrixDiagPartV2(input=x, k=k, padding_value=np.float64(2.0))


_of_vector = partial(operation, "array", shapes=vector, starts=((2,), (1,), (3,), (2, 2)))
_of_matrix = partial(operation, "array", shapes=nonempty_matrix, starts=((2, 2), (1, 2), (2, 3), (3, 2), (2, 2, 2)))


def _diagonal(shape: Shape) -> Shapes:
    return [((*shape[:-2], min(shape[-2:])),)]


def _two_diagonals(shape: Shape) -> Shapes:
    return [((*shape[:-2], 2, shape[-1]),)]


def _bands(shape: Shape) -> Iterable[tuple[int, int]]:
    """The main diagonal, and bands above it, below it and around it, as far as there are any."""
    below, above = (-int(shape[-2] > 1), int(shape[-1] > 1))
    return dict.fromkeys([(0, 0), (0, above), (below, 0), (below, above)])


def _lengths_beside(shape: Shape) -> dict[int, int]:
    """The lengths of the diagonals above and below the main one, by their numbers; there is not always one."""
    rows, columns = shape[-2:]
    return {k: n for k, n in ((1, min(rows, columns - 1)), (-1, min(rows - 1, columns))) if n}


ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")

_of_bands = partial(
    _of_matrix,
    when=lambda shape: shape[-2] == 2,
    starts=((2, 2), (2, 1), (2, 3), (2, 2, 2)),
    k=((0, 1), (-1, 0)),
)

DIAGONALS_IN = lambda x, *, k: tf.raw_ops.MatrixDiagV2(
    diagonal=x, k=k, num_rows=-1, num_cols=-1, padding_value=np.float64(2.0)
)
DIAGONALS_SET = lambda x, y, *, k: tf.raw_ops.MatrixSetDiagV2(input=x, diagonal=y, k=k)
DIAGONALS_OF = lambda x, *, k: tf.raw_ops.MatrixDiagPartV2(input=x, k=k, padding_value=np.float64(2.0))

DIAGONALS = (
    _of_vector("matrix_diag", lambda x: tf.linalg.diag(x), "MatrixDiagV3"),
    _of_vector(
        "matrix_diag_offset",
        lambda x, *, k: tf.linalg.diag(x, k=k, num_rows=x.shape[-1] + 1, num_cols=x.shape[-1] + 1),
        "MatrixDiagV3",
        k=(1, -1),
    ),
    _of_matrix("matrix_diag_part", lambda x: tf.linalg.diag_part(x), "MatrixDiagPartV3"),
    _of_matrix(
        "matrix_diag_part_band",
        lambda x, *, align: tf.linalg.diag_part(x, k=(-1, 1), align=align),
        "MatrixDiagPartV3",
        when=lambda shape: min(shape[-2:]) > 1,
        align=ALIGNMENTS,
    ),
    _of_matrix("matrix_set_diag", lambda x, y: tf.linalg.set_diag(x, y), "MatrixSetDiagV3", others=_diagonal),
    _of_matrix(
        "matrix_set_diag_below",
        lambda x, y: tf.linalg.set_diag(x, y, k=-1),
        "MatrixSetDiagV3",
        when=lambda shape: shape[-2] > 1,
        others=lambda shape: [((*shape[:-2], min(shape[-2] - 1, shape[-1])),)],
    ),
    _of_matrix(
        "matrix_set_diag_band",
        lambda x, y, *, k, align: tf.linalg.set_diag(x, y, k=k, align=align),
        "MatrixSetDiagV3",
        shapes=square,
        when=several,
        others=_two_diagonals,
        starts=((2, 2), (3, 3), (2, 2, 2)),
        k=((0, 1), (-1, 0)),
        align=ALIGNMENTS,
    ),
    _of_matrix(
        "matrix_band_part",
        lambda x, *, lower, upper: tf.linalg.band_part(x, lower, upper),
        "MatrixBandPart",
        lower=(0, 1, -1),
        upper=(-1, 0),
    ),
    _of_vector("legacy_matrix_diag", lambda x: tf.raw_ops.MatrixDiag(diagonal=x)),
    _of_matrix("legacy_matrix_diag_part", lambda x: tf.raw_ops.MatrixDiagPart(input=x)),
    _of_matrix(
        "legacy_matrix_set_diag",
        lambda x, y: tf.raw_ops.MatrixSetDiag(input=x, diagonal=y),
        others=_diagonal,
        starts=((2, 2), (1, 2), (2, 3), (3, 2), (2, 2, 2), (1, 2, 2)),  # the last: fewer matrices than rows
    ),
    _of_vector(
        "tensor_diag",
        lambda x: tf.linalg.tensor_diag(x),
        "Diag",
        batched=lambda x: tf.linalg.diag(x),
        shapes=at_least(1),
        starts=((2,), (1,), (3,)),
    ),
    _of_matrix(
        "tensor_diag_part",
        lambda x: tf.linalg.tensor_diag_part(x),
        "DiagPart",
        batched=lambda x: tf.linalg.diag_part(x),
        shapes=square,
        when=lambda shape: len(shape) == 2,
        starts=((2, 2), (1, 1)),
    ),
    _of_vector(
        "legacy_matrix_diag_offset",
        DIAGONALS_IN,
        k=(1, -1, 0),
    ),
    _of_bands("legacy_matrix_diag_band", DIAGONALS_IN, special=(ONE_ELEMENT, SEVERAL_ELEMENTS)),
    _of_matrix("legacy_matrix_diag_part_band", DIAGONALS_OF, when=lambda shape: shape[-2] < shape[-1], k=_bands),
    _of_matrix("legacy_matrix_diag_part_band_tall", DIAGONALS_OF, when=lambda shape: shape[-2] >= shape[-1], k=_bands),
    _of_matrix(
        "legacy_matrix_set_diag_offset",
        DIAGONALS_SET,
        when=several,
        others=lambda shape: [((*shape[:-2], min(shape[-2], shape[-1] - 1)),)],
        k=(1,),
    ),
    _of_matrix(
        "legacy_matrix_set_diag_band",
        DIAGONALS_SET,
        shapes=square,
        when=several,
        others=_two_diagonals,
        starts=((2, 2), (3, 3), (2, 2, 2)),
        k=((0, 1), (-1, 0)),
    ),
    _of_matrix(
        "matrix_set_diag_of_unknown_dimensions",
        lambda x, y, *, kernel, k: of_unknown_dimensions(diagonals_set, x, y, kernel=kernel, k=k),
        "MatrixSetDiagV2 MatrixSetDiagV3",
        when=several,
        others=lambda shape: [((*shape[:-2], length),) for length in dict.fromkeys(_lengths_beside(shape).values())],
        kernel=("MatrixSetDiagV2", "MatrixSetDiagV3"),
        k=lambda shape, diagonal: [k for k, length in _lengths_beside(shape).items() if length == diagonal[-1]],
    ),
    _of_matrix(
        "matrix_diag_part_of_unknown_dimensions",
        lambda x, *, k: of_unknown_dimensions(diagonals_of, x, k=k),
        "MatrixDiagPartV2",
        # Gradients of bands raise, as they do wherever dimensions are not known.
        k=((0, 0),),
    ),
    _of_bands(
        "matrix_diag_band",
        lambda x, *, k, align: tf.linalg.diag(x, k=k, align=align),
        "MatrixDiagV3",
        align=ALIGNMENTS,
        special=(ONE_ELEMENT,),
    ),
)
