"""Finds the culprit of a failing graph: the first node whose own derivative is wrong at its actual arguments.

If every node is right by itself, it is the first that is wrong when a node is added behind it, or else the node with
which the graph becomes wrong: some derivatives fail only in combination.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt.evaluation import values_of
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.typing import Array

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
    """The graph and, at order 2, two extensions that show errors of its last node which the graph alone does not show.

    Its square: a linear operation can be wrong only where the incoming cotangent depends on the inputs. Its product
    with a factor: an error in the backward sweep that the node itself drops reaches the factor.
    """
    return (graph, squared(graph), multiplied(graph)) if order == 2 else (graph,)


def blame(
    graph: Graph, values: Sequence[Array], order: int, is_wrong: Callable[[Graph, Sequence[int]], bool]
) -> int | None:
    """The first position whose node is wrong alone, else when extended (`tried`), else up to which the graph is wrong.

    None if nothing is wrong. `is_wrong` takes a graph to try, and the positions of its first nodes in the whole graph.
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
