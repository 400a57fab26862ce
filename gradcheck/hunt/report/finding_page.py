"""A finding as a sentence, as Markdown, as an issue for TensorFlow, and as an HTML page that loads nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from gradcheck.autodiff.coordinates import coordinate_count, element_of, is_complex
from gradcheck.autodiff.mode import PLAIN
from gradcheck.graph import Graph, Input
from gradcheck.hunt.finding import ElementCheck, GraphFinding, excess
from gradcheck.hunt.report.issue_text import issue_text
from gradcheck.hunt.report.rendering import number, render
from gradcheck.hunt.script import expression, variables
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.operations.registry import REGISTERED, own_among
from gradcheck.result import Kind, Verdict
from gradcheck.step_curve import plot

SHOWN = 12
WIDEST = 32
INPUT = re.compile(r"input (\d{1,3})")
ORDINAL = {1: "first", 2: "second"}
COLOURS = {Verdict.AGREE: "right", Verdict.MISMATCH: "wrong", Verdict.INCONCLUSIVE: "doubt"}
COMPLAINT = {
    Kind.RAISES: "raises, although the function itself does not",
    Kind.SHAPE: "has the wrong shape or dtype",
    Kind.MISSING: "is None, although the function depends on the input",
    Kind.PARTIAL: "misses a part of the function's dependence on the input",
    Kind.NON_FINITE: "is not finite at a point where the function is smooth",
    Kind.WRONG_VALUE: "has a wrong value",
    Kind.SUBDIFFERENTIAL: "lies outside the one-sided derivatives at a kink",
    Kind.UPDATE: "differs from the variable's update",
    Kind.MODES: "depends on how TensorFlow runs it",
}
Sentence = list[tuple[str, bool]]
"""Parts of a sentence, and whether each is code."""


def sentence(found: GraphFinding) -> Sentence:
    """The verdict, with the names of operations and of registered gradients as code.

    >>> from gradcheck.graph import Node
    >>> from gradcheck.result import Finding
    >>> one = Input((1,), (1.0,))
    >>> wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "")
    >>> parts = sentence(GraphFinding(Graph((one,), (Node.of("sin", 0),)), 1, (wrong,), "sin", 1, "none", one))
    >>> "".join(text for text, is_code in parts)[:55]
    'In TensorFlow, the first derivative of sin has a wrong '
    """
    release = f"TensorFlow {found.environment.tensorflow}" if found.environment else "TensorFlow"
    if found.culprit in REGISTERED:
        release = f"{REGISTERED[found.culprit].place} ({release})"
    taken = "" if found.taken == PLAIN else f", taken as {found.taken},"
    functions = CATALOGUE[found.culprit].gradients if found.culprit in CATALOGUE else ()
    parts = [(f"In {release}, the {ORDINAL[found.order]} derivative of ", False), (found.culprit, True)]
    parts.append((f"{found.where}{taken} {COMPLAINT[found.kind]}", False))
    for place, name in enumerate(functions):
        before = ", " if place else "; its backward pass uses the gradient registered for "
        parts += [(before, False), (name, True)]
    sure = ""
    if found.confirmation is not None:
        said = "confirms" if found.confirmation.confirmed else "did not confirm"
        sure = f" A fresh process {said} it." if found.confirmation.decided else " It could not be run again."
    beside = f"; {found.beside}" if found.beside else ""
    return [*parts, (f"{beside}.{sure}", False)]


def markdown(found: GraphFinding) -> str:
    """The Markdown report: verdict, graph with values, comparison, every node's own derivative, script, environment."""
    return render("finding.md.j2", **_view(found))


def issue_form(found: GraphFinding) -> str:
    """The fields of TensorFlow's issue form with their answers, in order; those that only a person can fill in say
    so."""
    said = sentence(replace(found, confirmation=None))  # for a reader who has not run it yet
    parts = [f"`{text}`" if is_code else text for text, is_code in said]
    wrong = [f"- {element_name(found.graph, one.element)}: {one.reason}" for one in found.findings]
    return issue_text(
        f"{ORDINAL[found.order].capitalize()} derivative of {found.culprit}: {found.kind}{found.where}",
        "\n".join(["".join(parts), "", "", *wrong]),
        found.script,
        found.environment,
        None if found.confirmation is None else found.confirmation.output,
    )


