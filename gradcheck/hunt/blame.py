"""Which node of a failing graph is the culprit: the first whose own derivative is wrong at its actual arguments.

Where every node is right by itself, it is the first that is wrong with something behind it, or else the one with which
the graph becomes wrong: some derivatives fail only together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import values_of
from gradcheck.hunt.graph import Graph, Node, literal

Array = np.ndarray[Any, Any]
SQUARES = {"float64": "square", "complex128": "complex_square"}
PRODUCTS = {"float64": "mul", "complex128": "complex_multiply"}
FACTOR = 1.5


def alone(graph: Graph, position: int, values: Sequence[Array]) -> Graph:
    """The node at `position` by itself, with the values that it had in the graph as literal inputs.

    A value that it takes twice is one input, used twice.
    """
    node = graph.nodes[position - len(graph.inputs)]
    parents = list(dict.fromkeys(node.parents))
    inputs = tuple(literal(values[parent]) for parent in parents)
    return Graph(inputs, (Node(node.op, tuple(map(parents.index, node.parents)), node.attrs),))


def squared(graph: Graph) -> Graph:
    """The graph with the square of its output as its output."""
    square = SQUARES[CATALOGUE[graph.nodes[-1].op].result]
    return Graph(graph.inputs, (*graph.nodes, Node.of(square, graph.size - 1)))


def multiplied(graph: Graph) -> Graph:
    """The graph with its output times one more input as its output."""
    output, n = values_of(graph)[-1], len(graph.inputs)
    moved = (replace(node, parents=tuple(p + (p >= n) for p in node.parents)) for node in graph.nodes)
    product = Node.of(PRODUCTS[CATALOGUE[graph.nodes[-1].op].result], graph.size, n)
    factor = literal(np.full(output.shape, FACTOR, output.dtype))
    return Graph((*graph.inputs, factor), (*moved, product))


def tried(graph: Graph, order: int) -> tuple[Graph, ...]:
    """The graph, and what shows a wrong derivative of its last node that the graph alone does not show.

    At order 2, its square: a linear operation is wrong only where what comes from above depends on the inputs; and a
    multiple: what goes wrong on the way back to that, and is dropped by the node itself, reaches the factor.
    """
    return (graph, squared(graph), multiplied(graph)) if order == 2 else (graph,)


def blame(
    graph: Graph, values: Sequence[Array], order: int, is_wrong: Callable[[Graph, Sequence[int]], bool]
) -> int | None:
    """The first position whose node is wrong by itself, else with more behind it, else up to which the graph is wrong.

    None where nothing is. `is_wrong` is given what to try, and at which places of the graph its first nodes stand.
    """
    positions = [position for position, _ in graph.positions()]
    nodes = {position: alone(graph, position, values) for position in positions}
    for position, node in nodes.items():
        if is_wrong(node, [position]):
            return position
    for position, node in nodes.items():
        if any(is_wrong(more, [position]) for more in tried(node, order)[1:]):
            return position
    for position in positions:
        part = Graph(graph.inputs, graph.nodes[: position + 1 - len(graph.inputs)]).pruned()
        places = sorted(graph.ancestors(position).intersection(positions))
        if any(is_wrong(one, places) for one in tried(part, order)):
            return position
    return None
