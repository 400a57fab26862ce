"""Which node of a failing graph is the culprit: the first whose own derivative is wrong at its actual arguments.

Where every node is right by itself, it is the one with which the graph becomes wrong: some derivatives fail only
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.graph import Graph, Input, Node

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


Pullback = Callable[[Graph, Array], Array | None]
"""The gradient, in coordinates, of a graph of one node under a cotangent in coordinates; None where it is in doubt."""


def chain_rule_gradient(graph: Graph, values: Sequence[Array], cotangent: Array, pullback: Pullback) -> Array | None:
    """The gradient (n,) of <w, y> for the cotangent w (m,), node by node; None where one of them is in doubt.

    `values` are those at all positions. What reaches a node is summed over its uses, as reverse accumulation does it
    (Griewank and Walther, "Evaluating Derivatives", section 3.2).
    """
    reached: dict[int, Array] = {graph.size - 1: cotangent}
    for position, node in reversed(list(graph.positions())):
        if position not in reached:
            continue
        pulled = pullback(alone(graph, position, values), reached[position])
        if pulled is None:
            return None
        for parent in dict.fromkeys(node.parents):
            count = _count(values[parent])
            part, pulled = pulled[:count], pulled[count:]
            reached[parent] = reached.get(parent, 0.0) + part
    inputs = range(len(graph.inputs))
    return np.concatenate([reached.get(place, np.zeros(_count(values[place]))) for place in inputs])


def _count(value: Array) -> int:
    return coordinate_count(value.shape, str(value.dtype))
