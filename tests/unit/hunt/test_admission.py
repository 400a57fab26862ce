from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from gradcheck.strategies.graphs import graphs
from hypothesis import given

from gradcheck.defects.known import load
from gradcheck.graph import Graph, Input, Node, literal
from gradcheck.hunt.admission import AdmissionError, admit
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.graph_json import from_document
from tests import slices

COMMITTED = Path(__file__).parents[3] / "reports" / "known"
TWO = literal([1.0, 2.0])


@given(graph=graphs())
def test_every_drawn_graph_is_admitted_with_its_values(graph: Graph) -> None:
    for admitted, value in zip(admit(graph), values_of(graph), strict=True):
        np.testing.assert_array_equal(admitted, value)


@pytest.mark.sliced
def test_every_known_defect_is_admitted(subtests: pytest.Subtests) -> None:
    for defect in slices.sliced(load(COMMITTED), slices.every(5)):
        with subtests.test(defect.name):
            admit(from_document(defect.graph))


@pytest.mark.parametrize(
    ("graph", "complaint"),
    [
        (
            Graph((TWO,), (Node.of("tile", 0, multiples=(2**40,)),)),
            r"\(tile\): multiples was \(1099511627776,\)",
        ),
        (Graph((TWO,), (Node.of("reduce_prod", 0, axis=7, keepdims=False),)), "axis was 7; expected one of"),
        (Graph((TWO,), (Node.of("cumprod", 0, exclusive=1, reverse=False),)), "exclusive was 1; expected one of"),
        (Graph((TWO,), (Node.of("sin", 0, name="x"),)), r"attributes \['name'\] were given; expected \[\]"),
        (Graph((TWO,), (Node.of("complex_square", 0),)), "dtype float64; expected complex128"),
        (Graph((TWO, literal([1.0, 2.0, 3.0])), (Node.of("add", 0, 1),)), r"shapes \(\(2,\), \(3,\)\) were given"),
    ],
)
def test_what_could_not_have_been_drawn_is_refused(graph: Graph, complaint: str) -> None:
    with pytest.raises(AdmissionError, match=complaint):
        admit(graph)


def test_a_chain_that_would_fill_the_memory_stops_early() -> None:
    many = Input((2,), (1.0, 2.0))
    graph = Graph((many,), tuple(Node.of("tile", place, multiples=(2,)) for place in range(60)))
    with pytest.raises(AdmissionError, match=r"node 12 \(tile\): its value has 8192 elements"):
        admit(graph)


def test_what_an_operation_raises_is_raised() -> None:
    graph = Graph((literal([1e300]),), (Node.of("square", 0), Node.of("check_numerics", 1)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        admit(graph)