def text(found: GraphFinding) -> str:
    """The full finding for a terminal: verdict, graph, comparison and script."""
    lines = ["".join(part for part, _ in sentence(found)), ""]
    lines += [*(f"  {line}" for line in graph_lines(found)), ""]
    for wrong in found.findings:
        lines.append(
            f"  {wrong.kind}, {element_name(found.graph, wrong.element)}: autodiff {wrong.autodiff}, finite-difference "
            f"estimate {wrong.difference} ± {wrong.bound}, allowed error {wrong.allowed}, error / allowed "
            f"{number(excess(wrong), 3)}: {wrong.reason}"
        )
    lines += ["", f"report {found.name}; script:", "", found.script]
    return "\n".join(lines)


def properties(found: GraphFinding) -> tuple[tuple[str, str], ...]:
    """Pairs of name and value for pytest's record_property, all strings; values that a finding lacks are left out."""
    first = found.findings[0]
    sure = found.confirmation if found.confirmation and found.confirmation.decided else None
    pairs = {
        "name": found.name,
        "operation": found.culprit,
        "order": found.order,
        "kind": found.kind,
        "description": found.description,
        "path": found.taken.path,
        "mode": found.taken.mode,
        **{name: getattr(first, name) for name in ("element", "autodiff", "difference", "bound", "allowed")},
        "cause": first.diagnosis and first.diagnosis.cause,
        "remedy": first.diagnosis and first.diagnosis.remedy,
        "tensorflow": found.environment and found.environment.tensorflow,
        "confirmed": sure and str(sure.confirmed).lower(),
    }
    return tuple((f"gradcheck.{name}", str(value)) for name, value in pairs.items() if value is not None)


def _view(found: GraphFinding) -> dict[str, Any]:
    """The values that all templates of a finding take; a node comes with its variable and its source text."""
    names, places, nodes = variables(found.graph), element_names(found.graph), dict(found.graph.positions())
    return {
        "found": found,
        "verdict": sentence(found),
        "graph_text": "\n".join(graph_lines(found)),
        "compared": any(wrong.difference is not None for wrong in found.findings),
        "elements": [(places[element.coordinate], element) for element in found.elements],
        "left_open": left_open(found),
        "named": lambda place: element_name(found.graph, place),
        "nodes": [(node, names[node.position], expression(nodes[node.position], names)) for node in found.nodes],
        "needed": needed(found.graph),
    }


def left_open(found: GraphFinding) -> str:
    """A sentence about the elements that are inconclusive; empty if there are none."""
    count = sum(element.verdict == Verdict.INCONCLUSIVE for element in found.elements)
    if not count:
        return ""
    return (
        f"{count} of {len(found.elements)} elements cannot be decided at these inputs: once the derivative is "
        "corrected, python -m gradcheck replay may answer 'cannot tell'."
    )


def needed(graph: Graph) -> str:
    """The packages that the reproduction script of a graph needs, in words."""
    own = sorted({made.origin.module for made in own_among(node.op for node in graph.nodes)})
    return f"TensorFlow, NumPy, gradcheck and {', '.join(own)}" if own else "TensorFlow and NumPy only"


def graph_lines(found: GraphFinding) -> list[str]:
    """The graph as text, one position per line, with values where the finding has them."""
    graph, names, lines = found.graph, variables(found.graph), []
    for position, value in enumerate(graph.inputs):
        lines.append(f"{names[position]} = {value.dtype}{list(value.shape)} {numbers(value)}")
    for position, node in graph.positions():
        value_text = f"   # {numbers(found.values[position])}" if position < len(found.values) else ""
        culprit = "   <- culprit" if position == found.position else ""
        lines.append(f"{names[position]} = {expression(node, names)}{value_text}{culprit}")
    lines.append(f"differentiated: sum(w * {names[-1]}) with w = {numbers(found.cotangent)}")
    if found.order == 2:
        pairs = zip(names, found.direction, strict=False)
        lines += [f"direction of {name}: {numbers(vector)}" for name, vector in pairs]
    return lines


def numbers(value: Input) -> str:
    """A literal tensor's elements, at most twelve of them."""
    texts = [number(x, None) for x in value.values[:SHOWN]]
    more = f", … {len(value.values) - SHOWN} more" if len(value.values) > SHOWN else ""
    return f"[{', '.join(texts)}{more}]"


def element_name(graph: Graph, place: str) -> str:
    """An element by its variable in the script: `x2[0, 1]` for `input 1[0, 1]`."""
    names = variables(graph)[: len(graph.inputs)]
    match = INPUT.match(place)
    return names[int(match[1])] + place[match.end() :] if match and int(match[1]) < len(names) else place


