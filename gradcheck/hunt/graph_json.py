"""The JSON form of a graph, validated against the catalogue."""

from __future__ import annotations

from typing import Any

from gradcheck import documents
from gradcheck.defects.graph_document import ComputedTensor, GraphDocument, NodeDocument, Tensor
from gradcheck.documents import Description, DocumentError
from gradcheck.graph import Graph, Input, Node
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import attribute_literal, attribute_names


def to_json(graph: Graph) -> dict[str, Any]:
    """The graph as plain dictionaries, lists, numbers and strings; floats keep every bit, complex numbers are [re, im].

    Raises DocumentError for a graph that `from_json` would not take (a value that is not finite, an attribute that is
    no literal, more than 64 nodes or 4,096 elements).

    >>> to_json(Graph((Input((1,), (2.0,)),), (Node.of("sin", 0),)))["nodes"]
    [{'op': 'sin', 'parents': [0], 'attrs': {}}]
    """
    data = unchecked_json(graph)
    from_json(data)
    return data


def unchecked_json(graph: Graph) -> dict[str, Any]:
    """The JSON form without validation, in a fifth of the time, of a graph that is known to be valid or is never
    read."""
    data: dict[str, Any] = documents.plain(to_document(graph))
    return data


def from_json(data: Any) -> Graph:
    """The graph of a JSON form; raises DocumentError for anything that `to_json` would not have written."""
    return from_document(documents.convert(data, GraphDocument))


def to_document(graph: Graph) -> GraphDocument:
    """The graph as a document; raises DocumentError where it is too large or an attribute is no literal."""
    nodes = []
    for place, node in enumerate(graph.nodes):
        attrs = {name: attribute_literal(value, f"$.nodes[{place}].attrs.{name}") for name, value in node.attrs}
        nodes.append(NodeDocument(node.op, tuple(map(int, node.parents)), attrs))
    return GraphDocument(inputs=tuple(map(to_tensor, graph.inputs)), nodes=tuple(nodes))


def from_document(document: GraphDocument, place: str = "$") -> Graph:
    """The graph of a document; `place` is where that lies in a larger one, for errors.

    Raises DocumentError for an operation that is not in the catalogue, and for parents and attributes that it does not
    take.
    """
    nodes = tuple(_node(node, f"{place}.nodes[{i}]") for i, node in enumerate(document.nodes))
    return Graph(tuple(map(to_input, document.inputs)), nodes)


def to_tensor(value: Input) -> Tensor:
    """A literal input as a document; raises DocumentError where an element does not fit its dtype."""
    return Tensor(value.dtype, tuple(map(int, value.shape)), _elements(value))  # type: ignore[arg-type]


def to_computed(value: Input) -> ComputedTensor:
    """A computed tensor as a document; its elements need not be finite."""
    return ComputedTensor(value.dtype, tuple(map(int, value.shape)), _elements(value))  # type: ignore[arg-type]


def to_input(tensor: Tensor | ComputedTensor) -> Input:
    """The literal input of a document."""
    numbers = (complex(*map(float, x)) if isinstance(x, tuple) else float(x) for x in tensor.values)
    return Input(tensor.shape, tuple(numbers), tensor.dtype)


def check_operation(name: str, place: str) -> None:
    """Raises DocumentError unless a name is that of an operation of the catalogue, or of one registered here."""
    if name not in CATALOGUE:
        expected = "the name of an operation of the catalogue, or of one of your own, whose module --import names"
        raise DocumentError(place, name, expected)


def _elements(value: Input) -> tuple[Any, ...]:
    if value.dtype == "complex128":
        return tuple((float(complex(x).real), float(complex(x).imag)) for x in value.values)
    return tuple(float(x.real) for x in value.values)


def _node(node: NodeDocument, place: str) -> Node:
    check_operation(node.op, f"{place}.op")
    spec = CATALOGUE[node.op]
    if len(node.parents) != spec.arity:
        given = Description(f"{len(node.parents)} parents")
        raise DocumentError(f"{place}.parents", given, f"{spec.arity}, as {node.op} takes")
    expected = attribute_names(spec.source)
    for name in node.attrs:
        if name not in expected:
            what = Description(f"the name {name[:60]!a}")
            raise DocumentError(f"{place}.attrs", what, f"only {', '.join(expected)}")
    for name in expected:
        if name not in node.attrs:
            what = Description(f"an object without {name!r}")
            raise DocumentError(f"{place}.attrs", what, f"all of {', '.join(expected)}")
    attrs = ((name, attribute_literal(node.attrs[name], f"{place}.attrs.{name}")) for name in sorted(node.attrs))
    return Node(node.op, node.parents, tuple(attrs))
