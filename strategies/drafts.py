"""A graph while it is drawn: every position is evaluated at once, so that its shape, values and kinks are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.hunt import monitor
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.evaluation import single
from gradcheck.hunt.graph import Graph, Input, Node
from gradcheck.hunt.graph_problem import count_on

Array = np.ndarray[Any, Any]
Known = Callable[[str, Mapping[str, Any], Sequence[Array], int, Sequence[str]], str | None]

MOST_ELEMENTS = 64
LARGEST, SMALLEST = 1e10, 1e-10


@dataclass(frozen=True, eq=False)
class Position:
    """A literal or a node, with its value. `ancestors` and `kinks` are bit sets of the positions it depends on, itself
    included: all of them, and those at a kink; `singular`: one of them has an infinite derivative.
    """

    number: int
    source: Input | Node
    value: Array
    tensor: Any
    ancestors: int
    kinks: int = 0
    singular: bool = False

    @property
    def composed(self) -> bool:
        """Whether more than one node up to this position is at a kink, or one at a singular point."""
        return self.singular or self.kinks.bit_count() > 1


@dataclass(eq=False)
class Draft:
    """The positions so far, in the order in which they were made; dead ones stay until `graph` leaves them out.

    `known` names the known defect in whose region a node would lie; `order` is that of the derivative to be checked;
    `composed` admits a second node at a kink. `refusals` counts the nodes that were not taken;
    `operations` is the bit set of the positions that are nodes.
    """

    order: int = 1
    known: Known | None = None
    composed: bool = False
    positions: list[Position] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    operations: int = 0

    def literal(self, literal: Input) -> Position:
        """A new input."""
        value = literal.array()
        position = Position(len(self.positions), literal, value, tf.constant(value), 1 << len(self.positions))
        self.positions.append(position)
        return position

    def node(self, op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Position | None:
        """A new node, or None if its value is not fit for differences or it lies in a region that is to be left out."""
        values = [argument.value for argument in arguments]
        behind = 0
        for argument in arguments:
            behind |= argument.ancestors
        ancestors = (position.source for position in self.positions if behind >> position.number & 1)
        producers = [source.op for source in ancestors if isinstance(source, Node)]
        if self.known is not None and self.known(op, attributes, values, self.order, producers):
            self._refuse("known")
            return None
        position = self._evaluated(op, arguments, attributes)
        if position is None:
            return None
        if not self.composed and position.composed and not any(argument.composed for argument in arguments):
            self._refuse("composed kink")
            return None
        self.operations |= 1 << position.number
        self.positions.append(position)
        return position

    def _evaluated(self, op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Position | None:
        spec, values = CATALOGUE[op], [argument.value for argument in arguments]
        monitor.current().before(lambda: self._with(op, arguments, attributes))
        try:
            tensor = single(spec)(*(argument.tensor for argument in arguments), **attributes)
        except (tf.errors.OpError, ValueError):
            self._refuse("raises")
            return None
        value = tensor.numpy()
        fault = unfit(value)
        if fault:
            self._refuse(fault)
            return None
        number = len(self.positions)
        ancestors, kinks, singular = 1 << number, 0, False
        for argument in arguments:
            ancestors |= argument.ancestors
            kinks |= argument.kinks
            singular |= argument.singular
        if count_on(spec.kinks, values, attributes):
            kinks |= 1 << number
        singular = singular or count_on(spec.singular, values, attributes) > 0
        return Position(number, _node(op, arguments, attributes), value, tensor, ancestors, kinks, singular)

    def _with(self, op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Graph:
        """The graph of a node that has not been evaluated yet."""
        number = len(self.positions)
        ancestors = 1 << number
        for argument in arguments:
            ancestors |= argument.ancestors
        return self.graph(Position(number, _node(op, arguments, attributes), np.empty(0), None, ancestors))

    def _refuse(self, reason: str) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def nodes_of(self, output: Position) -> int:
        """How many nodes the graph of an output has."""
        return (output.ancestors & self.operations).bit_count()

    def graph(self, output: Position) -> Graph:
        """The positions that `output` depends on, as immutable data."""
        alive = [position for position in self.positions if output.ancestors >> position.number & 1]
        alive += [output] if output.number == len(self.positions) else []
        inputs = [position for position in alive if isinstance(position.source, Input)]
        nodes = [position for position in alive if isinstance(position.source, Node)]
        places = {position.number: place for place, position in enumerate([*inputs, *nodes])}
        return Graph(
            tuple(position.source for position in inputs if isinstance(position.source, Input)),
            tuple(
                Node(source.op, tuple(places[parent] for parent in source.parents), source.attrs)
                for source in (position.source for position in nodes)
                if isinstance(source, Node)
            ),
        )


def _node(op: str, arguments: Sequence[Position], attributes: Mapping[str, Any]) -> Node:
    return Node(op, tuple(argument.number for argument in arguments), tuple(sorted(attributes.items())))


def unfit(value: Array) -> str | None:
    """Why differences could not be taken of a value: too many elements, not finite, overflow, underflow; or None."""
    if value.size > MOST_ELEMENTS:
        return "too many elements"
    if not value.size:
        return None
    magnitudes = np.abs(value)
    largest = magnitudes.max()
    if not largest <= LARGEST:
        return "overflow" if np.isfinite(largest) else "not finite"
    return "underflow" if ((magnitudes < SMALLEST) & (magnitudes > 0)).any() else None
