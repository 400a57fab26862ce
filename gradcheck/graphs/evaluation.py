"""Running a graph with TensorFlow: at one point, or at many points in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Graph, Node
from gradcheck.graphs.implementation import over_points, single
from gradcheck.graphs.opspec import OpSpec
from gradcheck.graphs.roundings import Roundings


def forward(
    graph: Graph, inputs: Sequence[Any], *, reference: bool = False, roundings: Roundings | None = None
) -> list[Any]:
    """The tensors at all positions of the graph, the inputs first; `reference` takes the catalogue's references.

    The inputs are tensors of the shapes and dtypes that the graph's literals have. What an operation raises is raised.
    """
    values = list(inputs)
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        value = single(spec, reference=reference)(*_arguments(values, position, node, roundings), **node.attributes)
        values.append(value if roundings is None else roundings.of(position, value, _unit(spec, reference)))
    return values


def values_of(graph: Graph) -> list[np.ndarray[Any, Any]]:
    """The values at all positions of the graph, at its literal inputs."""
    return [value.numpy() for value in forward(graph, [tf.constant(literal.array()) for literal in graph.inputs])]


def forward_points(
    graph: Graph, inputs: Sequence[Any], *, reference: bool = True, roundings: Roundings | None = None
) -> list[Any]:
    """The same for inputs that carry a leading dimension of points; row 0 is the unperturbed point."""
    values = list(inputs)
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        arguments = _arguments(values, position, node, roundings)
        if spec.broadcasts:
            arguments = _aligned(arguments)
        value = over_points(spec, reference=reference)(*arguments, **node.attributes)
        values.append(value if roundings is None else roundings.of(position, value, _unit(spec, reference)))
    return values


def _arguments(values: list[Any], position: int, node: Node, roundings: Roundings | None) -> list[Any]:
    arguments = [values[parent] for parent in node.parents]
    if roundings is None:
        return arguments
    # A value that a node takes twice stays one tensor, which its gradient may ask for.
    passed = {parent: roundings.argument(position, parent, values[parent]) for parent in node.parents}
    return [passed[parent] for parent in node.parents]


def _unit(spec: OpSpec, reference: bool) -> float:
    """The relative rounding of the kernel that runs; references run in float64."""
    return 0.0 if reference and spec.reference else spec.rtol


def _aligned(arguments: list[Any]) -> list[Any]:
    rank = max(len(argument.shape) for argument in arguments)
    return [
        argument
        if len(argument.shape) == rank
        else tf.reshape(argument, [argument.shape[0], *[1] * (rank - len(argument.shape)), *argument.shape[1:]])
        for argument in arguments
    ]
