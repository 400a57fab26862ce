from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcheck.documents import DocumentError, parse, to_text
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt.graph_json import from_json, to_document, to_json
from gradcheck.operations.catalogue import CATALOGUE
from tests import forging
from tests.catalogue.entries import plain_graph

LARGE = {"dtype": "float32", "shape": [1], "values": [1e39]}
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def example() -> Graph:
    return Graph(
        (Input((2,), (0.1, -0.0)), Input((), (5e-324,))),
        (Node.of("mul", 0, 1), Node.of("cumprod", 2, exclusive=False, reverse=True)),
    )


def test_round_trip() -> None:
    assert from_json(parse(to_text(to_document(example())))) == example()
    assert math.copysign(1.0, from_json(parse(to_text(to_document(example())))).inputs[0].values[1].real) == -1.0


@given(values=st.lists(FINITE, min_size=1, max_size=6))
def test_floats_keep_every_bit(values: list[float]) -> None:
    graph = Graph((Input((len(values),), tuple(values)),), (Node.of("sin", 0),))
    back = from_json(parse(to_text(to_document(graph)))).inputs[0].values
    assert [x.real.hex() for x in back] == [x.hex() for x in values]


@given(parts=st.tuples(FINITE, FINITE))
def test_complex_numbers_are_pairs(parts: tuple[float, float]) -> None:
    graph = Graph((Input((1,), (complex(*parts),), "complex128"),), ())
    assert to_json(graph)["inputs"][0]["values"] == [list(parts)]
    assert from_json(to_json(graph)) == graph


def test_every_operation_round_trips() -> None:
    graphs = [plain_graph(name, last=last) for name in CATALOGUE for last in (False, True)]
    back = [(graph, from_json(parse(to_text(to_document(graph))))) for graph in graphs]
    offenders = {graph.nodes[0]: read for graph, read in back if read != graph}
    assert offenders == {}


def forged(*path: Any, value: Any) -> dict[str, Any]:
    return forging.forged(to_json(example()), *path, value=value)


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (None, "$:", "an object"),
        ([], "$:", "an object"),
        ({}, "$:", "all of format"),
        (forged("format", value="pickle"), "$.format:", "one of gradcheck graph"),
        (forged("version", value=True), "$.version:", "one of 1"),
        (forged("version", value=2), "$.version:", "one of 1"),
        (forged("extra", value=1), "$:", "only format"),
        (forged("inputs", value=[]), "$.inputs:", "at least 1"),
        (forged("inputs", value={}), "$.inputs:", "a list"),
        (forged("nodes", value=[{}] * 1_000_000), "$.nodes:", "at most 64"),
        (forged("inputs", 0, "dtype", value="object"), "$.inputs[0].dtype:", "one of complex128, float32, float64"),
        (forged("inputs", 0, "dtype", value=["float64"]), "$.inputs[0].dtype:", "one of complex128, float32, float64"),
        (forged("inputs", 0, "shape", value=[3]), "$.inputs[0].values:", "3, as shape"),
        (forged("inputs", 0, "shape", value=[True, 2]), "$.inputs[0].shape[0]:", "an integer"),
        (forged("inputs", 0, "shape", value=[-1]), "$.inputs[0].shape[0]:", "an integer of at least 0"),
        (forged("inputs", 0, "shape", value=[10**30]), "$.inputs[0].shape[0]:", "an integer of at most 4096"),
        (forged("inputs", 0, "values", 1, value=True), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, "values", 1, value=math.nan), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, "values", 1, value=math.inf), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, "values", 1, value="1.0"), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, "values", 1, value=[1.0, 2.0]), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, "values", 1, value=10**400), "$.inputs[0].values[1]:", "a finite number"),
        (forged("inputs", 0, value=LARGE), "$.inputs[0].values:", "float32"),
        (forged("nodes", 0, "op", value="os.system"), "$.nodes[0].op:", "of the catalogue"),
        (forged("nodes", 0, "op", value="../../secret"), "$.nodes[0].op:", "of the catalogue"),
        (forged("nodes", 0, "op", value=["mul"]), "$.nodes[0].op:", "a text"),
        (forged("nodes", 0, "parents", value=[0]), "$.nodes[0].parents:", "2, as mul takes"),
        (forged("nodes", 0, "parents", value=[0, 2]), "$.nodes[0].parents[1]:", "from 0 to 1"),
        (forged("nodes", 0, "parents", value=[0, True]), "$.nodes[0].parents[1]:", "an integer"),
        (forged("nodes", 0, "attrs", value={"name": "x"}), "$.nodes[0].attrs:", "only"),
        (forged("nodes", 1, "attrs", value={}), "$.nodes[1].attrs:", "all of exclusive, reverse"),
        (forged("nodes", 1, "attrs", "reverse", value="__import__('os')"), "$.nodes[1].attrs.reverse:", "a plain word"),
        (forged("nodes", 1, "attrs", "reverse", value="<script>"), "$.nodes[1].attrs.reverse:", "a plain word"),
        (forged("nodes", 1, "attrs", "reverse", value="/etc/passwd"), "$.nodes[1].attrs.reverse:", "a plain word"),
        (forged("nodes", 1, "attrs", "reverse", value={"a": 1}), "$.nodes[1].attrs.reverse:", "a plain word"),
        (forged("nodes", 1, "attrs", "reverse", value=math.nan), "$.nodes[1].attrs.reverse:", "a finite number"),
        (forged("nodes", 1, "attrs", "reverse", value=[[[[[1]]]]]), "$.nodes[1].attrs.reverse[0]", "a plain word"),
    ],
)  # fmt: skip
def test_forged_documents_are_named_and_refused(data: Any, place: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        from_json(data)
    assert str(caught.value).startswith(place)
    assert expected in str(caught.value).partition("; expected ")[2]
    assert len(str(caught.value)) < 400


def test_too_many_elements_in_all() -> None:
    big = {"dtype": "float64", "shape": [4096], "values": [0.0] * 4096}
    with pytest.raises(DocumentError, match="at most 4096 elements in all"):
        from_json(forged("inputs", value=[big, big]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ('{"version": NaN}', "finite numbers only"),
        ('{"version": -Infinity}', "finite numbers only"),
        ('{"version": 1, "version": 1}', "each name once"),
        ("[" * 100_000, "deep"),
        ('"' + "x" * 2_000_000 + '"', "at most 1000000"),
        ("1" * 10_000, "JSON"),
        (json.dumps(to_json(example())).replace("0.1", "1e999"), "a finite number"),
    ],
)
def test_texts_that_are_not_strict_json_are_refused(text: str, expected: str) -> None:
    with pytest.raises(DocumentError, match=expected):
        from_json(parse(text))


def test_what_could_not_be_read_is_not_written() -> None:
    with pytest.raises(DocumentError, match="finite"):
        to_json(Graph((Input((1,), (math.nan,)),), ()))
    with pytest.raises(DocumentError, match="reverse"):
        to_json(Graph((Input((1,), (1.0,)),), (Node.of("cumprod", 0, exclusive=False, reverse=object()),)))
