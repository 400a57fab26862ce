"""Regions of known defects are tight: most of what lies inside is wrong, and what lies just outside is right.

Three graphs per record of plain derivatives; `tests/benchmarks/tightness.py` draws more, for every region and mode.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck.autodiff.mode import PLAIN
from gradcheck.defects import known
from gradcheck.defects.records import Defect
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt import trial
from gradcheck.hunt.known_graphs import ancestry, sources_of
from gradcheck.result import Verdict
from tests import records

BUDGET = 3
ON_CUTS = ("complex_acos-cut-order1", "complex_asin-cut-order1")
"""Records of derivatives along a branch cut, where no differences across it say anything; they have a test below."""
DEFECTS = [
    one
    for one in records.DEFECTS
    if one.covers(tf.__version__) and one.signature.taken == PLAIN and all(region.excluding for region in one.regions)
    if one.name not in ON_CUTS
]


@pytest.fixture(scope="module")
def tightness(instrument: Callable[[str], Any]) -> Any:
    return instrument("tightness")


@pytest.mark.exhaustive
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_variations_of_the_example_are_wrong(tightness: Any, defect: Defect) -> None:
    operation, order = defect.signature.operation, defect.signature.order
    places = [i for i, one in enumerate(defect.regions) if one.op in (operation, "*") and order in one.orders]
    seen: list[Verdict] = []
    for case in (tightness.Case(defect, place, order) for place in places[:3]):
        for graph in tightness.variations(case, BUDGET, 1):
            with suppress(ValueError, tf.errors.OpError):
                part = tightness.up_to_the_region(case, graph)
                if part is not None:
                    seen.append(tightness.verdict_on(case, graph, part))
    decided = [verdict for verdict in seen if verdict in (Verdict.AGREE, Verdict.MISMATCH)]
    assert decided
    assert decided.count(Verdict.MISMATCH) >= len(decided) / 2


@pytest.mark.exhaustive
def test_what_is_explained_are_records(tightness: Any) -> None:
    assert set(tightness.EXPLAINED) <= {one.name for one in records.DEFECTS}


def one(op: str, *values: Any, **attrs: Any) -> Graph:
    return Graph(tuple(map(literal, values)), (Node.of(op, *range(len(values)), **attrs),))


def then(graph: Graph, op: str, *others: int, **attrs: Any) -> Graph:
    return Graph(graph.inputs, (*graph.nodes, Node.of(op, graph.size - 1, *others, **attrs)))


IMAGE = np.array([1.0, 2.0, 4.0, 3.0, 1.0, 0.0]).reshape(2, 3, 1)
SMALL = np.array([[2.0, 1.0], [1.0, 1.5]])
COMPLEX = np.array([1 + 2j, -1j])
TIED = np.array([3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 1.0, 0.0]).reshape(2, 2, 2, 1)
OUTSIDE = {
    "tile with a short side": (then(one("tile", np.ones((2, 2, 1)), multiples=(2, 2, 2)), "square"), 2),
    "tile along one axis": (then(one("tile", np.ones((2, 2, 2)), multiples=(1, 1, 3)), "square"), 2),
    "a complex product of two": (one("complex_reduce_prod", np.array([1 + 1j, 2j]), axis=-1, keepdims=False), 2),
    "a pool with a tie below the largest": (one("max_pool3d", TIED, count=1, padding="VALID", stride=1), 1),
    "a crop whose edges lie between pixels": (one("crop_and_resize", IMAGE, np.array([[0.25, 0.25, 0.5, 0.75]])), 1),
    "a crop with an edge on a pixel that is a summit": (
        one("crop_and_resize", IMAGE[:, [0, 2, 1]], np.array([[0.125, 0.5, 0.25, 0.75]])),
        1,
    ),
    "the complex squared difference of equal values": (one("complex_squared_difference", COMPLEX, COMPLEX), 1),
    "the complex squared difference of a value and itself": (
        Graph((literal(COMPLEX),), (Node.of("complex_squared_difference", 0, 0),)),
        2,
    ),
    "eigenvalues of one small element": (one("eigenvalues", np.array([[1e-6]])), 2),
    "eigenvalues of a moderate matrix": (one("eigenvalues", 1e-2 * SMALL), 2),
    "pinv of a singular matrix of two rows and columns": (one("pinv", np.diag([2.0, 0.0]), rcond=0.25), 2),
    "pinv with a small singular value that does not count": (
        one("pinv", np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.2]]), rcond=0.25),
        2,
    ),
    "a norm of which all that arrives counts": (
        then(one("reduce_euclidean_norm", np.array([[3.0, 4.0], [1.0, 2.0]]), axis=-1, keepdims=False), "square"),
        2,
    ),
    "cumulative_logsumexp of a large negative element behind others": (
        one("cumulative_logsumexp", np.array([0.5, -1e7, 1.5]), reverse=False),
        1,
    ),
    "igamma of moderate arguments": (one("igamma", np.array([3000.0]), np.array([3000.0])), 1),
    "cumulative_logsumexp, nothing that arrives is zero": (
        then(one("cumulative_logsumexp", np.array([0.3, 0.7]), reverse=False), "square"),
        2,
    ),
    "the arc cosine of a number beside the cut": (one("complex_acos", np.array([-1.5 + 0.5j])), 1),
    "tanh, not right behind a segment sum": (
        then(then(one("segment_sum", np.array([0.5, 0.25]), ids=(0, 0)), "square"), "tanh"),
        2,
    ),
    "squared_difference behind a segment sum": (
        then(one("segment_sum", np.array([0.5, 0.25]), ids=(0, 0)), "squared_difference", 1),
        2,
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_just_outside_is_drawn_and_right(name: str) -> None:
    graph, order = OUTSIDE[name]
    checked = trial.run(graph, (order,))
    values, sources = checked.problem.intermediates, sources_of(graph)
    for _, node in graph.positions():
        before, arguments = ancestry(sources, node.parents), [values[parent] for parent in node.parents]
        assert known.excludes(node.op, node.attributes, arguments, order, before) is None
    assert checked.result.orders[order].verdict == Verdict.AGREE


@pytest.mark.parametrize("point", [-3.0, -1.1, -0.5, 0.5, 1.1, 3.0])
@pytest.mark.parametrize(
    ("name", "function", "reference"), [("acos", tf.acos, np.arccos), ("asin", tf.asin, np.arcsin)]
)
def test_derivatives_along_the_cuts_of_inverse_functions_are_wrong_below_minus_1_alone(
    name: str, function: Callable[[Any], Any], reference: Callable[[Any], Any], point: float
) -> None:
    x = tf.constant(point, tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        value = function(tf.cast(x, tf.complex128))
        parts = [tf.math.real(value), tf.math.imag(value)]
    np.testing.assert_allclose(value.numpy(), reference(complex(point)), rtol=1e-12)
    taken = complex(*(float(tape.gradient(part, x)) for part in parts))
    right = (reference(complex(point + 1e-5)) - reference(complex(point - 1e-5))) / 2e-5
    inside = known.excludes(f"complex_{name}", {}, [np.array(complex(point))], 1) is not None
    assert inside == (point < -1)
    np.testing.assert_allclose(taken, -right if inside else right, atol=1e-6)
