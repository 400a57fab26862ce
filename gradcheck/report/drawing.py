"""The graph of a finding, drawn: layers from the inputs down to the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck.graphs.graph import Graph
from gradcheck.graphs.python_form import variables
from gradcheck.report.discovery import Discovery
from gradcheck.report.markup import Markup, element

HIGH = 46
GAP_X = 26
GAP_Y = 44
LETTER = 8.2
MARGIN = 10
SWEEPS = 4
WORDS = {"culprit": " · culprit", "wrong": " · wrong"}


@dataclass(frozen=True)
class Box:
    """A position's place: the middle of its box, and its width."""

    x: float
    y: float
    width: float


def drawing(found: Discovery) -> Markup:
    """An SVG drawing; the culprit, and nodes whose own derivative is wrong, are marked by colour and by a word."""
    graph = found.graph
    wrong = {node.position for node in found.nodes if node.verdict.startswith("mismatch")}
    marks = [_kind(position, found, wrong) for position in range(graph.size)]
    texts = [(first, second + WORDS.get(mark, "")) for (first, second), mark in zip(labels(graph), marks, strict=True)]
    boxes = layout(graph, [LETTER * max(map(len, text)) + 24 for text in texts])
    width = max(box.x + box.width / 2 for box in boxes) + MARGIN
    height = max(box.y for box in boxes) + HIGH / 2 + MARGIN
    edges = [
        _edge(boxes[parent], boxes[position], number, len(node.parents))
        for position, node in graph.positions()
        for number, parent in enumerate(node.parents)
    ]
    nodes = [_node(box, text, mark) for box, text, mark in zip(boxes, texts, marks, strict=True)]
    return element(
        "svg",
        *edges,
        *nodes,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        role="img",
        class_="graph",
        aria_label=f"graph of {len(graph.inputs)} inputs and {len(graph.nodes)} operations; culprit: {found.culprit}",
    )


def labels(graph: Graph) -> list[tuple[str, str]]:
    """Two lines a position: the variable and shape of an input, or the variable and operation of a node."""
    names = variables(graph)
    inputs = [
        (names[place], f"{value.dtype} {list(value.shape)}" if value.shape else value.dtype)
        for place, value in enumerate(graph.inputs)
    ]
    return inputs + [(node.op, names[position]) for position, node in graph.positions()]


def layout(graph: Graph, widths: Sequence[float]) -> tuple[Box, ...]:
    """A layer below the lowest parent for every position; within a layer, boxes lie below the middle of their parents.

    Layered drawing after Sugiyama, Tagawa and Toda (1981), with a few sweeps of the barycentre rule.
    """
    depth = [0] * graph.size
    for position, node in graph.positions():
        depth[position] = 1 + max((depth[parent] for parent in node.parents), default=-1)
    for position in range(len(graph.inputs)):  # an input stands right above its first use
        depth[position] = min((depth[p] - 1 for p, node in graph.positions() if position in node.parents), default=0)
    rows = [[p for p in range(graph.size) if depth[p] == row] for row in range(max(depth) + 1)]
    neighbours = _neighbours(graph)
    for sweep in range(SWEEPS):
        place = {p: number / max(len(row) - 1, 1) for row in rows for number, p in enumerate(row)}
        for row in rows[:: 1 if sweep % 2 else -1]:
            row.sort(key=lambda p: (sum(place[q] for q in neighbours[p]) / max(len(neighbours[p]), 1), p))
            place.update({p: number / max(len(row) - 1, 1) for number, p in enumerate(row)})
    return _placed(rows, widths)


def _neighbours(graph: Graph) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(graph.size)]
    for position, node in graph.positions():
        for parent in node.parents:
            found[position].append(parent)
            found[parent].append(position)
    return found


def _placed(rows: Sequence[Sequence[int]], widths: Sequence[float]) -> tuple[Box, ...]:
    totals = [sum(widths[p] for p in row) + GAP_X * (len(row) - 1) for row in rows]
    boxes = {}
    for number, (row, total) in enumerate(zip(rows, totals, strict=True)):
        x, y = MARGIN + (max(totals) - total) / 2, MARGIN + HIGH / 2 + number * (HIGH + GAP_Y)
        for p in row:
            boxes[p] = Box(x + widths[p] / 2, y, widths[p])
            x += widths[p] + GAP_X
    return tuple(boxes[p] for p in sorted(boxes))


def _kind(position: int, found: Discovery, wrong: set[int]) -> str:
    if position == found.position:
        return "culprit"
    if position in wrong:
        return "wrong"
    return "input" if position < len(found.graph.inputs) else "operation"


def _node(box: Box, text: tuple[str, str], mark: str) -> Markup:
    middle = {"text_anchor": "middle", "x": f"{box.x:.1f}"}
    return element(
        "g",
        element(
            "rect",
            x=f"{box.x - box.width / 2:.1f}",
            y=f"{box.y - HIGH / 2:.1f}",
            width=f"{box.width:.1f}",
            height=HIGH,
            rx=HIGH / 2 if mark == "input" else 8,
        ),
        element("text", text[0], y=f"{box.y - 4:.1f}", class_="name", **middle),
        element("text", text[1], y=f"{box.y + 13:.1f}", **middle),
        class_=f"node {mark}",
    )


def _edge(start: Box, end: Box, number: int, count: int) -> Markup:
    x1, y1 = start.x, start.y + HIGH / 2
    x2, y2 = end.x + (number - (count - 1) / 2) * min(18, end.width / (count + 1)), end.y - HIGH / 2
    bend = (y2 - y1) / 2
    curve = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    head = f"M{x2 - 4:.1f} {y2 - 7:.1f}L{x2:.1f} {y2:.1f}L{x2 + 4:.1f} {y2 - 7:.1f}"
    return element("path", d=curve + head, class_="edge")
