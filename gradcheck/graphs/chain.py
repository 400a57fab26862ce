"""A graph's gradient by the chain rule, from the derivatives of its nodes, each taken and judged by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.graphs.blame import alone
from gradcheck.graphs.graph import Graph

Array = np.ndarray[Any, Any]
Pullback = Callable[[Graph, Array], Array | None]
"""The gradient, in coordinates, of a graph of one node under a cotangent in coordinates; None where it is in doubt."""


def chained(graph: Graph, values: Sequence[Array], cotangent: Array, pullback: Pullback) -> Array | None:
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
