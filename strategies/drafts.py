"""A graph while it is drawn: each position is evaluated immediately, so that its shape, values and kinks are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.defects.region import Ancestry
from gradcheck.graph import Graph, Input, Node
from gradcheck.hunt import monitor
from gradcheck.hunt.evaluation import single
from gradcheck.hunt.known_graphs import ancestry
from gradcheck.hunt.nonsmooth import count_on
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import MOST_ELEMENTS
from gradcheck.typing import Array

RegionOf = Callable[[str, Mapping[str, Any], Sequence[Array], int, Ancestry], str | None]

MOST_OF_LARGE = 4096
"""The most elements of a value in a large graph."""
LARGEST, SMALLEST = 1e10, 1e-10


@dataclass(frozen=True, eq=False)
class Position:
    """A literal or a node, with its value.

    `ancestors` and `kinks` are the positions it depends on, itself included: all of them, and those at a kink;
    `singular`: one of them has an infinite derivative.
    """

    number: int
    source: Input | Node
    value: Array
    tensor: Any
    ancestors: frozenset[int]
    kinks: frozenset[int] = frozenset()
    singular: bool = False

    @property
    def composed(self) -> bool:
        """Whether more than one node up to this position is at a kink, or one at a singular point."""
        return self.singular or len(self.kinks) > 1


@dataclass(eq=False)
class Draft:
    """The positions so far, in order of creation; unused ones stay until `graph` leaves them out.

    `known` names the known defect in whose region a node would lie; `order` is that of the derivative to be checked;
    `composed` admits a second node at a kink; `most` is the largest number of elements of a value.
    """

    order: int = 1
    known: RegionOf | None = None
    composed: bool = False
    most: int = MOST_ELEMENTS
    positions: list[Position] = field(default_factory=list)

    def literal(self, literal: Input) -> Position:
        """Adds an input."""
        number, value = len(self.positions), literal.array()
        self.positions.append(Position(number, literal, value, tf.constant(value), frozenset((number,))))
        return self.positions[-1]

    def node(self, op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Position | None:
        """Adds a node, or returns None if its value is unfit for differences or if it lies in an excluded region."""
        spec, number, values = CATALOGUE[op], len(self.positions), [argument.value for argument in arguments]
        behind = frozenset[int]().union(*(argument.ancestors for argument in arguments))
        if self.known is not None:
            before = ancestry(self._sources(behind), [argument.number for argument in arguments])
            if self.known(op, attributes, values, self.order, before):
                return None
        node = Node(op, tuple(argument.number for argument in arguments), tuple(sorted(attributes.items())))
        monitor.current().before(lambda: _graph({**self._sources(behind), number: node}))
        try:
            tensor = single(spec)(*(argument.tensor for argument in arguments), **attributes)
        except (tf.errors.OpError, ValueError):
            return None
        value = tensor.numpy()
        if not is_fit(value, self.most):
            return None
        own = frozenset((number,))
        kinks = frozenset[int]().union(*(argument.kinks for argument in arguments))
        kinks |= own if count_on(spec.kinks, values, attributes) else frozenset()
        singular = any(argument.singular for argument in arguments) or count_on(spec.singular, values, attributes) > 0
        position = Position(number, node, value, tensor, behind | own, kinks, singular)
        if position.composed and not self.composed and not any(argument.composed for argument in arguments):
            return None
        self.positions.append(position)
        return position

    def _sources(self, numbers: Iterable[int]) -> dict[int, Input | Node]:
        return {number: self.positions[number].source for number in sorted(numbers)}

    def nodes_of(self, output: Position) -> int:
        """The number of nodes in the graph of an output."""
        return sum(isinstance(source, Node) for source in self._sources(output.ancestors).values())

    def graph(self, output: Position) -> Graph:
        """The positions that `output` depends on, as immutable data."""
        return _graph(self._sources(output.ancestors))


def _graph(sources: Mapping[int, Input | Node]) -> Graph:
    inputs = {number: source for number, source in sources.items() if isinstance(source, Input)}
    nodes = {number: source for number, source in sources.items() if isinstance(source, Node)}
    places = {number: place for place, number in enumerate([*inputs, *nodes])}
    renumbered = (Node(one.op, tuple(places[parent] for parent in one.parents), one.attrs) for one in nodes.values())
    return Graph(tuple(inputs.values()), tuple(renumbered))


def is_fit(value: Array, most: int = MOST_ELEMENTS) -> bool:
    """Whether differences can be taken of a value: not too many elements, all finite, no overflow, no underflow."""
    magnitudes = np.abs(value)
    fits = (magnitudes <= LARGEST) & ((magnitudes >= SMALLEST) | (magnitudes == 0))
    return value.size <= most and bool(fits.all())
