"""Which nodes of a graph are not smooth at its inputs, or beside them, by the catalogue's declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.graph import Graph
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.spec import Distances, OpSpec
from gradcheck.typing import Array


@dataclass(frozen=True)
class NonsmoothNodes:
    """The positions of nodes at a kink, at a singular point, and at a point where they are C1 but not C2.

    `kinked_elements` is the number of elements, of all nodes, that are at a kink.
    """

    kinks: tuple[int, ...]
    singular: tuple[int, ...]
    curvature_jumps: tuple[int, ...]
    kinked_elements: int

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of all nodes that are not smooth."""
        return (*self.kinks, *self.singular, *self.curvature_jumps)

    @property
    def composed(self) -> bool:
        """Whether the derivative is a convention, at a composed kink: two kinks or more, or a singular point."""
        return len(self.kinks) > 1 or bool(self.singular)


def nonsmooth_nodes(graph: Graph, values: Sequence[Array], lost: Sequence[float] | None = None) -> NonsmoothNodes:
    """The nodes that are not smooth at the given values, or may not be, if these are off by as much as `lost`."""
    kinks: dict[int, int] = {}
    singular: dict[int, int] = {}
    curvature_jumps: dict[int, int] = {}
    for position, node in graph.positions():
        spec, arguments = CATALOGUE[node.op], [values[parent] for parent in node.parents]
        declared = (spec.kinks, kinks), (spec.singular, singular), (spec.curvature_jumps, curvature_jumps)
        unit = None if lost is None else max(lost[parent] for parent in node.parents)
        for distances, found in declared:
            if count := count_on(distances, arguments, node.attributes, unit):
                found[position] = count
    return NonsmoothNodes(tuple(kinks), tuple(singular), tuple(curvature_jumps), sum(kinks.values()))


def count_on(
    distances: Distances | None, values: Sequence[Array], attributes: Mapping[str, Any], unit: float | None = None
) -> int:
    """How many declared distances are zero within 64 units; by default, a unit is an ulp of the largest value."""
    away = _measured(distances, values, attributes)
    if away is None:
        return 0
    if unit is None:
        unit = float(np.finfo(values[0].dtype).eps) * max(float(np.abs(value).max()) for value in values)
    return int(np.sum(away <= 64 * unit))


def _measured(distances: Distances | None, values: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    """The declared distances; None where none are, or there are no elements."""
    if distances is None or not all(value.size for value in values):
        return None
    return np.asarray(distances(*values, **attributes))


def crossings(graph: Graph, rows: Sequence[Array], *, jumps: bool = False) -> Array:
    """In which of k pairs of points a node passes a kink, a jump or a jump of the curvature, (k,).

    `rows` are the values at all positions, (1 + 2 k, …): at the graph's inputs, and at points to the right and then to
    the left of them. With `jumps`, only singular points count, and no ends of domains, where differences are one-sided.
    """
    found = np.zeros(len(rows[0]) // 2, bool)
    for _, node in graph.positions():
        spec, points = CATALOGUE[node.op], list(zip(*(rows[parent] for parent in node.parents), strict=True))
        for distances in (spec.singular,) if jumps else (spec.kinks, spec.singular, spec.curvature_jumps):
            if distances is not None and points[0][0].size:
                found |= _passed(spec, distances, points, node.attributes, ends=not jumps)
    return found


def _passed(
    spec: OpSpec, distances: Distances, points: Sequence[Sequence[Array]], attributes: Mapping[str, Any], *, ends: bool
) -> Array:
    def measured(point: Sequence[Array]) -> Array | None:
        inside = all(spec.domain(place).contains(value) for place, value in enumerate(point))
        return _measured(distances, point, attributes) if inside else None

    with np.errstate(all="ignore"):
        here, *beside = map(measured, points)
        pairs = zip(beside[: len(beside) // 2], beside[len(beside) // 2 :], strict=True)
        return np.array([here is not None and _between(here, *pair, ends=ends) for pair in pairs], bool)


def _between(here: Array, right: Array | None, left: Array | None, *, ends: bool) -> bool:
    """Whether the distance from a declared point fails to grow on one side by what it shrinks by on the other.

    A curved distance differs by less than a part in 64 on the finest steps. Outside of the domain there are no
    distances (None). Where their number changes, as for samples inside of an image, a declared point has entered or
    left.
    """
    if right is None or left is None or not right.shape == here.shape == left.shape:
        return ends
    return bool(np.any(np.isfinite(here) & (here > 0) & (np.abs(right + left - 2 * here) >= here / 64)))
