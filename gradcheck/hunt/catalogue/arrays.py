"""Joining, cutting, rearranging, padding, repeating (family `array`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from gradcheck.hunt.catalogue.language import points_last
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    Choice,
    Indices,
    OpSpec,
    alike,
    nonempty,
    nonempty_matrix,
    of_rank,
    only_if,
    ranked,
    unary,
    vector,
)

_array: Callable[..., OpSpec] = partial(OpSpec, family="array")
STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (2, 3), (1, 3), (2, 1, 2))
FIRST_OR_LAST = Choice((0, -1))

_unary: Callable[..., OpSpec] = partial(OpSpec, family="array", shapes=vector, starts=STARTS)
_pair: Callable[..., OpSpec] = partial(
    OpSpec, family="array", arity=2, shapes=only_if(ranked, alike(2)), starts=(*STARTS, (0,))
)


def _axes(rank: int) -> Choice:
    return Choice(tuple(range(-1, -rank - 1, -1)))


def _reshapes(shape: Shape) -> Choice:
    size = math.prod(shape)
    return Choice(tuple(dict.fromkeys([(size,), (size, 1), (1, size), tuple(reversed(shape)) or (1, 1)])))


def _permutations(shape: Shape) -> Choice:
    axes = tuple(range(len(shape)))
    return Choice(tuple(dict.fromkeys([axes[::-1], axes[1:] + axes[:1], axes])))


def _paddings(shape: Shape, *options: tuple[int, int]) -> Choice:
    last = [(*[(0, 0)] * (len(shape) - 1), option) for option in options]
    return Choice(tuple(dict.fromkeys([*last, (options[0],) * len(shape)])))


def _stretched(shape: Shape) -> Choice:
    every = tuple(2 if size == 1 else size for size in shape)
    last = (*shape[:-1], every[-1])
    return Choice(tuple(dict.fromkeys([every, last, shape])))


ARRAYS = (
    _unary("expand_dims", "tf.expand_dims({0}, axis=-1)", ("ExpandDims",), shapes=unary),
    _unary(
        "reshape",
        "tf.reshape({0}, {shape})",
        ("Reshape",),
        batched="tf.reshape({0}, ({0}.shape[0], *{shape}))",
        shapes=nonempty,
        attributes=lambda shape: {"shape": _reshapes(shape)},
    ),
    _unary(
        "transpose",
        "tf.transpose({0}, {perm})",
        ("Transpose",),
        batched="tf.transpose({0}, (0, *(axis + 1 for axis in {perm})))",
        attributes=lambda shape: {"perm": _permutations(shape)},
    ),
    _unary(
        "conjugate_transpose",
        "tf.transpose({0}, {perm}, conjugate=True)",
        ("ConjugateTranspose",),
        batched="tf.transpose({0}, (0, *(axis + 1 for axis in {perm})), conjugate=True)",
        attributes=lambda shape: {"perm": _permutations(shape)},
        dtypes=("complex128",),
        result="complex128",
    ),
    _pair(
        "concat",
        "tf.concat([{0}, {1}], axis={axis})",
        ("ConcatV2",),
        attributes=lambda shape, _: {"axis": _axes(len(shape))},
    ),
    _pair(
        "legacy_concat",
        "tf.raw_ops.Concat(concat_dim=0, values=[{0}, {1}])",
        ("Concat",),
        batched="tf.raw_ops.Concat(concat_dim=1, values=[{0}, {1}])",
    ),
    _pair(
        "stack",
        "tf.stack([{0}, {1}], axis={axis})",
        ("Pack",),
        shapes=alike(2),
        attributes=lambda shape, _: {"axis": _axes(len(shape) + 1)},
    ),
    _unary(
        "unstack", "tf.unstack({0}, axis=-1)[{which}]", ("Unpack",), attributes=lambda shape: {"which": FIRST_OR_LAST}
    ),
    _unary(
        "split",
        "tf.split({0}, 2, axis=-1)[{which}]",
        ("Split",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] % 2 == 0),
        attributes=lambda shape: {"which": FIRST_OR_LAST},
    ),
    _unary(
        "split_v",
        "tf.split({0}, [1, {0}.shape[-1] - 1], axis=-1)[{which}]",
        ("SplitV",),
        shapes=only_if(lambda shape: vector(shape) and shape[-1] > 1),
        attributes=lambda shape: {"which": FIRST_OR_LAST},
    ),
    _unary(
        "squeeze",
        "tf.squeeze({0}, axis={axis})",
        ("Squeeze",),
        shapes=only_if(lambda shape: 1 in shape),
        attributes=lambda shape: {"axis": Choice(tuple(a for a in _axes(len(shape)).values if shape[a] == 1))},
    ),
    _unary(
        "slice",
        "tf.slice({0}, {begin}, {size})",
        ("Slice",),
        batched="tf.slice({0}, (0, *{begin}), (-1, *{size}))",
        attributes=lambda shape: {"begin": Choice(((0,) * len(shape),)), "size": Choice(((1,) * len(shape), shape))},
    ),
    _unary(
        "slice_from",
        "tf.slice({0}, {begin}, {size})",
        ("Slice",),
        batched="tf.slice({0}, (0, *{begin}), (-1, *{size}))",
        attributes=lambda shape: {
            "begin": Choice((tuple(size - 1 for size in shape), (0,) * len(shape))),
            "size": Choice(((-1,) * len(shape), (1,) * len(shape))),
        },
    ),
    _unary(
        "strided_slice", "{0}[..., ::{step}]", ("StridedSlice",), attributes=lambda shape: {"step": Choice((2, -1, -2))}
    ),
    _unary(
        "strided_slice_shrink",
        "{0}[..., {which}, tf.newaxis]",
        ("StridedSlice",),
        attributes=lambda shape: {"which": FIRST_OR_LAST},
    ),
    _unary(
        "pad",
        "tf.pad({0}, {paddings})",
        ("Pad",),
        batched="tf.pad({0}, ((0, 0), *{paddings}))",
        shapes=ranked,
        attributes=lambda shape: {"paddings": _paddings(shape, (1, 0), (0, 2))},
    ),
    _unary(
        "pad_constant",
        "tf.pad({0}, {paddings}, constant_values=2.0)",
        ("PadV2",),
        batched="tf.pad({0}, ((0, 0), *{paddings}), constant_values=2.0)",
        shapes=ranked,
        attributes=lambda shape: {"paddings": _paddings(shape, (1, 0), (0, 2))},
    ),
    _unary(
        "pad_symmetric",
        "tf.pad({0}, {paddings}, mode='SYMMETRIC')",
        ("MirrorPad",),
        batched="tf.pad({0}, ((0, 0), *{paddings}), mode='SYMMETRIC')",
        attributes=lambda shape: {"paddings": _paddings(shape, (1, 0), (1, 1))},
    ),
    _unary(
        "pad_reflect",
        "tf.pad({0}, {paddings}, mode='REFLECT')",
        ("MirrorPad",),
        batched="tf.pad({0}, ((0, 0), *{paddings}), mode='REFLECT')",
        shapes=only_if(lambda shape: bool(shape) and min(shape) > 1),
        attributes=lambda shape: {"paddings": _paddings(shape, (1, 0), (1, 1))},
    ),
    _unary(
        "tile",
        "tf.tile({0}, {multiples})",
        ("Tile",),
        batched="tf.tile({0}, (1, *{multiples}))",
        attributes=lambda shape: {"multiples": Choice(((2,) * len(shape), (*[1] * (len(shape) - 1), 3)))},
    ),
    _unary(
        "broadcast_to",
        "tf.broadcast_to({0}, {shape})",
        ("BroadcastTo",),
        batched="tf.broadcast_to({0}, ({0}.shape[0], *{shape}))",
        shapes=only_if(lambda shape: 1 in shape and all(shape)),
        attributes=lambda shape: {"shape": _stretched(shape)},
    ),
    _unary(
        "broadcast_to_rank",
        "tf.broadcast_to({0}, (2, *{0}.shape))",
        ("BroadcastTo",),
        batched="tf.broadcast_to({0}[:, tf.newaxis], ({0}.shape[0], 2, *{0}.shape[1:]))",
        shapes=nonempty,
        starts=((), *STARTS),
    ),
    _array("fill", "tf.fill((2, 3), {0})", ("Fill",), looped=True, shapes=of_rank(0), starts=((),)),
    _unary(
        "reverse",
        "tf.reverse({0}, axis=[{axis}])",
        ("ReverseV2",),
        attributes=lambda shape: {"axis": _axes(len(shape))},
    ),
    _unary(
        "reverse_sequence",
        "tf.reverse_sequence({0}, {lengths}, seq_axis=1, batch_axis=0)",
        ("ReverseSequence",),
        batched="tf.reverse_sequence({0}, {lengths}, seq_axis=2, batch_axis=1)",
        shapes=nonempty_matrix,
        starts=((1, 2), (2, 2), (2, 3), (2, 2, 2)),
        attributes=lambda shape: {"lengths": Indices(shape[0], below=shape[1] + 1)},
    ),
    _unary(
        "roll",
        "tf.roll({0}, shift={shift}, axis=-1)",
        ("Roll",),
        attributes=lambda shape: {"shift": Choice((1, -1, 2))},
    ),
    _unary(
        "space_to_batch",
        "tf.space_to_batch({0}, [2], [[1, 1]])",
        ("SpaceToBatchND",),
        batched=points_last("tf.space_to_batch({0}, [2], [[1, 1]])"),
        shapes=only_if(lambda shape: nonempty_matrix(shape) and shape[1] % 2 == 0),
        starts=((1, 2), (2, 2), (1, 4), (2, 2, 2)),
    ),
    _unary(
        "batch_to_space",
        "tf.batch_to_space({0}, [2], [[1, 0]])",
        ("BatchToSpaceND",),
        batched=points_last("tf.batch_to_space({0}, [2], [[1, 0]])"),
        shapes=only_if(lambda shape: nonempty_matrix(shape) and shape[0] % 2 == 0),
        starts=((2, 1), (2, 2), (4, 1), (2, 2, 2)),
    ),
)
