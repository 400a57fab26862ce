"""Gathering, scattering, partitions and rearrangements (family `array`), reductions over segments (`math`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradcheck.graph import Shape
from gradcheck.operations.distances import at_zero, ties, ties_of_largest, ties_of_smallest, ties_within
from gradcheck.operations.language import along_axis, operation, points_last, tf, traced
from gradcheck.operations.shapes import alike, axes, broadcasting, nonempty_matrix, vector
from gradcheck.operations.spec import POSITIVE, Distances, Formula, Indices, Interval, OpSpec, Shapes
from gradcheck.operations.special_sets import (
    EMPTY_SEGMENT,
    LONG_SEGMENT,
    LONG_SEGMENT_NOT_REAL,
    OVERWRITTEN_INDEX,
    REPEATED_INDEX,
    TWO_ZEROS_IN_SEGMENT,
    UNEQUAL_PARTITIONS,
    rows_in_segment,
)
from gradcheck.typing import Array

_rows = partial(operation, "array", shapes=vector, starts=((2,), (1,), (3,), (2, 2), (3, 2)))
_moved = partial(_rows, batching=points_last)
SQUARES: tuple[Shape, ...] = ((2, 2), (1, 2), (2, 3), (2, 2, 2))


def _picked(shape: Shape) -> Indices:
    return Indices(2, below=shape[0])


def _forms_of_indices(shape: Shape) -> tuple[Any, ...]:
    """A row, a scalar and a matrix of indices along any axis."""
    last = min(shape) - 1
    return ((0, last), 0, last, ((0, last, last), (last, 0, 0)), ((last,),))


FIRST_AND_NONE = lambda x: tf.stack([x[:, 0], tf.zeros_like(x[:, 0])], axis=1)
FORMS_OF_PLACES = ((3, 1), (2, 2), (1,), (2,), (2, 0), (2, 2, 1), (1, 2, 2))


def scattered(x: tf.Tensor, indices: Any) -> tf.Tensor:
    """The parts of `x` that `indices` (..., depth) count, added up in two places along each of `depth` dimensions."""
    *outer, depth = indices.shape
    return tf.scatter_nd(np.int32(indices), x, tf.concat([[2] * depth, tf.shape(x)[len(outer) :]], 0))


def _updates(shape: Shape) -> Shapes:
    return [((count, *shape[1:]),) for count in (2, 1, 3)]


def _targets(shape: Shape, updates: Shape) -> Indices:
    return Indices(updates[0], below=shape[0])


def _scatter(name: str, scatter: Formula, gradient: str, **fields: Any) -> OpSpec:
    return _moved(
        f"tensor_scatter_nd_{name}",
        lambda x, updates, *, indices: scatter(x, tf.expand_dims(indices, -1), updates),
        gradient,
        **{"others": _updates, "indices": _targets, **fields},
    )


def _rivals(sign: int) -> Distances:
    """How far the largest (sign 1) or smallest (-1) candidate for each element lies from the next one."""

    def distances(x: Array, updates: Array, *, indices: Sequence[int]) -> Array:
        candidates = [np.concatenate([x[[at]], updates[np.equal(indices, at)]]) for at in sorted(set(indices))]
        return np.concatenate([ties_of_largest(sign * each, axis=0).ravel() for each in candidates])

    return distances


def _consecutive(shape: Shape, start: int = 0) -> tuple[int, ...]:
    return tuple(range(start, start + shape[0]))


def _alternating(shape: Shape) -> tuple[int, ...]:
    return tuple(position % 2 for position in range(shape[0]))


GATHERING = (
    _rows(
        "gather",
        lambda x, *, indices: tf.gather(x, indices, axis=-1),
        "GatherV2",
        indices=lambda shape: Indices(3, below=shape[-1], longer=True),
        special=REPEATED_INDEX,
    ),
    _rows(
        "gather_rows",
        lambda x, *, indices: tf.gather(x, indices),
        "GatherV2",
        batched=lambda x, *, indices: tf.gather(x, indices, axis=1),
        indices=_picked,
    ),
    _rows(
        "gather_each_row",
        lambda x, *, indices, axis, batch_dims: tf.gather(
            x, tf.stack([indices] * x.shape[0]), axis=axis, batch_dims=batch_dims
        ),
        "GatherV2",
        batched=lambda x, *, indices, axis, batch_dims: tf.gather(
            x,
            tf.broadcast_to(indices, (*x.shape[:2], len(indices))),
            axis=axis + (axis >= 0),
            batch_dims=batch_dims + (batch_dims >= 0),
        ),
        shapes=nonempty_matrix,
        starts=SQUARES,
        indices=lambda shape: Indices(2, below=min(shape[1:])),
        axis=lambda shape: (*range(1, len(shape)), -1),
        batch_dims=(1, -1),
    ),
    _rows(
        "gather_along",
        lambda x, *, indices, axis: tf.gather(x, np.int32(indices), axis=axis),
        "GatherV2",
        batching=along_axis,
        shapes=nonempty_matrix,
        starts=SQUARES,
        indices=_forms_of_indices,
        axis=lambda shape: (*range(1, len(shape)), *axes(shape), 0),
    ),
    _moved("legacy_gather", lambda x, *, indices: tf.raw_ops.Gather(params=x, indices=indices), indices=_picked),
    _moved(
        "gather_nd",
        lambda x, *, rows, columns: tf.gather_nd(x, tf.stack([rows, columns], axis=-1)),
        "GatherNd",
        shapes=nonempty_matrix,
        starts=SQUARES,
        rows=lambda shape: Indices(2, below=shape[0], longer=True),
        columns=lambda shape: Indices(2, below=shape[1], longer=True),
        special=REPEATED_INDEX,
    ),
    _moved(
        "gather_nd_of_form",
        lambda x, *, places, form: tf.gather_nd(x, np.resize(places, form)),
        "GatherNd",
        shapes=nonempty_matrix,
        starts=SQUARES,
        places=lambda shape: Indices(4, below=min(shape[:3])),
        form=lambda shape: (*FORMS_OF_PLACES, *[(2, len(shape))] * (len(shape) == 3)),
    ),
    _moved(
        "gather_nd_ignoring",
        lambda x: tf.gather_nd(x, [[0], [x.shape[0]]], bad_indices_policy="IGNORE"),
        "GatherNd",
        batched=FIRST_AND_NONE,
    ),
    _moved(
        "scatter_nd_ignoring",
        lambda x: tf.scatter_nd([[0], [2]], x, (2, *x.shape[1:]), bad_indices_policy="IGNORE"),
        "ScatterNd",
        batched=FIRST_AND_NONE,
        when=lambda shape: shape[0] == 2,
    ),
    _moved(
        "tensor_scatter_nd_add_ignoring",
        lambda x, updates: tf.tensor_scatter_nd_add(x, [[0], [x.shape[0]]], updates, bad_indices_policy="IGNORE"),
        "TensorScatterAdd",
        batched=lambda x, updates: tf.concat([x[:, :1] + updates[:, :1], x[:, 1:]], axis=1),
        others=lambda shape: [((2, *shape[1:]),)],
    ),
    _moved(
        "scatter_nd",
        lambda x, *, indices: tf.scatter_nd(tf.expand_dims(indices, -1), x, (x.shape[0] + 1, *x.shape[1:])),
        "ScatterNd",
        indices=lambda shape: Indices(shape[0], below=shape[0] + 1),
    ),
    _moved(
        "scatter_nd_of_form",
        lambda x, *, places, form: scattered(x, np.resize(places, form)),
        "ScatterNd",
        places=Indices(4, below=2),
        form=lambda shape: [(*shape[:outer], depth) for outer in range(1, len(shape) + 1) for depth in (2, 1, 3)],
    ),
    _scatter("add", lambda x, indices, updates: tf.tensor_scatter_nd_add(x, indices, updates), "TensorScatterAdd"),
    _scatter("sub", lambda x, indices, updates: tf.tensor_scatter_nd_sub(x, indices, updates), "TensorScatterSub"),
    _scatter(
        "update",
        lambda x, indices, updates: tf.tensor_scatter_nd_update(x, indices, updates),
        "TensorScatterUpdate",
        others=lambda shape: [((count, *shape[1:]),) for count in (1, 2) if count <= shape[0]],
        indices=lambda shape, updates: Indices(updates[0], below=shape[0], distinct=True),
    ),
    _scatter(
        "max",
        lambda x, indices, updates: tf.tensor_scatter_nd_max(x, indices, updates),
        "TensorScatterMax",
        kinks=_rivals(1),
    ),
    _scatter(
        "min",
        lambda x, indices, updates: tf.tensor_scatter_nd_min(x, indices, updates),
        "TensorScatterMin",
        kinks=_rivals(-1),
    ),
    _moved(
        "scatter_nd_non_aliasing_add",
        lambda x, updates, *, indices: tf.raw_ops.ScatterNdNonAliasingAdd(
            input=x, indices=tf.expand_dims(indices, -1), updates=updates
        ),
        others=_updates,
        indices=_targets,
    ),
    _moved(
        "tensor_strided_slice_update",
        lambda x, value: tf.raw_ops.TensorStridedSliceUpdate(
            input=x, begin=[0], end=[x.shape[0]], strides=[x.shape[0]], value=value
        ),
        others=lambda shape: [((1, *shape[1:]),)],
    ),
    _moved(
        "dynamic_partition",
        lambda x, *, partitions, which: tf.dynamic_partition(x, partitions, 2)[which],
        "DynamicPartition",
        when=lambda shape: shape[0] > 1,
        partitions=lambda shape: dict.fromkeys([_alternating(shape), (*[0] * (shape[0] - 1), 1)]),
        which=(0, 1),
        special=(UNEQUAL_PARTITIONS,),
    ),
    _moved(
        "dynamic_stitch",
        lambda x, y, *, first, second: tf.dynamic_stitch([first, second], [x, y]),
        "DynamicStitch",
        others=alike,
        first=lambda shape, _: [_consecutive(shape)],
        second=lambda shape, _: dict.fromkeys(_consecutive(shape, start) for start in (shape[0], shape[0] - 1, 0)),
        special=(OVERWRITTEN_INDEX,),
    ),
    # The gradient of the gather arrives as IndexedSlices.
    _moved(
        "dynamic_stitch_gathered",
        lambda x, y, *, first, second, rows: tf.gather(tf.dynamic_stitch([first, second], [x, y]), rows),
        "DynamicStitch GatherV2",
        others=alike,
        first=lambda shape, _: [_consecutive(shape)],
        second=lambda shape, _: [_consecutive(shape, shape[0])],
        rows=lambda shape, _: Indices(3, below=2 * shape[0]),
    ),
    _moved(
        "parallel_dynamic_stitch",
        lambda x, y, *, first, second: tf.raw_ops.ParallelDynamicStitch(indices=[first, second], data=[x, y]),
        others=alike,
        first=lambda shape, _: [_consecutive(shape), _consecutive(shape)[::-1]],
        second=lambda shape, _: [_consecutive(shape, shape[0])],
    ),
)


def _covering(shape: Shape) -> Iterable[tuple[int, ...]]:
    """All in one segment, each in its own, two alternating, the last in none."""
    one = (0,) * shape[0]
    return dict.fromkeys([one, _consecutive(shape), _alternating(shape), (*one[:-1], -1) if len(one) > 1 else one])


_segments = partial(
    operation,
    "math",
    batching=points_last,
    shapes=vector,
    starts=((2,), (3,), (1,), (2, 2), (3, 2), (4,)),
    ids=lambda shape: Indices(shape[0], below=shape[0] + 1, sorted=True),
)
LARGEST, SMALLEST = ties_within(ties_of_largest), ties_within(ties_of_smallest)


def _unsorted(name: str, fold: Formula, gradients: str, **fields: Any) -> OpSpec:
    return _segments(
        f"unsorted_segment_{name}",
        lambda x, *, ids: fold(x, ids, max(ids) + 1),
        gradients,
        ids=_covering,
        **fields,
    )


def _of_places(name: str, fold: Formula, gradient: str) -> OpSpec:
    """Segments of which some are empty, of elements whose places have two dimensions."""
    source: Formula = lambda x, *, ids: fold(x, np.reshape(ids, x.shape[:2]), max(ids) + 3)
    return _segments(
        f"unsorted_segment_{name}_of_places",
        source,
        gradient,
        batched=lambda x, *, ids: tf.stack([source(each, ids=ids) for each in tf.unstack(x)]),
        shapes=nonempty_matrix,
        starts=SQUARES,
        ids=lambda shape: Indices(shape[0] * shape[1], below=3),
    )


SEGMENTS = (
    _of_places("sum", lambda x, ids, count: tf.math.unsorted_segment_sum(x, ids, count), "UnsortedSegmentSum"),
    _of_places("prod", lambda x, ids, count: tf.math.unsorted_segment_prod(x, ids, count), "UnsortedSegmentProd"),
    _segments("segment_sum", lambda x, *, ids: tf.math.segment_sum(x, ids), "SegmentSum"),
    _segments("segment_mean", lambda x, *, ids: tf.math.segment_mean(x, ids), "SegmentMean", special=(EMPTY_SEGMENT,)),
    _segments(
        "segment_prod",
        lambda x, *, ids: tf.math.segment_prod(x, ids),
        "SegmentProd",
        special=(TWO_ZEROS_IN_SEGMENT, LONG_SEGMENT, LONG_SEGMENT_NOT_REAL),
    ),
    _segments(
        "segment_max",
        lambda x, *, ids: tf.math.segment_max(x, ids),
        "SegmentMax",
        kinks=LARGEST,
        special=(EMPTY_SEGMENT,),
    ),
    _segments(
        "segment_min",
        lambda x, *, ids: tf.math.segment_min(x, ids),
        "SegmentMin",
        kinks=SMALLEST,
        special=(EMPTY_SEGMENT,),
    ),
    _unsorted("sum", lambda x, ids, count: tf.math.unsorted_segment_sum(x, ids, count), "UnsortedSegmentSum"),
    _unsorted(
        "mean",
        lambda x, ids, count: tf.math.unsorted_segment_mean(x, ids, count),
        "UnsortedSegmentSum RealDiv",
        special=(rows_in_segment(256), rows_in_segment(2048)),
    ),
    _unsorted(
        "sqrt_n", lambda x, ids, count: tf.math.unsorted_segment_sqrt_n(x, ids, count), "UnsortedSegmentSum RealDiv"
    ),
    _unsorted(
        "prod",
        lambda x, ids, count: tf.math.unsorted_segment_prod(x, ids, count),
        "UnsortedSegmentProd",
        special=(LONG_SEGMENT, LONG_SEGMENT_NOT_REAL),
    ),
    _unsorted(
        "max", lambda x, ids, count: tf.math.unsorted_segment_max(x, ids, count), "UnsortedSegmentMax", kinks=LARGEST
    ),
    _unsorted(
        "min", lambda x, ids, count: tf.math.unsorted_segment_min(x, ids, count), "UnsortedSegmentMin", kinks=SMALLEST
    ),
)


STARTS: tuple[Shape, ...] = ((2,), (3,), (1,), (2, 2), (2, 3))

_array = partial(operation, "array", shapes=vector, starts=STARTS)
_along = partial(_array, batching=along_axis, axis=axes)
_math = partial(operation, "math")


def masked_in_a_row(x: tf.Tensor, odd: int) -> tf.Tensor:
    """Rows whose count is not known before they are chosen, one behind the other."""
    return tf.reshape(tf.boolean_mask(x, tf.range(tf.shape(x)[0]) % 2 == odd), [-1])


def _counts(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """How often every element of the last axis stands there: once more each time, or once less."""
    return (tuple(range(shape[-1], 0, -1)), tuple(range(shape[-1])))


REARRANGEMENTS = (
    _along(
        "sort",
        lambda x, *, axis, direction: tf.sort(x, axis=axis, direction=direction),
        "TopKV2",
        direction=("ASCENDING", "DESCENDING"),
        kinks=ties,
    ),
    _along("repeat", lambda x, *, count, axis: tf.repeat(x, count, axis=axis), "Reshape", count=(2, 1, 3)),
    _array("repeat_unequally", lambda x, *, counts: tf.repeat(x, counts, axis=-1), "GatherV2", counts=_counts),
    _array(
        "boolean_mask",
        lambda x, *, rows: tf.boolean_mask(x, [row in rows for row in range(x.shape[0])]),
        "GatherV2",
        batched=lambda x, *, rows: tf.boolean_mask(x, [row in rows for row in range(x.shape[1])], axis=1),
        rows=lambda shape: Indices(2, shape[0]),
    ),
    _array(
        "boolean_mask_in_a_row",
        lambda x, *, odd: traced(masked_in_a_row)(x, odd),
        "GatherV2 Reshape",
        looped=True,
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 0), (2, 3)),
        odd=(0, 1),
    ),
    _array(
        "boolean_mask_of_matrix",
        lambda x, *, odd: tf.boolean_mask(
            x, [[(row + column) % 2 == odd for column in range(x.shape[1])] for row in range(x.shape[0])]
        ),
        "GatherV2",
        batched=lambda x, *, odd: tf.boolean_mask(
            x, [[(row + column) % 2 == odd for column in range(x.shape[2])] for row in range(x.shape[1])], axis=1
        ),
        when=lambda shape: len(shape) > 1,
        starts=((2, 2), (2, 3), (2, 2, 2)),
        odd=(0, 1),
    ),
    _array(
        "linspace",
        lambda x, y, *, count, axis: tf.linspace(x, y, count, axis=axis),
        "Sub AddV2",
        shapes=lambda shape: [(shape, shape)],
        starts=((), (2,), (2, 2)),
        batched=lambda x, y, *, count, axis: tf.linspace(x, y, count, axis=axis + (axis >= 0)),
        count=(3, 2, 1, 5),
        axis=(-1, 0),
    ),
    _array(
        "meshgrid",
        lambda x, y, *, indexing: tf.add_n(tf.meshgrid(x, y, indexing=indexing)),
        "Mul Reshape",
        looped=True,
        when=lambda shape: len(shape) == 1,
        others=lambda shape: [(shape,), ((2,),)],
        starts=((2,), (3,), (1,)),
        indexing=("xy", "ij"),
    ),
    _array(
        "saturate_cast",
        lambda x: tf.cast(tf.saturate_cast(x, tf.float32), tf.float64),
        "Cast",
        shapes=lambda shape: [(shape,)],
        rtol=1e-7,
    ),
    _math("lbeta", lambda x: tf.math.lbeta(x), "Lgamma Sum", POSITIVE, shapes=vector, starts=STARTS),
    _math("erfcinv", lambda x: tf.math.erfcinv(x), "Ndtri", Interval(0.0, 2.0)),
    _math("polyval", lambda x, y: tf.math.polyval([x, y, 2.0 * x], y), "Mul AddV2", others=alike),
    _math("reciprocal_no_nan", lambda x: tf.math.reciprocal_no_nan(x), "DivNoNan", singular=at_zero),
    _math(
        "normal_sample",
        lambda x, y: tf.random.stateless_normal(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "truncated_normal_sample",
        lambda x, y: tf.random.stateless_truncated_normal(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2",
        looped=True,
        others=alike,
    ),
    _math(
        "uniform_sample",
        lambda x, y: tf.random.stateless_uniform(x.shape, [1, 2], x, y, tf.float64),
        "Mul AddV2 Sub",
        looped=True,
        others=alike,
    ),
    _math("nextafter", lambda x, y: tf.math.nextafter(x, y), "NextAfter", broadcasts=True, shapes=broadcasting),
    operation(
        "nn",
        "approx_max_k",
        lambda x, *, k: tf.cast(tf.nn.approx_max_k(tf.cast(x, tf.float32), k)[0], tf.float64),
        "ApproxTopK",
        reference=lambda x, *, k: tf.math.top_k(x, k).values,
        rtol=1e-6,
        shapes=vector,
        starts=((2,), (3,), (2, 3)),
        k=lambda shape: range(1, shape[-1] + 1),
        kinks=lambda x, k: -np.diff(-np.sort(-x))[..., :k],
    ),
)
