"""Which nodes of a graph stand on a kink or on a singular point, by the catalogue's declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.graphs.catalogue import CATALOGUE
from gradcheck.graphs.graph import Graph
from gradcheck.graphs.opspec import Distances

Array = np.ndarray[Any, Any]

ROUNDINGS = 64


@dataclass(frozen=True)
class Standing:
    """Positions of nodes on a kink, positions of singular nodes, and how many elements of kinks are concerned.

    `bends` are the positions of nodes whose curvature jumps.
    """

    kinks: tuple[int, ...]
    singular: tuple[int, ...]
    elements: int
    bends: tuple[int, ...] = ()

    @property
    def rough(self) -> tuple[int, ...]:
        """The positions of all nodes that stand on anything."""
        return (*self.kinks, *self.singular, *self.bends)

    @property
    def smooth(self) -> bool:
        """Whether no node stands on anything."""
        return not self.rough

    @property
    def curved(self) -> bool:
        """Whether no node stands where its second derivative does not exist."""
        return not self.kinks and not self.bends

    @property
    def composed(self) -> bool:
        """Whether the derivative at the point is a matter of convention: two kinks or more, or a singular point."""
        return len(self.kinks) > 1 or bool(self.singular)


def standing(graph: Graph, values: Sequence[Array]) -> Standing:
    """Where the nodes stand, given the values at all positions."""
    kinks, singular, bends, elements = [], [], [], 0
    for position, node in graph.positions():
        spec = CATALOGUE[node.op]
        if spec.kinks is None and spec.singular is None and spec.bends is None:
            continue
        arguments = [values[parent] for parent in node.parents]
        touching = count_on(spec.kinks, arguments, node.attributes)
        if touching:
            kinks.append(position)
            elements += touching
        if count_on(spec.singular, arguments, node.attributes):
            singular.append(position)
        if count_on(spec.bends, arguments, node.attributes):
            bends.append(position)
    return Standing(tuple(kinks), tuple(singular), elements, tuple(bends))


def count_on(distances: Distances | None, values: Sequence[Array], attributes: Mapping[str, Any]) -> int:
    """How many of the declared distances are zero, within 64 roundings of the largest argument."""
    if distances is None or not all(value.size for value in values):
        return 0
    away = np.asarray(distances(*values, **attributes))
    scale = max(float(np.abs(value).max()) for value in values)
    return int(np.sum(away <= ROUNDINGS * np.finfo(values[0].dtype).eps * scale))
