"""Joining, cutting, rearranging, padding, repeating (family `array`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from typing import Any

from gradcheck.hunt.catalogue.language import along_axis, operation, points_last
from gradcheck.hunt.catalogue.shapes import (
    alike,
    at_least,
    axes,
    nonempty,
    nonempty_matrix,
    of_rank,
    only_if,
    ranked,
    vector,
)
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Indices, unary

STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (1, 3), (2, 1, 2))
ENDS = (0, -1)
WITH_POINTS = {
    "{shape}": "({0}.shape[0], *{shape})",
    "{perm}": "(0, *(axis + 1 for axis in {perm}))",
    "{begin}": "(0, *{begin})",
    "{size}": "(-1, *{size})",
    "{paddings}": "((0, 0), *{paddings})",
    "{multiples}": "(1, *{multiples})",
    "{dims}": "(False, *{dims})",
}
"""Attributes that are given for every dimension, with that of points in front."""


def _with_points(source: str) -> str:
    return re.sub(r"\{\w+\}", lambda match: WITH_POINTS.get(match[0], match[0]), source)


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
    _unary("expand_dims", "tf.expand_dims({0}, axis=-1)", "ExpandDims", shapes=unary),
    _unary("reshape", "tf.reshape({0}, {shape})", "Reshape", shapes=nonempty, shape=_reshapes),
    _unary("transpose", "tf.transpose({0}, {perm})", "Transpose", perm=_permutations),
    _unary(
        "conjugate_transpose",
        "tf.transpose({0}, {perm}, conjugate=True)",
        "ConjugateTranspose",
        when=lambda shape: len(shape) > 1,
        perm=_moving_permutations,
        dtypes=("complex128",),
        result="complex128",
    ),
    _pair("concat", "tf.concat([{0}, {1}], axis={axis})", "ConcatV2", axis=axes),
    _pair(
        "legacy_concat",
        "tf.raw_ops.Concat(concat_dim=0, values=[{0}, {1}])",
        batched="tf.raw_ops.Concat(concat_dim=1, values=[{0}, {1}])",
    ),
    # More than 16 parts are told apart in another way, and the gradient of the gather arrives as IndexedSlices.
    _pair(
        "concat_many",
        "tf.concat([{0}, {1}] * 9, axis={axis})",
        "ConcatV2",
        batched="tf.concat([{0}, {1}] * 9, axis={axis} + ({axis} >= 0))",
        when=lambda shape: math.prod(shape) <= 2,
        others=lambda shape: [((2, *shape[1:]),), ((1, *shape[1:]),)],
        starts=((1,), (2,), (1, 1), (2, 1)),
        axis=lambda shape, _: (0, -len(shape)),
    ),
    _pair(
        "concat_gathered",
        "tf.gather(tf.concat([{0}, {1}], axis={axis}), {rows})",
        "ConcatV2 GatherV2",
        batched="tf.gather(tf.concat([{0}, {1}], axis={axis} + ({axis} >= 0)), {rows}, axis=1)",
        shapes=vector,
        axis=lambda shape, _: (*range(len(shape)), *axes(shape)),
        rows=lambda shape, _: Indices(3, below=shape[0]),
    ),
    _pair("stack", "tf.stack([{0}, {1}], axis={axis})", "Pack", shapes=unary, axis=lambda shape, _: axes((*shape, 1))),
    _along("unstack", "tf.unstack({0}, axis={axis})[{which}]", "Unpack", axis=axes, which=ENDS),
    _along(
        "split",
        "tf.split({0}, 2, axis={axis})[{which}]",
        "Split",
        when=lambda shape: any(size % 2 == 0 for size in shape),
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] % 2 == 0],
        which=ENDS,
    ),
    _along(
        "split_v",
        "tf.split({0}, [1, {0}.shape[{axis}] - 1], axis={axis})[{which}]",
        "SplitV",
        when=lambda shape: max(shape) > 1,
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] > 1],
        which=ENDS,
    ),
    _unary(
        "squeeze",
        "tf.squeeze({0}, axis={axis})",
        "Squeeze",
        shapes=unary,
        when=lambda shape: 1 in shape,
        axis=lambda shape: [axis for axis in axes(shape) if shape[axis] == 1],
    ),
    _unary(
        "slice",
        "tf.slice({0}, {begin}, {size})",
        "Slice",
        begin=lambda shape: [(0,) * len(shape)],
        size=lambda shape: [(1,) * len(shape), shape],
    ),
    _unary(
        "slice_from",
        "tf.slice({0}, {begin}, {size})",
        "Slice",
        begin=lambda shape: [tuple(size - 1 for size in shape), (0,) * len(shape)],
        size=lambda shape: [(-1,) * len(shape), (1,) * len(shape)],
    ),
    _unary("strided_slice", "{0}[..., ::{step}]", "StridedSlice", step=(2, -1, -2)),
    _unary("strided_slice_shrink", "{0}[..., {which}, tf.newaxis]", "StridedSlice", which=ENDS),
    _unary(
        "strided_slice_range",
        "{0}[{begin}:{end}:{step}, ...]",
        "StridedSlice",
        batched="{0}[:, {begin}:{end}:{step}, ...]",
        begin=(0, -1, 1, None),
        end=lambda shape: (shape[0], -1, None),
        step=(1, 2),
    ),
    _pad("pad", "tf.pad({0}, {paddings})", "Pad"),
    _pad("pad_constant", "tf.pad({0}, {paddings}, constant_values=2.0)", "PadV2"),
    _mirror("pad_symmetric", "tf.pad({0}, {paddings}, mode='SYMMETRIC')", "MirrorPad"),
    _mirror("pad_reflect", "tf.pad({0}, {paddings}, mode='REFLECT')", "MirrorPad", when=lambda shape: min(shape) > 1),
    _unary(
        "tile",
        "tf.tile({0}, {multiples})",
        "Tile",
        multiples=lambda shape: [(2,) * len(shape), (*[1] * (len(shape) - 1), 3)],
    ),
    _unary(
        "tile_gathered",
        "tf.gather(tf.tile({0}, {multiples}), {rows})",
        "Tile GatherV2",
        batched="tf.gather(tf.tile({0}, (1, *{multiples})), {rows}, axis=1)",
        multiples=lambda shape: [(2,) * len(shape), (3, *[1] * (len(shape) - 1))],
        rows=lambda shape: Indices(3, below=2 * shape[0]),
    ),
    _unary(
        "broadcast_to", "tf.broadcast_to({0}, {shape})", "BroadcastTo", when=lambda shape: 1 in shape, shape=_stretched
    ),
    _unary(
        "broadcast_to_rank",
        "tf.broadcast_to({0}, (2, *{0}.shape))",
        "BroadcastTo",
        batched="tf.broadcast_to({0}[:, tf.newaxis], ({0}.shape[0], 2, *{0}.shape[1:]))",
        shapes=nonempty,
        starts=((), *STARTS),
    ),
    _unary("fill", "tf.fill((2, 3), {0})", "Fill", looped=True, shapes=at_least(), starts=((),)),
    _unary(
        "reverse",
        "tf.reverse({0}, np.ravel({axis}))",
        "ReverseV2",
        axis=lambda shape: (*axes(shape), *combinations(axes(shape), 2)),
    ),
    _unary(
        "reverse_sequence",
        "tf.reverse_sequence({0}, {lengths}, seq_axis=1, batch_axis=0)",
        "ReverseSequence",
        batched="tf.reverse_sequence({0}, {lengths}, seq_axis=2, batch_axis=1)",
        shapes=only_if(of_rank(4), nonempty_matrix),
        starts=((1, 2), (2, 2), (2, 3), (2, 2, 2)),
        lengths=lambda shape: Indices(shape[0], below=shape[1] + 1),
    ),
    _along("roll", "tf.roll({0}, shift={shift}, axis={axis})", "Roll", shift=(1, -1, 2), axis=axes),
    _unary(
        "roll_over_axes",
        "tf.roll({0}, shift={shifts}, axis={axis})",
        "Roll",
        shapes=nonempty_matrix,
        shifts=((1, 1), (1, -1), (2, 1)),
        axis=((-1, -2), (-1, -1)),
    ),
    _unary(
        "space_to_batch",
        "tf.space_to_batch({0}, [2], [[1, 1]])",
        "SpaceToBatchND",
        batching=points_last,
        shapes=nonempty_matrix,
        when=lambda shape: shape[1] % 2 == 0,
        starts=((1, 2), (2, 2), (1, 4), (2, 2, 2)),
    ),
    _unary(
        "batch_to_space",
        "tf.batch_to_space({0}, [2], [[1, 0]])",
        "BatchToSpaceND",
        batching=points_last,
        shapes=nonempty_matrix,
        when=lambda shape: shape[0] % 2 == 0,
        starts=((2, 1), (2, 2), (4, 1), (2, 2, 2)),
    ),
    _unary("legacy_reverse", "tf.raw_ops.Reverse(tensor={0}, dims={dims})", dims=_reversals),
    _unary(
        "legacy_space_to_batch",
        "tf.raw_ops.SpaceToBatch(input={0}[..., tf.newaxis], paddings={paddings}, block_size=2)[..., 0]",
        batched=points_last("tf.raw_ops.SpaceToBatch(input={0}, paddings={paddings}, block_size=2)"),
        when=_image_batches,
        starts=((1, 2, 2), (2, 1, 2), (1, 3, 1)),
        paddings=_filled_up(2, 2),
    ),
    _unary(
        "legacy_batch_to_space",
        "tf.raw_ops.BatchToSpace(input={0}[..., tf.newaxis], crops={crops}, block_size=2)[..., 0]",
        batched=points_last("tf.raw_ops.BatchToSpace(input={0}, crops={crops}, block_size=2)"),
        when=lambda shape: _image_batches(shape) and shape[0] % 4 == 0,
        starts=((4, 1, 1), (4, 1, 2), (8, 1, 1)),
        crops=(((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, 0), (1, 0))),
    ),
    _unary(
        "space_to_batch_2d",
        "tf.space_to_batch({0}, [3, 2], {paddings})",
        "SpaceToBatchND",
        batching=points_last,
        when=_image_batches,
        starts=((1, 3, 2), (2, 1, 2), (1, 2, 3)),
        paddings=_filled_up(3, 2),
    ),
    _unary(
        "batch_to_space_2d",
        "tf.batch_to_space({0}, [3, 2], {crops})",
        "BatchToSpaceND",
        batching=points_last,
        when=lambda shape: _image_batches(shape) and shape[0] % 6 == 0,
        starts=((6, 1, 1), (6, 1, 2)),
        crops=(((0, 0), (0, 0)), ((1, 1), (0, 1)), ((0, 2), (1, 0))),
    ),
)
