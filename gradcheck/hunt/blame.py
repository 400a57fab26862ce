"""Which node of a failing graph is the culprit: the first whose own derivative is wrong at its actual arguments.

Where every node is right by itself, it is the one with which the graph becomes wrong: some derivatives fail only
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import Graph, Node, literal

Array = np.ndarray[Any, Any]
SQUARES = {"float64": "square", "complex128": "complex_square"}


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


def blame(graph: Graph, values: Sequence[Array], is_wrong: Callable[[Graph], bool]) -> int | None:
    """The first position whose node is wrong by itself, or else the first up to which the graph is wrong; or None."""
    for position, _ in graph.positions():
        if is_wrong(alone(graph, position, values)):
            return position
    for position, _ in graph.positions():
        if is_wrong(Graph(graph.inputs, graph.nodes[: position + 1 - len(graph.inputs)]).pruned()):
            return position
    return None
