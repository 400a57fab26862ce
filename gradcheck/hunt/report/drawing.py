"""The graph of a finding, drawn: layers from the inputs down to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gradcheck.graph import Graph
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.script import variables
from gradcheck.result import Verdict

HIGH = 46
GAP_X = 26
GAP_Y = 44
LETTER = 8.2
MARGIN = 10
THIN = 12
SWEEPS = 4
WORDS = {"culprit": " · culprit", "wrong": " · wrong"}


Key = int | tuple[int, int, int]
"""An occupant of a layer: a position, or the point where the edge (parent, position) passes through the layer."""


@dataclass(frozen=True)
class Box:
    """The centre of a place in the drawing, and its width."""

    x: float
    y: float
    width: float
    height = HIGH

    @property
    def top(self) -> float:
        """The ordinate at which edges arrive."""
        return self.y - HIGH / 2

    @property
    def bottom(self) -> float:
        """The ordinate from which edges leave."""
        return self.y + HIGH / 2


@dataclass(frozen=True)
class GraphDrawing:
    """A graph in the form that its template draws: each position's mark, box and lines; `edges` are SVG paths."""

    label: str
    width: int
    height: int
    nodes: list[tuple[str, Box, tuple[str, str]]]
    edges: list[str]


def drawing(found: GraphFinding) -> GraphDrawing:
    """The graph; the culprit, and nodes whose own derivative is wrong, are marked by colour and by a word."""
    graph = found.graph
    marks = ["input" if position < len(graph.inputs) else "operation" for position in range(graph.size)]
    for node in found.nodes:
        if node.verdict == Verdict.MISMATCH:
            marks[node.position] = "wrong"
    marks[found.position] = "culprit"
    texts = [(first, second + WORDS.get(mark, "")) for (first, second), mark in zip(labels(graph), marks, strict=True)]
    places = layout(graph, [LETTER * max(map(len, text)) + 24 for text in texts])
    boxes = [places[position] for position in range(graph.size)]
    depths = layers(graph)
    return GraphDrawing(
        f"graph of {len(graph.inputs)} inputs and {len(graph.nodes)} operations; culprit: {found.culprit}",
        round(max(box.x + box.width / 2 for box in places.values()) + MARGIN),
        round(max(box.bottom for box in boxes) + MARGIN),
        list(zip(marks, boxes, texts, strict=True)),
        [
            _edge([places[key] for key in way(parent, position, depths)], number, len(node.parents))
            for position, node in graph.positions()
            for number, parent in enumerate(node.parents)
        ],
    )


def labels(graph: Graph) -> list[tuple[str, str]]:
    """Two lines per position: the variable and shape of an input, or the variable and operation of a node."""
    names = variables(graph)
    inputs = [
        (names[place], f"{value.dtype} {list(value.shape)}" if value.shape else value.dtype)
        for place, value in enumerate(graph.inputs)
    ]
    return inputs + [(node.op, names[position]) for position, node in graph.positions()]


def layout(graph: Graph, widths: Sequence[float]) -> dict[Key, Box]:
    """A place for every position, a layer below its lowest parent, and for every edge in each layer that it passes.

    Within a layer, places lie below the middle of what they are joined to. Layered drawing after Sugiyama, Tagawa and
    Toda (1981), with a few sweeps of the barycentre rule.
    """
    depths = layers(graph)
    rows: list[list[Key]] = [[p for p in range(graph.size) if depths[p] == row] for row in range(max(depths) + 1)]
    joined: dict[Key, list[Key]] = {position: [] for position in range(graph.size)}
    for position, node in graph.positions():
        for parent in dict.fromkeys(node.parents):
            keys = way(parent, position, depths)
            for depth, key in enumerate(keys[1:-1], depths[parent] + 1):
                rows[depth].append(key)
            for above, below in pairwise(keys):
                joined.setdefault(above, []).append(below)
                joined.setdefault(below, []).append(above)
    for sweep in range(SWEEPS):
        for row in rows[:: 1 if sweep % 2 else -1]:
            middles = {key: number / max(len(each) - 1, 1) for each in rows for number, key in enumerate(each)}
            row.sort(key=lambda key: sum(middles[other] for other in joined[key]) / max(len(joined[key]), 1))
    sizes = [[widths[key] if isinstance(key, int) else THIN for key in row] for row in rows]
    totals = [sum(row) + GAP_X * (len(row) - 1) for row in sizes]
    boxes = {}
    for number, (row, wide, total) in enumerate(zip(rows, sizes, totals, strict=True)):
        x, y = MARGIN + (max(totals) - total) / 2, MARGIN + HIGH / 2 + number * (HIGH + GAP_Y)
        for key, width in zip(row, wide, strict=True):
            boxes[key] = Box(x + width / 2, y, width)
            x += width + GAP_X
    return boxes


def layers(graph: Graph) -> list[int]:
    """The layer of each position: below its lowest parent; an input stands right above its first use."""
    depths = [0] * graph.size
    for position, node in graph.positions():
        depths[position] = 1 + max((depths[parent] for parent in node.parents), default=-1)
    for position in range(len(graph.inputs)):
        depths[position] = min((depths[p] - 1 for p, node in graph.positions() if position in node.parents), default=0)
    return depths


def way(parent: int, position: int, depths: Sequence[int]) -> list[Key]:
    """The places that an edge leads through, both ends included."""
    return [parent, *((parent, position, row) for row in range(depths[parent] + 1, depths[position])), position]


def _edge(places: Sequence[Box], number: int, count: int) -> str:
    """A line from the first place down to the `number`-th of `count` entries of the last one."""
    end = places[-1]
    entry = end.x + (number - (count - 1) / 2) * min(18, end.width / (count + 1))
    path = f"M{places[0].x:.1f} {places[0].bottom:.1f}"
    for above, below in pairwise(places):
        x, middle = entry if below is end else below.x, (above.bottom + below.top) / 2
        path += f"C{above.x:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {below.top:.1f}"
        path += "" if below is end else f"V{below.bottom:.1f}"
    return path + f"M{entry - 4:.1f} {end.top - 7:.1f}L{entry:.1f} {end.top:.1f}L{entry + 4:.1f} {end.top - 7:.1f}"
