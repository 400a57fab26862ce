"""Derivatives of a graph by the chain rule, from those of its nodes, where these agree with their estimates.

Finite differences of a whole graph miss terms that are small beside the others, and features narrower than their steps.
Those of a single node at its own arguments seldom do, and correct derivatives of all nodes give that of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count
from gradcheck.graph import alone
from gradcheck.hunt.graph_problem import GraphProblem
from gradcheck.typing import Array

Agrees = Callable[[GraphProblem, int], bool]
"""Whether a problem's derivatives of an order agree with their estimates."""

ONE = np.ones(1)

LARGEST = 512
"""Largest number of coordinates of a value for which a node's whole Jacobian is taken."""


@dataclass(frozen=True)
class Pulled:
    """The `gradient` (n,) of a graph by the chain rule, and the `cotangents` that reach its nodes, by position."""

    gradient: Array
    cotangents: Mapping[int, Array]


def chain_rule_gradient(problem: GraphProblem, agrees: Agrees) -> Pulled | None:
    """The gradient under the problem's cotangent, node by node; None if a node's derivative is in doubt.

    The cotangent of a node is summed over its uses, as in reverse accumulation (Griewank and Walther, "Evaluating
    Derivatives", section 3.2).
    """
    graph, values = problem.graph, problem.intermediates
    adjoints = {graph.size - 1: np.asarray(problem.cotangent)}
    for position, node in reversed(list(graph.positions())):
        if position in adjoints:
            one = GraphProblem.evaluated(alone(graph, position, values), adjoints[position])
            if not np.all(np.isfinite(adjoints[position])) or not agrees(one, 1):
                return None
            _forward(adjoints, problem, node.parents, one.gradients(ONE[None, :]).values[0])
    return Pulled(_of_inputs(adjoints, problem), adjoints)


def tangents_at_kink(problem: GraphProblem, agrees: Agrees) -> Array | None:
    """The tangents (n, k) of the arguments of the only node at a kink, one per coordinate; None if a node is in doubt.

    Also None if no node is at a kink, or if another node is not smooth.
    """
    nodes = problem.nonsmooth_nodes
    if len(nodes.positions) != 1 or nodes.positions != nodes.kinks:
        return None
    pushed = _pushed(problem, np.eye(problem.point.size), agrees)
    return None if pushed is None else _of_parents(pushed[0], dict(problem.graph.positions())[nodes.kinks[0]].parents)


def chain_rule_products(problem: GraphProblem, agrees: Agrees) -> Array | None:
    """The second derivative (n,) under the problem's cotangent, along its direction; None where a node is in doubt.

    Tangents are pushed forward; then cotangents, and their derivatives along the direction, are pulled back (Griewank
    and Walther, section 5.1). A node is in doubt unless its whole Jacobian agrees, and its second derivative for the
    cotangent and the tangents that reach it; so is one with more than `LARGEST` coordinates.
    """
    pushed = _pushed(problem, problem.direction[None, :], agrees)
    if pushed is None:
        return None
    tangents, nodes = pushed
    last = problem.graph.size - 1
    adjoints, moving = {last: np.asarray(problem.cotangent)}, {last: np.zeros(tangents[last].size)}
    for position, node in reversed(list(problem.graph.positions())):
        if position not in adjoints:
            continue
        (one, jacobian), weights = nodes[position], adjoints[position]
        direction = _of_parents(tangents, node.parents)
        if not np.all(np.isfinite([weights, moving[position], tangents[position][0]])):
            return None
        bent = np.zeros(direction.size)
        if weights.any() and direction.any():
            one = replace(one, cotangent=weights, direction=direction[0])
            if not agrees(one, 2):
                return None
            bent = one.products(ONE, direction).values[0]
        _forward(adjoints, problem, node.parents, weights @ jacobian)
        _forward(moving, problem, node.parents, moving[position] @ jacobian + bent)
    return _of_inputs(moving, problem)


def _pushed(
    problem: GraphProblem, directions: Array, agrees: Agrees
) -> tuple[list[Array], dict[int, tuple[GraphProblem, Array]]] | None:
    """The tangents of all values along directions (k, n), the nodes and their Jacobians; None where one is in doubt."""
    graph, values = problem.graph, problem.intermediates
    sizes = [coordinate_count(value.shape, value.dtype) for value in values]
    if max(sizes) > LARGEST:
        return None
    tangents = np.split(directions, np.cumsum(sizes[: len(graph.inputs)])[:-1], axis=1)
    nodes: dict[int, tuple[GraphProblem, Array]] = {}
    for position, node in graph.positions():
        one = replace(GraphProblem.evaluated(alone(graph, position, values)), cotangent=None)
        if not agrees(one, 1):
            return None
        nodes[position] = one, one.gradients(np.eye(sizes[position])).values
        tangents.append(_of_parents(tangents, node.parents) @ nodes[position][1].T)
    return tangents, nodes


def _of_parents(tangents: list[Array], parents: tuple[int, ...]) -> Array:
    """The tangents (k, ...) of a node's arguments, each value once, as `alone` has them."""
    return np.concatenate([tangents[parent] for parent in dict.fromkeys(parents)], axis=1)


def _forward(reached: dict[int, Array], problem: GraphProblem, parents: tuple[int, ...], pulled: Array) -> None:
    """Adds to the cotangent of each argument of a node its part of `pulled`, the node's VJP."""
    for parent in dict.fromkeys(parents):
        value = problem.intermediates[parent]
        count = coordinate_count(value.shape, value.dtype)
        part, pulled = pulled[:count], pulled[count:]
        reached[parent] = reached.get(parent, 0.0) + part


def _of_inputs(reached: dict[int, Array], problem: GraphProblem) -> Array:
    """The cotangents of the inputs, (n,)."""
    counts = (coordinate_count(literal.shape, literal.dtype) for literal in problem.graph.inputs)
    return np.concatenate([reached.get(place, np.zeros(count)) for place, count in enumerate(counts)])
