"""Gathering, scattering, partitions and their stitching (family `array`), reductions over segments (`math`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue.language import points_last
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import (
    Array,
    Attribute,
    Choice,
    Distances,
    Indices,
    OpSpec,
    Shapes,
    alike,
    nonempty_matrix,
    only_if,
    ties_of_largest,
    ties_of_smallest,
    ties_within,
    vector,
)

_math: Callable[..., OpSpec] = partial(OpSpec, family="math")
STARTS: tuple[Shape, ...] = ((2,), (1,), (3,), (2, 2), (3, 2))
AT = "tf.expand_dims({indices}, -1)"

_rows: Callable[..., OpSpec] = partial(OpSpec, family="array", shapes=vector, starts=STARTS)


def _updated(shape: Shape) -> Shapes:
    return [(shape, (count, *shape[1:])) for count in (2, 1, 3)] if vector(shape) else []


def _updated_once(shape: Shape) -> Shapes:
    return [(shape, (count, *shape[1:])) for count in (1, 2) if count <= shape[0]] if vector(shape) else []


def _targets(shape: Shape, updates: Shape) -> Mapping[str, Attribute]:
    return {"indices": Indices(updates[0], below=shape[0])}


def _distinct_targets(shape: Shape, updates: Shape) -> Mapping[str, Attribute]:
    return {"indices": Indices(updates[0], below=shape[0], distinct=True)}


def _rivals(sign: int) -> Callable[..., Array]:
    """How far the largest (sign 1) or smallest (-1) candidate for each element lies from the next one."""

    def distances(x: Array, updates: Array, *, indices: Sequence[int]) -> Array:
        gaps = []
        for target in sorted(set(indices)):
            candidates = sign * np.concatenate([x[[target]], updates[np.equal(indices, target)]])
            gaps.append(-np.diff(-np.sort(-candidates, axis=0), axis=0)[0].ravel())
        return np.concatenate(gaps)

    return distances


def _scatter(name: str, gradient: str, **fields: Any) -> OpSpec:
    source = f"tf.tensor_scatter_nd_{name}({{0}}, {AT}, {{1}})"
    fields = {"shapes": _updated, "attributes": _targets, **fields}
    return _rows(f"tensor_scatter_nd_{name}", source, (gradient,), arity=2, batched=points_last(source), **fields)


def _pieces(shape: Shape) -> Mapping[str, Attribute]:
    count = shape[0]
    alternating = tuple(position % 2 for position in range(count))
    last = (*[0] * (count - 1), 1)
    return {"partitions": Choice(tuple(dict.fromkeys([alternating, last]))), "which": Choice((0, 1))}


def _order(shape: Shape, _other: Shape) -> Mapping[str, Attribute]:
    count = shape[0]
    after, over, across = (tuple(range(start, start + count)) for start in (count, 0, count - 1))
    return {"first": Choice((tuple(range(count)),)), "second": Choice(tuple(dict.fromkeys([after, across, over])))}


def _interleaved(shape: Shape, _other: Shape) -> Mapping[str, Attribute]:
    count = shape[0]
    return {
        "first": Choice((tuple(range(count)), tuple(range(count))[::-1])),
        "second": Choice((tuple(range(count, 2 * count)),)),
    }


GATHER_ND = "tf.gather_nd({0}, tf.stack([{rows}, {columns}], axis=-1))"
SCATTER_ND = "tf.scatter_nd(tf.expand_dims({indices}, -1), {0}, ({0}.shape[0] + 1, *{0}.shape[1:]))"
NON_ALIASING = "tf.raw_ops.ScatterNdNonAliasingAdd(input={0}, indices=tf.expand_dims({indices}, -1), updates={1})"
PARTITION = "tf.dynamic_partition({0}, {partitions}, 2)[{which}]"
STITCH = "tf.dynamic_stitch([{first}, {second}], [{0}, {1}])"
PARALLEL_STITCH = "tf.raw_ops.ParallelDynamicStitch(indices=[{first}, {second}], data=[{0}, {1}])"
SLICE_UPDATE = (
    "tf.raw_ops.TensorStridedSliceUpdate(input={0}, begin=[0], end=[{0}.shape[0]], strides=[{0}.shape[0]], value={1})"
)

GATHERING = (
    _rows(
        "gather",
        "tf.gather({0}, {indices}, axis=-1)",
        ("GatherV2",),
        attributes=lambda shape: {"indices": Indices(3, below=shape[-1])},
    ),
    _rows(
        "gather_rows",
        "tf.gather({0}, {indices})",
        ("GatherV2",),
        batched="tf.gather({0}, {indices}, axis=1)",
        attributes=lambda shape: {"indices": Indices(2, below=shape[0])},
    ),
    _rows(
        "gather_each_row",
        "tf.gather({0}, tf.stack([{indices}] * {0}.shape[0]), axis=1, batch_dims=1)",
        ("GatherV2",),
        batched=("tf.gather({0}, tf.broadcast_to({indices}, (*{0}.shape[:2], len({indices}))), axis=2, batch_dims=2)"),
        shapes=nonempty_matrix,
        starts=((2, 2), (1, 2), (2, 3), (2, 2, 2)),
        attributes=lambda shape: {"indices": Indices(2, below=shape[1])},
    ),
    _rows(
        "legacy_gather",
        "tf.raw_ops.Gather(params={0}, indices={indices})",
        ("Gather",),
        batched=points_last("tf.raw_ops.Gather(params={0}, indices={indices})"),
        attributes=lambda shape: {"indices": Indices(2, below=shape[0])},
    ),
    _rows(
        "gather_nd",
        GATHER_ND,
        ("GatherNd",),
        batched=points_last(GATHER_ND),
        shapes=nonempty_matrix,
        starts=((2, 2), (1, 2), (2, 3), (2, 2, 2)),
        attributes=lambda shape: {"rows": Indices(2, below=shape[0]), "columns": Indices(2, below=shape[1])},
    ),
    _rows(
        "scatter_nd",
        SCATTER_ND,
        ("ScatterNd",),
        batched=points_last(SCATTER_ND),
        attributes=lambda shape: {"indices": Indices(shape[0], below=shape[0] + 1)},
    ),
    _scatter("add", "TensorScatterAdd"),
    _scatter("sub", "TensorScatterSub"),
    _scatter("update", "TensorScatterUpdate", shapes=_updated_once, attributes=_distinct_targets),
    _scatter("max", "TensorScatterMax", kinks=_rivals(1)),
    _scatter("min", "TensorScatterMin", kinks=_rivals(-1)),
    _rows(
        "scatter_nd_non_aliasing_add",
        NON_ALIASING,
        ("ScatterNdNonAliasingAdd",),
        arity=2,
        batched=points_last(NON_ALIASING),
        shapes=_updated,
        attributes=_targets,
    ),
    _rows(
        "tensor_strided_slice_update",
        SLICE_UPDATE,
        ("TensorStridedSliceUpdate",),
        arity=2,
        batched=points_last(SLICE_UPDATE),
        shapes=lambda shape: [(shape, (1, *shape[1:]))] if vector(shape) else [],
    ),
    _rows(
        "dynamic_partition",
        PARTITION,
        ("DynamicPartition",),
        batched=points_last(PARTITION),
        shapes=only_if(lambda shape: vector(shape) and shape[0] > 1),
        attributes=_pieces,
    ),
    _rows(
        "dynamic_stitch",
        STITCH,
        ("DynamicStitch",),
        arity=2,
        batched=points_last(STITCH),
        shapes=only_if(vector, alike(2)),
        attributes=_order,
    ),
    _rows(
        "parallel_dynamic_stitch",
        PARALLEL_STITCH,
        ("ParallelDynamicStitch",),
        arity=2,
        batched=points_last(PARALLEL_STITCH),
        shapes=only_if(vector, alike(2)),
        attributes=_interleaved,
    ),
)


SEGMENTED: tuple[Shape, ...] = ((2,), (3,), (1,), (2, 2), (3, 2), (4,))


def _sorted(shape: Shape) -> Mapping[str, Attribute]:
    return {"ids": Indices(shape[0], below=shape[0] + 1, sorted=True)}


def _covering(shape: Shape) -> Mapping[str, Attribute]:
    count = shape[0]
    alternating = tuple(position % 2 for position in range(count))
    shrinking = tuple(-1 if position and position == count - 1 else 0 for position in range(count))
    return {"ids": Choice(tuple(dict.fromkeys([(0,) * count, tuple(range(count)), alternating, shrinking])))}


def _segments(name: str, gradients: tuple[str, ...], kinks: Distances | None = None) -> OpSpec:
    covering = name.startswith("unsorted")
    call = f"tf.math.{name}({{0}}, {{ids}}" + (", max({ids}) + 1)" if covering else ")")
    return _math(
        name,
        call,
        gradients,
        batched=points_last(call),
        shapes=vector,
        starts=SEGMENTED,
        attributes=_covering if covering else _sorted,
        kinks=kinks,
    )


SEGMENTS = (
    _segments("segment_sum", ("SegmentSum",)),
    _segments("segment_mean", ("SegmentMean",)),
    _segments("segment_prod", ("SegmentProd",)),
    _segments("segment_max", ("SegmentMax",), kinks=ties_within(ties_of_largest)),
    _segments("segment_min", ("SegmentMin",), kinks=ties_within(ties_of_smallest)),
    _segments("unsorted_segment_sum", ("UnsortedSegmentSum",)),
    _segments("unsorted_segment_mean", ("UnsortedSegmentSum", "RealDiv")),
    _segments("unsorted_segment_sqrt_n", ("UnsortedSegmentSum", "RealDiv")),
    _segments("unsorted_segment_prod", ("UnsortedSegmentProd",)),
    _segments("unsorted_segment_max", ("UnsortedSegmentMax",), kinks=ties_within(ties_of_largest)),
    _segments("unsorted_segment_min", ("UnsortedSegmentMin",), kinks=ties_within(ties_of_smallest)),
)
