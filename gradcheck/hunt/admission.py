"""Evaluates a graph from a file: only what the catalogue offers, and only as large as a drawn graph may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from gradcheck.graph import Graph, Node
from gradcheck.hunt.evaluation import single
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.typing import Array

LARGEST = 4096


class AdmissionError(ValueError):
    """A graph that could not have been drawn; names the node, what was given and what the catalogue offers."""


def admit(graph: Graph, before: Callable[[int, Node], None] | None = None) -> list[Array]:
    """The values at all positions, computed node by node; `before` is called with each position before it runs.

    Raises AdmissionError where an argument has a shape or a dtype that its operation does not take, an attribute a
    value that is not offered, or a value more than 4,096 elements: an attribute such as `multiples` could otherwise
    exhaust the memory. Exceptions of the operations propagate.

    >>> from gradcheck.graph import Input
    >>> [value.tolist() for value in admit(Graph((Input((2,), (1.0, 2.0)),), (Node.of("square", 0),)))]
    [[1.0, 2.0], [1.0, 4.0]]
    """
    values = [literal.array() for literal in graph.inputs]
    for position, node in graph.positions():
        arguments = [values[parent] for parent in node.parents]
        place = f"node {position} ({node.op})"
        _refuse_arguments(place, node, arguments)
        _refuse_attributes(place, node, [argument.shape for argument in arguments])
        if before is not None:
            before(position, node)
        tensors = [tf.constant(argument) for argument in arguments]
        value = single(CATALOGUE[node.op])(*tensors, **node.attributes).numpy()
        if value.size > LARGEST:
            raise AdmissionError(f"{place}: its value has {value.size} elements; at most {LARGEST} are computed")
        values.append(value)
    return values


def _refuse_arguments(place: str, node: Node, arguments: Sequence[Array]) -> None:
    spec = CATALOGUE[node.op]
    given = tuple(argument.shape for argument in arguments)
    admitted = [tuple(map(tuple, shapes)) for shapes in spec.shapes(given[0])]
    if given not in admitted:
        wanted = ", ".join(map(str, admitted[:4])) or "another first argument"
        raise AdmissionError(f"{place}: arguments of the shapes {given} were given; expected {wanted}")
    for number, argument in enumerate(arguments):
        if str(argument.dtype) != spec.dtype(number):
            raise AdmissionError(
                f"{place}: argument {number} is of dtype {argument.dtype}; expected {spec.dtype(number)}"
            )


def _refuse_attributes(place: str, node: Node, shapes: Sequence[tuple[int, ...]]) -> None:
    offered = CATALOGUE[node.op].attributes(*shapes)
    given = node.attributes
    if set(given) != set(offered):
        raise AdmissionError(f"{place}: attributes {sorted(given)} were given; expected {sorted(offered)}")
    for name, value in given.items():
        if not offered[name].offers(value):
            raise AdmissionError(f"{place}: {name} was {ascii(value)[:80]}; expected {offered[name]}")
