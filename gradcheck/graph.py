"""A compute graph as immutable data: literal inputs first, then nodes in topological order, the last one the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.autodiff.coordinates import coordinate_count, from_coordinates, to_coordinates
from gradcheck.typing import Array

Shape = tuple[int, ...]
Attributes = tuple[tuple[str, Any], ...]

DTYPES = ("float64", "float32", "complex128")

SHOWN, FIRST = 64, 4
"""An input with more than SHOWN values is shown by its first FIRST ones."""


@dataclass(frozen=True)
class Input:
    """A literal tensor: its elements in row-major order, as Python floats (or complex numbers)."""

    shape: Shape
    values: tuple[complex, ...]
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype was {self.dtype!r}; an input is one of {', '.join(DTYPES)}")
        if int(np.prod(self.shape)) != len(self.values):
            raise ValueError(f"shape {self.shape} holds {int(np.prod(self.shape))} elements, {len(self.values)} given")

    def __repr__(self) -> str:
        values = repr(self.values)
        if len(self.values) > SHOWN:
            values = f"({', '.join(map(repr, self.values[:FIRST]))}, … {len(self.values)} values)"
        return f"Input(shape={self.shape}, values={values}, dtype={self.dtype!r})"

    def array(self) -> np.ndarray[Any, Any]:
        """The value as a NumPy array of the input's dtype and shape."""
        return np.array(self.values, dtype=self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Node:
    """An operation of the catalogue, applied to earlier positions; `attrs` are literals, sorted by name."""

    op: str
    parents: tuple[int, ...]
    attrs: Attributes = ()

    @staticmethod
    def of(op: str, *parents: int, **attrs: Any) -> Node:
        """A node with its attributes as keywords: `Node.of("sum", 0, axis=-1)`."""
        return Node(op, parents, tuple(sorted(attrs.items())))

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes as a mapping."""
        return dict(self.attrs)


@dataclass(frozen=True)
class Graph:
    """Positions 0 to len(inputs)-1 are the inputs; the nodes follow. The output is the last position.

    >>> graph = Graph((Input((2,), (1.0, 2.0)),), (Node.of("square", 0), Node.of("sin", 1)))
    >>> graph.size
    3
    """

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("a graph needs at least one input; none was given")
        for position, node in enumerate(self.nodes, len(self.inputs)):
            for parent in node.parents:
                if not 0 <= parent < position:
                    raise ValueError(
                        f"node {position} ({node.op}) names parent {parent}; only 0 to {position - 1} come before it"
                    )

    @property
    def size(self) -> int:
        """The number of positions: inputs and nodes."""
        return len(self.inputs) + len(self.nodes)

    def positions(self) -> Iterator[tuple[int, Node]]:
        """The nodes with their positions."""
        return iter(enumerate(self.nodes, len(self.inputs)))

    def uses(self) -> tuple[int, ...]:
        """How often each position is used as a parent."""
        counts = [0] * self.size
        for node in self.nodes:
            for parent in node.parents:
                counts[parent] += 1
        return tuple(counts)

    def ancestors(self, position: int) -> set[int]:
        """The positions that a position depends on, itself included."""
        found = {position}
        for place, node in reversed(list(self.positions())):
            if place in found:
                found.update(node.parents)
        return found

    def pruned(self) -> Graph:
        """The same graph without the positions that the output does not depend on."""
        alive = self.ancestors(self.size - 1)
        renumbered = {old: new for new, old in enumerate(sorted(alive))}
        return Graph(
            tuple(value for position, value in enumerate(self.inputs) if position in alive),
            tuple(
                Node(node.op, tuple(renumbered[parent] for parent in node.parents), node.attrs)
                for position, node in self.positions()
                if position in alive
            ),
        )


def literal(value: Any) -> Input:
    """A literal tensor from an array (or a tensor's `numpy()`), as float64, float32 or complex128.

    >>> literal(np.array([1, 2]))
    Input(shape=(2,), values=(1.0, 2.0), dtype='float64')
    """
    array = np.asarray(value)
    if array.dtype not in (np.float32, np.float64, np.complex128):
        array = array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
    return Input(array.shape, tuple(array.ravel().tolist()), str(array.dtype))


def alone(graph: Graph, position: int, values: Sequence[Array]) -> Graph:
    """The node at `position` by itself, with the values that it had in the graph as literal inputs.

    A value that it takes twice is one input, used twice.
    """
    node = graph.nodes[position - len(graph.inputs)]
    parents = list(dict.fromkeys(node.parents))
    inputs = tuple(literal(values[parent]) for parent in parents)
    return Graph(inputs, (Node(node.op, tuple(map(parents.index, node.parents)), node.attrs),))


def coordinates_of(literals: Sequence[Input]) -> Array:
    """The real coordinates of literals, one after the other, shape (n,)."""
    return np.concatenate([np.empty(0), *(to_coordinates(literal.array()) for literal in literals)])


def split_coordinates(flat: Array, literals: Sequence[Input]) -> list[Array]:
    """Arrays of the literals' shapes and dtypes from all their coordinates (n,), or (p, n) for several points."""
    parts, start = [], 0
    for literal in literals:
        stop = start + coordinate_count(literal.shape, literal.dtype)
        parts.append(from_coordinates(flat[..., start:stop], literal.shape, literal.dtype))
        start = stop
    return parts
