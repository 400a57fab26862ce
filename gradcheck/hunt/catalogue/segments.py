"""The census's family `math`: reductions over the segments of the first dimension."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck.hunt.catalogue.batching import points_last
from gradcheck.hunt.distances import ties_of_largest, ties_of_smallest, ties_within
from gradcheck.hunt.graph import Shape
from gradcheck.hunt.opspec import Attribute, Choice, Distances, Indices, OpSpec
from gradcheck.hunt.shape_rules import vector

STARTS: tuple[Shape, ...] = ((2,), (3,), (1,), (2, 2), (3, 2), (4,))


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
    return OpSpec(
        name,
        "math",
        call,
        gradients,
        batched=points_last(call),
        shapes=vector,
        starts=STARTS,
        attributes=_covering if covering else _sorted,
        kinks=kinks,
    )


OPERATIONS = (
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