def element_names(graph: Graph) -> list[str]:
    """The names of all coordinates of a graph's inputs."""
    names = []
    for name, value in zip(variables(graph), graph.inputs, strict=False):
        for coordinate in range(coordinate_count(value.shape, value.dtype)):
            index, part = element_of(coordinate, value.shape, value.dtype)
            names.append(f"{name}{list(index) if index else ''}{part}")
    return names


def finding_page(found: GraphFinding) -> str:
    """The page as text: verdict, graph, comparison, step-size curve, blame, cause, scripts and environment."""
    curve = None
    if found.curve is not None:
        element = next(each for each in found.elements if each.coordinate == found.curve.coordinate)
        name, numbers = element_names(found.graph)[element.coordinate], (element.bound, element.allowed)
        curve = plot(name, found.curve, element.autodiff, element.difference, *numbers)
    return render(
        "finding.html.j2",
        **_view(found),
        facts=list(_facts(found)),
        graph=drawing(found),
        maps=list(heat_maps(found)),
        curve=curve,
        drawn_curve=curve and Markup(curve.svg),
        issue=None if found.culprit in REGISTERED else issue_form(found),
        colours=COLOURS,
    )


def _facts(found: GraphFinding) -> Iterator[tuple[str, object, str]]:
    """The numbers on top of the page: name, value and colour."""
    wrong = found.worst
    if wrong.difference is None:
        yield "what TensorFlow does", wrong.reason, "wrong"
        return
    yield "autodiff", "None" if wrong.autodiff is None else number(wrong.autodiff), "wrong"
    yield "finite-difference estimate", number(wrong.difference), "right"
    yield "error bound", number(wrong.bound, 3), ""
    yield "allowed error", number(wrong.allowed, 3), ""
    if wrong.allowed_for:
        yield "allowed for", wrong.allowed_for, ""
    yield "error / allowed", number(excess(wrong), 3), ""
    yield "worst element", element_name(found.graph, wrong.element), ""
    if found.elements:
        mismatches = sum(element.verdict == Verdict.MISMATCH for element in found.elements)
        compared = sum(element.verdict != Verdict.INCONCLUSIVE for element in found.elements)
        yield "wrong elements", f"{mismatches} of {compared}", ""


@dataclass(frozen=True)
class HeatMap:
    """The error over the allowed error of each element of an input: the level of its colour, its text, its title."""

    name: str
    columns: int
    cells: list[tuple[int, str, str]]


def heat_maps(found: GraphFinding) -> Iterator[HeatMap]:
    """One map per input of at least two elements; a complex element takes two cells, real and imaginary part."""
    elements, start = {element.coordinate: element for element in found.elements}, 0
    for name, value in zip(variables(found.graph), found.graph.inputs, strict=False):
        count = coordinate_count(value.shape, value.dtype)
        own = [elements.get(coordinate) for coordinate in range(start, start + count)]
        start += count
        if len(own) > 1 and any(own):
            last = (value.shape or (1,))[-1] * (2 if is_complex(value.dtype) else 1)
            yield HeatMap(name, min(last, WIDEST), [_cell(element) for element in own])


def _cell(element: ElementCheck | None) -> tuple[int, str, str]:
    if element is None:
        return 0, "", "not compared by itself"
    if element.verdict == Verdict.INCONCLUSIVE:
        return 0, "?", "inconclusive"
    ratio = element.excess
    title = f"error {ratio:.3g} times the allowed one"
    if not math.isfinite(ratio):
        return 4, "∞", title
    if ratio <= 1:
        return 1, "✓", title
    return 2 if ratio <= 1e3 else 3 if ratio <= 1e9 else 4, f"{math.floor(math.log10(ratio)):+d}", title


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
            middles = {key: place / max(len(each) - 1, 1) for each in rows for place, key in enumerate(each)}
            row.sort(key=lambda key: sum(middles[other] for other in joined[key]) / max(len(joined[key]), 1))
    sizes = [[widths[key] if isinstance(key, int) else THIN for key in row] for row in rows]
    totals = [sum(row) + GAP_X * (len(row) - 1) for row in sizes]
    boxes = {}
    for layer, (row, wide, total) in enumerate(zip(rows, sizes, totals, strict=True)):
        x, y = MARGIN + (max(totals) - total) / 2, MARGIN + HIGH / 2 + layer * (HIGH + GAP_Y)
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
