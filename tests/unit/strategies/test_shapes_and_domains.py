"""Which operations take a value, and which map it into a domain."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import SMOOTH_MAPS, TRIED, Draft, accepts, adapters, signatures, starts

from gradcheck.graph import Input
from gradcheck.hunt.evaluation import single
from gradcheck.hunt.graph_json import to_json
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS, POSITIVE, REALS, Interval


def test_every_start_is_admitted() -> None:
    def admitted(op: str) -> bool:
        spec = CATALOGUE[op]
        return all(
            accepts(op, shape, spec.dtype(0)) and all(len(shapes) == spec.arity for shapes in signatures(op, shape))
            for shape in starts(op)
        )

    assert [op for op in CATALOGUE if not admitted(op)] == []


def test_a_value_of_another_dtype_or_shape_is_not_accepted() -> None:
    assert accepts("sin", (2,), "float64")
    assert not accepts("sin", (2,), "complex128")
    assert not accepts("cumprod", (), "float64")


@pytest.mark.parametrize("interval", [POSITIVE, Interval(0.0, 1.0), Interval(-1.0, 1.0), Interval(-2.0, 2.0)], ids=str)
def test_adapters_map_into_the_interval(interval: Interval) -> None:
    names = adapters(interval)
    assert names
    for name in names:
        assert interval.contains(single(CATALOGUE[name])(tf.constant(TRIED)).numpy())


def test_there_is_no_adapter_where_no_operation_maps_into_the_interval() -> None:
    assert adapters(Interval(40.0, 41.0)) == ()
    assert set(adapters(REALS)) <= set(SMOOTH_MAPS)
    assert np.isfinite(TRIED).all()


def test_no_argument_is_larger_than_a_value_of_a_drawn_graph_may_be() -> None:
    wide = (MOST_ELEMENTS,)
    offered = {op: CATALOGUE[op].shapes(wide) for op in CATALOGUE}
    larger = [
        op for op, lists in offered.items() if any(prod(one) > MOST_ELEMENTS for shapes in lists for one in shapes)
    ]
    assert larger  # some operations would accept more
    assert all(prod(one) <= MOST_ELEMENTS for op in larger for shapes in signatures(op, wide) for one in shapes)


def test_no_value_has_more_dimensions_than_a_report() -> None:
    draft = Draft()
    node = draft.literal(Input((2,), (1.0, 2.0)))
    while grown := draft.node("expand_dims", [node], {}):
        node = grown
    assert len(to_json(draft.graph(node))["nodes"]) == 7
    shape = node.value.shape
    assert all(accepts(op, shape, "float64") for op in ("sin", "mul"))
    assert not any(signatures(op, (1, *shape)) for op in ("sin", "mul"))
