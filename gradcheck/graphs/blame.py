"""Which node of a failing graph is the culprit: the first whose own derivative is wrong at its actual arguments.

Where every node is right by itself, it is the one with which the graph becomes wrong: some derivatives fail only
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Graph, Input, Node

Array = np.ndarray[Any, Any]
SQUARES = {"float64": "square", "complex128": "complex_square"}


def alone(graph: Graph, position: int, values: Sequence[Array]) -> Graph:
    """The node at `position` by itself, with the values that it had in the graph as literal inputs.

    A value that it takes twice is one input, used twice.
    """
    node = graph.nodes[position - len(graph.inputs)]
    parents = tuple(dict.fromkeys(node.parents))
    inputs = tuple(_literal(values[parent]) for parent in parents)
    return Graph(inputs, (Node(node.op, tuple(parents.index(parent) for parent in node.parents), node.attrs),))


def blame(graph: Graph, values: Sequence[Array], is_wrong: Callable[[Graph], bool]) -> int | None:
    """The first position whose node is wrong by itself, or else the first up to which the graph is wrong; or None."""
    for position, _ in graph.positions():
        if is_wrong(alone(graph, position, values)):
            return position
    for position, _ in graph.positions():
        if is_wrong(Graph(graph.inputs, graph.nodes[: position + 1 - len(graph.inputs)]).pruned()):
            return position
    return None


def squared(graph: Graph) -> Graph:
    """The graph with the square of its output as its output."""
    square = SQUARES[CATALOGUE[graph.nodes[-1].op].result]
    return Graph(graph.inputs, (*graph.nodes, Node.of(square, graph.size - 1)))


def _literal(value: Array) -> Input:
    return Input(tuple(value.shape), tuple(value.reshape(-1).tolist()), str(value.dtype))
